//! The five RFC 2544 tests on simulated paths. A line of 10 Mbit/s carries 14 880 frames/s of 64 B and 812 of 1518 B.

use super::run;
use crate::experiment::Method;
use crate::service::null;
use crate::service::plan::{Plan, Test, Ways};
use crate::service::result::{Report, Way};
use crate::service::sim::{self, Sim, Watcher, quiet};
use crate::service::test_context::TestContext;
use crate::{Error, Result};

fn throughput(size: u32, method: Method) -> Test {
    Test::Throughput { sizes: vec![size], method, seconds: 6.0, width: 0.01 }
}

/// All tests of `plan`, after the calibration.
fn run_with(plan: &Plan, sim: &mut Sim, watcher: &mut Watcher) -> (Report, Vec<String>, Result<()>) {
    let mut report = sim::report(plan);
    let mut ctx = TestContext::new(plan, sim, watcher);
    if ctx.has_null() {
        null::calibrate(&mut ctx).expect("calibrated");
    }
    let ended = plan.tests.iter().try_for_each(|test| run(test, &mut ctx, &mut report));
    let notes = ctx.notes.clone();
    (report, notes, ended)
}

fn run_all(tests: Vec<Test>, sim: &mut Sim) -> (Report, Vec<String>) {
    let (report, notes, ended) = run_with(&sim::plan(Vec::new(), tests), sim, &mut quiet());
    ended.expect("measured");
    (report, notes)
}

#[test]
fn both_searches_end_at_the_rate_of_the_path() {
    for method in [Method::Rfc2544, Method::Mlr] {
        for forwards in [3000.0, 777.0, 12_345.0] {
            let mut sim = Sim { forwards_pps: [forwards; 2], ..Sim::default() };
            let (report, _) = run_all(vec![throughput(64, method)], &mut sim);
            let [row] = report.throughput.as_slice() else { panic!("{:?}", report.throughput) };
            let (pps, upper) = (row.pps.expect("found"), row.upper_pps.expect("bounded"));
            assert!(row.regular && (upper - pps) / upper <= 0.01, "{method:?} {forwards}: {row:?}");
            // The queue lets through a little more in a trial of 6 s than it sustains.
            assert!(pps <= forwards + 2.0 && upper > forwards, "{method:?} {forwards}: {pps} {upper}");
            assert!((row.line_pps - 14_880.95).abs() < 0.01);
        }
    }
}

#[test]
fn the_line_is_the_limit_of_a_path_that_loses_nothing() {
    let (report, _) = run_all(vec![throughput(1518, Method::Rfc2544)], &mut Sim::default());
    let row = &report.throughput[0];
    assert_eq!((row.pps, row.upper_pps, row.regular), (Some(812.0), None, false));
    assert!(row.notes[0].contains("the line is the limit"), "{:?}", row.notes);
}

#[test]
fn the_instruments_limit_is_never_the_paths() {
    // The tester sends 5000 frames/s, the line would carry 14 880.
    let mut slow = Sim { generator_pps: 5000.0, ..Sim::default() };
    let (report, _) = run_all(vec![throughput(64, Method::Rfc2544)], &mut slow);
    let row = &report.throughput[0];
    assert_eq!((row.pps, row.upper_pps, row.regular), (Some(5000.0), None, false));
    assert!(row.notes[0].contains("the instrument is the limit"), "{:?}", row.notes);
    // Without a plain link the warm-up finds the limit.
    let mut slow = Sim { generator_pps: 5000.0, has_null: false, ..Sim::default() };
    let (report, _) = run_all(vec![throughput(64, Method::Mlr)], &mut slow);
    assert_eq!((report.throughput[0].pps, report.throughput[0].upper_pps), (Some(5000.0), None));
    // The meter drops frames above 4000 frames/s.
    let mut deaf = Sim { meter_pps: 4000.0, has_null: false, ..Sim::default() };
    let (report, _) = run_all(vec![throughput(64, Method::Rfc2544)], &mut deaf);
    let row = &report.throughput[0];
    assert!(row.pps.is_some_and(|pps| pps <= 4002.0 && pps > 3900.0), "{row:?}");
    assert_eq!((row.upper_pps, row.regular), (None, false));
    assert!(row.notes[0].contains("it is the limit, and not the path"), "{:?}", row.notes);
    assert!(row.trials.iter().all(|trial| trial.loss == 0.0), "{row:?}");
}

#[test]
fn a_sender_that_was_held_up_is_given_another_try() {
    // Trials 0 and 1 are the calibration, 2 the warm-up.
    for slow_in in [vec![2], vec![3], vec![5, 6]] {
        let mut sim = Sim { forwards_pps: [3000.0; 2], slow_in: slow_in.clone(), ..Sim::default() };
        let (report, _) = run_all(vec![throughput(64, Method::Rfc2544)], &mut sim);
        let row = &report.throughput[0];
        assert!(
            row.regular && row.pps.is_some_and(|pps| (2970.0..=3002.0).contains(&pps)),
            "{slow_in:?}: {row:?}"
        );
    }
    // A burst with gaps passes through a queue that it would otherwise have filled.
    for slow_in in [vec![], vec![2], vec![4, 5, 7]] {
        let tests = vec![Test::BackToBack { sizes: vec![64], seconds: 2.0, repeats: 1 }];
        let mut sim =
            Sim { forwards_pps: [5000.0; 2], queue: 1000.0, slow_in: slow_in.clone(), ..Sim::default() };
        let (report, _) = run_all(tests, &mut sim);
        let frames = &report.back_to_back[0].frames;
        assert!((1485..=1510).contains(&frames[0]), "{slow_in:?}: {frames:?}");
    }
}

#[test]
fn duplicated_and_reordered_frames_are_reported() {
    let (_, notes) =
        run_all(vec![throughput(1518, Method::Mlr)], &mut Sim { is_untidy: true, ..Sim::default() });
    assert!(notes.iter().any(|note| note.contains("more than once")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("after later ones")), "{notes:?}");
    let (_, notes) = run_all(vec![throughput(1518, Method::Mlr)], &mut Sim::default());
    assert!(!notes.iter().any(|note| note.contains("Some frames")), "{notes:?}");
}

#[test]
fn each_way_has_a_rate_of_its_own() {
    let mut sim = Sim { forwards_pps: [3000.0, 500.0], ..Sim::default() };
    let mut plan = sim::plan(Vec::new(), vec![throughput(64, Method::Rfc2544)]);
    plan.ways = Ways::Both;
    let (report, _, ended) = run_with(&plan, &mut sim, &mut quiet());
    ended.expect("measured");
    let found: Vec<_> = report.throughput.iter().map(|row| (row.way, row.pps.expect("found"))).collect();
    let [(Way::There, there), (Way::Back, back)] = found.as_slice() else { panic!("{found:?}") };
    assert!((2960.0..=3002.0).contains(there) && (490.0..=502.0).contains(back), "{found:?}");
    assert!(report.throughput.iter().all(|row| row.notes.is_empty()), "{:?}", report.throughput);
    // Both were measured at the same time.
    let path = sim.asked.iter().filter(|ask| ask.over == crate::service::prober::Over::Path);
    assert!(path.clone().all(|ask| !ask.there.is_empty() && !ask.back.is_empty()));
}

#[test]
fn a_path_that_always_loses_has_no_throughput_and_no_latency() {
    let tests = vec![
        throughput(64, Method::Rfc2544),
        Test::Latency { sizes: vec![64], seconds: 2.0, repeats: 2 },
        Test::Recovery { sizes: vec![64], seconds: 2.0, repeats: 1 },
    ];
    let (report, notes) = run_all(tests, &mut Sim { loses_every: Some(10), ..Sim::default() });
    assert_eq!(report.throughput[0].pps, None);
    assert!(report.throughput[0].upper_pps.is_some());
    assert!(report.latency.is_empty() && report.recovery.is_empty());
    assert_eq!(notes.iter().filter(|note| note.contains("without a throughput")).count(), 2, "{notes:?}");
}

#[test]
fn the_tagged_frame_stands_beside_all_the_others() {
    let latency = Test::Latency { sizes: vec![512], seconds: 2.0, repeats: 3 };
    let mut sim = Sim { delay_ns: 250_000.0, null_delay_ns: 30_000.0, ..Sim::default() };
    let (report, _) = run_all(vec![latency], &mut sim);
    let [row] = report.latency.as_slice() else { panic!("{:?}", report.latency) };
    assert_eq!((row.tagged_ms.as_slice(), row.null_ms), (&[0.25; 3][..], Some(0.03)));
    assert_eq!(row.all.delay, [250_000.0; 3]);
    // Without a throughput test the load is the line rate. The tagged frame is sent after half of the time.
    assert!((row.pps - 2349.6).abs() < 0.1, "{row:?}");
    let ask = sim.asked.iter().find(|ask| ask.there.len() == 2).expect("two streams");
    let phases = &ask.there[1].phases;
    assert_eq!((phases[0].pps, phases.len()), (Some(0.0), 2));
    assert_eq!(phases[0].length, crate::trial::Length::Seconds(1.0));
    assert_eq!(phases[1].length, crate::trial::Length::Frames(1));
}

#[test]
fn a_loss_curve_descends_until_two_loads_lose_nothing() {
    let curve = || vec![Test::FrameLoss { sizes: vec![64], seconds: 1.0, step: 0.1 }];
    // 14 880 × 0.65
    let (report, _) = run_all(curve(), &mut Sim { forwards_pps: [9672.0; 2], ..Sim::default() });
    let loads: Vec<_> = report.frame_loss.iter().map(|row| (row.load * 10.0).round() as u32).collect();
    assert_eq!(loads, [10, 9, 8, 7, 6, 5]);
    let loss: Vec<_> = report.frame_loss.iter().map(|row| (row.loss * 100.0).round() as u32).collect();
    assert_eq!(loss, [35, 28, 19, 7, 0, 0]);
    // Without loss two loads suffice.
    let (report, _) = run_all(curve(), &mut Sim::default());
    assert_eq!(report.frame_loss.len(), 2);
    assert!(report.frame_loss.iter().all(|row| row.loss == 0.0));
}

#[test]
fn loads_that_cannot_be_sent_are_not_points_of_a_curve() {
    let curve = vec![Test::FrameLoss { sizes: vec![64], seconds: 1.0, step: 0.1 }];
    let (report, notes) = run_all(curve, &mut Sim { generator_pps: 5000.0, ..Sim::default() });
    // A third of the line rate: the highest offered load as "100 %", then 30 % and 20 %.
    let loads: Vec<_> = report.frame_loss.iter().map(|row| (row.load * 10.0).round() as u32).collect();
    assert_eq!(loads, [10, 3, 2]);
    assert!((report.frame_loss[0].offered_pps - 5000.0).abs() < 1.0);
    assert!(notes.iter().any(|note| note.contains("34 % of the line's rate")), "{notes:?}");
}

#[test]
fn bursts_fill_the_buffer_and_the_throughput_corrects_them() {
    let tests =
        vec![throughput(64, Method::Rfc2544), Test::BackToBack { sizes: vec![64], seconds: 2.0, repeats: 3 }];
    let mut sim = Sim { forwards_pps: [5000.0; 2], queue: 1000.0, ..Sim::default() };
    let (report, _) = run_all(tests, &mut sim);
    let [row] = report.back_to_back.as_slice() else { panic!("{:?}", report.back_to_back) };
    // At 14 881 a burst of n leaves n (1 − 5000 / 14 881) in the queue of 1000: n is about 1506.
    assert!(row.frames.iter().all(|frames| (1485..=1510).contains(frames)), "{row:?}");
    assert_eq!((row.frames.len(), row.frames_max), (3, 29_761));
    assert!((row.pps / 14_881.0 - 1.0).abs() < 0.001);
    let (buffer, corrected) = (row.buffer_s.expect("implied"), row.buffer_corrected_s.expect("corrected"));
    // 1000 frames of buffer are 67.2 ms at the line's rate.
    assert!((buffer - 0.1007).abs() < 0.002 && (corrected - 0.0672).abs() < 0.002, "{buffer} {corrected}");
}

#[test]
fn a_buffer_that_is_never_full_has_no_length() {
    let burst = vec![Test::BackToBack { sizes: vec![1518], seconds: 0.5, repeats: 2 }];
    let (report, _) = run_all(burst, &mut Sim::default());
    let row = &report.back_to_back[0];
    assert_eq!((row.frames.as_slice(), row.frames_max), (&[406, 406][..], 406));
    assert_eq!((row.buffer_s, row.buffer_corrected_s), (None, None));
}

#[test]
fn recovery_is_the_time_that_a_full_queue_takes() {
    let tests =
        vec![throughput(64, Method::Rfc2544), Test::Recovery { sizes: vec![64], seconds: 4.0, repeats: 2 }];
    let mut sim = Sim { forwards_pps: [5000.0; 2], queue: 100.0, ..Sim::default() };
    let (report, _) = run_all(tests, &mut sim);
    let [row] = report.recovery.as_slice() else { panic!("{:?}", report.recovery) };
    // Half of the overload is less than the path sustains: nothing is lost after the change.
    assert_eq!((row.seconds.as_slice(), row.notes.len()), (&[0.0; 2][..], 0));
    assert!((row.overload_pps - 5500.0).abs() < 60.0, "{row:?}");
    // If the line is the limit, there is no overload.
    let tests = vec![
        throughput(1518, Method::Rfc2544),
        Test::Recovery { sizes: vec![1518], seconds: 2.0, repeats: 1 },
    ];
    let (report, _) = run_all(tests, &mut Sim::default());
    assert!(report.recovery[0].notes[0].contains("lost nothing"), "{:?}", report.recovery);
}

#[test]
fn results_before_an_interruption_stay() {
    let tests = vec![throughput(64, Method::Rfc2544), throughput(512, Method::Rfc2544)];
    let plan = sim::plan(Vec::new(), tests);
    let mut watcher = Watcher { ends_in: Some(8), ..Watcher::default() };
    let mut sim = Sim { forwards_pps: [1000.0; 2], ..Sim::default() };
    let (report, _, ended) = run_with(&plan, &mut sim, &mut watcher);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    let row = report.throughput.last().expect("a row");
    assert!(row.notes.iter().any(|note| note.contains("ended early")) && !row.regular, "{row:?}");
}
