//! The passes of a source: repeated up to a limit, without frames that cannot be sent.

use super::unique;
use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use quaff_wire::flow::{FlowCount, FlowCounts};
use quaff_wire::net;
use serde::Serialize;

/// The sizes of frames that can be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The shortest frame, bytes.
    pub(super) min: usize,
    /// The longest frame, bytes, whatever the interface.
    pub(super) max: usize,
    /// The interface's MTU, which counts neither the Ethernet header nor one tag; where it counts.
    pub(super) mtu: Option<u32>,
}

/// Frames of one pass that are not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Longer than the MTU, or than a page of the kernel's.
    pub too_large: u64,
    /// Without an Ethernet header.
    pub too_short: u64,
}

/// A feed that is sent so many times.
pub(super) struct Passes {
    feed: Box<dyn Feed>,
    sizes: Sizes,
    /// Number of passes; `None` is endless.
    loops: Option<u64>,
    /// Frames that may still come.
    left: u64,
    unique: bool,
    /// Passes that have ended.
    pass: u64,
    pass_has_ended: bool,
    skipped: Skipped,
    flows: Flows,
    /// Frames given in the first pass so far.
    frames: u64,
}

/// Maximum number of flows that are distinguished: each takes about 60 bytes.
const FLOWS_MAX: usize = 4_000_000;

/// Different flows of a pass, in the order in which they come.
#[derive(Debug, Default)]
struct Flows {
    count: FlowCount,
    /// At which frame each begins; the numbers rise.
    begin: Vec<u64>,
}

impl Sizes {
    fn fits(&self, frame: &[u8]) -> bool {
        let fits_mtu = |mtu: u32| frame.len() <= net::frame_bytes_max(frame, mtu as usize);
        frame.len() <= self.max && self.mtu.is_none_or(fits_mtu)
    }
}

impl Passes {
    pub(super) fn new(
        feed: Box<dyn Feed>,
        sizes: Sizes,
        loops: Option<u64>,
        limit: Option<u64>,
        unique: bool,
    ) -> Self {
        Self {
            feed,
            sizes,
            loops,
            left: limit.unwrap_or(u64::MAX),
            unique,
            pass: 0,
            pass_has_ended: false,
            skipped: Skipped::default(),
            flows: Flows::default(),
            frames: 0,
        }
    }

    /// The source, for what it has to say.
    pub(super) fn feed(&self) -> &dyn Feed {
        &*self.feed
    }

    /// Frames that the first pass skipped.
    pub(super) fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Number of passes; `None` is endless.
    pub(super) fn loops(&self) -> Option<u64> {
        self.loops
    }

    /// Passes that the first `sent` frames of all are.
    pub(super) fn begun(&self, sent: u64) -> u64 {
        sent.div_ceil(self.frames.max(1))
    }

    /// Returns whether there may be more flows than were counted.
    pub(super) fn has_more_flows(&self) -> bool {
        self.flows.is_full()
    }

    /// Different flows in the first `sent` frames of all.
    pub(super) fn flows(&self, sent: u64) -> u64 {
        if let Some(flows) = self.feed.flows() {
            return flows;
        }
        let once = |frames: u64| self.flows.begin.partition_point(|begin| *begin < frames) as u64;
        if !self.unique || self.frames == 0 {
            return once(sent);
        }
        once(self.frames) * (sent / self.frames) + once(sent % self.frames)
    }

    /// Flows and packets of the first pass.
    pub(super) fn flow_counts(&self) -> FlowCounts {
        self.flows.count.counts
    }

    /// Leaves out what cannot be sent, and gives later passes their own addresses.
    fn prepare(&mut self, arena: &mut Arena) {
        let (sizes, is_first, pass) = (self.sizes, self.pass == 0, self.pass);
        let (skipped, flows, frames) = (&mut self.skipped, &mut self.flows, &mut self.frames);
        let (left, unique, counts_flows) = (&mut self.left, self.unique, self.feed.flows().is_none());
        arena.retain(|frame, meta| {
            if frame.len() < sizes.min || !sizes.fits(frame) {
                let which =
                    if frame.len() < sizes.min { &mut skipped.too_short } else { &mut skipped.too_large };
                *which += u64::from(is_first);
                return false;
            }
            if *left == 0 {
                return false;
            }
            *left -= 1;
            if is_first {
                if counts_flows {
                    flows.note(frame, meta, *frames);
                }
                *frames += 1;
            } else if unique {
                unique::shift(frame, unique::places(frame), pass);
            }
            true
        });
    }
}

impl Feed for Passes {
    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        if std::mem::take(&mut self.pass_has_ended) {
            self.pass += 1;
            if self.loops.is_some_and(|loops| self.pass >= loops) || self.left == 0 {
                return Ok(false);
            }
            if !self.feed.rewind()? {
                return Err(PlanError::Again.into());
            }
        }
        let more = self.feed.fill(arena)?;
        self.prepare(arena);
        if more && self.left > 0 {
            return Ok(true);
        }
        self.pass_has_ended = true;
        arena.set_ends_pass();
        let is_last = self.loops.is_some_and(|loops| self.pass + 1 >= loops);
        // A pass without frames will have none the next time either.
        Ok(!is_last && self.left > 0 && self.frames > 0)
    }
}

impl Flows {
    fn is_full(&self) -> bool {
        self.begin.len() >= FLOWS_MAX
    }

    fn note(&mut self, frame: &[u8], meta: &FrameMeta, number: u64) {
        if self.is_full() {
            return;
        }
        if self.count.add(frame, meta.time_ns / 1_000_000_000) {
            self.begin.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of these lengths, each of a flow of its own where there is room for one.
    struct Lens(Vec<usize>, usize);

    impl Feed for Lens {
        fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
            while let Some(len) = self.0.get(self.1) {
                let mut frame = vec![0; *len];
                if *len > 34 {
                    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59]);
                    frame[26..34].copy_from_slice(&[10, 0, 0, *len as u8, 10, 0, 1, 1]);
                }
                if !arena.push(&frame, FrameMeta::default()) {
                    return Ok(true);
                }
                self.1 += 1;
            }
            Ok(false)
        }

        fn rewind(&mut self) -> Result<bool, SendError> {
            self.1 = 0;
            Ok(true)
        }
    }

    fn passes(lens: &[usize], loops: u64, limit: Option<u64>, unique: bool) -> Passes {
        let sizes = Sizes { min: 14, max: 100, mtu: Some(60) };
        Passes::new(Box::new(Lens(lens.to_vec(), 0)), sizes, Some(loops), limit, unique)
    }

    /// All frames: their length and last byte of the source address; and how many passes ended.
    fn all(passes: &mut Passes) -> (Vec<(usize, u8)>, u64) {
        let mut arena = Arena::new(1000, 2);
        let (mut frames, mut ended) = (Vec::new(), 0);
        loop {
            arena.clear();
            let more = passes.fill(&mut arena).unwrap();
            ended += u64::from(arena.ends_pass());
            let src = |frame: &[u8]| frame.get(29).copied().unwrap_or_default();
            frames.extend(arena.frames().map(|(frame, _)| (frame.len(), src(frame))));
            if !more {
                return (frames, ended);
            }
        }
    }

    #[test]
    fn loops_sizes_and_limits() {
        let mut three = passes(&[13, 14, 40, 75, 74, 101], 3, None, false);
        let (frames, ended) = all(&mut three);
        assert_eq!(frames, [(14, 0), (40, 40), (74, 74)].repeat(3));
        assert_eq!((ended, three.begun(9), three.begun(7), three.begun(3)), (3, 3, 3, 1));
        assert_eq!(three.skipped(), Skipped { too_large: 2, too_short: 1 });
        assert_eq!((three.flows(1), three.flows(2), three.flows(9)), (0, 1, 2));

        let mut limited = passes(&[14, 40, 41], 9, Some(5), true);
        let (frames, ended) = all(&mut limited);
        assert_eq!(frames, [(14, 0), (40, 40), (41, 41), (14, 0), (40, 39)]);
        assert_eq!((ended, limited.flows(5), limited.flows(6)), (2, 3, 4));
        assert_eq!(all(&mut passes(&[], 3, None, false)), (vec![], 1));
    }
}
