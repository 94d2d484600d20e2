//! A folder with two sides, one for the usual tool and one for quaff, the packets for both, and a comparison.

use crate::support::{self, QUAFF, tool};
use quaff_file::read::CaptureFile;
use quaff_os::Netns;
use quaff_testkit::write_program;
use quaff_testpackets as build;
use quaff_wire::Record;
use quaff_wire::decode::Item;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The sides: of the usual tool, and of quaff.
pub(crate) const SIDES: [&str; 2] = ["old", "new"];
/// Five and a half hours east of UTC: no time is right by accident.
const ZONE: &str = "XST-5:30";
/// 2023-11-14 22:13:20 there, the time of packet 0. Packet `n` is 10 ms later than the one before, and 3 ms after a
/// round time, on which editcap and quaff differ.
const START_NS: u64 = (1_700_000_000 - 19_800) * 1_000_000_000;
const STEP_NS: u64 = 10_000_000;
const SHIFT_NS: u64 = 3_000_000;
/// Packets of `old.pcap`: a minute, 4.6 MB.
pub(crate) const OLD: u64 = 6000;

pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// A place for commands with these tools; `None` after a skip. All users may write on both sides: tcpdump becomes
    /// another one.
    pub(crate) fn new(test: &str, tools: &[&str]) -> Option<Self> {
        for name in tools {
            tool(test, name)?;
        }
        let dir = tempfile::Builder::new().prefix("quaff-daily").tempdir().expect("a folder");
        let place = Self { dir };
        place.allow(".", 0o755);
        for (name, mode) in [("old", 0o777), ("new", 0o777), ("bin", 0o755), ("home", 0o777)] {
            fs::create_dir(place.path(name)).expect("a folder");
            place.allow(name, mode);
        }
        symlink(QUAFF, place.path("bin/quaff")).expect("a link");
        Some(place)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn allow(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), Permissions::from_mode(mode)).expect("our folder");
    }

    /// Puts a program into the path of both sides.
    pub(crate) fn program(&self, name: &str, bytes: &[u8]) {
        write_program(self.path("bin").join(name), bytes);
    }

    /// Puts a file into both sides.
    pub(crate) fn input(&self, name: &str, bytes: &[u8]) {
        for side in SIDES {
            fs::write(self.path(side).join(name), bytes).expect("a file");
        }
    }

    /// The shell with a command line on one side, here or in a namespace.
    pub(crate) fn shell(&self, netns: Option<&Netns>, side: &str, line: &str) -> Command {
        let command = netns.map_or_else(|| Ok(Command::new("sh")), |netns| netns.command("sh"));
        let mut command = command.expect("a command in the namespace");
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(["-c", line]).current_dir(self.path(side));
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.path("bin").display()));
        command.env("HOME", self.path("home")).env("TZ", ZONE).env("LC_ALL", "C.UTF-8");
        for name in ["XDG_CONFIG_HOME", "SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs the commands of a pair to their ends, each on its side.
    pub(crate) fn run(&self, netns: Option<&Netns>, pair: &[String; 2]) -> [Output; 2] {
        let run = |at: usize| self.shell(netns, SIDES[at], &pair[at]).output().expect("a shell");
        [run(0), run(1)]
    }

    /// The packets of a file.
    #[track_caller]
    pub(crate) fn packets(&self, file: &str) -> Vec<Packet> {
        packets(&self.path(file))
    }

    /// The files of a folder whose names begin so, in the order of their names, with their paths.
    pub(crate) fn files(&self, folder: &str, start: &str) -> Vec<String> {
        let names = support::names(&self.path(folder));
        names
            .into_iter()
            .filter(|name| name.starts_with(start))
            .map(|name| format!("{folder}/{name}"))
            .collect()
    }

    /// The packets of several files, one after another.
    pub(crate) fn packets_of(&self, files: &[String]) -> Vec<Packet> {
        files.iter().flat_map(|file| self.packets(file)).collect()
    }

    pub(crate) fn bytes(&self, file: &str) -> u64 {
        fs::metadata(self.path(file)).expect("a file").len()
    }
}

/// Runs that must succeed.
#[track_caller]
pub(crate) fn assert_done(done: &[Output; 2]) {
    assert!(done.iter().all(|done| done.status.success()), "{done:?}");
}

/// A packet as a file has it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The name of its interface; empty in pcap.
    pub(crate) interface: String,
    pub(crate) linktype: u16,
    pub(crate) time_ns: u64,
    pub(crate) wire_len: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The most by which the stamps of two sockets differ: the kernel gives each its own, one after the other, and the host
/// of a virtual machine may take the core in between.
const STAMPS_NS: u64 = 1_000_000_000;

impl Packet {
    /// All but the interface and the time.
    fn content(&self) -> (u16, u32, &[u8]) {
        (self.linktype, self.wire_len, &self.bytes)
    }

    fn words(&self) -> String {
        let Self { interface, linktype, time_ns, wire_len, bytes } = self;
        let start = &bytes[..bytes.len().min(40)];
        format!("{interface} {linktype} {time_ns} {wire_len} {} {start:02x?}", bytes.len())
    }
}

#[track_caller]
fn packets(path: &Path) -> Vec<Packet> {
    let mut file = CaptureFile::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut names, mut found) = (Vec::new(), Vec::new());
    let mut each = |item: Item<'_>| match item {
        Item::Section(_) => names.clear(),
        Item::Interface(interface) => {
            names.push(String::from_utf8_lossy(interface.name.unwrap_or_default()).into_owned());
        }
        Item::Frame(frame) => found.push(Packet {
            interface: names[frame.interface as usize].clone(),
            linktype: frame.linktype,
            time_ns: frame.time_ns,
            wire_len: frame.wire_len,
            bytes: frame.data.to_vec(),
        }),
        _ => {}
    };
    while file.pull(&mut each).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {}
    found
}

/// Asserts that two files have the same packets in the same order, with the same times up to the µs of the older
/// formats.
#[track_caller]
pub(crate) fn assert_same(old: &[Packet], new: &[Packet]) {
    assert_like(old, new, |old_ns, new_ns| old_ns / 1000 == new_ns / 1000);
}

/// The same for two captures of the same packets.
#[track_caller]
pub(crate) fn assert_same_live(old: &[Packet], new: &[Packet]) {
    assert_like(old, new, |old_ns, new_ns| old_ns.abs_diff(new_ns) < STAMPS_NS);
}

#[track_caller]
fn assert_like(old: &[Packet], new: &[Packet], is_time: impl Fn(u64, u64) -> bool) {
    assert!(!old.is_empty(), "the usual tool has no packet");
    for (number, (old, new)) in old.iter().zip(new).enumerate() {
        let is_same = old.content() == new.content() && is_time(old.time_ns, new.time_ns);
        assert!(is_same, "packet {number}: {} {}", old.words(), new.words());
    }
    assert_eq!(old.len(), new.len(), "packets");
}

/// Asserts that these are the last packets of all that were sent.
#[track_caller]
pub(crate) fn assert_last(kept: &[Packet], sent: &[Packet]) {
    assert!(!kept.is_empty() && kept.len() <= sent.len(), "{} of {}", kept.len(), sent.len());
    for (kept, sent) in kept.iter().rev().zip(sent.iter().rev()) {
        assert!(kept.bytes == sent.bytes, "{} {}", kept.words(), sent.words());
    }
}

/// Packet `n` of the traffic: in turns DNS, TCP, IPv6 and another UDP, of 62 to 1481 bytes.
fn frame(n: u64) -> Vec<u8> {
    let (here, there) = (Ipv4Addr::new(192, 0, 2, 1 + (n % 9) as u8), Ipv4Addr::new(198, 51, 100, 7));
    let port = 40_000 + (n % 50) as u16;
    let data: Vec<u8> = (0..20 + n * 37 % 1400).map(|at| (n >> (at % 6 * 8)) as u8).collect();
    match n % 4 {
        0 => build::ethernet(&[], 0x0800, &build::ipv4(here, there, 17, &[], &build::udp(port, 53, &data))),
        1 => build::ethernet(&[], 0x0800, &build::ipv4(here, there, 6, &[], &tcp(port, n as u32, &data))),
        2 => {
            let documentation = |host: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into());
            let (here, there) = (documentation(here.octets()[3]), documentation(7));
            build::ethernet(&[], 0x86dd, &build::ipv6(here, there, 17, &build::udp(port, 4000, &data)))
        }
        _ => build::ethernet(&[], 0x0800, &build::ipv4(here, there, 17, &[], &build::udp(port, 5000, &data))),
    }
}

/// A TCP segment with data, without a checksum.
fn tcp(port: u16, sequence: u32, data: &[u8]) -> Vec<u8> {
    let ports = [port, 443].map(u16::to_be_bytes).concat();
    [&ports[..], &sequence.to_be_bytes(), &[0, 0, 0, 1, 0x50, 0x18, 2, 0, 0, 0, 0, 0], data].concat()
}

fn time_ns(n: u64) -> u64 {
    START_NS + n * STEP_NS + if n > 0 { SHIFT_NS } else { 0 }
}

fn record(time_ns: u64, bytes: &[u8]) -> Record<'_> {
    Record { time_ns, bytes, len: bytes.len() as u32, ..Record::default() }
}

/// A pcap file with µs, as most are, of these packets of the traffic.
pub(crate) fn old_pcap(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut file = pcap::file_header(Resolution::Microseconds, 262_144, 1).to_vec();
    for n in numbers {
        let (bytes, at) = (frame(n), file.len());
        file.resize(at + pcap::record_bytes(bytes.len()), 0);
        pcap::record(&mut file[at..], Resolution::Microseconds, &record(time_ns(n), &bytes));
    }
    file
}

/// The same as pcapng, with ns that µs cannot have.
pub(crate) fn old_pcapng(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::shb(&mut file, &pcapng::Section::default());
    pcapng::idb(&mut file, &pcapng::Interface { linktype: 1, name: "eth7".into(), ..Default::default() });
    for n in numbers {
        let bytes = frame(n);
        let mut room = vec![0; pcapng::epb_bytes(bytes.len())];
        let written = pcapng::epb(&mut room, 0, &record(time_ns(n) + 789, &bytes));
        file.extend_from_slice(&room[..written]);
    }
    file
}
