//! Rewriting, sides and flow figures, held against tcprewrite, tcpprep and tcpreplay on the same files,
//! where the meaning is the same. docs/decisions/0019 says where it is not.

use crate::support::{QUAFF, run};
use quaff_testkit::{self as testing, captures, skip, test_name};
use quaff_testpackets as build;
use quaff_wire::RoleClassifier;
use quaff_wire::decode::{Decoder, Item, Step};
use quaff_wire::flow::FlowCount;
use quaff_wire::net::{self, Ip, TCP, UDP};
use quaff_wire::pcap::{Resolution, file_header};
use quaff_wire::rewrite::{AddressMaps, FixLength, Rewrite, TrafficClass, Ttl};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const ETHERNET: u16 = 1;
/// EtherType of Cisco FabricPath: a second Ethernet header follows.
const FABRIC_PATH: [u8; 2] = [0x89, 0x03];

/// A frame, and how long it was on the wire.
type Frame = (Vec<u8>, u32);

/// The Ethernet frames of a capture, and their times in s; `None` when others are among them.
fn read(path: &Path) -> Option<(Vec<Frame>, Vec<u64>)> {
    let file = std::fs::read(path).ok()?;
    let (mut rest, mut decoder) = (&file[..], Decoder::default());
    let (mut frames, mut times) = (Vec::new(), Vec::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(frame) = item {
            if frame.linktype != ETHERNET {
                return None;
            }
            frames.push((frame.data.to_vec(), frame.wire_len));
            times.push(frame.time_ns / 1_000_000_000);
        }
    }
    (!frames.is_empty()).then_some((frames, times))
}

fn write(path: &Path, frames: &[Frame]) {
    let mut file = file_header(Resolution::Microseconds, 262_144, ETHERNET).to_vec();
    for (frame, wire_len) in frames {
        for word in [1, 0, frame.len() as u32, *wire_len] {
            file.extend(word.to_ne_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).unwrap();
}

/// Real frames of all kinds, whole and cut, or `None` after a skip. Each file at most so many.
fn corpus(test: &str, tool: &str, most: usize) -> Option<(Vec<Frame>, TempDir)> {
    if Command::new(tool).arg("-V").output().is_err() {
        skip(test, &format!("there is no {tool}"));
        return None;
    }
    let files: Vec<PathBuf> = files();
    if files.is_empty() {
        skip(test, &format!("no captures in {}; QUAFF_CAPTURES says where to look", captures().display()));
        return None;
    }
    let frames = files.iter().filter_map(|path| read(path));
    let frames: Vec<Frame> =
        frames.flat_map(|(frames, _)| frames.into_iter().filter(is_sound).take(most)).collect();
    assert!(frames.len() > 1000, "only {} frames", frames.len());
    Some((frames, tempfile::tempdir().unwrap()))
}

fn files() -> Vec<PathBuf> {
    let entries = ["protocols", "tunnels"].map(|folder| std::fs::read_dir(captures().join(folder)));
    let mut files: Vec<PathBuf> =
        entries.into_iter().flatten().flatten().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The output of tcprewrite for the frames; it computes all checksums of those that it changes.
fn tcprewrite(dir: &TempDir, frames: &[Frame], options: &str) -> Vec<Frame> {
    let (from, to) = (dir.path().join("from.pcap"), dir.path().join("to.pcap"));
    write(&from, frames);
    let mut command = Command::new("tcprewrite");
    command.arg("-i").arg(&from).arg("-o").arg(&to).args(options.split_whitespace()).arg("--fixcsum");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
    read(&to).expect("a capture").0
}

fn ours(plan: &Rewrite, frames: &[Frame]) -> Vec<Frame> {
    let plan = Rewrite { fix_checksums: true, ..plan.clone() };
    let one = |(frame, wire_len): &Frame| {
        let mut frame = frame.clone();
        plan.apply(&mut frame, *wire_len, 0).map(|wire_len| (frame, wire_len))
    };
    frames.iter().filter_map(one).collect()
}

/// Asserts that both make the same of each frame, and that some have changed at all. Bytes before `from`
/// are not looked at.
#[track_caller]
fn compare_from(from: usize, dir: &TempDir, frames: &[Frame], plan: &Rewrite, options: &str) {
    let (ours, theirs) = (ours(plan, frames), tcprewrite(dir, frames, options));
    assert_eq!(ours.len(), theirs.len(), "{options}");
    let differs = |pair: &(&Frame, &Frame)| pair.0.0[from..] != pair.1.0[from..] || pair.0.1 != pair.1.1;
    let different = ours.iter().zip(&theirs).filter(differs).count();
    if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(differs) {
        panic!(
            "{options}: {different} of {} frames differ, such as\n{ours:02x?}\n{theirs:02x?}",
            frames.len()
        );
    }
    assert!(ours != frames, "{options}: nothing has changed");
}

/// The same, but for MACs: tcprewrite writes its own idea of those of multicast, and in frames of IPv6
/// over the source too.
#[track_caller]
fn compare(dir: &TempDir, frames: &[Frame], plan: &Rewrite, options: &str) {
    compare_from(12, dir, frames, plan, options);
}

/// tcprewrite ends at the first frame whose headers speak of more than is there, takes padding for a part of the
/// packet, and finds no IP below FabricPath.
fn is_sound((frame, wire_len): &Frame) -> bool {
    let Some(layers) = net::layers(frame).filter(|_| frame[12..14] != FABRIC_PATH) else { return false };
    let is_whole = frame.len() == *wire_len as usize && frame.len() <= 1514;
    let Some(ip) = layers.ip else { return is_whole && layers.ethertype == 0x0806 };
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let end = if ip.is_v6() {
        layers.network + 40 + word(layers.network + 4)
    } else {
        layers.network + word(layers.network + 2)
    };
    is_whole && end == frame.len() && ip.end >= ip.transport + 8
}

fn maps(words: &[&str]) -> AddressMaps {
    AddressMaps::new(&words.iter().map(|word| word.parse().unwrap()).collect::<Vec<_>>(), None)
}

#[test]
fn headers_are_rewritten_as_tcprewrite_does() {
    let Some((frames, dir)) = corpus(test_name!(), "tcprewrite", 40) else {
        return;
    };
    let mac = Rewrite {
        dst_mac: [Some([2, 0, 0, 0, 0, 9]); 2],
        src_mac: [Some([2, 0, 0, 0, 0, 8]); 2],
        ..Rewrite::default()
    };
    let to_one = |(frame, _): &&Frame| {
        let ip = net::layers(frame).and_then(|layers| layers.ip);
        let is_one = |ip: IpAddr| matches!(ip, IpAddr::V4(ip) if ip.octets()[0] < 224);
        ip.is_some_and(|ip| ip.addresses.into_iter().all(is_one))
    };
    let to_one: Vec<Frame> = frames.iter().filter(to_one).cloned().collect();
    compare_from(0, &dir, &to_one, &mac, "--enet-dmac=02:00:00:00:00:09 --enet-smac=02:00:00:00:00:08");
    let ports = Rewrite {
        ports: ["80:8080", "443:8443", "5000-5999:53"].iter().map(|word| word.parse().unwrap()).collect(),
        ..Rewrite::default()
    };
    compare(&dir, &frames, &ports, "--portmap=80:8080 --portmap=443:8443 --portmap=5000-5999:53");
    let ttl = Rewrite { ttl: Some(Ttl::Subtract(3)), ..Rewrite::default() };
    compare(&dir, &frames, &ttl, "--ttl=-3");
    let map = maps(&["10.0.0.0/8:172.16.0.0/12", "192.168.0.0/16:10.9.0.0/16"]);
    let nat = Rewrite { src_ip: map.clone(), dst_ip: map, ..Rewrite::default() };
    compare(&dir, &frames, &nat, "--pnat=10.0.0.0/8:172.16.0.0/12,192.168.0.0/16:10.9.0.0/16");
    let class = Rewrite { traffic_class: Some(TrafficClass::whole(0xb8)), ..Rewrite::default() };
    compare(&dir, &frames, &class, "--tos=184 --tclass=184");
    let tag = Rewrite { tags: vec!["push:vid=100,pcp=3,tpid=0x8100".parse().unwrap()], ..Rewrite::default() };
    compare(&dir, &frames, &tag, "--enet-vlan=add --enet-vlan-tag=100 --enet-vlan-pri=3 --enet-vlan-cfi=0");
}

/// The options of tcprewrite's own tests, and ours for the same.
const ITS_OWN: [(&str, &str); 11] = [
    ("--tos=50 --tclass=50", "--traffic-class 50"),
    (
        "--enet-vlan=add --enet-vlan-tag=45 --enet-vlan-cfi=1 --enet-vlan-pri=5",
        "--vlan push:vid=45,dei=1,pcp=5",
    ),
    (
        "--enet-vlan=add --enet-vlan-tag=42 --enet-vlan-cfi=1 --enet-vlan-pri=2 --enet-vlan-proto=802.1ad",
        "--vlan push:vid=42,dei=1,pcp=2,tpid=0x88a8",
    ),
    ("--enet-vlan=del", "--vlan pop"),
    ("--ttl=58", "--ttl 58"),
    ("--ttl=+58", "--ttl +58"),
    ("--ttl=-58", "--ttl -58"),
    ("--mtu-trunc --mtu=300", "--mtu 300 --mtu-policy cut"),
    ("", ""),
    ("-r 80:8080", "--map-port 80:8080"),
    ("-N 96.17.211.0/24:172.16.0.0/24", "--map-ip 96.17.211.0/24:172.16.0.0/24"),
];

/// Frames that end with their packets, some with wrong checksums: tcprewrite recomputes all of them.
#[test]
fn the_options_of_its_own_tests_do_the_same_to_whole_packets() {
    if Command::new("tcprewrite").arg("-V").output().is_err() {
        return skip(test_name!(), "there is no tcprewrite");
    }
    let [a, b] = [Ipv4Addr::new(192, 168, 1, 10), Ipv4Addr::new(96, 17, 211, 172)];
    let tcp = |ports: [u8; 4], payload: &[u8]| {
        [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 32, 0, 9, 9, 0, 0], payload].concat()
    };
    let tagged = |tags: &[(u16, u16)], packet: &[u8]| build::ethernet(tags, 0x0800, packet);
    let request = build::ipv4(a, b, TCP, &[], &tcp([15, 160, 0, 80], &[b'x'; 200]));
    let frames = [
        tagged(&[], &request),
        tagged(&[], &build::ipv4(b, a, TCP, &[], &tcp([0, 80, 15, 160], &[b'y'; 1400]))),
        tagged(&[], &build::ipv4(a, b, UDP, &[], &build::udp(5353, 53, &[b'q'; 40]))),
        tagged(&[], &build::ipv4(a, b, 1, &[], &[&[8, 0, 7, 7, 0, 1, 0, 1][..], &[9; 56]].concat())),
        tagged(&[(0x8100, 0xa02d)], &request),
        build::ethernet(
            &[],
            0x0806,
            &[0, 1, 8, 0, 6, 4, 0, 1, 2, 2, 2, 2, 2, 2, 192, 168, 1, 10, 0, 0, 0, 0, 0, 0, 96, 17, 211, 172],
        ),
    ];
    let frames: Vec<Frame> = frames.into_iter().map(|frame| (frame.clone(), frame.len() as u32)).collect();
    let dir = tempfile::tempdir().unwrap();
    let written = dir.path().join("ours.pcap");
    for (theirs, options) in ITS_OWN {
        // A second tag: see docs/tcpreplay.md.
        let meant = |(frame, _): &&Frame| !options.contains("push") || frame[12] != 0x81;
        let frames: Vec<Frame> = frames.iter().filter(meant).cloned().collect();
        let theirs = tcprewrite(&dir, &frames, theirs);
        let mut replay = Command::new(QUAFF);
        replay
            .arg("replay")
            .arg(dir.path().join("from.pcap"))
            .args(["-q", "--fix-checksums", "-w"])
            .arg(&written);
        run(replay.args(options.split_whitespace()));
        let (ours, _) = read(&written).expect("a capture");
        let different = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert!(different.is_none() && ours.len() == theirs.len(), "{options}: {different:02x?}");
    }
}

#[test]
fn lengths_are_fixed_as_tcprewrite_does() {
    let Some((frames, dir)) = corpus(test_name!(), "tcprewrite", 40) else {
        return;
    };
    let cut = |(frame, wire_len): &Frame| (frame[..frame.len().min(90)].to_vec(), *wire_len);
    let frames: Vec<Frame> = frames.iter().map(cut).collect();
    for (fix, option) in [(FixLength::Pad, "--fixlen=pad"), (FixLength::Cut, "--fixlen=trunc")] {
        // It leaves the length of UDP as it was.
        let is_udp = |(frame, _): &Frame| {
            let ip = net::layers(frame).and_then(|layers| layers.ip);
            ip.is_some_and(|ip| ip.protocol == UDP)
        };
        let meant: Vec<Frame> =
            frames.iter().filter(|one| fix != FixLength::Cut || !is_udp(one)).cloned().collect();
        compare(&dir, &meant, &Rewrite { length: Some(fix), ..Rewrite::default() }, option);
    }
}

#[test]
fn checksums_are_computed_as_tcprewrite_does() {
    let Some((frames, dir)) = corpus(test_name!(), "tcprewrite", 40) else {
        return;
    };
    compare(&dir, &frames, &Rewrite::default(), "");
}

#[test]
fn sides_are_those_of_tcpprep() {
    let Some((frames, dir)) = corpus(test_name!(), "tcpprep", 40) else { return };
    let ip = |(frame, _): &Frame| net::layers(frame).and_then(|layers| layers.ip);
    let compare = |rule: &str, option: &str, flip: u8, is_meant: &dyn Fn(&Ip) -> bool| {
        let frames: Vec<Frame> =
            frames.iter().filter(|one| ip(one).is_some_and(|ip| is_meant(&ip))).cloned().collect();
        let mut sides = RoleClassifier::new(rule.parse().unwrap(), 0);
        let ours: Vec<u8> = frames.iter().map(|(frame, _)| sides.output(frame) ^ flip).collect();
        assert!(ours.contains(&0) && ours.contains(&1), "{option}");
        let theirs = tcpprep(&dir, &frames, option);
        let different = (0..ours.len()).find(|at| theirs.get(*at) != ours.get(*at));
        assert!(different.is_none(), "{option}: {:02x?}", frames[different.unwrap_or(0)]);
    };
    // What it calls servers leaves by its first interface in these modes, and by its second in others.
    compare("cidr=10.0.0.0/8,192.168.1.0/24", "--cidr=10.0.0.0/8,192.168.1.0/24", 1, &|_| true);
    let mac = frames[0].0[6..12].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
    compare(&format!("mac={mac}"), &format!("--mac={mac}"), 1, &|_| true);
    compare("port", "--port", 0, &|ip| matches!(ip.protocol, TCP | UDP));
    compare("first", "--auto=first", 0, &|ip| !ip.is_v6());
}

/// The side of each frame, as tcpprep prints it.
fn tcpprep(dir: &TempDir, frames: &[Frame], option: &str) -> Vec<u8> {
    let (from, cache) = (dir.path().join("from.pcap"), dir.path().join("cache"));
    write(&from, frames);
    let made =
        Command::new("tcpprep").arg(option).arg("-i").arg(&from).arg("-o").arg(&cache).output().unwrap();
    assert!(made.status.success(), "{option}: {}", String::from_utf8_lossy(&made.stderr));
    let printed = Command::new("tcpprep").arg("-I").arg(&cache).output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let side = |line: &str| match line.split_whitespace().nth(3)? {
        "Primary" => Some(0),
        "Secondary" => Some(1),
        _ => None,
    };
    text.lines().filter_map(side).collect()
}

#[test]
fn flows_are_counted_as_tcpreplay_does() {
    let test = test_name!();
    let Some((_, dir)) = corpus(test, "tcpreplay", 40) else { return };
    let Some(lab) = testing::lab(test) else { return };
    let (mut compared, mut different) = (0, Vec::new());
    let made = made(dir.path());
    let real = files().into_iter().chain([captures().join("mix.pcap")]);
    for path in real.chain(made) {
        let Some((frames, times)) = read(&path) else { continue };
        let mut command = lab.tx.command("tcpreplay").unwrap();
        let output = command.args(["-i", "tx0", "-tK"]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(line) = text.lines().find(|line| line.starts_with("Flows:")) else { continue };
        let mut count = FlowCount::like_tcpreplay(0);
        frames.iter().zip(times).for_each(|((frame, _), time_s)| _ = count.add(frame, time_s));
        let counts = count.counts;
        let ours = [counts.flows, counts.flow_packets, counts.non_flow_packets];
        if numbers(line) != ours {
            different.push(format!("{}: {ours:?}, tcpreplay: {:?}", path.display(), numbers(line)));
        }
        compared += 1;
    }
    assert!(compared > 200, "only {compared} files");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// Files with a frame that is a flow, and one that is odd or cut.
fn made(dir: &Path) -> Vec<PathBuf> {
    let [a, b] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
    let v4 = |protocol, payload: &[u8]| build::ipv4(a, b, protocol, &[], payload);
    let v6 = |next, payload: &[u8]| build::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, next, payload);
    let mut near = build::ethernet(&[], 0x86dd, &v6(17, &[0; 30]));
    near[0] = 0x60;
    let whole = [
        build::ethernet(&[], 0x0800, &v4(1, &[8; 40])),
        build::ethernet(&[(0x88a8, 1), (0x8100, 2)], 0x0800, &v4(6, &[0x50; 40])),
        build::ethernet(&[(0x9100, 1)], 0x0800, &v4(17, &[1; 20])),
        build::ethernet(&[], 0x8847, &[&[0, 1, 1, 64], &v4(47, &[1; 20])[..]].concat()),
        build::ethernet(&[], 0x86dd, &v6(17, &[0; 20])),
        build::ethernet(&[], 40, &[0x45; 60]),
        build::ethernet(&[], 1510, &[0x60; 60]),
        build::ethernet(&[], 0x0806, &[0; 40]),
        build::ethernet(&[], 0x0800, &[0x55; 40]),
        near,
    ];
    let flow = build::ethernet(&[], 0x0800, &v4(17, &build::udp(7, 7, &[0; 30])));
    let mut paths = Vec::new();
    for (kind, odd) in whole.iter().enumerate() {
        for bytes in (15..odd.len()).step_by(3).chain([odd.len()]) {
            let path = dir.join(format!("made-{kind}-{bytes}.pcap"));
            let frames = [&flow[..], &odd[..bytes]].map(|frame| (frame.to_vec(), frame.len() as u32));
            write(&path, &frames);
            paths.push(path);
        }
    }
    paths
}

/// Flows, flow packets, non-flow packets: `Flows: 3 flows, 5.25 fps, 70 unique flow packets, 1 unique …`.
fn numbers(line: &str) -> [u64; 3] {
    let part = |at: usize| line.split(", ").nth(at).unwrap().trim_start_matches("Flows: ");
    [0, 2, 3].map(|at| part(at).split(' ').next().unwrap().parse().unwrap())
}
