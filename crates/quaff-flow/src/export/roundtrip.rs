//! Tests the encoders with an independent decoder (netflow_parser): random records are encoded, decoded and compared.

use super::samples::{START_NS, any_record, biflow, record};
use super::*;
use crate::ledger::{Count, FlowLedger};
use crate::plan::Sampling;
use crate::record::{Application, Direction, DirectionExtras, Extras, FlowRecord};
use netflow_parser::variable_versions::{ipfix, v9};
use netflow_parser::{FieldValue, NetflowPacket, NetflowParser};
use proptest::prelude::*;
use std::net::IpAddr;

const NTP_OFFSET_NS: u64 = 2_208_988_800_000_000_000;

/// A decoded flow: ends, protocol, counts, flags, times in ms, and the reverse direction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    source: IpAddr,
    destination: IpAddr,
    ports: (u16, u16),
    protocol: u8,
    count: (u64, u64),
    flags: u8,
    times_ms: (u64, u64),
    reverse: Option<(u64, u64)>,
}

/// The number in a field, times in ms since 1970.
fn number(value: &FieldValue) -> u64 {
    use netflow_parser::variable_versions::field_value::DurationValue as Time;
    match value {
        FieldValue::DataNumber(number) => number.as_u64().unwrap(),
        FieldValue::Duration(time @ (Time::MicrosNtp { .. } | Time::NanosNtp { .. })) => {
            (time.as_duration().as_nanos() as u64 - NTP_OFFSET_NS) / 1_000_000
        }
        FieldValue::Duration(time) => time.as_duration().as_millis() as u64,
        FieldValue::ProtocolType(protocol) => u8::from(*protocol).into(),
        FieldValue::FlowEndReason(reason) => u8::from(*reason).into(),
        FieldValue::TcpControlBits(bits, _) => {
            let bits = [bits.fin, bits.syn, bits.rst, bits.psh, bits.ack, bits.urg, bits.ece, bits.cwr];
            bits.iter().rev().fold(0, |sum, bit| sum << 1 | u64::from(*bit))
        }
        FieldValue::Vec(bytes) => bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        other => panic!("{other:?} is no number"),
    }
}

fn address(value: &FieldValue) -> IpAddr {
    value.try_into().unwrap()
}

/// All messages of an encoder, sealed, announcements first.
fn messages(plan: EncoderPlan, records: &[FlowRecord]) -> Vec<Message> {
    let version = plan.version;
    let mut encoder = Encoder::new(plan, Scene::default()).unwrap();
    let mut messages = encoder.announce(START_NS);
    for record in records {
        encoder.push(record, START_NS);
        messages.extend(std::iter::from_fn(|| encoder.pop()));
    }
    encoder.flush(START_NS);
    messages.extend(std::iter::from_fn(|| encoder.pop()));
    let mut session = Session::new(version);
    messages.iter_mut().for_each(|message| session.seal(message));
    messages
}

/// A decoder whose limits are off: it counts a variable field as 65535 bytes of a template.
pub(crate) fn parser() -> NetflowParser {
    let parser = NetflowParser::builder().with_max_records_per_flowset(usize::from(u16::MAX));
    parser.with_max_template_total_size(1 << 30).build().unwrap()
}

/// Decodes messages; none of them may be damaged.
fn decoded(messages: &[Message]) -> Vec<NetflowPacket> {
    let mut parser = parser();
    let mut packets = Vec::new();
    for message in messages {
        let result = parser.parse_bytes(&message.bytes);
        assert!(result.error.is_none(), "{:?}", result.error);
        assert_eq!(result.packets.len(), 1);
        packets.extend(result.packets);
    }
    packets
}

/// A record of IPFIX, whose fields are in the order of [`TEMPLATE`].
fn flow_of_ipfix(fields: &[ipfix::IPFixFieldPair]) -> Flow {
    let value = |at: usize| &fields[at].1;
    Flow {
        source: address(value(0)),
        destination: address(value(1)),
        ports: (number(value(2)) as u16, number(value(3)) as u16),
        protocol: number(value(4)) as u8,
        count: (number(value(5)), number(value(6))),
        flags: number(value(7)) as u8,
        times_ms: (number(value(8)), number(value(9))),
        reverse: (fields.len() > 11).then(|| (number(value(10)), number(value(11)))),
    }
}

fn ipfix_flows(packets: &[NetflowPacket]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for packet in packets {
        let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
        for set in &packet.flowsets {
            match &set.body {
                ipfix::FlowSetBody::Data(data) => {
                    flows.extend(data.fields.iter().map(|fields| flow_of_ipfix(fields)))
                }
                ipfix::FlowSetBody::NoTemplate(_) => panic!("data without a template"),
                _ => {}
            }
        }
    }
    flows.sort();
    flows
}

const TEMPLATE: &str = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %L4_SRC_PORT %L4_DST_PORT %PROTOCOL %IN_PKTS %IN_BYTES %TCP_FLAGS \
    %FLOW_START_NANOSECONDS %flowEndMicroseconds";

fn ms(ns: u64) -> u64 {
    ns / 1_000_000
}

fn one_way(record: &FlowRecord, is_reverse: bool) -> Option<Flow> {
    let key = &record.key;
    let direction: &Direction = if is_reverse { &record.reverse } else { &record.forward };
    let (source, destination) =
        if is_reverse { (key.destination, key.source) } else { (key.source, key.destination) };
    let mut ports = (key.source_port, key.destination_port);
    if is_reverse {
        ports = (ports.1, ports.0);
    }
    if matches!(key.protocol, 1 | 58) {
        ports.1 = key.icmp_type_code;
    }
    let times_ms = (ms(direction.first_ns), ms(direction.last_ns));
    (direction.packets > 0).then_some(Flow {
        source,
        destination,
        ports,
        protocol: key.protocol,
        count: (direction.packets, direction.bytes),
        flags: direction.tcp_flags,
        times_ms,
        reverse: None,
    })
}

fn plan(version: Version, template: &str) -> EncoderPlan {
    let template = Template::parse(template).unwrap();
    EncoderPlan { template, boot_ns: START_NS - 3_600_000_000_000, domain: 7, ..EncoderPlan::new(version) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Without a reverse field each direction is a record, and every message keeps its limit and its sequence.
    #[test]
    fn uniflows_of_ipfix_come_back(
        records in proptest::collection::vec(any_record(), 1..60),
        bytes_max in 400..1500_usize,
    ) {
        let messages = messages(EncoderPlan { bytes_max, ..plan(Version::Ipfix, TEMPLATE) }, &records);
        let packets = decoded(&messages);
        let mut expected: Vec<Flow> =
            records.iter().flat_map(|record| [one_way(record, false), one_way(record, true)]).flatten().collect();
        expected.sort();
        prop_assert_eq!(ipfix_flows(&packets), expected);

        let mut sequence = 0;
        for (message, packet) in messages.iter().zip(&packets) {
            let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
            prop_assert!(message.bytes.len() <= bytes_max);
            prop_assert_eq!((packet.header.sequence_number, packet.header.observation_domain_id), (sequence, 7));
            for set in &packet.flowsets {
                sequence += match &set.body {
                    ipfix::FlowSetBody::Data(data) => data.fields.len(),
                    ipfix::FlowSetBody::OptionsData(data) => data.fields.len(),
                    _ => 0,
                } as u32;
            }
        }
    }

    /// RFC 5103: one record for both directions; only a conversation with an answer uses the template with reverse
    /// fields.
    #[test]
    fn biflows_of_ipfix_come_back(records in proptest::collection::vec(any_record(), 1..60)) {
        let template = format!("{TEMPLATE} %OUT_PKTS %OUT_BYTES");
        let flows = ipfix_flows(&decoded(&messages(plan(Version::Ipfix, &template), &records)));
        let mut expected: Vec<Flow> = records.iter().map(|record| {
            let answer = (record.reverse.packets, record.reverse.bytes);
            let ports = (record.key.source_port, record.key.destination_port);
            let is_icmp = matches!(record.key.protocol, 1 | 58);
            Flow {
                source: record.key.source,
                destination: record.key.destination,
                ports: (ports.0, if is_icmp { record.key.icmp_type_code } else { ports.1 }),
                protocol: record.key.protocol,
                count: (record.forward.packets, record.forward.bytes),
                flags: record.forward.tcp_flags,
                times_ms: (ms(record.first_ns()), ms(record.last_ns())),
                reverse: (answer.0 > 0).then_some(answer),
            }
        }).collect();
        expected.sort();
        prop_assert_eq!(flows, expected);
    }

    /// NetFlow v9: 32-bit times are ms since a start that follows exactly from each header.
    #[test]
    fn flows_of_v9_come_back(records in proptest::collection::vec(any_record(), 1..60), bytes_max in 400..1500_usize) {
        let template = TEMPLATE.replace("FLOW_START_NANOSECONDS", "FIRST_SWITCHED").replace("flowEndMicroseconds", "LAST_SWITCHED");
        let messages = messages(EncoderPlan { bytes_max, ..plan(Version::V9, &template) }, &records);
        let packets = decoded(&messages);
        let mut flows = Vec::new();
        for (at, packet) in packets.iter().enumerate() {
            let NetflowPacket::V9(packet) = packet else { panic!("{packet:?}") };
            prop_assert_eq!((packet.header.sequence_number, packet.header.source_id), (at as u32, 7));
            let boot_ms = u64::from(packet.header.unix_secs) * 1000 - u64::from(packet.header.sys_up_time);
            let mut count = 0;
            for set in &packet.flowsets {
                count += match &set.body {
                    v9::FlowSetBody::Template(templates) => templates.templates.len(),
                    v9::FlowSetBody::OptionsTemplate(templates) => templates.templates.len(),
                    v9::FlowSetBody::OptionsData(data) => data.fields.len(),
                    v9::FlowSetBody::NoTemplate(_) => panic!("data without a template"),
                    v9::FlowSetBody::Empty => 0,
                    v9::FlowSetBody::Data(data) => {
                        for fields in &data.fields {
                            let value = |at: usize| &fields[at].1;
                            flows.push(Flow {
                                source: address(value(0)),
                                destination: address(value(1)),
                                ports: (number(value(2)) as u16, number(value(3)) as u16),
                                protocol: number(value(4)) as u8,
                                count: (number(value(5)), number(value(6))),
                                flags: number(value(7)) as u8,
                                times_ms: (boot_ms + number(value(8)), boot_ms + number(value(9))),
                                reverse: None,
                            });
                        }
                        data.fields.len()
                    }
                };
            }
            prop_assert_eq!(usize::from(packet.header.count), count);
        }
        flows.sort();
        let mut expected: Vec<Flow> =
            records.iter().flat_map(|record| [one_way(record, false), one_way(record, true)]).flatten().collect();
        expected.sort();
        prop_assert_eq!(flows, expected);
    }

    /// NetFlow v5: IPv4 only, with 32-bit counters, which lose no packet or byte.
    #[test]
    fn flows_of_v5_keep_their_sums(records in proptest::collection::vec(any_record(), 1..20)) {
        let mut records = records;
        for record in &mut records {
            for direction in [&mut record.forward, &mut record.reverse] {
                direction.bytes &= 0xf_ffff_ffff;
                direction.packets &= 0x1_ffff_ffff;
            }
        }
        let packets = decoded(&messages(plan(Version::V5, TEMPLATE), &records));
        let (mut sums, mut sequence) = ((0, 0), 0);
        for packet in &packets {
            let NetflowPacket::V5(packet) = packet else { panic!("{packet:?}") };
            prop_assert_eq!(packet.header.flow_sequence, sequence);
            sequence += packet.flowsets.len() as u32;
            prop_assert!(packet.flowsets.len() <= 30);
            let boot_ms = u64::from(packet.header.unix_secs) * 1000 + u64::from(packet.header.unix_nsecs) / 1_000_000
                - u64::from(packet.header.sys_up_time);
            for flow in &packet.flowsets {
                sums = (sums.0 + u64::from(flow.d_pkts), sums.1 + u64::from(flow.d_octets));
                let start = boot_ms + u64::from(flow.first);
                let is_known = |direction: &Direction| {
                    (ms(direction.first_ns), ms(direction.last_ns)) == (start, boot_ms + u64::from(flow.last))
                };
                let known = records.iter().any(|record| is_known(&record.forward) || is_known(&record.reverse));
                prop_assert!(known);
            }
        }
        let v4 = records.iter().filter(|record| record.key.source.is_ipv4());
        let expected = v4.fold((0, 0), |sums, record| (sums.0 + record.packets(), sums.1 + record.bytes()));
        prop_assert_eq!(sums, expected);
    }
}

/// A conversation with all extras. The decoder refuses variable fields without bytes, which RFC 7011, 7 allows.
fn with_extras(name: &'static str) -> FlowRecord {
    let payload = |byte| DirectionExtras { payload: vec![byte; 40], ..DirectionExtras::default() };
    let server_name = Some("flows.example".to_owned());
    let extras = Extras {
        forward: payload(1),
        reverse: payload(2),
        application: Some(Application { protocol: name, name, server_name, alpn: Some("h2".to_owned()) }),
        ..Extras::default()
    };
    FlowRecord { extras: Some(Box::new(extras)), ..biflow(1) }
}

/// Each field that a template may name is decoded with its length: a wrong length would shift the fields that follow.
#[test]
fn each_field_is_decoded() {
    let mut refused = Vec::new();
    for element in element::ELEMENTS {
        let template =
            format!("%IN_PKTS %{} %systemInitTimeMilliseconds %reverseOctetDeltaCount", element.name);
        let protocol = match element.value {
            element::Value::ServerName([protocol, ..]) => *protocol,
            _ => "tls",
        };
        let messages = messages(plan(Version::Ipfix, &template), &[with_extras(protocol)]);
        let mut decoded_bytes = Vec::new();
        for packet in decoded(&messages) {
            let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
            for set in &packet.flowsets {
                if let ipfix::FlowSetBody::Data(data) = &set.body {
                    decoded_bytes.extend(data.fields.iter().map(|fields| number(&fields.last().unwrap().1)));
                }
            }
        }
        if decoded_bytes != [900] {
            refused.push((element.name, decoded_bytes));
        }
    }
    assert_eq!(refused, []);
}

/// A flow of 10 GiB is three records of NetFlow v5, whose sums are its own.
#[test]
fn a_flow_beyond_4_gib_is_split_in_v5() {
    let mut long = record(1);
    long.forward.bytes = 10 << 30;
    long.forward.packets = 7_000_001;
    let packets = decoded(&messages(plan(Version::V5, TEMPLATE), &[long]));
    let NetflowPacket::V5(packet) = &packets[0] else { panic!() };
    let counts: Vec<(u32, u32)> = packet.flowsets.iter().map(|flow| (flow.d_pkts, flow.d_octets)).collect();
    assert_eq!(counts.len(), 3);
    assert_eq!(counts.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>(), 10 << 30);
    assert_eq!(counts.iter().map(|(packets, _)| u64::from(*packets)).sum::<u64>(), 7_000_001);
}

/// The field of NetFlow v5 has 14 bits: a larger interval would be another one, by which a collector multiplies.
#[test]
fn sampling_that_v5_cannot_say_is_refused() {
    let encoder = |version, interval| {
        let sampling = SamplingView::from(Sampling::Systematic { interval });
        Encoder::new(plan(version, "%IPV4_SRC_ADDR %IN_BYTES"), Scene { sampling, ..Scene::default() })
    };
    let refused = encoder(Version::V5, 16_384).unwrap_err().to_string();
    assert!(refused.contains("1 packet in 16383, and not 1 in 16384"), "{refused}");
    assert!([Version::V9, Version::Ipfix].iter().all(|version| encoder(*version, u32::MAX).is_ok()));
    let mut most = encoder(Version::V5, 16_383).unwrap();
    most.push(&record(1), START_NS);
    most.flush(START_NS);
    assert_eq!(most.pop().unwrap().bytes[22..24], [0x7f, 0xff]);
}

/// Headers of NetFlow have seconds of 32 bits. Interface numbers of v5 have 16: a larger one is unknown.
#[test]
fn late_times_are_counted_and_large_interface_numbers_are_unknown() {
    let mut late = record(1);
    late.forward.last_ns = 5_000_000_000 * 1_000_000_000;
    late.forward.first_ns = late.forward.last_ns - 1_000_000;
    for (version, unsuited) in [(Version::V5, 1), (Version::V9, 1), (Version::Ipfix, 0)] {
        let mut encoder = Encoder::new(plan(version, "%IPV4_SRC_ADDR %IN_BYTES"), Scene::default()).unwrap();
        encoder.push(&late, START_NS);
        assert_eq!(encoder.unencoded().unsuited.records, unsuited, "{version:?}");
    }
    let scene = Scene { output_index: 70_000, input_index: Some(65_535), ..Scene::default() };
    let mut encoder = Encoder::new(plan(Version::V5, "%IPV4_SRC_ADDR %IN_BYTES"), scene).unwrap();
    encoder.push(&record(1), START_NS);
    encoder.flush(START_NS);
    let packets = decoded(&[encoder.pop().unwrap()]);
    let NetflowPacket::V5(packet) = &packets[0] else { panic!() };
    assert_eq!((packet.flowsets[0].input, packet.flowsets[0].output), (65_535, 0));
}

/// RFC 6793: a number of 32 bits is AS_TRANS in a field of 16.
#[test]
fn a_long_as_number_is_as_trans_in_v5() {
    #[derive(Debug)]
    struct One;
    impl Routes for One {
        fn route(&self, _: IpAddr) -> Route {
            Route { autonomous_system: 400_000, prefix_bits: 20, next_hop: Some([10, 9, 9, 9].into()) }
        }
    }
    let scene = Scene { routes: Some(std::sync::Arc::new(One)), output_index: 5, ..Scene::default() };
    let mut encoder = Encoder::new(plan(Version::V5, TEMPLATE), scene).unwrap();
    encoder.push(&record(1), START_NS);
    encoder.flush(START_NS);
    let packets = decoded(&[encoder.pop().unwrap()]);
    let NetflowPacket::V5(packet) = &packets[0] else { panic!() };
    let flow = &packet.flowsets[0];
    assert_eq!((flow.src_as, flow.dst_as, flow.src_mask, flow.output), (23456, 23456, 20, 5));
    assert_eq!(flow.next_hop.octets(), [10, 9, 9, 9]);
}

/// The kernel's answer is used if a table has none, for addresses of the record's family.
#[test]
fn the_next_hop_is_that_of_the_table_or_of_the_kernel() {
    struct Hops(IpAddr);
    impl NextHops for Hops {
        fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
            (destination == record(1).key.destination).then_some(self.0)
        }
    }
    let exported = |hop: IpAddr, routes: Option<std::sync::Arc<dyn Routes>>| {
        let scene = Scene { routes, next_hops: Some(std::sync::Arc::new(Hops(hop))), ..Scene::default() };
        let mut encoder = Encoder::new(plan(Version::V5, TEMPLATE), scene).unwrap();
        encoder.push(&record(1), START_NS);
        encoder.flush(START_NS);
        let packets = decoded(&[encoder.pop().unwrap()]);
        let NetflowPacket::V5(packet) = &packets[0] else { panic!() };
        packet.flowsets[0].next_hop.octets()
    };
    let table = || AsTable::parse(b"192.168.0.0/16 7\n".to_vec()).unwrap();
    assert_eq!(exported([10, 1, 1, 1].into(), None), [10, 1, 1, 1]);
    assert_eq!(exported([10, 1, 1, 1].into(), Some(std::sync::Arc::new(table()))), [10, 1, 1, 1]);
    assert_eq!(exported(std::net::Ipv6Addr::LOCALHOST.into(), None), [0; 4]);
}

/// A template without fields would be a withdrawal (RFC 7011, 8.1), and its records would have no bytes.
#[test]
fn a_template_of_reverse_fields_alone_serves_all_conversations() {
    let messages = messages(plan(Version::Ipfix, "%OUT_BYTES"), &[record(1), biflow(2)]);
    let mut bytes = Vec::new();
    for packet in decoded(&messages) {
        let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
        for set in &packet.flowsets {
            if let ipfix::FlowSetBody::Data(data) = &set.body {
                bytes.extend(data.fields.iter().map(|fields| number(&fields[0].1)));
            }
        }
    }
    assert_eq!(bytes, [0, 900]);
}

/// IPv6 in NetFlow v5, and records that a policy excludes, are counted.
#[test]
fn records_that_are_not_encoded_are_counted() {
    let mut six = biflow(1);
    six.key.source = "2001:db8::1".parse().unwrap();
    six.key.destination = "2001:db8::2".parse().unwrap();
    let mut encoder = Encoder::new(plan(Version::V5, TEMPLATE), Scene::default()).unwrap();
    encoder.push(&six, START_NS);
    assert_eq!(encoder.unencoded().unsuited, Carried { records: 2, packets: 8, bytes: 1200 });

    let policy = EncoderPlan { biflows: BiflowPolicy::Answered, ..plan(Version::Ipfix, TEMPLATE) };
    let mut encoder = Encoder::new(policy, Scene::default()).unwrap();
    encoder.push(&record(1), START_NS);
    encoder.push(&six, START_NS);
    encoder.flush(START_NS);
    assert_eq!(encoder.unencoded().by_policy, Carried { records: 1, packets: 3, bytes: 300 });
    assert_eq!(encoder.pop().unwrap().carried.packets, 8);
}

/// The options of RFC 7011, 4, with the ledger: a collector that knows the numbers can check the identity.
#[test]
fn options_are_decoded_with_their_values() {
    let count = |packets| Count { packets, bytes: packets * 100 };
    let mut ledger = FlowLedger {
        seen: count(17),
        exported: count(5),
        live: count(4),
        held: count(1),
        ..FlowLedger::default()
    };
    ledger.ignored.not_ip = count(2);
    ledger.ignored.not_sampled = count(5);
    let not_sent = Carried { records: 3, packets: 30, bytes: 300 };
    let statistics = Statistics { ledger, messages: 8, records: 9, bytes: 10, not_sent };
    let scene = Scene {
        interfaces: vec![Interface { index: 4, name: "eth4".to_owned(), description: String::new() }],
        ..Scene::default()
    };
    let mut encoder = Encoder::new(plan(Version::Ipfix, TEMPLATE), scene).unwrap();
    let mut messages = encoder.announce(START_NS);
    encoder.statistics(&statistics, START_NS);
    messages.extend(std::iter::from_fn(|| encoder.pop()));
    let mut numbers = Vec::new();
    let mut texts = Vec::new();
    for packet in decoded(&messages) {
        let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
        for set in &packet.flowsets {
            let ipfix::FlowSetBody::OptionsData(data) = &set.body else { continue };
            for fields in &data.fields {
                let text = fields.iter().filter_map(|(_, value)| match value {
                    FieldValue::String(_) => String::try_from(value).ok(),
                    _ => None,
                });
                texts.extend(text);
                let is_text = |value: &FieldValue| matches!(value, FieldValue::String(_));
                numbers.push(
                    fields
                        .iter()
                        .filter(|(_, value)| !is_text(value))
                        .map(|(_, value)| number(value))
                        .collect::<Vec<_>>(),
                );
            }
        }
    }
    for expected in [&[7, 10, 8, 9][..], &[7, 2, 200], &[7, 3, 30, 300], &[4]] {
        assert!(numbers.iter().any(|found| found == expected), "{expected:?} in {numbers:?}");
    }
    let own = numbers.iter().find(|found| found.len() == 15).unwrap();
    let (seen, parts) = (own[1], &own[3..]);
    assert_eq!(parts.iter().step_by(2).sum::<u64>(), seen, "the identity in {own:?}");
    assert!(
        texts.iter().any(|text| text == "eth4") && texts.iter().any(|text| text == "quaffInitiatorRule"),
        "{texts:?}"
    );
}

/// RFC 5655: a file is messages one after another; all of it is decoded as one stream.
#[test]
fn a_file_is_a_stream_of_messages() {
    let mut encoder = FileEncoder::new(plan(Version::Ipfix, TEMPLATE), Scene::default()).unwrap();
    let mut file = Vec::new();
    encoder.begin(START_NS, &mut file);
    let records: Vec<FlowRecord> = (0..200).map(record).collect();
    records.iter().for_each(|record| encoder.push(record, START_NS, &mut file));
    encoder.finish(Statistics::default(), START_NS, &mut file);
    let (mut rest, mut messages) = (&file[..], Vec::new());
    while !rest.is_empty() {
        assert_eq!(rest[..2], [0, 10]);
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        messages.push(Message { bytes: rest[..length].to_vec(), ..Message::default() });
        rest = &rest[length..];
    }
    let packets = decoded(&messages);
    let mut expected: Vec<Flow> = records.iter().filter_map(|record| one_way(record, false)).collect();
    expected.sort();
    assert_eq!(ipfix_flows(&packets), expected);
    assert_eq!(encoder.take_carried().records, 200);
    let first = &packets[0];
    let NetflowPacket::IPFix(first) = first else { panic!() };
    assert!(matches!(
        first.flowsets[0].body,
        ipfix::FlowSetBody::Templates(_) | ipfix::FlowSetBody::Template(_)
    ));
}

/// The bytes of a field of the first record, in messages of IPFIX.
fn first_field(messages: &[Message], at: usize) -> Option<FieldValue> {
    decoded(messages).into_iter().find_map(|packet| {
        let NetflowPacket::IPFix(packet) = packet else { panic!("{packet:?}") };
        packet.flowsets.into_iter().find_map(|set| match set.body {
            ipfix::FlowSetBody::Data(data) => Some(data.fields[0][at].1.clone()),
            _ => None,
        })
    })
}

/// The flows that a template with an application is about fit a datagram.
#[test]
fn payload_and_application_fit_a_datagram() {
    let template = Template::parse("%quaffFirstPayload %TLS_SERVER_NAME").unwrap();
    let kept = template.extras().payload_bytes;
    let mut record = with_extras("tls");
    record.extras.as_mut().unwrap().forward.payload = vec![7; usize::from(kept)];
    let plan = EncoderPlan { template, bytes_max: 1472, ..EncoderPlan::new(Version::Ipfix) };
    let mut encoder = Encoder::new(plan, Scene::default()).unwrap();
    encoder.push(&record, START_NS);
    assert_eq!(encoder.unencoded().too_long, Carried::default(), "payload_bytes {kept}");
}

/// A long name is truncated between characters to fit a message; its flow is not lost.
#[test]
fn a_name_that_no_message_has_room_for_is_cut() {
    let mut record = with_extras("tls");
    let application = record.extras.as_mut().unwrap().application.as_mut().unwrap();
    application.server_name = Some("\u{e4}".repeat(600));
    let template = "%IN_PKTS %TLS_SERVER_NAME %quaffServerName";
    for bytes_max in [484, 1472] {
        let messages = messages(
            EncoderPlan { bytes_max, ..plan(Version::Ipfix, template) },
            std::slice::from_ref(&record),
        );
        assert!(messages.iter().all(|message| message.bytes.len() <= bytes_max));
        let carried: u64 = messages.iter().map(|message| message.carried.records).sum();
        assert_eq!(carried, 2, "{bytes_max}");
        // The decoder has no type for fields of ntop.
        let name = match first_field(&messages, 1).unwrap() {
            FieldValue::Vec(bytes) => String::from_utf8(bytes).unwrap(),
            other => String::try_from(&other).unwrap(),
        };
        assert!(name.len() > 200 && name.chars().all(|letter| letter == '\u{e4}'), "{name}");
    }
}

/// Numbers below 256 are reserved for sets, and the numbers of all templates of an exporter and a file have to fit 16
/// bits.
#[test]
fn template_ids_are_checked() {
    let with = |template_id| EncoderPlan { template_id, ..plan(Version::Ipfix, TEMPLATE) };
    for template_id in [0, 5, 255, 65_504, 65_534, u16::MAX] {
        let error = Encoder::new(with(template_id), Scene::default()).unwrap_err();
        assert_eq!(error, TemplateError::Id { id: template_id, max: 65_503 });
        assert!(error.to_string().ends_with("use 256 to 65503"), "{error}");
        assert!(FileEncoder::new(with(template_id), Scene::default()).is_err());
    }
    for template_id in [256, 65_503] {
        assert!(!decoded(&messages(with(template_id), &[record(1)])).is_empty());
        let mut file = FileEncoder::new(with(template_id), Scene::default()).unwrap();
        let mut bytes = Vec::new();
        file.push(&record(1), START_NS, &mut bytes);
        file.finish(Statistics::default(), START_NS, &mut bytes);
    }
}

/// In a later piece in which only the destination sent, 0 would mean a flow of 1970.
#[test]
fn a_piece_of_the_reverse_direction_has_a_start() {
    let mut record = biflow(1);
    record.forward = Direction::default();
    let template =
        "%IN_PKTS %OUT_PKTS %flowStartMilliseconds %reverseFlowStartMilliseconds %flowEndMilliseconds";
    let messages = messages(plan(Version::Ipfix, template), std::slice::from_ref(&record));
    let times = [2, 3, 4].map(|at| number(&first_field(&messages, at).unwrap()));
    let reverse = &record.reverse;
    assert_eq!(times, [reverse.first_ns, reverse.first_ns, reverse.last_ns].map(ms));
}

/// A routing table is searched once for each end, however many fields need the result.
#[test]
fn routes_are_looked_up_once_for_each_end() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    #[derive(Default)]
    struct Counted(AtomicUsize);
    impl Routes for Counted {
        fn route(&self, _: IpAddr) -> Route {
            self.0.fetch_add(1, Ordering::Relaxed);
            Route { autonomous_system: 7, ..Route::default() }
        }
    }
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let table = std::sync::Arc::new(Counted::default());
        let scene = Scene { routes: Some(table.clone()), ..Scene::default() };
        let mut encoder = Encoder::new(EncoderPlan::new(version), scene).unwrap();
        encoder.push(&record(1), START_NS);
        assert_eq!(table.0.load(Ordering::Relaxed), 2, "{version:?}");
    }
}
