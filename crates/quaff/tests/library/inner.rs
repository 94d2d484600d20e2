//! `--inner` selects the same packets wherever it is evaluated: the kernel on packets of tunnels, quaff's interpreter
//! on the frames inside, and tcpdump on the file with these frames agree. Tests random frames and expressions, each
//! tunnel whose headers have a fixed length, and other packets.

use crate::programs::{self, UNDECIDED};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use quaff_os::filter::compile_offline;
use quaff_os::packet::Insn as KernelInsn;
use quaff_os::testing::{KernelFilter, skip};
use quaff_testpackets::{self as build, Erspan, ErspanIii};
use quaff_wire::decode::Item;
use quaff_wire::filter::{Insn, Program, Relocation, Subject, relocate};
use quaff_wire::tunnel::{Outcome, TunnelKinds, strip};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

/// Bytes that the kernel keeps of a matching packet; it keeps one byte of an undecided one.
const MATCHED: u32 = 0x40000;
/// Number of frames per expression.
const FRAMES: usize = 60;

/// Number of expressions per test; QUAFF_CASES sets another one.
fn cases(few: u32) -> u32 {
    std::env::var("QUAFF_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(few)
}

fn kernel(insns: &[Insn]) -> KernelFilter {
    let insns: Vec<_> = insns
        .iter()
        .map(|insn| KernelInsn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k })
        .collect();
    KernelFilter::new(&insns).expect("the kernel takes it")
}

/// The program of an expression, for frames as in a file; `None` if libpcap reports that it matches nothing, or an
/// error.
fn compile(expression: &str) -> Option<Vec<Insn>> {
    let insns = compile_offline(1, false, expression, 262_144).ok()?;
    Some(insns.iter().map(|insn| Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k }).collect())
}

/// One primitive of the language.
fn primitive() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "ip",
        "ip6",
        "arp",
        "tcp",
        "udp",
        "icmp",
        "icmp6",
        "vlan",
        "vlan 5",
        "vlan 0",
        "vlan 7 and vlan",
        "mpls",
        "port 53",
        "tcp port 80",
        "udp dst port 53",
        "src port 80",
        "portrange 50-90",
        "tcp portrange 1-70",
        "host 10.0.0.1",
        "src host 10.0.0.2",
        "dst net 10.0.0.0/30",
        "host fd00::1",
        "ip6 src net fd00::/8",
        "ether host 02:00:00:00:00:01",
        "ether src 02:00:00:00:00:02",
        "ether broadcast",
        "ether multicast",
        "ip proto 17",
        "ip6 proto 6",
        "ether proto 0x88a8",
        "ip broadcast",
        "ip multicast",
        "arp[6:2] = 1",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
        "tcp[13] & 2 != 0",
        "udp[4:2] > 20",
        "icmp[icmptype] = 8",
        "ip[6:2] & 0x1fff = 0",
        "ip6[6] = 17",
        "ip[2:2] - ((ip[0] & 0xf) << 2) > 30",
        "ether[12:2] = 0x8100",
        "ether[14:2] & 0xfff = 5",
        "ether[12:4] = 0x81000005",
        "ether[10:4] != 0",
        "ether[13:2] = 0x81",
        "ether[15] = 5",
        "tcp[0:2] = udp[2:2]",
        "ip[8] * 3 > ip[9]",
        "ether[ip[0] & 0x1f] = 2",
        "ether[len - 4] < 128",
        // The kernel's arithmetic differs from libpcap's here.
        "len / ip[8] > 3",
        "len % udp[6] = 1",
        "1 << ip[9] = 64",
        "ip[8] >> udp[5] = 0",
        "ether[ether[14] - 70] = 2",
        "ether[ip[3] - 60:2] > 3",
        "ether[0xfffffff] = 1",
        "(ip[1] - 1) >> ip[8] = 0",
    ]);
    prop_oneof![
        6 => words.prop_map(str::to_owned),
        1 => (0u32..140).prop_map(|len| format!("len > {len}")),
        1 => (0u32..140).prop_map(|len| format!("less {len}")),
        1 => (0u32..70, 1u32..3, any::<u8>()).prop_map(|(at, size, value)| format!("ether[{at}:{size}] > {value}")),
        1 => (0u32..40, any::<u8>()).prop_map(|(at, bit)| format!("ip[{at}] & {bit} != 0")),
    ]
}

fn expressions() -> impl Strategy<Value = String> {
    primitive().prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// Inner frames: common ones, truncated ones, and random bytes.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::sample::select(vec![
        &[][..],
        &[],
        &[],
        &[(0x8100, 5)],
        &[(0x8100, 0xe007), (0x8100, 8)],
        &[(0x88a8, 5), (0x8100, 5)],
    ]);
    let ports = prop::sample::select(vec![53u16, 80, 443, 4789, 1]);
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let packet = (0u8..9, ports.clone(), ports, payload, any::<[u8; 2]>());
    let frame = (packet, tags).prop_map(|((kind, source, destination, payload, noise), tags)| {
        let (v4, v6) =
            (|low| Ipv4Addr::new(10, 0, 0, low), |low| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, low));
        let udp = build::udp(source, destination, &payload);
        let mut tcp = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        tcp.extend([0, 0, 0, noise[0], 0, 0, 0, 1, 0x50, noise[1] & 0x3f, 0, 9, 0, 0, 0, 0]);
        tcp.extend(&payload);
        let (ethertype, bytes) = match kind {
            0 | 1 => (0x0800, build::ipv4(v4(1), v4(2), 6, &[], &tcp)),
            2 => (0x0800, build::ipv4(v4(2), v4(255), 17, &[], &udp)),
            3 => (0x0800, build::ipv4(v4(1), v4(3), 17, &[1, 1, 1, 0], &udp)),
            4 => (0x0800, build::ipv4(v4(3), v4(1), 1, &[], &[&[8, 0, 0, 0], &payload[..]].concat())),
            5 => (0x86dd, build::ipv6(v6(1), v6(2), 6, &tcp)),
            6 => (0x86dd, build::ipv6(v6(2), v6(1), 17, &udp)),
            7 => (0x0806, [&[0, 1, 8, 0, 6, 4, 0, 1], &[noise[0]; 20][..]].concat()),
            _ => (u16::from_be_bytes(noise), payload),
        };
        build::ethernet(tags, ethertype, &bytes)
    });
    let garbage = prop::collection::vec(any::<u8>(), 0..80);
    let cut = (frame.clone(), 0usize..60).prop_map(|(mut frame, len)| {
        frame.truncate(len);
        frame
    });
    prop_oneof![8 => frame, 1 => cut, 1 => garbage]
}

/// Packets with an inner frame in a tunnel, and a few others.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let header = (prop::sample::select(vec![0u16, 5, 7, 0xfff]), 0u8..8, 0u8..4, prop::bool::weighted(0.1));
    (frames(), 0u8..14, header, any::<u8>()).prop_map(
        |(frame, kind, (vlan, cos, encapsulation, truncated), noise)| {
            let header = Erspan { vlan, cos, encapsulation, truncated, session: 7 };
            let platform = ErspanIii { platform: Some([noise; 8]), ..ErspanIii::default() };
            let (protocol, options, payload): (_, &[u8], _) = match kind {
                0 => (47, &[], build::erspan_i(&frame)),
                1..=4 => (47, &[], build::erspan_ii(1, &header, 1, &frame)),
                5 => (47, &[], build::erspan_iii(1, &header, &ErspanIii::default(), &frame)),
                6 => (47, &[], build::erspan_iii(1, &header, &platform, &frame)),
                7..=9 => (17, &[], build::udp(5000, 4789, &build::vxlan(5, &frame))),
                10 => (17, &[], build::udp(5000, 6081, &build::geneve(5, 0x6558, &[], &frame))),
                11 => (47, &[1, 1, 1, 1], build::erspan_ii(1, &header, 1, &frame)),
                12 => (17, &[], build::udp(4789, 53, &frame)),
                _ => return frame,
            };
            let packet = build::ipv4(
                Ipv4Addr::new(10, 9, 9, 1),
                Ipv4Addr::new(10, 9, 9, 2),
                protocol,
                options,
                &payload,
            );
            let tags = [(0x8100, 9)];
            let mut packet = build::ethernet(if noise == 1 { &tags } else { &[] }, 0x0800, &packet);
            if noise < 8 {
                packet.extend([0; 4]); // Padding.
            }
            packet
        },
    )
}

/// A frame as in the decapsulated file.
#[derive(Debug)]
struct Filed {
    bytes: Vec<u8>,
    wire_len: u32,
    tag: Option<(u16, u16)>,
}

impl Filed {
    fn of(packet: &[u8], depth: u8) -> Self {
        let wire_len = packet.len() as u32;
        match strip(packet, wire_len, 1, TunnelKinds::ALL, depth) {
            Outcome::Inner(inner) if inner.linktype == 1 => Self {
                bytes: packet[inner.start as usize..][..inner.len as usize].to_vec(),
                wire_len: inner.wire_len.unwrap_or(inner.len),
                tag: inner.tag,
            },
            _ => Self { bytes: packet.to_vec(), wire_len, tag: None },
        }
    }

    fn matches(&self, program: &Program) -> bool {
        let subject = Subject { bytes: &self.bytes, wire_len: self.wire_len, tag: self.tag };
        program.run(&subject) != 0
    }

    /// The bytes of the frame, including the tag.
    fn whole(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some((tpid, tci)) = self.tag.filter(|_| bytes.len() >= 12) {
            bytes.splice(12..12, [tpid.to_be_bytes(), tci.to_be_bytes()].concat());
        }
        bytes
    }
}

/// A pcap file of these frames; the time of each is its number.
fn pcap(frames: &[Filed]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().enumerate() {
        let bytes = frame.whole();
        let wire_len = frame.wire_len + (bytes.len() - frame.bytes.len()) as u32;
        for word in [number as u32, 0, bytes.len() as u32, wire_len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    file
}

/// The frames of a file that tcpdump selects.
fn tcpdump(file: &std::path::Path, expression: &str) -> Vec<usize> {
    let done =
        Command::new("tcpdump").arg("-r").arg(file).args(["-w", "-", expression]).output().expect("tcpdump");
    assert!(done.status.success(), "{expression}: {}", String::from_utf8_lossy(&done.stderr));
    let word =
        |at: usize| u32::from_le_bytes(done.stdout[at..at + 4].try_into().expect("four bytes")) as usize;
    let (mut kept, mut at) = (Vec::new(), 24);
    while at < done.stdout.len() {
        kept.push(word(at));
        at += 16 + word(at + 8);
    }
    kept
}

/// The numbers of packets that the kernel passed and dropped.
#[derive(Debug, Default)]
struct Seen {
    matched: usize,
    rejected: usize,
    undecided: usize,
}

impl Seen {
    fn note(&mut self, verdict: u32) {
        match verdict {
            0 => self.rejected += 1,
            UNDECIDED => self.undecided += 1,
            _ => self.matched += 1,
        }
    }

    #[track_caller]
    fn check(&self, least: usize) {
        let counts = [self.matched, self.rejected, self.undecided];
        assert!(counts.iter().all(|count| *count > least), "it proves little: {self:?}");
    }
}

/// Compares kernel, interpreter and tcpdump for one expression and depth.
fn compare(expression: &str, packets: &[Vec<u8>], depth: u8, file: &std::path::Path, seen: &mut Seen) {
    let Some(insns) = compile(expression) else { return };
    let program = Program::new(&insns).expect("libpcap writes good programs");
    let moving = Relocation { matched: MATCHED, ..programs::relocation(&program, depth) };
    let moved = relocate(&moving).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let kernel = kernel(&moved.insns);
    let filed: Vec<_> = packets.iter().map(|packet| Filed::of(packet, depth)).collect();
    std::fs::write(file, pcap(&filed)).expect("a file");
    let kept = tcpdump(file, expression);
    for (number, (packet, frame)) in packets.iter().zip(&filed).enumerate() {
        let wanted = kept.contains(&number);
        let of = || format!("'{expression}' depth {depth} on {packet:02x?}, inner {frame:02x?}");
        assert_eq!(frame.matches(&program), wanted, "user space and tcpdump: {}", of());
        let verdict = kernel.run(packet).expect("a verdict");
        seen.note(verdict as u32);
        if verdict as u32 != UNDECIDED {
            assert_eq!(verdict > 0, wanted, "kernel and tcpdump: {}", of());
        }
    }
}

#[test]
fn kernel_user_space_and_tcpdump_agree() {
    let test = "kernel_user_space_and_tcpdump_agree";
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skip(test, "tcpdump is not installed");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (mut runner, mut seen) = (TestRunner::deterministic(), Seen::default());
    let packets = prop::collection::vec(packets().prop_filter("bytes", |packet| packet.len() > 1), FRAMES);
    let case = (expressions(), packets, prop::sample::select(vec![1u8, 1, 4]));
    for _ in 0..cases(250) {
        let (expression, packets, depth) = case.new_tree(&mut runner).expect("a case").current();
        compare(&expression, &packets, depth, &dir.path().join("inner.pcap"), &mut seen);
    }
    seen.check(500);
}

/// The packets of the captures with tunnels, if they begin with Ethernet.
fn captured() -> Vec<Vec<u8>> {
    let dir = quaff_testpackets::captures::folder().join("tunnels");
    let mut packets = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(mut file) = quaff_file::read::CaptureFile::open(&entry.path()) else { continue };
        let mut linktype = 0;
        let mut take = |item: Item<'_>| match item {
            Item::Interface(interface) => linktype = interface.linktype,
            Item::Frame(frame) if linktype == 1 && frame.data.len() > 1 => packets.push(frame.data.to_vec()),
            _ => {}
        };
        while matches!(file.pull(&mut take), Ok(true)) {}
    }
    packets
}

#[test]
fn they_agree_on_real_tunnels() {
    let test = "they_agree_on_real_tunnels";
    let packets = captured();
    if Command::new("tcpdump").arg("--version").output().is_err() {
        return skip(test, "tcpdump is not installed");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut seen = Seen::default();
    let expressions = [
        "ip",
        "arp",
        "tcp",
        "icmp",
        "udp port 53",
        "vlan",
        "vlan and ip",
        "len > 100",
        "ether multicast",
        "stp",
        "not ip",
        "ip[8] < 65",
        "ip6 or (vlan and ip6)",
        "tcp[tcpflags] & tcp-syn != 0",
        "net 10.0.0.0/8",
    ];
    for expression in expressions {
        for depth in [1, 4] {
            compare(expression, &packets, depth, &dir.path().join("real.pcap"), &mut seen);
        }
    }
    seen.check(0);
}

#[test]
fn kernel_and_interpreter_run_a_program_alike() {
    let mut runner = TestRunner::deterministic();
    let case = (prop::collection::vec(any::<u32>(), 0..150), prop::collection::vec(frames(), 12));
    let (mut yes, mut no) = (0, 0);
    for _ in 0..cases(3000) {
        let (numbers, frames) = case.new_tree(&mut runner).expect("a case").current();
        let insns = tame(&programs::program(&numbers));
        let (kernel, program) = (kernel(&insns), Program::new(&insns).expect("a program"));
        for bytes in frames.iter().filter(|bytes| !bytes.is_empty()) {
            let subject = Subject { bytes, wire_len: bytes.len() as u32, ..Subject::default() };
            let ours = program.run(&subject).min(bytes.len() as u32);
            assert_eq!(kernel.run(bytes).expect("a verdict") as u32, ours, "{insns:?} on {bytes:02x?}");
            *if ours > 0 { &mut yes } else { &mut no } += 1;
        }
    }
    assert!(yes > 100 && no > 100, "it proves little: {yes}, {no}");
}

/// Limits X where the kernel's arithmetic differs from libpcap's.
fn tame(insns: &[Insn]) -> Vec<Insn> {
    let is_indirect = |insn: &Insn| [0x40, 0x48, 0x50].contains(&insn.code);
    let is_wild = |insn: &Insn| is_indirect(insn) || [0x6c, 0x7c].contains(&insn.code);
    let insn = |code, k| Insn { code, jt: 0, jf: 0, k };
    let taming = [insn(0x87, 0), insn(0x54, 31), insn(0x07, 0)];
    // The new position of each instruction, including the ones inserted before it.
    let starts: Vec<usize> = (0..insns.len())
        .map(|at| at + taming.len() * insns[..at].iter().filter(|insn| is_wild(insn)).count())
        .collect();
    let mut tamed = Vec::new();
    for (at, now) in insns.iter().enumerate() {
        if is_wild(now) {
            tamed.extend(taming);
        }
        let far = |skipped: usize| starts.get(at + 1 + skipped).map_or(0, |start| start - tamed.len() - 1);
        let (jt, jf) = (far(now.jt.into()) as u8, far(now.jf.into()) as u8);
        let k = match now.code {
            0x05 => far(now.k as usize) as u32,
            _ if is_indirect(now) => now.k % 1000,
            _ => now.k,
        };
        tamed.push(Insn { jt, jf, k, ..*now });
    }
    tamed
}

#[test]
fn a_moved_program_decides_in_the_kernel_as_the_interpreter_does_inside() {
    let mut runner = TestRunner::deterministic();
    let case = (prop::collection::vec(any::<u32>(), 0..100), prop::collection::vec(packets(), 12), 1u8..3);
    let mut seen = Seen::default();
    for _ in 0..cases(2000) {
        let (numbers, packets, depth) = case.new_tree(&mut runner).expect("a case").current();
        let program = Program::new(&programs::program(&numbers)).expect("a program");
        let moving = Relocation { matched: MATCHED, ..programs::relocation(&program, depth) };
        let kernel = kernel(&relocate(&moving).expect("a program that can be moved").insns);
        for packet in packets.iter().filter(|packet| packet.len() > 1) {
            let wanted = Filed::of(packet, depth).matches(&program);
            let verdict = kernel.run(packet).expect("a verdict") as u32;
            let of = || format!("{:?} on {packet:02x?}", program);
            assert!(verdict == UNDECIDED || (verdict > 0) == wanted, "{}", of());
            seen.note(verdict);
        }
    }
    seen.check(200);
}
