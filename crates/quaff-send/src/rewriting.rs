//! Rewrites frames between a source and the sender. It never sends.
//!
//! For each frame: its output interface, the edits, the MTU policy and the probe header. If no length changes, frames
//! are edited in place.

use crate::arena::{Arena, FrameMeta};
use crate::error::{PlanError, SendError};
use crate::feed::Feed;
use crate::tally::{FeedTally, RewriteTally};
use quaff_wire::probe::ProbeHeader;
use quaff_wire::rewrite::{self, Fit, Mtu, MtuCounts, MtuPolicy, Rewrite};
use quaff_wire::{RoleClassifier, RoleRule};

/// Buffer for frames that are not yet rewritten.
const ROOM_BYTES: usize = 1 << 20;
const ROOM_FRAMES: usize = 4096;

/// Changes to frames before they are sent.
#[derive(Debug, Clone, Default)]
pub struct RewritePlan {
    pub rewrite: Rewrite,
    /// The assignment to output interfaces; without it frames keep their output.
    pub sides: Option<SidesPlan>,
    /// The MTU, bytes, and the policy for longer frames.
    pub mtu: Option<(usize, MtuPolicy)>,
    /// Stream id of the probe header to insert.
    pub stamp: Option<u16>,
}

/// The assignment of frames to output interfaces.
#[derive(Debug, Clone)]
pub struct SidesPlan {
    pub rule: RoleRule,
    /// Output of frames that the rule does not cover.
    pub other: u8,
    /// Send clients through output 1 instead of 0.
    pub reverse: bool,
}

impl RewritePlan {
    /// Inserts the rewriting between `feed` and the sender; returns `feed` itself if the plan changes nothing.
    pub fn apply(self, feed: Box<dyn Feed>) -> Box<dyn Feed> {
        if self.is_empty() { feed } else { Box::new(Rewriting::new(feed, self)) }
    }

    fn is_empty(&self) -> bool {
        self.rewrite == Rewrite::default()
            && self.sides.is_none()
            && self.mtu.is_none()
            && self.stamp.is_none()
    }

    fn keeps_length(&self) -> bool {
        self.rewrite.keeps_length() && self.mtu.is_none() && self.stamp.is_none()
    }
}

/// A feed of rewritten frames.
struct Rewriting {
    feed: Box<dyn Feed>,
    plan: RewritePlan,
    sides: Option<RoleClassifier>,
    mtu: Option<Mtu>,
    /// Frames that are not yet rewritten, from `at` on.
    room: Arena,
    at: usize,
    more: bool,
    waiting: Waiting,
    frame: Vec<u8>,
    stamped: Vec<u8>,
    seq: u64,
    is_first_pass: bool,
    tally: RewriteTally,
}

/// A rewritten frame that is not yet appended.
#[derive(Debug, Clone, Copy)]
enum Waiting {
    Nothing,
    Whole(FrameMeta),
    /// The fragments from this index on.
    Fragments(usize, FrameMeta),
}

impl Rewriting {
    fn new(feed: Box<dyn Feed>, plan: RewritePlan) -> Self {
        let sides = plan.sides.as_ref().map(|sides| RoleClassifier::new(sides.rule.clone(), sides.other));
        let mtu = plan.mtu.map(|(bytes, policy)| Mtu::new(bytes, policy));
        Self {
            feed,
            plan,
            sides,
            mtu,
            room: Arena::new(ROOM_BYTES, ROOM_FRAMES),
            at: 0,
            more: true,
            waiting: Waiting::Nothing,
            frame: Vec::new(),
            stamped: Vec::new(),
            seq: 0,
            is_first_pass: true,
            tally: RewriteTally::default(),
        }
    }

    /// Sets the output and edits the frames from `from` on in place.
    fn edit(&mut self, arena: &mut Arena, from: usize) {
        for at in from..arena.len() {
            let (frame, meta) = arena.frame_mut(at);
            meta.out = side(&mut self.sides, &self.plan, frame, meta.out);
            self.plan.rewrite.edit(frame, meta.out);
        }
    }

    /// Rewrites the next frame of the room; it waits to be appended.
    fn rewrite_next(&mut self) -> Result<(), SendError> {
        let (frame, mut meta) = self.room.frame(self.at);
        self.at += 1;
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        meta.out = side(&mut self.sides, &self.plan, frame, meta.out);
        match self.plan.rewrite.apply(&mut self.frame, meta.wire_len, meta.out) {
            Some(wire_len) => meta.wire_len = wire_len,
            None => {
                self.tally.cut_dropped += u64::from(self.is_first_pass);
                return Ok(());
            }
        }
        let Some(mtu) = &mut self.mtu else {
            self.waiting = Waiting::Whole(meta);
            return Ok(());
        };
        match mtu.fit(&mut self.frame, meta.wire_len) {
            Fit::Whole => self.waiting = Waiting::Whole(meta),
            Fit::Cut => {
                meta.wire_len = self.frame.len() as u32;
                self.waiting = Waiting::Whole(meta);
            }
            Fit::Fragmented => self.waiting = Waiting::Fragments(0, meta),
            Fit::Skipped => {}
            Fit::Failed => {
                let mtu = self.plan.mtu.map_or(0, |(mtu, _)| mtu);
                return Err(PlanError::Mtu { bytes: self.frame.len(), mtu }.into());
            }
        }
        Ok(())
    }

    /// Appends the waiting frame or fragments. Returns `false` if not all of them fit.
    fn append(&mut self, arena: &mut Arena) -> bool {
        match self.waiting {
            Waiting::Nothing => {}
            Waiting::Whole(meta) => {
                let frame = std::mem::take(&mut self.frame);
                let has_room = self.append_one(arena, &frame, meta);
                self.frame = frame;
                if !has_room {
                    return false;
                }
            }
            Waiting::Fragments(first, meta) => {
                let Some(mtu) = self.mtu.take() else { return true };
                let left = mtu.fragments().skip(first);
                let fitting = |piece: &&[u8]| {
                    let wire_len = piece.len() as u32;
                    self.append_one(arena, piece, FrameMeta { wire_len, ..meta })
                };
                let appended = first + left.take_while(fitting).count();
                let has_room = appended == mtu.fragments().count();
                self.mtu = Some(mtu);
                if !has_room {
                    self.waiting = Waiting::Fragments(appended, meta);
                    return false;
                }
            }
        }
        self.waiting = Waiting::Nothing;
        true
    }

    fn append_one(&mut self, arena: &mut Arena, frame: &[u8], mut meta: FrameMeta) -> bool {
        let Some(stream) = self.plan.stamp else { return arena.push(frame, meta) };
        self.stamped.clear();
        self.stamped.extend_from_slice(frame);
        let (seq, intended_ns) = (self.seq, meta.time_ns);
        let stamp = ProbeHeader { stream, seq, intended_ns, late_ns: 0, last: false, bounded: false };
        let is_stamped = rewrite::insert_probe(&mut self.stamped, &stamp);
        if is_stamped {
            meta.wire_len = self.stamped.len() as u32;
        }
        let has_room = arena.push(&self.stamped, meta);
        if has_room {
            self.seq += u64::from(is_stamped);
            self.tally.unstamped += u64::from(self.is_first_pass && !is_stamped);
        }
        has_room
    }

    /// Counts of the first pass.
    fn rewritten(&self) -> RewriteTally {
        let Some(mtu) = self.mtu.as_ref().filter(|_| self.is_first_pass) else { return self.tally };
        let MtuCounts { skipped, cut, fragmented, fragments } = mtu.counts;
        RewriteTally { mtu_skipped: skipped, mtu_cut: cut, fragmented, fragments, ..self.tally }
    }
}

impl Feed for Rewriting {
    fn begin(&mut self, loads_programs: bool) -> Result<(), SendError> {
        self.feed.begin(loads_programs)
    }

    fn fill(&mut self, arena: &mut Arena) -> Result<bool, SendError> {
        if self.plan.keeps_length() {
            let from = arena.len();
            let more = self.feed.fill(arena)?;
            self.edit(arena, from);
            return Ok(more);
        }
        while self.append(arena) {
            if self.at < self.room.len() {
                self.rewrite_next()?;
                continue;
            }
            if !self.more {
                return Ok(false);
            }
            self.room.clear();
            self.at = 0;
            self.more = self.feed.fill(&mut self.room)?;
            if self.room.is_empty() {
                return Ok(self.more);
            }
        }
        if arena.is_empty() {
            return Err(PlanError::FrameBytes { bytes: self.frame.len() }.into());
        }
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool, SendError> {
        self.tally = self.rewritten();
        self.is_first_pass = false;
        // Fragment IDs restart, so that each pass has the same frames.
        self.mtu = self.plan.mtu.map(|(bytes, policy)| Mtu::new(bytes, policy));
        self.room.clear();
        (self.at, self.more, self.waiting) = (0, true, Waiting::Nothing);
        self.feed.rewind()
    }

    fn bytes_hint(&self) -> Option<u64> {
        self.feed.bytes_hint()
    }

    fn tally(&self) -> FeedTally {
        let tally = self.feed.tally();
        let cut = if self.plan.rewrite.length.is_some() { 0 } else { tally.cut };
        FeedTally { cut, rewritten: self.rewritten(), ..tally }
    }

    fn damage(&self) -> Option<String> {
        self.feed.damage()
    }
}

fn side(sides: &mut Option<RoleClassifier>, plan: &RewritePlan, frame: &[u8], out: u8) -> u8 {
    match (sides, &plan.sides) {
        (Some(sides), Some(plan)) => sides.output(frame) ^ u8::from(plan.reverse),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::testing::{Frames, drain};
    use quaff_testpackets as build;
    use quaff_wire::probe::{Classified, classify};
    use quaff_wire::rewrite::TagEdit;
    use std::net::Ipv4Addr;

    fn frame(bytes: usize) -> Vec<u8> {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        build::ethernet(&[], 0x0800, &build::ipv4(a, b, 17, &[], &build::udp(5000, 53, &vec![7; bytes])))
    }

    /// Datagrams with these payload lengths, bytes; their times count from 0.
    fn rewriting(payloads: &[usize], plan: RewritePlan) -> Box<dyn Feed> {
        plan.apply(Frames::boxed(payloads.iter().map(|bytes| frame(*bytes)).zip(0..)))
    }

    /// A pass, through arenas with room for this number of frames.
    fn pass(feed: &mut dyn Feed, frames: usize) -> Vec<(Vec<u8>, FrameMeta)> {
        drain(feed, 1 << 16, frames).0
    }

    #[test]
    fn fragments_keep_their_order_in_arenas_of_any_size() {
        let plan = RewritePlan { mtu: Some((128, MtuPolicy::Fragment)), ..RewritePlan::default() };
        for frames in [1, 2, 3, 100] {
            let mut feed = rewriting(&[10, 300, 20, 500], plan.clone());
            let all = pass(&mut *feed, frames);
            assert_eq!(
                all.iter().map(|(_, meta)| meta.time_ns).collect::<Vec<_>>(),
                [0, 1, 1, 1, 2, 3, 3, 3, 3, 3]
            );
            assert!(
                all.iter().all(|(frame, meta)| frame.len() <= 142 && meta.wire_len as usize == frame.len())
            );
            let tally = RewriteTally { fragmented: 2, fragments: 8, ..RewriteTally::default() };
            assert_eq!(feed.tally().rewritten, tally);
            assert!(feed.rewind().unwrap());
            assert_eq!(pass(&mut *feed, frames), all, "the same again");
            assert_eq!(feed.tally().rewritten, tally);
        }
    }

    #[test]
    fn editing_in_place_equals_rewriting_with_a_copy() {
        let edits = Rewrite { ports: vec!["53:5353".parse().unwrap()], ..Rewrite::default() };
        let sides = SidesPlan { rule: "first".parse().unwrap(), other: 0, reverse: true };
        let plan = RewritePlan { rewrite: edits, sides: Some(sides), ..RewritePlan::default() };
        let through = RewritePlan { mtu: Some((9000, MtuPolicy::Fail)), ..plan.clone() };
        let there = pass(&mut *rewriting(&[1, 2, 3], plan), 2);
        assert_eq!(there, pass(&mut *rewriting(&[1, 2, 3], through), 2));
        assert!(there.iter().all(|(frame, meta)| frame[36..38] == [0x14, 0xe9] && meta.out == 1));
    }

    #[test]
    fn probe_headers_are_numbered_across_passes() {
        let tags: Vec<TagEdit> = vec!["push:5".parse().unwrap()];
        let rewrite = Rewrite { tags, ..Rewrite::default() };
        let mut feed =
            rewriting(&[1, 100], RewritePlan { rewrite, stamp: Some(9), ..RewritePlan::default() });
        let mut all = pass(&mut *feed, 1);
        feed.rewind().unwrap();
        all.extend(pass(&mut *feed, 1));
        for (seq, (frame, meta)) in all.iter().enumerate() {
            let Classified::Intact(stamp) = classify(frame, meta.wire_len as usize) else { panic!("{seq}") };
            assert_eq!((stamp.stream, stamp.seq, stamp.intended_ns), (9, seq as u64, seq as u64 % 2));
        }
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn a_frame_above_the_mtu_can_be_an_error() {
        let plan = RewritePlan { mtu: Some((100, MtuPolicy::Fail)), ..RewritePlan::default() };
        let mut feed = rewriting(&[1, 200], plan);
        let error = feed.fill(&mut Arena::new(1000, 9)).unwrap_err();
        assert!(error.to_string().contains("242 bytes"), "{error}");
    }
}
