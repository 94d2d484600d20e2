//! Surveys of made files, by one thread and by several, beside a walk that does nothing else.

use super::*;
use crate::verify::ledger::LedgerBuilder;
use proptest::prelude::*;
use quaff_wire::Record;
use quaff_wire::decode::{Item, Step};
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section, Statistics};
use std::io::Write;
use tempfile::NamedTempFile;

/// The option of an interface that has the resolution of its times.
const IF_TSRESOL: u16 = 9;
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
/// Small enough that a file of some 100 kB has many parts.
const SMALL: Layout = Layout {
    threads: 3,
    is_beside_others: false,
    part_bytes: 8 << 10,
    large_bytes: 0,
    cached_bytes: 4 << 10,
};
const SERIAL: Layout = Layout { threads: 1, ..SMALL };

const SHORT: u32 = u32::MAX;

/// A unit of a file.
#[derive(Debug, Clone)]
enum Unit {
    /// With `cut` bytes more than captured; [`SHORT`]: with half of them.
    Packet {
        interface: usize,
        step_ns: i64,
        bytes: usize,
        cut: u32,
        drops: u64,
    },
    Interface,
    Section,
    Statistics {
        interface: usize,
        delivered: u64,
        dropped: u64,
    },
    Padding(usize),
}

fn unit() -> impl Strategy<Value = Unit> {
    let packet = (0usize..4, -40i64..200, 0usize..3000, 0u32..4, 0u64..9);
    let packet = packet.prop_map(|(interface, step, bytes, cut, drops)| Unit::Packet {
        interface,
        step_ns: step * step * step,
        bytes,
        cut: if cut == 1 { SHORT } else { cut.saturating_sub(2) * 100 },
        drops: drops.saturating_sub(7),
    });
    prop_oneof![
        60 => packet,
        1 => Just(Unit::Interface),
        1 => Just(Unit::Section),
        3 => (0usize..4, 0u64..100, 0u64..50)
            .prop_map(|(interface, delivered, dropped)| Unit::Statistics { interface, delivered, dropped }),
        3 => (0usize..500).prop_map(Unit::Padding),
    ]
}

/// The numbers that a survey has to find.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    packets: u64,
    captured_bytes: u64,
    wire_bytes: u64,
    cut_packets: u64,
    times: Vec<u64>,
    /// Packets and drops of each interface of each section.
    interfaces: Vec<(u64, u64)>,
    places: u64,
    /// Original lengths below the captured ones.
    raised: u64,
}

impl Expected {
    fn packet(&mut self, captured: u32, len: u32) {
        self.packets += 1;
        self.captured_bytes += u64::from(captured);
        self.wire_bytes += u64::from(len.max(captured));
        self.cut_packets += u64::from(len > captured);
        self.raised += u64::from(len < captured);
    }
}

/// Content in which a record and a block begin everywhere, so that guesses go wrong.
fn content(bytes: usize, seed: usize) -> Vec<u8> {
    let mut inner = Vec::new();
    pcapng::shb(&mut inner, &Section::default());
    while inner.len() < bytes {
        let record = Record { time_ns: BEGIN_NS, bytes: &[7; 40], len: 40, ..Record::default() };
        let mut room = vec![0; pcapng::epb_bytes(40)];
        let written = pcapng::epb(&mut room, 0, &record);
        inner.extend_from_slice(&room[..written]);
        let mut room = vec![0; 60];
        let written = pcap::record(&mut room, Resolution::Nanoseconds, &record);
        inner.extend_from_slice(&room[..written]);
    }
    let from = inner.len().min(seed % 64);
    inner.rotate_left(from);
    inner.truncate(bytes);
    inner
}

/// Describes an interface whose times have this unit: ns or µs.
fn describe(file: &mut Vec<u8>, unit_ns: u64) {
    let from = file.len();
    pcapng::idb(file, &Interface { linktype: 1, name: "eth0".into(), ..Interface::default() });
    let resolution = [&IF_TSRESOL.to_ne_bytes()[..], &1u16.to_ne_bytes(), &[9]].concat();
    let at = file[from..].windows(5).position(|bytes| bytes == resolution).expect("if_tsresol");
    file[from + at + 4] = if unit_ns == 1 { 9 } else { 6 };
}

fn pad(file: &mut Vec<u8>, bytes: usize) {
    let at = file.len();
    file.resize(at + pcapng::PADDING_BYTES_MIN + bytes.next_multiple_of(4), 0);
    pcapng::padding(&mut file[at..]);
}

/// Writes the units as a file, with what a survey has to find. Sections have times in ns and in µs in turns.
fn written(units: &[Unit], is_pcapng: bool) -> (Vec<u8>, Expected) {
    let (mut file, mut expected, mut now, mut from) = (Vec::new(), Expected::default(), BEGIN_NS, 0);
    let mut unit_ns = 1;
    let interface = |file: &mut Vec<u8>, expected: &mut Expected, unit_ns: u64| {
        describe(file, unit_ns);
        expected.interfaces.push((0, 0));
    };
    if is_pcapng {
        pcapng::shb(&mut file, &Section { userappl: "a test".into(), ..Section::default() });
        interface(&mut file, &mut expected, unit_ns);
    } else {
        file.extend(pcap::file_header(Resolution::Nanoseconds, 0, 1));
        expected.interfaces.push((0, 0));
    }
    for (seed, unit) in units.iter().enumerate() {
        let known = expected.interfaces.len() - from;
        match *unit {
            Unit::Packet { interface, step_ns, bytes, cut, drops } => {
                now = now.saturating_add_signed(step_ns);
                let interface = if is_pcapng { interface % known } else { 0 };
                let drops = if is_pcapng { drops } else { 0 };
                let content = content(bytes, seed);
                let len = if cut == SHORT { bytes as u32 / 2 } else { bytes as u32 + cut };
                let record = Record {
                    time_ns: now / unit_ns,
                    bytes: &content,
                    len,
                    dropped: drops,
                    ..Record::default()
                };
                let mut room = vec![0; pcapng::epb_bytes(bytes)];
                let written = match is_pcapng {
                    true => pcapng::epb(&mut room, interface as u32, &record),
                    false => pcap::record(&mut room, Resolution::Nanoseconds, &record),
                };
                file.extend_from_slice(&room[..written]);
                expected.packet(bytes as u32, len);
                expected.times.push(now / unit_ns * unit_ns);
                expected.places += u64::from(drops > 0);
                let of = &mut expected.interfaces[from + interface];
                *of = (of.0 + 1, of.1 + drops);
            }
            _ if !is_pcapng => {}
            Unit::Interface => interface(&mut file, &mut expected, unit_ns),
            Unit::Section => {
                pcapng::shb(&mut file, &Section::default());
                from = expected.interfaces.len();
                unit_ns = 1001 - unit_ns;
                interface(&mut file, &mut expected, unit_ns);
            }
            Unit::Statistics { interface, delivered, dropped } => {
                let interface = (interface % known) as u32;
                let counters = Statistics {
                    interface,
                    time_ns: now / unit_ns,
                    filter_accepted: delivered + dropped,
                    os_dropped: dropped,
                    delivered,
                    ..Statistics::default()
                };
                pcapng::isb(&mut file, &counters);
            }
            Unit::Padding(bytes) => pad(&mut file, bytes),
        }
    }
    (file, expected)
}

fn on_disk(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn json(info: &FileInfo) -> serde_json::Value {
    serde_json::to_value(info).unwrap()
}

/// The summary by threads, which must be that of one thread, and that of the reader of `capture --read`.
fn surveyed(file: &NamedTempFile) -> FileInfo {
    let [serial, parallel] =
        [SERIAL, SMALL].map(|layout| survey_file(file.path(), &read::Options::default(), &layout));
    assert_eq!(json(&parallel), json(&serial));
    let mut read =
        FileInfo { path: serial.path.clone(), file_bytes: serial.file_bytes, ..FileInfo::default() };
    let error = decoded(file.path(), read::Options::default(), &mut read).err();
    assert_eq!(error.map(|error| error.to_string()), serial.error);
    (read.broken, read.error, read.unreadable) =
        (serial.broken.clone(), serial.error.clone(), serial.unreadable);
    assert_eq!(json(&read), json(&serial));
    serial
}

fn assert_as_expected(info: &FileInfo, expected: &Expected) {
    let sums = (info.packets, info.captured_bytes, info.wire_bytes, info.cut_packets);
    let wanted = (expected.packets, expected.captured_bytes, expected.wire_bytes, expected.cut_packets);
    assert_eq!(sums, wanted);
    let times = &expected.times;
    assert_eq!((info.first_ns, info.last_ns), (times.iter().min().copied(), times.iter().max().copied()));
    assert_eq!(info.backward, times.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64);
    let of_interfaces: Vec<_> =
        info.interfaces.iter().map(|found| (found.packets, found.dropcount)).collect();
    assert_eq!(of_interfaces, expected.interfaces);
    let places = info.drops.as_ref().map_or(0, |drops| drops.places.count);
    assert_eq!((places, info.error.clone()), (expected.places, None));
    let plural = if expected.raised == 1 { "" } else { "s" };
    let note = format!(": {} packet{plural} with an original length below", expected.raised);
    assert_eq!(info.notes.iter().any(|found| found.contains(&note)), expected.raised > 0, "{:?}", info.notes);
}

/// PROPTEST_CASES, or as many as take no time.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_survey_is_a_naive_walk(units in prop::collection::vec(unit(), 0..200), is_pcapng in any::<bool>()) {
        let (bytes, expected) = written(&units, is_pcapng);
        let info = surveyed(&on_disk(&bytes));
        assert_as_expected(&info, &expected);

        let (mut ledger, mut decoder, mut rest) = (LedgerBuilder::default(), Decoder::default(), &bytes[..]);
        while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
            ledger.item(&item);
        }
        let ledger = ledger.finish(0);
        let of_ledger = ledger.map(|ledger| (ledger.recorded_drops, ledger.epb_dropcount, ledger.contradictions));
        let of_info = info.drops.map(|drops| (drops.recorded, drops.at_packets, drops.contradictions));
        prop_assert_eq!(of_info, of_ledger);
    }

    #[test]
    fn damage_anywhere_is_found_at_its_place(
        units in prop::collection::vec(unit(), 1..100), is_pcapng in any::<bool>(), at in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let (mut bytes, _) = written(&units, is_pcapng);
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 0xA5 }
        let (mut packets, mut decoder, mut rest) = (0, Decoder::default(), &bytes[..]);
        let damage = loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) => packets += u64::from(matches!(item, Item::Frame(_))),
                Ok(Step::NeedMore(_)) => {
                    decoder.no_more();
                    match decoder.next(&mut rest) {
                        Ok(Step::Item(_)) => packets += 1,
                        Ok(Step::NeedMore(_)) => break decoder.end(rest).err(),
                        Err(damage) => break Some(damage),
                    }
                }
                Err(damage) => break Some(damage),
            }
        };
        let info = surveyed(&on_disk(&bytes));
        prop_assert_eq!(info.packets, packets);
        prop_assert_eq!(info.broken.map(|broken| broken.offset), damage.map(|damage| damage.offset));
    }
}

#[test]
fn a_long_file_in_good_order_is_joined_from_its_parts() {
    let units: Vec<_> = (0..400)
        .map(|i| Unit::Packet { interface: 0, step_ns: 1000 + i, bytes: 900, cut: 0, drops: 0 })
        .collect();
    for is_pcapng in [true, false] {
        let (bytes, expected) = written(&units, is_pcapng);
        assert_as_expected(&surveyed(&on_disk(&bytes)), &expected);
    }
}

#[test]
fn only_the_end_of_a_file_that_is_being_written_may_be_unfinished() {
    let packet = |_| Unit::Packet { interface: 0, step_ns: 1000, bytes: 900, cut: 0, drops: 0 };
    let units: Vec<_> = (0..200).map(packet).collect();
    for is_pcapng in [true, false] {
        let (bytes, before) = (written(&units, is_pcapng).0, written(&units[..199], is_pcapng).0.len());
        let survey_of = |bytes: &[u8]| {
            let mut file = tempfile::Builder::new().suffix(".part").tempfile().unwrap();
            file.write_all(bytes).unwrap();
            surveyed(&file)
        };
        let info = survey_of(&bytes[..before + 30]);
        assert_eq!((info.packets, info.error), (199, None));
        assert!(info.notes[0].ends_with("30 bytes of an unfinished packet"), "{:?}", info.notes);
        // The length of a packet in the middle, which takes the rest.
        let middle = written(&units[..150], is_pcapng).0.len();
        let mut damaged = bytes.clone();
        let at = middle + if is_pcapng { 4 } else { 8 };
        damaged[at..at + 4].copy_from_slice(&200_000u32.to_ne_bytes());
        let info = survey_of(&damaged);
        assert_eq!((info.packets, info.error.is_some()), (150, true));
    }
}

#[test]
fn files_that_are_none_are_unreadable_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(path("text"), "no capture at all").unwrap();
    let (bytes, _) = written(&[], true);
    std::fs::write(path("good"), &bytes).unwrap();
    let files = ["empty", "text", "missing", "good"].map(path);
    let infos = survey(&files, &read::Options::default());
    let unreadable: Vec<_> = infos.iter().map(|info| info.unreadable).collect();
    assert_eq!(unreadable, [true, true, true, false]);
    for (info, path) in infos.iter().zip(&files) {
        assert_eq!(info.path, path.display().to_string());
        let named = info.error.as_ref().is_some_and(|error| error.contains(&info.path));
        assert_eq!(named, info.unreadable, "{:?}", info.error);
    }
    assert_eq!(Total::of(&infos).damaged, 3);
}

#[test]
fn a_pipe_in_the_place_of_a_file_of_a_folder_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a.pcap");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let found = std::sync::Arc::new([pipe.clone()].into());
    let infos = survey(&[pipe], &read::Options { found, ..read::Options::default() });
    let error = infos[0].error.as_deref().unwrap_or_default();
    assert!(infos[0].unreadable && error.contains("no regular file"), "{error}");
}

#[test]
fn the_time_0_is_a_time_in_pcap_only() {
    let mut file = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
    let mut room = [0; 100];
    let record = Record { time_ns: 0, bytes: &[1; 60], len: 60, ..Record::default() };
    let bytes = pcap::record(&mut room, Resolution::Nanoseconds, &record);
    file.extend_from_slice(&room[..bytes]);
    let info = surveyed(&on_disk(&file));
    assert_eq!((info.untimed, info.first_ns, info.pps), (0, Some(0), None));
    let (file, _) = written(&[], true);
    let epb_at_0 = [&file[..], &{
        let mut room = vec![0; pcapng::epb_bytes(60)];
        let bytes = pcapng::epb(&mut room, 0, &record);
        room.truncate(bytes);
        room
    }]
    .concat();
    let info = surveyed(&on_disk(&epb_at_0));
    assert_eq!((info.packets, info.untimed, info.first_ns), (1, 1, None));
}
