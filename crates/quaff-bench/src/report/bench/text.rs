//! The sentences of a bench's report.

use super::cells::{loss, lost_words, worst};
use super::points;
use super::tables;
use super::view::{View, can_lose, distinct, failure, is_line, is_lossless, is_own_word};
use crate::bench::plan::Topology;
use crate::bench::result::{Case, LimitedBy, Report, Search};
use crate::report::document::sentences;
use quaff::format::{count, rate, significant, span};

/// Maximum number of capturers in the headline after the first.
const HEADLINE_OTHERS: usize = 3;

/// The result in one line: quaff's loss, then that of the others, the highest first. `None` if no case can show loss.
pub(super) fn headline(view: &View) -> Option<String> {
    if is_line(view) {
        return points::headline(view);
    }
    let names = view.names.iter().copied();
    let mut all: Vec<(&str, Option<&Case>)> =
        names.filter_map(|name| Some((name, worst(view.cases_of(name))?))).collect();
    if all.len() > 1 && all.iter().all(|(_, worst)| worst.is_none()) {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        return Some(format!("None of {} lost a frame", names.join(", ")));
    }
    let rank = |worst: &Option<&Case>| worst.map_or(-1.0, loss);
    all.sort_by(|a, b| (b.0 == "quaff").cmp(&(a.0 == "quaff")).then(rank(&b.1).total_cmp(&rank(&a.1))));
    let ((first, worst), others) = all.split_first()?;
    let beside: Vec<String> = others
        .iter()
        .take(HEADLINE_OTHERS)
        .map(|(name, worst)| format!("{name} {}", lost_words(*worst)))
        .chain(others.len().checked_sub(HEADLINE_OTHERS + 1).map(|more| format!("and {} more", more + 1)))
        .collect();
    let beside = if beside.is_empty() { String::new() } else { format!("; {}", beside.join(", ")) };
    Some(format!("{first} lost {}{beside}", lost_words(*worst)))
}

pub(super) fn findings(view: &View) -> Vec<String> {
    let mut of: Vec<(&str, Vec<&Case>)> = view
        .names
        .iter()
        .map(|name| (*name, view.cases_of(name).filter(|case| can_lose(case)).collect()))
        .collect();
    of.retain(|(_, cases)| !cases.is_empty());
    let share =
        |cases: &[&Case]| cases.iter().filter(|case| is_lossless(case)).count() as f64 / cases.len() as f64;
    of.sort_by(|a, b| share(&b.1).total_cmp(&share(&a.1)));
    let mut out = Vec::new();
    if !of.is_empty() {
        let words: Vec<String> =
            of.iter().map(|(name, cases)| format!("{name} in {}", tables::none_lost_words(cases))).collect();
        out.push(format!("Cases in which not one frame was lost, in any run: {}.", words.join(", ")));
    }
    let frames = distinct(view.report.searches.iter().map(tables::found));
    out.extend(frames.iter().filter_map(|frames| search_finding(view.report, frames)));
    out
}

/// The best capturer at one frame size, and the distance of the next one.
fn search_finding(report: &Report, frames: &str) -> Option<String> {
    let here = report.searches.iter().filter(|search| tables::found(search) == frames);
    let mut found: Vec<&Search> =
        here.filter(|search| search.lower_pps.is_some_and(|pps| pps > 0.0)).collect();
    found.sort_by(|a, b| b.lower_pps.unwrap_or(0.0).total_cmp(&a.lower_pps.unwrap_or(0.0)));
    // Capturers that the generator limited are not ranked among themselves.
    let (limited, rest): (Vec<&Search>, Vec<&Search>) =
        found.into_iter().partition(|search| search.limited_by == LimitedBy::Generator);
    let begin = format!("Highest rate without loss at {frames}:");
    let next = |most: f64, least: &str| {
        let behind = rest.iter().find(|search| search.lower_pps.unwrap_or(0.0) < most)?;
        let pps = behind.lower_pps?;
        let ratio = significant(most / pps);
        Some(format!(", {least}{ratio} × that of {} ({})", behind.rival, rate(pps)))
    };
    if let Some(least) = limited.iter().filter_map(|search| search.lower_pps).reduce(f64::min) {
        let names: Vec<&str> = limited.iter().map(|search| search.rival.as_str()).collect();
        let names = names.join(", ");
        let beside = next(least, "at least ").unwrap_or_default();
        return Some(format!("{begin} {names} at the generator's limit, {}{beside}.", rate(least)));
    }
    let best = rest.first()?;
    let beside = best.lower_pps.and_then(|most| next(most, "")).unwrap_or_default();
    Some(format!("{begin} {} with {}{beside}.", best.rival, tables::highest_words(best)))
}

/// More notes on single cases than this are folded.
const REMARKS_MAX: usize = 8;

/// Warnings for readers who cite figures; notes on single cases go under a title if there are many.
pub(super) fn warnings(view: &View) -> (Vec<String>, Option<(String, Vec<String>)>) {
    let report = view.report;
    let mut out = Vec::new();
    if report.interrupted {
        out.push(
            "It was interrupted: what had been measured until then is shown, the rest is missing.".into(),
        );
    }
    out.extend(notes(report));
    let mut single = Vec::new();
    for case in &report.cases {
        let who = || format!("{}, {}", case.rival, view.workload(case));
        let failed = case.runs.iter().filter(|run| run.failed.is_some()).count();
        if let Some(why) = failure(case) {
            out.push(format!("{}: {failed} of {} runs failed: {why}", who(), case.runs.len()));
        }
        single.extend(case.notes.iter().map(|note| format!("{}: {note}", who())));
    }
    if single.len() <= REMARKS_MAX {
        out.append(&mut single);
    }
    for search in &report.searches {
        let who = || format!("{}, search at {}", search.rival, tables::found(search));
        out.extend(search.notes.iter().map(|note| format!("{}: {note}", who())));
    }
    for burst in &report.bursts {
        let who = || format!("{}, bursts of {} B", burst.rival, burst.size);
        out.extend(burst.notes.iter().map(|note| format!("{}: {note}", who())));
    }
    let title =
        format!("{} remarks on single cases: rates that were not reached, runs that differ", single.len());
    (sentences(&out), (!single.is_empty()).then(|| (title, sentences(&single))))
}

/// Capturers that were skipped, and notes on the whole bench.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let absent = report.rivals.iter().filter_map(|rival| Some((&rival.name, rival.absent.as_ref()?)));
    let absent = absent.map(|(name, why)| format!("{name} was skipped: {why}"));
    absent.chain(report.plan.notes.iter().chain(&report.notes).cloned()).collect()
}

/// The description of the method, general and specific to this bench.
pub(super) fn method(report: &Report) -> Vec<String> {
    let plan = &report.plan;
    let bed = match &plan.bed {
        Topology::Direct => {
            "Frames arrive straight on the capturer's interface, in a namespace of its own.".into()
        }
        Topology::Span => {
            "Two endpoints talk through a bridge; a mirror of the port feeds the capturer.".into()
        }
        Topology::Tap => {
            "Two endpoints talk through a forwarder that copies both directions to the capturer.".into()
        }
        Topology::Line { mirror_mbps } => format!(
            "A line between two endpoints, captured at three points, each in a lab of its own. Port: an endpoint receives \
             all frames. SPAN: half of the frames come from each endpoint, and a switch copies both directions to a mirror \
             port of {mirror_mbps} Mbit/s (with preamble, FCS and gap), which drops what that rate cannot carry. Tap: \
             half from each endpoint, and the capturer itself is the line between them."
        ),
        Topology::Real { send_on, receive_on, sender } => {
            let from = sender.as_ref().map(|host| format!(" of {host}")).unwrap_or_default();
            format!("Frames leave on {send_on}{from} and arrive on {}.", receive_on.join(", "))
        }
    };
    let counted_at = match &plan.bed {
        Topology::Line { .. } => "where it comes on the line, by the two ports there",
        _ => "at the receiving interface",
    };
    vec![
        bed,
        format!("What was offered is counted {counted_at}. Lost = (offered − captured) / offered."),
        counted(report),
        format!(
            "Each case ran {} times, in rounds: every case once, in an order drawn from the seed {}, then again. What was \
             run to warm up is not counted.",
            plan.runs, plan.seed
        ),
        "The loss that stands for a case is the mean of its runs without the best and the worst; its median, both \
         ends of its spread and every run stand beside it."
            .into(),
        "A capturer's own drop counter is taken for no more than its word. It is judged run by run, and is right within \
         1 % of what was lost, or three frames; where nothing was counted it is not judged."
            .into(),
        "CPU is the user and system time of the capturer's processes from the first frame until they have ended, what \
         they still write included, for each second of traffic: of a slow writer it may be more than a core. Soft \
         interrupts are those of all cores, the generator's share with them."
            .into(),
        "The generator ran first without a capturer. Where it was slower than asked, a result without loss says \
         nothing about the rate that was asked; it is drawn hollow and never called a maximum."
            .into(),
        "Sizes of frames are without the 4 bytes of FCS.".into(),
        format!(
            "{} runs of {} cases in {}.",
            count(report.cases.iter().map(|case| case.runs.len() as u64).sum()),
            count(report.cases.len() as u64),
            span(report.seconds)
        ),
    ]
}

/// Describes how captured frames were counted.
fn counted(report: &Report) -> String {
    let counted: Vec<&Case> = report.cases.iter().filter(|case| can_lose(case)).collect();
    let own = counted.iter().filter(|case| is_own_word(case)).count();
    let rest = "captured packets are counted by us, in the file that the capturer wrote, or at the other end of its pipe or screen";
    match own {
        0 => format!("In every case {rest}."),
        own if own == counted.len() => {
            "Nothing was kept: in every case captured packets are the capturer's own count, and could not be checked.".into()
        }
        own => format!(
            "In {own} of {} cases nothing was kept: captured packets are the capturer's own count there, and could not be \
             checked. In the others {rest}.",
            counted.len()
        ),
    }
}
