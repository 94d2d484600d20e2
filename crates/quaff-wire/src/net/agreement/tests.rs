//! Connections of made packets: handshakes, ends, and a stray at each place of them.

use super::*;

/// A packet: true for the high end, flags, sequence number, acknowledgment.
type Sent = (bool, u8, u32, u32);

const LOW: bool = false;
const HIGH: bool = true;

fn opening(flags: u8) -> Opening {
    Opening { numbers: Numbers { flags, sequence: u32::MAX, acknowledgment: 700 }, is_far: true }
}

fn numbers(flags: u8, sequence: u32, acknowledgment: u32) -> Numbers {
    Numbers { flags, sequence, acknowledgment }
}

#[test]
fn an_opening_is_taken_by_its_answer_or_by_the_next_segment_of_its_sender() {
    let (syn, answer) = (opening(SYN), opening(SYN | ACK));
    let of_other = |one: &Opening, flags, sequence, acknowledgment| {
        one.is_taken_by(false, &numbers(flags, sequence, acknowledgment))
    };
    assert!(of_other(&syn, SYN | ACK, 55, 0));
    assert!(!of_other(&syn, ACK, 55, 0), "an acknowledgment alone is no answer to a SYN");
    assert!(!of_other(&syn, SYN | ACK, 55, 1));
    assert!(of_other(&answer, ACK, 700, 0));
    assert!(!of_other(&answer, ACK, 701, 0) && !of_other(&answer, ACK, 700, 9));
    let of_sender = |one: &Opening, flags, sequence| one.is_taken_by(true, &numbers(flags, sequence, 9));
    assert!(of_sender(&syn, ACK, 0) && of_sender(&answer, ACK, 0));
    assert!(!of_sender(&syn, SYN | ACK, 0) && !of_sender(&syn, ACK, 1));
    // A SYN in the window is a challenge.
    assert!(!of_sender(&Opening { is_far: false, ..syn }, ACK, 0));
    assert!(!of_sender(&syn, RST | ACK, 0) && !of_sender(&syn, RST, 0));
}

#[test]
fn a_syn_whose_answer_was_not_captured_is_continued_by_either_end() {
    // The number after the SYN is 0.
    let by = |is_same_sender, flags, sequence, acknowledgment| {
        opening(SYN).is_continued_by(is_same_sender, &numbers(flags, sequence, acknowledgment))
    };
    assert!(
        by(true, ACK, 0, 9)
            && by(true, FIN | ACK, 1460, 9)
            && by(false, ACK, 9, 0)
            && by(false, ACK, 9, 1460)
    );
    assert!(!by(true, 0, 0, 0), "without ACK it answers nothing");
    assert!(!by(true, SYN, 0, 0) && !by(true, RST | ACK, 0, 9) && !by(false, RST | ACK, 9, 0));
    assert!(!by(true, ACK, u32::MAX, 9) && !by(false, ACK, 9, u32::MAX), "those of a connection before it");
    assert!(!by(true, ACK, 1 << 30, 9) && !by(false, ACK, 0, 1 << 31));
}

#[test]
fn a_syn_is_refused_by_the_reset_that_acknowledges_it() {
    assert!(opening(SYN).is_refused_by(&numbers(RST | ACK, 0, 0)));
    assert!(!opening(SYN).is_refused_by(&numbers(RST, 0, 0)));
    assert!(!opening(SYN).is_refused_by(&numbers(RST | ACK, 0, 1)));
    assert!(!opening(SYN | ACK).is_refused_by(&numbers(RST | ACK, 0, 0)));
}

/// The index of the first packet of each connection, and true for each that is closed at its end.
fn connections(packets: &[Sent], has_one_end: bool) -> (Vec<usize>, Vec<bool>) {
    let (mut connection, mut begins, mut closed) = (Connection::default(), vec![0], Vec::new());
    for (at, (is_high, flags, sequence, acknowledgment)) in packets.iter().enumerate() {
        let packet = numbers(*flags, *sequence, *acknowledgment);
        if connection.is_another(*is_high, &packet, has_one_end) {
            begins.push(at);
            closed.push(connection.is_closed());
            connection = connection.another(&packet).0;
        }
        let before = connection;
        connection.add(*is_high, &packet, has_one_end);
        if before.bits & Connection::WATCHED == 0 && flags & (SYN | FIN | RST) == 0 {
            let expected = before.bits | if flags & ACK == 0 { 0 } else { Connection::ANSWERED };
            assert_eq!(connection, Connection { bits: expected, ..before }, "a usual packet");
        }
    }
    assert_eq!(connection.bits & !Connection::BITS, 0);
    closed.push(connection.is_closed());
    (begins, closed)
}

fn found(packets: &[Sent]) -> (Vec<usize>, Vec<bool>) {
    connections(packets, false)
}

/// A whole connection whose numbers begin at `a` and `b`, without its end.
fn established(a: u32, b: u32) -> Vec<Sent> {
    vec![
        (LOW, SYN, a, 0),
        (HIGH, SYN | ACK, b, a + 1),
        (LOW, ACK, a + 1, b + 1),
        (LOW, ACK, a + 1, b + 1),
        (HIGH, ACK, b + 1, a + 101),
        (HIGH, ACK, b + 1, a + 101),
        (LOW, ACK, a + 101, b + 1001),
    ]
}

/// Ends from the client, from the server, in three and in four packets.
fn endings(a: u32, b: u32) -> [Vec<Sent>; 3] {
    let (a, b) = (a + 101, b + 1001);
    [
        vec![(LOW, FIN | ACK, a, b), (HIGH, FIN | ACK, b, a + 1), (LOW, ACK, a + 1, b + 1)],
        vec![
            (HIGH, FIN | ACK, b, a),
            (LOW, ACK, a, b + 1),
            (LOW, FIN | ACK, a, b + 1),
            (HIGH, ACK, b + 1, a + 1),
        ],
        Vec::new(),
    ]
}

#[test]
fn one_stray_at_any_place_changes_nothing() {
    for ending in endings(1000, 5000) {
        let packets = [established(1000, 5000), ending].concat();
        let expected = found(&packets);
        assert_eq!(expected.0, [0]);
        for at in 1..packets.len() {
            for (flags, far, near) in
                [SYN, SYN | ACK, RST, ACK].map(|flags| (flags, 3_000_000_000u32, 2_000u32))
            {
                for (is_high, number) in [(LOW, far), (HIGH, far), (LOW, near), (HIGH, near)] {
                    let mut with = packets.clone();
                    with.insert(at, (is_high, flags, number, number ^ 0x5555));
                    let after = found(&with);
                    assert_eq!(after, expected, "{at} {flags} {is_high} {number}: {with:?}");
                }
            }
        }
    }
}

#[test]
fn a_syn_after_the_end_begins_another_connection_at_once() {
    for ending in endings(1000, 5000).into_iter().take(2) {
        let first = [established(1000, 5000), ending].concat();
        let both = [first.clone(), established(777_777, 888_888)].concat();
        assert_eq!(found(&both), (vec![0, first.len()], vec![true, false]));
    }
    let reset = [established(1000, 5000), vec![(HIGH, RST, 6001, 0)]].concat();
    let both = [reset.clone(), established(777_777, 888_888)].concat();
    assert_eq!(found(&both), (vec![0, reset.len()], vec![true, false]));
}

/// The end of the first connection was not captured.
#[test]
fn a_syn_in_a_connection_begins_another_one_once_it_is_answered() {
    let first = established(1000, 5000);
    let both = [first.clone(), established(777_777, 888_888)].concat();
    assert_eq!(found(&both), (vec![0, first.len() + 1], vec![false, false]));
    let refused = [first.clone(), vec![(LOW, SYN, 777_777, 0), (HIGH, RST | ACK, 0, 777_778)]].concat();
    assert_eq!(found(&refused), (vec![0, first.len() + 1], vec![false, true]));
    // One direction alone, as in a uniflow.
    let one: Vec<Sent> = both.iter().filter(|packet| !packet.0).copied().collect();
    assert_eq!(connections(&one, true).0, [0, 5]);
    assert_eq!(found(&one).0, [0, 5]);
}

#[test]
fn a_half_open_connection_is_reset_before_the_syn_is_repeated() {
    let half_open = [
        (LOW, SYN, 777_777, 0),
        (HIGH, ACK, 6001, 1101),
        (LOW, RST, 1101, 0),
        (LOW, SYN, 777_777, 0),
        (HIGH, SYN | ACK, 9, 777_778),
    ];
    let packets = [established(1000, 5000), half_open.to_vec()].concat();
    assert_eq!(found(&packets), (vec![0, 10], vec![true, false]));
}

#[test]
fn a_handshake_is_one_connection_however_it_comes() {
    let cases: [&[Sent]; 7] = [
        // Repeated SYNs, one of them with another number.
        &[(LOW, SYN, 9, 0), (LOW, SYN, 9, 0), (LOW, SYN, 12, 0), (HIGH, SYN | ACK, 5, 13), (LOW, SYN, 12, 0)],
        // The same with a stray one before it is repeated.
        &[
            (LOW, SYN, 9, 0),
            (HIGH, SYN | ACK, 5, 10),
            (LOW, SYN, 777, 0),
            (LOW, SYN, 9, 0),
            (HIGH, SYN | ACK, 5, 10),
        ],
        // Both ends at the same time.
        &[(LOW, SYN, 9, 0), (HIGH, SYN, 20, 0), (LOW, SYN | ACK, 9, 21), (HIGH, SYN | ACK, 20, 10)],
        // The answer is captured first.
        &[(HIGH, SYN | ACK, 5, 10), (LOW, SYN, 9, 0), (LOW, ACK, 10, 6)],
        // A scan.
        &[(LOW, SYN, 9, 0), (HIGH, RST | ACK, 0, 10), (HIGH, RST | ACK, 0, 10), (LOW, SYN, 9, 0)],
        &[(LOW, SYN, 9, 0), (HIGH, SYN | ACK, 5, 10), (LOW, RST, 10, 0), (HIGH, SYN | ACK, 5, 10)],
        // From before the capture.
        &[(LOW, ACK, 70, 80), (HIGH, ACK, 80, 70), (LOW, SYN, 9, 0), (HIGH, ACK, 80, 71)],
    ];
    let is_closed = [false, false, false, false, true, true, false];
    for (packets, is_closed) in cases.iter().zip(is_closed) {
        assert_eq!(found(packets), (vec![0], vec![is_closed]), "{packets:?}");
    }
}

#[test]
fn a_reset_ends_a_connection_unless_it_continues() {
    let established = established(1000, 5000);
    let with = |rest: &[Sent]| found(&[&established[..], rest].concat());
    let reset = (LOW, RST, 1101, 0);
    assert_eq!(with(&[reset]).1, [true]);
    assert_eq!(with(&[reset, (HIGH, ACK, 6001, 1101)]).1, [true], "data that were on their way");
    assert_eq!(with(&[reset, (HIGH, ACK, 6001, 1000)]).1, [true], "and did not acknowledge everything");
    assert_eq!(with(&[reset, (LOW, ACK, 1101, 6001)]).1, [false], "its sender continues");
    assert_eq!(with(&[reset, (HIGH, ACK, 6001, 1102)]).1, [false], "its receiver has more");
    assert_eq!(with(&[(LOW, RST, 3_000_000_000, 0), (HIGH, ACK, 6001, 1101)]).1, [false]);
    // The first packets of a capture.
    assert_eq!(found(&[reset, (HIGH, ACK, 6001, 1101)]).1, [true]);
}
