//! The decoders read files as the encoders write them.

use proptest::prelude::*;
use quaff_wire::Record;
use quaff_wire::decode::{Decoder, Item, Statistics, Step};
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng;

fn read(file: &[u8], mut each: impl FnMut(Item<'_>)) {
    let (mut decoder, mut rest) = (Decoder::default(), file);
    while let Step::Item(item) = decoder.next(&mut rest).expect("our own file") {
        each(item);
    }
    assert_eq!(decoder.end(rest), Ok(()));
}

fn packets() -> impl Strategy<Value = Vec<(u64, Vec<u8>, u32, u32, u64)>> {
    let time_ns = 0..u64::from(u32::MAX) * 1_000_000_000;
    let packet = (time_ns, prop::collection::vec(any::<u8>(), 0..200), 0..2000u32, 0..3u32, 0..3u64);
    prop::collection::vec(packet, 0..30)
}

proptest! {
    #[test]
    fn packets_come_back(packets in packets(), snaplen in 0..100u32) {
        let records: Vec<Record<'_>> = packets.iter().map(|(time_ns, bytes, len, direction, dropped)| {
            let (len, direction, dropped) = (*len, *direction, *dropped);
            Record { time_ns: *time_ns, bytes, len, direction, dropped, snaplen, ..Record::default() }
        }).collect();
        let mut ng = Vec::new();
        pcapng::shb(&mut ng, &pcapng::Section::default());
        pcapng::idb(&mut ng, &pcapng::Interface { linktype: 1, ..pcapng::Interface::default() });
        let mut ns = pcap::file_header(Resolution::Nanoseconds, 0, 1).to_vec();
        let mut us = pcap::file_header(Resolution::Microseconds, 0, 1).to_vec();
        let mut room = vec![0; 1000];
        for record in &records {
            let written = pcapng::epb(&mut room, 0, record);
            ng.extend(&room[..written]);
            for (file, resolution) in [(&mut ns, Resolution::Nanoseconds), (&mut us, Resolution::Microseconds)] {
                let written = pcap::record(&mut room, resolution, record);
                file.extend(&room[..written]);
            }
        }
        for (file, tick_ns) in [(&ng, 1), (&ns, 1), (&us, 1000)] {
            let mut left = records.iter();
            read(file, |item| {
                let Item::Frame(frame) = item else { return };
                let record = left.next().expect("no more frames than records");
                assert_eq!(frame.data, &record.bytes[..record.captured()]);
                assert_eq!(frame.time_ns, record.time_ns - record.time_ns % tick_ns);
                let has_tag = record.tag.is_some() && record.bytes.len() >= 12;
                let wire_len = record.len + if has_tag { 4 } else { 0 };
                // What is captured was there.
                assert_eq!((frame.wire_len, frame.linktype), (wire_len.max(frame.data.len() as u32), 1));
                if file == &ng {
                    assert_eq!((frame.flags, frame.dropcount), (record.direction, record.dropped));
                }
            });
            prop_assert_eq!(left.count(), 0);
        }
    }

    #[test]
    fn statistics_come_back(counts in any::<[u64; 7]>(), comment in prop::option::of("[ -~]{1,20}")) {
        let [time_ns, start_ns, received, interface_dropped, filter_accepted, os_dropped, delivered] = counts;
        let mut file = Vec::new();
        let (section, mut seen) = (pcapng::Section { userappl: "quaff".into(), ..Default::default() }, Vec::new());
        pcapng::shb(&mut file, &section);
        let interface = pcapng::Interface { name: "eth7".into(), filter: Some("udp".into()), ..Default::default() };
        pcapng::idb(&mut file, &interface);
        pcapng::isb(&mut file, &pcapng::Statistics {
            interface: 0, time_ns, start_ns, received, interface_dropped, filter_accepted, os_dropped, delivered, comment,
        });
        let at = file.len();
        file.resize(at + pcapng::PADDING_BYTES_MIN, 0);
        pcapng::padding(&mut file[at..]);
        read(&file, |item| match item {
            Item::Section(section) => assert_eq!(section.userappl, Some(&b"quaff"[..])),
            Item::Interface(interface) => {
                assert_eq!((interface.name, interface.filter), (Some(&b"eth7"[..]), Some(&b"udp"[..])));
            }
            Item::Statistics(statistics) => seen.push(statistics),
            Item::Frame(_) | Item::Names(_) | Item::Jump(_) => panic!("there is no frame"),
        });
        prop_assert_eq!(seen, [Statistics {
            interface: 0,
            time_ns,
            starttime_ns: Some(start_ns),
            endtime_ns: Some(time_ns),
            ifrecv: Some(received),
            ifdrop: Some(interface_dropped),
            filteraccept: Some(filter_accepted),
            osdrop: Some(os_dropped),
            usrdeliv: Some(delivered),
        }]);
    }
}
