//! Expressions on records, and what is refused.

use super::*;
use crate::record::{Application, Direction, EndReason, Extras, InitiatorRule, RecordKey};
use proptest::prelude::*;
use std::net::IpAddr;

const S: u64 = 1_000_000_000;

/// A connection of 2 s to the port 443 of a server, with 30 packets and 3000 bytes.
fn record() -> FlowRecord {
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let direction = |packets, bytes, tcp_flags| Direction {
        packets,
        bytes,
        first_ns: 100 * S,
        last_ns: 102 * S,
        tcp_flags,
        ..Direction::default()
    };
    let application = Application {
        protocol: "tls",
        name: "https",
        server_name: Some("www.Example.com".to_owned()),
        ..Application::default()
    };
    FlowRecord {
        key: RecordKey {
            source: ip("192.168.1.7"),
            destination: ip("198.51.100.20"),
            source_port: 40_000,
            destination_port: 443,
            protocol: 6,
            icmp_type_code: 0,
            vlan: 5,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 32,
            tunnel: 0,
        },
        forward: direction(10, 1000, 0x1b),
        reverse: direction(20, 2000, 0x12),
        initiator: InitiatorRule::Syn,
        end_reason: EndReason::EndOfFlow,
        is_continued: false,
        extras: Some(Box::new(Extras { application: Some(application), ..Extras::default() })),
    }
}

fn holds(text: &str) -> bool {
    let expression: Expression = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.holds(&record())
}

#[test]
fn tests_hold_for_what_the_record_has() {
    for (yes, no) in [
        ("host 192.168.1.7", "host 192.168.1.8"),
        ("192.168.1.0/24", "192.168.2.0/24"),
        ("src host 192.168.1.7", "dst host 192.168.1.7"),
        ("dst 198.51.100.20", "src 198.51.100.20"),
        ("src net 192.168.0.0/16", "dst net 192.168.0.0/16"),
        ("ip 198.51.100.20", "ip 198.51.100.21"),
        ("port 443", "port 80"),
        ("dst port 400-500", "src port 400-500"),
        ("src port > 1023", "dst port > 1023"),
        ("tcp", "udp"),
        ("proto 6", "proto udp"),
        ("tcp port 443", "udp port 443"),
        ("tcp dst port 443", "tcp src port 443"),
        ("ip", "ip6"),
        ("inet", "inet6"),
        ("ip host 192.168.1.7", "ip6 host 192.168.1.7"),
        ("vlan 5", "vlan 6"),
        ("tos 32", "tos 0"),
        ("in if 0", "in if 3"),
        ("flags SAF", "flags R"),
        ("packets 30", "packets 10"),
        ("bytes>=3000", "bytes<3k"),
        ("duration > 1500", "duration > 2s"),
        ("duration = 2s", "duration < 2s"),
        ("pps = 15", "pps > 15"),
        ("bps = 12k", "bps > 12k"),
        ("bpp 100", "bpp > 100"),
        ("application TLS", "application dns"),
        ("application https", "application http"),
        ("server www.example.com", "server example.com"),
        ("server *.EXAMPLE.*", "server *.example.org"),
    ] {
        assert!(holds(yes) && !holds(no), "{yes} | {no}: {} {}", holds(yes), holds(no));
        assert!(holds(&format!("not ({no})")) && !holds(&format!("! {yes}")), "{yes} | {no}");
    }
}

#[test]
fn and_binds_before_or_and_parentheses_before_both() {
    assert!(holds("port 443 or port 80 and udp"));
    assert!(!holds("(port 443 or port 80) and udp"));
    assert!(holds("not udp and tcp && (src 192.168.1.7||src 10.0.0.1)"));
}

#[test]
fn words_that_do_not_fit_are_named() {
    for (text, word) in [
        ("", "is empty"),
        ("host", "after 'host' comes an address"),
        ("host nowhere", "'nowhere' is no address"),
        ("port 70000", "'70000' is no port"),
        ("port 9-5", "'9-5' is no port"),
        ("tcp and", "after 'and'"),
        ("tcp udp", "'udp' does not continue"),
        ("(tcp", "')' is missing"),
        ("sport 5", "'sport' is none of"),
        ("bytes > many", "'many' is no number"),
        ("net 10.0.0.0/33", "is no address"),
        ("flags SX", "'SX' is no list of flags"),
        ("in", "after 'in' comes if"),
        ("in 3", "'3' is not if"),
        ("in if eth0", "'eth0' is not the number of an interface"),
        ("out if 3", "no output interface"),
    ] {
        let error = text.parse::<Expression>().expect_err(text);
        assert!(error.contains(word), "{text}: {error}");
    }
    let deep = format!("{}tcp{}", "(".repeat(500), ")".repeat(500));
    assert!(deep.parse::<Expression>().is_err());
}

#[test]
fn records_are_wanted_that_have_a_packet_in_the_span() {
    let wants = |from_s: Option<u64>, to_s: Option<u64>| {
        let [from_ns, to_ns] = [from_s, to_s].map(|seconds| seconds.map(|seconds| seconds * S));
        Choice { expression: None, from_ns, to_ns }.wants(&record())
    };
    assert!(
        wants(None, None) && wants(Some(102), None) && wants(None, Some(101)) && wants(Some(101), Some(102))
    );
    assert!(!wants(Some(103), None) && !wants(None, Some(100)));
}

#[test]
fn applications_are_asked_for_by_their_tests_alone() {
    let needs = |text: &str| text.parse::<Expression>().expect(text).needs_applications();
    assert!(needs("tcp and not (server a.example or udp)") && needs("application dns") && !needs("port 53"));
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_has_a_reason(text in "[a-z0-9 ().:/<>=!&|*-]{0,60}|.{0,40}") {
        match text.parse::<Expression>() {
            Ok(expression) => {
                let negated: Expression = format!("not ({text})").parse().expect("a negation");
                prop_assert_ne!(expression.holds(&record()), negated.holds(&record()));
            }
            Err(reason) => prop_assert!(!reason.is_empty()),
        }
    }
}
