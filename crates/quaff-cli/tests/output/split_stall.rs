//! One of four members of a split stands still: the other three lose nothing, and get each packet within the flush
//! interval. Their readers measure that.

use crate::support::canary::Canary;
use crate::support::{Bench, PATIENCE, interrupt, run};
use quaff_lab::ChildProcess;
use quaff_os::clock::wall_ns;
use quaff_wire::decode::{Decoder, Item, Step};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

const TEST: &str = "one_of_four_members_that_stands_still_makes_no_other_late";
/// Time for which the member stands still, s: `QUAFF_STALL`; `make soak` waits for 30.
const STALL_SECONDS: u64 = 5;
const MEMBERS: usize = 4;
const PPS: u64 = 40_000;
/// Time before the stall and after it, s.
const AROUND_SECONDS: u64 = 1;
/// The flush interval of a split, and twice the time after which the kernel hands over a block that is not full.
const FLUSH: Duration = Duration::from_millis(200 + 2 * 50);
/// Time that the lane, a writer and a reader may need together when each has a core.
const WORK: Duration = Duration::from_millis(50);
/// Threads on the way of a packet that may have to wait for a core, one after the other: the kernel's timer of the
/// ring, the lane, the writer, the reader.
const WAITS: u32 = 4;

/// The packets that a reader received.
#[derive(Debug, Default)]
struct Received {
    count: u64,
    /// The longest time from the capture of a packet to its arrival at the reader, ns.
    late_ns: u64,
}

fn stall() -> Duration {
    let given = std::env::var("QUAFF_STALL").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(given.unwrap_or(STALL_SECONDS))
}

/// Reads packets from a named pipe to its end, and notes their lateness. While `stands_still` it reads nothing.
fn read(path: &str, stands_still: &AtomicBool) -> Received {
    let mut pipe = File::open(path).unwrap();
    let (mut decoder, mut received) = (Decoder::default(), Received::default());
    let (mut waiting, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        // Nothing else is published through it.
        while stands_still.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let len = pipe.read(&mut piece).unwrap();
        if len == 0 {
            assert!(waiting.is_empty(), "{path} ends within a block");
            return received;
        }
        let now_ns = wall_ns();
        waiting.extend_from_slice(&piece[..len]);
        let mut rest = &waiting[..];
        while let Step::Item(item) = decoder.next(&mut rest).expect("a good stream") {
            if let Item::Frame(frame) = item {
                received.count += 1;
                received.late_ns = received.late_ns.max(now_ns.saturating_sub(frame.time_ns));
            }
        }
        let used = waiting.len() - rest.len();
        waiting.drain(..used);
    }
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    path: String,
    stands_still: &'scope AtomicBool,
) -> ScopedJoinHandle<'scope, Received> {
    scope.spawn(move || read(&path, stands_still))
}

/// A split into four named pipes, of which the first is not read for a while. Asserts all counts; returns the longest
/// lateness at the other three, ns.
fn longest_wait(bench: &Bench) -> u64 {
    let pipes: Vec<String> = (1..=MEMBERS).map(|number| bench.path(&format!("pipe-{number}"))).collect();
    pipes.iter().for_each(|pipe| drop(run(Command::new("mkfifo").arg(pipe))));
    let (still, reads) = (AtomicBool::new(false), AtomicBool::new(false));
    let (ended, received) = std::thread::scope(|scope| {
        let readers: Vec<_> = pipes
            .iter()
            .enumerate()
            .map(|(number, pipe)| start(scope, pipe.clone(), if number == 0 { &still } else { &reads }))
            .collect();
        let mut args = vec!["split", "-i", "rx0", "--json", "--ring", "32M", "--buffer", "16M"];
        pipes.iter().for_each(|pipe| args.extend(["-w", pipe]));
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(AROUND_SECONDS));
            still.store(true, Ordering::Relaxed);
            std::thread::sleep(stall());
            still.store(false, Ordering::Relaxed);
        });
        let count = PPS * (stall().as_secs() + 2 * AROUND_SECONDS);
        bench.generate(&format!("--size 600 --flows 256 --pps {PPS} --count {count}"));
        let ended = interrupt(running);
        assert_eq!(ended.json["in"], count, "{} {}", ended.json, ended.stderr);
        (ended, readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>())
    });
    pipes.iter().for_each(|pipe| std::fs::remove_file(pipe).unwrap());
    let report = &ended.json;
    let of = |member: &Value, field: &str| member[field].as_u64().unwrap();
    for (member, received) in report["members"].as_array().unwrap().iter().zip(&received) {
        assert_eq!(of(member, "written"), received.count, "{report}");
        assert_eq!(of(member, "packets"), received.count + of(member, "lost"), "{report}");
        assert!(received.count > 0 && member["gone"].is_null(), "{report}");
    }
    let lost: Vec<_> =
        report["members"].as_array().unwrap().iter().map(|member| of(member, "lost")).collect();
    assert!(lost[0] > 0 && lost[1..] == [0; MEMBERS - 1], "{lost:?}: {report}");
    assert_eq!((ended.code, of(&report["skipped_by"], "lost"), of(report, "skipped")), (1, lost[0], lost[0]));
    received[1..].iter().map(|received| received.late_ns).max().unwrap()
}

#[test]
fn one_of_four_members_that_stands_still_makes_no_other_late() {
    let Some(bench) = Bench::new(TEST, 1 << 20) else { return };
    let canary = Canary::on_cores();
    let late = Duration::from_nanos(longest_wait(&bench));
    let noise = canary.stop();
    assert!(
        late <= FLUSH + WORK + WAITS * noise,
        "{late:?} late; a thread waited {noise:?} for a core at most"
    );
}
