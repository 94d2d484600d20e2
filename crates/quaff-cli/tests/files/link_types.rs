//! Each link type by each command: what one of them reads, all of them do. Also used by `filters_of_files`.

use crate::support::{QUAFF, folder};
use quaff_testpackets as build;
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

const A4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const DATA: &[u8] = b"hello";

/// A link header in front of an IP packet.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// LINKTYPE_*
    pub(crate) link: u32,
    pub(crate) name: &'static str,
    /// The header of a packet of IPv6 or IPv4 with so many bytes, in a file of this byte order.
    pub(crate) make: fn(Packet) -> Vec<u8>,
    /// libpcap's filters know it too.
    pub(crate) is_filtered: bool,
}

/// The packet after a link header.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) is_v6: bool,
    pub(crate) bytes: usize,
    pub(crate) is_big: bool,
}

impl Packet {
    fn ethertype(self) -> [u8; 2] {
        if self.is_v6 { [0x86, 0xdd] } else { [8, 0] }
    }

    fn ppp(self) -> [u8; 2] {
        if self.is_v6 { [0, 0x57] } else { [0, 0x21] }
    }

    fn snap(self) -> Vec<u8> {
        [&[0xaa, 0xaa, 3, 0, 0, 0][..], &self.ethertype()].concat()
    }

    /// A word in the byte order of the file.
    fn word(self, word: u32) -> [u8; 4] {
        if self.is_big { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn family(self, of_ipv6: u32) -> [u8; 4] {
        self.word(if self.is_v6 { of_ipv6 } else { 2 })
    }
}

/// Addresses of a LAN.
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// Every link header that is known.
pub(crate) fn heads() -> Vec<Head> {
    let mut heads = Vec::new();
    add_filtered(&mut heads);
    add_others(&mut heads);
    heads
}

/// All of them in little-endian files, and those that it matters to in big-endian ones.
fn in_byte_orders() -> impl Iterator<Item = (Head, bool)> {
    let orders = |head: Head| match head.link {
        0 | 13 | 101 | 108 | 109 => &[false, true][..],
        _ => &[false],
    };
    heads().into_iter().flat_map(move |head| orders(head).iter().map(move |is_big| (head, *is_big)))
}

/// Those in which libpcap's filters find IP.
fn add_filtered(heads: &mut Vec<Head>) {
    let mut add = |link, name, make| heads.push(Head { link, name, make, is_filtered: true });
    add(0, "null, macOS", |of| of.family(30).to_vec());
    add(0, "null, FreeBSD", |of| of.family(28).to_vec());
    add(0, "null, OpenBSD", |of| of.family(24).to_vec());
    add(108, "loop", |of| Packet { is_big: true, ..of }.family(24).to_vec());
    add(109, "enc", |of| [&of.family(24), &[0, 0, 1, 0][..], &of.word(0)].concat());
    add(1, "ethernet", |of| [&MACS[..], &of.ethertype()].concat());
    add(6, "token ring", |of| [&[0x10, 0x40], &MACS[..], &of.snap()].concat());
    add(9, "ppp with an address", |of| [&[0xff, 3][..], &of.ppp()].concat());
    add(10, "fddi", |of| [&[0x54], &MACS[..], &of.snap()].concat());
    add(12, "raw of Linux", |_| Vec::new());
    add(101, "raw", |_| Vec::new());
    add(50, "ppp in hdlc", |of| [&[0xff, 3][..], &of.ppp()].concat());
    add(100, "atm", Packet::snap);
    add(104, "hdlc of Cisco", |of| [&[0x0f, 0][..], &of.ethertype()].concat());
    add(113, "cooked", |of| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &of.ethertype()[..]].concat());
    add(276, "cooked 2", |of| {
        [&of.ethertype()[..], &[0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]].concat()
    });
    add(166, "ppp of pppd", |of| [&[0, 3][..], &of.ppp()].concat());
}

fn add_others(heads: &mut Vec<Head>) {
    let mut add = |link, name, make| heads.push(Head { link, name, make, is_filtered: false });
    add(113, "cooked with snap", |of| {
        [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4], &of.snap()[..]].concat()
    });
    add(276, "cooked 2 with snap", |of| {
        [&[0, 4, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &of.snap()[..]].concat()
    });
    add(1, "ethernet with tags", |of| {
        [&MACS[..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5], &of.ethertype()].concat()
    });
    add(1, "pppoe", |of| [&MACS[..], &[0x88, 0x64], &pppoe(of, &of.ppp())].concat());
    add(1, "pppoe with a short protocol", |of| {
        [&MACS[..], &[0x88, 0x64], &pppoe(of, &of.ppp()[1..])].concat()
    });
    add(1, "snap", |of| [&MACS[..], &((of.bytes + 8) as u16).to_be_bytes(), &of.snap()].concat());
    add(1, "mpls", |_| [&MACS[..], &[0x88, 0x47, 0, 0x10, 1, 64]].concat());
    add(1, "backbone", |of| [&MACS[..], &[0x88, 0xe7, 0, 0, 0, 1], &MACS, &of.ethertype()].concat());
    add(6, "token ring with a route", |of| {
        [&[0x10, 0x40, 2, 0, 0, 0, 0, 2, 0x82, 0, 0, 0, 0, 1, 6, 0x30, 0, 0x11, 0, 0x12][..], &of.snap()]
            .concat()
    });
    add(8, "slip", |_| vec![0; 16]);
    add(9, "ppp without an address", |of| of.ppp().to_vec());
    add(9, "ppp with a short protocol", |of| of.ppp()[1..].to_vec());
    add(9, "ppp with an address and a short protocol", |of| [&[0xff, 3], &of.ppp()[1..]].concat());
    add(9, "hdlc of Cisco in ppp", |of| [&[0x0f, 0][..], &of.ethertype()].concat());
    add(9, "hdlc of Cisco in ppp, multicast", |of| [&[0x8f, 0][..], &of.ethertype()].concat());
    add(9, "mpls in ppp", |_| vec![0xff, 3, 2, 0x81, 0, 0x10, 1, 64]);
    add(11, "atm of Linux", Packet::snap);
    add(13, "enc of OpenBSD", |of| [&of.family(24), &[0, 0, 1, 0][..], &of.word(0)].concat());
    add(14, "raw of OpenBSD", |_| Vec::new());
    add(50, "hdlc of Cisco in ppp in hdlc", |of| [&[0x0f, 0][..], &of.ethertype()].concat());
    add(50, "ppp in hdlc with a short protocol", |of| [&[0xff, 3], &of.ppp()[1..]].concat());
    add(51, "pppoe alone", |of| pppoe(of, &of.ppp()));
    add(102, "slip of BSD/OS", |_| vec![0; 24]);
    add(103, "ppp of BSD/OS", |of| [&[0; 5][..], &of.ppp(), &[0; 17]].concat());
    add(107, "frame relay", |of| vec![0x18, 0x41, 3, if of.is_v6 { 0x8e } else { 0xcc }]);
    add(107, "frame relay with snap", |of| {
        [&[0x18, 0x41, 3, 0, 0x80, 0, 0, 0][..], &of.ethertype()].concat()
    });
    add(107, "frame relay of Cisco", |of| [&[0x18, 0x41][..], &of.ethertype()].concat());
    add(107, "frame relay with four bytes", |of| {
        vec![0x18, 0x40, 0, 1, 3, if of.is_v6 { 0x8e } else { 0xcc }]
    });
    add(117, "pflog", |of| [&[61, if of.is_v6 { 24 } else { 2 }][..], &[0; 62]].concat());
    add(204, "ppp with direction", |of| [&[1, 0xff, 3][..], &of.ppp()].concat());
    add(205, "hdlc with direction", |of| [&[1, 0x0f, 0][..], &of.ethertype()].concat());
    add(206, "frame relay with direction", |of| vec![1, 0x18, 0x41, 3, if of.is_v6 { 0x8e } else { 0xcc }]);
    add(219, "mpls alone", |_| vec![0, 0x10, 1, 64]);
}

fn pppoe(of: Packet, protocol: &[u8]) -> Vec<u8> {
    let length = (of.bytes + protocol.len()) as u16;
    [&[0x11, 0, 0, 1], &length.to_be_bytes()[..], protocol].concat()
}

/// A pcap file (µs) in either byte order; the packets are a ms apart.
pub(crate) fn pcap(link: u32, is_big: bool, packets: &[Vec<u8>]) -> Vec<u8> {
    let word = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
    let half = |half: u16| if is_big { half.to_be_bytes() } else { half.to_le_bytes() };
    let mut file = [&word(0xa1b2_c3d4)[..], &half(2), &half(4)].concat();
    file.extend([0, 0, 262_144, link].map(word).concat());
    for (at, packet) in packets.iter().enumerate() {
        let (seconds, length) = (1_700_000_000 + at as u32 / 1000, packet.len() as u32);
        file.extend([seconds, at as u32 % 1000 * 1000, length, length].map(word).concat());
        file.extend(packet);
    }
    file
}

/// TCP segments: direction (from A), sequence and acknowledgment numbers, flags, data.
fn segments() -> Vec<(bool, Vec<u8>)> {
    let segment = |(is_out, sequence, acknowledgment, flags, data): (bool, u32, u32, u8, &[u8])| {
        let ports: [u16; 2] = if is_out { [40000, 80] } else { [80, 40000] };
        let mut bytes = ports.map(u16::to_be_bytes).concat();
        bytes.extend([sequence, acknowledgment].map(u32::to_be_bytes).concat());
        bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.extend(data);
        (is_out, bytes)
    };
    let all: [(bool, u32, u32, u8, &[u8]); 7] = [
        (true, 1000, 0, 2, b""),
        (false, 5000, 1001, 0x12, b""),
        (true, 1001, 5001, 0x10, b""),
        (true, 1001, 5001, 0x18, DATA),
        (false, 5001, 1006, 0x11, b""),
        (true, 1006, 5002, 0x11, b""),
        (false, 5002, 1007, 0x10, b""),
    ];
    all.into_iter().map(segment).collect()
}

/// Two connections, of IPv4 and IPv6, as IP packets.
fn connections() -> Vec<(bool, Vec<u8>)> {
    let mut packets = Vec::new();
    for (is_out, segment) in segments() {
        let (a4, b4) = if is_out { (A4, B4) } else { (B4, A4) };
        packets.push((false, build::ipv4(a4, b4, 6, &[], &segment)));
    }
    for (is_out, segment) in segments() {
        let (a6, b6) = if is_out { (A6, B6) } else { (B6, A6) };
        packets.push((true, build::ipv6(a6, b6, 6, &segment)));
    }
    packets
}

/// Frames with a head.
pub(crate) fn framed(head: Head, is_big: bool, packets: &[(bool, Vec<u8>)]) -> Vec<Vec<u8>> {
    let frame = |(is_v6, packet): &(bool, Vec<u8>)| {
        [(head.make)(Packet { is_v6: *is_v6, bytes: packet.len(), is_big }), packet.clone()].concat()
    };
    packets.iter().map(frame).collect()
}

/// The JSON of a command that finds no loss.
fn json(dir: &Path, args: &str) -> Value {
    let done =
        Command::new(QUAFF).current_dir(dir).args(args.split_whitespace()).output().expect("quaff runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{args}: {:?} {stderr}", done.status);
    let lines = String::from_utf8_lossy(&done.stdout);
    let last = lines.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{args}: {error}: {lines} {stderr}"))
}

const SCRIPT: &str = "local packets = histogram('packets', {'protocol'})
on('packet', function(packet) packets:count(packet.protocol or 'other') end)
";

#[test]
fn all_commands_see_the_ip_packets_of_every_link_type() {
    let dir = folder();
    let dir = dir.path();
    std::fs::write(dir.join("count.lua"), SCRIPT).unwrap();
    for (head, is_big) in in_byte_orders() {
        let packets = connections();
        std::fs::write(dir.join("in"), pcap(head.link, is_big, &framed(head, is_big, &packets))).unwrap();
        let (name, all) = (format!("{} {}, big endian: {is_big}", head.link, head.name), packets.len());
        let flows = json(dir, "flows --read in --json");
        assert_eq!(
            (&flows["packets_in_flows"], &flows["flows_exported"]),
            (&all.into(), &2.into()),
            "{name}"
        );
        let verified = json(dir, "verify --json in");
        assert_eq!(verified["tcp"]["flows"], 2, "{name}: {verified}");
        std::fs::remove_dir_all(dir.join("streams")).ok();
        let streams = json(dir, "streams extract --read in --dir streams --json");
        assert_eq!(streams["bytes"]["delivered"], 2 * DATA.len(), "{name}: {streams}");
        let split = json(dir, "split --read in --by ports -w a.pcap -w b.pcap --json");
        assert_eq!((&split["conversations"], &split["out"]), (&2.into(), &all.into()), "{name}: {split}");
        let scripts = json(dir, "streams --script count.lua --read in -q");
        assert_eq!(
            (&scripts["protocol"], &scripts["count"]),
            (&"tcp".into(), &all.into()),
            "{name}: {scripts}"
        );
        if head.is_filtered {
            let filtered = json(dir, "capture --read in -f tcp -w out.pcapng --json");
            assert_eq!(filtered["written"], all, "{name}: {filtered}");
            let ip6 = json(dir, "flows --read in -f ip6 --json");
            assert_eq!((&ip6["packets_in_flows"], &ip6["filtered"]), (&7.into(), &7.into()), "{name}: {ip6}");
            let ip6 = json(dir, "split --read in -f ip6 --by ports -w a.pcap -w b.pcap --json");
            assert_eq!(ip6["out"], 7, "{name}: {ip6}");
        }
    }
}

#[test]
fn tunnels_are_entered_on_every_link_type() {
    let dir = folder();
    let inner = build::ipv4(A4, B4, 17, &[], &build::udp(1, 53, DATA));
    let on4 = |protocol, payload: &[u8]| (false, build::ipv4(B4, A4, protocol, &[], payload));
    let tunnels = [
        // DS-Lite (RFC 6333), IPIP, 6in4, GRE.
        (true, build::ipv6(B6, A6, 4, &inner)),
        on4(4, &inner),
        on4(41, &build::ipv6(A6, B6, 17, &build::udp(1, 53, DATA))),
        on4(47, &build::gre(&build::Gre::default(), 0x0800, &inner)),
        on4(17, &build::udp(9, 4789, &build::vxlan(7, &build::ethernet(&[], 0x0800, &inner)))),
    ];
    for (head, is_big) in in_byte_orders() {
        let name = format!("{} {}, big endian: {is_big}", head.link, head.name);
        let file = pcap(head.link, is_big, &framed(head, is_big, &tunnels));
        std::fs::write(dir.path().join("in"), file).unwrap();
        // Labels are tunnels too, which one level ends in.
        for kinds in ["auto", "gre,ipip,vxlan"] {
            if head.name.contains("mpls") && kinds != "auto" {
                continue;
            }
            let args = format!("capture --read in --decap {kinds} --decap-only -w out.pcapng --json");
            let done = json(dir.path(), &args);
            assert_eq!(
                (&done["written"], &done["verdict"]),
                (&5.into(), &"lossless".into()),
                "{name}: {done}"
            );
            let of_flows = json(dir.path(), &format!("flows --read in --decap {kinds} --json"));
            // The packets inside are equal but for the version of IP.
            assert_eq!(of_flows["ignored"]["not_ip"], 0, "{name}: {of_flows}");
        }
    }
}

#[test]
fn packets_of_other_link_types_are_named() {
    let dir = folder();
    let frames = vec![vec![8; 60]; 3];
    std::fs::write(dir.path().join("in"), pcap(105, false, &frames)).unwrap();
    std::fs::write(dir.path().join("count.lua"), SCRIPT).unwrap();
    for args in [
        "flows --read in",
        "streams extract --read in --dir streams",
        "streams --script count.lua --read in",
        "split --read in --by ports -w a.pcap -w b.pcap",
    ] {
        let done = Command::new(QUAFF)
            .current_dir(dir.path())
            .args(args.split_whitespace())
            .output()
            .expect("quaff runs");
        let said =
            String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("3 packets are of link type 105 (IEEE 802.11)"), "{args}: {said}");
    }
}
