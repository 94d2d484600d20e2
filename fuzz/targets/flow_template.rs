//! Any text is read as a template or refused; what is read compiles, and an encoder of it makes messages within their
//! limit, whose set lengths add up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_flow::export::{Encoder, EncoderPlan, Scene, Template, Version};
use quaff_flow::record::{Direction, EndReason, FlowRecord, InitiatorRule, RecordKey};

fn record(is_ipv6: bool) -> FlowRecord {
    let address = |host: u16| match is_ipv6 {
        true => [0x2001, 0xdb8, 0, 0, 0, 0, 0, host].into(),
        false => [10, 0, 0, host as u8].into(),
    };
    let direction = Direction { packets: 1, bytes: 60, first_ns: 9_000_000_000, last_ns: 9_500_000_000, ..Direction::default() };
    FlowRecord {
        key: RecordKey {
            source: address(1),
            destination: address(2),
            source_port: 1,
            destination_port: 2,
            protocol: 17,
            icmp_type_code: 0,
            vlan: 3,
            inner_vlan: 6,
            mpls_label: 4,
            interface: 0,
            tos: 0,
            tunnel: 5,
        },
        forward: direction,
        reverse: direction,
        initiator: InitiatorRule::First,
        end_reason: EndReason::Idle,
        is_continued: false,
        extras: None,
    }
}

fuzz_target!(|text: &str| {
    let Ok((template, unknown)) = Template::parse_known(text) else {
        assert!(Template::parse(text).is_err());
        return;
    };
    assert_eq!(Template::parse(text).is_ok(), unknown.is_empty());
    let _ = unknown.iter().map(ToString::to_string).collect::<String>();
    for version in [Version::V9, Version::Ipfix] {
        let plan = EncoderPlan { template: template.clone(), bytes_max: 1400, ..EncoderPlan::new(version) };
        let bytes_max = plan.bytes_max;
        let Ok(mut encoder) = Encoder::new(plan, Scene::default()) else { continue };
        let mut messages = encoder.announce(9_000_000_000);
        for n in 0..40 {
            let mut record = record(n % 3 == 0);
            if n % 2 == 0 {
                record.reverse = Direction::default();
            }
            encoder.push(&record, 9_000_000_000);
        }
        encoder.flush(9_000_000_000);
        messages.extend(std::iter::from_fn(|| encoder.pop()));
        for message in messages {
            assert!(message.bytes.len() <= bytes_max);
            let mut rest = &message.bytes[if version == Version::V9 { 20 } else { 16 }..];
            while !rest.is_empty() {
                let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
                assert!(length > 4);
                rest = &rest[length..];
            }
        }
    }
});
