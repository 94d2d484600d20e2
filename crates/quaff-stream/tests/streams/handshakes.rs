//! SYN and SYN-ACK that a capture lacks: named by both ends, and claimed only then.

use crate::observed::{ACK, FIN, RST, SYN};
use crate::observer::{A, A0, B, B0, MS, Observer, Packet, connected, lost};
use quaff_stream::LossReport;

/// Missing SYNs and SYN-ACKs, connections of one direction, and lost bytes.
fn found(report: &LossReport) -> [u64; 3] {
    [report.syns_unseen, report.one_way, report.acked_unseen_bytes]
}

/// A request of A and the answer of B, each acknowledged.
fn talk(observer: &mut Observer) {
    observer.send(A, A0, Some(B0), 0, 700);
    observer.send(B, B0, Some(A0 + 700), 0, 1000);
    observer.send(A, A0 + 700, Some(B0 + 1000), 0, 0);
}

#[test]
fn a_syn_ack_that_both_ends_name_is_missing() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(A, A0, Some(B0), 0, 0);
    talk(&mut observer);
    assert_eq!(found(&observer.finish()), [1, 0, 0]);
    // Its retransmission and the first ACK are missing as well: the server continues after its SYN-ACK.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.wait(1000 * MS);
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(B, B0, Some(A0), 0, 1000);
    observer.send(A, A0, Some(B0 + 1000), 0, 0);
    assert_eq!(found(&observer.finish()), [1, 0, 0]);
    // The bytes between it and the first captured ones are known, too.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(A, A0, Some(B0), 0, 700);
    observer.send(B, B0 + 1500, Some(A0 + 700), 0, 1000);
    observer.send(A, A0 + 700, Some(B0 + 2500), 0, 0);
    assert_eq!(found(&observer.finish()), [1, 0, 1500]);
    // Ports that are used again: a stray SYN may have divided a connection in two.
    let mut observer = connected();
    talk(&mut observer);
    let (a, b) = (A0 + 50_000_000, B0 + 3_000_000_000);
    observer.send(A, a - 1, None, SYN, 0);
    observer.send(A, a, Some(b), 0, 700);
    observer.send(B, b, Some(a + 700), 0, 100);
    let report = observer.finish();
    assert_eq!((found(&report), report.flows), ([0, 0, 0], 2));
}

/// Ports that are used again, and a SYN-ACK that is stored before its SYN.
#[test]
fn a_syn_after_its_answer_hides_no_syn_ack() {
    let mut observer = connected();
    talk(&mut observer);
    let (a, b) = (A0 + 50_000_000, B0 + 3_000_000_000);
    observer.send(B, b - 1, Some(a), SYN, 0);
    observer.send(A, a - 1, None, SYN, 0);
    observer.send(A, a, Some(b), 0, 700);
    observer.send(B, b, Some(a + 700), 0, 100);
    let report = observer.finish();
    assert_eq!((found(&report), report.flows), ([0; 3], 2));
}

/// An acknowledgment of data whose segment was not captured, before the SYN-ACK.
#[test]
fn a_late_syn_ack_elsewhere_is_there_all_the_same() {
    for has_syn_ack in [false, true] {
        let mut observer = Observer::new();
        observer.send(A, A0 - 1, None, SYN, 0);
        observer.send(A, A0, Some(B0 + 1000), 0, 0);
        if has_syn_ack {
            observer.send(B, B0 - 1, Some(A0), SYN, 0);
        }
        observer.send(B, B0 + 1000, Some(A0), 0, 1000);
        observer.send(A, A0, Some(B0 + 2000), 0, 0);
        assert_eq!(observer.finish().syns_unseen, u64::from(!has_syn_ack));
    }
}

/// Many connections without SYN-ACK, and fewer with it.
#[test]
fn syn_acks_that_a_filter_removed_are_no_loss() {
    let without = |without: u16, whole: u16| {
        let mut observer = Observer::new();
        for flow in 0..without + whole {
            let mut send = |from, sequence, acknowledgment, flags, bytes| {
                observer.give(flow, &Packet { from, sequence, acknowledgment, flags, bytes });
            };
            send(A, A0 - 1, 0, SYN, 0);
            if flow >= without {
                send(B, B0 - 1, A0, SYN | ACK, 0);
            }
            send(A, A0, B0, ACK, 700);
            send(B, B0, A0 + 700, ACK, 0);
        }
        let report = observer.finish();
        [report.syns_unseen, report.syns_set_aside]
    };
    assert_eq!([without(8, 0), without(9, 9), without(9, 8)], [[8, 0], [9, 0], [0, 9]]);
}

#[test]
fn a_handshake_that_is_there_in_any_order_lacks_nothing() {
    // A SYN-ACK that is stored after the acknowledgment of it, or after data as well.
    for is_after_data in [false, true] {
        let mut observer = Observer::new();
        observer.send(A, A0 - 1, None, SYN, 0);
        observer.send(A, A0, Some(B0), 0, 0);
        if is_after_data {
            observer.send(B, B0, Some(A0), 0, 1000);
        }
        observer.send(B, B0 - 1, Some(A0), SYN, 0);
        talk(&mut observer);
        assert_eq!(found(&observer.finish()), [0; 3], "{is_after_data}");
    }
    // Data first, of which no acknowledgment was captured before the SYN-ACK.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(B, B0, Some(A0), 0, 1000);
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    talk(&mut observer);
    assert_eq!(found(&observer.finish()), [0; 3]);
    // Simultaneous open: two SYNs, two SYN-ACKs.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(B, B0 - 1, None, SYN, 0);
    observer.send(A, A0 - 1, Some(B0), SYN, 0);
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    talk(&mut observer);
    assert_eq!(found(&observer.finish()), [0; 3]);
    // Fast open: data in the SYN, and of the server before the client's first ACK.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 700);
    observer.send(B, B0 - 1, Some(A0 + 700), SYN, 0);
    observer.send(B, B0, Some(A0 + 700), 0, 1000);
    observer.send(A, A0 + 700, Some(B0 + 1000), 0, 0);
    assert_eq!(found(&observer.finish()), [0; 3]);
}

#[test]
fn fast_open_without_its_syn_ack_lacks_it() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 700);
    observer.send(B, B0, Some(A0 + 700), 0, 1000);
    observer.send(A, A0 + 700, Some(B0 + 1000), 0, 0);
    assert_eq!(found(&observer.finish()), [1, 0, 0]);
}

#[test]
fn a_direction_that_is_not_captured_is_no_loss() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(A, A0, Some(B0), 0, 700);
    observer.send(A, A0 + 700, Some(B0 + 1000), FIN, 0);
    let report = observer.finish();
    assert_eq!((found(&report), lost(&report)), ([0, 1, 0], [0; 3]));
    // Of the server alone.
    let mut observer = Observer::new();
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    observer.send(B, B0, Some(A0 + 700), 0, 1000);
    assert_eq!(found(&observer.finish()), [0, 1, 0]);
    // Nothing acknowledges anything: an unanswered SYN, and a refused one.
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.wait(1000 * MS);
    observer.send(A, A0 - 1, None, SYN, 0);
    assert_eq!(found(&observer.finish()), [0; 3]);
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(B, 0, Some(A0), RST, 0);
    assert_eq!(found(&observer.finish()), [0; 3]);
    // A SYN-ACK that nothing asked for: the reset is the other direction.
    let mut observer = Observer::new();
    observer.send(B, B0 - 1, Some(A0), SYN, 0);
    observer.send(A, A0, None, RST, 0);
    assert_eq!(found(&observer.finish()), [0; 3]);
}

/// An answer to another connection's number is no SYN-ACK's successor: a host in TIME-WAIT, or one that was restarted.
#[test]
fn an_answer_with_other_numbers_names_no_syn_ack() {
    let mut observer = Observer::new();
    observer.send(A, A0 - 1, None, SYN, 0);
    observer.send(B, B0 + 77, Some(A0 + 50_000_000), 0, 0);
    observer.send(A, A0 + 50_000_000, None, RST, 0);
    observer.wait(1000 * MS);
    observer.connect(A0, B0);
    talk(&mut observer);
    assert_eq!(found(&observer.finish()), [0; 3]);
}

/// A forged SYN before the first packet of an old connection, with the number of that packet, or one close to it.
#[test]
fn a_stray_syn_names_no_syn_ack() {
    for (at, is_end) in [(0, true), (0, false), (1, true), (500, false)] {
        let mut observer = Observer::new();
        observer.send(A, A0 + at, None, SYN, 0);
        observer.send(A, A0, Some(B0), if is_end { FIN } else { 0 }, 0);
        let next = A0 + u32::from(is_end);
        observer.send(B, B0, Some(next), 0, 0);
        observer.send(B, B0, Some(next), FIN, 0);
        observer.send(A, next, Some(B0 + 1), 0, 0);
        assert_eq!(found(&observer.finish()), [0; 3], "{at} {is_end}");
    }
}

/// The SYN of a connection whose SYN-ACK is captured: in a capture that had lasted for long enough, it should be there.
#[test]
fn a_syn_is_missing_only_in_a_capture_that_has_lasted() {
    let begun = |before_ns: u64, step_ns: u64, has_syn: bool| {
        let mut observer = Observer::new();
        // Another connection, whose packets come all the time.
        let other = |observer: &mut Observer, at: u32| {
            let packet =
                Packet { from: A, sequence: 70_000 + at * 100, acknowledgment: 9, flags: ACK, bytes: 100 };
            observer.give(7, &packet);
        };
        for at in 0..=before_ns / step_ns {
            other(&mut observer, at as u32);
            observer.wait(step_ns);
        }
        if has_syn {
            observer.send(A, A0 - 1, None, SYN, 0);
        }
        observer.send(B, B0 - 1, Some(A0), SYN, 0);
        observer.send(A, A0, Some(B0), 0, 0);
        talk(&mut observer);
        observer.finish().syns_unseen
    };
    assert_eq!(begun(70_000 * MS, 500 * MS, false), 1);
    assert_eq!(begun(70_000 * MS, 500 * MS, true), 0);
    assert_eq!(
        begun(60_000 * MS, 500 * MS, false),
        0,
        "a repeated SYN-ACK: the SYN may be from before the capture"
    );
    assert_eq!(begun(70_000 * MS, 5000 * MS, false), 0, "it may have come between two captures");
}
