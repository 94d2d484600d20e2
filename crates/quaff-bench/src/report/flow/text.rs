//! The sentences of a report on flow meters.

use crate::flow::result::{FlowCase, Report};
use crate::report::document::sentences;
use quaff::format::{count, percent, significant, span};
use quaff::tally::Verdict;

/// A rate of flows: "50 kflows/s".
pub(super) fn flow_rate(fps: f64) -> String {
    match fps {
        fps if fps >= 1e6 => format!("{} Mflows/s", significant(fps / 1e6)),
        fps if fps >= 1e3 => format!("{} kflows/s", significant(fps / 1e3)),
        fps => format!("{} flows/s", significant(fps)),
    }
}

/// The requested rate of a case.
pub(super) fn asked(case: &FlowCase) -> String {
    case.fps.map_or_else(|| "a file".into(), flow_rate)
}

/// The verdict as in `result.json`.
pub(super) fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Lossless => "lossless",
        Verdict::Lossy => "lossy",
        Verdict::Unknown => "unknown",
    }
}

/// The result in one line: the highest loss of each meter. `None` without a case.
pub(super) fn headline(report: &Report) -> Option<String> {
    let worst = |name: &str| {
        let cases = report.cases.iter().filter(|case| case.meter == name && !case.runs.is_empty());
        cases.max_by(|a, b| rank(a).total_cmp(&rank(b)))
    };
    let words = |name: &str| Some(format!("{name} {}", lost_words(worst(name)?)));
    let all: Vec<String> = report.plan.meters.iter().filter_map(|name| words(name)).collect();
    (!all.is_empty()).then(|| format!("Packets lost at most: {}", all.join("; ")))
}

/// A rank that is higher for a worse case.
fn rank(case: &FlowCase) -> f64 {
    match (case.verdict, case.loss_median) {
        (Verdict::Lossless, _) => -1.0,
        (_, Some(loss)) => loss,
        (_, None) => 2.0,
    }
}

fn lost_words(case: &FlowCase) -> String {
    match (case.verdict, case.loss_median) {
        (Verdict::Lossless, _) => "none".into(),
        (_, None) => format!("failed at {}", asked(case)),
        (Verdict::Unknown, Some(loss)) => format!("unknown, {} missing at {}", percent(loss), asked(case)),
        (Verdict::Lossy, Some(loss)) => format!("{} at {}", percent(loss), asked(case)),
    }
}

pub(super) fn findings(report: &Report) -> Vec<String> {
    let speed = |name: &str| {
        let case = report.files.iter().find(|case| case.meter == name)?;
        case.pps_median
    };
    let ours = speed("quaff");
    let others = report.plan.meters.iter().filter(|name| *name != "quaff");
    let ratios: Vec<String> =
        others.filter_map(|name| Some(format!("{} × {name}", significant(ours? / speed(name)?)))).collect();
    let from_file = (!ratios.is_empty())
        .then(|| format!("From a file, packets/s of quaff on one core: {}.", ratios.join(", ")));
    from_file.into_iter().collect()
}

/// Warnings for readers who cite figures.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    if report.interrupted {
        out.push(
            "It was interrupted: what had been measured until then is shown, the rest is missing.".into(),
        );
    }
    out.extend(report.plan.notes.iter().chain(&report.notes).cloned());
    for facts in &report.meters {
        out.extend(facts.absent.as_ref().map(|why| format!("{} was skipped: {why}", facts.name)));
        let remark = Some(&facts.remark).filter(|remark| !remark.is_empty() && facts.absent.is_none());
        out.extend(remark.map(|remark| format!("{}: {remark}", facts.name)));
    }
    for case in report.cases.iter().chain(&report.files) {
        let about = format!("{}, {}", case.meter, asked(case));
        let mut failures: Vec<&String> = case.runs.iter().filter_map(|run| run.failed.as_ref()).collect();
        failures.dedup();
        out.extend(failures.into_iter().map(|why| format!("{about}: failed: {why}")));
        let dropped: u64 = case.runs.iter().map(|run| run.collector_dropped).sum();
        if dropped > 0 {
            let dropped = count(dropped);
            out.push(format!(
                "{about}: the collector missed {dropped} datagrams, so the meter's loss is not known"
            ));
        }
        let undecoded: u64 = case.runs.iter().map(|run| run.undecoded).sum();
        if undecoded > 0 {
            out.push(format!(
                "{about}: {} sets of records had no template, or could not be decoded",
                count(undecoded)
            ));
        }
        if case.runs.iter().any(|run| run.failed.is_none() && run.packets > run.sent.packets) {
            out.push(format!("{about}: more packets were reported than were sent"));
        }
    }
    sentences(&out)
}

/// The description of the method.
pub(super) fn method(report: &Report) -> Vec<String> {
    let plan = &report.plan;
    let traffic = report.traffic.as_ref().map(|traffic| {
        let load = traffic.load;
        format!(
            "Traffic: {}; one pass has {} frames, of them {} IP packets of {} bytes in {} flows, each direction counted. \
             Each pass has addresses of its own, and whole passes are sent.",
            traffic.name,
            count(load.frames),
            count(load.packets),
            count(load.bytes),
            count(load.flows)
        )
    });
    let mut out: Vec<String> = traffic.into_iter().collect();
    out.extend(
        [
            "A lab of network namespaces that the bench makes: the generator and the collector on one core, the meter on \
             the other. Frames arrive on the meter's interface as from the wire.",
            "Reported is what the collector received: it keeps every datagram and decodes them when the meter has ended, \
             NetFlow and IPFIX with a library that shares nothing with quaff. No meter's printout is used.",
            "Lossless: every packet that was sent is in a record. Lossy: packets are missing, and the collector missed no \
             datagram. Unknown: anything else.",
            "CPU time is that of all processes of a meter, from the first frame to their end; of a file, all of it.",
        ]
        .map(String::from),
    );
    out.push(format!(
        "As far as they let it be set, all meters have an active timeout of {} s, an idle timeout of {} s, room for {} \
         flows and a buffer of {} MiB.",
        plan.active_s,
        plan.idle_s,
        count(plan.flows_max),
        plan.buffer_mib
    ));
    let runs = if plan.runs == 1 { "One round".into() } else { format!("{} rounds", plan.runs) };
    out.push(format!(
        "{runs}, in each of them every case once, in random order; in {}.",
        span(report.seconds)
    ));
    out
}

/// Index of a meter's colour and sign.
pub(super) fn style(report: &Report, meter: &str) -> usize {
    report.plan.meters.iter().position(|name| name == meter).unwrap_or(0)
}
