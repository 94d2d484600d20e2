//! The counters of a meter and their identity: packets seen = exported + live + held + ignored, which has a sum per
//! reason.

use quaff_wire::add_each;
use std::iter::Sum;
use std::ops::AddAssign;

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    /// IP bytes by the header's own length; for ignored packets, the bytes on the wire.
    pub bytes: u64,
}

impl Count {
    /// Counts one packet.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Packets that are in no flow, by reason (ignoredPacketTotalCount is the sum without `not_sampled`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    /// No IP header: ARP, LLDP, or an unsupported link type.
    pub not_ip: Count,
    /// The captured bytes end before the ports, or the header is damaged.
    pub truncated: Count,
    /// Not selected by the sampling.
    pub not_sampled: Count,
}

impl Ignored {
    /// The sum over all reasons.
    pub fn total(&self) -> Count {
        let mut total = self.not_ip;
        total += self.truncated;
        total += self.not_sampled;
        total
    }
}

impl AddAssign for Ignored {
    fn add_assign(&mut self, other: Self) {
        self.not_ip += other.not_ip;
        self.truncated += other.truncated;
        self.not_sampled += other.not_sampled;
    }
}

/// The counters of a meter, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowLedger {
    /// Packets passed to the meter.
    pub seen: Count,
    /// Packets of the records passed to sinks.
    pub exported: Count,
    /// Packets of flows in the table.
    pub live: Count,
    /// Held later fragments.
    pub held: Count,
    pub ignored: Ignored,
    /// Records passed to sinks, by flowEndReason; index 0 is unused.
    pub flows_by_reason: [u64; 6],
    /// Flows in the table, now and at most so far.
    pub flows_live: u64,
    pub flows_high: u64,
    /// Later fragments metered without ports, because their first one did not arrive in time.
    pub fragments_unmatched: u64,
    /// Initial packets of QUIC that were not decrypted because of a limit.
    pub quic_skipped: u64,
    /// Maximum cache lines of the index that one packet needed.
    pub probes_max: u64,
    /// Bytes of memory of the table and the fragments, and their limit by the plan.
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
}

impl FlowLedger {
    /// Records passed to sinks.
    pub fn flows_exported(&self) -> u64 {
        self.flows_by_reason.iter().sum()
    }

    /// Checks the identity, in packets and bytes.
    pub fn check(&self) -> Result<(), String> {
        let mut sum = self.exported;
        sum += self.live;
        sum += self.held;
        sum += self.ignored.total();
        if sum == self.seen {
            return Ok(());
        }
        Err(format!(
            "the meter saw {:?}, but exported {:?}, has {:?} in live flows and {:?} held, and ignored {:?}",
            self.seen, self.exported, self.live, self.held, self.ignored
        ))
    }
}

impl Sum for FlowLedger {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, of| {
            add_each!(sum, of;
                seen, exported, live, held, flows_live, flows_high, fragments_unmatched, quic_skipped,
                memory_bytes, memory_bytes_max
            );
            sum.ignored += of.ignored;
            sum.flows_by_reason.iter_mut().zip(of.flows_by_reason).for_each(|(sum, flows)| *sum += flows);
            sum.probes_max = sum.probes_max.max(of.probes_max);
            sum
        })
    }
}
