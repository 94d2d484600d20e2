//! The output of a lane of a split: a packer for each member.

use super::packer::Packer;
use super::{Arrival, Now, Output, OutputTally, Pause};
use crate::batch::{BATCH_FRAMES, Frame, Memory};
use quaff_file::tally::Counts;
use std::sync::mpsc::Sender;

/// Packs each frame for its member. A member whose buffer is full delays no other one: of a live source its frames are
/// lost at once, while a source that can wait does so.
pub(crate) struct Spread {
    packers: Vec<Packer>,
    /// The frames of a batch by their members.
    lists: Vec<Vec<Frame>>,
    /// Those for which there was no room.
    left: Vec<Frame>,
    /// Receives the losses of the members at the end.
    lost: Sender<Vec<u64>>,
    is_live: bool,
}

impl Spread {
    /// A packer for each member, in their order. `is_live` if the source cannot wait.
    pub(crate) fn new(packers: Vec<Packer>, lost: Sender<Vec<u64>>, is_live: bool) -> Self {
        let list = || Vec::with_capacity(BATCH_FRAMES as usize);
        let lists = packers.iter().map(|_| list()).collect();
        Self { packers, lists, left: list(), lost, is_live }
    }
}

impl Output for Spread {
    fn take(&mut self, memory: Memory<'_>, frames: &mut [Frame], arrival: Arrival) -> usize {
        // The members of dropped packets are unknown, so each member records them.
        self.packers.iter_mut().for_each(|packer| packer.note(&arrival));
        self.lists.iter_mut().for_each(Vec::clear);
        for frame in frames.iter() {
            self.lists[frame.member()].push(*frame);
        }
        self.left.clear();
        for (packer, list) in self.packers.iter_mut().zip(&self.lists) {
            if list.is_empty() {
                continue;
            }
            let packed = packer.pack(memory, list, arrival.now);
            if packer.is_closed() || self.is_live && packed < list.len() && packer.is_full() {
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

    fn tick(&mut self, pause: Pause, count: &dyn Fn(&mut Counts)) {
        self.packers.iter_mut().for_each(|packer| packer.tick(pause, count));
    }

    fn patience_ns(&self, now: Now) -> u64 {
        self.packers.iter().map(|packer| packer.patience_ns(now)).min().unwrap_or(u64::MAX)
    }

    fn finish(&mut self, wall_ns: u64, count: &dyn Fn(&mut Counts)) {
        self.packers.iter_mut().for_each(|packer| packer.finish(wall_ns, count));
        // Without a receiver the run has failed at its start.
        let _ = self.lost.send(self.packers.iter().map(|packer| packer.tally().lost).collect());
    }

    /// The sum of the members' tallies. They use the same common buffers, and their peaks may be at different times.
    fn tally(&self) -> OutputTally {
        let sum: OutputTally = self.packers.iter().map(Packer::tally).sum();
        let buffers = self.packers.iter().map(Packer::own_and_common_buffers);
        let common = buffers.clone().next().map_or(0, |(_, common)| common);
        let pool_buffers = common + buffers.map(|(own, _)| own).sum::<u64>();
        OutputTally { pool_buffers, high_buffers: sum.high_buffers.min(pool_buffers), ..sum }
    }

    fn is_closed(&self) -> bool {
        self.packers.iter().all(Packer::is_closed)
    }
}
