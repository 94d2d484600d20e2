//! Generated captures, for a clone without captures of real traffic.
//!
//! They cover what the tests need: conversations of many protocols over IPv4 and IPv6, tags, options, fragments,
//! truncated frames, wrong checksums, all file formats, and tunnels of each family. They are identical in each run.

mod frames;
mod tunnels;

use frames::{Conversation, Numbers, conversation};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Number of conversation files, and of conversations in each.
const FILES: u64 = 48;
const CONVERSATIONS: u64 = 57;
/// Number of conversations in `mix.pcap`.
const MIX: u64 = 1800;
/// Number of connections in `http.pcap`, and of exchanges in each.
const HTTP: [u64; 2] = [40, 3];
/// Time of the first packet, s since 1970.
const BEGIN_S: u64 = 1_700_000_000;

/// The folder with captures for tests: `QUAFF_CAPTURES` if that is a folder, or `../shared/captures` next to the
/// workspace if the variable is not set, or generated ones.
///
/// Appends the name of the calling thread, which is the test's, to the file `QUAFF_CAPTURES_LOG`: `scripts/test` finds
/// the tests that read captures by it. Each test calls this itself and keeps no result of another.
///
/// # Panics
/// If captures must be generated and cannot be written.
pub fn folder() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    log_reader().expect("QUAFF_CAPTURES_LOG can be written");
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    match std::env::var_os("QUAFF_CAPTURES") {
        Some(dir) if Path::new(&dir).is_dir() => dir.into(),
        None if beside.is_dir() => beside,
        _ => MADE.get_or_init(|| made().expect("captures can be made")).clone(),
    }
}

fn log_reader() -> Result<()> {
    let Some(path) = std::env::var_os("QUAFF_CAPTURES_LOG") else { return Ok(()) };
    let mut log = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    let line = format!("{}\n", std::thread::current().name().unwrap_or_default());
    log.write_all(line.as_bytes())
}

/// The folder with generated captures below `target`; generates missing ones.
///
/// `mix.pcap` has thousands of concurrent conversations, `protocols/` a few per file, `tunnels/` one kind of tunnel
/// per file, `http.pcap` requests and answers with bodies.
fn made() -> Result<PathBuf> {
    let dir = target().join("made-captures-4");
    if dir.is_dir() {
        return Ok(dir);
    }
    let making = dir.with_extension(std::process::id().to_string());
    write_all(&making)?;
    // Another test may have been faster; its files are identical.
    if std::fs::rename(&making, &dir).is_err() {
        std::fs::remove_dir_all(&making)?;
    }
    Ok(dir)
}

fn target() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(beside, Into::into)
}

fn write_all(dir: &Path) -> Result<()> {
    for folder in ["protocols", "tunnels"] {
        std::fs::create_dir_all(dir.join(folder))?;
    }
    for file in 0..FILES {
        let packets = packets(file * CONVERSATIONS..(file + 1) * CONVERSATIONS);
        let (bytes, end) = match file % 16 {
            5 => (pcapng(&packets), "pcapng"),
            9 => (pcap(&packets, Clock::Nanoseconds), "pcap"),
            13 => (pcap(&packets, Clock::BigEndian), "pcap"),
            _ => (pcap(&packets, Clock::Microseconds), "pcap"),
        };
        std::fs::write(dir.join(format!("protocols/made-{file:03}.{end}")), bytes)?;
    }
    for kind in tunnels::KINDS {
        let packets = in_tunnels(kind);
        std::fs::write(dir.join(format!("tunnels/{kind}.pcap")), pcap(&packets, Clock::Microseconds))?;
    }
    std::fs::write(dir.join("http.pcap"), http())?;
    // The conversations of the files again, longer and overlapping; padded as a card receives them.
    let mut all = Vec::new();
    for number in 0..MIX {
        let Conversation { mut frames, .. } = conversation(number, 12);
        frames.iter_mut().for_each(|frame| frame.resize(frame.len().max(60), 0));
        let begin_ns = BEGIN_S * 1_000_000_000 + number * 3_000_000;
        all.extend((0..).zip(frames).map(|(at, bytes)| Packet::whole(begin_ns + at * 1_700_000, bytes)));
    }
    all.sort_by_key(|packet| packet.time_ns);
    std::fs::write(dir.join("mix.pcap"), pcap(&all, Clock::Microseconds))
}

/// A packet of a file: its time, its captured bytes, and its wire length.
struct Packet {
    time_ns: u64,
    bytes: Vec<u8>,
    wire_len: usize,
}

impl Packet {
    fn whole(time_ns: u64, bytes: Vec<u8>) -> Self {
        Self { time_ns, wire_len: bytes.len(), bytes }
    }
}

/// The conversations with these numbers in sequence; one frame in 29 is cut after its headers.
fn packets(numbers: std::ops::Range<u64>) -> Vec<Packet> {
    let mut time_ns = (BEGIN_S + numbers.start) * 1_000_000_000;
    let mut packets = Vec::new();
    for number in numbers {
        for bytes in conversation(number, 3).frames {
            time_ns += 1_000 * (1 + Numbers(time_ns).below(5_000));
            let mut packet = Packet::whole(time_ns, bytes);
            if (time_ns / 1000).is_multiple_of(29) {
                packet.bytes.truncate(96);
            }
            packets.push(packet);
        }
    }
    packets
}

/// Connections with HTTP in sequence, no frame cut.
pub fn http() -> Vec<u8> {
    let frames = (0..HTTP[0]).flat_map(|number| Conversation::http(number, HTTP[1]).frames);
    let at = |(at, bytes)| Packet::whole((BEGIN_S * 1000 + at) * 1_000_000, bytes);
    pcap(&(0..).zip(frames).map(at).collect::<Vec<_>>(), Clock::Microseconds)
}

/// Frames of a dozen conversations inside one kind of tunnel.
fn in_tunnels(kind: &str) -> Vec<Packet> {
    let inner = (7000..7012).flat_map(|number| conversation(number, 2).frames);
    let outer = inner.enumerate().map(|(at, frame)| tunnels::wrap(kind, at as u32, &frame));
    (1..).zip(outer).map(|(at, bytes)| Packet::whole((BEGIN_S * 1000 + at) * 1_000_000, bytes)).collect()
}

/// Byte order and time unit of a pcap file.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    Microseconds,
    Nanoseconds,
    BigEndian,
}

fn pcap(packets: &[Packet], clock: Clock) -> Vec<u8> {
    let word = |word: u32| if clock == Clock::BigEndian { word.to_be_bytes() } else { word.to_le_bytes() };
    let half = |half: u16| if clock == Clock::BigEndian { half.to_be_bytes() } else { half.to_le_bytes() };
    let (magic, unit_ns) = if clock == Clock::Nanoseconds { (0xa1b2_3c4d, 1) } else { (0xa1b2_c3d4, 1000) };
    let mut file = [&word(magic)[..], &half(2), &half(4), &[0; 8], &word(262_144), &word(1)].concat();
    for packet in packets {
        let (s, ns) = (packet.time_ns / 1_000_000_000, packet.time_ns % 1_000_000_000);
        for value in [s as u32, (ns / unit_ns) as u32, packet.bytes.len() as u32, packet.wire_len as u32] {
            file.extend(word(value));
        }
        file.extend(&packet.bytes);
    }
    file
}

/// A section header, an interface with timestamps in microseconds, and Enhanced Packet Blocks.
fn pcapng(packets: &[Packet]) -> Vec<u8> {
    fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let bytes = (padded + 12) as u32;
        file.extend([kind, bytes].into_iter().flat_map(u32::to_le_bytes));
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(bytes.to_le_bytes());
    }
    let mut file = Vec::new();
    block(&mut file, 0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat());
    block(&mut file, 1, &[1, 0, 0, 0, 0, 0, 4, 0]);
    for packet in packets {
        let us = packet.time_ns / 1000;
        let words = [0, (us >> 32) as u32, us as u32, packet.bytes.len() as u32, packet.wire_len as u32];
        let mut body: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        body.extend(&packet.bytes);
        block(&mut file, 6, &body);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_make_the_same_files() {
        let packets = packets(0..40);
        assert_eq!(pcapng(&packets), pcapng(&super::packets(0..40)));
        assert!(packets.iter().any(|packet| packet.bytes.len() < packet.wire_len), "some are cut");
        for kind in tunnels::KINDS {
            assert!(in_tunnels(kind).len() > 20, "{kind}");
        }
    }

    #[test]
    fn the_folder_is_made_once_and_is_whole() {
        let dir = made().expect("a folder");
        assert_eq!(made().expect("the same"), dir);
        let count = |folder: &str| std::fs::read_dir(dir.join(folder)).expect("a folder").count();
        assert_eq!((count("protocols"), count("tunnels")), (FILES as usize, tunnels::KINDS.len()));
        assert!(dir.join("mix.pcap").metadata().expect("a file").len() > 1 << 23);
    }
}
