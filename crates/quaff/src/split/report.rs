//! The report of a split: the outcome of every packet, and how even the members' shares were.
//!
//! ```text
//!   in = out + skipped,   out = Σ written by a member
//!   of a member: packets = written + lost + after_close + unsendable
//! ```

use super::member::{self, Ended};
use super::plan::{MemberPlan, SplitPlan};
use crate::run::{self, cpu_seconds};
use crate::stage::{Balance, Conversation, PEAK_WINDOWS_NS, Share};
use crate::tally::{BeforeSocket, InputTally, LaneTally};
use quaff_os::Reason;
use serde::Serialize;

/// A split, summed up.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// By what frames were sorted: `addresses`.
    pub by: String,
    /// Packets that came in.
    #[serde(rename = "in")]
    pub offered: u64,
    /// Packets that went out; where nothing is written, those that would have.
    pub out: u64,
    /// Packets that came in and did not go out.
    pub skipped: u64,
    /// Why not.
    pub skipped_by: Skipped,
    /// True if every packet that was wanted went out.
    pub lossless: bool,
    /// Packets that the kernel dropped before the capture sockets; in none of the sums.
    pub before_socket: BeforeSocket,
    /// From the first packet to the last, by their own times, s.
    pub span_seconds: f64,
    /// Bytes of all packets that were sorted, on the wire.
    pub bytes: u64,
    /// Conversations, by the fields that decide.
    pub conversations: u64,
    /// True if that was counted exactly.
    pub conversations_exact: bool,
    /// Jain's fairness index of the members' packets by their weights: 1 is even, 1/N is all at one.
    pub jain_packets: f64,
    /// Jain's index of their bytes.
    pub jain_bytes: f64,
    /// The conversation with the most bytes: no split divides it.
    pub largest: Option<Largest>,
    /// The busiest moments of the whole feed.
    pub peaks: Vec<PeakReport>,
    /// Each member.
    pub members: Vec<MemberReport>,
    /// From the start to the end of the run, s.
    pub seconds: f64,
    /// User and system time of this process, s.
    pub cpu_seconds: f64,
    /// Why the run ended.
    pub ended_by: Option<Reason>,
    /// The outcome of the files that were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputTally>,
    /// The failure, if any; the sums need not hold then.
    pub failure: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Each lane's own.
    pub interfaces: Vec<LaneTally>,
}

/// Why packets did not go out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The interface had no room.
    pub nic_dropped: u64,
    /// The kernel's ring had none.
    pub kernel_dropped: u64,
    /// `-f` kept them out.
    pub filtered: u64,
    /// After the last one of `--count`, or when no member was left.
    pub after_count: u64,
    /// Of a link type that an output cannot hold beside the others.
    pub unsuited: u64,
    /// A member was too slow, or could not write.
    pub lost: u64,
    /// On their way to a member that had just gone away.
    pub after_close: u64,
    /// Larger than an interface can send.
    pub unsendable: u64,
}

/// The share of one member.
#[derive(Debug, Clone, Serialize)]
pub struct MemberReport {
    /// Its path, command or interface.
    pub name: String,
    /// Its weight.
    pub weight: u64,
    /// Packets that were given to it.
    pub packets: u64,
    /// Bytes of them, on the wire.
    pub bytes: u64,
    /// Its part of all packets.
    pub share_packets: f64,
    /// Its part of all bytes.
    pub share_bytes: f64,
    /// Its part of the weights.
    pub share_due: f64,
    /// Packets that it has taken.
    pub written: u64,
    /// Packets that it could not take.
    pub lost: u64,
    /// Packets that came after it had gone away.
    pub after_close: u64,
    /// Packets that are larger than an interface can send.
    pub unsendable: u64,
    /// Bytes that it has taken.
    pub bytes_written: u64,
    /// Conversations.
    pub conversations: u64,
    /// The largest of them.
    pub largest: Option<Largest>,
    /// Its busiest moments.
    pub peaks: Vec<PeakReport>,
    /// Why it was there no longer, when the run ended.
    pub gone: Option<Reason>,
    /// The exit status of its command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
}

/// A large conversation.
#[derive(Debug, Clone, Serialize)]
pub struct Largest {
    /// Its ends.
    pub conversation: String,
    /// The member that had its last packet, from 1 on.
    pub member: usize,
    /// Packets.
    pub packets: u64,
    /// Bytes, on the wire.
    pub bytes: u64,
    /// Its part of all bytes.
    pub share_bytes: f64,
    /// So many bytes more it may have had, where there were too many conversations to know them all.
    pub unsure_bytes: u64,
}

/// The most in a window of time, each of packets and bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PeakReport {
    /// The window, s.
    pub window_seconds: f64,
    /// Packets in the window with the most packets.
    pub packets: u64,
    /// Bytes in the window with the most bytes.
    pub bytes: u64,
    /// As a rate, packets/s.
    pub packets_per_second: f64,
    /// As a rate, bit/s.
    pub bits_per_second: f64,
}

/// The outcome of all parts of a run.
pub(super) struct End {
    pub(super) run: run::Ended,
    /// None where nothing was written.
    pub(super) members: Vec<Ended>,
    /// Packets that each lane lost for want of buffer, by member.
    pub(super) lost: Vec<Vec<u64>>,
}

pub(super) fn sum_up(plan: &SplitPlan, balance: &Balance, ended_by: Option<Reason>, end: End) -> Report {
    let members: Vec<_> =
        (0..plan.members.len()).map(|number| member_report(plan, balance, number, &end)).collect();
    let skipped_by = skipped(&end.run.lanes, &members);
    let is_wanted = ended_by == Some(Reason::OutputClosed);
    let loss = Skipped { filtered: 0, after_count: 0, ..skipped_by };
    let loss = Skipped { after_close: if is_wanted { 0 } else { loss.after_close }, ..loss };
    let sum = |of: fn(&MemberReport) -> u64| members.iter().map(of).sum::<u64>();
    let (conversations, conversations_exact) = balance.conversations();
    let (first_ns, last_ns) = balance.span_ns.unwrap_or_default();
    let mut report = Report {
        by: plan.sorting.by.to_string(),
        offered: end.run.lanes.iter().map(|lane| lane.offered).sum(),
        out: sum(|member| member.written),
        skipped: skipped_by.sum(),
        skipped_by,
        lossless: loss.sum() == 0 && end.run.before_socket.reasons.is_empty(),
        span_seconds: (last_ns - first_ns) as f64 / 1e9,
        bytes: balance.all.bytes,
        conversations,
        conversations_exact,
        jain_packets: jain(&members, |member| member.packets),
        jain_bytes: jain(&members, |member| member.bytes),
        largest: balance.largest(None).map(|found| largest(found, balance)),
        peaks: peaks(&balance.all),
        seconds: end.run.seconds,
        cpu_seconds: cpu_seconds(),
        ended_by,
        notes: [end.run.notes, end.run.before_socket.reasons.clone()].concat(),
        before_socket: end.run.before_socket,
        failure: None,
        interfaces: end.run.lanes,
        input: end.run.input,
        members,
    };
    if let Some(input) = &report.input {
        report.notes.extend_from_slice(&input.notes);
    }
    let unread = report.input.as_ref().and_then(|input| input.failure.clone());
    // After a failure the sums cannot hold; without one they must.
    report.failure =
        end.run.failure.map(|error| error.to_string()).or_else(|| report.check().err()).or(unread);
    report.lossless &= report.failure.is_none();
    report
}

fn skipped(lanes: &[LaneTally], members: &[MemberReport]) -> Skipped {
    let lanes = |of: fn(&LaneTally) -> u64| lanes.iter().map(of).sum();
    let members = |of: fn(&MemberReport) -> u64| members.iter().map(of).sum();
    Skipped {
        nic_dropped: lanes(|lane| lane.nic_dropped),
        kernel_dropped: lanes(|lane| lane.kernel_dropped),
        filtered: lanes(|lane| lane.filtered),
        after_count: lanes(|lane| lane.after_count),
        unsuited: lanes(|lane| lane.unsuited),
        lost: members(|member| member.lost),
        after_close: members(|member| member.after_close),
        unsendable: members(|member| member.unsendable),
    }
}

impl Skipped {
    fn sum(&self) -> u64 {
        let before =
            self.nic_dropped + self.kernel_dropped + self.filtered + self.after_count + self.unsuited;
        before + self.lost + self.after_close + self.unsendable
    }
}

impl Report {
    /// Returns whether the sums hold. A difference is a defect of quaff, and is reported.
    pub(crate) fn check(&self) -> Result<(), String> {
        let of_members = self.members.iter().map(|member| {
            let ended = member.written + member.lost + member.after_close + member.unsendable;
            ("packets of a member = written + lost + after_close + unsendable", member.packets, ended)
        });
        let whole = ("in = out + skipped", self.offered, self.out + self.skipped);
        for (identity, left, right) in std::iter::once(whole).chain(of_members) {
            if left != right {
                return Err(format!("the ledger does not add up: {identity}: {left} is not {right}"));
            }
        }
        Ok(())
    }
}

fn member_report(plan: &SplitPlan, balance: &Balance, number: usize, end: &End) -> MemberReport {
    let MemberPlan { weight, .. } = plan.members[number];
    let weights: u64 = plan.members.iter().map(|member| member.weight).sum();
    let share = &balance.members[number];
    let in_buffer: u64 = end.lost.iter().filter_map(|lane| lane.get(number)).sum();
    let ended = end.members.get(number);
    let tally = ended.map(|ended| ended.tally.clone()).unwrap_or_default();
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

/// R. Jain, D. Chiu, W. Hawe 1984: (Σx)² / (n Σx²), of what each got by its weight. 1 for nothing.
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
