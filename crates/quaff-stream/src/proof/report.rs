//! The evidence of a capture other than TCP, as plain data.

use super::copies::CopyReport;
use crate::loss::LossReport;
use quaff_wire::add_each;
use serde::Serialize;

/// The evidence of a capture.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ProofReport {
    pub tcp: LossReport,
    pub numbers: Numbers,
    pub copies: CopyReport,
}

/// Sequence numbers by protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Numbers {
    /// GRE sequence numbers of ERSPAN, which count the packets of a mirror session.
    pub erspan: NumberReport,
    /// GRE sequence numbers of other tunnels (RFC 2890).
    pub gre: NumberReport,
    /// RTP (RFC 3550).
    pub rtp: NumberReport,
    /// IPv4 identifications of pairs of hosts whose sender counts by one; they prove nothing alone.
    pub ip_id: NumberReport,
    /// Datagrams on UDP port 443 that may be QUIC, whose numbers are encrypted (RFC 9001, section 5.4).
    pub quic_packets: u64,
}

/// The numbers of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct NumberReport {
    /// Senders whose numbers behave like a counter.
    pub sources: u64,
    /// Their packets, without copies.
    pub packets: u64,
    pub lost: u64,
    /// `lost / (packets + lost)`; `None` without sources.
    pub ratio: Option<f64>,
    /// Missing numbers that too few numbers followed.
    pub undecided: u64,
    /// Packets whose number had arrived before, and packets that arrived late.
    pub copies: u64,
    pub late: u64,
    /// Number of restarts of senders.
    pub restarts: u64,
    /// Senders whose numbers do not behave like a counter: two counters, or a shared one; excluded.
    pub set_aside: u64,
    /// Senders evicted from a full table.
    pub evicted: u64,
    /// Times before the first loss and after the last one, ns since 1970.
    pub first_loss_ns: Option<u64>,
    pub last_loss_ns: Option<u64>,
}

impl NumberReport {
    /// With its ratio; without times if nothing was lost after all.
    pub(super) fn finished(self) -> Self {
        let is_lossy = |_: &u64| self.lost > 0;
        Self {
            ratio: self.ratio(),
            first_loss_ns: self.first_loss_ns.filter(is_lossy),
            last_loss_ns: self.last_loss_ns.filter(is_lossy),
            ..self
        }
    }

    fn ratio(&self) -> Option<f64> {
        let all = self.packets + self.lost;
        (all > 0).then(|| self.lost as f64 / all as f64)
    }

    /// Adds the numbers of other senders.
    fn add(&mut self, other: &Self) {
        add_each!(self, other; sources, packets, lost, undecided, copies, late, restarts, set_aside, evicted);
        self.ratio = self.ratio();
        self.first_loss_ns = [self.first_loss_ns, other.first_loss_ns].into_iter().flatten().min();
        self.last_loss_ns = self.last_loss_ns.max(other.last_loss_ns);
    }
}

impl Numbers {
    /// Adds the numbers of other senders.
    pub(super) fn add(&mut self, other: &Self) {
        self.erspan.add(&other.erspan);
        self.gre.add(&other.gre);
        self.rtp.add(&other.rtp);
        self.ip_id.add(&other.ip_id);
        self.quic_packets += other.quic_packets;
    }

    /// Senders whose missing numbers are lost packets; hosts that count identifications are no witnesses.
    pub fn sources(&self) -> u64 {
        self.erspan.sources + self.gre.sources + self.rtp.sources
    }
}
