//! Reassembles the TCP connections of a lane that reads files, and passes their streams to a reader.
//!
//! The reader may wait for a disk or a pipe: files wait meanwhile, and no packet is lost. A lane of an interface never
//! has this output. What readers do is not known here.

use super::meter::secret;
use super::{Arrival, Output, OutputTally};
use crate::batch::{Frame, Memory};
use crate::links::Links;
use quaff_file::Interfaces;
use quaff_file::tally::Counts;
use quaff_stream::tally::{FragmentTally, StreamTally};
use quaff_stream::tracker::{ConnectionSink, TrackPacket, TrackPlan, TrackTally, Tracker};
use serde::Serialize;
use std::sync::mpsc::Sender;

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

/// The counters of a reader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReaderTally {
    /// Connections of which it received bytes, a gap or a difference.
    pub(crate) connections: u64,
    pub(crate) files: u64,
    /// Bytes that it passed on or wrote.
    pub(crate) bytes: u64,
    /// Bytes for which it was asked for no file, or had none.
    pub(crate) skipped_bytes: u64,
    /// Streams without a file because of the limit of files.
    pub(crate) files_refused: u64,
    /// Bodies of HTTP.
    pub(crate) bodies: BodyTally,
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
}

impl Output for Reassembly {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], _: Arrival) -> usize {
        for frame in frames.iter() {
            let bytes = memory.of(frame);
            let packet = TrackPacket {
                bytes: &bytes[..bytes.len().min(frame.keep as usize)],
                wire_bytes: frame.wire_len,
                linktype: self.links.of(frame.interface).linktype,
                time_ns: frame.time_ns,
            };
            self.tracker.packet(&packet, &mut *self.reader);
        }
        self.taken += frames.len() as u64;
        frames.len()
    }

    fn finish(&mut self, _: u64, _: &dyn Fn(&mut Counts)) {
        self.tracker.finish(&mut *self.reader);
        let end = ReassemblyEnd {
            track: *self.tracker.tally(),
            streams: *self.tracker.streams(),
            fragments: *self.tracker.fragments(),
            reader: self.reader.finish(),
        };
        // Without a receiver the run has failed at its start.
        let _ = self.end.send(end);
    }

    fn tally(&self) -> OutputTally {
        OutputTally { taken: self.taken, ..OutputTally::default() }
    }
}
