//! Shared by tests with real packets: a lab, the real binary in it, and its ledger.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod backlog;
pub(crate) mod canary;
pub(crate) mod disk;
pub(crate) mod draw;
pub(crate) mod line;
pub(crate) mod memory;
pub(crate) mod packets;

use quaff_lab::{ChildProcess, Lab, LabPlan};
use quaff_os::bpf::ArrayMap;
use quaff_os::rtnl::{self, LinkChange, Rtnl, VethEnd, VethPlan};
use quaff_os::{Netns, Signal};
use quaff_testkit as testing;
use serde_json::Value;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
/// Longer than anything here takes, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The buffer of a capture that names none. By default it would be a quarter of the free memory, which takes half a
/// second to populate and longer to free.
const BUFFER: [&str; 2] = ["--buffer", "256M"];

/// Waits for the exclusive use of the machine: two labs at full speed on two cores would take CPU time from each other.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lab on a kernel that also permits BPF, or a skip.
pub(crate) fn bpf_lab(test: &str, plan: &LabPlan) -> Option<Lab> {
    match ArrayMap::new("quaff_test", 1) {
        Err(error) if quaff_os::testing::is_refusal(&error) => {
            testing::skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
        Ok(_) => testing::lab_of(test, plan),
    }
}

/// A lab, a folder on a real disk, and the machine to oneself.
pub(crate) struct Bench {
    pub(crate) lab: Lab,
    pub(crate) dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The exit of a command, and its JSON.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

/// `quaff capture ARGS --json` to its end.
pub(crate) fn capture(args: &[&str]) -> Ended {
    let done = Command::new(QUAFF).arg("capture").args(args).arg("--json").output().expect("quaff runs");
    Ended {
        code: done.status.code().unwrap_or(-1),
        json: serde_json::from_slice(&done.stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// The [`Bench`] of the test that it stands in, with room for these bytes; a second argument is the plan of the lab.
/// The test returns after a skip if this machine permits no lab or has no room.
macro_rules! lab_bench {
    ($bytes:expr) => {
        $crate::support::lab_bench!($bytes, &quaff_lab::LabPlan::default())
    };
    ($bytes:expr, $plan:expr) => {
        match $crate::support::Bench::of(quaff_testkit::test_name!(), $bytes, $plan) {
            Some(bench) => bench,
            None => return,
        }
    };
}
pub(crate) use lab_bench;

impl Bench {
    /// `None` after a skip that says why. `bytes` is the room that the test needs on the disk.
    pub(crate) fn new(test: &str, bytes: u64) -> Option<Self> {
        Self::of(test, bytes, &LabPlan::default())
    }

    /// As [`Bench::new`], on another lab.
    pub(crate) fn of(test: &str, bytes: u64, plan: &LabPlan) -> Option<Self> {
        let turn = alone();
        let lab = testing::lab_of(test, plan)?;
        let dir = folder();
        testing::space(test, dir.path(), bytes).then_some(Self { lab, dir, _turn: turn })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// `quaff ARGS` in the receiving namespace.
    pub(crate) fn quaff(&self, args: &[&str]) -> Command {
        let mut command = self.lab.rx.command(QUAFF).expect("a command in the lab");
        command.args(args);
        command
    }

    /// `quaff capture -i rx0 ARGS --json`, ready for the first packet, with a buffer that is enough for 256 MB.
    pub(crate) fn capture(&self, args: &[&str]) -> ChildProcess {
        let has_own = args.iter().any(|arg| arg.starts_with(BUFFER[0]));
        let buffer = if has_own { &[][..] } else { &BUFFER };
        self.capture_by_default(&[args, buffer].concat())
    }

    /// The same with the buffer that quaff chooses, for what comes faster than a disk may be.
    pub(crate) fn capture_by_default(&self, args: &[&str]) -> ChildProcess {
        let mut all = vec!["capture", "-i", "rx0", "--json"];
        all.extend(args);
        let mut running = ChildProcess::start(self.quaff(&all)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    }

    /// `quaff generate --inject rx0 ARGS --json`, to its end.
    pub(crate) fn generate(&self, args: &str) -> Value {
        let mut all = vec!["generate", "--inject", "rx0", "--json"];
        all.extend(args.split_whitespace());
        let ended = finish(ChildProcess::start(self.quaff(&all)).expect("quaff runs"));
        assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
        assert_eq!(ended.json["sent"], ended.json["confirmed"], "{}", ended.json);
        ended.json
    }

    /// Sends 10,000 frames of 1500 bytes of each of `streams` streams, each as soon as the folder `disk` has those
    /// before the last ones: a capture with small buffers loses none of them, whatever the speed of the disk.
    pub(crate) fn generate_for_disk(&self, disk: &Path, streams: u64) {
        const FRAMES: u64 = 10_000;
        let begun = Instant::now();
        let bytes = || -> u64 {
            let files = std::fs::read_dir(disk).expect("a folder").flatten();
            files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
        };
        for stream in 1..=streams {
            while bytes() < stream.saturating_sub(2) * FRAMES * 1500 {
                assert!(begun.elapsed() < PATIENCE, "the disk has {} bytes before stream {stream}", bytes());
                std::thread::sleep(Duration::from_millis(20));
            }
            self.generate(&format!("--size 1500 --count {FRAMES} --pps 25000 --stream {stream}"));
        }
    }

    /// A second link between the two ends of the lab, from tx1 to rx1.
    pub(crate) fn add_link(&self) {
        link(&self.lab, ["tx1", "rx1"], 1);
    }

    /// Captures what one generator sends, then ends the capture.
    pub(crate) fn capture_of(&self, capture: &[&str], generate: &str) -> Ended {
        let running = self.capture(capture);
        self.generate(generate);
        interrupt(running)
    }
}

/// Adds link `number` between the two ends of a lab, and waits until it is up. `names` are of the sending and the
/// receiving end.
pub(crate) fn link(lab: &Lab, names: [&str; 2], number: u8) {
    link_between([(&lab.tx, names[0]), (&lab.rx, names[1])], lab.mtu, number);
}

/// The same, between any two namespaces.
pub(crate) fn link_between(ends: [(&Netns, &str); 2], mtu: u32, number: u8) {
    let mac = |last| [2, 0, 0, 0, number, last];
    let [one, other] = ends;
    let veth = [
        VethEnd { name: one.1, netns: one.0.as_fd(), mac: mac(1) },
        VethEnd { name: other.1, netns: other.0.as_fd(), mac: mac(2) },
    ];
    Rtnl::open().unwrap().create_veth(&VethPlan { ends: veth, mtu, queues: 1 }).unwrap();
    for (netns, name) in ends {
        let up = || {
            Rtnl::open().and_then(|mut rtnl| {
                rtnl.link(name).and_then(|link| rtnl.change(link.index, LinkChange::Up(true)))
            })
        };
        netns.run(up).unwrap().unwrap();
    }
    let begun = Instant::now();
    while !one.0.run(|| rtnl::link(one.1).unwrap().running).unwrap() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Changes the number of queues of an interface, as `ethtool -L ARGS`; returns whether the kernel has done it.
pub(crate) fn set_queues(netns: &Netns, args: &str) -> bool {
    let mut command = netns.command("ethtool").expect("a command");
    command.arg("-L").args(args.split(' ')).output().expect("it runs").status.success()
}

/// As [`set_queues`], as soon as the kernel does it: it lets go of the queue of a closed AF_XDP socket a while after
/// the process has ended (`xp_put_pool`), and refuses to take the queue away until then.
pub(crate) fn set_free_queues(netns: &Netns, args: &str) {
    let begun = Instant::now();
    while !set_queues(netns, args) {
        assert!(begun.elapsed() < PATIENCE, "ethtool -L {args} is refused");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends 1000 frames from tx0 by each of two cores. A frame leaves by the queue of the core that sends it, and
/// arrives by the same.
pub(crate) fn send_by_each_core(lab: &Lab) {
    for core in ["0", "1"] {
        let mut command = lab.tx.command(QUAFF).expect("a command");
        command.args(["generate", "-o", "tx0", "--cpu", core]);
        run(command.args(["--size", "64", "--pps", "20000", "--count", "1000"]));
    }
}

/// Waits until all of the buffer of a capture or a split is resident, by its progress lines.
pub(crate) fn wait_until_resident(running: &mut ChildProcess) {
    let started = Instant::now();
    let is_ready = |line: &str| line.contains("lost:") && !line.contains("MiB ready");
    while !running.heard.lines().any(is_ready) {
        assert!(started.elapsed() < PATIENCE, "{}", running.heard);
        running.signal(Signal::SIGUSR1).expect("it runs");
        std::thread::sleep(Duration::from_millis(50));
        running.hears("lost:", PATIENCE);
    }
}

/// Asserts that `quaff bench`, process `pid`, has left no lab and no process.
#[track_caller]
pub(crate) fn assert_bench_is_gone(pid: u32) {
    assert!(Lab::list().expect("a list").iter().all(|lab| lab.pid != pid), "its lab is gone");
    // A process that was started for a run carries a mark; it may take a moment to be gone.
    let end = Instant::now() + Duration::from_secs(5);
    while !started_by(pid).is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(started_by(pid).is_empty(), "{:?} still run", started_by(pid));
}

/// Processes that `quaff bench`, process `pid`, started for its runs.
fn started_by(pid: u32) -> Vec<String> {
    let mark = format!("QUAFF_LAB_RUN={pid}.");
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let is_marked = |path: &std::path::PathBuf| {
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|word| word.starts_with(mark.as_bytes()))
    };
    processes.map(|entry| entry.path()).filter(is_marked).map(|path| path.display().to_string()).collect()
}

/// A folder on the disk that holds the build, which is a real one.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Asks a command to end, as ^C would, and waits.
pub(crate) fn interrupt(running: ChildProcess) -> Ended {
    running.signal(Signal::SIGINT).expect("it runs");
    finish(running)
}

/// Waits for a command that ends by itself.
pub(crate) fn finish(running: ChildProcess) -> Ended {
    finish_within(running, PATIENCE)
}

/// The same, for a command that may take longer than [`PATIENCE`].
pub(crate) fn finish_within(running: ChildProcess, wait: Duration) -> Ended {
    let done = running.finish(wait).expect("it ends");
    let json = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    Ended { code: done.status.code().unwrap_or(-1), json, stderr: done.stderr }
}

/// `quaff verify --json ARGS`.
pub(crate) fn verify(args: &[&str]) -> Value {
    let done = Command::new(QUAFF).args(["verify", "--json"]).args(args).output().expect("quaff runs");
    serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)))
}

/// Asserts that a capture kept everything, and that its file holds exactly `count` stamped frames.
#[track_caller]
pub(crate) fn assert_lossless(ended: &Ended, file: &str, count: u64) {
    let ledger = &ended.json;
    assert_eq!(ended.code, 0, "{ledger} {}", ended.stderr);
    assert_eq!(ledger["lossless"], true, "{ledger}");
    assert_eq!(ledger["written"], count, "{ledger}");
    let found = verify(&[file]);
    assert_eq!((&found["received"], &found["complete"]), (&count.into(), &true.into()), "{found}");
}

/// The tool, or `None` after a skip.
pub(crate) fn tool(test: &str, name: &str) -> Option<Command> {
    let is_there = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
    if is_there.is_ok_and(|found| found.status.success()) {
        return Some(Command::new(name));
    }
    testing::skip(test, &format!("{name} is not installed"));
    None
}

/// Runs a command that must succeed; its stdout.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let done = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The names in a folder, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().unwrap()).collect();
    // The lock of a folder, which is there while it is written.
    names.retain(|name| !name.starts_with(".quaff-lock"));
    names.sort();
    names
}

/// Files of a folder that are ours, with their paths.
pub(crate) fn ours(dir: &Path) -> Vec<String> {
    let is_ours = |name: &String| name != "lost+found";
    names(dir).into_iter().filter(is_ours).map(|name| dir.join(name).display().to_string()).collect()
}

/// Runs a command line that must be refused; its words.
#[track_caller]
pub(crate) fn fails(bench: &Bench, args: &[&str]) -> String {
    let done = bench.quaff(args).output().expect("quaff runs");
    assert_eq!(done.status.code(), Some(2), "{args:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// The processes below `pid`: number and name.
pub(crate) fn below(pid: u32) -> Vec<(u32, String)> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().map(|child| child.parse::<u32>().expect("a number"));
    children
        .flat_map(|child| {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            std::iter::once((child, name.trim().to_owned())).chain(below(child))
        })
        .collect()
}
