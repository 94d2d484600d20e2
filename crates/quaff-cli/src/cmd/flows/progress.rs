//! The counters of a meter while it runs, of all lanes and sinks.

use quaff::LaneGauges;
use quaff::flows::Flows;
use quaff_flow::collector::SinkReport;
use quaff_flow::ledger::FlowLedger;
use std::time::Duration;

/// Interval of looks at a running meter.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// The counters of a running meter.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Packets that were metered or ignored.
    pub(crate) packets: u64,
    /// Bytes on the wire of the packets that were received.
    pub(crate) bytes: u64,
    /// Records that have left the table, and of those what sinks have missed.
    pub(crate) exported: Totals,
    pub(crate) missed: Totals,
    /// Records that sinks have sent.
    pub(crate) sent: Totals,
    /// Flows in the table, and the most so far.
    pub(crate) active: u64,
    pub(crate) allocated: u64,
    /// Fragments that wait for their first one.
    pub(crate) fragments: u64,
    /// Flows that ended because the table was full.
    pub(crate) evicted: u64,
    /// Records that wait for the sink with the most, and places for them.
    pub(crate) queued: u64,
    pub(crate) queue_max: u64,
    /// The most places of the table that were looked at for a packet.
    pub(crate) probes_max: u64,
    /// Packets that the lanes received, and that the kernel and the interfaces dropped.
    pub(crate) received: u64,
    pub(crate) dropped: u64,
    /// The run has ended.
    pub(crate) is_last: bool,
}

/// Flows, and the packets and IP bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// Receives the progress of a run.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&Progress);

/// The counters of a running meter, of all lanes and sinks.
pub(super) fn progress(flows: &Flows) -> Progress {
    let of_lanes = |of: fn(&LaneGauges) -> u64| flows.lanes.iter().map(|lane| of(lane)).sum::<u64>();
    let ledger: FlowLedger = flows.meters.iter().map(|meter| meter.ledger()).sum();
    let sinks = flows.sinks();
    let of_sinks = |of: fn(&SinkReport) -> u64| sinks.iter().map(of).sum::<u64>();
    let most = |of: fn(&SinkReport) -> u64| sinks.iter().map(of).max().unwrap_or(0);
    let not_queued: u64 = flows.meters.iter().map(|meter| meter.missed.get()).sum();
    Progress {
        packets: ledger.seen.packets,
        bytes: of_lanes(|lane| lane.wire_bytes.get()),
        exported: Totals {
            flows: ledger.flows_exported(),
            packets: ledger.exported.packets,
            bytes: ledger.exported.bytes,
        },
        missed: Totals {
            flows: of_sinks(|sink| sink.missed.total().records) + not_queued,
            packets: of_sinks(|sink| sink.missed.total().packets),
            bytes: of_sinks(|sink| sink.missed.total().bytes),
        },
        sent: Totals {
            flows: of_sinks(|sink| sink.sent.records),
            packets: of_sinks(|sink| sink.sent.packets),
            bytes: of_sinks(|sink| sink.sent.bytes),
        },
        active: ledger.flows_live,
        allocated: ledger.flows_high,
        fragments: ledger.held.packets,
        evicted: ledger.flows_by_reason[5],
        queued: most(|sink| sink.queued),
        queue_max: most(|sink| sink.queue_max),
        probes_max: ledger.probes_max,
        received: of_lanes(|lane| lane.received.get()),
        dropped: of_lanes(|lane| lane.nic_dropped.get() + lane.kernel_dropped.get()),
        is_last: false,
    }
}
