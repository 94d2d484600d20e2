//! Searches on tools of known abilities.

use super::fake::{Ability, Machine, machine, plan, report, wanted};
use super::*;
use crate::Error;
use crate::bench::plan::Method;
use crate::bench::result::{LimitedBy, ToolFacts};
use quaff_lab::tool::Setting;

fn found(machine: &mut Machine, finds: Vec<Find>) -> (Report, Result<()>) {
    let plan = plan(machine, finds);
    let mut report = report(&plan);
    let ended = find(&plan, machine, &mut report);
    (report, ended)
}

fn has_note(notes: &[String], part: &str) -> bool {
    notes.iter().any(|note| note.contains(part))
}

#[test]
fn the_highest_rate_is_found_twice_and_agrees() {
    for method in [Method::Mlr, Method::Rfc2544] {
        let mut machine = machine([("one", 400_000.0), ("other", 1_000_000.0)]);
        let (report, ended) = found(&mut machine, vec![Find { method, ..wanted(Wanted::Max) }]);
        ended.expect("it ends");
        let names: Vec<_> = report.searches.iter().map(|search| search.rival.as_str()).collect();
        assert_eq!(names, ["one", "other"]);
        for (search, limit) in report.searches.iter().zip([400_000.0, 1_000_000.0]) {
            let (lower, upper) = (search.lower_pps.expect("a lower"), search.upper_pps.expect("an upper"));
            assert!(lower <= limit && limit < upper && (upper - lower) / upper <= 0.05, "{lower} {upper}");
            assert_eq!(search.limited_by, LimitedBy::Rival);
            assert_eq!(search.throughput_pps, search.lower_pps);
            let [again, apart] = search.again.expect("a second search");
            assert!(apart < 0.05 && (again - limit).abs() < 0.06 * limit, "{again} {apart}");
            assert!(search.trials.len() > 3 && search.trials_again.len() > 3);
            assert!(search.regular && search.warm_up.is_some_and(|trial| trial.offered_pps == 1.5e6));
            // No trial at the lower bound counts as lossy.
            assert!(search.trials.iter().all(|trial| trial.pps != lower || trial.loss == 0.0));
            assert!(search.notes.is_empty(), "{:?}", search.notes);
            assert_eq!(search.max_pps, 3e6);
        }
        // All rivals are searched once before any is searched again.
        let turns: Vec<_> =
            machine.runs.chunk_by(|one, other| one.0 == other.0).map(|runs| &runs[0].0).collect();
        assert_eq!(turns, ["one", "other", "one", "other"]);
        assert_eq!(machine.shown, [1, 2, 2, 2], "after each search");
        assert!(machine.said[0].contains("one, 64 B, highest rate, trial 1"), "{}", machine.said[0]);
    }
}

#[test]
fn a_rate_without_loss_rests_on_a_trial_of_full_length() {
    // A buffer of 300,000 frames hides for one second a loss that three seconds show.
    let mut machine = machine([("one", 400_000.0)]);
    machine.rivals.insert("one", Ability { buffer: 300_000.0, ..machine.rivals["one"] });
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    let search = &report.searches[0];
    let lower = search.lower_pps.expect("a lower");
    // 3 s at 500 k are 1.5 M frames: 1.2 M are captured, 300,000 buffered.
    assert!(lower <= 500_000.0 && lower > 470_000.0, "{lower}");
    assert!(
        search.trials.iter().any(|trial| trial.pps == lower && trial.seconds > 2.99 && trial.loss == 0.0)
    );
}

#[test]
fn one_that_takes_all_that_can_be_sent_is_limited_by_the_generator() {
    for method in [Method::Mlr, Method::Rfc2544] {
        let mut machine = machine([("one", 9e9)]);
        let (report, _) = found(&mut machine, vec![Find { method, ..wanted(Wanted::Max) }]);
        let search = &report.searches[0];
        assert_eq!((search.lower_pps, search.upper_pps), (Some(1.5e6), None));
        assert_eq!((search.limited_by, search.throughput_pps), (LimitedBy::Generator, None));
        assert!(!search.regular);
        let caution = if method == Method::Mlr { "at most two trials" } else { "conditionally" };
        assert!(has_note(&report.notes, caution), "{:?}", report.notes);
        assert!(has_note(&search.notes, "limit lies above"), "{:?}", search.notes);
    }
}

#[test]
fn losses_of_the_kernel_are_not_the_rivals() {
    let mut machine = machine([("one", 400_000.0)]);
    machine.receiver_share = 0.9;
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    assert_eq!(report.searches[0].limited_by, LimitedBy::Receiver);
}

#[test]
fn one_that_always_loses_has_no_lower_bound() {
    let mut machine = machine([("one", 100.0)]);
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    let search = &report.searches[0];
    assert_eq!((search.lower_pps, search.limited_by), (None, LimitedBy::Rival));
    assert!(search.upper_pps.is_some_and(|upper| upper <= 1500.0), "{:?}", search.upper_pps);
}

#[test]
fn a_machine_that_changes_is_called_noisy_with_the_difference() {
    let mut machine = machine([("one", 400_000.0)]);
    let (report, _) = found(&mut machine, vec![Find { repeats: Some(1), ..wanted(Wanted::Max) }]);
    assert_eq!(report.searches[0].again, None);
    let first = machine.runs.len();
    machine.runs.clear();
    machine.changes = Some((first, 0.75));
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    let search = &report.searches[0];
    let [again, apart] = search.again.expect("a second search");
    assert!(again < 310_000.0 && (apart - 0.25).abs() < 0.06, "{again} {apart}");
    assert!(has_note(&search.notes, "too noisy: two searches differ by 2"), "{:?}", search.notes);
}

#[test]
fn a_capturer_that_crashes_at_a_rate_is_searched_below_it_and_one_that_never_works_is_abandoned() {
    let mut machine = machine([("one", 9e9)]);
    machine.rivals.insert("one", Ability { crashes_at: 700_000.0, ..machine.rivals["one"] });
    machine.null_pps = 1.5e6;
    let (report, _) = found(&mut machine, vec![Find { repeats: Some(1), ..wanted(Wanted::Max) }]);
    let search = &report.searches[0];
    assert!(has_note(&search.notes, "it failed: segmentation fault"), "{:?}", search.notes);
    machine.rivals.insert("one", Ability { crashes_at: 0.0, ..machine.rivals["one"] });
    machine.runs.clear();
    let (report, ended) = found(&mut machine, vec![wanted(Wanted::Max)]);
    ended.expect("the others continue");
    assert_eq!((report.searches[0].lower_pps, report.searches[0].limited_by), (None, LimitedBy::Unknown));
    assert!(has_note(&report.searches[0].notes, "It fails at any rate"), "{:?}", report.searches[0].notes);
    assert!(machine.runs.len() <= 8, "{} runs of one that does not work", machine.runs.len());
}

#[test]
fn a_trial_that_fits_into_the_buffer_is_called_so() {
    let notes = |buffer_mib| {
        let setting = Setting { buffer_mib, ..Setting::default() };
        let mut machine = machine([("one", 400_000.0)]);
        let (report, _) = found(&mut machine, vec![Find { setting, ..wanted(Wanted::Max) }]);
        (report.searches[0].notes.clone(), report.notes)
    };
    // 3 s of 400 k frames of 64 bytes are 73 MiB.
    assert!(has_note(&notes(Some(256)).0, "fits into the buffer of 256 MiB"));
    assert!(!has_note(&notes(Some(64)).0, "fits into"));
    assert!(has_note(&notes(None).1, "own default") && !has_note(&notes(Some(64)).1, "own default"));
}

#[test]
fn trials_are_as_long_as_there_is_room_for() {
    let mut machine = machine([("one", 400_000.0)]);
    machine.frames_max = Some(1_500_000);
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    let search = &report.searches[0];
    assert!(has_note(&search.notes, "no room for more frames"), "{:?}", search.notes);
    assert!(search.lower_pps.is_some_and(|lower| lower <= 400_000.0 && lower > 370_000.0));
    let goal = search.goal.expect("a goal");
    assert!((goal.final_seconds - 1.0).abs() < 0.01 && (goal.duration_sum_s - 2.0).abs() < 0.02, "{goal:?}");
}

#[test]
fn an_interrupted_search_keeps_what_it_knows() {
    let mut machine = machine([("one", 400_000.0), ("other", 1_000_000.0)]);
    machine.interrupted_after = Some(6);
    let (report, ended) = found(&mut machine, vec![wanted(Wanted::Max), wanted(Wanted::Burst)]);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert_eq!((report.searches.len(), report.bursts.len()), (1, 0));
    assert_eq!(report.searches[0].trials.len(), 5, "one of six was the warm-up");
    assert!(!report.searches[0].regular);
    assert!(has_note(&report.searches[0].notes, "interrupted"), "{:?}", report.searches[0].notes);
    assert_eq!(report.searches[0].again, None);
}

#[test]
fn an_interrupted_second_search_is_not_compared() {
    let mut machine = machine([("one", 400_000.0)]);
    let (_, _) = found(&mut machine, vec![Find { repeats: Some(1), ..wanted(Wanted::Max) }]);
    machine.interrupted_after = Some(machine.runs.len() + 3);
    machine.runs.clear();
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Max)]);
    assert!(report.searches[0].lower_pps.is_some());
    assert_eq!(report.searches[0].again, None);
    assert!(has_note(&report.searches[0].notes, "interrupted"), "{:?}", report.searches[0].notes);
}

#[test]
fn capturers_that_are_absent_or_not_wanted_are_not_searched() {
    let mut machine = machine([("one", 1e5), ("other", 1e5), ("third", 1e5)]);
    let find = Find { rivals: vec!["one".into(), "other".into()], ..wanted(Wanted::Max) };
    let plan = plan(&machine, vec![find]);
    let mut report = report(&plan);
    let absent = Some("not installed".into());
    report.rivals.push(ToolFacts { name: "one".into(), version: None, command: Vec::new(), absent });
    super::find(&plan, &mut machine, &mut report).expect("it ends");
    let names: Vec<_> = report.searches.iter().map(|search| search.rival.as_str()).collect();
    assert_eq!(names, ["other"]);
}

#[test]
fn bursts_tell_a_buffer_and_what_left_it_meanwhile() {
    let mut machine = machine([("one", 600_000.0)]);
    machine.rivals.insert("one", Ability { buffer: 90_000.0, ..machine.rivals["one"] });
    let finds = vec![Find { seconds: 30.0, ..wanted(Wanted::Max) }, wanted(Wanted::Burst)];
    let (report, ended) = found(&mut machine, finds);
    ended.expect("it ends");
    let burst = &report.bursts[0];
    // 90,000 frames are buffered, and 600 k of 1.5 M pps captured: 150,000 frames.
    assert_eq!(burst.frames.len(), 5);
    assert!(burst.frames.iter().all(|frames| (142_000..=150_000).contains(frames)), "{:?}", burst.frames);
    assert_eq!(burst.pps, 1.5e6);
    assert!((burst.buffer_s.expect("a time") - 0.1).abs() < 0.006, "{:?}", burst.buffer_s);
    // 90,000 frames at 1.5 Mpps.
    assert!(
        (burst.buffer_corrected_s.expect("a time") - 0.06).abs() < 0.006,
        "{:?}",
        burst.buffer_corrected_s
    );
}

#[test]
fn a_buffer_that_was_never_full_has_no_size() {
    let mut machine = machine([("one", 9e9)]);
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Burst)]);
    let burst = &report.bursts[0];
    assert!(burst.frames.iter().all(|frames| *frames == burst.frames_max), "{burst:?}");
    assert_eq!((burst.buffer_s, burst.buffer_corrected_s), (None, None));
    assert!(has_note(&burst.notes, "never full"));
    assert_eq!(machine.runs.len(), 5);
}

#[test]
fn a_curve_descends_until_nothing_is_lost() {
    let mut machine = machine([("one", 1_000_000.0), ("other", 1_200_000.0)]);
    let (report, ended) = found(&mut machine, vec![wanted(Wanted::Curve)]);
    ended.expect("it ends");
    let of = |name: &str| report.cases.iter().filter(|case| case.rival == name).collect::<Vec<_>>();
    let (one, other) = (of("one"), of("other"));
    let rates: Vec<_> = one.iter().map(|case| case.pps).collect();
    // First as fast as possible, then the steps of a twentieth of 3 Mpps that can be sent.
    let steps = [1_350_000, 1_200_000, 1_050_000, 900_000, 750_000].map(Some);
    assert_eq!(rates, [&[None], steps.as_slice()].concat());
    assert_eq!(one[0].rate, "as fast as possible");
    assert!((one[0].loss_median.expect("a loss") - 1.0 / 3.0).abs() < 1e-6);
    assert!(one[3].loss_median.expect("a loss") > 0.0);
    assert_eq!(one[4].loss_median, Some(0.0));
    assert_eq!((one[0].limited_by, one[4].limited_by), (LimitedBy::Rival, LimitedBy::Nothing));
    // The same rates for all rivals.
    let rates: Vec<_> = other.iter().map(|case| case.pps).collect();
    assert_eq!(rates, [None, Some(1_350_000), Some(1_200_000), Some(1_050_000)]);
    assert!((one[1].cpu_median.expect("CPU") - 0.25).abs() < 1e-9);
}

#[test]
fn a_rate_that_was_not_reached_is_reported() {
    // The generator sends 3 Mpps alone, 1.5 with a capturer, and 1.2 when paced.
    let mut machine = machine([("one", 1_000_000.0)]);
    machine.paced_pps = 1_200_000.0;
    let (report, _) = found(&mut machine, vec![wanted(Wanted::Curve)]);
    let slow = &report.cases[1];
    assert_eq!((slow.pps, slow.limited_by), (Some(1_350_000), LimitedBy::Rival));
    assert!(has_note(&slow.notes, "Frames arrived at 89 % of the requested rate"), "{:?}", slow.notes);
    assert!(report.cases[3].notes.is_empty(), "{:?}", report.cases[3].notes);
}

#[test]
fn a_curve_that_is_interrupted_keeps_its_points() {
    let mut machine = machine([("one", 1_000_000.0)]);
    machine.interrupted_after = Some(5);
    let (report, ended) = found(&mut machine, vec![Find { repeats: Some(2), ..wanted(Wanted::Curve) }]);
    assert!(matches!(ended, Err(Error::Interrupted)));
    let runs: Vec<_> = report.cases.iter().map(|case| case.runs.len()).collect();
    assert_eq!(runs, [2, 2, 1]);
    assert_eq!(report.cases[0].runs[1].round, 2);
}
