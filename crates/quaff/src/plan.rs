//! The plan of a run as plain data. Every size is a limit that is checked once.

mod lanes;
mod spread;

pub use crate::pattern::Pattern;
pub use lanes::{LANES_MAX, lanes_of};
pub use spread::{Spread, Via};

use crate::{Error, Result};
use quaff_file::write::{CompressPlan, FileLimit, Format, Output, ROTATE_BYTES_MIN};
use quaff_os::disk::FileAccess;
use quaff_os::packet::TimeSource;
use quaff_os::sandbox::User;
use quaff_send::Ranges;
use quaff_wire::tunnel::TunnelKinds;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfacePlan {
    pub name: String,
    /// The core of each of its lanes; there is at least one.
    pub cpus: Vec<Option<usize>>,
}

/// Interfaces that come while the run lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotplugPlan {
    /// Names and patterns of names, as users write them.
    pub names: Vec<String>,
    /// Number of lanes for them, each with a ring from the start; each lane is used once.
    pub lanes: usize,
}

/// The tunnels to remove from packets, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct DecapPlan {
    pub kinds: TunnelKinds,
    /// Maximum depth of nested tunnels.
    pub depth: u8,
    /// Drop packets that are not in a tunnel.
    pub only: bool,
    /// Use the switch's time stamps, where ERSPAN III has them.
    pub switch_time: bool,
}

/// A filter on decapsulated frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPlan {
    /// tcpdump filter expression.
    pub expression: String,
    /// Filter in user space only, after sequence numbers have been checked.
    pub user: bool,
}

/// Capture files to read instead of interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadPlan {
    /// `-` is standard input.
    pub files: Vec<PathBuf>,
    pub order: ReadOrder,
    /// After damage, search for the next plausible packet.
    pub salvage: bool,
    /// At the end of a file, wait for more until it is renamed or removed.
    pub follow: bool,
    /// The core of the lane.
    pub cpu: Option<usize>,
    /// Threads that share each file, with that of the lane; `None` is one for each core.
    pub lanes: Option<usize>,
    /// Longer packets are cut, bytes; [`SNAPLEN_MAX`] where it is less.
    pub packet_bytes_max: u32,
    /// Bytes of a buffer of the reader; `None` is the best size for one file at a time.
    pub buffer_bytes: Option<usize>,
    /// Other files are read at the same time: one thread decompresses a file.
    pub is_beside_others: bool,
    /// Those of `files` that were found in a folder, from which another process may remove or rename them meanwhile.
    pub found: Arc<BTreeSet<PathBuf>>,
}

impl ReadPlan {
    /// The files, for messages.
    pub(crate) fn name(&self) -> String {
        let first = self.files.first().map(|path| path.display().to_string()).unwrap_or_default();
        match self.files.len() {
            0 | 1 => first,
            2 => format!("{first} and another file"),
            more => format!("{first} and {} more files", more - 1),
        }
    }
}

/// The order of the packets of several files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadOrder {
    /// One file after another.
    #[default]
    AsGiven,
    /// By time. Files should be sorted; a late packet is passed on as soon as it is read.
    ByTime,
    /// By time, including packets that are late in their file. Files are read twice, pipes once.
    Reordered,
}

/// Edits of packets. Edits that select by time or number, or change times, are for packets read from files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditPlan {
    /// Keep packets from this time on, in the times of the file.
    pub from: Option<TimeBound>,
    /// Keep packets before this time.
    pub to: Option<TimeBound>,
    /// Keep packets whose payload matches.
    pub pattern: Option<Pattern>,
    /// Keep these packets, by their numbers in the input.
    pub include: Option<Ranges>,
    /// Drop these packets.
    pub exclude: Option<Ranges>,
    /// Added to each time, ns.
    pub shift_ns: i64,
    /// Remove VLAN tags.
    pub strip_vlan: bool,
    /// Put a made Ethernet header in front of bare IP packets.
    pub ethernet: bool,
    /// Drop packets that occurred before in this window.
    pub dedup: Option<DedupWindow>,
    /// Find packets that were seen before at another place.
    pub duplicates: Option<Duplicates>,
}

/// The action for a packet that was seen before at another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    Count,
    /// All sightings of a packet get the same `epb_packetid`.
    Mark,
    /// All but the first are dropped; of files only.
    Remove,
}

impl TimeBound {
    /// ns since 1970, for a run whose first packet is of `first_ns`.
    pub(crate) fn ns(self, first_ns: Option<u64>) -> Option<u64> {
        match self {
            Self::At(ns) => Some(ns),
            Self::AfterFirst(ns) => first_ns.map(|first_ns| first_ns.saturating_add(ns)),
        }
    }
}

/// A time in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBound {
    /// ns since 1970.
    At(u64),
    /// ns after the first packet.
    AfterFirst(u64),
}

/// Most packets among which a duplicate is searched for; those of a window of time are limited too.
pub(crate) const WINDOW_PACKETS_MAX: u32 = 1_000_000;

/// The packets among which a duplicate is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupWindow {
    /// This many packets, including the packet itself, as editcap counts them.
    Packets(u32),
    /// Packets up to this many ns earlier.
    Time(u64),
}

impl EditPlan {
    /// Refuses a span of time in which no packet can be; `first_ns` is the time of the first packet, once it is known.
    pub(crate) fn check_span(&self, first_ns: Option<u64>) -> Result<()> {
        let bounds = match (self.from, self.to) {
            (Some(TimeBound::AfterFirst(from)), Some(TimeBound::AfterFirst(to))) => Some((from, to)),
            (Some(from), Some(to)) => from.ns(first_ns).zip(to.ns(first_ns)),
            _ => None,
        };
        match bounds {
            Some((from, to)) if from >= to => Err(Error::Plan(
                "`from` is not before `to`: no packet is in between; exchange them, or leave one out".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether all packets pass that the filter wants, by their numbers and times.
    pub(crate) fn selects_nothing(&self) -> bool {
        let Self { from, to, include, exclude, .. } = self;
        from.or(*to).is_none() && include.as_ref().or(exclude.as_ref()).is_none()
    }

    /// Returns whether packets may be dropped, or change their interface.
    fn drops(&self) -> bool {
        let Self { pattern, dedup, ethernet, duplicates, .. } = self;
        !self.selects_nothing()
            || pattern.is_some()
            || dedup.is_some()
            || *ethernet
            || *duplicates == Some(Duplicates::Remove)
    }

    /// The first edit that is for files only.
    fn of_files(&self) -> Option<&'static str> {
        let edits = [
            ("`from`", self.from.is_some()),
            ("`to`", self.to.is_some()),
            ("`include`", self.include.is_some()),
            ("`exclude`", self.exclude.is_some()),
            ("`shift-time`", self.shift_ns != 0),
            ("`dedup`", self.dedup.is_some()),
            ("`duplicates` remove", self.duplicates == Some(Duplicates::Remove)),
        ];
        edits.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

/// Work on each frame, for measurements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadPlan {
    /// Number of copies made of each packet.
    pub copies: u32,
    /// zlib level of compression, 1 to 9; 0 is none.
    pub compression: u32,
}

/// The input of a run: sources, and the stages of their lanes.
#[derive(Debug, Clone, PartialEq)]
pub struct InputPlan {
    /// Empty where files are read.
    pub interfaces: Vec<InterfacePlan>,
    /// The rule by which packets are distributed over several lanes of an interface; `None` is the rule that the stages
    /// need, or [`Spread::Hash`].
    pub spread: Option<Spread>,
    pub via: Via,
    /// AF_XDP may take the packets of an interface by which this machine is reached.
    pub take_from_host: bool,
    pub hotplug: Option<HotplugPlan>,
    pub read: Option<ReadPlan>,
    /// tcpdump filter expression.
    pub filter: Option<String>,
    pub decap: Option<DecapPlan>,
    pub inner: Option<InnerPlan>,
    pub edit: EditPlan,
    /// Bytes kept of each packet; [`SNAPLEN_MAX`] is all.
    pub snaplen: u32,
    pub load: LoadPlan,
    /// Receive frames addressed to other hosts too.
    pub promiscuous: bool,
    /// Do not capture frames that the interfaces send.
    pub is_incoming: bool,
    /// The run ends when any of the interfaces is removed, instead of the last one.
    pub require_all: bool,
    pub time_source: TimeSource,
    /// Bytes of the kernel's ring of each lane.
    pub ring_bytes: usize,
    pub block_bytes: usize,
    /// Limit of packets.
    pub count: Option<u64>,
    /// Collect the evidence of losses before the packets that reach the output.
    pub prove: bool,
    /// SCHED_FIFO priority of the lanes.
    pub real_time: Option<i32>,
}

/// Format, buffer and longest delay of packets on their way to an output, and the core of its writer.
#[derive(Debug, Clone, PartialEq)]
pub struct WritePlan {
    pub format: Format,
    /// Bytes of the buffer between kernel and disk, for all interfaces.
    pub buffer_bytes: usize,
    /// The whole buffer is populated, because its size was given; otherwise as much as the input may need soon.
    pub is_populated: bool,
    pub chunk_bytes: usize,
    /// Longest delay until a packet is written, unless the disk is late.
    pub flush: Duration,
    /// The packets of all lanes are written in the order of their times, into a stream.
    pub ordered: bool,
    /// Limits at which the run ends.
    pub limit: FileLimit,
    /// Interval of syncs of a file that is being written; without one it is synced when it ends.
    pub fsync: Option<Duration>,
    /// Compression of the output.
    pub compress: Option<CompressPlan>,
    /// The core of the writer.
    pub cpu: Option<usize>,
    /// The group and the mode of files.
    pub access: FileAccess,
    /// The owner of files if the sandbox names no user: the caller of sudo(8).
    pub owner: Option<User>,
    /// A comment in the header of each file; pcapng only.
    pub annotation: Option<String>,
    /// A comment on each packet of files that is written, after those that it has; pcapng only.
    pub packet_comment: Option<String>,
}

/// The sandbox of a process, which the process enters at the end of a run's start and never leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxPlan {
    /// The user that the process becomes; `None` leaves it who it is.
    pub user: Option<String>,
}

/// The input, the outputs and the restrictions of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturePlan {
    pub input: InputPlan,
    pub write: WritePlan,
    pub output: Output,
    /// A live copy to stdout or a pipe, whose reader may miss packets. Only together with a folder, except for a copy
    /// to a program that runs already, which the run outlives.
    pub live_copy: Option<Output>,
    /// `None` restricts nothing: for a process that does more than one capture.
    pub sandbox: Option<SandboxPlan>,
}

/// The largest packet that libpcap stores: tcpdump's unlimited.
pub const SNAPLEN_MAX: u32 = 262_144;
/// Bytes of a block of the kernel's ring.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes of a chunk, and of one write.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;
/// The part of the buffer that may wait for compression before packets are stored uncompressed: the rest is for the
/// disk, and for the time until storing has made room.
const BACKLOG_SHARE: u64 = 4;
/// The most bytes that may wait for compression: the end of a capture waits for all of them.
const BACKLOG_BYTES_MAX: u64 = 512 << 20;
/// Room in a chunk beside its longest packet.
const PACKET_ROOM_BYTES: usize = 128 << 10;
/// Longest comment on packets: with the options that a packet has it fits that room.
const PACKET_COMMENT_BYTES_MAX: usize = 16 << 10;
/// Smallest `fsync`.
const FSYNC_MIN: Duration = Duration::from_millis(10);
/// Time after which the kernel retires a block that is not full, ms.
pub const RETIRE_MS: u32 = 50;
/// Time after which an idle interface has no older packet in its ring, ns.
pub(crate) const GRACE_NS: u64 = 4 * RETIRE_MS as u64 * 1_000_000;
/// Time before the first packet in which the buffer is populated; more is populated in the background.
pub const PREFAULT: Duration = Duration::from_millis(500);
/// Bytes of a buffer of the default size that are populated in that time at the most.
pub const PREFAULT_BYTES_MAX: usize = 1 << 30;

/// The default size of a ring: 1/64 of the free memory, 16 to 128 MiB.
pub fn default_ring_bytes(free_bytes: u64) -> usize {
    ((free_bytes / 64) as usize).clamp(16 << 20, 128 << 20) / BLOCK_BYTES * BLOCK_BYTES
}

/// The default size of each ring of several interfaces: all of them together take an eighth of the free memory, or the
/// least size each.
pub fn default_rings_bytes(free_bytes: u64, interfaces: usize) -> usize {
    default_ring_bytes(free_bytes / (interfaces as u64).div_ceil(8).max(1))
}

/// The buffer between a file that is read and one that is written: both can wait.
const READ_BUFFER_BYTES: usize = 32 << 20;

/// The default size of the buffer: a quarter of the free memory, 64 MiB to 8 GiB.
pub fn default_buffer_bytes(free_bytes: u64) -> usize {
    ((free_bytes / 4) as usize).clamp(64 << 20, 8 << 30) / CHUNK_BYTES * CHUNK_BYTES
}

/// The time for which a disk may stall until buffer and rings are full and packets are lost, s, at
/// `bits_per_second` of frames of `frame_bytes`.
pub(crate) fn stall_seconds(plan: &CapturePlan, bits_per_second: f64, frame_bytes: f64) -> f64 {
    // Overhead per packet, bytes: of a pcapng block, and of a record in the kernel's ring.
    const BLOCK: f64 = 44.0;
    const RECORD: f64 = 84.0;
    let frames_per_second = bits_per_second / 8.0 / frame_bytes;
    let in_buffer = plan.write.buffer_bytes as f64 / (frames_per_second * (frame_bytes + BLOCK));
    let in_ring = 0.625 * plan.input.ring_bytes as f64 / (frames_per_second * (frame_bytes + RECORD));
    in_buffer + in_ring
}

impl Default for InputPlan {
    /// All packets, not truncated, with a ring of 64 MiB; without interfaces and files.
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            spread: None,
            via: Via::Packet,
            take_from_host: false,
            hotplug: None,
            read: None,
            filter: None,
            decap: None,
            inner: None,
            edit: EditPlan::default(),
            snaplen: SNAPLEN_MAX,
            load: LoadPlan::default(),
            promiscuous: true,
            is_incoming: false,
            require_all: false,
            time_source: TimeSource::Host,
            ring_bytes: 64 << 20,
            block_bytes: BLOCK_BYTES,
            count: None,
            prove: false,
            real_time: None,
        }
    }
}

impl InputPlan {
    /// Returns whether threads may do the front of a lane: no stage depends on the size of batches, as one that holds
    /// frames back, or ends the run within a batch.
    pub(crate) fn has_front(&self) -> bool {
        let EditPlan { dedup, duplicates, .. } = &self.edit;
        self.decap.is_none() && self.count.is_none() && dedup.is_none() && duplicates.is_none()
    }

    /// A plan for live interfaces, one lane each, with the default sizes.
    pub fn live(names: impl IntoIterator<Item = String>) -> Self {
        let interfaces = names.into_iter().map(|name| InterfacePlan::new(name, None)).collect();
        Self { interfaces, ..Self::default() }
    }

    /// A plan for capture files, read one after another.
    pub fn files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let read = ReadPlan { files: files.into_iter().collect(), ..ReadPlan::default() };
        Self { read: Some(read), ..Self::default() }
    }

    /// Snaplen for the kernel. Frames inside tunnels are truncated after decapsulation, and whole packets are compared
    /// and searched.
    pub(crate) fn kernel_snaplen(&self) -> u32 {
        let needs_all = self.edit.duplicates.is_some() || self.edit.pattern.is_some();
        if self.decap.is_some() || needs_all { SNAPLEN_MAX } else { self.snaplen }
    }

    /// Blocks of each ring.
    pub fn blocks_per_ring(&self) -> usize {
        (self.ring_bytes / self.block_bytes).max(4)
    }

    /// Checks the plan and adjusts its sizes to each other.
    pub(crate) fn validate(mut self) -> Result<Self> {
        if self.read.as_ref().is_some_and(|read| read.files.is_empty()) {
            return Err(Error::Plan("no file to read".into()));
        }
        if self.interfaces.is_empty() && self.read.is_none() && self.hotplug.is_none() {
            return Err(Error::Plan("no `interface` given; 'ip link' lists them".into()));
        }
        if self.hotplug.is_some() && self.time_source == TimeSource::Adapter {
            return Err(Error::Plan(
                "`hotplug` has the kernel's times: the adapter of an interface that comes is not set up"
                    .into(),
            ));
        }
        if let Some(name) = self.duplicate() {
            return Err(Error::Plan(format!(
                "`interface` {name} is given twice, and would capture each packet twice"
            )));
        }
        if self.inner.is_some() && self.decap.is_none() {
            return Err(Error::Plan(
                "`inner` filters decapsulated frames and needs `decap`; `filter` applies to frames as received"
                    .into(),
            ));
        }
        if let (Some(edit), None) = (self.edit.of_files(), &self.read) {
            return Err(Error::Plan(format!("{edit} edits packets of files: it needs `read`")));
        }
        if matches!(self.edit.dedup, Some(DedupWindow::Packets(packets)) if !(2..=WINDOW_PACKETS_MAX).contains(&packets))
        {
            return Err(Error::Plan(format!("a window of `dedup` has 2 to {WINDOW_PACKETS_MAX} packets")));
        }
        self.edit.check_span(None)?;
        self.check_via()?;
        self.check_lanes()?;
        if self.snaplen == 0 || self.snaplen > SNAPLEN_MAX {
            self.snaplen = SNAPLEN_MAX;
        }
        if !self.block_bytes.is_power_of_two() || self.block_bytes < 1 << 16 {
            return Err(Error::Plan("a block of the ring is a power of two, and 64 KiB at least".into()));
        }
        if self.ring_bytes / self.block_bytes < 4 {
            self.block_bytes = (self.ring_bytes / 4).max(1 << 16).next_power_of_two() >> 1;
            self.block_bytes = self.block_bytes.max(1 << 16);
        }
        Ok(self)
    }

    fn duplicate(&self) -> Option<&str> {
        let names: Vec<_> = self.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| *name)
    }
}

impl WritePlan {
    /// A plan for pcapng with a buffer of `given` bytes. By default a live capture gets a share of the free memory, and
    /// files that are read a small buffer, because input and output can wait.
    pub fn with_buffer(given: Option<u64>, free_bytes: u64, is_live: bool) -> Self {
        let default_bytes = if is_live { default_buffer_bytes(free_bytes) } else { READ_BUFFER_BYTES };
        Self {
            format: Format::default(),
            buffer_bytes: given.map_or(default_bytes, |bytes| bytes as usize),
            is_populated: given.is_some(),
            chunk_bytes: CHUNK_BYTES,
            flush: Duration::from_secs(1),
            ordered: false,
            limit: FileLimit::default(),
            fsync: None,
            compress: None,
            cpu: None,
            access: FileAccess::default(),
            owner: None,
            annotation: None,
            packet_comment: None,
        }
    }

    /// Buffers of all lanes; at least two per lane.
    pub fn buffers(&self, lanes: usize) -> usize {
        (self.buffer_bytes / self.chunk_bytes).max(2 * lanes)
    }

    /// Returns whether interfaces get their numbers in the output with their first packets: where all packets of some
    /// may be dropped, the output would otherwise have link types that no packet has. The interface of a live capture
    /// has the counters of the capture, which pcap does not hold.
    pub(crate) fn declares_by_packet(&self, input: &InputPlan) -> bool {
        let (is_pcap, is_inner) = (self.format != Format::Pcapng, input.decap.is_some());
        match input.read {
            Some(_) => is_pcap || is_inner || input.filter.is_some() || input.edit.drops(),
            None => is_pcap && is_inner,
        }
    }

    /// Refuses a format that cannot hold the input, and an interval that is too short.
    pub(crate) fn check(&self, input: &InputPlan) -> Result<()> {
        if self.fsync.is_some_and(|interval| interval < FSYNC_MIN) {
            return Err(Error::Plan("`fsync` must be at least 10ms".into()));
        }
        if self.format != Format::Pcapng && input.edit.duplicates == Some(Duplicates::Mark) {
            return Err(Error::Plan(
                "`duplicates` mark needs the `format` pcapng: pcap has no place for a mark".into(),
            ));
        }
        self.check_packet_comment(input)?;
        match (input.interfaces.len() > 1 || input.hotplug.is_some()) && self.format != Format::Pcapng {
            true => Err(Error::Plan(
                "pcap holds a single interface: use the `format` pcapng, or capture one interface".into(),
            )),
            false => Ok(()),
        }
    }

    /// Refuses a comment on packets that has no place: in a ring packets have no options, and a packet has its room.
    fn check_packet_comment(&self, input: &InputPlan) -> Result<()> {
        let Some(comment) = &self.packet_comment else { return Ok(()) };
        let words = if input.read.is_none() {
            "`comment-packets` comments on packets of files: it needs `read`".into()
        } else if self.format != Format::Pcapng {
            "`comment-packets` needs the `format` pcapng: pcap has no comments".into()
        } else if comment.is_empty() || comment.len() > PACKET_COMMENT_BYTES_MAX {
            format!("a comment of `comment-packets` has 1 to {PACKET_COMMENT_BYTES_MAX} bytes")
        } else {
            return Ok(());
        };
        Err(Error::Plan(words))
    }
}

impl CapturePlan {
    /// Returns whether stdout is the output or the live copy.
    pub fn takes_stdout(&self) -> bool {
        self.output == Output::Stdout || self.live_copy == Some(Output::Stdout)
    }

    /// Checks the plan and adjusts its sizes to each other.
    pub fn validate(mut self) -> Result<Self> {
        self.input = self.input.validate()?;
        self.write.check(&self.input)?;
        let is_tee = matches!(self.live_copy, Some(Output::Stdout | Output::File(_)));
        if is_tee && self.output.folders().is_empty() {
            return Err(Error::Plan("`tee` needs a folder of files".into()));
        }
        if self.write.ordered {
            self.check_order()?;
        }
        if matches!(self.output, Output::Dirs(_)) && self.input.read.is_some() {
            return Err(Error::Plan(
                "several `dir` are for interfaces: files are read into one folder".into(),
            ));
        }
        let by_packets = self.output.folders().iter().any(|dir| dir.rotate_packets.is_some());
        if by_packets && (self.output.folders().len() > 1 || self.input.lanes() > 1) {
            return Err(Error::Plan(
                "`rotate-packets` is for one lane and one folder: several lanes would each count for themselves; \
                 'quaff capture --read' cuts their files afterwards"
                    .into(),
            ));
        }
        if let Some(compress) = &mut self.write.compress {
            // A run from files waits for the compressor, so that the same input makes the same output.
            let backlog_bytes = (self.write.buffer_bytes as u64 / BACKLOG_SHARE).min(BACKLOG_BYTES_MAX);
            compress.backlog_bytes = self.input.read.is_none().then_some(backlog_bytes);
        }
        if self.write.annotation.is_some() && self.write.format != Format::Pcapng {
            return Err(Error::Plan("`annotate` needs the `format` pcapng: pcap has no comments".into()));
        }
        let turn_bytes = self.turn_bytes();
        for dir in self.output.folders_mut() {
            self.write.chunk_bytes = dir.validate(self.write.chunk_bytes)?;
            if let Some(turn_bytes) = turn_bytes {
                dir.rotate_bytes = Some(dir.rotate_bytes.map_or(turn_bytes, |bytes| bytes.min(turn_bytes)));
                self.write.chunk_bytes = dir.validate(self.write.chunk_bytes)?;
            }
        }
        if let Some(read) = &mut self.input.read {
            read.packet_bytes_max = self.write.chunk_bytes.saturating_sub(PACKET_ROOM_BYTES) as u32;
        }
        Ok(self)
    }

    /// Refuses outputs that cannot be ordered during a capture. A path is known to be a pipe only when it is opened.
    fn check_order(&self) -> Result<()> {
        let words = if self.input.read.is_some() {
            "`ordered` is for interfaces, and `read` reads files: 'quaff merge' sorts those by time"
        } else if !self.output.folders().is_empty() {
            "`ordered` is for stdout and pipes; 'quaff merge' sorts a folder by time afterwards"
        } else if self.live_copy.is_some() {
            "`ordered` is for an output without a live copy: leave one of them out"
        } else if self.write.compress.is_some() {
            "`ordered` does not go with `compress`: pipe the output into a compressor"
        } else {
            return Ok(());
        };
        Err(Error::Plan(words.into()))
    }

    /// With more folders than lanes, the largest size of a file, bytes: folders are written in turn, a file each, and
    /// the buffer holds what waits for all the other folders.
    fn turn_bytes(&self) -> Option<u64> {
        let folders = self.output.folders().len();
        let bytes = (self.write.buffer_bytes / (2 * folders.max(1))) as u64;
        (folders > self.input.lanes()).then(|| bytes.max(ROTATE_BYTES_MIN))
    }

    /// Returns a note on folders that are written in turn; `None` if each lane has its own folder.
    pub(crate) fn turn_note(&self) -> Option<String> {
        self.turn_bytes()?;
        let (lanes, folders) = (self.input.lanes(), self.output.folders().len());
        let bytes = crate::format::bytes(self.output.folders().first()?.rotate_bytes?);
        Some(format!(
            "more folders ({folders}) than lanes ({lanes}): each file goes to the next folder, and is {bytes} at \
             most, so that `buffer` holds what waits for the others"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_file::write::DirPlan;

    fn capture(input: InputPlan) -> CapturePlan {
        let write = WritePlan::with_buffer(None, 0, true);
        CapturePlan { input, write, output: Output::Stdout, live_copy: None, sandbox: None }
    }

    fn refusal(plan: CapturePlan) -> String {
        plan.validate().expect_err("a plan that contradicts itself").to_string()
    }

    fn live() -> InputPlan {
        InputPlan::live(["eth0".to_owned()])
    }

    #[test]
    fn a_plan_that_contradicts_itself_is_refused_with_the_reason() {
        assert!(refusal(capture(InputPlan::default())).contains("`interface`"));
        assert!(refusal(capture(InputPlan::files([]))).contains("no file"));
        assert!(refusal(capture(InputPlan::live(["a".to_owned(), "a".to_owned()]))).contains("twice"));
        let mut pcap = capture(InputPlan::live(["a", "b"].map(str::to_owned)));
        pcap.write.format = Format::Pcap;
        assert!(refusal(pcap).contains("pcap"));
        let mut often = capture(live());
        often.write.fsync = Some(Duration::from_millis(9));
        assert!(refusal(often).contains("`fsync`"));
        let inner = Some(InnerPlan { expression: "udp".into(), user: false });
        assert!(refusal(capture(InputPlan { inner, ..live() })).contains("`decap`"));
        let live_copy = Some(Output::Stdout);
        assert!(refusal(CapturePlan { live_copy, ..capture(live()) }).contains("folder"));
        assert!(refusal(capture(InputPlan { block_bytes: 3 << 20, ..live() })).contains("power of two"));
        let edit = EditPlan { to: Some(TimeBound::At(1)), ..EditPlan::default() };
        assert!(refusal(capture(InputPlan { edit, ..live() })).contains("`to` edits"));
        let edit = EditPlan { dedup: Some(DedupWindow::Packets(1)), ..EditPlan::default() };
        assert!(refusal(capture(InputPlan { edit, ..InputPlan::files(["a".into()]) })).contains("`dedup`"));
        let edit = |action| EditPlan { duplicates: Some(action), ..EditPlan::default() };
        let remove = capture(InputPlan { edit: edit(Duplicates::Remove), ..live() });
        assert!(refusal(remove).contains("it needs `read`"));
        let mut mark = capture(InputPlan { edit: edit(Duplicates::Mark), ..live() });
        assert_eq!(InputPlan { snaplen: 64, ..mark.input.clone() }.kernel_snaplen(), SNAPLEN_MAX);
        mark.write.format = Format::PcapUs;
        assert!(refusal(mark).contains("no place for a mark"));
    }

    #[test]
    fn sizes_are_adjusted_to_each_other() {
        let plan = InputPlan { snaplen: 0, ring_bytes: 1 << 20, ..live() }.validate().expect("a plan");
        assert!(plan.snaplen == SNAPLEN_MAX && plan.blocks_per_ring() >= 4, "{plan:?}");
        let dir =
            DirPlan { dir: ".".into(), name: "q".into(), rotate_bytes: Some(16 << 20), ..DirPlan::default() };
        let output = Output::Dir(dir.clone());
        let plan = CapturePlan { output, ..capture(live()) }.validate().expect("a plan");
        assert_eq!((plan.write.chunk_bytes, plan.turn_note()), (1 << 20, None), "a sixteenth of the file");
        // One interface fills two folders in turns, which the buffer permits only for small files.
        let mut two = capture(live());
        (two.write.buffer_bytes, two.output) = (32 << 20, Output::Dirs(vec![dir.clone(), dir.clone()]));
        let plan = two.clone().validate().expect("a plan");
        assert!(plan.output.folders().iter().all(|dir| dir.rotate_bytes == Some(8 << 20)), "{plan:?}");
        assert_eq!(plan.write.chunk_bytes, 512 << 10);
        assert!(plan.turn_note().is_some_and(|note| note.contains("8.00 MiB")), "{:?}", plan.turn_note());
        // Two interfaces have one each.
        let input = InputPlan::live(["a", "b"].map(str::to_owned));
        let plan = CapturePlan { input, ..two.clone() }.validate().expect("a plan");
        assert_eq!((plan.output.folders()[1].rotate_bytes, plan.turn_note()), (Some(16 << 20), None));
        assert!(refusal(CapturePlan { input: InputPlan::files(["a".into()]), ..two }).contains("one folder"));
    }

    #[test]
    fn packets_of_a_file_are_counted_by_one_lane() {
        let dir =
            DirPlan { dir: ".".into(), name: "q".into(), rotate_packets: Some(300), ..DirPlan::default() };
        let plan = |names: &[&str]| {
            let input = InputPlan::live(names.iter().map(|name| (*name).to_owned()));
            CapturePlan { output: Output::Dir(dir.clone()), ..capture(input) }
        };
        assert!(plan(&["a"]).validate().is_ok());
        let refused = plan(&["a", "b"]).validate().expect_err("two lanes").to_string();
        assert!(refused.contains("one lane and one folder"), "{refused}");
    }
}
