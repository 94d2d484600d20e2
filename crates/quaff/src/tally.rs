//! The account of every packet. Each packet ends in exactly one tally, and the sums are checked.
//!
//! ```text
//!   offered  = received + all terms of `terms`
//!   received = written + lost
//!   lost     = lost_in_buffer + lost_on_disk
//!   of AF_XDP: seen = received + ring_full + fill_empty + dropped + invalid + passed
//!   of a copy: written + lost_on_disk = tee.written + tee.lost + tee.after_close
//! ```

mod ledger;
mod summary;
mod terms;

pub use ledger::Ledger;
pub use summary::RunSummary;
pub(crate) use summary::has_summary;
pub(crate) use terms::IDENTITY;
pub use terms::{Fate, TERMS, Term, Terms};

use quaff_file::read::SkippedBytes;
use quaff_file::tally::Sightings;
use quaff_file::verify;
use quaff_os::link_counters::{LinkDrops, Tap};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// The counters of a lane at its end, in packets unless stated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneTally {
    pub interface: String,
    /// Packets that reached the interface during the capture.
    pub offered: u64,
    #[serde(flatten)]
    pub terms: Terms,
    /// Received from the kernel and kept.
    pub received: u64,
    /// The comparison with earlier packets (`--duplicates`); in none of the sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sightings: Option<Sightings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decap: Option<DecapTally>,
    /// Packed into chunks for the writer.
    pub packed: u64,
    /// Lost because no buffer was free.
    pub lost_in_buffer: u64,
    /// Frames whose VLAN tags were removed.
    pub untagged: u64,
    /// Bare IP packets that got a made Ethernet header.
    pub ethernet_made: u64,
    /// Packets cut without a snaplen: longer than 262,144 bytes or than a block of the kernel's ring.
    pub truncated: u64,
    /// Frames that the adapter did not stamp although it was asked to: they have the kernel's time.
    pub without_adapter_time: u64,
    /// Frames larger than the MTU allows: merged by GRO or TSO.
    pub oversize: u64,
    pub ring_freezes: u64,
    /// Left in the kernel's ring at the end because a block came too late; included in `kernel_dropped`.
    pub ring_unread: u64,
    /// Largest number of the ring's blocks that waited.
    pub ring_high_blocks: u64,
    pub ring_blocks: u64,
    /// Maximum of the buffers in use, and the most that the lane may use: all but the shares of other lanes.
    pub pool_high_buffers: u64,
    pub pool_buffers: u64,
    /// Times that the interface went down.
    pub downs: u64,
    pub down_ns: u64,
    /// Time at which the interface was removed during the run, ns since 1970; 0 if it was not.
    pub removed_ns: u64,
    /// Time from which the interface was captured, if it came during the run, ns since 1970; 0 if it was there before.
    pub came_ns: u64,
    /// The drop counters of the interface, its driver and the interfaces below that rose while the socket was open.
    #[serde(flatten)]
    pub link: LinkDrops,
    /// The fates of the packets that the XDP program of a capture by AF_XDP saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpTally>,
    /// Frames of other protocols than IPv4, IPv6 and ARP. Those without a handler are in `rx_dropped` as well.
    pub other_protocols: u64,
    /// The parts of its lanes, if the interface has several; they are in the sums.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneShare>,
}

/// The fates of the packets that the XDP program saw on an interface:
/// `seen = received + ring_full + fill_empty + dropped + invalid + passed`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct XdpTally {
    /// `native` or `generic`, and `zero-copy` or `copy`.
    pub mode: String,
    /// Receive queues, each with a socket and a lane.
    pub queues: u64,
    /// Receive queues beyond those, the most that were seen: they were added during the capture, and have no lane. A
    /// driver need not run the program on them.
    pub added_queues: u64,
    pub seen: u64,
    /// Received by the sockets, before any filter.
    pub received: u64,
    /// The receive ring of a socket was full.
    pub ring_full: u64,
    /// No memory of a socket was free: its lane was late.
    pub fill_empty: u64,
    /// Dropped at a socket for another reason, such as a frame that does not fit its memory; and `unexplained`.
    pub dropped: u64,
    /// Redirected, but in no counter of a socket: the redirection failed. A part of `dropped`.
    pub unexplained: u64,
    /// Lost to an invalid address in a fill ring. The kernel skips those, and one would be a defect: always 0.
    pub invalid: u64,
    /// Packets of receive queues without a socket: the stack of this machine received them, and they are not captured.
    pub passed: u64,
    /// Times that the driver found no memory of a socket (zero-copy). What it dropped for that is in its own counters,
    /// and in no sum here.
    pub starved: u64,
    /// Time at which another program was found to have detached or replaced the XDP program, which ended its lanes, ns
    /// since 1970; 0 if none has. Packets that arrived up to a second before that are in no sum.
    pub displaced_ns: u64,
}

impl XdpTally {
    /// Packets that a socket should have received, and did not.
    pub fn lost(&self) -> u64 {
        self.ring_full + self.fill_empty + self.dropped + self.invalid
    }

    /// The sum of all fates.
    pub(crate) fn accounted(&self) -> u64 {
        self.received + self.lost() + self.passed
    }
}

/// The part of one lane of an interface, in packets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LaneShare {
    /// Received from the kernel and kept.
    pub received: u64,
    /// Dropped because the lane's ring was full.
    pub kernel_dropped: u64,
    /// Lost because no buffer was free.
    pub lost_in_buffer: u64,
}

impl LaneTally {
    /// Returns the tally of an interface, from those of its lanes. The last lane has the counters of the interface.
    pub(crate) fn of_interface(mut lanes: Vec<Self>) -> Self {
        let share = |lane: &Self| {
            let (received, lost_in_buffer) = (lane.received, lane.lost_in_buffer);
            LaneShare { received, kernel_dropped: lane.kernel_dropped, lost_in_buffer }
        };
        let shares = lanes.iter().map(share).collect();
        let Some(last) = lanes.pop() else { return Self::default() };
        match lanes.is_empty() {
            true => last,
            false => lanes.into_iter().fold(Self { lanes: shares, ..last }, Self::add_lane),
        }
    }

    /// Adds another lane of the same interface, without its link.
    fn add_lane(mut self, lane: Self) -> Self {
        let sums = [
            (&mut self.offered, lane.offered),
            (&mut self.received, lane.received),
            (&mut self.packed, lane.packed),
            (&mut self.lost_in_buffer, lane.lost_in_buffer),
            (&mut self.untagged, lane.untagged),
            (&mut self.ethernet_made, lane.ethernet_made),
            (&mut self.truncated, lane.truncated),
            (&mut self.without_adapter_time, lane.without_adapter_time),
            (&mut self.oversize, lane.oversize),
            (&mut self.ring_freezes, lane.ring_freezes),
            (&mut self.ring_unread, lane.ring_unread),
            (&mut self.ring_high_blocks, lane.ring_high_blocks),
            (&mut self.ring_blocks, lane.ring_blocks),
            (&mut self.pool_high_buffers, lane.pool_high_buffers),
            (&mut self.other_protocols, lane.other_protocols),
        ];
        sums.into_iter().for_each(|(sum, of_lane)| *sum += of_lane);
        self.terms.add(&lane.terms);
        // Each lane sees the same link, and may use the same common buffers.
        let highest = [
            (&mut self.pool_buffers, lane.pool_buffers),
            (&mut self.downs, lane.downs),
            (&mut self.down_ns, lane.down_ns),
            (&mut self.removed_ns, lane.removed_ns),
            (&mut self.came_ns, lane.came_ns),
        ];
        highest.into_iter().for_each(|(most, of_lane)| *most = of_lane.max(*most));
        // The lane that ended last has the XDP counters of all lanes.
        self.xdp = self.xdp.or(lane.xdp);
        self.sightings = all_sightings(self.sightings.iter().chain(&lane.sightings));
        match (&mut self.decap, lane.decap) {
            (Some(decap), Some(of_lane)) => decap.add(of_lane),
            (decap, of_lane) => *decap = decap.take().or(of_lane),
        }
        self
    }

    /// The lane's packet socket, for the comparison of its counters with those of the backlogs.
    pub fn tap(&self) -> Tap<'_> {
        Tap { link: &self.link, other_protocols: self.other_protocols, hidden: self.filtered }
    }
}

impl Deref for LaneTally {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

impl DerefMut for LaneTally {
    fn deref_mut(&mut self) -> &mut Terms {
        &mut self.terms
    }
}

/// The verdict on the packets of a lane, by their own evidence.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LaneVerdict {
    pub interface: String,
    /// The verdict in one line.
    pub verdict: String,
    /// Complete, by all that is known.
    pub complete: bool,
    /// There was something to judge by.
    pub judged: bool,
    /// Connections and numbered senders that are evidence.
    pub witnesses: u64,
    /// Lost before the lane: an estimate.
    pub lost_packets: u64,
    /// The share of data segments, and its interval of 95 %; `None` without evidence of TCP.
    pub loss_ratio: Option<f64>,
    pub loss_low: Option<f64>,
    pub loss_high: Option<f64>,
    /// Times before the first loss and after the last one, ns since 1970.
    pub first_loss_ns: Option<u64>,
    pub last_loss_ns: Option<u64>,
}

impl LaneVerdict {
    pub(crate) fn new(interface: &str, report: &verify::Report) -> Self {
        let (loss, mirrored) = (&report.tcp.loss, &report.numbers.erspan);
        let first = [loss.first_loss_ns, mirrored.first_loss_ns];
        Self {
            interface: interface.to_owned(),
            verdict: report.verdict.clone(),
            complete: report.outcome.complete,
            judged: report.outcome.is_judged,
            witnesses: report.witnesses(),
            lost_packets: report.lost_here(),
            loss_ratio: loss.loss_ratio,
            loss_low: loss.loss_low,
            loss_high: loss.loss_high,
            first_loss_ns: first.into_iter().flatten().min(),
            last_loss_ns: loss.last_loss_ns.max(mirrored.last_loss_ns),
        }
    }
}

/// The results of decapsulation. Packets that are not stripped pass unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DecapTally {
    /// Packets replaced by their inner frames.
    pub stripped: u64,
    /// Tunnel packets without a frame: markers, echoes, keepalives.
    pub control: u64,
    /// Invalid tunnel headers, by reason.
    pub damaged: BTreeMap<String, u64>,
    /// Fragments of incomplete datagrams.
    pub incomplete: u64,
    /// Fragments that were held back and are in the output after packets of later times.
    pub delayed: u64,
    /// The sessions, in the order of their first packets.
    pub sessions: Vec<SessionTally>,
}

impl DecapTally {
    fn add(&mut self, lane: Self) {
        self.stripped += lane.stripped;
        self.control += lane.control;
        self.incomplete += lane.incomplete;
        self.delayed += lane.delayed;
        for (reason, count) in lane.damaged {
            *self.damaged.entry(reason).or_default() += count;
        }
        self.sessions.extend(lane.sessions);
    }
}

/// The counters of one tunnel session on one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SessionTally {
    /// The name of its interface in the file: `eth0 erspan2 10.0.0.1 session 5`.
    pub name: String,
    pub received: u64,
    /// Packets lost before the capture, by sequence numbers.
    pub missing: u64,
    /// Packets received after higher sequence numbers.
    pub late: u64,
    /// Restarts of the sender's sequence numbers.
    pub restarts: u64,
}

/// The files that were read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InputTally {
    /// Files opened.
    pub files: u64,
    /// Bytes read, decompressed.
    pub bytes: u64,
    /// Damage that ended the reading of a file.
    pub damages: Vec<String>,
    /// Files of a folder that were removed after it was listed: none of their packets was read, or not all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Bytes skipped by `--salvage`.
    pub jumps: SkippedBytes,
    /// Drops recorded when the files were captured, with packets or in counters; in none of the sums. The run is lossy.
    pub recorded_drops: u64,
    /// Packets with times that the output cannot hold, which got the latest time that it can: pcap ends in 2106, pcapng
    /// with ns in 2554.
    pub late_times: u64,
    /// Packets of times before 1970, which became the first ns of it.
    pub early_times: u64,
    /// Packets whose original length was below the captured one, to which it was raised.
    pub raised_lengths: u64,
    /// Packets whose fraction of a second was a second or more, in the unit of their file.
    pub large_fractions: u64,
    /// The first file that could not be read at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The files that record drops, and how many.
    #[serde(skip)]
    pub drops_of_files: Vec<(String, u64)>,
    /// Packets of link types that are not looked into.
    #[serde(skip)]
    pub unknown_links: BTreeMap<u16, u64>,
    /// Warnings for the user.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The order of packets that were merged by time.
    #[serde(skip)]
    pub merge: Option<MergeTally>,
}

/// The order of the packets of files that were merged by time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MergeTally {
    /// Files with packets that are earlier than one before them, in the order of the files.
    pub unsorted: Vec<UnsortedFile>,
    /// Packets that are earlier than one before them in the output; those without a time do not count.
    pub backward: u64,
    /// Late packets that were sorted in.
    pub reordered: u64,
    /// Bytes of late packets that went through a temporary file.
    pub spilled_bytes: u64,
    /// Files that were open at once, at most.
    pub open_max: u64,
}

/// A file that is not sorted by time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnsortedFile {
    pub path: String,
    /// Packets that are earlier than one before them.
    pub late: u64,
    /// The largest lateness, ns.
    pub late_max_ns: u64,
}

impl InputTally {
    /// Adds the tally of other files; equal warnings are kept once.
    pub(crate) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.damages.extend(other.damages);
        self.missing.extend(other.missing);
        self.jumps.add(other.jumps);
        self.recorded_drops = self.recorded_drops.saturating_add(other.recorded_drops);
        self.drops_of_files.extend(other.drops_of_files);
        self.late_times += other.late_times;
        self.early_times += other.early_times;
        self.raised_lengths += other.raised_lengths;
        self.large_fractions += other.large_fractions;
        self.failure = self.failure.take().or(other.failure);
        for (linktype, packets) in other.unknown_links {
            *self.unknown_links.entry(linktype).or_default() += packets;
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Returns whether the files were read completely.
    pub fn is_whole(&self) -> bool {
        let is_read = self.damages.is_empty() && self.missing.is_empty();
        is_read && self.jumps.count == 0 && self.failure.is_none()
    }
}

/// Packets that were dropped below the capture sockets while these were open, and are in no sum.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BelowTap {
    /// Dropped on the captured interfaces (`rx_dropped`).
    pub rx_dropped: u64,
    /// Rise of the drivers' own drop counters that nothing else explains.
    pub driver_dropped: u64,
    /// Dropped by XDP programs of the captured interfaces, if their drivers count them.
    pub xdp_dropped: u64,
    /// Dropped on the interfaces below the captured ones: ports of a bridge or a bond, the card of a VLAN.
    pub lower_dropped: u64,
    /// Dropped by the backlogs of all cores (`softnet_stat`), from any interface.
    pub softnet_dropped: u64,
    /// Times that a core stopped with frames left, at the end of its budget; not a loss. Only of the cores that serve
    /// the captured interfaces, where these are known.
    pub softnet_squeezed: u64,
}

/// The statement of a run about loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every packet that was offered and wanted is in the output.
    Lossless,
    /// Packets are missing in the output, or cut.
    Lossy,
    /// A counter moved that may or may not count packets of this run, or the run failed.
    #[default]
    Unknown,
}

/// Sentences, with numbers, about packets that are in no sum of losses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Packets that were lost or cut.
    pub lossy: Vec<String>,
    /// Packets that may have been lost.
    pub unknown: Vec<String>,
    /// Causes of losses that are in the sums.
    pub notes: Vec<String>,
}

/// Returns the sum of all comparisons; `None` without any.
fn all_sightings<'a>(of: impl Iterator<Item = &'a Sightings>) -> Option<Sightings> {
    of.copied().reduce(|mut sum, of_lane| {
        sum.add(&of_lane);
        sum
    })
}

/// Adds up one count of all lanes, or of all members.
pub(crate) fn sum<T>(of: &[T], count: fn(&T) -> u64) -> u64 {
    of.iter().map(count).sum()
}

/// Checks that both sides of each identity are equal.
pub(crate) fn check(identities: impl IntoIterator<Item = (&'static str, u64, u64)>) -> Result<(), String> {
    match identities.into_iter().find(|(_, left, right)| left != right) {
        Some((identity, left, right)) => {
            Err(format!("the ledger does not add up: {identity}: {left} is not {right}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_file::tally::{CopyTally, FolderTally, WriterTally};

    #[test]
    fn lanes_of_an_interface_are_one_tally() {
        let damaged = |count| BTreeMap::from([("short".to_owned(), count)]);
        let decap =
            |stripped, count| Some(DecapTally { stripped, damaged: damaged(count), ..DecapTally::default() });
        let lane = |received, downs, decap| LaneTally {
            interface: "eth0".into(),
            offered: received + 1,
            received,
            terms: Terms { kernel_dropped: 1, ..Terms::default() },
            downs,
            decap,
            ..LaneTally::default()
        };
        let link = LinkDrops { rx_dropped: 7, ..LinkDrops::default() };
        let mut last = LaneTally { link: link.clone(), ..lane(20, 1, decap(5, 2)) };
        last.filtered = 3;
        let one = LaneTally::of_interface(vec![last.clone()]);
        assert_eq!(one, last, "a single lane is its interface");
        let all = LaneTally::of_interface(vec![lane(10, 2, decap(4, 1)), lane(5, 0, None), last]);
        let sums = (all.offered, all.received, all.kernel_dropped, all.filtered, all.downs);
        assert_eq!((sums, &all.link), ((38, 35, 3, 3, 2), &link));
        assert_eq!(all.decap, decap(9, 3));
        assert_eq!(all.lanes.iter().map(|lane| lane.received).collect::<Vec<_>>(), [10, 5, 20]);
    }

    #[test]
    fn the_identity_catches_a_packet_that_ended_nowhere() {
        let terms = Terms::numbered();
        let lane = LaneTally {
            offered: 94 + terms.sum(),
            terms,
            received: 94,
            lost_in_buffer: 5,
            ..LaneTally::default()
        };
        let writer = WriterTally { written: 84, lost: 5, ..WriterTally::default() };
        let mut ledger = Ledger::new(RunSummary::of(vec![lane]), &writer, 1, 1);
        assert_eq!(ledger.check(), Ok(()));
        ledger.judge();
        assert_eq!((ledger.verdict, ledger.lossless), (Verdict::Lossy, false));
        let broken = |change: &dyn Fn(&mut Ledger)| {
            let mut broken = ledger.clone();
            change(&mut broken);
            assert!(broken.check().is_err());
        };
        broken(&|ledger| ledger.offered += 1);
        broken(&|ledger| ledger.written -= 1);
        for term in 0..TERMS.len() {
            let without = |ledger: &mut Ledger| ledger.run.terms = terms.without(term);
            broken(&without);
        }
        broken(&|ledger| {
            let xdp = Some(XdpTally { seen: 3, received: 2, ..XdpTally::default() });
            ledger.interfaces = vec![LaneTally { xdp, ..LaneTally::default() }];
        });
        broken(&|ledger| {
            ledger.outputs = vec![FolderTally { written: 83, lost: 5, ..FolderTally::default() }];
        });
        broken(&|ledger| ledger.tee = Some(CopyTally { written: 50, lost: 1, ..CopyTally::default() }));
    }
}
