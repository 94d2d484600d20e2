//! The passes of a source: its repetition up to a limit (`--loop`), without frames that cannot be sent. It never sends.

use super::unique::{self, Places};
use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use quaff_wire::flow::FlowCount;
use quaff_wire::net;
use serde::Serialize;

/// The sizes of frames that can be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Shortest frame, bytes.
    pub(super) min: usize,
    /// Longest frame of the transmit path, bytes.
    pub(super) max: usize,
    /// MTU of the interface, which includes neither the Ethernet header nor one VLAN tag; `None` for injected frames.
    pub(super) mtu: Option<u32>,
}

/// Frames of one pass that are not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Longer than the MTU or a memory page.
    pub too_large: u64,
    /// Without an Ethernet header.
    pub too_short: u64,
}

/// A feed that repeats another one.
pub(super) struct Passes {
    pub(super) feed: Box<dyn Feed>,
    sizes: Sizes,
    /// Number of passes; `None`: endless.
    pub(super) loops: Option<u64>,
    /// Remaining frames up to the limit.
    left: u64,
    unique: bool,
    /// Completed passes.
    pass: u64,
    pass_has_ended: bool,
    /// Frames that the first pass skipped.
    pub(super) skipped: Skipped,
    pub(super) flows: Flows,
    /// Frames of the first pass so far.
    frames: u64,
    /// The addresses of the frames that [`Self::again`] repeats.
    places: Option<Vec<Places>>,
}

/// Maximum number of flows that are distinguished: each takes about 60 bytes.
const FLOWS_MAX: usize = 4_000_000;

/// Distinct flows of the first pass, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) count: FlowCount,
    /// Number of the first frame of each flow, ascending.
    begin: Vec<u64>,
}

impl Sizes {
    /// Maximum length of a frame that begins like this one.
    pub(super) fn most(&self, frame: &[u8]) -> usize {
        let of_mtu = self.mtu.map_or(usize::MAX, |mtu| net::frame_bytes_max(frame, mtu as usize));
        self.max.min(of_mtu)
    }

    fn fits(&self, frame: &[u8]) -> bool {
        frame.len() <= self.most(frame)
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
            places: None,
        }
    }

    /// Turns the frames of the first pass, all of which are in `arena`, into those of the next one, without reading the
    /// source again. Returns `false` if there is none.
    pub(super) fn again(&mut self, arena: &mut Arena) -> bool {
        self.pass += 1;
        let is_over = self.loops.is_some_and(|loops| self.pass >= loops);
        if is_over || self.left == 0 || arena.is_empty() {
            return false;
        }
        if !self.unique && self.left >= arena.len() as u64 {
            self.left -= arena.len() as u64;
            return true;
        }
        // Those of the first pass: a shift may make the lower address the higher one.
        let places = || arena.frames().map(|(frame, _)| unique::places(frame)).collect();
        let places = self.places.get_or_insert_with(places);
        let (left, unique, mut places) = (&mut self.left, self.unique, places.iter());
        arena.retain(|frame, _| {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            if let Some(places) = places.next().filter(|_| unique) {
                unique::shift(frame, *places, 1);
            }
            true
        });
        true
    }

    /// Number of passes that contain the first `sent` frames.
    pub(super) fn begun(&self, sent: u64) -> u64 {
        sent.div_ceil(self.frames.max(1))
    }

    /// Number of distinct flows in the first `sent` frames.
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

    /// Removes frames that cannot be sent, and gives later passes their own addresses.
    fn prepare(&mut self, arena: &mut Arena) {
        let (sizes, is_first, pass) = (self.sizes, self.pass == 0, self.pass);
        let (skipped, flows, frames) = (&mut self.skipped, &mut self.flows, &mut self.frames);
        let (left, unique, counts_flows) = (&mut self.left, self.unique, self.feed.flows().is_none());
        arena.retain(|frame, meta| {
            if frame.len() < sizes.min || !sizes.fits(frame) {
                let is_short = frame.len() < sizes.min;
                *(if is_short { &mut skipped.too_short } else { &mut skipped.too_large }) +=
                    u64::from(is_first);
                return false;
            }
            if *left == 0 {
                return false;
            }
            *left -= 1;
            if is_first {
                if counts_flows {
                    flows.add(frame, meta, *frames);
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
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError> {
        self.feed.begin(loads_programs)
    }

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
        arena.ends_pass = true;
        let is_last = self.loops.is_some_and(|loops| self.pass + 1 >= loops);
        // If a pass has no frames, the next one has none either.
        Ok(!is_last && self.left > 0 && self.frames > 0)
    }
}

impl Flows {
    /// Returns `true` if the limit of distinguished flows is reached.
    pub(super) fn is_full(&self) -> bool {
        self.begin.len() >= FLOWS_MAX
    }

    fn add(&mut self, frame: &[u8], meta: &FrameMeta, number: u64) {
        if !self.is_full() && self.count.add(frame, meta.time_ns / 1_000_000_000) {
            self.begin.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::testing::{Frames, drain};

    /// A frame of this length, of a flow of its own if there is room for IP addresses.
    fn frame(len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        if len > 34 {
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59]);
            frame[26..34].copy_from_slice(&[10, 0, 0, len as u8, 10, 0, 1, 1]);
        }
        frame
    }

    fn passes(lens: &[usize], loops: u64, limit: Option<u64>, unique: bool) -> Passes {
        let sizes = Sizes { min: 14, max: 100, mtu: Some(60) };
        Passes::new(Frames::boxed(lens.iter().map(|len| (frame(*len), 0))), sizes, Some(loops), limit, unique)
    }

    /// All frames, as length and last byte of the source address, and the number of passes.
    fn all(passes: &mut Passes) -> (Vec<(usize, u8)>, u64) {
        let (frames, ended) = drain(passes, 1000, 2);
        let src = |frame: &[u8]| frame.get(29).copied().unwrap_or_default();
        (frames.iter().map(|(frame, _)| (frame.len(), src(frame))).collect(), ended)
    }

    #[test]
    fn passes_repeat_up_to_the_limit_and_skip_by_size() {
        let mut three = passes(&[13, 14, 40, 75, 74, 101], 3, None, false);
        let (frames, ended) = all(&mut three);
        assert_eq!(frames, [(14, 0), (40, 40), (74, 74)].repeat(3));
        assert_eq!((ended, three.begun(9), three.begun(7), three.begun(3)), (3, 3, 3, 1));
        assert_eq!(three.skipped, Skipped { too_large: 2, too_short: 1 });
        assert_eq!((three.flows(1), three.flows(2), three.flows(9)), (0, 1, 2));

        let mut limited = passes(&[14, 40, 41], 9, Some(5), true);
        let (frames, ended) = all(&mut limited);
        assert_eq!(frames, [(14, 0), (40, 40), (41, 41), (14, 0), (40, 39)]);
        assert_eq!((ended, limited.flows(5), limited.flows(6)), (2, 3, 4));
        assert_eq!(all(&mut passes(&[], 3, None, false)), (vec![], 1));
    }
}
