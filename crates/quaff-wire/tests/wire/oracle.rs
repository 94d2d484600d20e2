//! Random valid files are read the same by quaff and by the pcap-parser crate.

use crate::files::Build;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapNGOption, PcapNGSlice};
use proptest::prelude::*;
use quaff_wire::decode::{Decoder, Item, Step};

/// The result that both readers must agree on.
#[derive(Debug, PartialEq)]
enum Said {
    Section,
    Interface { linktype: u16, snaplen: u32, name: Option<Vec<u8>> },
    Frame { interface: u32, time_ns: u64, data: Vec<u8>, wire_len: u32, flags: u32, dropcount: u64 },
    Statistics { interface: u32, time_ns: u64, counters: [Option<u64>; 5] },
}

fn by_quaff(file: &[u8]) -> Vec<Said> {
    let (mut said, mut decoder, mut rest) = (Vec::new(), Decoder::default(), file);
    loop {
        said.push(match decoder.next(&mut rest).expect("a valid file") {
            Step::NeedMore(_) => break,
            Step::Item(Item::Jump(jump)) => panic!("{jump:?}"),
            Step::Item(Item::Names(_)) => continue,
            Step::Item(Item::Section(_)) => Said::Section,
            Step::Item(Item::Interface(i)) => {
                let name = i.name.map(<[u8]>::to_vec);
                Said::Interface { linktype: i.linktype, snaplen: i.snaplen, name }
            }
            Step::Item(Item::Frame(f)) => Said::Frame {
                interface: f.interface,
                time_ns: f.time_ns,
                data: f.data.to_vec(),
                wire_len: f.wire_len,
                flags: f.flags,
                dropcount: f.dropcount,
            },
            Step::Item(Item::Statistics(s)) => Said::Statistics {
                interface: s.interface,
                time_ns: s.time_ns,
                counters: [s.ifrecv, s.ifdrop, s.filteraccept, s.osdrop, s.usrdeliv],
            },
        });
    }
    assert_eq!(decoder.end(rest), Ok(()));
    said
}

/// Times by plain arithmetic in 128 bits, as the draft words it.
fn time_ns(ticks: u64, tsresol: u8, tsoffset_s: i64) -> u64 {
    exactly(ticks, tsresol, tsoffset_s).clamp(0, i128::from(u64::MAX)) as u64
}

fn is_early(ticks: u64, tsresol: u8, tsoffset_s: i64) -> bool {
    exactly(ticks, tsresol, tsoffset_s) < 0
}

fn exactly(ticks: u64, tsresol: u8, tsoffset_s: i64) -> i128 {
    let per_second = match tsresol & 0x80 {
        0 => 10i128.pow(u32::from(tsresol)),
        _ => 1i128 << (tsresol & 0x7F),
    };
    i128::from(ticks) * 1_000_000_000 / per_second + i128::from(tsoffset_s) * 1_000_000_000
}

/// pcap-parser reads the values of options as little-endian in every file, so they are read here.
fn value(options: &[PcapNGOption<'_>], code: u16, big: bool) -> Option<u64> {
    let found = options.iter().rev().find(|option| option.code.0 == code)?;
    let place = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let bytes = found.value[..usize::from(found.len)].iter();
    Some(if big { bytes.fold(0, place) } else { bytes.rev().fold(0, place) })
}

fn by_pcap_parser(file: &[u8]) -> Vec<Said> {
    let (mut said, mut big, mut scales) = (Vec::new(), false, Vec::new());
    for block in PcapNGSlice::from_slice(file).expect("a valid file") {
        let ticks = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let time = |scales: &Vec<(u8, i64)>, id: u32, high, low| {
            let (tsresol, tsoffset_s) = scales[id as usize];
            time_ns(ticks(high, low), tsresol, tsoffset_s)
        };
        said.push(match block.expect("a valid file") {
            pcap_parser::PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                (big, scales) = (section.big_endian(), Vec::new());
                Said::Section
            }
            pcap_parser::PcapBlockOwned::NG(Block::InterfaceDescription(i)) => {
                let tsresol = value(&i.options, 9, big).unwrap_or(6) as u8;
                scales.push((tsresol, value(&i.options, 14, big).unwrap_or(0) as i64));
                let name = i.options.iter().rev().find(|option| option.code.0 == 2);
                let name = name.map(|option| option.value[..usize::from(option.len)].to_vec());
                Said::Interface { linktype: i.linktype.0 as u16, snaplen: i.snaplen, name }
            }
            pcap_parser::PcapBlockOwned::NG(Block::EnhancedPacket(p)) => Said::Frame {
                interface: p.if_id,
                // Before 1970 there is only the first ns of it, as 0 is no time.
                time_ns: match scales[p.if_id as usize] {
                    (tsresol, offset_s) if is_early(ticks(p.ts_high, p.ts_low), tsresol, offset_s) => 1,
                    _ => time(&scales, p.if_id, p.ts_high, p.ts_low),
                },
                data: p.packet_data().to_vec(),
                wire_len: p.origlen.max(p.packet_data().len() as u32),
                flags: value(&p.options, 2, big).unwrap_or(0) as u32,
                dropcount: value(&p.options, 4, big).unwrap_or(0),
            },
            pcap_parser::PcapBlockOwned::NG(Block::SimplePacket(p)) => Said::Frame {
                interface: 0,
                time_ns: 0,
                data: p.packet_data().to_vec(),
                wire_len: p.origlen,
                flags: 0,
                dropcount: 0,
            },
            pcap_parser::PcapBlockOwned::NG(Block::InterfaceStatistics(s)) => Said::Statistics {
                interface: s.if_id,
                time_ns: time(&scales, s.if_id, s.ts_high, s.ts_low),
                counters: [4, 5, 6, 7, 8].map(|code| value(&s.options, code, big)),
            },
            _ => continue,
        });
    }
    said
}

type Options = Vec<(u16, Vec<u8>)>;

/// One block of a random file. Interface numbers are taken modulo those that are described.
#[derive(Debug, Clone)]
enum Part {
    Interface { linktype: u16, tsresol: Option<u8>, tsoffset_s: Option<i64>, name: Option<String> },
    Packet { interface: u32, ticks: u64, data: Vec<u8>, wire_len: u32, flags: Option<u32>, options: Options },
    SimplePacket(Vec<u8>),
    Statistics { interface: u32, ticks: u64, options: Options },
    Other(u32, Vec<u8>),
}

impl Part {
    fn write(&self, file: Build, interfaces: u32) -> Build {
        let with =
            |b, options: &Options| options.iter().fold(b, |b: Build, (code, value)| b.option(*code, value));
        match self {
            Self::Interface { linktype, tsresol, tsoffset_s, name } => file.block(1, |mut b| {
                b = b.u16(*linktype).u16(0).u32(0);
                b = name.iter().fold(b, |b, name| b.option(2, name.as_bytes()));
                b = tsresol.iter().fold(b, |b, resol| b.option(9, &[*resol]));
                b = tsoffset_s.iter().fold(b, |b, offset| b.option_u64(14, *offset as u64));
                if linktype % 2 == 0 { b.option(0, &[]) } else { b }
            }),
            Self::Packet { interface, ticks, data, wire_len, flags, options } => file.block(6, |mut b| {
                b = b
                    .u32(interface % interfaces)
                    .ticks(*ticks)
                    .u32(data.len() as u32)
                    .u32(*wire_len)
                    .padded(data);
                with(flags.iter().fold(b, |b, flags| b.option_u32(2, *flags)), options)
            }),
            Self::SimplePacket(data) => file.block(3, |b| b.u32(data.len() as u32).padded(data)),
            Self::Statistics { interface, ticks, options } => {
                file.block(5, |b| with(b.u32(interface % interfaces).ticks(*ticks), options))
            }
            Self::Other(kind, body) => file.block(*kind, |b| b.padded(body)),
        }
    }
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..max)
}

/// Comments, unknown options, and these, which hold 64 bits.
fn options(codes: &'static [u16]) -> impl Strategy<Value = Options> {
    let unknown = (1000..1100u16, bytes(9));
    let comment = "[a-z]{0,9}".prop_map(|text| (1, text.into_bytes()));
    let counter =
        (prop::sample::select(codes), any::<[u8; 8]>()).prop_map(|(code, value)| (code, value.to_vec()));
    prop::collection::vec(prop_oneof![unknown, comment, counter], 0..5)
}

fn interface() -> impl Strategy<Value = Part> {
    let tsresol = prop::option::of(prop_oneof![0..20u8, 0x80..0xC0u8]);
    let tsoffset_s = prop::option::of(-1_700_000_000..1_700_000_000i64);
    let name = prop::option::of("[a-z0-9]{1,15}");
    (any::<u16>(), tsresol, tsoffset_s, name).prop_map(|(linktype, tsresol, tsoffset_s, name)| {
        Part::Interface { linktype, tsresol, tsoffset_s, name }
    })
}

fn part() -> impl Strategy<Value = Part> {
    let flags = prop::option::of(any::<u32>());
    let packet = (any::<u32>(), any::<u64>(), bytes(70), any::<u32>(), flags, options(&[4, 5]));
    let statistics = (any::<u32>(), any::<u64>(), options(&[4, 5, 6, 7, 8]));
    prop_oneof![
        1 => interface(),
        6 => packet.prop_map(|(interface, ticks, data, wire_len, flags, options)| {
            Part::Packet { interface, ticks, data, wire_len, flags, options }
        }),
        1 => bytes(70).prop_map(Part::SimplePacket),
        1 => statistics.prop_map(|(interface, ticks, options)| Part::Statistics { interface, ticks, options }),
        1 => (0x80_0000u32..0x90_0000, bytes(50)).prop_map(|(kind, body)| Part::Other(kind, body)),
    ]
}

/// Sections of random blocks, at least one interface in each.
fn pcapng() -> impl Strategy<Value = Vec<u8>> {
    let section = (any::<bool>(), interface(), prop::collection::vec(part(), 0..20));
    let section = section.prop_map(|(big, first, parts)| {
        let (mut file, mut interfaces) = (first.write(Build::new(big).section(), 0), 1);
        for part in parts {
            file = part.write(file, interfaces);
            interfaces += u32::from(matches!(part, Part::Interface { .. }));
        }
        file.bytes
    });
    prop::collection::vec(section, 1..4).prop_map(|sections| sections.concat())
}

type Record = (u32, u32, Vec<u8>, u32);

fn records() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((any::<u32>(), 0..1_000_000_000u32, bytes(70), any::<u32>()), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn pcapng_reads_the_same(file in pcapng()) {
        prop_assert_eq!(by_quaff(&file), by_pcap_parser(&file));
    }

    #[test]
    fn pcap_reads_the_same(big: bool, nanoseconds: bool, records in records()) {
        let magic = if nanoseconds { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
        let mut file = Build::new(big).u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(101);
        for (s, fraction, data, wire_len) in &records {
            file = file.u32(*s).u32(*fraction).u32(data.len() as u32).u32(*wire_len).raw(data);
        }
        let (mut rest, header) = pcap_parser::pcap::parse_pcap_header(&file.bytes).expect("a valid file");
        let unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
        let linktype = header.network.0 as u16;
        let mut expected = vec![Said::Interface { linktype, snaplen: header.snaplen, name: None }];
        let record = if big { pcap_parser::pcap::parse_pcap_frame_be } else { pcap_parser::pcap::parse_pcap_frame };
        while !rest.is_empty() {
            let (after, block) = record(rest).expect("a valid file");
            rest = after;
            expected.push(Said::Frame {
                interface: 0,
                time_ns: u64::from(block.ts_sec) * 1_000_000_000 + u64::from(block.ts_usec) * unit,
                data: block.data.to_vec(),
                wire_len: block.origlen.max(block.data.len() as u32),
                flags: 0,
                dropcount: 0,
            });
        }
        prop_assert_eq!(expected.len(), records.len() + 1);
        prop_assert_eq!(by_quaff(&file.bytes), expected);
    }
}
