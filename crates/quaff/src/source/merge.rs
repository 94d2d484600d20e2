//! Capture files merged by time, as the source of a lane: a heap over a reader for each file. Packets of one time are
//! in the order of the files, and those of one file in its order. It writes nothing but late packets.
//!
//! Reading, interfaces, recorded drops, names and damage are those of [`Files`](super::files::Files), one for each
//! file. A batch has the packets of many files, so here they are copied once, into memory that stays in the cache.
//! A file is open from its first packet on, so memory goes by the files that overlap in time.
//!
//! Packets that are late in their file are noticed. Where they are to be sorted, a first pass collects them; the
//! second one leaves them out of the file's place, and takes them from there.

mod heap;
mod input;
mod late;

use super::files::{InterfaceCounts, Numbers, counts_of, ensure_interface, fill_counts};
use super::{Pull, Source, SourceTally};
use crate::batch::{BATCH_FRAMES, Frame};
use crate::gauge::LaneGauges;
use crate::plan::{ReadOrder, ReadPlan, SNAPLEN_MAX};
use crate::tally::{InputTally, LaneTally, MergeTally, Terms, UnsortedFile};
use crate::{Error, Result};
use heap::{Heap, Key};
use input::{Input, Opening};
use late::{Late, LatePacket, Run};
use quaff_file::Interfaces;
use quaff_file::read::{BUFFER_BYTES, BUFFERS};
use quaff_file::tally::Counts;
use quaff_file::write::Format;
use quaff_os::{Stop, prefetch};
use quaff_wire::pcapng::{PacketOptions, Section};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of packets in a batch, which stay in the second-level cache until they are packed. A longer packet is alone.
const BATCH_BYTES: usize = 256 << 10;
/// Memory for the buffers of all files, bytes, unless each would have less than the smallest size.
const BUFFERS_BYTES: usize = 256 << 20;
/// Smallest size of a buffer, bytes: the page cache is read in such parts.
const BUFFER_BYTES_MIN: usize = 256 << 10;
/// Size of the buffers while a file is looked at for its first packet.
const LOOK_BYTES: usize = 64 << 10;
/// Longest wait before the stop is looked at, while files are opened.
const LOOK: Duration = Duration::from_millis(100);
/// Cache lines of the packet after the next one of a file that are prefetched.
const LINES_AHEAD: usize = 4;

/// Files that are merged by time.
#[derive(Debug)]
pub(crate) struct Merge {
    opening: Opening,
    /// Of each buffer of an open file.
    buffer_bytes: usize,
    inputs: Vec<Input>,
    runs: Vec<Run>,
    heap: Heap,
    merged: Merged,
    /// The file whose next packet has not come yet: a pipe.
    awaited: Option<usize>,
    open_now: u64,
    first_ns: u64,
    section: Option<Section>,
    is_part_wanted: bool,
    is_closing: bool,
    names: usize,
    tally: MergeTally,
    gauges: Arc<LaneGauges>,
}

/// The batch, and the counts of the packets that were in one.
#[derive(Debug, Default)]
struct Merged {
    bytes: Vec<u8>,
    options: Vec<PacketOptions>,
    /// Drops before the first frame.
    dropped: u64,
    counted: Vec<InterfaceCounts>,
    packets: u64,
    wire_bytes: u64,
    truncated: u64,
    /// The latest time, ns since 1970.
    last_ns: u64,
    backward: u64,
}

/// The reason why no more is taken from a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Another one has the next packet.
    Turn,
    /// The batch is full, or must end before the next packet.
    Full,
    /// The next packet has not come yet.
    Idle,
}

impl Merged {
    fn begin(&mut self) {
        self.bytes.clear();
        self.options.clear();
    }

    #[inline]
    fn has_room(&self, frames: &[Frame], frame: &Frame) -> bool {
        let bytes = self.bytes.len() + frame.len.min(frame.keep) as usize;
        frames.is_empty() || frames.len() < BATCH_FRAMES as usize && bytes <= BATCH_BYTES
    }

    /// Adds a packet, of which `bytes` are present.
    #[inline]
    fn add(
        &mut self,
        frames: &mut Vec<Frame>,
        mut frame: Frame,
        bytes: &[u8],
        options: Option<PacketOptions>,
    ) {
        self.truncated += u64::from(frame.len > frame.keep);
        frame.len = frame.len.min(frame.keep);
        frame.start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&bytes[..frame.len as usize]);
        if let Some(options) = options {
            frame.tci = self.options.len() as u16;
            self.options.push(options);
        }
        self.packets += 1;
        self.wire_bytes += u64::from(frame.wire_len);
        counts_of(&mut self.counted, frame.interface).received += 1;
        self.backward += u64::from(frame.time_ns < self.last_ns && frame.time_ns > 0);
        self.last_ns = self.last_ns.max(frame.time_ns);
        frames.push(frame);
    }
}

impl Merge {
    /// Reads each file up to its first packet, or to its end where late packets are to be sorted: these go to `spill`
    /// beyond a limit.
    pub(crate) fn open(
        plan: ReadPlan,
        format: Format,
        interfaces: Interfaces,
        stop: Stop,
        gauges: Arc<LaneGauges>,
        spill: Option<File>,
    ) -> Result<Self> {
        let of_each = BUFFERS_BYTES / BUFFERS / plan.files.len().max(1) / BUFFER_BYTES_MIN * BUFFER_BYTES_MIN;
        let mut merge = Self {
            opening: Opening { plan, format, interfaces, numbers: Numbers::default(), stop },
            buffer_bytes: of_each.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES),
            inputs: Vec::new(),
            runs: Vec::new(),
            heap: Heap::default(),
            merged: Merged::default(),
            awaited: None,
            open_now: 0,
            first_ns: 0,
            section: None,
            is_part_wanted: false,
            is_closing: false,
            names: 0,
            tally: MergeTally::default(),
            gauges,
        };
        let mut late = Late::new(spill);
        let mut first_ns = None;
        for path in merge.opening.plan.files.clone() {
            let first = merge.look_at(&path, &mut late)?;
            first_ns = first_ns.into_iter().chain(first).min();
        }
        merge.first_ns = first_ns.unwrap_or(0);
        (merge.tally.reordered, merge.tally.spilled_bytes) = (late.count, late.spilled_bytes);
        merge.runs = late.finish()?;
        for (number, run) in merge.runs.iter().enumerate() {
            if let Some((packet, _)) = run.packet() {
                merge.heap.push(Key::new(packet.frame.time_ns, packet.input, number as u32 + 1));
            }
        }
        merge.opening.interfaces.end_first_names();
        ensure_interface(&merge.opening.interfaces);
        Ok(merge)
    }

    /// The snaplen of the run.
    pub(crate) fn with_snaplen(mut self, snaplen: u32) -> Self {
        self.is_part_wanted = snaplen < SNAPLEN_MAX;
        self
    }

    /// Time of the earliest packet that is known, ns since 1970; 0 when there is none.
    pub(crate) fn first_ns(&self) -> u64 {
        self.first_ns
    }

    /// The machine that captured the packets of the first file with a section.
    pub(crate) fn section(&self) -> Section {
        self.section.clone().unwrap_or_default()
    }

    /// Looks at a file before the run; returns the time of its first packet, or of the earliest one.
    fn look_at(&mut self, path: &Path, late: &mut Late) -> Result<Option<u64>> {
        // A pipe can be read only once, so all that it has goes where late packets go.
        let is_once = !path.is_file() && !self.opening.plan.found.contains(path);
        let sorts = self.opening.plan.order == ReadOrder::Reordered;
        let number = self.inputs.len() as u32;
        let mut input = Input::new(path);
        let is_brief = !sorts && !is_once;
        let buffer_bytes = if is_brief { LOOK_BYTES } else { self.buffer_bytes };
        input.open(&self.opening, buffer_bytes, self.open_now > 0);
        let (mut first_ns, mut due_ns) = (None, None);
        while !self.opening.stop.raised() {
            match input.next(LOOK)? {
                Pull::Idle => continue,
                Pull::End => break,
                Pull::Batch => {}
            }
            let time_ns = input.frame().time_ns;
            due_ns.get_or_insert(time_ns);
            // A packet without a time says nothing of the start.
            first_ns = first_ns.into_iter().chain((time_ns > 0).then_some(time_ns)).min();
            if !sorts {
                break;
            }
            if is_once || input.is_late {
                self.store(&mut input, number, late)?;
            }
            input.pass();
        }
        let files = input.files.as_ref();
        if let Some(failure) = files.and_then(|files| files.failure()) {
            return Err(Error::Plan(failure.to_owned()));
        }
        self.section = self.section.take().or_else(|| files?.first_section().cloned());
        match due_ns {
            // It is opened again when its first packet is due; a file without one at once, for its counters.
            _ if !is_once => {
                self.heap.push(Key::new(due_ns.unwrap_or(0), number, 0));
                input = if sorts { input.without_late() } else { Input::new(path) };
            }
            Some(due_ns) if !sorts => {
                self.heap.push(Key::new(due_ns, number, 0));
                self.note_opened();
            }
            _ => {}
        }
        self.inputs.push(input);
        Ok(first_ns)
    }

    /// Stores the next packet of a file as a late one.
    fn store(&mut self, input: &mut Input, number: u32, late: &mut Late) -> Result<()> {
        let (mut frame, dropped) = (*input.frame(), input.take_dropped());
        let Some(files) = &mut input.files else { return Ok(()) };
        let options = files.take_options(&frame);
        self.merged.truncated += u64::from(frame.len > frame.keep);
        frame.len = frame.len.min(frame.keep);
        let bytes = &files.bytes()[frame.start as usize..][..frame.len as usize];
        late.push(LatePacket { frame, input: number, dropped, options }, bytes)
    }

    fn note_opened(&mut self) {
        self.open_now += 1;
        self.tally.open_max = self.tally.open_max.max(self.open_now);
    }

    /// Fills a batch from the cursors, the earliest packet first.
    fn fill(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        if let Some(input) = self.awaited.take()
            && !self.look_further(input, wait)?
        {
            return Ok(Pull::Idle);
        }
        while let Some(key) = self.heap.first() {
            let taken = match key.run() {
                0 => self.take_from_input(key, frames, wait)?,
                run => self.take_from_run(key, run as usize - 1, frames)?,
            };
            match taken {
                Taken::Turn => {}
                Taken::Full => return Ok(Pull::Batch),
                Taken::Idle if frames.is_empty() => return Ok(Pull::Idle),
                Taken::Idle => return Ok(Pull::Batch),
            }
        }
        Ok(if frames.is_empty() { Pull::End } else { Pull::Batch })
    }

    /// Looks for the next packet of the file that is first in the heap; `false` if it has not come yet. Drops the file
    /// from the heap at its end.
    fn look_further(&mut self, number: usize, wait: Duration) -> Result<bool> {
        let input = &mut self.inputs[number];
        let pulled = input.next(wait)?;
        let used = self.gauges.input_bytes.get() + input.take_used();
        self.gauges.input_bytes.set(used);
        self.names = self.names.max(input.files.as_ref().map_or(0, |files| files.names()));
        match pulled {
            Pull::Batch => {
                let time_ns = input.frame().time_ns;
                let key = self.heap.first().map(|key| key.at(time_ns));
                key.into_iter().for_each(|key| self.heap.replace_first(key));
            }
            Pull::Idle => self.awaited = Some(number),
            Pull::End => {
                self.open_now -= 1;
                self.heap.pop_first();
            }
        }
        Ok(pulled != Pull::Idle)
    }

    /// Takes packets of a file as long as they are the earliest ones.
    fn take_from_input(&mut self, key: Key, frames: &mut Vec<Frame>, wait: Duration) -> Result<Taken> {
        let number = key.input() as usize;
        if self.inputs[number].files.is_none() {
            self.inputs[number].open(&self.opening, self.buffer_bytes, self.open_now > 0);
            self.note_opened();
            return Ok(if self.look_further(number, wait)? { Taken::Turn } else { Taken::Idle });
        }
        let (input, merged, next) = (&mut self.inputs[number], &mut self.merged, self.heap.second());
        loop {
            let frame = *input.frame();
            if !merged.has_room(frames, &frame) || input.has_dropped() && !frames.is_empty() {
                self.heap.replace_first(key.at(frame.time_ns));
                return Ok(Taken::Full);
            }
            merged.dropped += input.take_dropped();
            let Some(files) = &mut input.files else { return Ok(Taken::Turn) };
            let options = files.take_options(&frame);
            let bytes = files.bytes();
            let start = frame.start as usize;
            merged.add(frames, frame, &bytes[start..], options);
            (0..LINES_AHEAD).for_each(|line| prefetch(bytes, start + frame.len as usize + line * 64));
            input.pass();
            if !input.next_here() {
                return Ok(if self.look_further(number, wait)? { Taken::Turn } else { Taken::Idle });
            }
            let after = key.at(input.frame().time_ns);
            if after > next {
                self.heap.replace_first(after);
                return Ok(Taken::Turn);
            }
        }
    }

    /// Takes a late packet.
    fn take_from_run(&mut self, key: Key, number: usize, frames: &mut Vec<Frame>) -> Result<Taken> {
        let (run, merged) = (&mut self.runs[number], &mut self.merged);
        let Some((packet, bytes)) = run.packet() else { return Ok(Taken::Turn) };
        if !merged.has_room(frames, &packet.frame) || packet.dropped > 0 && !frames.is_empty() {
            return Ok(Taken::Full);
        }
        merged.dropped += packet.dropped;
        merged.add(frames, packet.frame, bytes, packet.options.clone());
        run.advance()?;
        match run.packet() {
            Some((packet, _)) => {
                self.heap.replace_first(Key::new(packet.frame.time_ns, packet.input, key.run()));
            }
            None => self.heap.pop_first(),
        }
        Ok(Taken::Turn)
    }

    /// The counts of all interfaces: packets that were in a batch, and drops that the files record.
    fn counted(&self) -> Vec<InterfaceCounts> {
        let mut counted = self.merged.counted.clone();
        for files in self.inputs.iter().filter_map(|input| input.files.as_ref()) {
            for (id, of) in files.counted().iter().enumerate().filter(|(_, of)| of.ifdrop + of.osdrop > 0) {
                let sum = counts_of(&mut counted, id as u16);
                sum.ifdrop = sum.ifdrop.saturating_add(of.ifdrop);
                sum.osdrop = sum.osdrop.saturating_add(of.osdrop);
            }
        }
        counted
    }
}

impl Source for Merge {
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        frames.clear();
        self.merged.begin();
        if self.is_closing {
            return Ok(Pull::End);
        }
        let pulled = self.fill(frames, wait);
        self.gauges.received.set(self.merged.packets);
        self.gauges.wire_bytes.set(self.merged.wire_bytes);
        pulled
    }

    fn bytes(&self) -> &[u8] {
        &self.merged.bytes
    }

    fn options(&self) -> &[PacketOptions] {
        &self.merged.options
    }

    fn close(&mut self) -> Result<()> {
        self.is_closing = true;
        Ok(())
    }

    /// The time of the latest packet: the clock of this machine means nothing for a file.
    fn wall_ns(&self) -> u64 {
        self.merged.last_ns
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.merged.dropped)
    }

    fn names(&self) -> usize {
        self.names
    }

    fn count(&self, counts: &mut Counts) {
        counts.names = self.names;
        let has_counters = self.opening.format == Format::Pcapng;
        fill_counts(counts, &self.counted(), &self.opening.interfaces, has_counters);
    }

    fn finish(mut self: Box<Self>) -> Result<SourceTally> {
        let (mut input, mut unsuited) = (InputTally::default(), 0);
        for of in &mut self.inputs {
            if of.late > 0 {
                let path = of.path.display().to_string();
                let (late, late_max_ns) = (of.late, of.late_max_ns);
                self.tally.unsorted.push(UnsortedFile { path, late, late_max_ns });
            }
            if let Some(files) = of.files.take() {
                unsuited += files.unsuited();
                files.finish()?.input.into_iter().for_each(|other| input.add(other));
            }
        }
        self.tally.backward = self.merged.backward;
        input.merge = Some(self.tally);
        let lane = LaneTally {
            interface: self.opening.plan.name(),
            offered: self.merged.packets + unsuited,
            truncated: if self.is_part_wanted { 0 } else { self.merged.truncated },
            terms: Terms { unsuited, ..Terms::default() },
            ..LaneTally::default()
        };
        Ok(SourceTally { lane, input: Some(input) })
    }
}

#[cfg(test)]
mod tests;
