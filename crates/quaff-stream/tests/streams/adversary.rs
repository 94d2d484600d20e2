//! A day of hostile traffic in packet time, without a pause: memory stays inside its limits, and no packet takes many
//! times as long as one of ordinary traffic: of short connections, or of datagrams in two fragments.
//!
//! Each flood comes in 24 waves an hour apart, each as fast as 1 Mpps, so that limits are hit and timeouts pass. It
//! runs in a process of its own: its resident memory is that of the tracker or the meter. `QUAFF_WAVE` is the number of
//! packets of a wave.

use quaff_os::testing::assert_when_quiet;
use quaff_stream::LossMeter;
use quaff_stream::tracker::{Closed, ConnectionSink, Opened, TrackPacket, TrackPlan, Tracker};
use quaff_stream::{Event, Sender};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Packets of a wave; `make soak` has 420,000, ten million a day.
const WAVE: u64 = 50_000;
const WAVES: u64 = 24;
const HOUR_NS: u64 = 3_600_000_000_000;
const START_NS: u64 = 1_700_000_000_000_000_000;
/// The flood of a process, and who takes it.
const FLOOD: &str = "QUAFF_FLOOD";
const LINKTYPE_ETHERNET: u16 = 1;
const IP_AT: usize = 14;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Resident memory that connections may add, by their limits: 262,144 of 240 bytes with their index, and 200 bytes for
/// holes in each direction; 64 MiB of pages, of which the allocator takes a quarter more; the growth of the table,
/// whose last copy is as large as the one before.
const TRACKER_MIB: u64 = 384;
/// The same of fragments: 16 MiB, and a quarter more.
const FRAGMENTS_MIB: u64 = 24;
/// The same of a meter: 68 MiB, as `docs/verify.md` has it, and a part of the program.
const METER_MIB: u64 = 72;
/// Memory may not grow by more after the first quarter of a day.
const GROWTH_MIB: u64 = 8;

/// A packet of a flood takes at most so many times as long as an ordinary one: work that grows with what a flood has
/// left behind exceeds this by far. In whole waves it is 1.0 to 2.0 on a quiet machine; in waves of 50,000 packets, of
/// which ordinary ones stay in the caches, 3.5 to 4.3 for connections with a hole each.
const SLOWER_MAX: f64 = 6.0;

/// A frame that is written anew for each packet.
struct Frame {
    bytes: Vec<u8>,
}

/// The parts of a segment that differ.
#[derive(Clone, Copy, Default)]
struct Part {
    flow: u64,
    is_answer: bool,
    flags: u8,
    sequence: u32,
    acknowledgment: u32,
    bytes: usize,
    fill: u8,
}

impl Frame {
    fn new() -> Self {
        Self { bytes: Vec::with_capacity(2048) }
    }

    /// Headers of Ethernet and IP, of so many bytes after them. `fragment` is the field of flags and offset.
    fn ip(&mut self, ends: [[u8; 4]; 2], id: u16, fragment: u16, bytes: usize) {
        self.bytes.clear();
        self.bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0]);
        self.bytes.extend((20 + bytes as u16).to_be_bytes());
        self.bytes.extend(id.to_be_bytes());
        self.bytes.extend(fragment.to_be_bytes());
        self.bytes.extend([64, 6, 0, 0]);
        ends.iter().for_each(|end| self.bytes.extend(end));
    }

    fn segment(&mut self, part: Part) {
        let Part { flow, is_answer, flags, sequence, acknowledgment, bytes, fill } = part;
        let [a, b, c, d] = (flow as u32).to_be_bytes();
        let (mut ends, mut ports) = ([[10, a, b, c], [192, 168, 0, 1]], [1024 + u16::from(d), 443]);
        if is_answer {
            ends.swap(0, 1);
            ports.swap(0, 1);
        }
        self.ip(ends, 1, 0x4000, 20 + bytes);
        ports.iter().for_each(|port| self.bytes.extend(port.to_be_bytes()));
        self.bytes.extend(sequence.to_be_bytes());
        self.bytes.extend(acknowledgment.to_be_bytes());
        self.bytes.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        self.bytes.resize(IP_AT + 40 + bytes, fill);
    }

    /// A fragment at `unit` times eight bytes of datagram `id`.
    fn fragment(&mut self, id: u64, unit: u64, more: bool, bytes: usize, fill: u8) {
        let [a, b, ..] = (id >> 16).to_le_bytes();
        let field = (unit as u16 & 0x1fff) | if more { 0x2000 } else { 0 };
        self.ip([[10, 1, b, a], [192, 168, 0, 1]], id as u16, field, bytes);
        self.bytes.resize(IP_AT + 20 + bytes, fill);
    }
}

/// A number that looks random, always the same for `at` (splitmix64, S. Vigna 2015).
fn mixed(at: u64) -> u64 {
    let z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Writes packet `at` of a flood.
type Write = fn(&mut Frame, u64);

/// Ordinary short connections, 100,000 side by side: a handshake, a request and its answer, both ends.
fn ordinary(frame: &mut Frame, at: u64) {
    const FLOWS: u64 = 100_000;
    const STEPS: u64 = 7;
    let (round, step) = (at / (FLOWS * STEPS), at / FLOWS % STEPS);
    let (flow, is_answer) = (round * FLOWS + at % FLOWS, matches!(step, 1 | 4 | 6));
    let part = Part { flow, is_answer, flags: ACK, sequence: 1, acknowledgment: 1, ..Part::default() };
    frame.segment(match step {
        0 => Part { flags: SYN, sequence: 0, acknowledgment: 0, ..part },
        1 => Part { flags: SYN | ACK, sequence: 0, ..part },
        2 => part,
        3 => Part { bytes: 200, ..part },
        4 => Part { acknowledgment: 201, bytes: 900, ..part },
        5 => Part { flags: FIN | ACK, sequence: 201, acknowledgment: 901, ..part },
        _ => Part { flags: FIN | ACK, sequence: 901, acknowledgment: 202, ..part },
    });
}

/// Ordinary datagrams of two fragments, 1,000 side by side.
fn ordinary_fragments(frame: &mut Frame, at: u64) {
    let (id, is_last) = (at / 2000 * 1000 + at % 1000, at / 1000 % 2 == 1);
    frame.fragment(id, if is_last { 100 } else { 0 }, !is_last, 800, 0);
}

/// Connections of which there is a SYN alone.
fn half_open(frame: &mut Frame, at: u64) {
    frame.segment(Part { flow: at, flags: SYN, sequence: at as u32, ..Part::default() });
}

/// Connections with one byte after a hole.
fn holes(frame: &mut Frame, at: u64) {
    let part = Part { flow: at / 2, flags: SYN, ..Part::default() };
    frame.segment(if at.is_multiple_of(2) {
        part
    } else {
        Part { flags: ACK, sequence: 1001, bytes: 1, ..part }
    });
}

/// The same, each connection ended by a reset, and begun again.
fn holes_and_resets(frame: &mut Frame, at: u64) {
    let part = Part { flow: at / 3 % 50_000, sequence: 7, flags: SYN, ..Part::default() };
    frame.segment(match at % 3 {
        0 => part,
        1 => Part { flags: ACK, sequence: 1001, bytes: 1, ..part },
        _ => Part { flags: RST, sequence: 8, ..part },
    });
}

/// Each second byte of long streams.
fn single_bytes(frame: &mut Frame, at: u64) {
    let (flow, number) = (at % 1000, at / 1000 % 1_000_000);
    let part = Part { flow, flags: ACK, sequence: 2 * number as u32 + 10, bytes: 1, ..Part::default() };
    frame.segment(if number == 0 { Part { flags: SYN, sequence: 1, bytes: 0, ..part } } else { part });
}

/// Segments over others, with different bytes, after a hole.
fn overlaps(frame: &mut Frame, at: u64) {
    let random = mixed(at);
    let (offset, bytes) = (random as u32 % 60_000, 1 + (random >> 32) as usize % 1400);
    let part =
        Part { flow: at % 64, flags: ACK, sequence: 10 + offset, bytes, fill: at as u8, ..Part::default() };
    frame.segment(if at < 64 { Part { flags: SYN, sequence: 1, bytes: 0, ..part } } else { part });
}

/// Any flags, numbers and sizes, in few connections.
fn nonsense(frame: &mut Frame, at: u64) {
    let (random, more) = (mixed(at), mixed(!at));
    let near = |number: u64| if number & 3 == 0 { number as u32 } else { number as u32 % 100_000 };
    frame.segment(Part {
        flow: random % 5000,
        is_answer: random & 1 << 40 != 0,
        flags: (random >> 48) as u8,
        sequence: near(more),
        acknowledgment: near(more >> 24),
        bytes: (random >> 56) as usize % 200,
        fill: at as u8,
    });
}

/// Acknowledgments of bytes that never come.
fn acknowledgments(frame: &mut Frame, at: u64) {
    let (flow, step) = (at % 50_000, at / 50_000);
    let part = Part { flow, is_answer: true, flags: ACK, sequence: 1, acknowledgment: 1, ..Part::default() };
    let number = 1 + 3000 * step as u32;
    frame.segment(match step {
        0 => Part { is_answer: false, flags: SYN, sequence: 0, ..part },
        1 => Part { flags: SYN | ACK, sequence: 0, ..part },
        _ if step % 2 == 1 => Part { acknowledgment: number, ..part },
        _ => Part { is_answer: false, sequence: number, bytes: 1, ..part },
    });
}

/// First fragments.
fn first_fragments(frame: &mut Frame, at: u64) {
    frame.fragment(at, 0, true, 64, 0);
}

/// Each second unit of long datagrams.
fn fragments_with_holes(frame: &mut Frame, at: u64) {
    frame.fragment(at / 4000, 2 * (at % 4000), true, 8, 0);
}

/// Fragments over others, with different bytes.
fn overlapping_fragments(frame: &mut Frame, at: u64) {
    let random = mixed(at);
    let bytes = 8 * (1 + random as usize % 170);
    frame.fragment(at % 256, 1 + (random >> 32) % 7000, true, bytes, at as u8);
}

/// Ordinary traffic: of connections, and of fragments.
const PLAIN: [(&str, Write); 2] = [("ordinary", ordinary), ("ordinary-fragments", ordinary_fragments)];
/// Floods of connections, and of fragments, by name.
const FLOODS: [(&str, Write); 7] = [
    ("half-open", half_open),
    ("holes", holes),
    ("holes-and-resets", holes_and_resets),
    ("single-bytes", single_bytes),
    ("overlaps", overlaps),
    ("nonsense", nonsense),
    ("acknowledgments", acknowledgments),
];
const FRAGMENT_FLOODS: [(&str, Write); 3] = [
    ("first-fragments", first_fragments),
    ("fragments-with-holes", fragments_with_holes),
    ("overlapping-fragments", overlapping_fragments),
];

/// A reader that costs nothing.
#[derive(Default)]
struct Reader(u64);

impl ConnectionSink for Reader {
    fn begin(&mut self, _: u32, _: &Opened) {}

    fn event(&mut self, _: u32, _: Sender, _: u64, _: Event) {
        self.0 += 1;
    }

    fn end(&mut self, _: u32, _: &Closed) {}
}

/// The memory and the time of a flood.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Resident memory beyond that before the first packet: its maximum, and after a quarter of the waves.
    high_mib: u64,
    quarter_mib: u64,
    /// CPU time of a packet, that of its making included.
    packet_ns: f64,
}

/// Resident bytes of this process (proc_pid_statm(5)).
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number of pages");
    pages * 4096
}

/// CPU time of this thread, ns.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number of ns")
}

/// Sends a flood to `take`, with so many ns between its waves, and reports the cost.
fn flood(write: Write, wave: u64, pause_ns: u64, mut take: impl FnMut(&[u8], u64)) -> Cost {
    let (mut frame, before, begun_ns) = (Frame::new(), resident_bytes(), cpu_ns());
    let (mut high, mut quarter) = (before, before);
    for at in 0..WAVES * wave {
        write(&mut frame, at);
        take(&frame.bytes, START_NS + at * 1000 + at / wave * pause_ns);
        if at % 8192 == 0 {
            high = high.max(resident_bytes());
        }
        if at == WAVES / 4 * wave {
            quarter = high;
        }
    }
    high = high.max(resident_bytes());
    let mib = |bytes: u64| (bytes - before) >> 20;
    let packet_ns = (cpu_ns() - begun_ns) as f64 / (WAVES * wave) as f64;
    Cost { high_mib: mib(high), quarter_mib: mib(quarter), packet_ns }
}

fn packet(bytes: &[u8], time_ns: u64) -> TrackPacket<'_> {
    TrackPacket { bytes, wire_bytes: bytes.len() as u32, linktype: LINKTYPE_ETHERNET, time_ns }
}

fn track(write: Write, wave: u64, pause_ns: u64) -> Cost {
    let (mut tracker, mut reader) = (Tracker::new(TrackPlan::default(), 7), Reader::default());
    let cost =
        flood(write, wave, pause_ns, |bytes, time_ns| tracker.packet(&packet(bytes, time_ns), &mut reader));
    let is_balanced = |tracker: &Tracker| {
        tracker.tally().is_balanced() && tracker.streams().is_balanced() && tracker.fragments().is_balanced()
    };
    assert!(is_balanced(&tracker), "{:?} {:?}", tracker.tally(), tracker.streams());
    tracker.finish(&mut reader);
    let tally = tracker.tally();
    assert!(is_balanced(&tracker) && tally.packets == WAVES * wave, "{tally:?}");
    assert_eq!(tally.ended.iter().sum::<u64>(), tally.connections, "{tally:?}");
    assert!(tally.connections_high <= u64::from(TrackPlan::default().connections_max), "{tally:?}");
    assert_eq!((tracker.streams().held_bytes, tracker.fragments().held_bytes), (0, 0));
    cost
}

fn measure(write: Write, wave: u64, pause_ns: u64) -> Cost {
    let mut meter = LossMeter::new(7);
    let cost = flood(write, wave, pause_ns, |bytes, time_ns| {
        meter.packet(bytes, bytes.len() as u32, LINKTYPE_ETHERNET, time_ns);
    });
    let report = meter.finish();
    assert!(report.loss_ratio.is_none_or(f64::is_finite), "{report:?}");
    cost
}

/// The number of packets of a wave.
fn wave() -> u64 {
    std::env::var("QUAFF_WAVE").map_or(WAVE, |wave| wave.parse().expect("QUAFF_WAVE is a number"))
}

/// Runs a flood in a process of its own.
fn in_process(who: &str, name: &str) -> Cost {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "adversary::one_flood", "--nocapture"]).env(FLOOD, format!("{who} {name}"));
    let done = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{who} {name}: {text}");
    let line = text.lines().find_map(|line| line.strip_prefix("cost: ")).expect("the cost");
    let mut words = line.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<f64>().ok()).expect("a number");
    let (high_mib, quarter_mib) = (number() as u64, number() as u64);
    Cost { high_mib, quarter_mib, packet_ns: number() }
}

/// Runs the flood that the environment names; nothing without it.
#[test]
#[allow(clippy::print_stderr, reason = "the process that started this one reads the line")]
fn one_flood() {
    let Ok(words) = std::env::var(FLOOD) else { return };
    let (who, name) = words.split_once(' ').expect("two words");
    let is_it = |(known, _): &(&str, Write)| *known == name;
    // Ordinary traffic comes without pauses.
    let plain = PLAIN.into_iter().find(is_it).map(|(_, write)| (write, 0));
    let flood = FLOODS.into_iter().chain(FRAGMENT_FLOODS).find(is_it).map(|(_, write)| (write, HOUR_NS));
    let (write, pause_ns) = plain.or(flood).expect("a flood");
    let run = if who == "tracker" { track } else { measure };
    let Cost { high_mib, quarter_mib, packet_ns } = run(write, wave(), pause_ns);
    eprintln!("cost: {high_mib} {quarter_mib} {packet_ns}");
}

fn assert_bounded(who: &str, plain: &str, floods: &[(&str, Write)], limit_mib: u64) {
    // Two processes that measure at a time would take caches from each other.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // All floods are compared with one run of it: each is allowed several times its cost.
    let ordinary = in_process(who, plain);
    for (name, _) in floods {
        let test = format!("adversary {who} {name}");
        let run = || [ordinary, in_process(who, name)];
        let is_bounded = |costs: &[Cost; 2]| {
            let [plain, found] = *costs;
            assert!(found.high_mib <= limit_mib, "{test}: {found:?}");
            assert!(found.high_mib <= found.quarter_mib + GROWTH_MIB, "{test} grows: {found:?}");
            found.packet_ns <= SLOWER_MAX * plain.packet_ns
        };
        assert_when_quiet(&test, run, is_bounded);
    }
}

#[test]
fn connections_stay_inside_their_limits_under_each_flood() {
    assert_bounded("tracker", "ordinary", &FLOODS, TRACKER_MIB);
}

#[test]
fn fragments_stay_inside_their_limits_under_each_flood() {
    assert_bounded("tracker", "ordinary-fragments", &FRAGMENT_FLOODS, FRAGMENTS_MIB);
}

#[test]
fn the_meter_of_losses_stays_inside_its_limits_under_each_flood() {
    assert_bounded("meter", "ordinary", &FLOODS, METER_MIB);
}
