//! The evidence of packets on their way to a file, or to none: the same as of the packets of files, with the counters
//! of their lane as the ledger. The evidence of several lanes is added.

use super::{Count, CountEnd, Ledger, Options, Report};
use quaff_stream::loss::InterfaceLoss;
use quaff_wire::decode::{Frame, RawOptions};

/// Collects the evidence of the packets of a lane.
#[derive(Debug)]
pub struct LaneProof {
    count: Count,
    frames: u64,
}

impl Default for LaneProof {
    fn default() -> Self {
        // A generator may have begun before the lane.
        let options = Options { from_first: true, ..Options::default() };
        Self { count: Count::new(options), frames: 0 }
    }
}

impl LaneProof {
    /// Takes a packet of link type `linktype`, of which `bytes` were captured and that had `wire_bytes`. Interfaces
    /// have the numbers of the run.
    #[inline]
    pub fn packet(&mut self, bytes: &[u8], wire_bytes: u32, linktype: u16, time_ns: u64, interface: u16) {
        self.frames += 1;
        let frame = Frame {
            data: bytes,
            time_ns,
            wire_len: wire_bytes,
            interface: interface.into(),
            linktype,
            flags: 0,
            dropcount: 0,
            options: RawOptions::default(),
        };
        self.count.frame(&frame, interface);
    }

    /// Returns the number of packets so far whose loss would be noticed, and an estimate of the lost ones.
    pub fn so_far(&self) -> [u64; 2] {
        self.count.proof.so_far()
    }

    /// Ends all connections and streams, and returns the evidence.
    pub fn finish(self) -> LaneEvidence {
        let found = self.count.end();
        LaneEvidence { report: found.report(), found, frames: self.frames }
    }
}

/// The evidence of a lane that has ended, or of all lanes of an interface.
#[derive(Debug, Clone)]
pub struct LaneEvidence {
    found: CountEnd,
    frames: u64,
    report: Report,
}

impl LaneEvidence {
    /// Adds the evidence of another lane. Each pair of hosts must have all its packets in one lane.
    pub fn add(&mut self, other: Self) {
        self.found.add(other.found);
        self.frames += other.frames;
        self.report = self.found.report();
    }

    /// Fills in the names of interfaces.
    pub fn name(&mut self, name: impl FnOnce(&mut [InterfaceLoss])) {
        name(&mut self.report.tcp.loss.interfaces);
    }

    /// Judges the evidence by the drops of the lane; `None` if these are not known.
    pub fn judge(&self, drops: Option<LaneDrops>) -> Report {
        let mut report = self.report.clone();
        report.outcome.frames = self.frames;
        report.outcome.ledger = drops.map(|drops| drops.ledger(report.outcome.lost));
        report.judge()
    }
}

/// The drops of a lane while its evidence was collected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneDrops {
    /// By the interface.
    pub interface: u64,
    /// By the kernel, because its ring was full.
    pub kernel: u64,
    /// Counters below the socket have risen that may count packets of other interfaces.
    pub may_be_more: bool,
}

impl LaneDrops {
    /// Returns the sums of the drops of two lanes.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            interface: self.interface.saturating_add(other.interface),
            kernel: self.kernel.saturating_add(other.kernel),
            may_be_more: self.may_be_more || other.may_be_more,
        }
    }

    fn ledger(self, lost: u64) -> Ledger {
        let recorded_drops = self.interface.saturating_add(self.kernel);
        let unexplained = i128::from(lost) - i128::from(recorded_drops);
        Ledger {
            consistent: true,
            recorded_drops,
            ifdrop: self.interface,
            osdrop: self.kernel,
            unexplained: unexplained.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            covers_all: !self.may_be_more,
            ..Ledger::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::LossPlace;
    use quaff_testpackets::{Erspan, erspan_ii, ethernet, ipv4};
    use std::net::Ipv4Addr;

    #[test]
    fn a_loss_is_judged_by_the_drops_of_the_lane() {
        let [from, to] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let mut proof = LaneProof::default();
        for n in (0..300u32).filter(|n| *n != 100) {
            let header = Erspan { session: 1, ..Erspan::default() };
            let packet = ethernet(&[], 0x0800, &ipv4(from, to, 47, &[], &erspan_ii(n, &header, 0, &[0; 60])));
            let time_ns = 1_700_000_000_000_000_000 + u64::from(n) * 5_000_000;
            proof.packet(&packet, packet.len() as u32, 1, time_ns, 0);
        }
        // The last packets are taken later, in batches.
        let [seen, lost] = proof.so_far();
        assert!((200..=299).contains(&seen) && lost == 1, "{seen} {lost}");
        let evidence = proof.finish();
        for (drops, place) in [
            (None, LossPlace::Unknown),
            (Some(LaneDrops::default()), LossPlace::BeforeIt),
            (Some(LaneDrops { may_be_more: true, ..LaneDrops::default() }), LossPlace::Unknown),
            (Some(LaneDrops { kernel: 1, ..LaneDrops::default() }), LossPlace::ThisMachine),
        ] {
            let report = evidence.judge(drops);
            let missing = report.missing.as_ref().expect("a packet is missing");
            assert_eq!((missing.packets, missing.mirrored_packets, missing.place), (1, 1, place));
            assert!(
                report.verdict.starts_with("incomplete: 1 mirrored packet missing, by its number,"),
                "{report:?}"
            );
            assert_eq!(report.outcome.frames, 299);
        }
    }
}
