//! `quaff verify` on connections of the kernel, over a network that delays, reorders, repeats and loses packets. Both
//! ends capture all that they send and receive, so no loss may be claimed; of captures from which packets were removed
//! the interval must have the true share.
//!
//! ```text
//!    tx0 ──── a0 ═ seg0 ═ c0 ──── c1 ═ impaired link ═ b0 ──── tx1
//!    captured    cuts long segments                            captured
//! ```
//!
//! With offloads on, tx0 sends and both ends receive segments of up to 64 KiB; the bridge seg0 cuts them to the MTU.

use crate::support::draw::Draw;
use crate::support::{QUAFF, folder, interrupt, run, verify};
use quaff_lab::{ChildProcess, FAR, Lab, LabPlan, Layout, MIDDLE_IFS, TX};
use quaff_os::Netns;
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{LinkChange, Rtnl, VethEnd, VethPlan};
use quaff_testkit::impaired_link::{Bucket, Counts, ImpairedLink, ImpairedLinkPlan, Outage, Rules};
use quaff_testkit::{lab_of, skip, space};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const TEST: &str = "connections_of_the_kernel_lose_nothing_that_was_captured";
const MTU: u32 = 1500;
/// The ports of the bridge, and the end of the link after it.
const SEGMENTER: [&str; 3] = ["seg0", "c0", "c1"];
/// Bytes of a bulk transfer, and of one that is slow.
const BULK_BYTES: usize = 900_000;
const SLOW_BYTES: usize = 250_000;
/// Time limit of a read and a write: a retransmission may take seconds.
const WAIT: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

/// A network, and the settings of both hosts.
struct Case {
    name: &'static str,
    rules: Rules,
    /// Below /proc/sys/net/ipv4.
    settings: &'static [(&'static str, &'static str)],
    has_offloads: bool,
}

impl Case {
    fn new(name: &'static str, rules: Rules) -> Self {
        Self { name, rules, settings: &[], has_offloads: false }
    }

    fn set(self, settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { settings, ..self }
    }

    fn offloaded(self) -> Self {
        Self { has_offloads: true, ..self }
    }
}

const NO_SACK: &[(&str, &str)] = &[("tcp_sack", "0")];
const SMALL_WINDOWS: &[(&str, &str)] = &[("tcp_rmem", "4096 8192 16384")];
const NO_TIMESTAMPS: &[(&str, &str)] = &[("tcp_timestamps", "0"), ("tcp_sack", "0")];

fn cases() -> Vec<Case> {
    let hold = |ms: u32| Rules { hold: MS * ms, ..Rules::default() };
    let drop = |drop_every, ms| Rules { drop_every, ..hold(ms) };
    let reorder = |delay_every, ms| Rules { delay_every, delay: MS * ms, ..Rules::default() };
    let all = Rules { drop_every: 61, duplicate_every: 43, delay_every: 7, delay: MS * 4, ..hold(2) };
    let bucket = Bucket { pps: 3000, burst: 10, queue: 40 };
    let outage = Outage { after: MS * 300, lasts: MS * 300 };
    vec![
        Case::new("a direct link", Rules::default()),
        Case::new("delay", hold(5)),
        Case::new("loss", drop(50, 0)),
        Case::new("much loss and delay", drop(23, 4)),
        Case::new("reordering", reorder(9, 3)),
        Case::new("reordering by 150 ms", reorder(120, 150)),
        Case::new("copies", Rules { duplicate_every: 17, ..hold(1) }),
        Case::new("everything", all.clone()),
        Case::new("everything without SACK", all.clone()).set(NO_SACK),
        Case::new("everything without timestamps", all.clone()).set(NO_TIMESTAMPS),
        Case::new("everything with small windows", all.clone()).set(SMALL_WINDOWS),
        Case::new("a full queue", Rules { bucket: Some(bucket), ..hold(1) }),
        Case::new("an outage", Rules { outage: Some(outage), ..hold(2) }),
        Case::new("offloads", hold(1)).offloaded(),
        Case::new("offloads with everything", all.clone()).offloaded(),
        Case::new("offloads with everything without SACK", all).offloaded().set(NO_SACK),
    ]
}

#[test]
fn connections_of_the_kernel_lose_nothing_that_was_captured() {
    let dir = folder();
    if !space(TEST, dir.path(), 1 << 28) {
        return;
    }
    let mut draw = Draw::new();
    let cases = cases().into_iter().map(|case| (case, [0, 1].map(|_| Removal::draw(&mut draw))));
    let (cases, found) = (Mutex::new(cases.collect::<Vec<_>>()), Mutex::new(Vec::new()));
    // Connections wait most of the time, so two networks do not take time from each other.
    std::thread::scope(|scope| {
        for worker in ["one", "other"] {
            let dir = dir.path().join(worker);
            let (cases, found) = (&cases, &found);
            scope.spawn(move || {
                std::fs::create_dir(&dir).expect("a folder");
                while let Some((case, removals)) = next(cases) {
                    let Some(intervals) = intervals(&case, &removals, &dir) else { return };
                    found.lock().unwrap_or_else(PoisonError::into_inner).extend(intervals);
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let misses: Vec<_> = found.iter().filter_map(|interval| interval.as_ref().err()).collect();
    // Of intervals of 95 %, with three deviations of their number.
    assert!(misses.len() * 100 <= found.len() * 11, "{} of {}: {misses:#?}", misses.len(), found.len());
}

fn next<T>(cases: &Mutex<Vec<T>>) -> Option<T> {
    cases.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

/// Captures a case and removes packets from its files: for each way the interval has the true share, or words.
/// `None` after a skip.
fn intervals(case: &Case, removals: &[Removal; 2], dir: &Path) -> Option<Vec<Result<(), String>>> {
    let lab = prepared(case)?;
    let (files, flows, counts) = captured(&lab, case, dir);
    let mut found = Vec::new();
    for (end, (file, removal)) in files.iter().zip(removals).enumerate() {
        let what = format!("{}, end {end}, {counts:?}", case.name);
        assert_lossless(&what, file, flows);
        for (truth, report) in removal.of(file) {
            let [low, high] = ["loss_low", "loss_high"].map(|field| report["tcp"][field].as_f64());
            let (low, high) = (low.expect("evidence"), high.expect("evidence"));
            assert!(high < 0.25, "{what}: {truth} in {low} to {high}: {report}");
            let has_it = low <= truth && truth <= high;
            found.push(has_it.then_some(()).ok_or(format!("{what}: {truth} is not in {low} to {high}")));
        }
        std::fs::remove_file(file).expect("removed");
    }
    Some(found)
}

/// A lab with the path of the case; `None` after a skip.
fn prepared(case: &Case) -> Option<Lab> {
    let plan = LabPlan { mtu: MTU, layout: Layout::Apart, ..LabPlan::default() };
    let lab = lab_of(TEST, &plan)?;
    let mid = lab.mid.as_ref().expect("a middle");
    mid.run(|| join_segmenter(mid)).expect("entered").expect("a bridge");
    for (netns, end) in [(&lab.tx, TX), (far(&lab), FAR)] {
        for (key, value) in case.settings {
            let path = format!("/proc/sys/net/ipv4/{key}");
            netns.run(|| std::fs::write(&path, value)).expect("entered").expect("a setting of TCP");
        }
        if !case.has_offloads {
            continue;
        }
        // The impaired link takes no frame beyond the MTU: only tx0 has a bridge that cuts them.
        let sending = if end == TX { &["tx", "on", "sg", "on", "tso", "on", "gso", "on"][..] } else { &[] };
        let mut ethtool = netns.command("ethtool").expect("a command");
        let status = ethtool.args(["-K", end.name, "gro", "on"]).args(sending).status();
        if !status.is_ok_and(|status| status.success()) {
            skip(TEST, "there is no ethtool to switch offloads on with");
            return None;
        }
    }
    Some(lab)
}

fn far(lab: &Lab) -> &Netns {
    lab.far.as_ref().expect("a second end")
}

/// A bridge that cuts the long segments of tx0, in the namespace in the middle.
fn join_segmenter(mid: &Netns) -> quaff_os::Result<()> {
    let [bridge, near, out] = SEGMENTER;
    let mut rtnl = Rtnl::open()?;
    rtnl.create_bridge(bridge)?;
    let end = |name, number| VethEnd { name, netns: mid.as_fd(), mac: [2, 0, 0, 0, 9, number] };
    rtnl.create_veth(&VethPlan { ends: [end(near, 1), end(out, 2)], mtu: MTU, queues: 1 })?;
    let bridge = rtnl.link(bridge)?.index;
    for port in [MIDDLE_IFS[0], near] {
        let index = rtnl.link(port)?.index;
        rtnl.change(index, LinkChange::Bridge(bridge))?;
    }
    for name in SEGMENTER {
        let index = rtnl.link(name)?.index;
        if index != bridge {
            Card::change(name, Change::OffloadsOff)?;
        }
        rtnl.change(index, LinkChange::Up(true))?;
    }
    Ok(())
}

/// Captures the conversations of a case at both ends. The two files, the number of connections, and the counters of the
/// network.
fn captured(lab: &Lab, case: &Case, dir: &Path) -> ([String; 2], u64, [Counts; 2]) {
    let mid = lab.mid.as_ref().expect("a middle");
    let plan = ImpairedLinkPlan { there: case.rules.clone(), back: case.rules.clone(), core: None };
    let link = ImpairedLink::start(mid, [SEGMENTER[2], MIDDLE_IFS[1]], &plan).expect("it starts");
    let files = ["near", "far"].map(|name| dir.join(format!("{name}.pcapng")).display().to_string());
    let is_over = AtomicBool::new(false);
    // It begins before the captures and ends after them.
    let old = connect(lab);
    std::thread::scope(|scope| {
        scope.spawn(|| talk_until(&is_over, &old));
        let over = SetOnDrop(&is_over);
        let running = [(&lab.tx, TX), (far(lab), FAR)].into_iter().zip(&files);
        let running: Vec<_> = running.map(|((netns, end), file)| capture(netns, end.name, file)).collect();
        std::thread::scope(|talks| {
            for talk in TALKS {
                talks.spawn(move || talk.hold(lab));
            }
        });
        for one in running {
            let ended = interrupt(one);
            assert_eq!(
                (ended.code, &ended.json["lossless"]),
                (0, &true.into()),
                "{}: {}",
                case.name,
                ended.json
            );
        }
        drop(over);
    });
    (files, TALKS.len() as u64 + 1, link.stop().expect("it worked"))
}

fn capture(netns: &Netns, interface: &str, file: &str) -> ChildProcess {
    let mut command = netns.command(QUAFF).expect("a command");
    command.args(["capture", "-i", interface, "--json", "-w", file, "--ring", "32M", "--buffer", "64M"]);
    let mut running = ChildProcess::start(command).expect("quaff runs");
    assert!(running.hears("capturing", WAIT), "{}", running.heard);
    running
}

fn assert_lossless(what: &str, file: &str, flows: u64) {
    let report = verify(&[file]);
    let tcp = &report["tcp"];
    let of = |field: &str| tcp[field].as_u64().unwrap_or_else(|| panic!("{field}: {report}"));
    assert_eq!((&report["complete"], &report["judged"]), (&true.into(), &true.into()), "{what}: {report}");
    let claims = [
        "acked_unseen_bytes",
        "acked_unseen_runs",
        "acked_unseen_packets_estimate",
        "fins_unseen",
        "syns_unseen",
    ];
    assert_eq!(claims.map(of), [0; 5], "{what}: {report}");
    // Data that were on their way when a connection was reset may look like those of another one.
    assert!((flows..=flows + 1).contains(&of("flows")), "{what}: {report}");
    assert_eq!((of("set_aside"), of("leaps_confirmed")), (0, 0), "{what}: {report}");
    // The connection that began before has evidence after a second, if the case takes that long; one that is reset may
    // have none.
    assert!(of("flows_with_evidence") >= flows - 2, "{what}: {report}");
    assert_eq!((&tcp["loss_ratio"], &tcp["loss_low"]), (&0.0.into(), &0.0.into()), "{what}: {report}");
    assert!(tcp["loss_high"].as_f64().is_some_and(|high| high < 0.01), "{what}: {report}");
    let words = report["verdict"].as_str().expect("a verdict");
    assert!(words.starts_with("complete as far as can be known ("), "{what}: {report}");
}

/// Several ways to remove packets from a file.
struct Removal {
    /// The loss to inject, and its seed.
    injected: [(&'static str, u64); 4],
    /// One of 32 packets of each direction of each connection: the hosts count them in the IP header.
    number: u64,
}

impl Removal {
    fn draw(draw: &mut Draw) -> Self {
        let injected = ["0.5", "2", "5", "2,6"].map(|loss| (loss, draw.between(1, 1 << 40)));
        Self { injected, number: draw.between(0, 31) }
    }

    /// The share that is missing, which is known, and the report on the rest.
    fn of(&self, file: &str) -> Vec<(f64, Value)> {
        let mut found = Vec::new();
        for (loss, seed) in self.injected {
            let report = verify(&["--inject-loss", loss, "--seed", &seed.to_string(), file]);
            found.push((report["tcp"]["injected"]["ratio"].as_f64().expect("a ratio"), report));
        }
        found.push(without_one_of_32(file, self.number));
        found
    }
}

fn without_one_of_32(file: &str, number: u64) -> (f64, Value) {
    let cut = format!("{file}.cut");
    let filter = format!("not (ip[5] & 0x1f = {number})");
    run(Command::new(QUAFF).args(["capture", "--read", file, "-f", &filter, "-w", &cut]));
    let [all, report] = [file, &cut].map(|file| verify(&[file]));
    let [all, kept] = [&all, &report].map(|report| report["frames"].as_f64().expect("a number"));
    std::fs::remove_file(cut).expect("removed");
    (1.0 - kept / all, report)
}

/// A conversation between a client and a server.
#[derive(Debug, Clone, Copy)]
enum Talk {
    Upload,
    Download,
    BothWays,
    /// Requests and answers in turn.
    Turns,
    /// Many short writes.
    Short,
    /// The receiver reads late: its window closes.
    Slow,
    /// The server closes before it has read all: it resets the connection.
    Reset,
}

const TALKS: [Talk; 8] = [
    Talk::Upload,
    Talk::Upload,
    Talk::Download,
    Talk::BothWays,
    Talk::Turns,
    Talk::Short,
    Talk::Slow,
    Talk::Reset,
];

/// A client at tx0 and its server at tx1.
fn connect(lab: &Lab) -> [TcpStream; 2] {
    let listener = far(lab).run(|| TcpListener::bind((FAR.ip, 0))).expect("entered").expect("a port");
    let address = listener.local_addr().expect("its address");
    let client = lab.tx.run(|| TcpStream::connect(address)).expect("entered").expect("connected");
    let (server, _) = listener.accept().expect("accepted");
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(WAIT)).expect("set");
        stream.set_write_timeout(Some(WAIT)).expect("set");
    }
    [client, server]
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 31 + at / 256) as u8).collect()
}

fn write(mut stream: &TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("written");
}

/// Sends so many bytes, and ends the direction.
fn send(stream: &TcpStream, count: usize) {
    write(stream, &bytes(count));
    stream.shutdown(Shutdown::Write).expect("ended");
}

/// Receives to the end, which must be that of so many bytes.
fn receive(mut stream: &TcpStream, count: usize) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("read");
    assert!(all == bytes(count), "{} of {count} bytes", all.len());
}

/// Writes `count` bytes at one end and reads them at the other.
fn pass(from: &TcpStream, mut to: &TcpStream, count: usize) {
    write(from, &bytes(count));
    to.read_exact(&mut vec![0; count]).expect("read");
}

impl Talk {
    fn hold(self, lab: &Lab) {
        let [client, server] = connect(lab);
        if let Self::Reset = self {
            return reset(client, server);
        }
        let (client, server) = (&client, &server);
        match self {
            Self::Upload => at_once(|| send(client, BULK_BYTES), || receive(server, BULK_BYTES)),
            Self::Download => at_once(|| send(server, BULK_BYTES), || receive(client, BULK_BYTES)),
            Self::BothWays => at_once(
                || at_once(|| send(client, BULK_BYTES / 3), || receive(client, BULK_BYTES / 4)),
                || at_once(|| send(server, BULK_BYTES / 4), || receive(server, BULK_BYTES / 3)),
            ),
            Self::Turns => (1..25).for_each(|turn| {
                pass(client, server, turn * 37);
                pass(server, client, turn * turn * 17);
            }),
            Self::Short => {
                client.set_nodelay(true).expect("set");
                at_once(
                    || bytes(SLOW_BYTES).chunks(300).for_each(|one| write(client, one)),
                    || {
                        server.take(SLOW_BYTES as u64).read_to_end(&mut Vec::new()).expect("read");
                    },
                );
            }
            Self::Slow | Self::Reset => at_once(
                || send(client, SLOW_BYTES),
                || {
                    std::thread::sleep(MS * 400);
                    receive(server, SLOW_BYTES);
                },
            ),
        }
    }
}

fn reset(mut client: TcpStream, mut server: TcpStream) {
    std::thread::scope(|scope| {
        // It fails when the reset comes.
        scope.spawn(move || client.write_all(&bytes(SLOW_BYTES)).is_err());
        server.read_exact(&mut [0; 10_000]).expect("read");
        drop(server);
    });
}

fn at_once(one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(one);
        other();
    });
}

/// Ends a thread that would never end, after a panic too.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        // A flag alone: its reader reads nothing else after it.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Requests and answers until the flag is set.
fn talk_until(is_over: &AtomicBool, [client, server]: &[TcpStream; 2]) {
    while !is_over.load(Ordering::Relaxed) {
        pass(client, server, 4000);
        pass(server, client, 700);
        std::thread::sleep(MS * 3);
    }
}
