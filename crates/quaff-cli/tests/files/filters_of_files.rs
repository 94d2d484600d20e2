//! `-f` on files, beside tcpdump: each link type that libpcap knows, both byte orders, hundreds of expressions.
//!
//! `QUAFF_RUNS` is the number of random expressions, `QUAFF_SEED` the number that they are made of.

use super::link_types::{Head, framed, heads, pcap};
use crate::support::packets::packets_of;
use crate::support::{QUAFF, folder, tool};
use quaff_testkit::test_name;
use quaff_testpackets as build;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

const A4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// Words of pcap-filter(7).
const ATOMS: [&str; 60] = [
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "sctp",
    "port 80",
    "src port 53",
    "dst port 443",
    "tcp port 80",
    "udp dst port 53",
    "portrange 50-90",
    "host 10.0.0.1",
    "src host 10.0.0.1",
    "dst 2001:db8::2",
    "host 2001:db8::1",
    "net 10.0.0.0/8",
    "net 2001:db8::/32",
    "ip src net 192.0.2",
    "ip host 192.0.2.2",
    "ip6 host 2001:db8::2",
    "tcp[13] & 2 != 0",
    "tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn",
    "ip[8] > 3",
    "ip6[6] = 6",
    "ip[6:2] & 0x1fff != 0",
    "udp[4:2] > 20",
    "icmp[icmptype] = icmp-echo",
    "len > 60",
    "less 70",
    "greater 90",
    "ip proto 47",
    "ip6 proto 17",
    "proto 6",
    "ip multicast",
    "ip6 multicast",
    "multicast",
    "broadcast",
    "link[0] = 2",
    "ether[0] & 1 = 0",
    "ether proto 0x86dd",
    "ether host 02:00:00:00:00:01",
    "ether broadcast",
    "vlan",
    "vlan 5",
    "mpls",
    "mpls 16",
    "pppoes",
    "pppoes 1",
    "llc",
    "stp",
    "iso",
    "atalk",
    "ifname em0",
    "type data",
    "inbound",
    "ip protochain 6",
];

/// Packets of many protocols, of IPv4 and IPv6.
fn packets() -> Vec<(bool, Vec<u8>)> {
    let tcp = |from: u16, to: u16, flags: u8| {
        let mut bytes = [from, to].map(u16::to_be_bytes).concat();
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 255, 255, 0, 0, 0, 0, 1, 2, 3]);
        bytes
    };
    let long_udp = build::udp(9, 9, &[7; 90]);
    let transports = [
        (6, tcp(1024, 80, 2)),
        (6, tcp(80, 1024, 0x12)),
        (6, tcp(443, 53, 0x10)),
        (17, build::udp(1024, 53, b"query")),
        (17, build::udp(53, 443, &[1; 60])),
        (17, long_udp.clone()),
        (132, vec![0, 80, 0, 53, 0, 0, 0, 1, 0, 0, 0, 0]),
        (47, build::gre(&build::Gre::default(), 0x0800, &build::ipv4(A4, B4, 17, &[], &long_udp))),
        (89, vec![2; 24]),
    ];
    let mut all = Vec::new();
    for (protocol, payload) in transports {
        all.push((false, build::ipv4(A4, B4, protocol, &[], &payload)));
        all.push((false, build::ipv4(B4, A4, protocol, &[1; 8], &payload)));
        all.push((true, build::ipv6(A6, B6, protocol, &payload)));
        all.push((true, build::ipv6(B6, A6, 0, &build::ipv6_options(protocol, &payload))));
    }
    all.push((false, build::ipv4(A4, Ipv4Addr::new(224, 0, 0, 5), 1, &[], &[8, 0, 0, 0, 0, 1, 0, 1])));
    all.push((
        true,
        build::ipv6(A6, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), 58, &[128, 0, 0, 0, 0, 1, 0, 1]),
    ));
    let (v4, v6) = (build::ipv4(A4, B4, 17, &[], &long_udp), build::ipv6(A6, B6, 17, &long_udp));
    all.extend(build::ipv4_fragments(&v4, 40).into_iter().map(|piece| (false, piece)));
    all.extend(build::ipv6_fragments(&v6, 9, 40).into_iter().map(|piece| (true, piece)));
    all
}

/// A file of each link type, and of some whose packets quaff does not look into.
struct Source {
    name: String,
    bytes: Vec<u8>,
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut add = |head: Head, frames: &dyn Fn(bool) -> Vec<Vec<u8>>| {
        for is_big in [false, true] {
            let name = format!("{} {}, big endian: {is_big}", head.link, head.name);
            sources.push(Source { name, bytes: pcap(head.link, is_big, &frames(is_big)) });
        }
    };
    for head in heads() {
        add(head, &|is_big| {
            let mut frames = framed(head, is_big, &packets());
            // Other payloads, and pieces of packets.
            let first = frames[0].clone();
            frames.extend((0..40.min(first.len())).map(|len| first[..len].to_vec()));
            frames.push(
                [(head.make)(super::link_types::Packet { is_v6: false, bytes: 46, is_big }), vec![0; 46]]
                    .concat(),
            );
            if head.link == 1 {
                frames.push(build::ethernet(&[], 0x0806, &[1; 46]));
                frames.push(build::ethernet(&[(0x8100, 6)], 0x0806, &[1; 46]));
            }
            frames
        });
    }
    let mut seed = 7;
    for link in [105, 114, 119, 122, 123, 127, 129, 138, 143, 163, 192, 240, 242] {
        let noise: Vec<Vec<u8>> = (0..60)
            .map(|_| {
                let mut frame: Vec<u8> =
                    (0..20 + random(&mut seed) % 100).map(|_| random(&mut seed) as u8).collect();
                // Radiotap, and frames of data.
                frame[..12].copy_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0, 8, 0, 0, 0]);
                frame
            })
            .collect();
        let head = Head { link, name: "noise", make: |_| Vec::new(), is_filtered: true };
        add(head, &|_| noise.clone());
    }
    sources
}

fn random(seed: &mut u64) -> usize {
    // xorshift64 (Marsaglia 2003).
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 16) as usize
}

/// An expression of one to four atoms.
fn expression(seed: &mut u64) -> String {
    let atom = |seed: &mut u64| {
        let not = if random(seed).is_multiple_of(4) { "not " } else { "" };
        format!("{not}{}", ATOMS[random(seed) % ATOMS.len()])
    };
    let mut text = atom(seed);
    for _ in 0..random(seed) % 4 {
        let word = ["and", "or"][random(seed) % 2];
        text = match random(seed) % 3 {
            0 => format!("({text}) {word} {}", atom(seed)),
            1 => format!("{} {word} ({text})", atom(seed)),
            _ => format!("{text} {word} {}", atom(seed)),
        };
    }
    text
}

/// The times of the packets that tcpdump keeps, µs; `None` if it refuses the expression.
fn of_tcpdump(mut tcpdump: Command, file: &Path, expression: &str) -> Option<Vec<u64>> {
    let done = tcpdump.arg("-r").arg(file).args(["-w", "-", expression]).output().expect("tcpdump runs");
    let mut rest = done.stdout.get(24..).filter(|_| done.status.success())?;
    let mut times = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        times.push(u64::from(word(0)) * 1_000_000 + u64::from(word(4)));
        rest = &after[word(8) as usize..];
    }
    Some(times)
}

/// The same of quaff.
fn of_quaff(file: &Path, expression: &str) -> Result<Vec<u64>, String> {
    let out = file.with_extension("out.pcapng");
    let mut quaff = Command::new(QUAFF);
    quaff.args(["capture", "-q", "-f", expression, "--read"]).arg(file).arg("-w").arg(&out);
    let done = quaff.output().expect("quaff runs");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    if !done.status.success() {
        return Err(stderr);
    }
    let packets = packets_of(&out.display().to_string());
    Ok(packets.iter().map(|packet| packet.time_ns / 1000).collect())
}

/// quaff refuses what tcpdump runs: loops, and programs that read what was never written.
fn is_documented(expression: &str, error: &str) -> bool {
    expression.contains("protochain") && error.contains("protochain")
        || expression.contains("geneve") && error.contains("put alternatives first")
        || error.contains("chance would decide")
}

#[test]
fn filters_keep_what_tcpdump_keeps_of_the_same_file() {
    let Some(_) = tool(test_name!(), "tcpdump") else { return };
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (runs, mut seed) = (number("QUAFF_RUNS", 400), number("QUAFF_SEED", 32).max(1));
    let (dir, sources) = (folder(), sources());
    let path = |at: usize| dir.path().join(format!("{at}.pcap"));
    for (at, source) in sources.iter().enumerate() {
        std::fs::write(path(at), &source.bytes).unwrap();
    }
    let fixed = ["ip6", "tcp port 80", "not ip and not ip6"];
    let usual = (0..sources.len()).flat_map(|at| fixed.map(|text| (at, text.to_owned())));
    let random = (0..runs).map(|_| (random(&mut seed) % sources.len(), expression(&mut seed)));
    let (mut kept, mut refused) = (0, 0);
    for (at, expression) in usual.chain(random.collect::<Vec<_>>()) {
        let tcpdump = tool(test_name!(), "tcpdump").expect("it is there");
        let theirs = of_tcpdump(tcpdump, &path(at), &expression);
        let (name, ours) = (&sources[at].name, of_quaff(&path(at), &expression));
        match (theirs, ours) {
            (Some(theirs), Ok(ours)) => {
                assert_eq!(ours, theirs, "'{expression}' on {name}");
                kept += ours.len();
            }
            (None, Err(_)) => refused += 1,
            (Some(_), Err(error)) => {
                assert!(is_documented(&expression, &error), "'{expression}' on {name}: {error}")
            }
            // The number of a platform, which libpcap does not know here.
            (None, Ok(_)) => {
                assert!(["14 ", "13 "].iter().any(|link| name.starts_with(link)), "'{expression}' on {name}");
            }
        }
    }
    assert!(kept > 1000 && refused > 10, "{kept} packets kept, {refused} expressions refused");
}

/// A filter keeps the same packets of a file in the other byte order and of what quaff writes of that file.
#[test]
fn a_file_of_the_other_byte_order_is_filtered_again_after_it_was_written() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name);
    for head in heads().into_iter().filter(|head| matches!(head.link, 0 | 109)) {
        for is_big in [false, true] {
            let frames = framed(head, is_big, &packets());
            std::fs::write(path("in.pcap"), pcap(head.link, is_big, &frames)).unwrap();
            let copy = Command::new(QUAFF)
                .current_dir(dir.path())
                .args(["capture", "-qr", "in.pcap", "-w", "copy.pcap"])
                .status();
            assert!(copy.expect("quaff runs").success());
            for expression in ["ip6", "ip", "tcp or udp", "not ip"] {
                let [first, second] =
                    ["in.pcap", "copy.pcap"].map(|name| of_quaff(&path(name), expression).unwrap());
                assert_eq!(first, second, "{expression} on {}, big endian: {is_big}", head.name);
                assert!(!first.is_empty());
            }
        }
    }
}

#[test]
fn a_refusal_has_words_that_help() {
    let dir = folder();
    let path = dir.path().join("in.pcap");
    let error = |link: u32, expression: &str| {
        let head = heads().into_iter().find(|head| head.link == 1).expect("Ethernet");
        std::fs::write(&path, pcap(link, false, &framed(head, false, &packets()))).unwrap();
        of_quaff(&path, expression).expect_err(expression)
    };
    for link in [1, 0, 101, 105, 127] {
        for expression in ["inbound", "outbound and tcp", "ifindex 1"] {
            let said = error(link, expression);
            assert!(said.contains("no direction and no interface index"), "{link} {expression}: {said}");
        }
    }
    let said = error(1, "geneve or tcp");
    assert!(said.contains("put alternatives first, as in 'tcp or geneve'"), "{said}");
    assert!(of_quaff(&path, "tcp or geneve").is_ok());
}
