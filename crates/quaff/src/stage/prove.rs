//! `quaff verify -i`, `quaff capture --prove`: looks at the packets of a lane as evidence of losses before it. It
//! edits and drops nothing.
//!
//! Every packet that reaches the output is checked, which costs a hash and a few look-ups: a packet that was skipped
//! would look like a loss. Memory is that of `quaff_stream::proof`.

use super::Stage;
use crate::batch::Batch;
use crate::gauge::LaneGauges;
use crate::links::{Link, Links};
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_file::verify::{LaneDrops, LaneEvidence, LaneProof};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The evidence of the lane with this number.
pub(crate) type ProveEnd = (usize, LaneEvidence);

/// The stage of one lane.
pub(crate) struct Prove {
    lane: usize,
    /// The running collection, until the last batch.
    proof: Option<LaneProof>,
    /// The evidence, after the last batch.
    evidence: Option<LaneEvidence>,
    links: Links,
    interfaces: Interfaces,
    /// The lane's own counters include all drops before this stage.
    is_live: bool,
    /// The lane has all packets of its interface: its verdict is that of the interface.
    is_alone: bool,
    gauges: Arc<LaneGauges>,
    end: Sender<ProveEnd>,
}

impl Prove {
    /// A stage for the packets of `interfaces` on a lane, which is the only one of its interface if `is_alone`. `end`
    /// receives the evidence.
    pub(crate) fn new(
        lane: usize,
        interfaces: Interfaces,
        (is_live, is_alone): (bool, bool),
        gauges: Arc<LaneGauges>,
        end: Sender<ProveEnd>,
    ) -> Self {
        let (proof, links) = (Some(LaneProof::default()), Links::new(interfaces.clone()));
        Self { lane, proof, evidence: None, links, interfaces, is_live, is_alone, gauges, end }
    }

    fn finish(&mut self) {
        if let Some(proof) = self.proof.take() {
            let mut evidence = proof.finish();
            name(&mut evidence, &self.interfaces);
            self.evidence = Some(evidence);
        }
    }
}

/// Fills in the names of interfaces.
pub(crate) fn name(evidence: &mut LaneEvidence, interfaces: &Interfaces) {
    evidence.name(|losses| {
        for (number, loss) in (0..).zip(losses) {
            loss.name = interfaces.get(number).map_or(String::new(), |found| found.name);
        }
    });
}

impl Stage for Prove {
    fn pass(&mut self, batch: &mut Batch<'_>, _tally: &mut LaneTally) {
        let memory = batch.memory();
        if let Some(proof) = &mut self.proof {
            for frame in batch.frames.iter() {
                let Link { linktype, interface, .. } = self.links.of(frame.interface);
                proof.packet(memory.of(frame), frame.wire_len, linktype, frame.time_ns, interface);
            }
            let [seen, lost] = proof.so_far();
            self.gauges.proof_seen.set(seen);
            self.gauges.proof_lost.set(lost);
        }
        if batch.is_last {
            self.finish();
        }
    }

    /// Adds the verdict to the last counters of the lane. Counters below the socket are read later. One lane of several
    /// has no verdict: its evidence is only a part.
    fn count(&self, counts: &mut Counts) {
        if !self.is_alone {
            return;
        }
        let drops = LaneDrops {
            interface: counts.nic_dropped,
            kernel: counts.kernel_dropped,
            ..LaneDrops::default()
        };
        let judged = self.evidence.as_ref().map(|evidence| evidence.judge(self.is_live.then_some(drops)));
        counts.proof = judged.map(|report| report.verdict.into());
    }

    fn sum_up(&mut self, _tally: &mut LaneTally) {
        // Without a receiver the run has failed at its start.
        let evidence = self.evidence.take();
        if let Some(evidence) = evidence {
            let _ = self.end.send((self.lane, evidence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Frame;
    use crate::stage::testing::{pass_last, pass_one};
    use quaff_wire::pcapng::Interface;
    use std::sync::mpsc::channel;

    #[test]
    fn all_packets_pass_and_the_verdict_is_in_the_last_counts() {
        let interfaces =
            Interfaces::new(vec![Interface { name: "eth7".into(), linktype: 1, ..Interface::default() }]);
        let (end, ended) = channel();
        let mut stage = Prove::new(3, interfaces, (true, true), Arc::default(), end);
        let frames: Vec<_> = (0..5).map(|n| Frame { time_ns: n, ..Frame::default() }).collect();
        let (left, _) = pass_one(&mut stage, &frames, &[0; 60]);
        assert_eq!(left.len(), 5);
        let mut counts = Counts { kernel_dropped: 2, ..Counts::default() };
        stage.count(&mut counts);
        assert_eq!(counts.proof, None, "only at the end");
        pass_last(&mut stage);
        stage.count(&mut counts);
        assert_eq!(counts.proof.as_deref(), Some("not complete: the capture recorded drops"));
        stage.sum_up(&mut LaneTally::default());
        let (lane, evidence) = ended.try_recv().unwrap();
        let report = evidence.judge(None);
        assert_eq!((lane, report.outcome.frames, report.verdict.as_str()), (3, 5, "nothing to judge by"));
    }
}
