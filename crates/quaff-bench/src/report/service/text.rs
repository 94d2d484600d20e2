//! The sentences of a service test's report.

use super::view::{View, share_bare};
use crate::report::document::sentences;
use crate::service::plan::{Path, Routed, Ways};
use crate::service::result::Report;
use quaff::format::{count, delay, rate, span};

/// The result in one line, without the verdict.
pub(super) fn headline(view: &View) -> String {
    let report = view.report;
    let steps = report.configuration.iter().flat_map(|step| &step.checks);
    let checks: Vec<_> = steps.chain(report.performance.iter().flat_map(|line| &line.checks)).collect();
    let failed = checks.iter().filter(|check| !check.passed).count();
    let (held, all, path) = (checks.len() - failed, checks.len(), view.path());
    match (report.passed, all) {
        (Some(true), _) => format!("all {all} limits held, over {path}"),
        (Some(false), _) => format!("{failed} of {all} limits did not hold, over {path}"),
        (None, 0) => format!("frames went over {path}; nothing was judged"),
        (None, _) => format!("{held} of the {all} limits that could be judged held, over {path}"),
    }
}

/// The findings, in a few sentences; the verdict first.
pub(super) fn findings(view: &View) -> Vec<String> {
    let words = headline(view);
    let first = match view.report.passed {
        Some(true) => format!("Passed: {words}."),
        Some(false) => format!("Failed: {words}."),
        None if words.starts_with("frames") => format!("F{}.", &words[1..]),
        None => format!("Not all was judged: {words}."),
    };
    [first].into_iter().chain(details(view)).collect()
}

/// The findings beside the headline.
pub(super) fn details(view: &View) -> Vec<String> {
    let null = view.report.null.as_ref().map(|null| {
        format!(
            "Over nothing but a link the instrument alone shows a delay of {} (median), up to {}.",
            delay(null.delay_ms[3]),
            delay(null.delay_ms[2])
        )
    });
    outages(view).into_iter().chain(null).collect()
}

/// Services that were not available all the time.
fn outages(view: &View) -> Vec<String> {
    let out = view.report.performance.iter().filter(|line| line.figures.unavailable_s > 0).map(|line| {
        let (who, figures) = (view.with_way(&line.service, line.way), &line.figures);
        let share = figures.availability.map(|share| format!(", {} % available", share_bare(share)));
        let lost = match figures.unavailable[1] {
            0 => String::new(),
            lost => format!("; {} frames were lost meanwhile", count(lost)),
        };
        let (share, seconds) = (share.unwrap_or_default(), figures.unavailable_s);
        format!("{who}, run {}: unavailable for {seconds} s{share}{lost}.", line.run)
    });
    out.collect()
}

/// Notes of a test, each once, with the sizes that it is about.
fn noted<'a>(test: &str, all: impl Iterator<Item = (String, &'a [String])>) -> Vec<String> {
    let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
    for (who, said) in all {
        for note in said {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, sizes)) => sizes.push(who.clone()),
                None => notes.push((note.as_str(), vec![who.clone()])),
            }
        }
    }
    notes.into_iter().map(|(note, sizes)| format!("{test}, {}: {note}", sizes.join("; "))).collect()
}

/// Warnings for a reader who cites a number.
pub(super) fn warnings(view: &View) -> Vec<String> {
    let report = view.report;
    let mut out = Vec::new();
    if report.interrupted {
        out.push(
            "It was interrupted: what had been measured until then is shown, the rest is missing.".into(),
        );
    }
    out.extend(report.unjudged.iter().map(|what| format!("Not judged: {what}")));
    if report.null.is_none() {
        out.push("The instrument alone was not measured: what it adds to delays is not known".into());
    }
    // What was not judged is among the notes as well.
    let notes = report.plan.notes.iter().chain(&report.notes);
    out.extend(notes.filter(|note| !report.unjudged.contains(note)).cloned());
    let found = report.throughput.iter().map(|found| (view.sized(found.size, found.way), &found.notes[..]));
    out.extend(noted("Throughput", found));
    let found = report.recovery.iter().map(|found| (view.sized(found.size, found.way), &found.notes[..]));
    out.extend(noted("Recovery", found));
    sentences(&out)
}

/// The method, in sentences that hold for every test, and those that hold for this one.
pub(super) fn method(view: &View) -> Vec<String> {
    let report = view.report;
    let mut out = vec![path(view)];
    out.push(match report.plan.ways {
        Ways::There => "Frames went one way.".into(),
        Ways::Both => "Frames went both ways at the same time; each way has its own verdict.".into(),
    });
    out.extend(
        [
            "Every frame carries its stream, its number and the time at which it was sent. Lost is what was sent and did not \
             arrive within the time that a trial waits for it; sent = received + lost, frame by frame.",
            "The time of sending is read just before the call that sends; the time of receiving is the kernel's, or the \
             card's if the facts of the machine name it. With both ends on one machine there is one clock.",
            "Latency is the time from just before the call that sends a frame to the kernel's time of receiving it; the frame's \
             own time on the line is in it, so it is neither of RFC 1242's two, which only hardware tells apart.",
            "What the meter itself missed is no loss of the path: it is counted apart, and makes a note.",
            "Sizes of frames are with the 4 bytes of FCS. Rates in Mbit/s are of frames with FCS (layer 2); shares of the \
             line are of layer 1, with preamble and gap.",
        ]
        .map(String::from),
    );
    if !report.performance.is_empty() {
        out.push(
            "A second in which more than half of the frames were lost is severely errored; ten of them in a row begin an \
             unavailable time, ten others end it (Y.1563). Loss, delay and variation are those of available seconds."
                .into(),
        );
    }
    if !report.throughput.is_empty() {
        let line = "A rate that only the line or the instrument limited is a lower bound of the path's, and is called so.";
        out.push(line.into());
    }
    out.extend(report.null.as_ref().and_then(|null| {
        let most: Vec<String> =
            null.max_pps.iter().map(|(size, pps)| format!("{} at {size} B", rate(*pps))).collect();
        let words =
            || format!("The instrument alone sends and receives without loss up to {}.", most.join(", "));
        (!most.is_empty()).then(words)
    }));
    let runs = report.plan.runs;
    let times = if runs == 1 { "Once".into() } else { format!("{runs} runs") };
    out.push(format!("{times}, in {}.", span(report.seconds)));
    out
}

fn path(view: &View) -> String {
    match &view.report.plan.path {
        Path::Link => "Two ends in namespaces of their own, joined by nothing but a link.".into(),
        Path::Bridge => "Two ends in namespaces of their own, joined by a bridge.".into(),
        Path::Tap if !view.report.tap.is_empty() => {
            "Two ends in namespaces of their own, and between them 'quaff tap', whose \
             kernel redirect forwards the frames while its recorder writes them to a disk."
                .into()
        }
        Path::Tap => {
            "Two ends in namespaces of their own, and between them a tap that shows both directions to a \
                      third."
                .into()
        }
        Path::Router => {
            "Two ends in namespaces of their own, and between them a router, the kernel's own.".into()
        }
        Path::Between { routed: Some(routed), .. } => {
            let Routed { from, to } = routed;
            format!(
                "Between interfaces that were there: {}, through a router: {} by {}, {} by {}.",
                view.path(),
                from.ip,
                from.gateway,
                to.ip,
                to.gateway
            )
        }
        Path::Between { .. } => format!("Between interfaces that were there: {}.", view.path()),
    }
}

/// The overall verdict: its class (`pass`, `fail`, `open`, `none`) and its text.
pub(super) fn banner(report: &Report) -> [&'static str; 2] {
    let steps = report.configuration.iter().map(|step| &step.checks);
    let mut checks = steps.chain(report.performance.iter().map(|line| &line.checks));
    let is_judged = checks.any(|checks| !checks.is_empty()) || !report.unjudged.is_empty();
    match report.passed {
        Some(false) => ["fail", "✗ Failed"],
        _ if report.interrupted => ["open", "Interrupted"],
        Some(true) => ["pass", "✓ Passed"],
        None if is_judged => ["open", "Not all was judged"],
        None => ["none", "Measured"],
    }
}
