//! The results of an engine.

use crate::histogram::Histograms;
use crate::tally::ScriptTally;
use quaff_stream::tally::{FragmentTally, StreamTally};
use quaff_stream::tracker::TrackTally;

/// The results of the reassembly.
#[derive(Debug, Clone, Copy)]
pub struct Tracked {
    pub track: TrackTally,
    pub streams: StreamTally,
    pub fragments: FragmentTally,
}

/// The results of one lane, or the sums of several.
#[derive(Debug, Clone, Default)]
pub struct EngineEnd {
    pub scripts: Vec<ScriptTally>,
    pub packets: u64,
    /// Number of flows that flow triggers have seen.
    pub flows: u64,
    /// `None` without a stream trigger.
    pub tracked: Option<Tracked>,
    /// Packets of saved flows, and those dropped for lack of memory.
    pub saved_packets: u64,
    pub saved_packets_dropped: u64,
    /// Histogram counts that are not yet rows.
    pub histograms: Histograms,
}

impl EngineEnd {
    /// Adds the results of another lane, which ran the same scripts.
    pub fn add(&mut self, other: Self) {
        let Self { scripts, packets, flows, tracked, saved_packets, saved_packets_dropped, histograms } =
            other;
        for script in scripts {
            match self.scripts.iter_mut().find(|known| known.name == script.name) {
                Some(known) => known.add(script),
                None => self.scripts.push(script),
            }
        }
        self.packets += packets;
        self.flows += flows;
        match (&mut self.tracked, tracked) {
            (Some(sum), Some(Tracked { track, streams, fragments })) => {
                sum.track += track;
                sum.streams += streams;
                sum.fragments += fragments;
            }
            (none, tracked) => *none = none.or(tracked),
        }
        self.saved_packets += saved_packets;
        self.saved_packets_dropped += saved_packets_dropped;
        self.histograms.add(histograms);
    }
}
