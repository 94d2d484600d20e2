//! The account of every packet. Each packet ends in exactly one tally, and the sums are checked.
//!
//! ```text
//!   offered  = nic_dropped + filtered + kernel_dropped + received + after_count
//!            + not_tunnel + merged + unsuited
//!   received = written + lost
//!   lost     = lost_in_buffer + lost_on_disk
//!   of a copy: written + lost_on_disk = tee.written + tee.lost + tee.after_close
//! ```

use quaff_file::read::SkippedBytes;
use quaff_file::tally::{CopyTally, WriterTally};
use quaff_os::Reason;
use serde::Serialize;
use std::collections::BTreeMap;

/// Packets that stages removed from the batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Removed {
    /// Packets after the last one of `--count`.
    pub after_count: u64,
    /// Packets whose inner frame `--inner` keeps out.
    pub filtered: u64,
    /// Packets that are no tunnel (`--decap-only`).
    pub not_tunnel: u64,
    /// Fragments that became part of another packet.
    pub merged: u64,
    /// Packets of a link type that the output's format cannot hold beside the others (pcap).
    pub unsuited: u64,
}

/// The counters of a lane at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneTally {
    /// The interface.
    pub interface: String,
    /// Packets that reached the interface while we listened.
    pub offered: u64,
    /// Packets for which the interface had no room (`rx_missed`, `rx_fifo`, `rx_over` of its counters).
    pub nic_dropped: u64,
    /// Packets for which the kernel's ring had no room.
    pub kernel_dropped: u64,
    /// Packets that filters kept out.
    pub filtered: u64,
    /// Packets taken from the kernel and kept.
    pub received: u64,
    /// Packets after the last one of `--count`.
    pub after_count: u64,
    /// Packets that are no tunnel (`--decap-only`).
    pub not_tunnel: u64,
    /// Fragments that became part of another packet.
    pub merged: u64,
    /// Packets of a link type that the output's format cannot hold beside the others.
    pub unsuited: u64,
    /// The results of decapsulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decap: Option<DecapTally>,
    /// Packets packed into chunks for the writer.
    pub packed: u64,
    /// Packets for which the buffer had no room.
    pub lost_in_buffer: u64,
    /// Packets that the kernel had to cut because they were larger than a block of the ring.
    pub truncated: u64,
    /// Frames larger than the interface's MTU allows: merged by GRO or TSO.
    pub oversize: u64,
    /// Times that the kernel's ring froze.
    pub ring_freezes: u64,
    /// The most blocks of the kernel's ring that ever waited for us.
    pub ring_high_blocks: u64,
    /// Blocks in the kernel's ring.
    pub ring_blocks: u64,
    /// The most buffers of the pool that were ever in use.
    pub pool_high_buffers: u64,
    /// Buffers in the pool.
    pub pool_buffers: u64,
    /// Times that the interface went down.
    pub downs: u64,
    pub down_ns: u64,
    /// The rise of the interface's `rx_dropped` while the socket was open.
    pub rx_dropped: u64,
    /// Frames received whose protocol is not IPv4, IPv6 or ARP. Those that the stack does not handle are in
    /// `rx_dropped` as well.
    pub other_protocols: u64,
}

/// The results of decapsulation at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DecapTally {
    /// Packets whose inner frame was taken out.
    pub stripped: u64,
    /// Packets of tunnels that carry no frame: markers, echoes, keepalives. They pass unchanged.
    pub control: u64,
    /// Tunnel headers that made no sense, by reason. Their packets pass unchanged.
    pub damaged: BTreeMap<String, u64>,
    /// Fragments of datagrams that never became whole. They pass unchanged.
    pub incomplete: u64,
    /// Each session, in the order of their appearance.
    pub sessions: Vec<SessionTally>,
}

/// One session of a tunnel: what a sender calls one, as seen by one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SessionTally {
    /// Its name, which is that of its interface in the file: `eth0 erspan2 10.0.0.1 session 5`.
    pub name: String,
    /// Packets.
    pub received: u64,
    /// Packets lost before they reached us, by sequence numbers.
    pub missing: u64,
    /// Packets that came later than their sequence number.
    pub late: u64,
    /// Times that the sender restarted its numbers.
    pub restarts: u64,
}

impl DecapTally {
    fn missing(&self) -> u64 {
        self.sessions.iter().map(|session| session.missing).sum()
    }
}

/// The outcome of the files that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InputTally {
    /// Files that were begun.
    pub files: u64,
    /// Bytes of capture that were read, unpacked.
    pub bytes: u64,
    /// The damages that ended the reading of files early.
    pub damages: Vec<String>,
    /// Bytes skipped by `--salvage`.
    pub jumps: SkippedBytes,
    /// Packets that the files say were dropped when they were captured (`epb_dropcount`). No loss of
    /// ours, and in none of the sums.
    pub recorded_drops: u64,
    /// The first file that could not be read at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Notes for the user about the files.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl InputTally {
    /// Returns whether all that the files hold was read.
    pub fn is_whole(&self) -> bool {
        self.damages.is_empty() && self.jumps.count == 0 && self.failure.is_none()
    }
}

/// Packets that the kernel dropped before the capture sockets while these were open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BeforeSocket {
    /// Packets dropped on the captured interfaces (`rx_dropped`).
    pub rx_dropped: u64,
    /// Packets dropped by the backlogs of all cores (`softnet_stat`), of whatever interface.
    pub softnet_dropped: u64,
    /// Each a sentence with its number; empty when nothing was dropped.
    #[serde(skip)]
    pub reasons: Vec<String>,
}

/// All tallies of a run, with their identity.
#[derive(Debug, Clone, Serialize)]
pub struct Ledger {
    /// Packets that reached the interfaces while we listened.
    pub offered: u64,
    /// Packets taken from the kernel and kept.
    pub received: u64,
    /// Packets that the interfaces had no room for.
    pub nic_dropped: u64,
    /// Packets for which the kernel's rings had no room.
    pub kernel_dropped: u64,
    /// Packets that filters kept out.
    pub filtered: u64,
    /// Packets after the last one of `--count`, or after the reader of the output had gone.
    pub after_count: u64,
    /// Packets that are no tunnel (`--decap-only`).
    pub not_tunnel: u64,
    /// Fragments that became part of another packet.
    pub merged: u64,
    /// Packets of a link type that the output's format cannot hold beside the others.
    pub unsuited: u64,
    /// Packets that the sequence numbers of tunnels say were lost before they reached us. No loss of
    /// ours, and in none of the sums.
    pub missing_before: u64,
    /// Packets in the output.
    pub written: u64,
    /// Packets that we had and could not write.
    pub lost: u64,
    /// Of these, for want of buffer.
    pub lost_in_buffer: u64,
    /// Of these, because writing failed.
    pub lost_on_disk: u64,
    /// Bytes in the output.
    pub bytes_written: u64,
    /// Packets that the kernel dropped before the capture sockets; in none of the sums.
    pub before_socket: BeforeSocket,
    /// True if every packet that was offered and wanted is in the output.
    pub lossless: bool,
    /// From the first moment to the last, s.
    pub seconds: f64,
    /// Files finished.
    pub files: u64,
    /// Files removed by retention.
    pub pruned: u64,
    /// Bytes of buffer in use at the worst moment.
    pub buffer_high_bytes: u64,
    /// Bytes of the kernel's ring in use at the worst moment.
    pub ring_high_bytes: u64,
    /// The longest that one write took, s.
    pub write_high_seconds: f64,
    /// The outcome of the live copy; none of it counts as written or lost.
    pub tee: Option<CopyTally>,
    /// Commands of the user that ran on finished files.
    pub commands: u64,
    /// Of these, those that failed.
    pub commands_failed: u64,
    /// Why the run ended.
    pub ended_by: Option<Reason>,
    /// The way bytes got to disk.
    pub writing: String,
    /// User and system time of this process, s.
    pub cpu_seconds: f64,
    /// The outcome of the files that were read; `None` for a live capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<InputTally>,
    /// The failure, if any; the sums need not hold then.
    pub failure: Option<String>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Each lane's own.
    pub interfaces: Vec<LaneTally>,
}

impl Ledger {
    /// Sums up. `buffer_bytes` and `block_bytes` turn high-water marks into bytes.
    pub(crate) fn new(
        lanes: Vec<LaneTally>,
        writer: &WriterTally,
        buffer_bytes: u64,
        block_bytes: u64,
    ) -> Self {
        let sum = |of: fn(&LaneTally) -> u64| lanes.iter().map(of).sum::<u64>();
        let lost_in_buffer = sum(|lane| lane.lost_in_buffer);
        let lost = lost_in_buffer + writer.lost;
        let (nic_dropped, kernel_dropped) = (sum(|lane| lane.nic_dropped), sum(|lane| lane.kernel_dropped));
        Self {
            offered: sum(|lane| lane.offered),
            received: sum(|lane| lane.received).saturating_sub(writer.after_close),
            nic_dropped,
            kernel_dropped,
            filtered: sum(|lane| lane.filtered),
            after_count: sum(|lane| lane.after_count) + writer.after_close,
            not_tunnel: sum(|lane| lane.not_tunnel),
            merged: sum(|lane| lane.merged),
            unsuited: sum(|lane| lane.unsuited),
            missing_before: sum(|lane| lane.decap.as_ref().map_or(0, DecapTally::missing)),
            written: writer.written,
            lost,
            lost_in_buffer,
            lost_on_disk: writer.lost,
            bytes_written: writer.bytes,
            lossless: nic_dropped + kernel_dropped + lost + sum(|lane| lane.unsuited) == 0,
            before_socket: BeforeSocket::default(),
            seconds: 0.0,
            files: writer.files,
            pruned: writer.pruned,
            buffer_high_bytes: sum(|lane| lane.pool_high_buffers) * buffer_bytes,
            ring_high_bytes: sum(|lane| lane.ring_high_blocks) * block_bytes,
            write_high_seconds: writer.write_high_ns as f64 / 1e9,
            tee: writer.copy,
            commands: writer.post_rotate.count,
            commands_failed: writer.post_rotate.failed,
            ended_by: None,
            writing: String::new(),
            cpu_seconds: 0.0,
            input: None,
            failure: None,
            notes: Vec::new(),
            interfaces: lanes,
        }
    }

    /// Adds what the kernel dropped before the sockets. A capture with such drops is not lossless.
    pub(crate) fn add_before_socket(&mut self, found: BeforeSocket) {
        self.lossless &= found.reasons.is_empty();
        self.notes.extend_from_slice(&found.reasons);
        self.before_socket = found;
    }

    /// Returns whether the sums hold. A difference is a defect of quaff, and is reported.
    pub(crate) fn check(&self) -> Result<(), String> {
        let kept_out = self.nic_dropped + self.filtered + self.kernel_dropped + self.after_count;
        let kept_out = kept_out + self.not_tunnel + self.merged + self.unsuited;
        let identities = [
            (
                "offered = nic_dropped + filtered + kernel_dropped + received + after_count + not_tunnel + merged + unsuited",
                self.offered,
                kept_out + self.received,
            ),
            ("received = written + lost", self.received, self.written + self.lost),
        ];
        let copy = self.tee.map(|copy| {
            let (pushed, copied) =
                (self.written + self.lost_on_disk, copy.written + copy.lost + copy.after_close);
            ("written + lost_on_disk = tee: written + lost + after_close", pushed, copied)
        });
        for (identity, left, right) in identities.into_iter().chain(copy) {
            if left != right {
                return Err(format!("the ledger does not add up: {identity}: {left} is not {right}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_catches_a_packet_that_ended_nowhere() {
        let lane = LaneTally {
            offered: 110,
            nic_dropped: 1,
            kernel_dropped: 4,
            filtered: 2,
            received: 99,
            after_count: 1,
            not_tunnel: 1,
            merged: 1,
            unsuited: 1,
            lost_in_buffer: 5,
            ..LaneTally::default()
        };
        let writer = WriterTally { written: 89, lost: 5, ..WriterTally::default() };
        let ledger = Ledger::new(vec![lane], &writer, 1, 1);
        assert_eq!(ledger.check(), Ok(()));
        assert!(!ledger.lossless);
        for broken in [
            Ledger { offered: 111, ..ledger.clone() },
            Ledger { written: 88, ..ledger.clone() },
            Ledger { kernel_dropped: 5, ..ledger.clone() },
            Ledger { merged: 0, ..ledger.clone() },
            Ledger {
                tee: Some(CopyTally { written: 50, lost: 1, ..CopyTally::default() }),
                ..ledger.clone()
            },
        ] {
            assert!(broken.check().is_err());
        }
    }
}
