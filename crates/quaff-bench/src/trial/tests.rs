//! Trials over the link of a lab, with real packets: each frame is received or lost, by stream, phase and second.

#![allow(clippy::print_stderr, reason = "what was measured is worth knowing")]

use super::{Direction, Length, PathEnd, Phase, StreamPlan, TrialPlan};
use super::{StreamReport, Tally, TrialError, TrialReport};
use crate::testing::turn;
use crate::trial;
use quaff_lab::{Lab, RX, TX};
use quaff_os::Netns;
use quaff_os::packet::{Qdisc, TxSocket};
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use quaff_os::testing::assert_when_quiet;
use quaff_wire::probe::{OuterHeaders, ProbeFrame, TrialHeader};
use std::net::Ipv4Addr;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// A lab, while no other test of this crate measures; `None` after a skip. The lock comes first in the pair, so that it
/// is released after the lab is removed.
fn lab(test: &str) -> Option<(MutexGuard<'static, ()>, Lab)> {
    let turn = turn();
    Some((turn, quaff_testkit::lab(test)?))
}

fn ends(lab: &Lab) -> [PathEnd; 2] {
    let end = |netns: &Netns, interface: &str| PathEnd {
        netns: Some(netns.name.clone()),
        interface: interface.to_owned(),
    };
    [end(&lab.tx, TX.name), end(&lab.rx, RX.name)]
}

fn stream(id: u16, size: u32, length: Length, pps: Option<f64>) -> StreamPlan {
    StreamPlan { id, sizes: vec![size], phases: vec![Phase { length, pps }], vlan: None, dscp: 0 }
}

fn there(lab: &Lab, streams: Vec<StreamPlan>) -> Direction {
    let [from, to] = ends(lab);
    Direction { from, to, streams, route: None, tx_core: None, rx_core: None }
}

fn plan(directions: Vec<Direction>) -> TrialPlan {
    TrialPlan { directions, residual_s: 1.0, is_by_second: true, hardware_time: false }
}

fn run(plan: &TrialPlan) -> TrialReport {
    trial::run(plan, |_| true).expect("a trial")
}

/// Checks the sums of a report.
fn check(stream: &StreamReport) {
    let sums = |tally: &Tally| {
        assert_eq!(tally.sent, tally.received + tally.lost, "{tally:?}");
        let Tally { sent, received, lost, duplicates, reordered, sent_bytes, refused, left_out, .. } = *tally;
        [sent, received, lost, duplicates, reordered, sent_bytes, refused, left_out]
    };
    let add = |tallies: &[Tally]| {
        tallies.iter().map(sums).fold([0; 8], |all, one| std::array::from_fn(|at| all[at] + one[at]))
    };
    assert_eq!(add(&stream.phases), sums(&stream.total));
    assert_eq!(add(&stream.seconds), sums(&stream.total));
}

#[test]
fn both_ways_at_once_all_frames_arrive() {
    let test = "both_ways_at_once_all_frames_arrive";
    let Some((_turn, lab)) = lab(test) else { return };
    let [from, to] = ends(&lab);
    let mixed = StreamPlan {
        sizes: vec![60, 594, 1514],
        vlan: Some((100, 5)),
        dscp: 46,
        phases: vec![
            Phase { length: Length::Seconds(0.5), pps: Some(2000.0) },
            Phase { length: Length::Seconds(0.3), pps: Some(0.0) },
            Phase { length: Length::Seconds(0.5), pps: Some(500.0) },
        ],
        ..stream(1, 60, Length::Frames(1), None)
    };
    let tagged = StreamPlan {
        phases: vec![
            Phase { length: Length::Seconds(0.6), pps: Some(0.0) },
            Phase { length: Length::Frames(1), pps: None },
        ],
        ..stream(2, 60, Length::Frames(1), None)
    };
    let burst = stream(3, 1514, Length::Frames(300), None);
    let back = stream(4, 60, Length::Seconds(1.0), Some(1000.0));
    let directions = vec![
        there(&lab, vec![mixed, tagged, burst]),
        Direction { from: to, to: from, streams: vec![back], route: None, tx_core: None, rx_core: None },
    ];
    let plan = plan(directions);
    let measure = || times_of_a_mixed_trial(&run(&plan));
    // The phases start at their times, unless the sender had no core then.
    assert_when_quiet(test, measure, |times| {
        times.mixed >= 1000
            && (290_000_000..500_000_000).contains(&times.pause_ns)
            && (500_000_000..900_000_000).contains(&times.after_ns)
    });
}

/// Times in a trial with a mixed stream that pauses and a stream that follows it.
#[derive(Debug)]
struct MixedTimes {
    /// Frames of the mixed stream; a sender without a core omits some, and counts them.
    mixed: u64,
    pause_ns: u64,
    after_ns: u64,
}

/// Asserts the counts, which are exact on any machine.
fn times_of_a_mixed_trial(report: &TrialReport) -> MixedTimes {
    assert!(!report.interrupted);
    for direction in &report.directions {
        let counts = [direction.foreign, direction.corrupt, direction.meter_dropped, direction.nic_dropped];
        assert_eq!((counts, direction.rx_clock.as_str()), ([0; 4], "kernel"));
        for stream in &direction.streams {
            check(stream);
            let total = &stream.total;
            assert_eq!((total.lost, total.duplicates, total.reordered), (0, 0, 0), "{total:?}");
            let [min, _, max] = stream.delay.as_ref().expect("frames arrived").delay;
            assert!(min >= 0.0 && max < 1e9, "{stream:?}");
        }
    }
    let [mixed, tagged, burst] = &report.directions[0].streams[..] else { panic!("three streams") };
    let due: Vec<_> = mixed.phases.iter().map(|phase| phase.sent + phase.left_out).collect();
    assert_eq!(due, [1000, 0, 250]);
    assert_eq!((tagged.total.sent, burst.total.sent), (1, 300));
    assert_eq!(burst.total.received_bytes, 300 * 1514);
    MixedTimes {
        mixed: mixed.total.sent,
        pause_ns: mixed.phases[2].first_ns.saturating_sub(mixed.phases[0].last_ns),
        after_ns: tagged.total.first_ns - mixed.total.first_ns,
    }
}

#[test]
fn foreign_frames_are_counted_separately() {
    let Some((_turn, lab)) = lab("foreign_frames_are_counted_separately") else { return };
    // The destination address of a trial's frames.
    let [first, rest @ ..] = RX.mac;
    let dst_mac = [&[first ^ 0x40][..], &rest].concat().try_into().expect("six bytes");
    let headers = OuterHeaders {
        dst_mac,
        src_mac: TX.mac,
        tags: vec![],
        src_ip: Ipv4Addr::new(198, 18, 0, 1),
        dst_ip: Ipv4Addr::new(198, 18, 0, 2),
        stream: 9,
    };
    let mut earlier = ProbeFrame::trial(&headers, 0, 60).expect("a frame");
    earlier.set(&TrialHeader { stream: 9, seq: 0, sent_ns: quaff_os::clock::wall_ns() });
    let mut damaged = earlier.bytes.clone();
    damaged[50] ^= 1;
    let mut other = [0u8; 60];
    other[..12].copy_from_slice(&earlier.bytes[..12]);
    other[12] = 0x12;
    let one_way = plan(vec![there(&lab, vec![stream(9, 60, Length::Seconds(0.5), Some(100.0))])]);
    let mut is_sent = false;
    let report = trial::run(&one_way, |now| {
        if now.sent > 5 && !is_sent {
            is_sent = true;
            let send = || {
                let sender = TxSocket::open(rtnl::link(TX.name)?.index, "the end", Qdisc::Through)?;
                [&other[..], &other, &earlier.bytes, &damaged]
                    .iter()
                    .try_for_each(|frame| sender.send_one(frame))
            };
            lab.tx.run(send).expect("a thread in the namespace").expect("sent");
        }
        true
    });
    let report = report.expect("a trial");
    let direction = &report.directions[0];
    // Two frames of another type, and one of an earlier trial.
    assert_eq!((direction.foreign, direction.corrupt), (3, 1));
    let total = &direction.streams[0].total;
    assert_eq!((total.lost, total.duplicates), (0, 0));
}

#[test]
fn a_stopped_trial_has_a_report() {
    let Some((_turn, lab)) = lab("a_stopped_trial_has_a_report") else { return };
    let begun = Instant::now();
    let long = stream(1, 60, Length::Seconds(3600.0), Some(1000.0));
    let slow = stream(2, 60, Length::Seconds(3600.0), Some(0.01));
    let report =
        trial::run(&plan(vec![there(&lab, vec![long, slow])]), |now| now.elapsed_s < 0.4).expect("a report");
    assert!(report.interrupted && begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let [long, slow] = &report.directions[0].streams[..] else { panic!("two streams") };
    check(long);
    assert!((300..=700).contains(&long.total.sent) && long.total.lost == 0, "{:?}", long.total);
    assert_eq!(slow.total, Tally::default());
}

#[test]
fn a_link_that_goes_down_is_an_outage_and_no_burst_comes_after_it() {
    let test = "a_link_that_goes_down_is_an_outage_and_no_burst_comes_after_it";
    let Some((_turn, lab)) = lab(test) else { return };
    for (netns, interface) in [(&lab.rx, RX.name), (&lab.tx, TX.name)] {
        let set_up = |on: bool| {
            let change = || {
                let mut rtnl = Rtnl::open()?;
                let index = rtnl.link(interface)?.index;
                rtnl.change(index, LinkChange::Up(on))
            };
            netns.run(change).expect("a thread in the namespace").expect("changed");
        };
        let paced = stream(1, 60, Length::Seconds(1.5), Some(2000.0));
        let plan = plan(vec![there(&lab, vec![paced])]);
        let run = || {
            let mut changes = vec![(0.9, true), (0.4, false)];
            let report = trial::run(&plan, |now| {
                if let Some((_, on)) = changes.pop_if(|(at_s, _)| now.elapsed_s > *at_s) {
                    set_up(on);
                }
                true
            });
            let report = report.expect("a report");
            assert!(changes.is_empty() && !report.interrupted);
            let stream = report.directions.into_iter().next().and_then(|one| one.streams.into_iter().next());
            let stream = stream.expect("a stream");
            check(&stream);
            // Frames that the kernel refused are counted at their deadline, and not sent later.
            let Tally { sent, refused, left_out, .. } = stream.total;
            assert_eq!(sent + refused + left_out, 3000, "{interface}");
            (interface, stream.total, stream.seconds)
        };
        assert_when_quiet(test, run, |(_, total, seconds)| {
            (1500..2500).contains(&total.sent)
                && (500..1500).contains(&total.refused)
                && seconds[0].refused > 500
                && seconds.iter().all(|second| second.sent <= 2010)
                && (1_400_000_000..1_600_000_000).contains(&(total.last_ns - total.first_ns))
        });
    }
}

#[test]
fn frames_over_a_dead_link_are_abandoned() {
    let Some((_turn, lab)) = lab("frames_over_a_dead_link_are_abandoned") else { return };
    let burst = stream(1, 60, Length::Frames(1_000_000), Some(1000.0));
    let begun = Instant::now();
    let mut is_dead = false;
    let report = trial::run(&plan(vec![there(&lab, vec![burst])]), |now| {
        if !is_dead && now.elapsed_s > 0.2 {
            is_dead = true;
            let down = || {
                let mut rtnl = Rtnl::open()?;
                let index = rtnl.link(RX.name)?.index;
                rtnl.change(index, LinkChange::Up(false))
            };
            lab.rx.run(down).expect("a thread in the namespace").expect("down");
        }
        true
    });
    let total = report.expect("a report").directions.remove(0).streams.remove(0).total;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(total.sent < 2000 && total.sent + total.refused == 1_000_000, "{total:?}");
}

#[test]
fn an_interface_that_goes_away_is_an_error() {
    let Some((_turn, lab)) = lab("an_interface_that_goes_away_is_an_error") else { return };
    let long = stream(1, 60, Length::Seconds(60.0), Some(1000.0));
    let mut is_gone = false;
    let result = trial::run(&plan(vec![there(&lab, vec![long])]), |now| {
        if !is_gone && now.elapsed_s > 0.2 {
            is_gone = true;
            let remove = || {
                let mut rtnl = Rtnl::open()?;
                let index = rtnl.link(RX.name)?.index;
                rtnl.change(index, LinkChange::Delete)
            };
            lab.rx.run(remove).expect("a thread in the namespace").expect("removed");
        }
        true
    });
    let error = result.expect_err("it is gone").to_string();
    assert!(error.contains("gone") || error.contains("went away"), "{error}");
}

#[test]
fn impossible_trials_are_refused() {
    let Some((_turn, lab)) = lab("impossible_trials_are_refused") else { return };
    let large = plan(vec![there(&lab, vec![stream(1, 4000, Length::Frames(1), None)])]);
    let error = trial::run(&large, |_| true).expect_err("larger than the MTU").to_string();
    assert!(error.contains("tx0") && error.contains("mtu 3986"), "{error}");
    let mut nowhere = plan(vec![there(&lab, vec![stream(1, 60, Length::Frames(1), None)])]);
    nowhere.directions[0].to.interface = "nosuch0".into();
    assert!(matches!(trial::run(&nowhere, |_| true), Err(TrialError::Interface(_))));
    nowhere.directions[0].to.netns = Some("no-such-namespace".into());
    assert!(matches!(trial::run(&nowhere, |_| true), Err(TrialError::Os(_))));
}

/// 60-byte frames as fast as possible: the meter loses none of them.
#[test]
fn the_meter_keeps_up_with_the_sender() {
    let Some((_turn, lab)) = lab("the_meter_keeps_up_with_the_sender") else { return };
    let mut direction = there(&lab, vec![stream(1, 60, Length::Seconds(2.0), None)]);
    (direction.tx_core, direction.rx_core) =
        (Some(0), quaff_os::cpu::allowed().expect("cores").get(1).copied());
    let fast = plan(vec![direction]);
    let measure = || {
        let report = run(&fast);
        let direction = &report.directions[0];
        let total = &direction.streams[0].total;
        assert_eq!(total.sent, total.received + total.lost, "{report:?}");
        let mpps = total.sent as f64 / (total.last_ns - total.first_ns) as f64 * 1e3;
        (mpps, total.lost, direction.meter_dropped)
    };
    assert_when_quiet(
        "the_meter_keeps_up_with_the_sender",
        measure,
        |found| matches!(found, (mpps, 0, 0) if *mpps > 0.15),
    );
}

/// The null calibration: the delays of the tester itself.
#[test]
#[ignore = "it measures; run it alone"]
fn null_calibration() {
    let Some((_turn, lab)) = lab("null_calibration") else { return };
    for (size, pps) in
        [(60, 100.0), (60, 1000.0), (60, 10_000.0), (60, 100_000.0), (60, 300_000.0), (1514, 1000.0)]
    {
        let mut direction = there(&lab, vec![stream(1, size, Length::Seconds(2.0), Some(pps))]);
        (direction.tx_core, direction.rx_core) = (Some(0), Some(1));
        let report = run(&plan(vec![direction]));
        let direction = &report.directions[0];
        let stream = &direction.streams[0];
        let delay = stream.delay.as_ref().expect("frames arrived");
        eprintln!(
            "{size} B at {pps}/s: sent {} lost {} late max {} ns; delay {:?}, quantiles {:?}, pdv {:?}",
            stream.total.sent,
            stream.total.lost,
            direction.late_max_ns,
            delay.delay,
            delay.quantiles,
            delay.pdv
        );
    }
}
