//! Reassembles the TCP connections of a lane that reads files, and passes their streams to a reader; also the datagrams
//! of UDP, if the plan has them.
//!
//! The reader may wait for a disk or a pipe: files wait meanwhile, and no packet is lost. A lane of an interface never
//! has this output. What readers do is not known here.

use super::meter::secret;
use super::{Arrival, Output, OutputTally};
use crate::batch::{Frame, Memory};
use crate::front::{Front, MakeFront, Ready};
use crate::links::Links;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_os::prefetch_value;
use quaff_stream::tally::{FragmentTally, StreamTally};
use quaff_stream::tracker::{
    ConnectionSink, TrackPacket, TrackPlan, TrackRead, TrackReader, TrackTally, Tracker,
};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Packets ahead of the one that is processed, whose lines of the index are loaded, and whose connections are.
const LINES_AHEAD: usize = 16;
const CONNECTIONS_AHEAD: usize = 8;

/// A reader of streams at the end of a lane.
pub(crate) trait StreamReader: ConnectionSink + Send {
    /// Ends the reader, after the last connection.
    fn finish(&mut self) -> ReaderTally;
}

/// Counters of the bodies of HTTP that a reader writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BodyTally {
    /// Files with a body.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Bodies that lack bytes.
    pub cut: u64,
    /// Bodies without a file, because of the limit of files.
    pub refused: u64,
}

/// Counters of the objects of HTTP that a reader makes of bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ObjectTally {
    /// Files with an object.
    pub files: u64,
    /// Bytes in them, decoded.
    pub bytes: u64,
    /// Objects that lack bytes, for any reason.
    pub partial: u64,
    /// Objects among them whose content coding is damaged.
    pub damaged: u64,
    /// Objects among them that were cut: decoded, they have more bytes than the limit.
    pub limited: u64,
}

/// The counters of a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReaderTally {
    /// Connections of which it received bytes, a gap or a difference; of a list all, and the conversations of UDP.
    pub(crate) connections: u64,
    /// Rows of a list: connections and conversations, with a pattern those that match.
    pub(crate) listed: u64,
    /// Sides without a match in which not every match was looked for: memory was needed.
    pub(crate) searched_in_part: u64,
    pub(crate) files: u64,
    /// Bytes that it passed on or wrote.
    pub(crate) bytes: u64,
    /// Bytes for which it was asked for no file, or had none.
    pub(crate) skipped_bytes: u64,
    /// Bytes of UDP that the snaplen cut.
    pub(crate) cut_bytes: u64,
    /// Streams without a file because of the limit of files.
    pub(crate) files_refused: u64,
    /// Bodies of HTTP.
    pub(crate) bodies: BodyTally,
    /// Objects of HTTP, if they are requested.
    pub(crate) objects: Option<ObjectTally>,
    /// The first failure. Later bytes are skipped.
    pub(crate) failure: Option<String>,
}

/// The results of a lane.
#[derive(Debug)]
pub(crate) struct ReassemblyEnd {
    pub(crate) track: TrackTally,
    pub(crate) streams: StreamTally,
    pub(crate) fragments: FragmentTally,
    pub(crate) reader: ReaderTally,
}

/// The output of one lane.
pub(crate) struct Reassembly {
    tracker: Tracker,
    links: Links,
    reader: Box<dyn StreamReader>,
    taken: u64,
    end: Sender<ReassemblyEnd>,
}

impl Reassembly {
    /// An output for the packets of `interfaces`. `end` receives the results.
    pub(crate) fn new(
        plan: TrackPlan,
        interfaces: Interfaces,
        reader: Box<dyn StreamReader>,
        end: Sender<ReassemblyEnd>,
    ) -> Self {
        let [secret, _] = secret();
        Self { tracker: Tracker::new(plan, secret), links: Links::new(interfaces), reader, taken: 0, end }
    }

    /// Makes readers of headers for other threads.
    pub(crate) fn front(&self) -> MakeFront {
        let (reader, interfaces) = (self.tracker.reader(), self.links.interfaces());
        Arc::new(move || Box::new(TrackFront { reader, links: Links::new(interfaces.clone()) }))
    }
}

/// The packet of a frame.
#[inline]
fn packet_of<'a>(frame: &Frame, memory: Memory<'a>, links: &mut Links) -> TrackPacket<'a> {
    let bytes = memory.of(frame);
    TrackPacket {
        bytes: &bytes[..bytes.len().min(frame.keep as usize)],
        wire_bytes: frame.wire_len,
        linktype: links.of(frame.interface).linktype,
        time_ns: frame.time_ns,
    }
}

/// Reads headers ahead of the tracker.
struct TrackFront {
    reader: TrackReader,
    links: Links,
}

impl Front for TrackFront {
    fn read(&mut self, memory: Memory<'_>, frames: &[Frame], ready: &mut Option<Ready>) {
        let mut reads = match ready.take().map(Ready::downcast::<Vec<TrackRead>>) {
            Some(Ok(reads)) => reads,
            _ => Box::default(),
        };
        reads.clear();
        let links = &mut self.links;
        reads.extend(frames.iter().map(|frame| self.reader.read(&packet_of(frame, memory, links))));
        *ready = Some(reads);
    }
}

impl Output for Reassembly {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], _: Arrival) -> usize {
        for frame in frames.iter() {
            self.tracker.packet(&packet_of(frame, memory, &mut self.links), &mut *self.reader);
        }
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn take_ready(
        &mut self,
        ready: &mut Ready,
        memory: Memory<'_>,
        frames: &mut [Frame],
        arrival: Arrival,
    ) -> usize {
        let reads = ready.downcast_ref::<Vec<TrackRead>>().filter(|reads| reads.len() == frames.len());
        let Some(reads) = reads else { return self.take(memory, frames, arrival) };
        for (at, (read, frame)) in reads.iter().zip(frames.iter()).enumerate() {
            if let Some(read) = reads.get(at + LINES_AHEAD) {
                self.tracker.prefetch_line(read);
            }
            if let Some((read, frame)) =
                reads.get(at + CONNECTIONS_AHEAD).zip(frames.get(at + CONNECTIONS_AHEAD))
            {
                self.tracker.prefetch(read);
                memory.of(frame).first().into_iter().for_each(prefetch_value);
            }
            self.tracker.take(read, &packet_of(frame, memory, &mut self.links), &mut *self.reader);
        }
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        self.tracker.finish(&mut *self.reader);
        let end = ReassemblyEnd {
            track: *self.tracker.tally(),
            streams: *self.tracker.streams(),
            fragments: self.tracker.fragments(),
            reader: self.reader.finish(),
        };
        // Without a receiver the run has failed at its start.
        let _ = self.end.send(end);
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}
