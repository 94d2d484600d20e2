//! The evidence of TCP in the report of `quaff verify`, as text.

use super::words::{line, row};
use crate::show;
use quaff::format::percent_fine;
use quaff_file::verify::{Injected, Tcp};
use quaff_stream::loss::{Interval, LossReport};
use std::fmt::{Result, Write};

/// Prints the evidence, if there are TCP connections.
pub(super) fn print(out: &mut impl Write, tcp: &Tcp) -> Result {
    let loss = &tcp.loss;
    if loss.flows > 0 {
        row(out, "tcp flows", loss.flows, &flow_words(loss))?;
        if let Some(words) = loss_words(loss) {
            row(out, "tcp lost", loss.acked_unseen_packets_estimate, &words)?;
        }
        if let Some(interval) = worst(loss) {
            line(out, "  worst", &worst_words(interval))?;
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

/// The interval with the most lost packets.
fn worst(loss: &LossReport) -> Option<&Interval> {
    let lossy = loss.intervals.iter().filter(|interval| interval.lost_packets > 0);
    lossy.max_by_key(|interval| interval.lost_packets)
}

fn worst_words(interval: &Interval) -> String {
    let mut words = format!(
        "{} lost ({} %) within {} from {}",
        show::count(interval.lost_packets),
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
