//! The thread of the link: receives frames, applies the rules, and sends frames when they are due.

use super::held::{Due, Held};
use super::rules::{Fate, Judge};
use super::{Counts, Rules};
use hdrhistogram::Histogram;
use quaff_lab::Result;
use quaff_os::clock::{self, steady_ns, wall_ns};
use quaff_os::cpu;
use quaff_os::packet::{BATCH_FRAMES, TxSocket};
use quaff_os::testing::{Arrival, RxRingV2};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The end of a wait that is spun, because waking up may take that long, ns.
const SPIN_NS: u64 = 100_000;
/// The longest wait, so that the end is seen in time, ns.
const WAIT_NS: u64 = 20_000_000;
/// Frames that are held longer need not be read as they arrive, ns.
const NAP_NS: u64 = 500_000;
/// Interval at which the kernel's counters are read, which have 32 bits, ns.
const COUNT_NS: u64 = 1_000_000_000;
/// Frames of one ring before the other one is read.
const TURN_FRAMES: usize = BATCH_FRAMES;
/// Largest lateness of the quantiles, ns, and their significant digits.
const LATE_NS_MAX: u64 = 60_000_000_000;
const LATE_DIGITS: u8 = 3;
/// linux/if_packet.h.
const PACKET_OUTGOING: u8 = 4;
/// Offset of a VLAN tag, after the two addresses.
const TAG_AT: usize = 12;
/// ENOBUFS, EAGAIN, EINTR: the frame is sent again.
const AGAIN: [i32; 3] = [105, 11, 4];

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    rx: RxRingV2,
    tx: TxSocket,
    judge: Judge,
    held: Held,
    counts: Counts,
    late_ns: Histogram<u64>,
    batch: Vec<Vec<u8>>,
    /// The shortest time for which frames are held, ns.
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
            late_ns: Histogram::new_with_bounds(1, LATE_NS_MAX, LATE_DIGITS).expect("valid bounds"),
            batch: Vec::with_capacity(BATCH_FRAMES),
            hold_ns: rules.hold.as_nanos() as u64,
        }
    }

    /// Receives the frames that have arrived, at most a turn; returns whether there were any.
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
            restore_tag(&mut frame, &arrival);
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
            && let Some(Due { due_ns, bytes, is_overtaken }) = self.held.pop(now_ns)
        {
            self.late_ns.saturating_record(now_ns - due_ns);
            self.counts.late_ns[2] = self.counts.late_ns[2].max(now_ns - due_ns);
            self.counts.overtaken += u64::from(is_overtaken);
            self.batch.push(bytes);
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

    fn count_missed(&mut self) -> Result<()> {
        self.counts.missed += self.rx.statistics()?.drops;
        Ok(())
    }

    fn finish(mut self) -> Result<Counts> {
        self.count_missed()?;
        let [_, _, max_ns] = self.counts.late_ns;
        let quantile_ns = |share| self.late_ns.value_at_quantile(share).min(max_ns);
        self.counts.late_ns = [quantile_ns(0.5), quantile_ns(0.99), max_ns];
        Ok(self.counts)
    }
}

/// Both directions.
#[derive(Debug)]
pub(super) struct Work {
    lanes: [Lane; 2],
    over: Arc<AtomicBool>,
}

impl Work {
    pub(super) fn new(lanes: [Lane; 2], over: Arc<AtomicBool>) -> Self {
        Self { lanes, over }
    }

    /// Forwards until it is stopped and no frame is held.
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

    /// Waits until shortly before `due_ns`, or until a frame may have arrived that is due earlier.
    fn wait(&self, due_ns: Option<u64>) -> Result<()> {
        let left_ns = due_ns.map_or(WAIT_NS, |due_ns| due_ns.saturating_sub(wall_ns())).min(WAIT_NS);
        if left_ns <= SPIN_NS {
            std::hint::spin_loop();
            return Ok(());
        }
        let wait_ns = left_ns - SPIN_NS;
        let hold_ns = self.lanes.iter().map(|lane| lane.hold_ns).min().unwrap_or(0);
        if hold_ns >= NAP_NS && due_ns.is_some() {
            // A frame that arrives meanwhile is due after its own hold: half of that leaves time.
            clock::sleep_until(steady_ns() + wait_ns.min(hold_ns / 2));
            return Ok(());
        }
        let rings = [&self.lanes[0].rx, &self.lanes[1].rx];
        Ok(RxRingV2::wait(&rings, Duration::from_nanos(wait_ns))?)
    }
}

/// Restores the first tag, which the kernel removes.
fn restore_tag(frame: &mut Vec<u8>, arrival: &Arrival) {
    if let Some((tpid, tci)) = arrival.vlan
        && frame.len() >= TAG_AT
    {
        let [a, b] = tpid.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        frame.splice(TAG_AT..TAG_AT, [a, b, c, d]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_restored() {
        let arrival = Arrival { time_ns: 0, len: 16, vlan: Some((0x8100, 0x2064)), pkttype: 0 };
        let mut frame: Vec<u8> = (0..16).collect();
        restore_tag(&mut frame, &arrival);
        assert_eq!(frame[10..18], [10, 11, 0x81, 0x00, 0x20, 0x64, 12, 13]);
        restore_tag(&mut frame, &Arrival { vlan: None, ..arrival });
        assert_eq!(frame.len(), 20);
    }
}
