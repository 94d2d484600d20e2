//! The packets that a capture provably lacks: how many, in how many connections, and where they were lost, as far as
//! the capture's own counters show it.

use super::report::{LossPlace, Missing, Report};
use crate::moment;
use quaff_stream::LossReport;
use quaff_wire::format::{bytes, count, supported};

/// The share of lost packets above which a capture filter is as likely.
const FILTERED: f64 = 0.5;

impl Missing {
    /// The packets that a capture without numbered frames lacks; `None` if none is.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let packets = report.lost_here();
        if packets == 0 {
            return None;
        }
        let (loss, mirrored) = (&report.tcp.loss, &report.numbers.erspan);
        let (place, because) = place(report);
        let plus = |by_tcp: u64| by_tcp.saturating_add(mirrored.lost);
        let from_ns = [loss.first_loss_ns, mirrored.first_loss_ns].into_iter().flatten().min();
        Some(Self {
            packets,
            packets_low: plus(loss.lost_packets_low),
            packets_high: high(loss).map(plus),
            mirrored_packets: mirrored.lost,
            connections_with_loss: loss.flows_with_loss,
            connections_with_evidence: loss.flows_with_evidence,
            undecided_bytes: loss.undecided_bytes,
            from_ns: from_ns.unwrap_or(0),
            to_ns: loss.last_loss_ns.max(mirrored.last_loss_ns).unwrap_or(0),
            place,
            because,
        })
    }

    /// All of it in one sentence.
    pub(super) fn words(&self) -> String {
        let by_tcp = self.packets - self.mirrored_packets;
        let (packets, numbers) =
            if self.packets == 1 { ("packet", "its number") } else { ("packets", "their numbers") };
        let mut words = match by_tcp {
            0 => {
                format!("incomplete: {} mirrored {packets} missing, by {numbers},", count(self.packets))
            }
            _ => {
                let about = self.supported(self.packets);
                format!("incomplete: about {about} {packets} missing ({})", self.interval())
            }
        };
        if by_tcp > 0 {
            let (lossy, all) = (self.connections_with_loss, self.connections_with_evidence);
            let connections = if all == 1 { "connection" } else { "connections" };
            if lossy > 0 {
                words += &format!(" in {} of {} {connections}", count(lossy), count(all));
            }
            if self.mirrored_packets > 0 {
                words += &format!(" and {} by the numbers of a mirror", count(self.mirrored_packets));
            }
        }
        words += &format!(" between {} and {}; ", moment::text(self.from_ns, 3), moment::text(self.to_ns, 3));
        if self.undecided_bytes > 0 {
            words += &format!("{} more undecided; ", bytes(self.undecided_bytes));
        }
        words
            + &match self.place {
                LossPlace::ThisMachine => format!("lost by this machine: {}", self.because),
                LossPlace::BeforeIt => format!("lost before this machine: {}", self.because),
                LossPlace::Unknown => format!("the place cannot be told: {}", self.because),
            }
    }

    fn interval(&self) -> String {
        let low = self.supported(self.packets_low);
        match self.packets_high {
            Some(high) => format!("95 %: {low} to {}", self.supported(high)),
            None => format!("95 %: {low} or more"),
        }
    }

    /// A number of packets with the digits that the interval supports.
    fn supported(&self, packets: u64) -> String {
        count(supported(packets, self.packets, self.packets_low, self.packets_high))
    }
}

/// The upper end of the interval; an estimate of none has none either.
fn high(loss: &LossReport) -> Option<u64> {
    if loss.acked_unseen_packets_estimate == 0 { Some(0) } else { loss.lost_packets_high }
}

/// Compares the drops that the capture records with the share of packets that TCP proves missing.
fn place(report: &Report) -> (LossPlace, String) {
    let unknown = |because: &str| (LossPlace::Unknown, because.to_owned());
    if report.tcp.injected.is_some() {
        return unknown("packets were removed on purpose");
    }
    let Some(ledger) = &report.outcome.ledger else {
        return unknown("there are no drop counters");
    };
    if !ledger.consistent {
        return unknown("the drop counters contradict the packets");
    }
    let drops = ledger.recorded_drops.max(ledger.epb_dropcount);
    let share = drops as f64 / (drops as f64 + report.outcome.frames as f64).max(1.0);
    let (loss, mirrored) = (&report.tcp.loss, report.numbers.erspan.ratio.unwrap_or(0.0));
    let ratio = loss.loss_ratio.unwrap_or(0.0).max(mirrored);
    let is_explained = share >= loss.loss_low.unwrap_or(0.0) && share >= ratio / 2.0;
    match drops {
        0 if !ledger.covers_all => unknown("the drop counters do not cover all packets"),
        0 if ratio > FILTERED => unknown(
            "so many are missing that a capture filter may have removed them, and the drop counters are 0",
        ),
        0 => (LossPlace::BeforeIt, "its drop counters are 0".to_owned()),
        drops if is_explained => {
            (LossPlace::ThisMachine, format!("its drop counters count {}", count(drops)))
        }
        drops => unknown(&format!("the drop counters count {}, which is a part of it", count(drops))),
    }
}
