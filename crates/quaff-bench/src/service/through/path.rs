//! Trials over an impaired link with known rules.

use super::{Bed, end};
use crate::service::plan::{Host, Path, Routed};
use crate::service::prober::{Ask, Over, Prober as _};
use crate::service::session::Session;
use crate::testing::turn;
use crate::trial::{Length, Phase, StreamPlan, StreamReport, TrialReport};
use quaff_lab::{FAR, LabPlan, Layout, MIDDLE_IFS, ROUTED, RX, TX};
use quaff_os::testing::assert_when_quiet;
use quaff_testkit::impaired_link::Rules;
use quaff_testkit::lab_of;
use std::process::Command;
use std::time::Duration;

fn ask(over: Over, frames: u64, pps: f64) -> Ask {
    let phases = vec![Phase { length: Length::Frames(frames), pps: Some(pps) }];
    let stream = StreamPlan { id: 7, sizes: vec![124], phases, vlan: None, dscp: 0 };
    Ask { over, there: vec![stream], back: Vec::new(), residual_s: 0.5, is_by_second: false }
}

fn trial(session: &mut Session, ask: &Ask) -> TrialReport {
    session.trial(ask, &mut |_| true).expect("a trial")
}

fn only(report: &TrialReport) -> &StreamReport {
    let [direction] = &report.directions[..] else { panic!("one direction: {report:?}") };
    assert_eq!((direction.meter_dropped, direction.corrupt), (0, 0), "{direction:?}");
    let [stream] = &direction.streams[..] else { panic!("one stream: {direction:?}") };
    stream
}

fn median_ns(report: &TrialReport) -> f64 {
    let delays = only(report).delay.as_ref().expect("something arrived");
    delays.quantiles.iter().find(|(share, _)| *share == 0.5).expect("a median").1
}

#[test]
fn loss_doubles_and_reordering_are_found_exactly_as_they_were_made() {
    let test = "loss_doubles_and_reordering_are_found_exactly_as_they_were_made";
    let Some(bed) = Bed::new(test) else { return };
    let rules = Rules {
        drop_every: 50,
        duplicate_every: 199,
        delay_every: 401,
        delay: Duration::from_millis(10),
        hold: Duration::from_millis(2),
        ..Rules::default()
    };
    // 3920 frames pass; none of them is both duplicated and delayed.
    let ask = ask(Over::Path, 4000, 4000.0);
    let run = || {
        let (report, counts) = bed.with(rules.clone(), || trial(&mut bed.session(), &ask));
        assert_eq!((counts.dropped, counts.passed, counts.duplicated, counts.delayed), (80, 3920, 19, 9));
        let stream = only(&report);
        let total = &stream.total;
        assert_eq!((total.sent, total.received, total.lost), (4000, 3920, 80), "{stream:?}");
        assert_eq!((total.duplicates, total.reordered), (19, counts.overtaken), "{stream:?}");
        assert_eq!((stream.loss_periods, stream.loss_period_max), (80, 1), "{stream:?}");
        total.reordered
    };
    // A sender that loses its core for 10 ms sends nothing that could overtake.
    assert_when_quiet(test, run, |reordered| *reordered == 9);
}

#[test]
fn the_delay_is_what_the_path_holds_and_the_instrument_adds() {
    let Some(bed) = Bed::new("the_delay_is_what_the_path_holds_and_the_instrument_adds") else { return };
    let hold = Duration::from_millis(5);
    let hold_ns = hold.as_nanos() as f64;
    let run = || {
        let null = trial(&mut bed.session(), &ask(Over::Null, 500, 1000.0));
        let rules = Rules { hold, ..Rules::default() };
        let ask = ask(Over::Path, 500, 1000.0);
        let (report, counts) = bed.with(rules, || trial(&mut bed.session(), &ask));
        assert_eq!((only(&null).total.lost, only(&report).total.lost), (0, 0), "{null:?} {report:?}");
        let (null_ns, ns) = (median_ns(&null), median_ns(&report));
        assert!(ns >= hold_ns, "half of the frames came before they were let go: {ns}");
        (null_ns, ns, counts.late_ns)
    };
    let test = "the_delay_is_what_the_path_holds_and_the_instrument_adds";
    // The device sometimes releases frames late, and reports by how much.
    let added_ns = |null_ns: f64, ns: f64, late_ns: [u64; 3]| ns - null_ns - hold_ns - late_ns[0] as f64;
    assert_when_quiet(test, run, |(null_ns, ns, late_ns)| {
        added_ns(*null_ns, *ns, *late_ns).abs() <= 20_000.0
    });
}

#[test]
fn beds_of_a_lab_lose_nothing_either_way() {
    let _turn = turn();
    if lab_of("beds_of_a_lab_lose_nothing_either_way", &LabPlan::default()).is_none() {
        return;
    }
    for path in [Path::Link, Path::Bridge, Path::Tap, Path::Router] {
        let mut session = Session::open(&path, None, None).expect("a path");
        assert!(session.has_null() && session.link_mbps().is_none());
        let there = ask(Over::Path, 1000, 5000.0);
        // The router has no address in a VLAN.
        let vlan = Some((100, 5)).filter(|_| path != Path::Router);
        let back = StreamPlan { id: 8, vlan, ..there.there[0].clone() };
        let both = Ask { back: vec![back], ..there };
        for over in [Over::Path, Over::Null] {
            let report = trial(&mut session, &Ask { over, ..both.clone() });
            let found: Vec<_> = report.directions.iter().map(|way| &way.streams[0]).collect();
            assert_eq!([found[0].id, found[1].id], [7, 8]);
            for stream in found {
                assert_eq!(
                    (stream.total.sent, stream.total.lost),
                    (1000, 0),
                    "{path:?} {over:?}: {stream:?}"
                );
            }
        }
        let facts = session.machine().facts;
        assert!(facts.keys().any(|name| name == "from tx0, MTU"), "{facts:?}");
    }
}

#[test]
fn a_router_that_forgets_an_address_learns_it_again() {
    let test = "a_router_that_forgets_an_address_learns_it_again";
    let _turn = turn();
    let Some(lab) = lab_of(test, &LabPlan { layout: Layout::Router, ..LabPlan::default() }) else { return };
    let mid = lab.mid.as_ref().expect("a router");
    let [from, to] = ROUTED.map(|(gateway, ip)| Host { ip, gateway });
    let path = Path::Between {
        from: end(&lab.tx, TX.name),
        to: end(lab.far.as_ref().expect("a second end"), FAR.name),
        routed: Some(Routed { from, to }),
    };
    let mut session = Session::open(&path, None, None).expect("a path");
    let mut has_forgotten = false;
    let report = session
        .trial(&ask(Over::Path, 1000, 1000.0), &mut |progress| {
            if progress.received > 200 && !has_forgotten {
                let flush = ["-n", &mid.name, "neigh", "flush", "dev", MIDDLE_IFS[1]];
                has_forgotten = Command::new("ip").args(flush).status().is_ok_and(|status| status.success());
            }
            true
        })
        .expect("a trial");
    assert!(has_forgotten, "ip(8) flushed");
    // The router queues some frames while it resolves the address; our answer takes up to 10 ms.
    assert!(only(&report).total.lost < 100, "{report:?}");
}

#[test]
fn a_router_that_does_not_answer_and_an_address_that_is_taken_are_named() {
    let test = "a_router_that_does_not_answer_and_an_address_that_is_taken_are_named";
    let _turn = turn();
    let Some(lab) = lab_of(test, &LabPlan::default()) else { return };
    let refused = |from: Host, to: Host| {
        let (from_end, to_end) = (end(&lab.tx, TX.name), end(&lab.rx, RX.name));
        let path = Path::Between { from: from_end, to: to_end, routed: Some(Routed { from, to }) };
        let mut session = Session::open(&path, None, None).expect("a path");
        let ended = session.trial(&ask(Over::Path, 10, 1000.0), &mut |_| true);
        ended.expect_err("no such path").to_string()
    };
    let host = |last| Host { ip: [192, 0, 2, last].into(), gateway: [192, 0, 2, last + 1].into() };
    let error = refused(host(1), host(11));
    assert!(error.contains("192.0.2.12") && error.contains(RX.name), "{error}");
    let error = refused(host(1), Host { ip: RX.ip, gateway: TX.ip });
    assert!(error.contains("198.18.0.2 is an address of the machine"), "{error}");
}

#[test]
fn a_card_without_a_clock_is_named() {
    let _turn = turn();
    if lab_of("a_card_without_a_clock_is_named", &LabPlan::default()).is_none() {
        return;
    }
    let mut session = Session::open(&Path::Link, None, None).expect("a path").with_hardware_time(true);
    let error = session.trial(&ask(Over::Path, 10, 1000.0), &mut |_| true).expect_err("no clock").to_string();
    assert!(error.contains("ethtool -T rx0"), "{error}");
}
