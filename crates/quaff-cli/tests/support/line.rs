//! The line of the tests of `quaff tap`: two ends of a lab, a namespace with the two ports between them, and what the
//! ends and the record have of it. It never changes a port of the tap.

use super::memory::MemoryGroup;
use super::{Ended, PATIENCE, QUAFF, bpf_lab, finish_within, folder, interrupt, run, tool, verify};
use quaff_file::read::CaptureFile;
use quaff_lab::{ChildProcess, FAR, Lab, LabEnd, LabPlan, Layout, MIDDLE_IFS, TX};
use quaff_os::Netns;
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_testkit as testing;
use quaff_wire::decode::{Frame, Item};
use serde_json::Value;
use std::path::Path;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const A: &str = MIDDLE_IFS[0];
pub(crate) const B: &str = MIDDLE_IFS[1];
/// The parts of the kernel that forward.
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const XDP: &str = "xdp";
/// Longer than a sender takes in any test.
const SENDING_MAX: Duration = Duration::from_secs(1200);

/// Two ends, and between them a namespace with the two ports of a tap.
pub(crate) struct Line {
    pub(crate) lab: Lab,
    pub(crate) dir: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Line {
    /// A line on which the kernel forwards. `None` after a skip that says why.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::by(test, KERNEL)
    }

    /// A line for that part of the kernel.
    pub(crate) fn by(test: &str, forward: &str) -> Option<Self> {
        Self::of(test, forward, &LabPlan::default(), 2 << 30)
    }

    /// A line with the MTU of a plan, and `bytes` of room on the disk. With XDP its ends take frames that a program
    /// sends them, as the ends of a wire do: a veth needs GRO for that.
    pub(crate) fn of(test: &str, forward: &str, plan: &LabPlan, bytes: u64) -> Option<Self> {
        for name in ["ip", "tc", "ethtool"] {
            tool(test, name)?;
        }
        let turn = super::alone();
        let lab = bpf_lab(test, &LabPlan { layout: Layout::Apart, ..plan.clone() })?;
        let line = Self { lab, dir: folder(), _turn: turn };
        if forward == XDP {
            line.set_gro("on");
        }
        testing::space(test, line.dir.path(), bytes).then_some(line)
    }

    pub(crate) fn set_gro(&self, to: &str) {
        for (netns, end) in [(&self.lab.tx, TX), (self.far(), FAR)] {
            run(netns.command("ethtool").expect("a command").args(["-K", end.name, "gro", to]));
        }
    }

    pub(crate) fn mid(&self) -> &Netns {
        self.lab.mid.as_ref().expect("a middle")
    }

    pub(crate) fn far(&self) -> &Netns {
        self.lab.far.as_ref().expect("another end")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// `quaff ARGS` in a namespace.
    pub(crate) fn quaff(&self, netns: &Netns, args: &[&str]) -> ChildProcess {
        let mut command = netns.command(QUAFF).expect("a command in the lab");
        command.args(args);
        ChildProcess::start(command).expect("quaff runs")
    }

    /// `quaff tap a0 b0 ARGS --json`, recording into the folder `rec`.
    pub(crate) fn tap(&self, args: &[&str]) -> ChildProcess {
        self.tap_with("128M", args)
    }

    /// The same, with a ring of a size.
    pub(crate) fn tap_with(&self, ring: &str, args: &[&str]) -> ChildProcess {
        self.tap_in(None, &[&["--ring", ring, "--buffer", "512M"], args].concat())
    }

    /// The same, with the memory that `args` give it, in a group of processes if there is one.
    pub(crate) fn tap_in(&self, group: Option<&MemoryGroup>, args: &[&str]) -> ChildProcess {
        let rec = self.path("rec");
        std::fs::create_dir_all(&rec).expect("a folder");
        let mut command = self.mid().command(group.map_or(QUAFF, |_| "sh")).expect("a command in the lab");
        if let Some(group) = group {
            group.wait_in(&mut command);
            command.arg(QUAFF);
        }
        command.args(["tap", A, B, "--dir", &rec, "--json"]).args(args);
        let mut running = ChildProcess::start(command).expect("quaff runs");
        group.into_iter().for_each(|group| group.admit(running.pid()));
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    }

    /// A capture of what an end receives.
    pub(crate) fn end(&self, netns: &Netns, interface: &str, file: &str) -> ChildProcess {
        let file = self.path(file);
        let args = ["capture", "--json", "--incoming", "-i", interface, "-w", &file, "--ring", "128M"];
        let mut running = self.quaff(netns, &[&args[..], &["--buffer", "256M"]].concat());
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    }

    /// Sends `count` frames of 64 to 1518 bytes from both ends at once.
    pub(crate) fn send_both(&self, count: u64, pps: u64) -> [ChildProcess; 2] {
        let args = format!("--size 64-1518 --count {count} --pps {pps}");
        self.send_both_as([&args, &args])
    }

    /// `quaff generate ARGS` from both ends at once, each as a stream of its own.
    pub(crate) fn send_both_as(&self, args: [&str; 2]) -> [ChildProcess; 2] {
        let ends = [(&self.lab.tx, TX, "1"), (self.far(), FAR, "2")];
        [0, 1].map(|at: usize| {
            let (netns, end, stream) = ends[at];
            let own = ["generate", "--json", "-o", end.name, "--stream", stream];
            self.quaff(netns, &[&own[..], &args[at].split(' ').collect::<Vec<_>>()].concat())
        })
    }

    /// Frames that each end has received from the other one, by the counters of the links: of the direction from
    /// [`TX`], and back.
    pub(crate) fn arrived(&self) -> [u64; 2] {
        [FAR, TX].map(|end: LabEnd| self.lab.stats(end).expect("counters").rx_packets)
    }

    /// Waits until `frames` have arrived at each end since both had `before`.
    pub(crate) fn wait_for(&self, before: [u64; 2], frames: u64) {
        let begun = Instant::now();
        while self.arrived().iter().zip(before).any(|(now, before)| now - before < frames) {
            assert!(
                begun.elapsed() < PATIENCE,
                "the line has stopped: {:?} after {before:?}",
                self.arrived()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A command in the middle; its stdout.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let mut command = self.mid().command(words.next().expect("a word")).expect("a command");
        run(command.args(words))
    }

    /// All that a tap may change on the ports, as other programs show it.
    pub(crate) fn settings(&self) -> String {
        let of = |port: &str| {
            let ipv6 = format!("/proc/sys/net/ipv6/conf/{port}/disable_ipv6");
            let ipv6 =
                self.mid().run(|| std::fs::read_to_string(&ipv6).unwrap_or_default()).expect("entered");
            self.run(&format!("ip -d link show {port}"))
                + &self.run(&format!("tc qdisc show dev {port}"))
                + &self.run(&format!("tc filter show dev {port} ingress"))
                + &self.run(&format!("ethtool -k {port}"))
                + &ipv6
        };
        // Indices of qdiscs and of neighbours are not in them.
        of(A) + &of(B)
    }

    pub(crate) fn set_up(&self, netns: &Netns, interface: &str, up: bool) {
        let change = || {
            let mut rtnl = Rtnl::open()?;
            let index = rtnl.link(interface)?.index;
            rtnl.change(index, LinkChange::Up(up))
        };
        netns.run(change).expect("entered").expect("changed");
    }
}

/// Walks through the frames of a file, in their order.
pub(crate) fn each_frame(file: &str, mut each: impl FnMut(&Frame<'_>)) {
    let mut capture = CaptureFile::open(Path::new(file)).expect("a capture");
    let mut take = |item: Item<'_>| {
        if let Item::Frame(frame) = item {
            each(&frame);
        }
    };
    while capture.pull(&mut take).expect("whole blocks") {}
}

/// The frames of an interface of a file.
pub(crate) fn frames(file: &str, interface: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    each_frame(file, |frame| {
        if frame.interface == interface {
            all.push(frame.data.to_vec());
        }
    });
    all
}

/// The losses recorded before each frame of a file.
pub(crate) fn dropcounts(file: &str) -> Vec<u64> {
    let mut all = Vec::new();
    each_frame(file, |frame| all.push(frame.dropcount));
    all
}

/// The named counts of a direction.
pub(crate) fn counts(direction: &Value) -> [u64; 5] {
    ["received", "recorded", "lost", "forwarded", "forward_dropped"]
        .map(|name| direction[name].as_u64().unwrap_or_else(|| panic!("{name} of {direction}")))
}

/// Asserts that both directions have `count` frames, none lost and none dropped.
#[track_caller]
pub(crate) fn assert_clean(ended: &Ended, count: u64) {
    let directions = ended.json["directions"].as_array().unwrap_or_else(|| panic!("{}", ended.stderr));
    for (direction, [from, to]) in directions.iter().zip([[A, B], [B, A]]) {
        assert_eq!((&direction["from"], &direction["to"]), (&from.into(), &to.into()), "{direction}");
        assert_eq!(counts(direction), [count, count, 0, count, 0], "{direction} {}", ended.stderr);
        assert_eq!(
            (&direction["unrecorded"], &direction["host_sent"]),
            (&0.into(), &0.into()),
            "{direction}"
        );
    }
}

/// Asserts that an end has received all of a stream, in order, every byte as it was sent.
#[track_caller]
pub(crate) fn assert_all(file: &str, count: u64) {
    let found = verify(&[file]);
    let names = ["received", "lost", "duplicates", "reordered", "corrupt"];
    let expected = [count, 0, 0, 0, 0].map(Some);
    assert_eq!(names.map(|name| found[name].as_u64()), expected, "{found}");
}

/// Interrupts both generators; the frames that each has sent, all of which its link has taken.
#[track_caller]
pub(crate) fn sent_until_now(senders: [ChildProcess; 2]) -> [u64; 2] {
    senders.map(|sender| {
        let ended = interrupt(sender);
        let [sent, confirmed] = ["sent", "confirmed"].map(|name| ended.json[name].as_u64());
        assert!(ended.code == 0 && sent == confirmed, "{} {}", ended.json, ended.stderr);
        sent.expect("a number")
    })
}

/// Waits for the end of both generators, whose frames must all have been sent.
#[track_caller]
pub(crate) fn sent(senders: [ChildProcess; 2], count: u64) {
    for sender in senders {
        let ended = finish_within(sender, SENDING_MAX);
        assert_eq!((ended.code, &ended.json["sent"]), (0, &count.into()), "{} {}", ended.json, ended.stderr);
    }
}
