//! The evidence of TCP in the report of `quaff verify`, as text.

use super::words::{line, row};
use crate::show;
use quaff::format::percent_fine;
use quaff_file::verify::{Injected, Tcp};
use quaff_stream::loss::{Interval, LossReport};
use std::fmt::{Result, Write};

/// Longest interval that is named as the worst, ns: of any capture, and of one that has packets in each interval.
/// Unrelated files that are read together have none between them.
const WORST_NS_MAX: u64 = 3_600_000_000_000;
const WORST_NS_MAX_WHOLE: u64 = 24 * WORST_NS_MAX;

/// Prints the evidence, if there are TCP connections.
pub(super) fn print(out: &mut impl Write, tcp: &Tcp) -> Result {
    let loss = &tcp.loss;
    if loss.flows > 0 {
        row(out, "tcp flows", loss.flows, &flow_words(loss))?;
        if let Some(words) = loss_words(loss) {
            row(out, "tcp lost", loss.supported(loss.acked_unseen_packets_estimate), &words)?;
        }
        if let Some(interval) = worst(loss) {
            line(out, "  worst", &worst_words(loss, interval))?;
        }
        if loss.syns_unseen > 0 {
            let words = "without SYN or SYN-ACK, although both ends continued after it";
            row(out, "handshakes", loss.syns_unseen, words)?;
        }
        line(out, "network", &network_words(loss))?;
        let aside = aside_words(loss);
        if !aside.is_empty() {
            line(out, "set aside", &aside)?;
        }
        let unjudged = loss.one_sided + loss.midstream;
        if unjudged > 0 {
            line(out, "streams", &stream_words(unjudged))?;
        }
        line(out, "others", &other_words(loss))?;
    }
    match &tcp.injected {
        Some(injected) => line(out, "injected", &injected_words(injected, loss)),
        None => Ok(()),
    }
}

pub(super) fn flow_words(loss: &LossReport) -> String {
    let parts = [
        (loss.one_sided, "directions captured in part"),
        (loss.midstream, "directions without captured SYN"),
        (loss.one_way, "connections of which one direction is not in the capture"),
        (loss.set_aside, "set aside: fragments, cut headers, or times that go back"),
        (loss.evicted, "ended early because the table was full"),
    ];
    let head = format!("{} with evidence", show::count(loss.flows_with_evidence));
    std::iter::once(head).chain(show::present(parts)).collect::<Vec<_>>().join(", ")
}

pub(super) fn loss_words(loss: &LossReport) -> Option<String> {
    let ratio = percent_fine(loss.loss_ratio?);
    let (low, high) = (percent_fine(loss.loss_low?), percent_fine(loss.loss_high?));
    let mut words = format!(
        "{ratio} % of data segments (95 %: {low} to {high} %), of {} captured",
        show::count(loss.segments)
    );
    if loss.acked_unseen_bytes > 0 {
        words += &format!(
            "; {} acknowledged and never captured, in {}",
            show::bytes(loss.acked_unseen_bytes),
            show::number_of(loss.acked_unseen_runs, "place")
        );
    }
    Some(words)
}

/// The interval with the most lost packets, unless it is too long to say when they were lost.
fn worst(loss: &LossReport) -> Option<&Interval> {
    let lossy = loss.intervals.iter().filter(|interval| interval.lost_packets > 0);
    let is_whole = loss.intervals.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns);
    let most_ns = if is_whole { WORST_NS_MAX_WHOLE } else { WORST_NS_MAX };
    let worst = lossy.max_by_key(|interval| interval.lost_packets);
    worst.filter(|interval| interval.to_ns.saturating_sub(interval.from_ns) <= most_ns)
}

fn worst_words(loss: &LossReport, interval: &Interval) -> String {
    let mut words = format!(
        "{} lost ({} %) within {} from {}",
        show::count(loss.supported(interval.lost_packets)),
        percent_fine(interval.loss_ratio.unwrap_or(0.0)),
        show::span_ns(interval.to_ns - interval.from_ns),
        show::time_ns(interval.from_ns)
    );
    if interval.recorded_drops > 0 {
        words += &format!("; {} recorded there", show::number_of(interval.recorded_drops, "drop"));
    }
    words
}

pub(super) fn network_words(loss: &LossReport) -> String {
    let late = show::bytes(loss.filled_bytes);
    let again = show::bytes(loss.retransmitted_bytes);
    format!("{late} came late (lost before and sent again, or out of order), {again} came more than once")
}

fn aside_words(loss: &LossReport) -> String {
    let mut parts = Vec::new();
    for (bytes, words) in [
        (loss.snapped_bytes, "cut by the snaplen"),
        (loss.undecided_bytes, "missing, named by one end alone"),
    ] {
        if bytes > 0 {
            parts.push(format!("{} {words}", show::bytes(bytes)));
        }
    }
    parts.extend(show::present([
        (loss.bare, "directions without any of their data"),
        (loss.copied, "directions with copies"),
        (loss.syns_set_aside, "connections without SYN or SYN-ACK, which a filter may have removed"),
        (loss.fins_unseen, "FINs not captured"),
        (loss.jumps, "leaps of sequence numbers"),
        (loss.leaps_confirmed, "leaps that both ends name"),
        (loss.acks_ignored, "acknowledgments out of range"),
    ]));
    parts.join(", ")
}

/// Why `streams` can name more missing bytes of the same capture.
fn stream_words(unjudged: u64) -> String {
    format!(
        "'quaff streams list' counts all missing bytes, also those in {} captured in part or without SYN",
        show::number_of(unjudged, "direction")
    )
}

fn other_words(loss: &LossReport) -> String {
    let zeek = match loss.zeek_ratio {
        Some(ratio) => format!(
            "Zeek's capture loss {} % ({}, {})",
            percent_fine(ratio),
            show::number_of(loss.zeek_gaps, "gap"),
            show::number_of(loss.zeek_acks, "acknowledgment")
        ),
        None => "Zeek's capture loss unknown".into(),
    };
    let missed = show::bytes(loss.tcptrace_missed_bytes);
    let directions = show::number_of(loss.tcptrace_directions, "complete direction");
    format!("{zeek}; tcptrace's missed data {missed} in {directions}")
}

fn injected_words(injected: &Injected, loss: &LossReport) -> String {
    let Injected { packets, removed, ratio, burst, seed } = *injected;
    let is_inside = match (loss.loss_low, loss.loss_high) {
        (Some(low), Some(high)) if (low..=high).contains(&ratio) => "inside the interval",
        (Some(_), Some(_)) => "OUTSIDE the interval, which holds the losses of the file itself too",
        _ => "without evidence to compare",
    };
    let bursts = if burst > 1 { format!(" in bursts of {burst}") } else { String::new() };
    format!(
        "{} of {} removed{bursts} (seed {seed}): {} %, {is_inside}",
        show::count(removed),
        show::number_of(packets, "packet"),
        percent_fine(ratio)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: u64 = 60_000_000_000;

    /// Intervals of so many minutes, of which those with these numbers have packets, and the last one losses.
    fn loss(minutes: u64, used: &[u64]) -> LossReport {
        let interval = |at: &u64| Interval {
            from_ns: at * minutes * MINUTE_NS,
            to_ns: (at + 1) * minutes * MINUTE_NS,
            segments: 10,
            lost_packets: u64::from(used.last() == Some(at)),
            ..Interval::default()
        };
        LossReport { intervals: used.iter().map(interval).collect(), ..LossReport::default() }
    }

    #[test]
    fn an_interval_that_says_nothing_is_not_named() {
        let is_named = |minutes, used: &[u64]| worst(&loss(minutes, used)).is_some();
        assert!(is_named(10, &[0, 1, 2]) && is_named(60, &[0, 50]));
        // A capture of a week, and files that have nothing to do with each other.
        assert!(is_named(160, &[0, 1, 2, 3]) && !is_named(160, &[0, 1, 3]));
        assert!(is_named(24 * 60, &[4]) && !is_named(99 * 24 * 60, &[0, 1, 2, 3]));
        let none = LossReport { intervals: vec![Interval::default()], ..LossReport::default() };
        assert!(worst(&none).is_none());
    }

    #[test]
    fn the_worst_interval_has_the_digits_of_the_estimate() {
        let interval = Interval { lost_packets: 11_855, ..Interval::default() };
        let mut loss = LossReport {
            acked_unseen_packets_estimate: 13_827,
            lost_packets_low: 310,
            lost_packets_high: Some(42_193),
            ..LossReport::default()
        };
        assert!(worst_words(&loss, &interval).starts_with("12,000 lost "));
        loss.lost_packets_high = Some(14_000);
        assert!(worst_words(&loss, &interval).starts_with("11,855 lost "));
    }
}
