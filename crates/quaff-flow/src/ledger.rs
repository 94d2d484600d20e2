//! The counters of a meter and their identity: packets seen = exported + live + held + ignored by reason.

use quaff_wire::add_each;
use std::iter::Sum;
use std::ops::AddAssign;

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    /// IP bytes by the header's own length; of ignored packets, the bytes on the wire.
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

/// Packets that are in no flow, by reason (ignoredPacketTotalCount is their sum without `not_sampled`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    /// No IP header: ARP, LLDP, a link type that is not parsed.
    pub not_ip: Count,
    /// The capture ends before the ports, or the header is damaged.
    pub truncated: Count,
    /// Not selected by the sampling.
    pub not_sampled: Count,
}

impl Ignored {
    /// All of them.
    pub fn total(&self) -> Count {
        let mut total = self.not_ip;
        total += self.truncated;
        total += self.not_sampled;
        total
    }
}

/// The counters of a meter, or of several in sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowLedger {
    /// Packets that the meter was given.
    pub seen: Count,
    /// Packets of the records that sinks were given.
    pub exported: Count,
    /// Packets of flows in the table.
    pub live: Count,
    /// Later fragments that wait for their first.
    pub held: Count,
    pub ignored: Ignored,
    /// Records that sinks were given, by flowEndReason; index 0 is unused.
    pub flows_by_reason: [u64; 6],
    /// Flows in the table, and the most so far.
    pub flows_live: u64,
    pub flows_high: u64,
    /// Later fragments that were metered without ports, because their first did not come in time.
    pub fragments_unmatched: u64,
    /// Initial packets of QUIC that were not decrypted, because there were too many.
    pub quic_skipped: u64,
    /// Most cache lines of the index that one packet needed.
    pub probes_max: u64,
    /// Bytes of memory of the table and of fragments, and the most that the plan allows them.
    pub memory_bytes: u64,
    pub memory_bytes_max: u64,
}

impl FlowLedger {
    /// Records that sinks were given.
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
            add_each!(sum.ignored, of.ignored; not_ip, truncated, not_sampled);
            sum.flows_by_reason.iter_mut().zip(of.flows_by_reason).for_each(|(sum, flows)| *sum += flows);
            sum.probes_max = sum.probes_max.max(of.probes_max);
            sum
        })
    }
}
