//! A core's backlog that overflows: the receiving veth hands its packets to core 1, whose backlog has room for four.

use super::{Bench, Ended, QUAFF, finish, interrupt, run};
use quaff_lab::{ChildProcess, RX};
use quaff_testkit as testing;
use std::fs::{self, File};

const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

/// A small backlog on all cores of the machine; restored at the end, after a panic too.
pub(crate) struct SmallBacklog {
    before: String,
    /// Locked until the setting is restored: of two test binaries at once, the second would restore the small one.
    _lock: File,
}

impl SmallBacklog {
    pub(crate) fn new() -> Self {
        let lock = File::open(BACKLOG).expect("every Linux has it");
        lock.lock().expect("a lock");
        let before = fs::read_to_string(BACKLOG).expect("every Linux has it");
        fs::write(BACKLOG, "4").expect("root may");
        Self { before, _lock: lock }
    }
}

impl Drop for SmallBacklog {
    fn drop(&mut self) {
        let _ = fs::write(BACKLOG, self.before.trim());
    }
}

/// Returns whether there is a second core to spread packets to; skips the test if not.
pub(crate) fn has_second_core(test: &str) -> bool {
    let has = !std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2);
    if !has {
        testing::skip(test, "there is one core only");
    }
    has
}

/// Spreads the packets of rx0 to the cores of `mask` (RPS); 0 for none.
pub(crate) fn spread(bench: &Bench, mask: u32) {
    let script = format!("echo {mask} > /sys/class/net/rx0/queues/rx-0/rps_cpus");
    run(bench.lab.rx.command("sh").expect("a command").args(["-c", &script]));
}

/// A lab whose rx0 hands its packets to the backlog of core 1; `None` after a skip.
pub(crate) fn bench(test: &str) -> Option<Bench> {
    if !has_second_core(test) {
        return None;
    }
    let bench = Bench::new(test, 1 << 28)?;
    spread(&bench, 2);
    Some(bench)
}

/// Sends many frames from tx0 to a small backlog; the report of the sender, and the rise of rx0's `rx_dropped`. The
/// sender notices the drops too, so its exit status is of no interest.
pub(crate) fn overflow(bench: &Bench) -> (Ended, u64) {
    let before = bench.lab.stats(RX).expect("counters").rx_dropped;
    let sent = {
        let _small = SmallBacklog::new();
        let mut generate = bench.lab.tx.command(QUAFF).expect("a command");
        generate.args(["generate", "-o", "tx0", "--size", "64", "--count", "300000", "--cpu", "0", "--json"]);
        finish(ChildProcess::start(generate).expect("quaff runs"))
    };
    (sent, bench.lab.stats(RX).expect("counters").rx_dropped - before)
}

/// Floods what `start` starts until the backlog overflows, and ends it. The rise of rx0's `rx_dropped` meanwhile.
pub(crate) fn flood(bench: &Bench, start: impl FnOnce() -> ChildProcess) -> (Ended, u64) {
    let before = bench.lab.stats(RX).expect("counters").rx_dropped;
    let running = start();
    overflow(bench);
    let ended = interrupt(running);
    let after = bench.lab.stats(RX).expect("counters").rx_dropped;
    (ended, after - before)
}
