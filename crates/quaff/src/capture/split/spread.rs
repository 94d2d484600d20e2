//! What a lane of a split gives its frames to: a packer for each member.

use crate::batch::{BATCH_FRAMES, Frame, Memory};
use crate::lane::Packing;
use crate::pack::Packer;
use quaff_file::tally::Counts;
use std::sync::mpsc::Sender;

/// Packs each frame for its member. A member without room holds up the others only as long as the
/// source can wait; then its frames are lost, and theirs are not.
pub(super) struct Spread {
    packers: Vec<Packer>,
    /// The frames of a batch by their members.
    lists: Vec<Vec<Frame>>,
    /// Those for which there was no room.
    left: Vec<Frame>,
    /// Hears at the end what was lost for want of buffer, member by member.
    tell: Sender<Vec<u64>>,
}

impl Spread {
    /// A packer for each member, in their order.
    pub(super) fn new(packers: Vec<Packer>, tell: Sender<Vec<u64>>) -> Self {
        let list = || Vec::with_capacity(BATCH_FRAMES as usize);
        let lists = packers.iter().map(|_| list()).collect();
        Self { packers, lists, left: list(), tell }
    }

    fn sum(&self, of: impl Fn(&Packer) -> u64) -> u64 {
        self.packers.iter().map(of).sum()
    }
}

impl Packing for Spread {
    fn pack(&mut self, memory: Memory<'_>, frames: &mut [Frame], now_ns: u64, wall_ns: u64) -> usize {
        self.lists.iter_mut().for_each(Vec::clear);
        for frame in frames.iter() {
            self.lists[frame.member()].push(*frame);
        }
        self.left.clear();
        for (packer, list) in self.packers.iter_mut().zip(&self.lists) {
            if list.is_empty() {
                continue;
            }
            let packed = packer.pack(memory, list, now_ns, wall_ns);
            if packer.is_abandoned() {
                packer.lose(&list[packed..]);
            } else {
                self.left.extend_from_slice(&list[packed..]);
            }
        }
        let packed = frames.len() - self.left.len();
        frames[packed..].copy_from_slice(&self.left);
        packed
    }

    fn lose(&mut self, frames: &[Frame]) {
        for frame in frames {
            self.packers[frame.member()].lose(std::slice::from_ref(frame));
        }
    }

    /// Nobody knows whose they were: each of them hears of it.
    fn note_dropped(&mut self, packets: u64) {
        self.packers.iter_mut().for_each(|packer| packer.note_dropped(packets));
    }

    fn tick(&mut self, now_ns: u64, wall_ns: u64, idle: bool, count: &dyn Fn(&mut Counts)) {
        self.packers.iter_mut().for_each(|packer| packer.tick(now_ns, wall_ns, idle, count));
    }

    fn patience_ns(&self, now_ns: u64, wall_ns: u64) -> u64 {
        self.packers.iter().map(|packer| packer.patience_ns(now_ns, wall_ns)).min().unwrap_or(u64::MAX)
    }

    fn finish(self, wall_ns: u64, count: &dyn Fn(&mut Counts)) -> (Counts, u64) {
        let (mut all, mut high, mut lost) = (Counts::default(), 0, Vec::new());
        for packer in self.packers {
            let (counts, most) = packer.finish(wall_ns, count);
            all.packed += counts.packed;
            all.lost += counts.lost;
            high += most;
            lost.push(counts.lost);
        }
        // Whoever does not wait for the end does not want to know.
        let _ = self.tell.send(lost);
        (all, high)
    }

    fn pool_buffers(&self) -> u64 {
        self.sum(Packer::pool_buffers)
    }

    fn is_abandoned(&self) -> bool {
        self.packers.iter().all(Packer::is_abandoned)
    }

    fn gauge(&self) -> (u64, u64, u64) {
        (
            self.sum(|packer| packer.gauge().0),
            self.sum(|packer| packer.gauge().1),
            self.sum(|packer| packer.gauge().2),
        )
    }
}

/// Takes everything and keeps nothing: what a plan needs.
#[derive(Debug, Default)]
pub(super) struct Nowhere {
    packed: u64,
}

impl Packing for Nowhere {
    fn pack(&mut self, _: Memory<'_>, frames: &mut [Frame], _: u64, _: u64) -> usize {
        self.packed += frames.len() as u64;
        frames.len()
    }

    fn lose(&mut self, _: &[Frame]) {}

    fn note_dropped(&mut self, _: u64) {}

    fn tick(&mut self, _: u64, _: u64, _: bool, _: &dyn Fn(&mut Counts)) {}

    fn patience_ns(&self, _: u64, _: u64) -> u64 {
        u64::MAX
    }

    fn finish(self, _: u64, count: &dyn Fn(&mut Counts)) -> (Counts, u64) {
        let mut counts = Counts { packed: self.packed, ..Counts::default() };
        count(&mut counts);
        (counts, 0)
    }

    fn pool_buffers(&self) -> u64 {
        0
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn gauge(&self) -> (u64, u64, u64) {
        (0, 0, 0)
    }
}
