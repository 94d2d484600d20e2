//! The tasks on interfaces: both tools capture the same packets at the same time, in a lab that has `eth0` and `eth1`.

use crate::daily::page;
use crate::daily::place::{OLD, Packet, Place, SIDES, assert_done, assert_last, assert_same_live, old_pcap};
use crate::support::{PATIENCE, QUAFF, alone, below, link, run};
use quaff_lab::{ChildProcess, Finished, Lab};
use quaff_os::Signal;
use quaff_os::process::send;
use quaff_testkit as testing;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// The user daemon, on Debian and others.
const DAEMON: u32 = 1;
/// A tool that ends by itself has this long after the last packet. libpcap hands over its packets each second.
const SETTLE: Duration = Duration::from_millis(2500);
/// A tool that has opened its socket sets its filter and its ring.
const OPENING: Duration = Duration::from_secs(1);
/// Packets of most tasks, and of those that fill files of 2 MB.
const SOME: u64 = 1000;
const MANY: u64 = 2 * OLD;

/// The sign that a tool captures.
#[derive(Clone, Copy)]
enum Sign {
    /// Words on stderr.
    Words(&'static str),
    /// A packet socket of this program.
    Socket(&'static str),
    /// A thread of quaff.
    Thread(&'static str),
}

/// A tool that captures: the name of its process, and the sign.
type Tool = (&'static str, Sign);

const TCPDUMP: Tool = ("tcpdump", Sign::Words("listening on"));
const DUMPCAP: Tool = ("dumpcap", Sign::Words("File: "));
const OURS: Tool = ("quaff", Sign::Words("capturing"));

/// A lab with the links far0 → eth0 and far1 → eth1.
struct Stand {
    lab: Lab,
    place: Place,
    _turn: MutexGuard<'static, ()>,
}

impl Stand {
    /// `None` after a skip.
    fn new(test: &str, tools: &[&str]) -> Option<Self> {
        let turn = alone();
        let lab = testing::lab(test)?;
        link(&lab, ["far0", "eth0"], 1);
        link(&lab, ["far1", "eth1"], 2);
        Some(Self { place: Place::new(test, tools)?, lab, _turn: turn })
    }

    /// Starts the command of a side, and waits until it captures.
    fn start(&self, side: usize, line: &str, (_, sign): Tool) -> ChildProcess {
        let command = self.place.shell(Some(&self.lab.rx), SIDES[side], line);
        let mut running = ChildProcess::start(command).expect("a shell");
        match sign {
            Sign::Words(words) => {
                assert!(running.hears(words, PATIENCE), "{line}: {}", running.heard);
            }
            Sign::Socket(name) => {
                wait_until(line, || named(running.pid(), name).into_iter().any(has_packet_socket));
                std::thread::sleep(OPENING);
            }
            Sign::Thread(name) => {
                let has_thread = |pid| threads(pid).contains(&name.to_owned());
                wait_until(line, || named(running.pid(), "quaff").into_iter().any(has_thread));
            }
        }
        running
    }

    /// Sends packets of the traffic to an interface.
    fn send(&self, interface: &str, numbers: std::ops::Range<u64>) {
        let file = self.place.path(&format!("{interface}.pcap"));
        let rate = if numbers.end > SOME { "4000" } else { "1000" };
        fs::write(&file, old_pcap(numbers)).expect("a file");
        let mut replay = self.lab.tx.command(QUAFF).expect("a command in the lab");
        run(replay.args(["replay", "-q", "-o", interface, "--pps", rate]).arg(&file));
    }

    /// Runs both commands while packets are sent, and ends them with SIGINT if they have no end.
    fn both(&self, pair: &[String; 2], tools: [Tool; 2], sending: impl FnOnce()) -> [Finished; 2] {
        let running = [0, 1].map(|side| self.start(side, &pair[side], tools[side]));
        sending();
        let ends = pair.iter().map(|line| line.contains(" -c ")).collect::<Vec<_>>();
        if ends.contains(&false) {
            std::thread::sleep(SETTLE);
        }
        for (side, running) in running.iter().enumerate().filter(|(side, _)| !ends[*side]) {
            let found = named(running.pid(), tools[side].0);
            assert!(!found.is_empty(), "{}: it has ended", pair[side]);
            // One of them may end with the other.
            found.into_iter().for_each(|pid| drop(send(pid, Signal::SIGINT)));
        }
        running.map(|running| {
            let done = running.finish(PATIENCE).expect("it ends");
            assert!(done.status.success(), "{pair:?}: {done:?}");
            done
        })
    }

    /// A task of a single pair, with packets to eth0.
    fn task(&self, title: &str, tools: [Tool; 2], packets: u64) -> [Finished; 2] {
        self.both(&page::pairs(title)[0], tools, || self.send("far0", 0..packets))
    }

    /// Returns whether a packet socket is bound to an interface.
    fn has_socket_of(&self, interface: &str) -> bool {
        let output = |program: &str, args: &[&str]| {
            let done = self.lab.rx.command(program).expect("a command in the lab").args(args).output();
            String::from_utf8_lossy(&done.expect("it runs").stdout).into_owned()
        };
        let link = output("ip", &["-o", "link", "show", "dev", interface]);
        let index = link.split(':').next();
        // sk RefCnt Type Proto Iface R Rmem User Inode
        let sockets = output("cat", &["/proc/net/packet"]);
        sockets.lines().skip(1).any(|row| row.split_whitespace().nth(4) == index)
    }

    /// The packets that were sent to eth0.
    fn sent(&self) -> Vec<Packet> {
        self.place.packets("far0.pcap")
    }
}

/// The processes of this name: `pid`, and those below it.
fn named(pid: u32, name: &str) -> Vec<u32> {
    let own = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    let all = below(pid).into_iter().chain([(pid, own)]);
    all.filter(|(_, of)| of == name).map(|(pid, _)| pid).collect()
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// Returns whether a process has a packet socket that receives.
fn has_packet_socket(pid: u32) -> bool {
    let list = fs::read_to_string(format!("/proc/{pid}/net/packet")).unwrap_or_default();
    // sk RefCnt Type Proto Iface R Rmem User Inode
    let rows = list.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let bound: Vec<_> = rows
        .filter(|row| row.len() == 9 && row[5] == "1")
        .map(|row| format!("socket:[{}]", row[8]))
        .collect();
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| bound.iter().any(|name| link.as_os_str() == name.as_str()))
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(done: &Finished) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn packets_watched_live_are_the_lines_of_tcpdump() {
    let Some(stand) = Stand::new("watch live", &["tcpdump"]) else { return };
    let [old, new] = stand.task("Watch live", [TCPDUMP, OURS], SOME).map(|done| text(&done));
    assert!(old.lines().count() >= 200, "{old}");
    // A line begins with its time.
    let words = |line: &str| line.split_once(' ').map(|(_, words)| words.to_owned());
    for (old, new) in old.lines().zip(new.lines()) {
        assert_eq!(words(old), words(new));
    }
    assert_eq!(old.lines().count(), new.lines().count());
}

#[test]
fn a_captured_file_has_the_packets_of_tcpdump() {
    let Some(stand) = Stand::new("capture to a file", &["tcpdump"]) else { return };
    stand.task("Capture to a file", [TCPDUMP, OURS], SOME);
    let (old, new) = (stand.place.packets("old/all.pcap"), stand.place.packets("new/all.pcapng"));
    assert_same_live(&old, &new);
    assert_last(&new, &stand.sent());
    assert_eq!(new.len() as u64, SOME);
}

#[test]
fn a_filtered_and_counted_capture_has_the_packets_of_tcpdump() {
    let Some(stand) = Stand::new("filter and count", &["tcpdump"]) else { return };
    stand.task("Filter, and stop after a number of packets", [TCPDUMP, OURS], SOME);
    let (old, new) = (stand.place.packets("old/udp.pcap"), stand.place.packets("new/udp.pcapng"));
    assert_same_live(&old, &new);
    assert_eq!(new.len(), 200);
}

/// A packet without its header: length on the wire, bytes.
type Inner = (u32, Vec<u8>);

/// The packets without headers of `header` bytes, sorted.
fn inner(packets: &[Packet], header: usize) -> Vec<Inner> {
    let inner = |packet: &Packet| (packet.wire_len - header as u32, packet.bytes[header..].to_vec());
    let mut all: Vec<_> = packets.iter().map(inner).collect();
    all.sort();
    all
}

/// The numbers of packets by key, sorted.
fn counts<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    let mut counts = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_unstable();
    counts
}

#[test]
fn a_capture_on_all_interfaces_has_the_packets_of_tcpdump() {
    let Some(stand) = Stand::new("all interfaces", &["tcpdump"]) else { return };
    let [pair] = &page::pairs("Capture on all interfaces")[..] else { panic!("a pair") };
    stand.both(pair, [TCPDUMP, OURS], || {
        stand.send("far0", 0..400);
        stand.send("far1", 400..1000);
        // tcpdump's socket is of all interfaces, and quaff has one of each.
        link(&stand.lab, ["far2", "eth2"], 3);
        wait_until("a socket of eth2", || stand.has_socket_of("eth2"));
        stand.send("far2", 1000..1200);
    });
    let (old, new) = (stand.place.packets("old/any.pcap"), stand.place.packets("new/any.pcapng"));
    // LINKTYPE_LINUX_SLL2, of 20 bytes with the number of the interface, and Ethernet.
    assert!(old.iter().all(|packet| packet.linktype == 276), "tcpdump's link type");
    assert!(new.iter().all(|packet| packet.linktype == 1), "the frames are kept");
    let (theirs, ours) = (inner(&old, 20), inner(&new, 14));
    assert_eq!(theirs.len(), ours.len());
    assert!(theirs == ours, "the packets differ");
    assert_eq!(counts(old.iter().map(|packet| packet.bytes[4..8].to_vec())), [200, 400, 600]);
    let of = |name: &str| new.iter().filter(|packet| packet.interface == name).count();
    assert_eq!((of("eth0"), of("eth1"), of("eth2")), (400, 600, 200));
}

#[test]
fn a_capture_on_several_interfaces_has_the_packets_of_dumpcap() {
    let Some(stand) = Stand::new("several interfaces", &["dumpcap"]) else { return };
    let [pair] = &page::pairs("Capture on several interfaces")[..] else { panic!("a pair") };
    stand.both(pair, [DUMPCAP, OURS], || {
        stand.send("far0", 0..400);
        stand.send("far1", 400..1000);
    });
    let (old, new) = (stand.place.packets("old/both.pcapng"), stand.place.packets("new/both.pcapng"));
    let of = |packets: &[Packet], name: &str| {
        packets.iter().filter(|packet| packet.interface == name).cloned().collect::<Vec<_>>()
    };
    for (name, packets) in [("eth0", 400), ("eth1", 600)] {
        assert_same_live(&of(&old, name), &of(&new, name));
        assert_eq!(of(&new, name).len(), packets);
    }
    assert_eq!(new.len(), 1000);
}

/// Asserts that both rings have the last packets of all: of three files, and of at least so many for quaff.
#[track_caller]
fn assert_rings(stand: &Stand, name: &str, least: usize) {
    let (old, new) = (stand.place.files("old", name), stand.place.files(&format!("new/{name}"), ""));
    assert!(old.len() == 3 && (least..=3).contains(&new.len()), "{old:?} {new:?}");
    let sent = stand.sent();
    for files in [&old, &new] {
        let kept = stand.place.packets_of(files);
        assert_last(&kept, &sent);
        // A file of quaff ends when a chunk of up to 512 KiB would not fit.
        let bytes: u64 = files.iter().map(|file| stand.place.bytes(file)).sum();
        let full = (files.len() - 1) as u64 * 1_500_000;
        assert!(bytes > full && kept.len() < sent.len(), "{bytes} bytes, {} packets", kept.len());
    }
    assert!(new.iter().all(|file| stand.place.bytes(file) <= 2 << 20), "{new:?}");
    assert!(old[..2].iter().all(|file| stand.place.bytes(file) >= 2_000_000), "{old:?}");
}

#[test]
fn a_ring_of_files_keeps_the_newest_packets_as_dumpcap_does() {
    let Some(stand) = Stand::new("ring by size", &["dumpcap"]) else { return };
    stand.task("Keep a ring of files by size", [DUMPCAP, OURS], MANY);
    assert_rings(&stand, "ring", 3);
}

#[test]
fn a_bounded_folder_keeps_the_newest_packets_as_dumpcap_does() {
    let Some(stand) = Stand::new("keep the disk from filling", &["dumpcap"]) else { return };
    stand.task("Keep the disk from filling", [DUMPCAP, OURS], MANY);
    // Without 10 % of the disk free only the newest files stay.
    assert_rings(&stand, "bounded", 2);
}

#[test]
fn an_hourly_file_has_the_name_and_the_packets_of_tcpdump() {
    let Some(stand) = Stand::new("hourly files", &["tcpdump"]) else { return };
    let hour = || run(&mut stand.place.shell(None, "old", "date +%Y%m%d-%H"));
    let before = hour();
    stand.task("Begin a file each hour, in local time", [TCPDUMP, OURS], SOME);
    let (old, new) = (stand.place.files("old", "hour-"), stand.place.files("new/hours", "hour-"));
    assert_same_live(&stand.place.packets_of(&old), &stand.place.packets_of(&new));
    // Otherwise an hour ended meanwhile.
    if hour() == before {
        let stem = format!("hour-{}", before.trim());
        assert_eq!(old, [format!("old/{stem}.pcap")]);
        assert_eq!(new, [format!("new/hours/{stem}-000000.pcapng")]);
    }
}

#[test]
fn compressed_files_have_the_packets_of_tcpdump() {
    let Some(stand) = Stand::new("compress finished files", &["tcpdump", "gzip"]) else { return };
    stand.task("Compress finished files", [TCPDUMP, OURS], OLD);
    // tcpdump does not wait for gzip, which removes a file when its compressed form is complete.
    let list = || stand.place.files("old", "part.pcap");
    let is_half = |files: &[String]| files.iter().any(|file| files.contains(&format!("{file}.gz")));
    wait_until("gzip ends", || !is_half(&list()));
    let (old, new) = (list(), stand.place.files("new/parts", ""));
    let packed = |files: &[String]| files.iter().filter(|file| file.ends_with(".gz")).count();
    assert_eq!((old.len(), packed(&old)), (3, 2), "{old:?}");
    assert!(new.len() >= 3 && packed(&new) == new.len(), "{new:?}");
    assert_same_live(&stand.place.packets_of(&old), &stand.place.packets_of(&new));
}

#[test]
fn wireshark_gets_the_packets_of_tcpdump_over_ssh() {
    let Some(stand) = Stand::new("into Wireshark by ssh", &["tcpdump", "dumpcap"]) else { return };
    // sshd hands the words to a shell, and Wireshark has dumpcap read the pipe.
    stand.place.program("ssh", b"#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
    let wireshark = "#!/bin/sh\n[ \"$*\" = '-k -i -' ] || exit 9\nexec dumpcap -q -i - -w wireshark.pcapng\n";
    stand.place.program("wireshark", wireshark.as_bytes());
    stand.task("Watch in Wireshark over ssh", [TCPDUMP, OURS], SOME);
    let [old, new] = SIDES.map(|side| stand.place.packets(&format!("{side}/wireshark.pcapng")));
    assert_same_live(&old, &new);
    assert_eq!(new.len() as u64, SOME);
}

#[test]
fn an_interface_of_wiresharks_list_has_the_packets_of_tshark() {
    let Some(stand) = Stand::new("Wireshark's list", &["tshark", "dumpcap"]) else { return };
    let ours = ("quaff", Sign::Thread("quaff-writer"));
    let theirs = ("tshark", Sign::Socket("dumpcap"));
    stand.task("Capture from Wireshark's list of interfaces", [theirs, ours], SOME);
    let [old, new] = SIDES.map(|side| stand.place.packets(&format!("{side}/shark.pcapng")));
    assert_same_live(&old, &new);
    assert_eq!(new.len(), 200);
    let listed = run(&mut stand.place.shell(Some(&stand.lab.rx), "new", "tshark -D"));
    assert!(listed.contains("quaff-eth0 (quaff on eth0)"), "{listed}");
}

/// Asserts that both files have the same 200 packets, and belong to daemon.
#[track_caller]
fn assert_of_daemon(stand: &Stand, files: [&str; 2]) {
    let [old, new] = files.map(|file| stand.place.packets(file));
    assert_same_live(&old, &new);
    assert_eq!(new.len(), 200);
    for file in files {
        assert_eq!(fs::metadata(stand.place.path(file)).expect("a file").uid(), DAEMON, "{file}");
    }
}

#[test]
fn a_user_captures_the_packets_of_dumpcap() {
    let test = "without root";
    let Some(stand) = Stand::new(test, &["dumpcap", "setcap", "runuser"]) else { return };
    // Copies get the capabilities.
    let dumpcap = run(Command::new("sh").args(["-c", "command -v dumpcap"]));
    for (name, path) in [("dumpcap", dumpcap.trim()), ("quaff", QUAFF)] {
        stand.place.program(name, &fs::read(path).expect("a program"));
    }
    let set = "setcap cap_net_raw=p \"$(command -v quaff)\"";
    if !stand.place.shell(None, "new", set).output().is_ok_and(|done| done.status.success()) {
        return testing::skip(test, "files here cannot have capabilities");
    }
    stand.task("Capture without root", [DUMPCAP, OURS], SOME);
    assert_of_daemon(&stand, ["old/mine.pcapng", "new/mine.pcapng"]);
}

#[test]
fn a_capture_that_drops_root_has_the_packets_and_the_owner_of_tcpdump() {
    let Some(stand) = Stand::new("dropping root", &["tcpdump"]) else { return };
    stand.task("Drop root", [TCPDUMP, OURS], SOME);
    assert_of_daemon(&stand, ["old/drop.pcap", "new/drop.pcapng"]);
}

#[test]
fn the_interfaces_listed_are_those_of_tcpdump() {
    let Some(stand) = Stand::new("list interfaces", &["tcpdump"]) else { return };
    let [pair] = &page::pairs("List the interfaces")[..] else { panic!("a pair") };
    let done = stand.place.run(Some(&stand.lab.rx), pair);
    assert_done(&done);
    let [old, new] = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let present = run(&mut stand.place.shell(Some(&stand.lab.rx), "new", "cd /sys/class/net && ls -d */"));
    let present: Vec<&str> = present.lines().map(|name| name.trim_end_matches('/')).collect();
    // `1.eth0 [Up, Running, Connected]`, and pseudo-devices.
    let theirs = old.lines().filter_map(|line| line.split_once('.')).filter_map(|(_, rest)| {
        let name = rest.split(' ').next()?;
        present.contains(&name).then(|| (name, rest.contains("[Up")))
    });
    let ours = new.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        present.contains(words.first()?).then(|| (words[0], words[1] == "up"))
    });
    let (theirs, ours) = (theirs.collect::<BTreeMap<_, _>>(), ours.collect::<BTreeMap<_, _>>());
    assert_eq!((ours.len(), &ours), (present.len(), &theirs), "{old} {new}");
    assert_eq!((ours["eth0"], ours["eth1"]), (true, true), "{new}");
}

/// The instructions of a listing, without their numbers and jumps.
fn instructions(listing: &str) -> Vec<String> {
    let lines = listing.lines().filter_map(|line| line.strip_prefix('(')?.split_once(')'));
    let operation = |rest: &str| rest.split("jt").next().unwrap_or_default().trim().to_owned();
    lines.map(|(_, rest)| operation(rest)).collect()
}

#[test]
fn a_filter_has_the_instructions_of_tcpdump_and_a_mistake_its_words() {
    let Some(stand) = Stand::new("check a filter", &["tcpdump"]) else { return };
    let [pair] = &page::pairs("Check a filter, and show its program")[..] else { panic!("a pair") };
    let done = stand.place.run(Some(&stand.lab.rx), pair);
    assert_done(&done);
    let [old, new] = done.map(|done| instructions(&String::from_utf8_lossy(&done.stdout)));
    // The last two accept and reject.
    let theirs = &old[..old.len() - 2];
    assert!(theirs.len() > 15 && new.windows(theirs.len()).any(|part| part == theirs), "{old:?} {new:?}");
    let wrong = pair.clone().map(|line| line.replace("port", "prot"));
    for done in stand.place.run(Some(&stand.lab.rx), &wrong) {
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && words.contains("syntax error"), "{words}");
    }
}

/// A capture of `packets` packets at the other end of eth0, while a command sends them.
fn received(stand: &Stand, side: usize, line: &str, packets: u64) -> (Vec<Packet>, String) {
    let file = stand.place.path(&format!("far-{}.pcapng", SIDES[side]));
    let mut capture = stand.lab.tx.command(QUAFF).expect("a command in the lab");
    capture.args(["capture", "-i", "far0", "-c", &packets.to_string(), "-w"]).arg(&file);
    let mut running = ChildProcess::start(capture).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    let said = run(&mut stand.place.shell(Some(&stand.lab.rx), SIDES[side], line));
    let done = running.finish(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{done:?}");
    (stand.place.packets(&format!("far-{}.pcapng", SIDES[side])), said)
}

#[test]
fn a_file_is_replayed_as_by_tcpreplay() {
    let Some(stand) = Stand::new("replay at a rate", &["tcpreplay"]) else { return };
    let [pair] = &page::pairs("Replay at a rate")[..] else { panic!("a pair") };
    stand.place.input("old.pcap", &old_pcap(0..OLD));
    let file = stand.place.packets("old/old.pcap");
    for (side, line) in pair.iter().enumerate() {
        let (found, said) = received(&stand, side, line, OLD);
        assert_eq!(found.len(), file.len());
        assert_last(&found, &file);
        assert!(said.contains(["Successful packets:        6000", "sent       6,000"][side]), "{said}");
        // 6,000 at 2,000/s take 3 s, and less if the first one was late on a busy machine. As fast as possible they
        // take a tenth of that.
        let (first, last) = (found[0].time_ns, found[found.len() - 1].time_ns);
        assert!(last - first > 2_500_000_000, "{line}: {} ns", last - first);
    }
}
