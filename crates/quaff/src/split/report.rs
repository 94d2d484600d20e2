//! The report of a split: the result for every packet, and the balance of the members.
//!
//! ```text
//!   in = out + skipped,   out = Σ written by a member
//!   of a member: packets = written + lost + after_close + unsendable
//! ```

use super::member::{self, Ended};
use super::plan::{MemberPlan, SplitPlan};
use crate::gauge::BufferGauges;
use crate::run;
use crate::stage::{Balance, Conversation, PEAK_WINDOWS_NS, Share};
use crate::tally::{self, LaneTally, RunSummary, Terms, Verdict, has_summary, sum};
use quaff_os::Reason;
use serde::Serialize;
use std::sync::Arc;

/// The result of a split.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The fields that select the member of a frame, such as `addresses`.
    pub by: String,
    /// Packets received.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets written; in a dry run, those that would have been written.
    pub out: u64,
    /// Packets received and not written.
    pub skipped: u64,
    pub skipped_by: Skipped,
    /// Time between the first packet and the last, by their time stamps.
    pub span_seconds: f64,
    /// Bytes of all assigned packets on the wire.
    pub bytes: u64,
    pub conversations: u64,
    pub conversations_exact: bool,
    /// Jain's fairness index of the members' packets by weight: 1 is even, 1/N is all at one.
    pub jain_packets: f64,
    /// Jain's index of their bytes.
    pub jain_bytes: f64,
    /// The conversation with the most bytes, which no split divides.
    pub largest: Option<Largest>,
    /// Peaks of all packets.
    pub peaks: Vec<PeakReport>,
    /// Fragments that waited for the first one of their datagram and follow packets of later times at their member.
    pub delayed: u64,
    pub members: Vec<MemberReport>,
    /// Maximum of the buffer in use, of all members together; 0 in a dry run.
    pub buffer_high_bytes: u64,
    /// Bytes of the buffer that were populated at the end.
    pub resident_bytes: u64,
    #[serde(flatten)]
    pub run: RunSummary,
}

has_summary!(Report);

/// Packets received and not written, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The terms; `after_count` includes packets for which no member was left.
    #[serde(flatten)]
    pub terms: Terms,
    /// A member was too slow or could not write.
    pub lost: u64,
    /// Assigned to a member that had just ended.
    pub after_close: u64,
    /// Larger than an interface can send.
    pub unsendable: u64,
}

/// The share of one member.
#[derive(Debug, Clone, Serialize)]
pub struct MemberReport {
    /// Path, command or interface.
    pub name: String,
    pub weight: u64,
    /// Packets assigned to it.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Its share of all packets, of all bytes, and of the weights: 0 to 1.
    pub share_packets: f64,
    pub share_bytes: f64,
    pub share_due: f64,
    /// `packets` is the sum of the next four.
    pub written: u64,
    pub lost: u64,
    pub after_close: u64,
    pub unsendable: u64,
    pub bytes_written: u64,
    pub conversations: u64,
    pub largest: Option<Largest>,
    pub peaks: Vec<PeakReport>,
    /// The reason why it ended before the run; `None` if it did not.
    pub gone: Option<Reason>,
    /// Exit status of its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
}

/// A large conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Largest {
    /// Its addresses.
    pub conversation: String,
    /// The member of its last packet, from 1 on.
    pub member: usize,
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Its share of all bytes: 0 to 1.
    pub share_bytes: f64,
    /// Bytes that it may have had in addition, if there were too many conversations to count all.
    pub unsure_bytes: u64,
}

/// The maxima of packets and of bytes in a window of time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PeakReport {
    pub window_seconds: f64,
    /// Packets in the window with the most packets.
    pub packets: u64,
    /// Bytes in the window with the most bytes.
    pub bytes: u64,
    pub packets_per_second: f64,
    pub bits_per_second: f64,
}

/// The results of all parts of a run.
pub(super) struct SplitEnd {
    pub(super) run: run::Ended,
    /// Empty in a dry run.
    pub(super) members: Vec<Ended>,
    /// Packets that each lane lost because no buffer was free, by member.
    pub(super) lost: Vec<Vec<u64>>,
    /// `None` in a dry run.
    pub(super) buffer: Option<Arc<BufferGauges>>,
}

pub(super) fn sum_up(plan: &SplitPlan, balance: &Balance, mut end: SplitEnd) -> Report {
    let members: Vec<_> =
        (0..plan.members.len()).map(|number| member_report(plan, balance, number, &end)).collect();
    let skipped_by = skipped(&end.run.lanes, &members);
    end.run.reasons.unknown.extend(unread(&end.members, &members));
    let lost = is_lost(&skipped_by, &members, end.run.ended_by.as_ref());
    let (failures, all_failed) = (end.run.failures(), all_failed(&end.members));
    let (conversations, conversations_exact) = balance.conversations();
    let (first_ns, last_ns) = balance.span_ns.unwrap_or_default();
    let mut report = Report {
        by: plan.sorting.by.to_string(),
        arrived: sum(&end.run.lanes, |lane| lane.offered),
        out: sum(&members, |member| member.written),
        skipped: skipped_by.sum(),
        skipped_by,
        span_seconds: (last_ns - first_ns) as f64 / 1e9,
        bytes: balance.all.bytes,
        conversations,
        conversations_exact,
        jain_packets: jain(&members, |member| member.packets),
        jain_bytes: jain(&members, |member| member.bytes),
        largest: balance.largest(None).map(|found| largest(found, balance)),
        peaks: peaks(&balance.all),
        delayed: balance.delayed,
        buffer_high_bytes: end.buffer.as_ref().map_or(0, |buffer| buffer.high_bytes()),
        resident_bytes: end.buffer.as_ref().map_or(0, |buffer| buffer.resident.get()),
        members,
        run: end.run.summary(),
    };
    report.failure = failures.with(report.check()).or(all_failed);
    let (run, is_counted_lost) = (&mut report.run, lost);
    run.verdict = Verdict::new(is_counted_lost, &run.reasons, run.failure.is_some());
    run.lossless = run.verdict == Verdict::Lossless;
    report
}

/// Returns whether wanted packets were not written. After the readers of all members have closed their outputs, no
/// packet is wanted; after their commands have failed, every packet is.
fn is_lost(skipped: &Skipped, members: &[MemberReport], ended_by: Option<&Reason>) -> bool {
    let has_failed = members.iter().any(|member| matches!(member.gone, Some(Reason::Failed(_))));
    let has_closed = |member: &MemberReport| member.gone == Some(Reason::OutputClosed);
    let is_closed = ended_by == Some(&Reason::OutputClosed) || members.iter().all(has_closed);
    let of = |count: u64, is_lost: bool| if is_lost { count } else { 0 };
    let after_end = of(skipped.terms.after_count, is_closed && has_failed)
        + of(skipped.after_close, !is_closed || has_failed);
    skipped.terms.lost() + skipped.lost + skipped.unsendable + after_end > 0
}

/// Sentences about commands that failed after they had received all their packets.
fn unread(ended: &[Ended], members: &[MemberReport]) -> Vec<String> {
    let words = |(ended, member): (&Ended, &MemberReport)| {
        let failure = ended.command_failure.as_ref().filter(|_| member.gone.is_none())?;
        Some(format!("{}: {failure}; what it did with its packets is unknown", member.name))
    };
    ended.iter().zip(members).filter_map(words).collect()
}

/// The failure of a split whose members are commands, all of which failed.
fn all_failed(ended: &[Ended]) -> Option<String> {
    let first = ended.first()?.command_failure.as_ref()?;
    let is_all = ended.iter().all(|ended| ended.command_failure.is_some());
    is_all.then(|| format!("every member failed: {first}"))
}

fn skipped(lanes: &[LaneTally], members: &[MemberReport]) -> Skipped {
    let members = |of: fn(&MemberReport) -> u64| sum(members, of);
    Skipped {
        terms: Terms::of(lanes.iter().map(|lane| &lane.terms)),
        lost: members(|member| member.lost),
        after_close: members(|member| member.after_close),
        unsendable: members(|member| member.unsendable),
    }
}

impl Skipped {
    fn sum(&self) -> u64 {
        self.terms.sum() + self.lost + self.after_close + self.unsendable
    }
}

impl Report {
    /// Checks the sums. A difference is a defect of quaff.
    fn check(&self) -> Result<(), String> {
        let of_members = self.members.iter().map(|member| {
            let ended = member.written + member.lost + member.after_close + member.unsendable;
            ("packets of a member = written + lost + after_close + unsendable", member.packets, ended)
        });
        let whole = ("in = out + skipped", self.arrived, self.out + self.skipped);
        tally::check(std::iter::once(whole).chain(of_members))
    }
}

fn member_report(plan: &SplitPlan, balance: &Balance, number: usize, end: &SplitEnd) -> MemberReport {
    let MemberPlan { weight, .. } = plan.members[number];
    let weights: u64 = plan.members.iter().map(|member| member.weight).sum();
    let share = &balance.members[number];
    let in_buffer: u64 = end.lost.iter().filter_map(|lane| lane.get(number)).sum();
    let ended = end.members.get(number);
    let mut tally = ended.map(|ended| ended.tally.clone()).unwrap_or_default();
    if ended.is_some_and(|ended| ended.is_stuck) {
        tally.lost = share.packets.saturating_sub(tally.written + in_buffer);
    }
    MemberReport {
        name: member::name(&plan.members[number], number),
        weight,
        packets: share.packets,
        bytes: share.bytes,
        share_packets: part(share.packets, balance.all.packets),
        share_bytes: part(share.bytes, balance.all.bytes),
        share_due: part(weight, weights),
        written: if ended.is_some() { tally.written } else { share.packets },
        lost: tally.lost + in_buffer,
        after_close: tally.after_close,
        unsendable: tally.unsendable,
        bytes_written: tally.bytes,
        conversations: balance.conversations_of(number),
        largest: balance.largest(Some(number)).map(|found| largest(found, balance)),
        peaks: peaks(share),
        gone: ended.and_then(|ended| ended.reason.clone()),
        exit: ended.and_then(|ended| ended.exit),
    }
}

fn largest((found, unsure_bytes): (Conversation, u64), balance: &Balance) -> Largest {
    Largest {
        conversation: found.key.to_string(),
        member: found.member + 1,
        packets: found.packets,
        bytes: found.bytes,
        share_bytes: part(found.bytes, balance.all.bytes),
        unsure_bytes,
    }
}

fn peaks(share: &Share) -> Vec<PeakReport> {
    let report = |(window_ns, peak): (u64, crate::stage::Peak)| {
        let window_seconds = window_ns as f64 / 1e9;
        PeakReport {
            window_seconds,
            packets: peak.packets,
            bytes: peak.bytes,
            packets_per_second: peak.packets as f64 / window_seconds,
            bits_per_second: peak.bytes as f64 * 8.0 / window_seconds,
        }
    };
    PEAK_WINDOWS_NS.into_iter().zip(share.peaks).map(report).collect()
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

/// R. Jain, D. Chiu, W. Hawe 1984: (Σx)² / (n Σx²), of each share divided by its weight. 1 for nothing.
fn jain(members: &[MemberReport], of: impl Fn(&MemberReport) -> u64) -> f64 {
    let shares = members.iter().map(|member| of(member) as f64 / member.weight as f64);
    let (sum, squares) = shares.fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 1.0 } else { sum * sum / (members.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Knowledge;

    fn member(weight: u64, packets: u64) -> MemberReport {
        MemberReport {
            name: String::new(),
            weight,
            packets,
            bytes: 0,
            share_packets: 0.0,
            share_bytes: 0.0,
            share_due: 0.0,
            written: packets,
            lost: 0,
            after_close: 0,
            unsendable: 0,
            bytes_written: 0,
            conversations: 0,
            largest: None,
            peaks: peaks(&Knowledge::new(1).balance().all),
            gone: None,
            exit: None,
        }
    }

    #[test]
    fn jains_index_is_one_for_even_and_one_nth_for_all_at_one() {
        let of = |shares: &[(u64, u64)]| {
            let members: Vec<_> = shares.iter().map(|(weight, packets)| member(*weight, *packets)).collect();
            (jain(&members, |member| member.packets) * 1000.0).round() / 1000.0
        };
        assert_eq!(of(&[(1, 7), (1, 7), (1, 7)]), 1.0);
        assert_eq!(of(&[(2, 14), (1, 7)]), 1.0);
        assert_eq!(of(&[(1, 9), (1, 0), (1, 0), (1, 0)]), 0.25);
        assert_eq!(of(&[(1, 3), (1, 1)]), 0.8);
        assert_eq!(of(&[(1, 0)]), 1.0);
    }
}
