//! Capture files as the source of a lane. Packets are borrowed from the parts of the files as they were
//! read, and never copied or lost: without room in the output, reading waits.
//!
//! The interfaces of the files become those of the output. The same interface in several files or
//! sections is one; one that appears later is added then. Equal ones of a section stay several. The drops that the files
//! record are added up for each, and become drops of the output.

use super::{Pull, Source, SourceTally};
use crate::batch::{BATCH_FRAMES, Frame};
use crate::gauge::LaneGauges;
use crate::plan::{ReadPlan, SNAPLEN_MAX};
use crate::tally::{InputTally, LaneTally};
use crate::{Error, Result};
use quaff_file::read::{Advance, CaptureFile, Error as FileError, Options};
use quaff_file::tally::Counts;
use quaff_file::verify::LedgerBuilder;
use quaff_file::write::Format;
use quaff_file::{INTERFACES_MAX, Interfaces};
use quaff_os::Stop;
use quaff_wire::decode::{self, Item};
use quaff_wire::linktype;
use quaff_wire::pcapng::Interface;
use quaff_wire::{INBOUND, OUTBOUND};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Files that are read one after another.
#[derive(Debug)]
pub(crate) struct Files {
    plan: ReadPlan,
    left: VecDeque<PathBuf>,
    file: Option<CaptureFile>,
    stop: Stop,
    is_closing: bool,
    translation: Translation,
    /// A frame that must be the first of its batch, and the number of drops before it.
    pending: Option<(Frame, u64)>,
    dropped: u64,
    last_ns: u64,
    /// The failure after the frames returned last.
    failure: Option<FileError>,
    frames: u64,
    wire_bytes: u64,
    truncated: u64,
    /// A snaplen asks for a part of each packet.
    is_part_wanted: bool,
    input: InputTally,
    /// The counters in the section that is read.
    ledger: LedgerBuilder,
    /// By the numbers of the output's interfaces.
    counted: Vec<InterfaceCounts>,
    /// The output holds counters.
    has_counters: bool,
    gauges: Arc<LaneGauges>,
}

/// The packets of an interface.
#[derive(Debug, Clone, Copy, Default)]
struct InterfaceCounts {
    received: u64,
    /// Recorded drops that stand with no packet: by the interface, and by the operating system.
    ifdrop: u64,
    osdrop: u64,
}

/// The interfaces of a file by those of the output.
#[derive(Debug)]
struct Translation {
    interfaces: Interfaces,
    /// Those that files have described so far, by their numbers among equal ones of a section. A file may have thousands,
    /// and describe them again in each section.
    numbers: HashMap<(Interface, u32), u16>,
    /// Equal ones in the current section.
    equal: HashMap<Interface, u32>,
    /// By number in the current section; `None` where the output cannot hold its packets.
    of_section: Vec<Option<u16>>,
    /// A pcap file is of one link type.
    is_pcap: bool,
    unsuited: u64,
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
        // A stage does it where interfaces are declared with their packets.
        let is_pcap = format != Format::Pcapng && !interfaces.waits_for_packets();
        let (numbers, equal, of_section) = (HashMap::new(), HashMap::new(), Vec::new());
        let translation = Translation { interfaces, numbers, equal, of_section, is_pcap, unsuited: 0 };
        let mut files = Self {
            left: plan.files.iter().cloned().collect(),
            plan,
            file: None,
            stop,
            is_closing: false,
            translation,
            pending: None,
            dropped: 0,
            last_ns: 0,
            failure: None,
            frames: 0,
            wire_bytes: 0,
            truncated: 0,
            is_part_wanted: false,
            input: InputTally::default(),
            ledger: LedgerBuilder::default(),
            counted: Vec::new(),
            has_counters: format == Format::Pcapng,
            gauges,
        };
        files.peek()?;
        Ok(files)
    }

    /// The snaplen of the run.
    pub(crate) fn with_snaplen(mut self, snaplen: u32) -> Self {
        self.is_part_wanted = snaplen < SNAPLEN_MAX;
        self
    }

    /// Time of the first packet, ns since 1970; 0 when there is none.
    pub(crate) fn first_ns(&self) -> u64 {
        self.pending.as_ref().map_or(0, |(frame, _)| frame.time_ns)
    }

    /// The files, for messages.
    pub(crate) fn name(&self) -> String {
        let first = self.plan.files.first().map(|path| path.display().to_string()).unwrap_or_default();
        match self.plan.files.len() {
            0 | 1 => first,
            2 => format!("{first} and another file"),
            more => format!("{first} and {} more files", more - 1),
        }
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
                    self.pending = frames.pop().zip(Some(std::mem::take(&mut self.dropped)));
                    break;
                }
            }
        }
        if let Some(failure) = self.input.failure.take() {
            return Err(Error::Plan(failure));
        }
        if self.translation.interfaces.get(0).is_none() {
            let linktype = linktype::ETHERNET.linktype;
            self.translation.number(Interface { linktype, ..Interface::default() }, 0);
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
            self.walk(frames, most);
            if !frames.is_empty() {
                return Ok(Pull::Batch);
            }
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
        if let Some((frame, dropped)) = pending.take() {
            self.dropped += dropped;
            frames.push(frame);
        }
        let (mut seen, mut wire_bytes, mut truncated) = (0, 0, 0);
        let walked = file.walk(|item, start| {
            if let Item::Section(_) = item {
                end_section(ledger, translation, counted, input);
            }
            ledger.item(&item);
            let packet = match item {
                Item::Frame(packet) => packet,
                other => {
                    translation.item(&other);
                    return true;
                }
            };
            seen += 1;
            wire_bytes += u64::from(packet.wire_len);
            let Some(interface) = translation.interface(&packet) else { return true };
            counts_of(counted, interface).received += 1;
            truncated += u64::from(packet.data.len() > SNAPLEN_MAX as usize);
            let frame = describe(&packet, start as u32, interface);
            if packet.dropcount > 0 {
                input.recorded_drops = input.recorded_drops.saturating_add(packet.dropcount);
                if !frames.is_empty() {
                    *pending = Some((frame, packet.dropcount));
                    return false;
                }
                self.dropped += packet.dropcount;
            }
            frames.push(frame);
            frames.len() < most
        });
        self.frames += seen;
        self.wire_bytes += wire_bytes;
        self.truncated += truncated;
        self.last_ns = frames.last().map_or(self.last_ns, |frame| frame.time_ns);
        self.failure = walked.err();
    }

    /// Begins the next file; `false` when there is none.
    fn open_next(&mut self) -> bool {
        while let Some(path) = self.left.pop_front().filter(|_| !self.is_closing) {
            let options =
                Options { salvage: self.plan.salvage, follow: self.plan.follow, stop: self.stop.clone() };
            self.translation.begin_section();
            self.input.files += 1;
            match CaptureFile::open_with(&path, options) {
                Ok(file) => {
                    self.file = Some(file);
                    return true;
                }
                Err(error) => self.note(&error.into(), true),
            }
        }
        false
    }

    fn close_file(&mut self) {
        end_section(&mut self.ledger, &self.translation, &mut self.counted, &mut self.input);
        if let Some(file) = self.file.take() {
            self.input.bytes += file.offset();
            self.input.jumps.add(file.skipped);
            self.input.notes.extend(file.notes());
        }
    }

    /// The number in the output of an interface; `None` if it has none. Recorded drops are kept without a packet too.
    fn output_number(&self, id: u16, of: &InterfaceCounts) -> Option<u16> {
        let interfaces = &self.translation.interfaces;
        match of.ifdrop + of.osdrop > 0 && self.has_counters {
            true => interfaces.declare(id),
            false => interfaces.declared(id),
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
        frames.clear();
        if self.is_closing && !self.plan.follow {
            return Ok(Pull::End);
        }
        let pulled = self.pull_some(frames, wait, BATCH_FRAMES as usize);
        self.gauges.received.set(self.frames);
        self.gauges.wire_bytes.set(self.wire_bytes);
        pulled
    }

    fn bytes(&self) -> &[u8] {
        self.file.as_ref().map_or(&[], CaptureFile::bytes)
    }

    /// The next pull releases the bytes, after all their frames.
    fn release(&mut self) {}

    /// A file waits.
    fn is_nearly_full(&self) -> bool {
        false
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

    fn count(&self, counts: &mut Counts) {
        for (id, of) in self.counted.iter().enumerate() {
            let Some(number) = self.output_number(id as u16, of) else { continue };
            if number == 0 {
                (counts.nic_received, counts.nic_dropped, counts.recorded) =
                    (of.received, of.ifdrop, of.osdrop);
            } else if of.received + of.ifdrop + of.osdrop > 0 {
                let session = counts.session(number);
                (session.received, session.missing, session.recorded) = (of.received, of.ifdrop, of.osdrop);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<SourceTally> {
        self.close_file();
        if !self.translation.is_pcap && self.translation.unsuited > 0 {
            self.input.notes.push(format!(
                "packets of further interfaces are not in the output: it has {INTERFACES_MAX} interfaces, or texts of \
                 theirs of 4 MiB"
            ));
        }
        // A frame that was described and not taken was not offered.
        self.frames -= u64::from(self.pending.is_some());
        let lane = LaneTally {
            interface: self.name(),
            offered: self.frames,
            truncated: if self.is_part_wanted { 0 } else { self.truncated },
            unsuited: self.translation.unsuited,
            ..LaneTally::default()
        };
        Ok(SourceTally { lane, input: Some(self.input) })
    }
}

/// Adds up the drops that the interfaces of a section record, at its end.
fn end_section(
    ledger: &mut LedgerBuilder,
    translation: &Translation,
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
}

#[inline]
fn counts_of(counted: &mut Vec<InterfaceCounts>, number: u16) -> &mut InterfaceCounts {
    let number = usize::from(number);
    if number >= counted.len() {
        counted.resize(number + 1, InterfaceCounts::default());
    }
    &mut counted[number]
}

impl Translation {
    fn begin_section(&mut self) {
        self.of_section.clear();
        self.equal.clear();
    }

    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Section(_) => self.begin_section(),
            Item::Interface(interface) => self.add(interface),
            Item::Frame(_) | Item::Statistics(_) | Item::Jump(_) => {}
        }
    }

    /// Sets its number in the output: that of an equal interface, or a new one.
    fn add(&mut self, interface: &decode::Interface<'_>) {
        let found = owned(interface);
        let first = self.interfaces.get(0);
        let is_suited = !self.is_pcap || first.is_none_or(|first| first.linktype == found.linktype);
        let equal = self.equal.entry(found.clone()).or_default();
        *equal += 1;
        let equal = *equal - 1;
        let number = if is_suited { self.number(found, equal) } else { None };
        self.of_section.push(number);
    }

    /// The number of an interface in the output, which a new one gets; `None` when the output cannot have more. `equal`
    /// interfaces were before it in its section.
    fn number(&mut self, found: Interface, equal: u32) -> Option<u16> {
        let key = (found, equal);
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let number = self.interfaces.add(key.0.clone())?;
        self.numbers.insert(key, number);
        Some(number)
    }

    #[inline]
    fn interface(&mut self, packet: &decode::Frame<'_>) -> Option<u16> {
        let number = self.of_section.get(packet.interface as usize).copied().flatten();
        self.unsuited += u64::from(number.is_none());
        number
    }
}

fn owned(interface: &decode::Interface<'_>) -> Interface {
    let text = |text: Option<&[u8]>| String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    Interface {
        linktype: interface.linktype,
        snaplen: interface.snaplen,
        name: text(interface.name),
        description: text(interface.description),
        filter: interface.filter.map(|filter| text(Some(filter))),
        mac: interface.mac,
        speed_bps: interface.speed_bps,
        os: text(interface.os),
    }
}

#[inline]
fn describe(packet: &decode::Frame<'_>, start: u32, interface: u16) -> Frame {
    let flags = match packet.flags & (INBOUND | OUTBOUND) {
        INBOUND => 0,
        OUTBOUND => Frame::OUTGOING,
        _ => Frame::NO_DIRECTION,
    };
    Frame {
        time_ns: packet.time_ns,
        start,
        len: packet.data.len() as u32,
        wire_len: packet.wire_len,
        keep: SNAPLEN_MAX,
        tpid: 0,
        tci: 0,
        flags,
        interface,
    }
}
