//! Capture files as the source of a lane. Packets are borrowed from the parts of the files as they were
//! read, and never copied or lost: without room in the output, reading waits.
//!
//! The interfaces of the files become those of the output. The same interface in several files or
//! sections is one; one that appears later is added then. Equal ones of a section stay several. The drops that
//! the files record are added up for each, and become drops of the output. Names of addresses are those of the output
//! too, whatever file or section has them.

mod interface_run;
mod look;
mod translation;

use super::{Ahead, Pull, Source, SourceTally};
use crate::batch::{BATCH_FRAMES, Frame};
use crate::front::{FrontPlace, FrontPlan, Ready};
use crate::gauge::LaneGauges;
use crate::plan::{ReadPlan, SNAPLEN_MAX};
use crate::tally::{InputTally, LaneTally, Terms};
use crate::{Error, Result};
use interface_run::InterfaceRun;
use look::{FileFacts, FileLook, SeenFrames, Times, describe, has_options};
use quaff_file::read::{Advance, CaptureFile, Error as FileError, Options};
use quaff_file::tally::Counts;
use quaff_file::verify::LedgerBuilder;
use quaff_file::write::Format;
use quaff_file::{INTERFACES_MAX, Interfaces};
use quaff_os::Stop;
use quaff_wire::decode::{self, Corrections, Item};
use quaff_wire::linktype;
use quaff_wire::net::is_known_link;
use quaff_wire::pcapng::{self, Interface, PacketOptions, Section};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
pub(super) use translation::{InterfaceCounts, Numbers, counts_of};
use translation::{Origin, Translation};

/// The last time of pcap, whose seconds have 32 bits: in 2106, ns since 1970.
const PCAP_TIME_MAX_NS: u64 = ((u32::MAX as u64) + 1) * 1_000_000_000 - 1;

/// Files that are read one after another.
#[derive(Debug)]
pub(crate) struct Files {
    plan: ReadPlan,
    left: VecDeque<PathBuf>,
    file: Option<CaptureFile>,
    stop: Stop,
    is_closing: bool,
    translation: Translation,
    pending: Option<Pending>,
    /// Options of the frames of the batch.
    options: Vec<PacketOptions>,
    dropped: u64,
    last_ns: u64,
    order: FileOrder,
    /// Bytes of the files before the present one.
    used_bytes: u64,
    /// The failure after the frames returned last.
    failure: Option<FileError>,
    frames: u64,
    wire_bytes: u64,
    truncated: u64,
    /// A snaplen asks for a part of each packet.
    is_part_wanted: bool,
    /// Longer packets are cut, bytes.
    packet_bytes_max: u32,
    /// The latest time that the output can have, ns since 1970.
    time_max_ns: u64,
    /// The output has a place for options of packets, and for names.
    has_options: bool,
    names: NamesSeen,
    /// The first section of the files; nothing if that is of a format without sections.
    section: Option<Section>,
    input: InputTally,
    /// The name of the open file, and the drops that those before it record.
    opened: (String, u64),
    /// The counters in the section that is read.
    ledger: LedgerBuilder,
    /// By the numbers of the output's interfaces.
    counted: Vec<InterfaceCounts>,
    /// The output holds counters.
    has_counters: bool,
    gauges: Arc<LaneGauges>,
    /// The work of threads on the packets.
    front: FrontPlace,
    /// The look behind the batch that was returned last, if a thread has described it.
    seen: Option<Box<SeenFrames>>,
}

/// Numbers of blocks of names.
#[derive(Debug, Clone, Copy, Default)]
struct NamesSeen {
    /// Those that precede the frames returned last.
    before: usize,
    found: usize,
}

impl NamesSeen {
    /// Notes how many were found. A batch that `is_empty` comes after them, another ends here; returns which.
    fn note(&mut self, found: usize, is_empty: bool) -> bool {
        self.found = found;
        if is_empty {
            self.before = found;
        }
        is_empty
    }
}

/// A frame that must be the first of its batch, with its options and the number of drops before it.
#[derive(Debug)]
struct Pending {
    frame: Frame,
    options: Option<PacketOptions>,
    dropped: u64,
}

/// Notices files that overlap in time: they are read one after another, so the output is not sorted.
#[derive(Debug, Default)]
struct FileOrder {
    /// The present file, until its first frame was seen.
    begun: Option<String>,
    /// The file before it, and the latest time so far, ns since 1970.
    before: Option<(String, u64)>,
    present: String,
    is_noted: bool,
}

impl FileOrder {
    fn begin(&mut self, name: String) {
        self.begun = Some(name);
    }

    /// Takes the time of the first frame of a batch, and the latest one.
    fn see(&mut self, first_ns: u64, latest_ns: u64, notes: &mut Vec<String>) {
        if let Some(name) = self.begun.take() {
            let overlap = self.before.as_ref().filter(|(_, before_ns)| first_ns < *before_ns);
            if let Some((before, before_ns)) = overlap.filter(|_| !self.is_noted) {
                let seconds = (before_ns - first_ns) as f64 / 1e9;
                notes.push(format!(
                    "{name} begins {seconds:.3} s before {before} ends: files are read one after another, so the packets \
                     are not sorted by time; 'quaff merge' sorts them"
                ));
                self.is_noted = true;
            }
            self.present = name;
        }
        let latest_ns = self.before.take().map_or(latest_ns, |(_, before_ns)| before_ns.max(latest_ns));
        self.before = Some((self.present.clone(), latest_ns));
    }
}

impl Files {
    /// Opens the first file and reads up to its first packet, whose time is the start of the run.
    pub(crate) fn open(
        plan: ReadPlan,
        format: Format,
        interfaces: Interfaces,
        stop: Stop,
        gauges: Arc<LaneGauges>,
    ) -> Result<Self> {
        let mut files = Self::new(plan, format, interfaces, stop, gauges);
        files.peek()?;
        files.translation.interfaces.end_first_names();
        ensure_interface(&files.translation.interfaces);
        Ok(files)
    }

    /// One file among several that are read side by side: nothing of it is read yet. Equal interfaces of sections with
    /// different origins stay apart. With `has_front`, a thread describes frames ahead.
    pub(super) fn one_of(
        plan: ReadPlan,
        format: Format,
        (interfaces, numbers): (Interfaces, Numbers),
        stop: Stop,
        has_front: bool,
    ) -> Self {
        let mut files = Self::new(plan, format, interfaces, stop, Arc::default());
        (files.translation.numbers, files.translation.knows_origin) = (numbers, true);
        // Each file of a merge has one of its own.
        let cores = quaff_os::cpu::allowed().map_or(1, |cores| cores.len());
        files.plan.lanes = files.plan.lanes.or(Some(cores.min(2)));
        if has_front {
            files.front = Arc::new(FrontPlan::default().into());
        }
        files
    }

    fn new(
        plan: ReadPlan,
        format: Format,
        interfaces: Interfaces,
        stop: Stop,
        gauges: Arc<LaneGauges>,
    ) -> Self {
        // A stage does it where interfaces are declared with their packets.
        let is_pcap = format != Format::Pcapng && !interfaces.waits_for_packets();
        let translation = Translation {
            interfaces,
            numbers: Numbers::default(),
            knows_origin: false,
            origin: Origin::default(),
            equal: HashMap::new(),
            of_section: Vec::new(),
            is_pcap,
            unsuited: 0,
            lacks_names: false,
        };
        let mut files = Self {
            left: plan.files.iter().cloned().collect(),
            plan,
            file: None,
            stop,
            is_closing: false,
            translation,
            pending: None,
            options: Vec::new(),
            dropped: 0,
            last_ns: 0,
            order: FileOrder::default(),
            used_bytes: 0,
            failure: None,
            frames: 0,
            wire_bytes: 0,
            truncated: 0,
            is_part_wanted: false,
            packet_bytes_max: SNAPLEN_MAX,
            time_max_ns: if format == Format::Pcapng { u64::MAX - 1 } else { PCAP_TIME_MAX_NS },
            has_options: format == Format::Pcapng,
            names: NamesSeen::default(),
            section: None,
            input: InputTally::default(),
            opened: (String::new(), 0),
            ledger: LedgerBuilder::default(),
            counted: Vec::new(),
            has_counters: format == Format::Pcapng,
            gauges,
            front: FrontPlace::default(),
            seen: None,
        };
        files.packet_bytes_max = files.plan.packet_bytes_max.max(SNAPLEN_MAX);
        files
    }

    /// The first section that was read, if any was.
    pub(super) fn first_section(&self) -> Option<&Section> {
        self.section.as_ref()
    }

    /// Takes the options of a frame of the batch.
    pub(super) fn take_options(&mut self, frame: &Frame) -> Option<PacketOptions> {
        let is_any = frame.flags & Frame::OPTIONS != 0;
        self.options.get_mut(usize::from(frame.tci)).filter(|_| is_any).map(std::mem::take)
    }

    /// The counts of interfaces so far, by the numbers of the output's interfaces.
    pub(super) fn counted(&self) -> &[InterfaceCounts] {
        &self.counted
    }

    /// Packets whose interface has no number in the output.
    pub(super) fn unsuited(&self) -> u64 {
        self.translation.unsuited
    }

    /// Returns why a file could not be read at all.
    pub(super) fn failure(&self) -> Option<&str> {
        self.input.failure.as_deref()
    }

    /// Bytes of files used so far.
    pub(super) fn used(&self) -> u64 {
        self.used_bytes + self.file.as_ref().map_or(0, CaptureFile::used)
    }

    /// The snaplen of the run.
    pub(crate) fn with_snaplen(mut self, snaplen: u32) -> Self {
        self.is_part_wanted = snaplen < SNAPLEN_MAX;
        self
    }

    /// Has threads do the work of `front` ahead, once it is set.
    pub(crate) fn with_front(mut self, front: FrontPlace) -> Self {
        self.front = front;
        self
    }

    /// Time of the first packet, ns since 1970; 0 when there is none.
    pub(crate) fn first_ns(&self) -> u64 {
        self.pending.as_ref().map_or(0, |pending| pending.frame.time_ns)
    }

    /// The machine that captured the packets, as the first section has it, its program, and the comment in it.
    pub(crate) fn section(&self) -> Section {
        self.section.clone().unwrap_or_default()
    }

    /// Reads up to the first packet.
    fn peek(&mut self) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(100);
        let mut frames = Vec::new();
        while !self.stop.raised() {
            match self.pull_some(&mut frames, LOOK, 1)? {
                Pull::Idle => {}
                Pull::End => break,
                Pull::Batch => {
                    // The next pull returns it again, with those after it.
                    let (options, dropped) = (self.options.pop(), std::mem::take(&mut self.dropped));
                    self.pending = frames.pop().map(|frame| Pending { frame, options, dropped });
                    break;
                }
            }
        }
        if let Some(failure) = self.input.failure.take() {
            return Err(Error::Plan(failure));
        }
        Ok(())
    }

    fn pull_some(&mut self, frames: &mut Vec<Frame>, wait: Duration, most: usize) -> Result<Pull> {
        loop {
            if let Some(failure) = self.failure.take() {
                let is_none = self.file.as_ref().is_none_or(|file| file.offset() == 0);
                self.note(&failure, is_none);
                self.close_file();
            }
            if self.file.is_none() && !self.open_next() {
                return Ok(Pull::End);
            }
            if most > 1 && frames.is_empty() && self.pending.is_none() && self.take_seen(frames) {
                return Ok(Pull::Batch);
            }
            self.walk(frames, most);
            if !frames.is_empty() {
                return Ok(Pull::Batch);
            }
            self.look();
            let Some(file) = self.file.as_mut().filter(|_| self.failure.is_none()) else { continue };
            match file.advance(Some(if self.is_closing { Duration::ZERO } else { wait })) {
                Ok(Advance::More) => {}
                // A pipe is not waited for any longer; a followed file is read to its end.
                Ok(Advance::Idle) if self.is_closing && !self.plan.follow => return Ok(Pull::End),
                Ok(Advance::Idle) => return Ok(Pull::Idle),
                Ok(Advance::End) => self.close_file(),
                Err(failure) => self.failure = Some(failure),
            }
        }
    }

    /// Describes the next frames of the current bytes.
    fn walk(&mut self, frames: &mut Vec<Frame>, most: usize) {
        let Some(file) = &mut self.file else { return };
        let (translation, pending) = (&mut self.translation, &mut self.pending);
        let (ledger, counted, input) = (&mut self.ledger, &mut self.counted, &mut self.input);
        let (first_section, all_options, names) = (&mut self.section, &mut self.options, &mut self.names);
        let (packet_bytes_max, time_max_ns) = (self.packet_bytes_max, self.time_max_ns);
        let keeps_options = self.has_options;
        names.before = names.found;
        if let Some(Pending { mut frame, options, dropped }) = pending.take() {
            self.dropped += dropped;
            frame.tci = all_options.len() as u16;
            all_options.extend(options);
            frames.push(frame);
        }
        let (mut seen, mut wire_bytes, mut truncated) = (0, 0, 0);
        let mut run = InterfaceRun::default();
        let walked = file.walk(|item, start| {
            let packet = match item {
                Item::Frame(packet) => packet,
                Item::Names(found) => {
                    let found = if keeps_options { translation.add_names(found) } else { 0 };
                    return names.note(found, frames.is_empty());
                }
                other => {
                    run.end(ledger, counted, translation);
                    take_item(&other, first_section, ledger, translation, counted, input);
                    return true;
                }
            };
            run.take(&packet, ledger, counted, translation);
            seen += 1;
            wire_bytes += u64::from(packet.wire_len);
            let Some(interface) = run.number else { return true };
            truncated += u64::from(packet.data.len() > packet_bytes_max as usize);
            let mut frame = describe(&packet, start as u32, interface, packet_bytes_max);
            if frame.time_ns > time_max_ns {
                frame.time_ns = time_max_ns;
                input.late_times += 1;
            }
            let has_options = keeps_options && has_options(&packet);
            if has_options {
                frame.flags |= Frame::OPTIONS;
                frame.tci = all_options.len() as u16;
                all_options.push(PacketOptions::new(packet.flags, packet.options));
            }
            if packet.dropcount > 0 {
                input.recorded_drops = input.recorded_drops.saturating_add(packet.dropcount);
                if !frames.is_empty() {
                    let options = if has_options { all_options.pop() } else { None };
                    *pending = Some(Pending { frame, options, dropped: packet.dropcount });
                    return false;
                }
                self.dropped += packet.dropcount;
            }
            frames.push(frame);
            frames.len() < most
        });
        run.end(ledger, counted, translation);
        self.frames += seen;
        self.wire_bytes += wire_bytes;
        self.truncated += truncated;
        if let (Some(first), Some(last)) = (frames.first(), frames.last()) {
            let latest_ns = frames.iter().map(|frame| frame.time_ns).max().unwrap_or(last.time_ns);
            self.order.see(first.time_ns, latest_ns, &mut self.input.notes);
            self.last_ns = last.time_ns;
        }
        self.failure = walked.err();
    }

    /// Takes the frames of the current bytes that a thread has described; `false` if there are none.
    fn take_seen(&mut self, frames: &mut Vec<Frame>) -> bool {
        let seen =
            self.file.as_mut().and_then(CaptureFile::take_seen).map(|seen| seen.downcast::<SeenFrames>());
        let Some(Ok(mut seen)) = seen else { return false };
        for (interface, number, packets) in seen.runs.drain(..) {
            self.ledger.frames(interface, packets);
            match number {
                Some(number) => counts_of(&mut self.counted, number).received += packets,
                None => self.translation.unsuited += packets,
            }
        }
        self.names.before = self.names.found;
        self.frames += seen.packets;
        self.wire_bytes += seen.wire_bytes;
        self.truncated += seen.truncated;
        if let Some(Times { first_ns, last_ns, latest_ns }) = seen.times {
            self.order.see(first_ns, latest_ns, &mut self.input.notes);
            self.last_ns = last_ns;
        }
        std::mem::swap(frames, &mut seen.frames);
        self.seen = Some(seen);
        true
    }

    /// Gives the memory of a batch back that a thread has described.
    fn return_seen(&mut self, frames: &mut Vec<Frame>) {
        if let Some(mut seen) = self.seen.take()
            && let Some(file) = &mut self.file
        {
            std::mem::swap(frames, &mut seen.frames);
            file.return_seen(seen);
        }
        frames.clear();
    }

    /// Has threads look at the parts that follow.
    fn look(&mut self) {
        let Some((front, file)) =
            self.front.get().zip(self.file.as_mut()).filter(|(_, file)| file.wants_look())
        else {
            return;
        };
        let facts = FileFacts {
            numbers: self.translation.of_section.clone().into(),
            packet_bytes_max: self.packet_bytes_max,
            time_max_ns: self.time_max_ns,
            keeps_options: self.has_options,
        };
        let front = front.clone();
        file.look(Arc::new(move || Box::new(FileLook { facts: facts.clone(), front: front.thread() })));
    }

    /// Begins the next file; `false` when there is none.
    fn open_next(&mut self) -> bool {
        while let Some(path) = self.left.pop_front().filter(|_| !self.is_closing) {
            let options = Options {
                salvage: self.plan.salvage,
                follow: self.plan.follow,
                stop: self.stop.clone(),
                buffer_bytes: self.plan.buffer_bytes,
                helpers: self.plan.lanes.map(|lanes| lanes.saturating_sub(1)),
                is_beside_others: self.plan.is_beside_others,
                found: self.plan.found.clone(),
            };
            self.translation.begin_section();
            match CaptureFile::open_there(&path, options) {
                Ok(Some(file)) => {
                    self.input.files += 1;
                    self.file = Some(file);
                    self.order.begin(path.display().to_string());
                    self.opened = (path.display().to_string(), self.input.recorded_drops);
                    return true;
                }
                Ok(None) => self.input.missing.push(path.display().to_string()),
                Err(error) => {
                    self.input.files += 1;
                    self.note(&error.into(), true);
                }
            }
        }
        false
    }

    fn close_file(&mut self) {
        end_section(&mut self.ledger, &mut self.translation, &mut self.counted, &mut self.input);
        if let Some(mut file) = self.file.take() {
            self.input.bytes += file.offset();
            self.used_bytes += file.used();
            self.input.jumps.add(file.skipped);
            let Corrections { lengths, fractions, early, .. } = file.corrections();
            self.input.raised_lengths += lengths;
            self.input.large_fractions += fractions;
            self.input.early_times += early;
            self.input.notes.extend(file.notes());
            let (name, before) = std::mem::take(&mut self.opened);
            let drops = self.input.recorded_drops.saturating_sub(before);
            self.input.drops_of_files.extend((drops > 0).then_some((name, drops)));
        }
    }

    /// Records why a file could not be read to its end, or not at all (`is_none`).
    fn note(&mut self, error: &FileError, is_none: bool) {
        if is_none || matches!(error, FileError::Os(_)) {
            self.input.failure.get_or_insert(error.to_string());
        } else {
            self.input.damages.push(error.to_string());
        }
    }
}

impl Source for Files {
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        self.return_seen(frames);
        self.options.clear();
        if self.is_closing && !self.plan.follow {
            return Ok(Pull::End);
        }
        let pulled = self.pull_some(frames, wait, BATCH_FRAMES as usize);
        self.gauges.received.set(self.frames);
        self.gauges.input_bytes.set(self.used());
        self.gauges.wire_bytes.set(self.wire_bytes);
        pulled
    }

    fn bytes(&self) -> &[u8] {
        self.file.as_ref().map_or(&[], CaptureFile::bytes)
    }

    fn options(&self) -> &[PacketOptions] {
        &self.options
    }

    fn take_ahead(&mut self) -> Option<Ahead> {
        self.seen.as_mut().map(|seen| Ahead { filtered: seen.filtered, ready: seen.ready.take() })
    }

    fn return_ready(&mut self, ready: Ready) {
        if let Some(seen) = &mut self.seen {
            seen.ready = Some(ready);
        }
    }

    fn close(&mut self) -> Result<()> {
        self.is_closing = true;
        Ok(())
    }

    /// The time of the last packet: the clock of this machine means nothing for a file.
    fn wall_ns(&self) -> u64 {
        self.last_ns
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn names(&self) -> usize {
        self.names.before
    }

    fn count(&self, counts: &mut Counts) {
        counts.names = self.names.before;
        fill_counts(counts, &self.counted, &self.translation.interfaces, self.has_counters);
    }

    fn finish(mut self: Box<Self>) -> Result<SourceTally> {
        self.close_file();
        if !self.translation.is_pcap && self.translation.unsuited > 0 {
            self.input.notes.push(format!(
                "packets of further interfaces are not in the output: it has {INTERFACES_MAX} interfaces, or texts of \
                 theirs of 4 MiB"
            ));
        }
        if self.translation.lacks_names {
            let note = "further names of addresses are not in the output: it has 4 MiB of them";
            self.input.notes.push(note.into());
        }
        for (id, counts) in self.counted.iter().enumerate().filter(|(_, counts)| counts.received > 0) {
            let found = self.translation.interfaces.get(id as u16);
            if let Some(linktype) = found.map(|found| found.linktype).filter(|found| !is_known_link(*found)) {
                *self.input.unknown_links.entry(linktype).or_default() += counts.received;
            }
        }
        // A frame that was described and not taken was not offered.
        self.frames -= u64::from(self.pending.is_some());
        let lane = LaneTally {
            interface: self.plan.name(),
            offered: self.frames,
            truncated: if self.is_part_wanted { 0 } else { self.truncated },
            terms: Terms { unsuited: self.translation.unsuited, ..Terms::default() },
            ..LaneTally::default()
        };
        Ok(SourceTally { lane, input: Some(self.input) })
    }
}

/// Sets the counts of interfaces, by the numbers of the output's. Recorded drops are kept without a packet too, in a
/// format that `has_counters`, where the reader of the output takes it.
pub(super) fn fill_counts(
    counts: &mut Counts,
    counted: &[InterfaceCounts],
    interfaces: &Interfaces,
    has_counters: bool,
) {
    for (id, of) in counted.iter().enumerate() {
        let number = match of.ifdrop + of.osdrop > 0 && has_counters {
            true => interfaces.declare_drops(id as u16),
            false => interfaces.declared(id as u16),
        };
        let Some(number) = number else { continue };
        if number == 0 {
            (counts.nic_received, counts.nic_dropped, counts.recorded) = (of.received, of.ifdrop, of.osdrop);
        } else if of.received + of.ifdrop + of.osdrop > 0 {
            let session = counts.session(number);
            (session.received, session.missing, session.recorded) = (of.received, of.ifdrop, of.osdrop);
        }
    }
}

/// Files without an interface have one in the output, which a header needs.
pub(super) fn ensure_interface(interfaces: &Interfaces) {
    if interfaces.get(0).is_none() {
        let linktype = linktype::ETHERNET.linktype;
        interfaces.add(Interface { linktype, ..Interface::default() });
    }
}

/// Returns whether the interfaces before this item are those of another section. A salvaged file may lack its header.
fn begins_section(item: &Item<'_>) -> bool {
    match item {
        Item::Section(_) => true,
        Item::Interface(interface) => interface.id == 0,
        Item::Frame(_) | Item::Statistics(_) | Item::Names(_) | Item::Jump(_) => false,
    }
}

/// Takes an item that is no packet. Of the sections that begin, the first one is kept.
fn take_item(
    item: &Item<'_>,
    first: &mut Option<Section>,
    ledger: &mut LedgerBuilder,
    translation: &mut Translation,
    counted: &mut Vec<InterfaceCounts>,
    input: &mut InputTally,
) {
    if begins_section(item) {
        if let Item::Section(found) = item {
            first.get_or_insert_with(|| owned_section(found));
        }
        end_section(ledger, translation, counted, input);
    }
    ledger.item(item);
    translation.item(item);
}

/// Adds up the drops that the interfaces of a section record, at its end.
fn end_section(
    ledger: &mut LedgerBuilder,
    translation: &mut Translation,
    counted: &mut Vec<InterfaceCounts>,
    input: &mut InputTally,
) {
    ledger.begin_with(|number, drops| {
        let (ifdrop, osdrop) = drops.without_place();
        input.recorded_drops = input.recorded_drops.saturating_add(ifdrop).saturating_add(osdrop);
        if let Some(number) = translation.of_section.get(number).copied().flatten()
            && ifdrop + osdrop > 0
        {
            let counts = counts_of(counted, number);
            counts.ifdrop = counts.ifdrop.saturating_add(ifdrop);
            counts.osdrop = counts.osdrop.saturating_add(osdrop);
        }
    });
    translation.begin_section();
}

/// The machine of a section, and comments: that of its writer, and one on the program.
fn owned_section(found: &decode::Section<'_>) -> Section {
    let text = |text: Option<&[u8]>| String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    let (program, mut comments) = (text(found.userappl), pcapng::comments(found.options));
    comments.retain(|comment| !comment.is_empty());
    if !program.is_empty() && !program.starts_with("quaff ") {
        comments.push(format!("captured by {program}"));
    }
    Section { hardware: text(found.hardware), os: text(found.os), userappl: program, comments }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_overlap_in_time_are_noted_once() {
        let (mut order, mut notes) = (FileOrder::default(), Vec::new());
        for (name, first_ns, last_ns) in [
            ("a", 0, 5_000_000_000),
            ("b", 5_000_000_000, 6_000_000_000),
            ("c", 4_500_000_000, 9_000_000_000),
        ] {
            order.begin(name.into());
            order.see(first_ns, last_ns, &mut notes);
            order.see(last_ns, last_ns, &mut notes);
        }
        order.begin("d".into());
        order.see(0, 1, &mut notes);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("c begins 1.500 s before b ends"), "{notes:?}");
    }
}
