//! One packet alone neither begins nor ends a connection: strays at each place of made connections, and connections
//! that follow each other on the same ports.

use super::*;

/// A connection from `ms` on, whose numbers begin at 1,000 and 5,000, with an end of `end`.
fn connection(ms: u64, end: &[Spec]) -> Vec<Spec> {
    let mut specs = vec![
        Spec::tcp(0, SYN, 1000),
        Spec::tcp(1, SYN | ACK, 5000).acking(1001).back(),
        Spec::tcp(2, ACK, 1001).acking(5001),
        Spec { payload: 100, ..Spec::tcp(3, ACK, 1001).acking(5001) },
        Spec { payload: 200, ..Spec::tcp(4, ACK, 5001).acking(1101).back() },
        Spec::tcp(5, ACK, 1101).acking(5201),
    ];
    specs.extend(end);
    specs.iter_mut().for_each(|spec| spec.time_ns += ms * MS);
    specs
}

/// The end of a connection that the client closes.
fn fins() -> [Spec; 3] {
    [
        Spec::tcp(6, FIN | ACK, 1101).acking(5201),
        Spec::tcp(7, FIN | ACK, 5201).acking(1102).back(),
        Spec::tcp(8, ACK, 1102).acking(5202),
    ]
}

/// Source, rule and reason of each record, sorted, and the packets of all.
fn ends(plan: &MeterPlan, specs: &[Spec]) -> (Vec<(u16, u8, u8)>, u64) {
    let records = metered(plan, &Frames::of(specs).packets(), 3);
    let of = |record: &FlowRecord| (record.key.source_port, record.initiator as u8, record.end_reason as u8);
    let mut ends: Vec<_> = records.iter().map(of).collect();
    ends.sort_unstable();
    (ends, records.iter().map(FlowRecord::packets).sum())
}

#[test]
fn one_stray_at_any_place_of_a_connection_changes_no_flow() {
    for (is_biflow, end) in [(true, &fins()[..]), (false, &fins()), (true, &[])] {
        let plan = MeterPlan { is_biflow, ..MeterPlan::default() };
        let whole = connection(0, end);
        let (expected, packets) = ends(&plan, &whole);
        assert_eq!(expected.len(), if is_biflow { 1 } else { 2 });
        for at in 1..whole.len() {
            for flags in [SYN, SYN | ACK, RST, ACK] {
                for (is_back, number) in [(false, 3 << 30), (true, 3 << 30), (false, 2000), (true, 2000)] {
                    let stray = Spec { time_ns: whole[at].time_ns, ..Spec::tcp(0, flags, number) };
                    let stray = stray.acking(number ^ 0x7777);
                    let mut with = whole.clone();
                    with.insert(at, if is_back { stray.back() } else { stray });
                    let found = ends(&plan, &with);
                    assert_eq!(found, (expected.clone(), packets + 1), "{at} {flags} {is_back} {number}");
                }
            }
        }
    }
}

#[test]
fn a_connection_after_the_end_of_another_is_a_flow_from_its_syn_on() {
    let reset = [Spec::tcp(6, RST, 1101)];
    for (end, packets) in [(&fins()[..], 9), (&reset, 7)] {
        let mut both = connection(0, end);
        both.extend(
            connection(500, &[]).into_iter().map(|spec| Spec { sequence: spec.sequence + 9_999, ..spec }),
        );
        let records = records_of(&both);
        let found: Vec<_> =
            records.iter().map(|of| (of.packets(), of.initiator as u8, of.end_reason as u8)).collect();
        assert_eq!(found, [(packets, 1, 3), (6, 1, 4)]);
    }
}

/// The end of the first connection was not captured: its flow has the SYN of the second one.
#[test]
fn a_connection_that_replaces_another_is_a_flow_from_its_answer_on() {
    let other = |spec: Spec| Spec {
        sequence: spec.sequence + 9_999,
        acknowledgment: spec.acknowledgment + 9_999,
        ..spec
    };
    let both: Vec<Spec> =
        connection(0, &[]).into_iter().chain(connection(500, &[]).into_iter().map(other)).collect();
    assert_eq!(summary(&records_of(&both)), [(3, 5, 2, 1, false), (4, 3, 2, 1, false)]);
    // Of one direction only, the next segment of the sender decides.
    let one: Vec<Spec> = both.iter().copied().filter(|spec| spec.ports[1] == 80).collect();
    assert_eq!(summary(&records_of(&one)), [(3, 5, 0, 1, false), (4, 3, 0, 1, false)]);
    let plan = MeterPlan { is_biflow: false, ..MeterPlan::default() };
    let records = metered(&plan, &Frames::of(&one).packets(), 4);
    assert_eq!(summary(&records), [(3, 5, 0, 0, false), (4, 3, 0, 0, false)]);
}

#[test]
fn a_reset_is_refuted_when_its_sender_continues() {
    let after = |rest: &[Spec]| summary(&records_of(&connection(0, rest)))[0].0;
    let reset = Spec::tcp(6, RST, 1101);
    assert_eq!(after(&[reset]), 3);
    assert_eq!(after(&[reset, Spec::tcp(7, ACK, 5201).acking(1101).back()]), 3, "on its way");
    assert_eq!(after(&[reset, Spec::tcp(7, ACK, 1101).acking(5201)]), 4);
    // The linger passes before anybody does.
    let late = connection(0, &[reset, Spec::tcp(2500, ACK, 1101).acking(5201)]);
    assert_eq!(summary(&records_of(&late)), [(3, 5, 2, 1, false), (4, 1, 0, 5, false)]);
}
