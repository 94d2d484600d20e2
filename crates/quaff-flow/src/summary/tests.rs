//! Compares sums with those of the records.

use super::*;
use crate::record::{Application, EndReason, Extras, InitiatorRule, RecordKey};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

const SECOND: u64 = 1_000_000_000;

fn host(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

/// A TCP record with both directions, which lasts a second from `first_ns` on.
fn record(hosts: [u8; 2], port: u16, packets: [u64; 2], first_ns: u64) -> FlowRecord {
    let [source, destination] = hosts.map(host);
    let direction = |packets: u64| Direction {
        packets,
        bytes: packets * 100,
        first_ns: if packets == 0 { 0 } else { first_ns },
        last_ns: if packets == 0 { 0 } else { first_ns + SECOND },
        ..Direction::default()
    };
    FlowRecord {
        key: RecordKey {
            source,
            destination,
            source_port: 40_000,
            destination_port: port,
            protocol: 6,
            icmp_type_code: 0,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 0,
            tunnel: 0,
        },
        forward: direction(packets[0]),
        reverse: direction(packets[1]),
        initiator: InitiatorRule::First,
        end_reason: EndReason::Idle,
        is_continued: false,
        extras: None,
    }
}

const ALL: [By; 9] = [
    By::Flow,
    By::Host,
    By::Source,
    By::Destination,
    By::Port,
    By::Application,
    By::Server,
    By::Protocol,
    By::Vlan,
];

fn summary(cell_ns: u64, intervals_max: u64, groups_max: usize) -> Summary {
    let cells_max = usize::MAX;
    Summary::new(SummaryPlan {
        by: ALL.to_vec(),
        cell_ns,
        intervals_max,
        groups_max,
        cells_max,
        choice: Choice::default(),
    })
}

fn all(by: By) -> Query<'static> {
    let (order, count) = (Order::Bytes, usize::MAX);
    Query {
        by,
        order,
        is_reversed: false,
        is_named: false,
        text: "",
        first: 0,
        count,
        at: None,
        has_rest: false,
    }
}

fn names(summary: &Summary, query: &Query<'_>) -> Vec<String> {
    summary.ranked(query).rows.into_iter().map(|row| row.name).collect()
}

#[test]
fn a_flow_counts_at_both_its_hosts_with_its_directions() {
    let mut summary = summary(0, 1, 100);
    summary.add(&record([1, 2], 443, [10, 30], SECOND));
    summary.add(&record([3, 2], 80, [1, 0], SECOND));
    summary.add(&record([2, 2], 80, [4, 6], SECOND));
    let sums: Vec<_> = summary
        .ranked(&all(By::Host))
        .rows
        .into_iter()
        .map(|row| (row.name, row.sum.flows, row.sum.packets, row.sum.sent_packets, row.sum.received_packets))
        .collect();
    let row = |name: &str, numbers: [u64; 4]| {
        let [flows, packets, sent, received] = numbers;
        (name.to_owned(), flows, packets, sent, received)
    };
    let expected =
        [row("10.0.0.2", [3, 51, 40, 21]), row("10.0.0.1", [1, 40, 10, 30]), row("10.0.0.3", [1, 1, 1, 0])];
    assert_eq!(sums, expected);
    let port = &summary.ranked(&all(By::Port)).rows[0];
    assert_eq!((port.name.as_str(), port.sum.sent_packets, port.sum.received_packets), ("tcp 443", 30, 10));
    assert_eq!(names(&summary, &all(By::Destination)), ["10.0.0.2"]);
}

/// Up to 32 bits a number is that of IPv4, beyond that of IPv6.
#[test]
fn nets_are_groups() {
    let by = |by: By| By::several("net", vec![by]).expect("a net");
    let all_nets = [By::SourceNet(24), By::SourceNet(48), By::DestinationNet(32), By::SourceNet(1)].map(by);
    let plan = SummaryPlan { by: all_nets.to_vec(), ..summary(0, 1, 100).plan };
    let mut summary = Summary::new(plan);
    for number in [1, 2, 200] {
        summary.add(&record([number, 9], 80, [u64::from(number), 0], 0));
    }
    let mut six = record([1, 9], 80, [500, 0], 0);
    six.key.source = "2001:db8:1:2:3::4".parse().expect("an address");
    six.key.destination = "2001:db8::9".parse().expect("an address");
    summary.add(&six);
    summary.lack(&[By::Source]);
    summary.add(&record([3, 9], 80, [1000, 0], 0));
    let names = |by: By| names(&summary, &all(by));
    assert_eq!(names(all_nets[0]), ["not recorded", "2001:db8:1:2::/64", "10.0.0.0/24"]);
    let of_ipv6 = ["not recorded", "2001:db8:1::/48", "10.0.0.200/32", "10.0.0.2/32", "10.0.0.1/32"];
    assert_eq!(names(all_nets[1]), of_ipv6);
    assert_eq!(names(all_nets[2]), ["10.0.0.9/32", "2001:db8::/64"]);
    assert_eq!(names(all_nets[3]), ["not recorded", "2001:db8:1:2::/64", "0.0.0.0/1"]);
    assert_eq!(summary.ranked(&all(all_nets[0])).not_recorded, [By::Source]);
}

#[test]
fn rows_are_sorted_filtered_and_cut() {
    let mut summary = summary(SECOND, u64::MAX, 100);
    for number in 1..=5 {
        let server_name = Some(format!("h{number}.example"));
        let application = Application { protocol: "tls", name: "tls", server_name, alpn: None };
        let extras = Extras { application: Some(application), ..Extras::default() };
        let number = number as u8;
        let flow = record([number, 100], 443, [u64::from(number), 0], SECOND * u64::from(number));
        summary.add(&FlowRecord { extras: Some(Box::new(extras)), ..flow });
    }
    let by = By::Source;
    assert_eq!(names(&summary, &Query { count: 2, ..all(by) }), ["10.0.0.5", "10.0.0.4"]);
    assert_eq!(names(&summary, &Query { first: 3, count: 9, ..all(by) }), ["10.0.0.2", "10.0.0.1"]);
    assert_eq!(names(&summary, &Query { count: 1, is_reversed: true, ..all(by) }), ["10.0.0.1"]);
    assert_eq!(names(&summary, &Query { count: 1, order: Order::Name, ..all(by) }), ["10.0.0.1"]);
    let reversed = Query { count: 1, order: Order::Name, is_reversed: true, ..all(by) };
    assert_eq!(names(&summary, &reversed), ["10.0.0.5"]);
    // Among groups without packets in that interval, the largest is first.
    let rates = Query { order: Order::Rate, at: Some(2), count: 2, ..all(by) };
    assert_eq!(names(&summary, &rates), ["10.0.0.2", "10.0.0.5"]);
    let found = summary.ranked(&Query { text: "H3.EX", ..all(By::Flow) });
    assert_eq!((found.matching, found.groups), (1, 5));
    assert_eq!(found.rows[0].name, "tcp 10.0.0.3:40000 → 10.0.0.100:443");
    assert_eq!(found.rows[0].detail, "tls h3.example");
    assert_eq!(
        (found.rows[0].span_ns, summary.ranked(&all(by)).rows[0].span_ns),
        (Some([3 * SECOND, 4 * SECOND]), None)
    );
    assert_eq!(names(&summary, &Query { text: "example", count: 1, ..all(By::Server) }), ["h5.example"]);
    assert_eq!(names(&summary, &all(By::Application)), ["tls"]);
    summary.forget_before(5, None);
    assert_eq!(summary.total().1, [Cell { at: 5, packets: 5, bytes: 500 }]);
}

#[test]
fn groups_have_texts_that_tell_them_apart() {
    let mut summary = summary(0, 1, 100);
    let ping = record([1, 2], 0, [1, 1], 0);
    let key =
        RecordKey { protocol: 1, icmp_type_code: 0x0800, vlan: 5, tunnel: 9, source_port: 0, ..ping.key };
    summary.add(&FlowRecord { key, ..ping.clone() });
    let ends = ["2001:db8::1", "2001:db8::2"].map(|end| end.parse::<IpAddr>().unwrap());
    let key = RecordKey { source: ends[0], destination: ends[1], protocol: 17, ..ping.key };
    summary.add(&FlowRecord { key, ..ping.clone() });
    let key = RecordKey { protocol: 47, source_port: 0, ..ping.key };
    summary.add(&FlowRecord { key, ..ping });
    let sorted = |by| {
        let mut names = names(&summary, &all(by));
        names.sort();
        names
    };
    let flows = [
        "icmp 10.0.0.1 → 10.0.0.2 type 8.0 vlan 5 tunnel 9",
        "protocol 47 10.0.0.1 → 10.0.0.2",
        "udp [2001:db8::1]:40000 → [2001:db8::2]:0",
    ];
    assert_eq!(sorted(By::Flow), flows);
    assert_eq!(sorted(By::Port), ["icmp", "protocol 47", "udp 0"]);
    assert_eq!(sorted(By::Application), ["icmp", "protocol 47", "unknown"]);
    assert_eq!(sorted(By::Vlan), ["untagged", "vlan 5"]);
    assert_eq!(sorted(By::Server), ["without a name"]);
}

/// A request at the beginning and an answer at the end: a row of a store has only the times of both together.
#[test]
fn a_record_is_spread_over_the_time_of_both_directions_in_whole_us() {
    let mut one = record([1, 2], 443, [2, 2], SECOND + 999);
    one.forward.last_ns = SECOND + 1_500;
    one.reverse.first_ns = 2 * SECOND;
    one.reverse.last_ns = 5 * SECOND + 999;
    let mut row = one.clone();
    for direction in [&mut row.forward, &mut row.reverse] {
        (direction.first_ns, direction.last_ns) = (SECOND, 5 * SECOND);
    }
    let sums = [one, row].map(|record| {
        let mut summary = summary(SECOND, 100, 100);
        summary.add(&record);
        (summary.span_ns(), summary.total().1.to_vec(), summary.ranked(&all(By::Flow)).rows)
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].0, Some([SECOND, 5 * SECOND]));
    let packets: Vec<_> = sums[0].1.iter().map(|cell| (cell.at, cell.packets)).collect();
    assert_eq!(packets, [(1, 1), (2, 1), (3, 1), (4, 1)]);
}

/// The first packet of a piece has another type of service than that of the previous piece.
#[test]
fn pieces_of_a_flow_are_one_row() {
    let mut summary = summary(0, 1, 100);
    for number in 0..3 {
        let piece = record([1, 2], 443, [1, 1], SECOND);
        let key = RecordKey { tos: number, interface: number.into(), mpls_label: number.into(), ..piece.key };
        summary.add(&FlowRecord { key, ..piece });
    }
    let rows = summary.ranked(&all(By::Flow)).rows;
    assert_eq!(rows.iter().map(|row| row.sum.packets).collect::<Vec<_>>(), [6]);
}

/// A combination is a group for each pair of values, and its sums are those of the records.
#[test]
fn several_properties_are_one() {
    let several = |names: &str, all: &[By]| By::several(names, all.to_vec());
    let by = several("source+port", &[By::Source, By::Port]).unwrap();
    for refused in [
        &[By::Source][..],
        &[By::Flow, By::Port],
        &[By::Port, By::Host],
        &[By::Vlan, By::Vlan],
        &[by, By::Vlan],
    ] {
        assert_eq!(several("x", refused), None, "{refused:?}");
    }
    assert!(by.has(By::Port) && !by.has(By::Vlan) && By::Vlan.has(By::Vlan));
    let mut summary = of(by);
    for (hosts, port) in [([1, 2], 443), ([1, 3], 443), ([1, 2], 80), ([4, 2], 443)] {
        summary.add(&record(hosts, port, [2, 1], 0));
    }
    let ranked = summary.ranked(&all(by));
    let rows: Vec<_> = ranked.rows.iter().map(|row| (row.name.as_str(), row.sum.records)).collect();
    assert_eq!(rows, [("10.0.0.1, tcp 443", 2), ("10.0.0.1, tcp 80", 1), ("10.0.0.4, tcp 443", 1)]);
    assert_eq!(ranked.rows[0].parts, ["10.0.0.1", "tcp 443"]);
    // Sent is what the source of a flow has sent, unless all properties are of its destination.
    assert_eq!((ranked.rows[0].sum.sent_packets, ranked.rows[0].sum.received_packets), (4, 2));
    let by = several("destination+port", &[By::Destination, By::Port]).unwrap();
    let mut summary = of(by);
    summary.add(&record([1, 2], 443, [2, 1], 0));
    assert_eq!(summary.ranked(&all(by)).rows[0].sum.sent_packets, 1);
}

/// A summary by one property.
fn of(by: By) -> Summary {
    let plan = SummaryPlan { by: vec![by], ..summary(0, 1, 100).plan };
    Summary::new(plan)
}

/// Each column of a record is a property, with words for its values and for their absence.
#[test]
fn every_column_has_words() {
    let mut one = record([1, 2], 443, [1, 1], 0);
    one.key =
        RecordKey { vlan: 5, inner_vlan: 6, mpls_label: 7, interface: 8, tos: 9, tunnel: 10, ..one.key };
    (one.forward.tcp_flags, one.reverse.tcp_flags, one.is_continued) = (2, 0x12, true);
    one.forward.tos = 9;
    let application =
        Application { protocol: "tls", name: "https", alpn: Some("h2".into()), ..Application::default() };
    one.extras = Some(Box::new(Extras { application: Some(application), ..Extras::default() }));
    let mut other = record([1, 2], 443, [1, 1], 0);
    other.key.protocol = 1;
    other.key.icmp_type_code = 0x0301;
    for (by, words, absent) in [
        (By::SourcePort, "tcp 40000", "icmp"),
        (By::Version, "ipv4", "ipv4"),
        (By::Tos, "tos 9", "tos 0"),
        (By::Flags, "AS", "no flags"),
        (By::Icmp, "no icmp", "icmp type 3.1"),
        (By::Interface, "interface 8", "interface 0"),
        (By::InnerVlan, "inner vlan 6", "one tag or none"),
        (By::Mpls, "mpls 7", "no mpls"),
        (By::Tunnel, "tunnel 10", "no tunnel"),
        (By::End, "idle", "idle"),
        (By::Rule, "first packet", "first packet"),
        (By::Alpn, "h2", "without ALPN"),
        (By::Continued, "continued", "first"),
        (By::Application, "https", "icmp"),
    ] {
        for (record, words) in [(&one, words), (&other, absent)] {
            let mut summary = of(by);
            summary.add(record);
            assert_eq!(names(&summary, &all(by)), [words], "{by:?}");
        }
    }
}

/// A property that was not recorded is not unknown, and sums are whole: also of hosts, which count each flow twice.
#[test]
fn a_property_that_was_not_recorded_is_named_so() {
    let by = By::several("source+application", vec![By::Source, By::Application]).unwrap();
    let every = [By::Application, By::Host, By::Source, by];
    let mut summary = Summary::new(SummaryPlan { by: every.to_vec(), ..summary(0, 1, 100).plan });
    summary.add(&record([1, 2], 443, [2, 1], 0));
    summary.lack(&[By::Application, By::Host]);
    summary.add(&record([1, 2], 443, [2, 1], 0));
    summary.lack(&[]);
    summary.add(&record([1, 2], 443, [2, 1], 0));
    let rows = |by| {
        let rows = summary.ranked(&all(by)).rows.into_iter();
        rows.map(|row| (row.name, row.sum.records)).collect::<Vec<_>>()
    };
    let row = |name: &str, records| (name.to_owned(), records);
    assert_eq!(rows(By::Application), [row("unknown", 2), row("not recorded", 1)]);
    assert_eq!(rows(by), [row("10.0.0.1, unknown", 2), row("10.0.0.1, not recorded", 1)]);
    assert_eq!(rows(By::Source), [row("10.0.0.1", 3)]);
    let hosts = summary.ranked(&all(By::Host));
    assert_eq!(hosts.rows.iter().map(|row| row.sum.sent_packets).sum::<u64>(), 9, "{hosts:?}");
    assert_eq!(
        (hosts.not_recorded, summary.ranked(&all(by)).not_recorded),
        (vec![By::Host], vec![By::Application])
    );
}

/// The rows and the rest are all groups, those that had no place too.
#[test]
fn the_rest_has_a_row() {
    let mut summary = summary(SECOND, 100, 10);
    for number in 0..30 {
        summary.add(&record([number, 250], 443, [1 + u64::from(number), 0], u64::from(number) * SECOND));
    }
    let whole = summary.total().0;
    for count in [0, 1, 3, 1000] {
        let ranked = summary.ranked(&Query { count, has_rest: true, ..all(By::Source) });
        let rest = ranked.rest.expect("groups without a place");
        let mut sum = rest.sum;
        ranked.rows.iter().for_each(|row| sum += row.sum);
        assert_eq!((sum, rest.name.as_str()), (whole, "others"), "{count}");
        let bytes = |row: &Row| row.cells.iter().map(|cell| cell.bytes).sum::<u64>();
        assert_eq!(bytes(&rest), rest.sum.bytes, "{count}");
    }
    let text = summary.ranked(&Query { count: 1, has_rest: true, text: "10.0.0.2", ..all(By::Source) });
    assert_eq!(text.rest.map(|rest| rest.sum.records), Some(text.matching as u64 - 1));
    let few = summary.ranked(&Query { count: 9, has_rest: true, ..all(By::Protocol) });
    assert_eq!((few.rest, few.rows.len()), (None, 1));
    assert_eq!(summary.ranked(&all(By::Source)).rest, None);
}

/// One host sends evenly for a minute, another one sent as much in its first five seconds.
#[test]
fn rows_are_sorted_by_the_means_of_the_last_seconds() {
    let mut summary = summary(0, 1, 100).with_means();
    for second in 100..160 {
        summary.add(&record([1, 9], 443, [10, 0], second * SECOND));
        if second < 105 {
            summary.add(&record([2, 9], 443, [120, 0], second * SECOND));
        }
        if second == 159 {
            summary.add(&record([3, 9], 443, [30, 0], second * SECOND));
        }
    }
    let means = |summary: &Summary, order| {
        let rows = summary.ranked(&Query { order, ..all(By::Source) }).rows.into_iter();
        rows.map(|row| (row.name, row.means)).collect::<Vec<_>>()
    };
    assert!(means(&summary, Order::Bytes).iter().all(|(_, means)| means.is_none()), "before the first look");
    summary.look_back(100 * SECOND, 160 * SECOND);
    let found = means(&summary, Order::Mean2s);
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["10.0.0.3", "10.0.0.1", "10.0.0.2"]);
    assert_eq!(found[1].1, Some([8000; 3]));
    assert_eq!(found[2].1, Some([0; 3]), "its seconds are before the windows");
    assert_eq!(means(&summary, Order::Mean40s)[0].0, "10.0.0.1");
    let ranked = summary.ranked(&all(By::Source));
    let mean_10s_max = ranked.rows.iter().filter_map(|row| row.means).map(|means| means[1]).max();
    assert_eq!((Some(ranked.mean_10s_max), ranked.bytes_max), (mean_10s_max, 60_000));
    // What is looked at stays, whatever comes, until the next look.
    summary.add(&record([2, 9], 443, [120, 0], 160 * SECOND));
    assert_eq!(means(&summary, Order::Mean2s)[2].1, Some([0; 3]));
    summary.look_back(159 * SECOND, 162 * SECOND);
    assert_eq!(means(&summary, Order::Mean2s)[0], ("10.0.0.2".to_owned(), Some([48_000, 32_000, 32_000])));
}

/// The seconds of groups that lose their place are those of the others.
#[test]
fn the_means_of_others_are_theirs_together() {
    let mut summary = summary(0, 1, 4).with_means();
    (0..40).for_each(|number| summary.add(&packet(number, 50 * SECOND)));
    summary.look_back(0, 51 * SECOND);
    let ranked = summary.ranked(&Query { has_rest: true, count: 1, ..all(By::Source) });
    let all_rows = summary.ranked(&all(By::Source)).rows.len() as u64;
    let others = ranked.others.and_then(|others| others.means).expect("others");
    assert_eq!(others[0], 400 * (40 - all_rows));
    assert_eq!(ranked.rest.and_then(|rest| rest.means).map(|means| means[0]), Some(400 * 39));
}

/// Names are those of lists, of DNS answers, and of clients, in this order; addresses stay in the name of a row.
#[test]
fn rows_have_names_on_request() {
    let names = Names::listed("10.0.0.4 printer", "https 443/tcp\nodd 40000/tcp");
    let mut summary = summary(0, 1, 100).with_names(names);
    let extras = |application, addresses: Vec<(IpAddr, Arc<str>)>| {
        Some(Box::new(Extras { application: Some(application), addresses, ..Extras::default() }))
    };
    let asked = Application { protocol: "dns", name: "dns", ..Application::default() };
    let addresses = vec![(host(2), "www.example".into()), (host(4), "forged.example".into())];
    summary.add(&FlowRecord { extras: extras(asked, addresses), ..record([1, 9], 53, [1, 1], 0) });
    for (number, server) in [(2, "other.example"), (3, "sni.example")] {
        let server_name = Some(server.to_owned());
        let hello = Application { protocol: "tls", name: "tls", server_name, ..Application::default() };
        summary.add(&FlowRecord { extras: extras(hello, Vec::new()), ..record([1, number], 443, [1, 1], 0) });
    }
    summary.add(&record([1, 4], 443, [1, 1], 0));
    let named = |by, text, is_named| {
        let rows = summary.ranked(&Query { order: Order::Name, is_named, text, ..all(by) }).rows.into_iter();
        rows.map(|row| (row.name.clone(), row.shown_name().to_owned())).collect::<Vec<_>>()
    };
    let pair = |name: &str, shown: &str| (name.to_owned(), shown.to_owned());
    let flow = "tcp 10.0.0.1:40000 → 10.0.0.2:443";
    assert_eq!(
        named(By::Flow, "WWW.", true),
        [pair(flow, "tcp 10.0.0.1:40000 → www.example:https")],
        "found by its name"
    );
    assert!(named(By::Flow, "WWW.", false).is_empty());
    assert_eq!(named(By::Flow, "0.2:443", false), [pair(flow, flow)]);
    assert_eq!(
        named(By::Destination, "", true),
        [
            pair("10.0.0.2", "www.example"),
            pair("10.0.0.3", "sni.example"),
            pair("10.0.0.4", "printer"),
            pair("10.0.0.9", "10.0.0.9"),
        ]
    );
    assert_eq!(named(By::Port, "", true)[1], pair("tcp 443", "tcp https"));
}

#[test]
fn a_full_list_keeps_the_largest_groups() {
    let mut summary = summary(0, 1, 10);
    for number in 0..200 {
        summary.add(&record([number, 250], 443, [if number == 3 { 1000 } else { 1 }, 0], 0));
    }
    let ranked = summary.ranked(&all(By::Source));
    assert_eq!((ranked.rows[0].name.as_str(), ranked.rows[0].sum.packets), ("10.0.0.3", 1000));
    assert!(ranked.groups <= 10, "{}", ranked.groups);
    assert!(ranked.lacking_bytes_max >= 100, "{}", ranked.lacking_bytes_max);
    assert!(ranked.others.is_some_and(|others| others.sum.records >= 150));
}

/// A packet of 100 bytes from host `number`, at a time.
fn packet(number: u8, time_ns: u64) -> FlowRecord {
    let mut record = record([number, 250], 443, [1, 0], time_ns);
    record.forward.last_ns = time_ns;
    record
}

fn values(summary: &mut Summary) -> usize {
    summary.all_cells().iter().map(|cells| cells.all().len()).sum()
}

/// A hundred hosts with a packet in each of 300 intervals have 30,000 values in the groups by source alone.
#[test]
fn values_over_time_have_a_limit_and_exact_sums() {
    let plan = SummaryPlan {
        by: vec![By::Source, By::Flow],
        cell_ns: 1_000_000,
        intervals_max: 10_000,
        groups_max: 1000,
        cells_max: 2000,
        choice: Choice::default(),
    };
    let mut summary = Summary::new(plan);
    for (ms, number) in (0..300).flat_map(|ms| (0..100).map(move |number| (ms, number))) {
        summary.add(&packet(number, ms * 1_000_000));
        assert!(values(&mut summary) <= 2000, "{} values after {ms} ms", values(&mut summary));
    }
    assert!(summary.cell_ns() > 1_000_000 && values(&mut summary) > 200);
    let of_cells = |cells: &[Cell]| cells.iter().map(|cell| cell.packets).sum::<u64>();
    assert_eq!(of_cells(summary.total().1), 30_000);
    assert!(summary.ranked(&all(By::Source)).rows.iter().all(|row| of_cells(&row.cells) == 300));
}

/// Each group keeps one value, even if the limit is lower.
#[test]
fn a_limit_below_the_number_of_groups_ends_with_one_interval() {
    let plan = SummaryPlan {
        by: ALL.to_vec(),
        cell_ns: SECOND,
        intervals_max: 100,
        groups_max: 1000,
        cells_max: 5,
        choice: Choice::default(),
    };
    let mut summary = Summary::new(plan);
    for second in 0..90 {
        summary.add(&packet(second, u64::from(second) * SECOND));
    }
    assert_eq!(summary.total().0.packets, 90);
    assert!(values(&mut summary) < 2 * 90 * ALL.len(), "{}", values(&mut summary));
}

/// The displayed interval is kept while the display is paused, and later ones do not accumulate.
#[test]
fn the_latest_intervals_are_held_and_the_one_that_is_shown() {
    let mut summary = summary(SECOND, u64::MAX, 1000);
    for second in 0..1000 {
        summary.add(&packet((second % 10) as u8, second * SECOND));
        summary.forget_before(second.saturating_sub(2), Some(3));
    }
    let held: Vec<_> = summary.total().1.iter().map(|cell| cell.at).collect();
    assert_eq!(held, [3, 997, 998, 999]);
    assert!(values(&mut summary) <= 4 * (ALL.len() + 2), "{}", values(&mut summary));
    let shown = Query { order: Order::Rate, at: Some(3), count: 1, ..all(By::Source) };
    assert_eq!(names(&summary, &shown), ["10.0.0.3"]);
}

proptest! {
    /// The sums of each property include all packets, whatever was joined or lengthened.
    #[test]
    fn sums_are_those_of_the_records(
        flows in prop::collection::vec((0u8..40, 0u8..40, 1u16..9, 0u64..50, 0u64..50, 0u64..1_000_000), 1..120),
        cell_ns in prop::sample::select(vec![0u64, 1_000_000, SECOND]),
        intervals_max in 2u64..300,
        groups_max in 2usize..60,
    ) {
        let mut summary = summary(cell_ns, intervals_max, groups_max);
        let mut whole = Sum::default();
        for (source, destination, port, forward, reverse, ms) in flows {
            let packets = [forward.max(1), reverse];
            let record = record([source, destination], port, packets, ms * 1_000_000);
            whole += Sum::new(&record);
            summary.add(&record);
        }
        let (total, cells) = summary.total();
        prop_assert_eq!(total, whole);
        let sum_of = |cells: &[Cell]| cells.iter().fold([0; 2], |sum, cell| [sum[0] + cell.packets, sum[1] + cell.bytes]);
        let over_time = if cell_ns == 0 { [0; 2] } else { [whole.packets, whole.bytes] };
        prop_assert_eq!(sum_of(cells), over_time);
        if let (Some(first), Some(last)) = (cells.first(), cells.last()) {
            prop_assert!(last.at - first.at < intervals_max);
        }
        for by in ALL {
            let ranked = summary.ranked(&all(by));
            let mut sum = ranked.others.clone().unwrap_or_default();
            for row in &ranked.rows {
                sum.sum += row.sum;
                sum.cells.extend(&row.cells);
            }
            prop_assert!(ranked.rows.len() <= groups_max + 1);
            if by == By::Host {
                let both = whole.packets + whole.sent_packets;
                prop_assert!(sum.sum.packets <= both + whole.received_packets);
                prop_assert_eq!(sum.sum.sent_packets, whole.packets);
                prop_assert_eq!(sum.sum.received_bytes, whole.bytes);
                continue;
            }
            let turned = matches!(by, By::Destination | By::Port);
            prop_assert_eq!(sum.sum, if turned { whole.turned() } else { whole }, "{:?}", by);
            prop_assert_eq!(sum_of(&sum.cells), over_time, "{:?}", by);
        }
    }
}
