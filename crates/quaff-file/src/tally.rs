//! Counters of lanes and of the writer.
//!
//! [`Counts`] are a lane's counters when it sealed a chunk; [`statistics`] makes Interface Statistics Blocks
//! of them. [`WriterTally`] counts the packets written and lost. This module never does I/O.

use crate::moment;
use quaff_os::Reason;
use quaff_wire::format::clause;
use quaff_wire::pcapng::Statistics;
use serde::Serialize;
use std::sync::Arc;

/// The counters of one lane at one moment, since the start of the capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Time of the counters, ns since 1970; 0 before the first.
    pub time_ns: u64,
    /// Packets received by the interface.
    pub nic_received: u64,
    /// Packets dropped by the interface.
    pub nic_dropped: u64,
    /// Packets dropped by the kernel because the ring was full.
    pub kernel_dropped: u64,
    /// Packets packed into chunks, including those of sessions.
    pub packed: u64,
    /// Packets lost because no buffer was free.
    pub lost: u64,
    /// Packets that the input records as dropped by the operating system, without saying where.
    pub recorded: u64,
    /// Time that the interface was down, ns.
    pub down_ns: u64,
    /// Time at which the interface was removed, ns since 1970; 0 if it was not.
    pub removed_ns: u64,
    /// Number of the blocks of names that precede its packets in the input; see [`crate::interfaces`].
    pub names: usize,
    /// The verdict on the packets of the lane (`--prove`), at its end.
    pub proof: Option<Arc<str>>,
    /// The comparison of its packets with earlier ones (`--duplicates`), at its end.
    pub sightings: Option<Sightings>,
    /// Packets removed as duplicates of earlier ones, at its end.
    pub duplicates_removed: u64,
    /// The tunnel sessions of the lane, ordered by interface.
    pub sessions: Vec<SessionCounts>,
}

/// Packets compared with those of the last millisecond, by their contents (`--duplicates`):
/// `compared = first + elsewhere + same_place + unchecked`, of which the first sightings have no counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sightings {
    /// IP packets that were captured whole.
    pub compared: u64,
    /// Seen before at another place (interface, VLAN, MAC addresses or TTL): duplicates.
    pub elsewhere: u64,
    /// Seen before at the same place only: retransmissions, loops, or packets that are equal.
    pub same_place: u64,
    /// Not found, while the table had no room for all packets of the window: they may be duplicates.
    pub unchecked: u64,
    /// Packets that are not IP, or were not captured whole.
    pub not_compared: u64,
}

impl Sightings {
    /// Adds the counts of another lane.
    pub fn add(&mut self, lane: &Self) {
        self.compared += lane.compared;
        self.elsewhere += lane.elsewhere;
        self.same_place += lane.same_place;
        self.unchecked += lane.unchecked;
        self.not_compared += lane.not_compared;
    }
}

/// The counters of one tunnel session, or of another interface of the input than the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Number of the interface in [`crate::interfaces`].
    pub interface: u16,
    /// Packets received; 0 where it is not known.
    pub received: u64,
    /// Packets packed into chunks.
    pub packed: u64,
    /// Packets lost before the capture, by the sequence numbers of the tunnel or the counters of the input.
    pub missing: u64,
    /// Packets dropped just before packets of the session; included in the lane's drops.
    pub dropped: u64,
    /// Packets recorded as dropped by the operating system, as in [`Counts`].
    pub recorded: u64,
}

impl Counts {
    /// Returns the counters of the session with this interface; adds zeros if it is new.
    pub fn session(&mut self, interface: u16) -> &mut SessionCounts {
        let found = self.sessions.binary_search_by_key(&interface, |session| session.interface);
        let at = found.unwrap_or_else(|at| {
            self.sessions.insert(at, SessionCounts { interface, ..SessionCounts::default() });
            at
        });
        &mut self.sessions[at]
    }

    /// Adds the counters of another lane of the same interface.
    pub(crate) fn add_lane(&mut self, lane: &Self) {
        self.time_ns = self.time_ns.max(lane.time_ns);
        self.nic_received += lane.nic_received;
        self.nic_dropped += lane.nic_dropped;
        self.kernel_dropped += lane.kernel_dropped;
        self.packed += lane.packed;
        self.lost += lane.lost;
        self.recorded += lane.recorded;
        self.down_ns = self.down_ns.max(lane.down_ns);
        self.removed_ns = self.removed_ns.max(lane.removed_ns);
        self.names = self.names.max(lane.names);
        self.proof = self.proof.take().or_else(|| lane.proof.clone());
        self.duplicates_removed += lane.duplicates_removed;
        if let Some(of_lane) = &lane.sightings {
            self.sightings.get_or_insert_default().add(of_lane);
        }
        for of in &lane.sessions {
            let session = self.session(of.interface);
            session.received += of.received;
            session.packed += of.packed;
            session.missing += of.missing;
            session.dropped += of.dropped;
            session.recorded += of.recorded;
        }
    }

    /// Returns the number of packed packets without a session.
    pub(crate) fn packed_plain(&self) -> u64 {
        let in_sessions: u64 = self.sessions.iter().map(|session| session.packed).sum();
        self.packed.saturating_sub(in_sessions)
    }
}

/// The counters of a writer at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterTally {
    pub written: u64,
    /// Packets that could not be written.
    pub lost: u64,
    /// The reader of the output took nothing after the end of the run, and was not waited for any longer.
    pub abandoned: bool,
    /// Packets that came after the reader had closed the output, or after its limit; not a loss.
    pub after_close: u64,
    /// Packets that an output ordered by time wrote after a packet of a later time.
    pub late: u64,
    /// The limit that ended the output.
    pub limit: Option<Reason>,
    /// Packets that an interface cannot send, such as those larger than its MTU.
    pub unsendable: u64,
    pub bytes: u64,
    /// Files finished.
    pub files: u64,
    /// Files that end before a failed write, or that could not be synced or named.
    pub failed_files: u64,
    /// Failed files that could not be synced or named: their packets count as written, and may not be on disk.
    pub unsynced_files: u64,
    /// Files that another process removed while they were written, and the number of packets in each, which are lost.
    pub removed: Vec<(String, u64)>,
    /// The first failures: path and error.
    pub failures: Vec<String>,
    /// Files removed by retention, and those of them that earlier runs had left.
    pub pruned: u64,
    pub pruned_earlier: u64,
    /// Warnings for the user.
    pub notes: Vec<String>,
    /// The longest write, ns.
    pub write_high_ns: u64,
    /// Bytes that a sync has completed for.
    pub synced_bytes: u64,
    /// The longest sync of a file that was being written, ns.
    pub sync_high_ns: u64,
    /// The live copy, if there was one.
    pub copy: Option<CopyTally>,
    /// Post-rotate commands, and those of them that failed or could not be started.
    pub commands: u64,
    pub commands_failed: u64,
    /// The folders, if there are several; the counters above are their sums.
    pub folders: Vec<FolderTally>,
    /// The compression of the output, if there is one.
    pub compression: Option<CompressionTally>,
}

/// The counters of one of several folders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FolderTally {
    pub dir: String,
    /// Packets written, and packets lost because writing failed.
    pub written: u64,
    pub lost: u64,
    pub bytes: u64,
    /// Files finished, those that end before a failed write, and those removed by retention.
    pub files: u64,
    pub failed_files: u64,
    pub pruned: u64,
    /// The reason why its writer ended before the run; `None` if it did not.
    pub failure: Option<String>,
}

impl WriterTally {
    /// Adds the counters of the folder `dir`, and the failure that ended it, if there was one.
    pub(crate) fn add_folder(&mut self, dir: String, of: Self, failure: Option<String>) {
        let Self { written, lost, bytes, files, failed_files, pruned, .. } = of;
        self.unsynced_files += of.unsynced_files;
        self.synced_bytes += of.synced_bytes;
        self.sync_high_ns = self.sync_high_ns.max(of.sync_high_ns);
        self.folders.push(FolderTally { dir, written, lost, bytes, files, failed_files, pruned, failure });
        self.written += written;
        self.lost += lost;
        self.bytes += bytes;
        self.files += files;
        self.failed_files += failed_files;
        self.pruned += pruned;
        self.pruned_earlier += of.pruned_earlier;
        self.notes.extend(of.notes);
        self.failures.extend(of.failures);
        self.removed.extend(of.removed);
        self.write_high_ns = self.write_high_ns.max(of.write_high_ns);
        self.commands += of.commands;
        self.commands_failed += of.commands_failed;
    }
}

/// The chunks that were compressed on their way to the output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CompressionTally {
    /// `zstd`, `lz4` or `gzip`, and its level.
    pub format: String,
    pub level: i32,
    /// Bytes of the chunks, and of their frames.
    pub plain_bytes: u64,
    pub bytes: u64,
    /// Frames, one for each chunk.
    pub frames: u64,
    /// Frames stored uncompressed because compression did not keep up, and the bytes in them.
    pub stored_frames: u64,
    pub stored_bytes: u64,
}

impl CompressionTally {
    pub(crate) fn new(format: &str, level: i32) -> Self {
        Self { format: format.to_owned(), level, ..Self::default() }
    }

    /// Counts a chunk of `plain_bytes` and its frame.
    pub(crate) fn count(&mut self, plain_bytes: u64, frame_bytes: u64, is_rushed: bool) {
        self.plain_bytes += plain_bytes;
        self.bytes += frame_bytes;
        self.frames += 1;
        self.stored_frames += u64::from(is_rushed);
        self.stored_bytes += if is_rushed { plain_bytes } else { 0 };
    }
}

/// The counters of a live copy. Packets that its reader missed are not a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyTally {
    /// Packets that the reader received.
    pub written: u64,
    /// Packets that the reader missed because it was too slow.
    pub lost: u64,
    /// Packets that came after the reader had closed the pipe.
    pub after_close: u64,
    /// Bytes that the reader received.
    pub bytes: u64,
}

/// Returns the comment of an interface: its time down, its removal, the verdict on its packets, duplicates.
fn comment(counts: &Counts) -> Option<String> {
    let proof = counts.proof.as_ref().map(|proof| format!("proof: {proof}"));
    let sightings = counts.sightings.as_ref().map(|of| {
        let Sightings { elsewhere, same_place, unchecked, not_compared, .. } = of;
        format!(
            "duplicates: {elsewhere} packets seen before at another place, {same_place} at the same place, \
             {unchecked} unchecked, {not_compared} not compared"
        )
    });
    let removed = counts.duplicates_removed;
    let removed = (removed > 0).then(|| format!("{removed} duplicates were removed"));
    let parts: Vec<_> =
        link_comment(counts).into_iter().chain(proof).chain(sightings).chain(removed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn link_comment(counts: &Counts) -> Option<String> {
    let down = (counts.down_ns > 0).then(|| format!("was down for {:.3} s", counts.down_ns as f64 / 1e9));
    let removed =
        (counts.removed_ns > 0).then(|| format!("was removed at {}", moment::utc(counts.removed_ns, 3)));
    let parts: Vec<_> = down.into_iter().chain(removed).collect();
    (!parts.is_empty()).then(|| format!("the interface {}", parts.join(" and ")))
}

/// Converts a lane's counts into Interface Statistics Blocks: one for its interface, one for each session.
///
/// An interface has received at least what the filter accepted: its own counter is read less often. `filter_accepted`
/// less `os_dropped` and `delivered` is the number of packets lost because no buffer was free. `interface_dropped` of a
/// session is its loss before the capture.
pub fn statistics(
    interface: u32,
    start_ns: u64,
    counts: &Counts,
) -> impl Iterator<Item = Statistics> + use<'_> {
    let packed = counts.packed_plain();
    // Drops recorded with sessions are not recorded with the lane's interface again.
    let elsewhere: u64 = counts.sessions.iter().map(|session| session.dropped).sum();
    let os_dropped = counts.kernel_dropped.saturating_sub(elsewhere) + counts.recorded;
    let lost = counts.lost.saturating_sub(elsewhere.saturating_sub(counts.kernel_dropped));
    let filter_accepted = os_dropped + lost + packed;
    let own = Statistics {
        interface,
        time_ns: counts.time_ns,
        start_ns,
        received: counts.nic_received.max(filter_accepted),
        interface_dropped: counts.nic_dropped,
        filter_accepted,
        os_dropped,
        delivered: packed,
        comment: comment(counts),
    };
    let sessions = counts.sessions.iter().map(move |session| Statistics {
        interface: u32::from(session.interface),
        time_ns: counts.time_ns,
        start_ns,
        received: session.received.max(session.packed + session.dropped + session.recorded),
        interface_dropped: session.missing,
        filter_accepted: session.packed + session.dropped + session.recorded,
        os_dropped: session.dropped + session.recorded,
        delivered: session.packed,
        comment: (session.missing > 0)
            .then(|| clause(session.missing, "packet", "were lost before the capture")),
    });
    std::iter::once(own).chain(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counter of the interface is older than those of the packets.
    #[test]
    fn an_interface_has_received_what_its_filter_accepted() {
        let session = SessionCounts { interface: 1, packed: 4, dropped: 1, ..SessionCounts::default() };
        let sessions = vec![session];
        let counts =
            Counts { nic_received: 5, packed: 9, lost: 2, kernel_dropped: 3, sessions, ..Counts::default() };
        for (of, received) in statistics(0, 0, &counts).zip([9, 5]) {
            assert_eq!((of.received, of.filter_accepted), (received, received), "{of:?}");
        }
        let counts = Counts { nic_received: 50, ..counts };
        assert_eq!(statistics(0, 0, &counts).next().map(|of| of.received), Some(50));
    }

    #[test]
    fn duplicates_of_all_lanes_are_in_the_comment() {
        let of_lane = |elsewhere| Sightings { compared: 9, elsewhere, same_place: 1, ..Sightings::default() };
        let lane = |elsewhere, duplicates_removed| Counts {
            sightings: Some(of_lane(elsewhere)),
            duplicates_removed,
            ..Counts::default()
        };
        let mut sum = Counts::default();
        [lane(2, 0), lane(3, 5), Counts::default()].iter().for_each(|of| sum.add_lane(of));
        assert_eq!(sum.sightings, Some(Sightings { compared: 18, same_place: 2, ..of_lane(5) }));
        let expected = "duplicates: 5 packets seen before at another place, 2 at the same place, 0 unchecked, \
                        0 not compared; 5 duplicates were removed";
        assert_eq!(comment(&sum).as_deref(), Some(expected));
        assert_eq!(comment(&Counts::default()), None);
    }

    #[test]
    fn the_comment_of_an_interface_says_what_happened_to_its_link() {
        let comment =
            |down_ns, removed_ns| link_comment(&Counts { down_ns, removed_ns, ..Counts::default() });
        assert_eq!(comment(0, 0), None);
        assert_eq!(comment(1_500_000_000, 0).as_deref(), Some("the interface was down for 1.500 s"));
        let both = comment(1_500_000_000, 1_790_000_000_000_000_000).unwrap();
        assert_eq!(both, "the interface was down for 1.500 s and was removed at 2026-09-21T14:13:20.000Z");
        // The packer keeps this much room for a comment.
        assert!(comment(u64::MAX, u64::MAX).unwrap().len() < 100);
    }
}
