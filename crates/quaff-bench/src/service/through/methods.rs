//! Whole service tests over an impaired link with known rules.

use super::Bed;
use crate::experiment::{self, PlanFile as _};
use crate::service::plan::{Plan, Test};
use crate::service::result::{Report, Throughput};
use crate::service::{Context, Events, run};
use crate::testing::turn;
use crate::trial::PathEnd;
use quaff_lab::LabPlan;
use quaff_os::testing::assert_when_quiet;
use quaff_testkit::impaired_link::{Bucket, Outage, Rules};
use quaff_testkit::lab_of;
use std::time::Duration;

struct Quiet;

impl experiment::Events<Report> for Quiet {}

impl Events for Quiet {}

/// A plan from TOML: `what` has the plan's top-level keys and its tests.
fn plan(bed: &Bed, what: &str, services: &str) -> Plan {
    let [from, to] = bed.ends().map(|PathEnd { netns, interface }| {
        format!("{{ netns = {:?}, interface = {interface:?} }}", netns.expect("a namespace"))
    });
    let text = format!(
        "name = \"custom\"\ntitle = \"through a device\"\n{what}\n[path.between]\nfrom = {from}\nto = {to}\n{services}"
    );
    toml::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn report(bed: &Bed, plan: &Plan) -> Report {
    let context = Context { null: Some(bed.null()), ..Context::default() };
    run(plan, &context, &mut Quiet).expect("a report")
}

/// The seconds of a run, from an outage that begins after two of them and lasts `outage_s`, to `after_s` good ones.
struct OutageRun {
    outage_s: u64,
    after_s: u64,
    /// The unavailable seconds: the outage, and what follows it until ten good seconds.
    unavailable: std::ops::Range<u64>,
}

/// Ten consecutive seconds make it unavailable (Y.1564), and a good one alone does not make it available again.
#[test]
fn an_outage_of_ten_seconds_is_unavailable_from_the_first() {
    let test = "an_outage_of_ten_seconds_is_unavailable_from_the_first";
    assert_unavailable(test, OutageRun { outage_s: 10, after_s: 1, unavailable: 2..13 });
}

#[test]
#[ignore = "half a minute: make soak"]
fn an_outage_of_twelve_seconds_is_unavailable_for_twelve_seconds() {
    let test = "an_outage_of_twelve_seconds_is_unavailable_for_twelve_seconds";
    assert_unavailable(test, OutageRun { outage_s: 12, after_s: 11, unavailable: 2..14 });
}

fn assert_unavailable(test: &str, outage_run: OutageRun) {
    const BEFORE_S: u64 = 2;
    let OutageRun { outage_s, after_s, unavailable } = outage_run;
    let Some(bed) = Bed::new(test) else { return };
    let seconds = BEFORE_S + outage_s + after_s;
    // One frame every half millisecond; the outage starts between two of them.
    let plan = plan(
        &bed,
        &format!("tests = [{{ performance = {{ seconds = {seconds}.0 }} }}]"),
        "[[services]]\nname = \"Data\"\nsizes = [500]\ncir_mbps = 8.0\n\
         limits = { loss_ratio = 0.001, availability = 0.9, delay_ms = 10.0 }\n",
    );
    let after = Duration::from_secs(BEFORE_S) - Duration::from_micros(250);
    let outage = Outage { after, lasts: Duration::from_secs(outage_s) };
    let rules = Rules { outage: Some(outage), hold: Duration::from_millis(1), ..Rules::default() };
    let run = || {
        let (report, counts) = bed.with(rules.clone(), || report(&bed, &plan));
        let [line] = &report.performance[..] else { panic!("one line: {report:?}") };
        let available: Vec<_> = line.seconds.iter().map(|second| second.available).collect();
        (available, line.figures.clone(), line.checks.clone(), counts)
    };
    let expected: Vec<_> = (0..seconds).map(|second| !unavailable.contains(&second)).collect();
    let unavailable_s = unavailable.end - unavailable.start;
    let share = 1.0 - unavailable_s as f64 / seconds as f64;
    assert_when_quiet(test, run, |(available, figures, checks, _)| {
        let passed = |what: &str| checks.iter().find(|check| check.what == what).map(|check| check.passed);
        available[..expected.len().min(available.len())] == expected
            && figures.unavailable_s == unavailable_s
            && figures.availability.is_some_and(|found| (found - share).abs() < 1e-9)
            // Frames lost in the outage are not counted as loss; the outage itself is. The clocks of the device and the
            // sender may differ by one frame at each end.
            && figures.lost <= 2
            && (passed("FLR"), passed("AVAIL")) == (Some(true), Some(false))
    });
}

#[test]
fn a_report_names_what_the_path_did() {
    let Some(bed) = Bed::new("a_report_names_what_the_path_did") else { return };
    let plan = plan(
        &bed,
        "tests = [{ performance = { seconds = 2.0 } }]",
        "[[services]]\nname = \"Data\"\nsizes = [500]\ncir_mbps = 8.0\n\
         limits = { loss_ratio = 0.05, delay_ms = 10.0, availability = 1.0 }\n",
    );
    let hold_ms = 3.0;
    // The frames of the path check come before the first one that a rule affects.
    let rules = Rules {
        drop_every: 50,
        duplicate_every: 199,
        delay_every: 401,
        delay: Duration::from_millis(10),
        hold: Duration::from_micros((hold_ms * 1000.0) as u64),
        ..Rules::default()
    };
    let run = || {
        let (report, counts) = bed.with(rules.clone(), || report(&bed, &plan));
        let [line] = &report.performance[..] else { panic!("one line: {report:?}") };
        let figures = &line.figures;
        assert_eq!(figures.lost, counts.dropped, "{figures:?} {counts:?}");
        assert_eq!(
            (figures.duplicates, figures.reordered),
            (counts.duplicated, counts.delayed),
            "{figures:?}"
        );
        assert!(
            figures.sent < counts.received && figures.sent + 100 > counts.received,
            "{figures:?} {counts:?}"
        );
        let null_ms = report.null.as_ref().expect("a bare link").delay_ms;
        let least_ms = figures.delay_ms.expect("something arrived")[0];
        assert!(least_ms >= hold_ms, "a frame came before it was let go: {figures:?}");
        (least_ms, null_ms, line.checks.clone())
    };
    // The minimum of thousands of delays excludes lateness of the device and the machine.
    assert_when_quiet("a_report_names_what_the_path_did", run, |(least_ms, null_ms, checks)| {
        (least_ms - hold_ms - null_ms[0]).abs() <= 0.02 && checks.iter().all(|check| check.passed)
    });
}

/// Searches the throughput of a device with a token bucket of `pps` frames/s.
fn search(bed: &Bed, method: &str, seconds: f64, width: f64, pps: u64) -> (Throughput, Report) {
    let what = format!(
        "link_mbps = 200.0\ntests = [{{ throughput = {{ sizes = [512], method = {method:?}, seconds = {seconds:?}, \
         width = {width:?} }} }}]"
    );
    let plan = plan(bed, &what, "");
    // The bucket's burst exceeds what the sender ever catches up on.
    let rules = Rules { bucket: Some(Bucket { pps, burst: SPARE, queue: SPARE }), ..Rules::default() };
    let (report, _) = bed.with(rules, || report(bed, &plan));
    assert_eq!(report.throughput.len(), 1, "{report:#?}");
    (report.throughput[0].clone(), report)
}

const SPARE: u64 = 20;
/// Searches until one is ended by the path, at most.
const SEARCHES_MAX: u32 = 3;

/// Highest rate that a path of this rate passes in a trial of `seconds`, frames/s: the spare burst matters most in the
/// shortest one.
fn most_pps(pps: u64, seconds: f64) -> f64 {
    pps as f64 + 2.0 * SPARE as f64 / seconds
}

/// True if the rate is between the bounds, and they are as close as requested. The shortest trial takes `seconds`.
fn is_right(found: &Throughput, width: f64, pps: u64, seconds: f64) -> bool {
    let (Some(lower), Some(upper)) = (found.pps, found.upper_pps) else { return false };
    found.regular
        && lower <= most_pps(pps, seconds)
        && upper > pps as f64 * 0.999
        && (upper - lower) / upper <= width
}

#[test]
fn a_search_ends_at_the_rate_of_the_path() {
    let Some(bed) = Bed::new("a_search_ends_at_the_rate_of_the_path") else { return };
    let (pps, seconds, width) = (20_000, 0.5, 0.1);
    let one = |_| {
        let (found, report) = search(&bed, "rfc2544", seconds, width, pps);
        assert!(
            found.pps.is_none_or(|rate| rate <= most_pps(pps, seconds)),
            "faster than the path: {found:?}"
        );
        (found, report.notes)
    };
    // A search that the instrument ended, by its own note, is none of the path.
    let is_of_path = |found: &Throughput| found.notes.iter().all(|note| !note.contains("it is the limit"));
    // Where the cores are not free, the instrument may end them all.
    let run = || {
        let mut searches = (0..SEARCHES_MAX).map(one);
        searches.find(|(found, _)| is_of_path(found) || is_right(found, width, pps, seconds))
    };
    assert_when_quiet("a_search_ends_at_the_rate_of_the_path", run, |ended| {
        ended.as_ref().is_some_and(|(found, _)| is_right(found, width, pps, seconds))
    });
}

#[test]
#[ignore = "some minutes: make soak"]
#[allow(clippy::print_stderr, reason = "what was measured is worth knowing")]
fn five_searches_of_five_end_at_the_rate_of_the_path_by_either_method() {
    let test = "five_searches_of_five_end_at_the_rate_of_the_path_by_either_method";
    let Some(bed) = Bed::new(test) else { return };
    for method in ["rfc2544", "mlr"] {
        for (round, pps) in (1..).zip([20_000, 31_000, 12_345, 20_000, 25_000]) {
            let (found, report) = search(&bed, method, 2.0, 0.02, pps);
            eprintln!("{method} {round}: {pps} found between {:?} and {:?}", found.pps, found.upper_pps);
            // The first trials of a search take half the time.
            assert!(is_right(&found, 0.02, pps, 1.0), "{found:#?} {:#?}", report.notes);
        }
    }
}

#[test]
#[ignore = "some minutes: make soak"]
#[allow(clippy::print_stderr, reason = "what was measured is worth knowing")]
fn all_short_profiles_together_take_less_than_ten_minutes() {
    let _turn = turn();
    let test = "all_short_profiles_together_take_less_than_ten_minutes";
    if lab_of(test, &LabPlan::default()).is_none() {
        return;
    }
    let mut seconds = 0.0;
    for (name, ..) in Plan::PRESETS {
        let plan = Plan::preset(name, true).expect("a preset");
        let report = run(&plan, &Context::default(), &mut Quiet).expect("a report");
        eprintln!(
            "{name} over {:?}: {:.0} s, passed {:?}\n{:#?}",
            plan.path, report.seconds, report.passed, report.notes
        );
        seconds += report.seconds;
        for test in &plan.tests {
            let rows = match test {
                Test::Throughput { .. } => report.throughput.len(),
                Test::Latency { .. } => report.latency.len(),
                Test::FrameLoss { .. } => report.frame_loss.len(),
                Test::BackToBack { .. } => report.back_to_back.len(),
                Test::Recovery { .. } => report.recovery.len(),
                Test::Configuration { .. } => report.configuration.len(),
                Test::Performance { .. } => report.performance.len(),
            };
            assert!(rows > 0, "{name}: {test:?}: {report:#?}");
        }
    }
    assert!(seconds < 600.0, "{seconds} s");
}
