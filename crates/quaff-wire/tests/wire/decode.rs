//! The decoders on files that are right, odd or broken.

use crate::files::Build;
use proptest::prelude::*;
use quaff_wire::decode::{Damage, Decoder, Frame, Item, Step};

/// The longest record or block that is read as a whole.
const UNIT_BYTES_MAX: u32 = 16 << 20;

/// The items of a file that is there at once, and how it ends.
fn read(file: &[u8]) -> (Vec<String>, Result<(), Damage>) {
    read_pieces(file, &[])
}

/// Reads a file that arrives in pieces, cut at these offsets.
fn read_pieces(file: &[u8], cuts: &[usize]) -> (Vec<String>, Result<(), Damage>) {
    read_pieces_with(Decoder::default(), file, cuts)
}

fn read_pieces_with(mut decoder: Decoder, file: &[u8], cuts: &[usize]) -> (Vec<String>, Result<(), Damage>) {
    let (mut items, mut held) = (Vec::new(), Vec::new());
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (file.len() + 1)).collect();
    cuts.push(file.len());
    cuts.sort_unstable();
    let mut from = 0;
    // Behind the last piece the decoder hears that there are no more.
    for to in cuts.into_iter().map(Some).chain([None]) {
        match to {
            Some(to) => held.extend_from_slice(&file[from..to]),
            None => decoder.no_more(),
        }
        from = to.unwrap_or(from);
        let mut rest = &held[..];
        loop {
            match decoder.next(&mut rest) {
                Ok(Step::Item(item)) => items.push(format!("{item:?}")),
                Ok(Step::NeedMore(needed)) => {
                    assert!(needed > rest.len(), "asks for {needed} bytes and has {}", rest.len());
                    break;
                }
                Err(damage) => {
                    assert_eq!(decoder.next(&mut rest), Err(damage), "an error stays");
                    return (items, Err(damage));
                }
            }
        }
        held = rest.to_vec();
    }
    (items, decoder.end(&held))
}

/// Reads a file giving the decoder never more than it asks for.
fn read_frugally(file: &[u8]) -> (Vec<String>, Result<(), Damage>) {
    let (mut items, mut decoder, mut at, mut len) = (Vec::new(), Decoder::default(), 0, 0);
    loop {
        let mut rest = &file[at..at + len];
        let step = decoder.next(&mut rest);
        (at, len) = (at + len - rest.len(), rest.len());
        match step {
            Ok(Step::Item(item)) => {
                assert_eq!(len, 0, "asked for more than the unit needed");
                items.push(format!("{item:?}"));
            }
            Ok(Step::NeedMore(needed)) if at + needed <= file.len() => len = needed,
            Ok(Step::NeedMore(_)) if at + len < file.len() => len = file.len() - at,
            Ok(Step::NeedMore(_)) => return (items, decoder.end(&file[at..])),
            Err(damage) => return (items, Err(damage)),
        }
    }
}

fn error_of(file: &[u8]) -> String {
    let (_, end) = read(file);
    assert_eq!(read_frugally(file).1, end);
    end.expect_err("an error").to_string()
}

/// The frames of a file, and the error that it ends with.
fn frames(file: &[u8]) -> Vec<Frame<'_>> {
    let (mut frames, mut decoder, mut rest) = (Vec::new(), Decoder::default(), file);
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(frame) = item {
            frames.push(frame);
        }
    }
    assert_eq!(decoder.end(rest), Ok(()));
    frames
}

fn pcap(big: bool, magic: u32) -> Build {
    Build::new(big).u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65535).u32(1)
}

#[test]
fn pcap_in_both_orders_and_resolutions() {
    for big in [false, true] {
        for (magic, time_ns) in [(0xA1B2_C3D4, 5_000_007_000), (0xA1B2_3C4D, 5_000_000_007)] {
            let file = pcap(big, magic).u32(5).u32(7).u32(3).u32(60).raw(b"abc").bytes;
            let frame = frames(&file)[0];
            assert_eq!((frame.data, frame.time_ns, frame.wire_len), (&b"abc"[..], time_ns, 60));
            assert_eq!((frame.linktype, frame.interface), (1, 0));
        }
    }
}

#[test]
fn pcapng_packets_of_three_kinds() {
    for big in [false, true] {
        let file = Build::new(big)
            .section()
            .block(1, |b| b.u16(1).u16(0).u32(2))
            .block(6, |b| {
                let b = b.u32(0).ticks(7).u32(3).u32(60).padded(b"abc");
                b.option_u32(2, 0b10).option_u64(4, 1 << 40).option(0, &[])
            })
            .block(3, |b| b.u32(60).padded(b"ab"))
            .block(2, |b| b.u16(0).u16(9).ticks(8).u32(1).u32(61).padded(b"z").option_u32(2, 1))
            .block(2, |b| b.u16(0).u16(0xFFFF).ticks(8).u32(0).u32(0))
            .bytes;
        let frames = frames(&file);
        let [epb, spb, pb, unknown] = frames[..] else { panic!("{frames:?}") };
        assert_eq!((epb.data, epb.time_ns, epb.wire_len), (&b"abc"[..], 7000, 60));
        assert_eq!((epb.flags, epb.dropcount), (2, 1 << 40));
        assert_eq!((spb.data, spb.time_ns, spb.wire_len), (&b"ab"[..], 0, 60));
        assert_eq!((pb.data, pb.time_ns, pb.wire_len, pb.flags, pb.dropcount), (&b"z"[..], 8000, 61, 1, 9));
        assert_eq!(unknown.dropcount, 0);
    }
}

#[test]
fn each_section_has_its_own_order_interfaces_and_times() {
    let mut file = Build::new(false).section().interface().enhanced_packet(0, 1, b"one").bytes;
    let coarse = |b: Build| b.u16(113).u16(0).u32(0).option(9, &[3]).option_u64(14, (-1i64) as u64);
    let second = Build::new(true).section().block(1, coarse).interface();
    file.extend(second.enhanced_packet(0, 2000, b"two").enhanced_packet(1, 3, b"3").bytes);
    let frames = frames(&file);
    assert_eq!(frames.iter().map(|f| f.time_ns).collect::<Vec<_>>(), [1, 1_000_000_000, 3]);
    assert_eq!(frames.iter().map(|f| f.linktype).collect::<Vec<_>>(), [1, 113, 1]);
}

#[test]
fn statistics_and_names() {
    for big in [false, true] {
        let file = Build::new(big)
            .block(0x0A0D_0D0A, |b| b.u32(0x1A2B_3C4D).u16(1).u16(2).u64(4).option(4, b"quaff 0.1"))
            .block(1, |b| b.u16(1).u16(0).u32(96).option(2, b"eth7").option(11, b"\0udp").option(9, &[9]))
            .block(5, |b| {
                let times = b.u32(0).ticks(50).option(2, &Build::new(big).ticks(1 << 33).bytes);
                let times = times.option(3, &Build::new(big).ticks(40).bytes);
                (4..9).fold(times, |b, code| b.option_u64(code, u64::from(code) << 40)).option(0, &[])
            })
            .block(5, |b| b.u32(0).ticks(51))
            .bytes;
        let (items, end) = read(&file);
        assert_eq!(end, Ok(()));
        assert!(items[0].contains(&format!("{:?}", &b"quaff 0.1"[..])), "{}", items[0]);
        let mut decoder = Decoder::default();
        let mut rest = &file[..];
        let mut blocks = Vec::new();
        while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
            match item {
                Item::Interface(interface) => {
                    assert_eq!(interface.name, Some(&b"eth7"[..]));
                    assert_eq!(interface.filter, Some(&b"udp"[..]));
                    assert_eq!(interface.snaplen, 96);
                }
                Item::Statistics(statistics) => blocks.push(statistics),
                _ => {}
            }
        }
        assert_eq!(
            (blocks[0].time_ns, blocks[0].starttime_ns, blocks[0].endtime_ns),
            (50, Some(1 << 33), Some(40))
        );
        assert_eq!(blocks[0].ifrecv, Some(4 << 40));
        assert_eq!(blocks[0].ifdrop, Some(5 << 40));
        assert_eq!(blocks[0].filteraccept, Some(6 << 40));
        assert_eq!(blocks[0].osdrop, Some(7 << 40));
        assert_eq!(blocks[0].usrdeliv, Some(8 << 40));
        assert_eq!((blocks[1].time_ns, blocks[1].usrdeliv), (51, None));
    }
}

#[test]
fn other_blocks_are_skipped_even_when_they_are_long() {
    let long = vec![7u8; 2 * UNIT_BYTES_MAX as usize];
    let file = Build::new(false).section().interface().block(0xBAD, |b| b.raw(&long));
    let file = file.block(4, |b| b).enhanced_packet(0, 1, b"x").bytes;
    assert_eq!(frames(&file).len(), 1);
    assert_eq!(read_frugally(&file), read(&file));
}

#[test]
fn not_a_capture() {
    assert_eq!(error_of(b""), "file header at offset 0: the file is empty");
    assert_eq!(error_of(b"abc"), "file header at offset 0: the file ends after 3 bytes of it");
    let elf = "file header at offset 0: this is neither pcap nor pcapng, it begins with [7f, 45, 4c, 46]";
    assert_eq!(error_of(b"\x7fELF and so on"), elf);
    assert!(Decoder::default().next(&mut &b"\x06\0\0\0\x0c\0\0\0\x0c\0\0\0"[..]).is_err());
    assert!(Decoder::default().next(&mut &[0u8; 24][..]).is_err());
}

#[test]
fn damage_in_pcap() {
    let head = pcap(false, 0xA1B2_C3D4);
    let cut = "file header at offset 0: the file ends after 20 bytes of it";
    assert_eq!(error_of(&head.bytes[..20]), cut);
    let version = Build::new(false).u32(0xA1B2_C3D4).u16(9).u16(1).raw(&[0; 16]).bytes;
    assert_eq!(error_of(&version), "file header at offset 0: version 9.1 is not known");
    let long = head.clone().u32(0).u32(0).u32(300_000).u32(0).bytes;
    let error = "record with 300000 bytes of packet at offset 24: too long, the limit is 262144 bytes";
    assert_eq!(error_of(&long), error);
    let cut = head.clone().u32(0).u32(0).u32(100).u32(100).raw(b"abc").bytes;
    let error = "record with 100 bytes of packet at offset 24: the file ends after 19 bytes of it";
    assert_eq!(error_of(&cut), error);
    let zeros = head.clone().raw(&[0; 4096]).bytes;
    assert_eq!(error_of(&zeros), "record at offset 24: nothing but zeros");
    let error = "record at offset 24: the file ends after 3 bytes of it";
    assert_eq!(error_of(&head.raw(b"abc").bytes), error);
}

#[test]
fn damage_in_pcapng() {
    let head = || Build::new(false).section().interface();
    let at = head().bytes.len();
    let epb = |captured: u32| move |b: Build| b.u32(0).ticks(0).u32(captured).u32(0);
    let block = |kind, body: &[u8]| head().block(kind, |b| b.raw(body)).bytes;
    let damage_text = |bytes: u32, what: &str| format!("block of {bytes} bytes at offset {at}: {what}");

    assert_eq!(error_of(&head().u32(6).u32(17).bytes), damage_text(17, "length not a multiple of 4"));
    assert_eq!(
        error_of(&head().u32(6).u32(8).bytes),
        damage_text(8, "too short, at least 12 bytes are needed")
    );
    assert_eq!(error_of(&block(6, &[0; 8])), damage_text(20, "too short, at least 32 bytes are needed"));
    assert_eq!(error_of(&block(5, &[0; 8])), damage_text(20, "too short, at least 24 bytes are needed"));
    let long = head().u32(6).u32(UNIT_BYTES_MAX + 4).bytes;
    assert_eq!(error_of(&long), damage_text(UNIT_BYTES_MAX + 4, "too long, the limit is 16777216 bytes"));
    let captured = head().block(6, epb(9)).bytes;
    assert_eq!(error_of(&captured), damage_text(32, "9 captured bytes do not fit in it"));
    let interface = head().enhanced_packet(1, 0, b"").bytes;
    assert_eq!(
        error_of(&interface),
        damage_text(32, "it is of interface 1, but the section describes only 1")
    );
    for kind in [6, 0xBAD] {
        let trailer = head().u32(kind).u32(32).raw(&[0; 20]).u32(36).bytes;
        assert_eq!(error_of(&trailer), damage_text(32, "the length at its end is 36"));
        let cut = head().u32(kind).u32(32).raw(&[0; 13]).bytes;
        assert_eq!(error_of(&cut), damage_text(32, "the file ends after 21 bytes of it"));
    }
    let cut = head().raw(b"abc").bytes;
    assert_eq!(error_of(&cut), format!("block at offset {at}: the file ends after 3 bytes of it"));
    let option = head().block(6, |b| epb(0)(b).u16(2).u16(9).u32(0)).bytes;
    assert_eq!(error_of(&option), damage_text(40, "option 2 cannot have 9 bytes here"));
    let option = head().block(6, |b| epb(0)(b).option(4, &[0; 4])).bytes;
    assert_eq!(error_of(&option), damage_text(40, "option 4 cannot have 4 bytes here"));
    let magic = head().u32(0x0A0D_0D0A).u32(28).u32(0x1234_5678).bytes;
    let error = format!("block at offset {at}: byte-order magic 0x12345678 is not known");
    assert_eq!(error_of(&magic), error);
    let version = head().block(0x0A0D_0D0A, |b| b.u32(0x1A2B_3C4D).u16(2).u16(0).u64(0)).bytes;
    assert_eq!(error_of(&version), damage_text(28, "version 2.0 is not known"));
}

#[test]
fn interfaces_without_end_are_refused() {
    let one = Build::new(false).block(1, |b| b.u16(1).u16(0).u32(0)).bytes;
    let file = [Build::new(false).section().bytes, one.repeat(65537)].concat();
    assert!(error_of(&file).ends_with("a section may describe 65536 interfaces, and this is one more"));
}

/// Files that are mostly right: real blocks with bytes changed, cut out and put in.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let blocks = prop_oneof![
        4 => (0..3u32, any::<u64>(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(id, time, data)| Build::new(false).enhanced_packet(id, time, &data).bytes),
        1 => Just(Build::new(false).section().interface().bytes),
        1 => Just(Build::new(true).section().interface().enhanced_packet(0, 9, b"big").bytes),
        1 => prop::collection::vec(any::<u8>(), 0..30).prop_map(|data| {
            Build::new(false).block(0xBAD, |b| b.padded(&data)).bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => Just(Build::new(false).block(5, |b| b.u32(0).ticks(3).option_u64(4, 9)).bytes),
        1 => Just(Build::new(false).block(3, |b| b.u32(3).padded(b"abc")).bytes),
    ];
    let begins = prop_oneof![
        8 => Just(Build::new(false).section().interface().bytes),
        2 => Just(pcap(true, 0xA1B2_3C4D).u32(1).u32(2).u32(5).u32(5).raw(b"hello").bytes),
        1 => Just(Vec::new()),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    (begins, prop::collection::vec(blocks, 0..12), changes).prop_map(|(begin, blocks, changes)| {
        let mut file = [begin, blocks.concat()].concat();
        for (at, byte) in changes {
            if !file.is_empty() {
                let at = at.index(file.len());
                file[at] = byte;
            }
        }
        file
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_make_no_difference(file in damaged(), cuts in prop::collection::vec(any::<usize>(), 0..20)) {
        let whole = read(&file);
        prop_assert_eq!(&read_pieces(&file, &cuts), &whole);
        prop_assert_eq!(&read_frugally(&file), &whole);
    }

    #[test]
    fn pieces_make_no_difference_to_salvage(
        file in damaged(), cuts in prop::collection::vec(any::<usize>(), 0..20)
    ) {
        let whole = read_pieces_with(Decoder::salvaging(), &file, &[]);
        prop_assert_eq!(&read_pieces_with(Decoder::salvaging(), &file, &cuts), &whole);
        // Only a file that is none ends with an error, and no byte is reported twice.
        let offset = |damage: &Damage| damage.offset;
        prop_assert_eq!(whole.1.as_ref().map_err(offset), whole.1.as_ref().map_err(|_| 0));
    }

    #[test]
    fn arbitrary_bytes_never_panic(file in prop::collection::vec(any::<u8>(), 0..300), magic in 0..4usize) {
        let magics: [&[u8]; 4] = [b"", b"\xd4\xc3\xb2\xa1\x02\0\x04\0", b"\xa1\xb2\x3c\x4d\0\x02\0\x04", b"\n\r\r\n"];
        let file = [magics[magic], &file].concat();
        read(&file).1.ok();
        read_pieces_with(Decoder::salvaging(), &file, &[]).1.ok();
    }
}

/// The bytes of the unit that a file ends inside.
fn unfinished(file: &[u8]) -> Result<u64, String> {
    let (mut decoder, mut rest) = (Decoder::default(), file);
    decoder.no_more();
    let ended = loop {
        match decoder.next(&mut rest) {
            Ok(Step::Item(_)) => {}
            Ok(Step::NeedMore(_)) => break decoder.end_unfinished(rest),
            Err(damage) => break Err(damage),
        }
    };
    ended.map_err(|damage| damage.to_string())
}

#[test]
fn only_the_last_unit_of_a_file_may_be_unfinished() {
    let whole = || Build::new(false).section().interface().enhanced_packet(0, 1, &[1; 20]);
    assert_eq!(unfinished(&whole().bytes), Ok(0));
    let begun = |kind: u32, bytes: u32| whole().u32(kind).u32(bytes);
    assert_eq!(unfinished(&begun(6, 200).raw(&[0]).bytes), Ok(9));
    assert_eq!(unfinished(&whole().raw(b"abc").bytes), Ok(3));
    let padding = 0x8071_7561;
    assert_eq!(unfinished(&begun(padding, 4104).raw(&[0; 100]).bytes), Ok(108));
    // A length that no recorder writes, and one in which packets are found.
    for kind in [6, 0xBAD, padding] {
        for bytes in [600 << 10, 15 << 20, 200 << 20] {
            assert!(unfinished(&begun(kind, bytes).raw(&[0; 100]).bytes).is_err(), "{kind} {bytes}");
        }
        let harmed = begun(kind, 100_000).raw(&[7; 50]).enhanced_packet(0, 2, &[2; 20]);
        let error = unfinished(&harmed.bytes).expect_err("a packet follows");
        assert!(error.contains("block of 100000 bytes"), "{error}");
    }

    let record = |build: Build, captured: u32| build.u32(1).u32(2).u32(captured).u32(captured);
    let pcap = || record(pcap(false, 0xA1B2_C3D4), 4).raw(b"abcd");
    assert_eq!(unfinished(&pcap().bytes), Ok(0));
    assert_eq!(unfinished(&record(pcap(), 100).raw(b"abc").bytes), Ok(19));
    let mut harmed = record(pcap(), 100_000).raw(b"abcd");
    for _ in 0..3 {
        harmed = record(harmed, 4).raw(b"abcd");
    }
    assert!(unfinished(&harmed.bytes).is_err());
}

#[test]
fn a_decoder_stops_before_a_unit_and_guesses_one() {
    let head = Build::new(false).section().interface();
    let first = head.bytes.len();
    let padding = head.enhanced_packet(0, 1, &[1; 20]);
    let padding_at = padding.bytes.len();
    let stop = padding.block(0x8071_7561, |b| b.u64(0));
    let stop_at = stop.bytes.len();
    let file = stop.enhanced_packet(0, 2, &[2; 20]).bytes;

    let (mut decoder, mut rest, mut frames) = (Decoder::default(), &file[..], 0);
    decoder.stop_at(stop_at as u64);
    while let Step::Item(item) = decoder.next(&mut rest).expect("whole") {
        frames += u64::from(matches!(item, Item::Frame(_)));
    }
    // What is skipped on the way does not hide the place.
    assert_eq!(
        (frames, decoder.offset(), decoder.next(&mut rest)),
        (1, stop_at as u64, Ok(Step::NeedMore(0)))
    );

    decoder.stop_at(u64::MAX);
    let from = first + 4;
    assert_eq!(decoder.guess_unit(from as u64, &file[from..]), Some(padding_at - from));
    assert_eq!(decoder.offset(), padding_at as u64);
    let Ok(Step::Item(Item::Frame(frame))) = decoder.next(&mut &file[padding_at..]) else {
        panic!("no frame")
    };
    assert_eq!((frame.time_ns, decoder.offset()), (2, file.len() as u64));
    assert_eq!(decoder.guess_unit(from as u64, &file[from..from + 8]), None);
}

#[test]
fn a_decoder_does_not_stop_within_a_block_that_it_skips() {
    let head = Build::new(false).section().interface().enhanced_packet(0, 1, &[1; 20]);
    let at = head.bytes.len() + 16;
    let padding = head.block(0x8071_7561, |b| b.u64(0).u64(0));
    let end = padding.bytes.len();
    let file = padding.enhanced_packet(0, 2, &[2; 20]).bytes;
    let mut decoder = Decoder::default();
    decoder.stop_at(at as u64);
    let mut rest = &file[..at];
    let needed = loop {
        match decoder.next(&mut rest).expect("whole") {
            Step::Item(_) => {}
            Step::NeedMore(needed) => break needed,
        }
    };
    assert!(needed > 0, "the block has not ended");
    let taken = at - rest.len();
    assert_eq!(decoder.next(&mut &file[taken..]), Ok(Step::NeedMore(0)));
    assert_eq!(decoder.offset(), end as u64);
}
