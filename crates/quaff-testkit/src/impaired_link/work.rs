//! The device's thread: takes frames in, has them judged, and sends them when they are due.

use super::held::Held;
use super::rules::{Fate, Judge};
use super::{Counts, Rules};
use quaff_lab::Result;
use quaff_os::clock::{self, steady_ns, wall_ns};
use quaff_os::cpu;
use quaff_os::packet::{Arrival, BATCH_FRAMES, RxRingV2, TxSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Waking up takes so long at times; the rest of a wait is spun.
const SPIN_NS: u64 = 100_000;
/// No wait is longer, so that the end is seen in time.
const WAIT_NS: u64 = 20_000_000;
/// Frames that are held longer than this need not be looked at as they come.
const NAP_NS: u64 = 500_000;
/// The kernel's counters have 32 bits: they are read this often.
const COUNT_NS: u64 = 1_000_000_000;
/// Frames that one ring may bring before the other one is looked at.
const TURN_FRAMES: usize = BATCH_FRAMES;
/// Buckets of lateness, 1 µs each; the last one has all that is later.
const LATE_BUCKETS: usize = 4096;
/// linux/if_packet.h.
const PACKET_OUTGOING: u8 = 4;
/// Where a VLAN tag stands: behind the two addresses.
const TAG_AT: usize = 12;
/// "No buffer space available", "Resource temporarily unavailable", "Interrupted system call" (errno(3)): the
/// frame may be given again.
const AGAIN: [i32; 3] = [105, 11, 4];

/// One way.
#[derive(Debug)]
pub(super) struct Lane {
    rx: RxRingV2,
    tx: TxSocket,
    judge: Judge,
    held: Held,
    counts: Counts,
    late: Vec<u64>,
    batch: Vec<Vec<u8>>,
    /// How long all frames are held at least, ns.
    hold_ns: u64,
}

impl Lane {
    pub(super) fn new((rx, tx): (RxRingV2, TxSocket), rules: &Rules) -> Self {
        Self {
            rx,
            tx,
            judge: Judge::new(rules),
            held: Held::default(),
            counts: Counts::default(),
            late: vec![0; LATE_BUCKETS],
            batch: Vec::with_capacity(BATCH_FRAMES),
            hold_ns: rules.hold.as_nanos() as u64,
        }
    }

    /// Takes in what has come, up to a turn; whether anything had.
    fn receive(&mut self) -> bool {
        for taken in 0..TURN_FRAMES {
            let mut frame = self.held.room();
            let Some(arrival) = self.rx.take(&mut frame) else {
                self.held.give_back(frame);
                return taken > 0;
            };
            if arrival.pkttype == PACKET_OUTGOING {
                self.held.give_back(frame);
                continue;
            }
            put_back_tag(&mut frame, &arrival);
            match self.judge.judge(arrival.time_ns, &mut self.counts) {
                Fate::Lost => self.held.give_back(frame),
                Fate::Passes { due_ns, is_twice } => {
                    if is_twice {
                        let mut copy = self.held.room();
                        copy.extend_from_slice(&frame);
                        self.held.push(due_ns, copy);
                    }
                    self.held.push(due_ns, frame);
                }
            }
        }
        true
    }

    /// Sends what is due.
    fn send(&mut self) -> Result<()> {
        let now_ns = wall_ns();
        while self.batch.len() < BATCH_FRAMES
            && let Some((due_ns, frame)) = self.held.pop(now_ns)
        {
            self.note_late(now_ns - due_ns);
            self.batch.push(frame);
        }
        let mut sent = 0;
        while sent < self.batch.len() {
            let taken = match &self.batch[sent..] {
                [frame] => self.tx.send_one(frame).map(|()| 1),
                frames => self.tx.send(frames.iter().map(Vec::as_slice)),
            };
            match taken {
                Ok(taken) => sent += taken,
                Err(error) if AGAIN.contains(&error.raw()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.counts.sent += sent as u64;
        self.batch.drain(..).for_each(|frame| self.held.give_back(frame));
        Ok(())
    }

    fn note_late(&mut self, late_ns: u64) {
        let bucket = (late_ns / 1000).min(LATE_BUCKETS as u64 - 1);
        self.late[bucket as usize] += 1;
        self.counts.late_ns[2] = self.counts.late_ns[2].max(late_ns);
    }

    fn count_missed(&mut self) -> Result<()> {
        self.counts.missed += self.rx.statistics()?.drops;
        Ok(())
    }

    /// All that was done.
    fn finish(mut self) -> Result<Counts> {
        self.count_missed()?;
        let [_, _, max_ns] = self.counts.late_ns;
        self.counts.late_ns = [quantile_ns(&self.late, 0.5), quantile_ns(&self.late, 0.99), max_ns];
        Ok(self.counts)
    }
}

/// Both ways.
#[derive(Debug)]
pub(super) struct Work {
    lanes: [Lane; 2],
    over: Arc<AtomicBool>,
}

impl Work {
    pub(super) fn new(lanes: [Lane; 2], over: Arc<AtomicBool>) -> Self {
        Self { lanes, over }
    }

    /// Forwards until it is over and nothing is held any more.
    pub(super) fn run(mut self, core: Option<usize>) -> Result<[Counts; 2]> {
        core.map_or(Ok(()), cpu::pin)?;
        cpu::raise_priority();
        let mut count_at_ns = steady_ns() + COUNT_NS;
        loop {
            let mut has_come = false;
            for lane in &mut self.lanes {
                has_come |= lane.receive();
                lane.send()?;
            }
            if steady_ns() >= count_at_ns {
                self.lanes.iter_mut().try_for_each(Lane::count_missed)?;
                count_at_ns += COUNT_NS;
            }
            if has_come {
                continue;
            }
            let due_ns = self.lanes.iter().filter_map(|lane| lane.held.due_ns()).min();
            if due_ns.is_none() && self.over.load(Ordering::Relaxed) {
                break;
            }
            self.wait(due_ns)?;
        }
        let [there, back] = self.lanes.map(Lane::finish);
        Ok([there?, back?])
    }

    /// Waits until shortly before `due_ns`, or until a frame may have come that cannot wait.
    fn wait(&self, due_ns: Option<u64>) -> Result<()> {
        let left_ns = due_ns.map_or(WAIT_NS, |due_ns| due_ns.saturating_sub(wall_ns())).min(WAIT_NS);
        if left_ns <= SPIN_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let wait_ns = left_ns - SPIN_NS;
        let hold_ns = self.lanes.iter().map(|lane| lane.hold_ns).min().unwrap_or(0);
        if hold_ns >= NAP_NS && due_ns.is_some() {
            // What comes meanwhile is due after a hold of its own: half of that is time enough.
            clock::sleep_until(steady_ns() + wait_ns.min(hold_ns / 2));
            return Ok(());
        }
        let rings = [&self.lanes[0].rx, &self.lanes[1].rx];
        Ok(RxRingV2::wait(&rings, Duration::from_nanos(wait_ns))?)
    }
}

/// The kernel takes a frame's first tag out; on its way on the frame has it again.
fn put_back_tag(frame: &mut Vec<u8>, arrival: &Arrival) {
    if let Some((tpid, tci)) = arrival.vlan
        && frame.len() >= TAG_AT
    {
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        frame.splice(TAG_AT..TAG_AT, [a, b, c, d]);
    }
}

/// The upper end of the bucket in which the frame at `share` of all stands, ns; 0 without frames.
fn quantile_ns(buckets: &[u64], share: f64) -> u64 {
    let total: u64 = buckets.iter().sum();
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    let found = buckets.iter().position(|count| {
        seen += count;
        seen >= rank
    });
    found.filter(|_| total > 0).map_or(0, |bucket| (bucket as u64 + 1) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_end_of_its_bucket() {
        let mut buckets = vec![0; LATE_BUCKETS];
        assert_eq!(quantile_ns(&buckets, 0.5), 0);
        (buckets[0], buckets[3], buckets[9]) = (50, 49, 1);
        assert_eq!(
            [0.5, 0.51, 0.99, 1.0].map(|share| quantile_ns(&buckets, share)),
            [1000, 4000, 4000, 10_000]
        );
    }

    #[test]
    fn a_tag_is_where_it_was() {
        let arrival = Arrival { time_ns: 0, len: 16, vlan: Some((0x8100, 0x2064)), pkttype: 0 };
        let mut frame: Vec<u8> = (0..16).collect();
        put_back_tag(&mut frame, &arrival);
        assert_eq!(frame[10..18], [10, 11, 0x81, 0x00, 0x20, 0x64, 12, 13]);
        put_back_tag(&mut frame, &Arrival { vlan: None, ..arrival });
        assert_eq!(frame.len(), 20);
    }
}
