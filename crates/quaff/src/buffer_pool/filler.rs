//! The threads that populate buffers ahead of need. They take turns: one at the lowest priority while the lanes have
//! enough for the moment, one at normal priority when they have few, and while nothing is to be done. A single thread
//! could not change between both: leaving the lowest priority needs a capability, which a process that captures drops.
//! They map and lock nothing, because a lane might wait for the lock of all memory.

use super::common::Common;
use super::need::Need;
use super::pages::Pages;
use super::plan::PoolPlan;
use crate::gauge::BufferGauges;
use crate::plan::PREFAULT_BYTES_MAX;
use crate::{Result, memory};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use quaff_os::{Buffer, Stop, Wakeup, cpu};
use rtrb::Producer;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the thread checks the free memory while that is scarce.
const SCARCE_WAIT: Duration = Duration::from_millis(100);
/// Free memory of the machine, at most, that is not populated ahead of need.
const SPARE_BYTES_MAX: u64 = 512 << 20;
/// The longest time between two measurements of the rate of the input.
const LOOK_WAIT: Duration = Duration::from_secs(1);
/// Bytes populated between two readings of the free memory.
const GRANT_BYTES: usize = 64 << 20;

/// The handle of a thread that populates buffers and returns a warning.
pub(super) type FillerThread = JoinHandle<Option<String>>;

/// The fresh buffers of one lane's share.
pub(super) struct Fresh {
    /// Buffers that are mapped, but not populated.
    pub(super) mapped: Vec<Buffer>,
    pub(super) to_lane: Producer<Buffer>,
}

/// Populates the buffers of all lanes.
pub(super) struct Filler {
    lanes: Vec<Fresh>,
    /// Common buffers that are not populated.
    rest: Vec<Buffer>,
    common: Arc<Common>,
    gauges: Arc<BufferGauges>,
    need: Need,
    spare: Spare,
}

/// Memory of the machine that stays free unless a lane needs it: several captures that start together each plan with
/// the memory that all of them see.
struct Spare {
    free_bytes: fn() -> u64,
    least_bytes: u64,
    granted_bytes: usize,
}

/// The priority and the cores at which buffers are populated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Nothing is to be done: normal priority, on the quiet cores, so that the next look is not late.
    Rest,
    /// The lowest priority, on the quiet cores.
    Idle,
    /// A lane has few ready buffers: normal priority on the quiet cores; without such cores the lowest.
    Brisk,
    /// A lane has none, and may be waiting for one: normal priority on all cores.
    Urgent,
}

/// The current manner, and the cores that a thread may use.
#[derive(Clone)]
pub(super) struct Place {
    all: CpuSet,
    /// The cores without a lane; may be empty.
    quiet: CpuSet,
    manner: Manner,
}

/// One of the two threads.
struct Turn {
    /// It has the lowest priority.
    is_idle: bool,
    /// Receives the work from the other thread.
    takes: Receiver<(Filler, Place)>,
    passes: Sender<(Filler, Place)>,
}

/// The reason why a thread populates no more buffers.
enum Pause {
    /// The other thread has the right priority.
    Pass,
    /// All is populated, or the run ends; with a warning.
    Over(Option<String>),
}

impl Filler {
    pub(super) fn new(
        lanes: Vec<Fresh>,
        rest: Vec<Buffer>,
        common: Arc<Common>,
        gauges: Arc<BufferGauges>,
        need: Need,
    ) -> Self {
        Self { lanes, rest, common, gauges, need, spare: Spare::new(memory::free_bytes) }
    }

    /// Populates the first buffers: of the lanes' shares in turns, then common ones.
    pub(super) fn fill_first(&mut self, plan: &PoolPlan, started: Instant, stop: &Stop) -> Result<()> {
        let (lanes, mut pages) = (self.lanes.len(), Pages::new(plan.buffer_bytes));
        for number in 0..plan.buffers {
            let round = number / lanes;
            // At least one buffer is needed for a lane to end its work.
            let is_needed = round == 0 || round < plan.ready_buffers && !stop.raised();
            let is_wanted = plan.is_populated || number * plan.buffer_bytes < PREFAULT_BYTES_MAX;
            let has_time = is_wanted && !stop.raised() && started.elapsed() < plan.start_limit;
            let is_granted = is_needed || has_time && self.spare.grants(plan.buffer_bytes);
            if !is_granted {
                break;
            }
            self.add(number % lanes, |buffer| pages.populate(buffer))?;
        }
        pages.advise(self.lanes.iter().flat_map(|lane| &lane.mapped).chain(&self.rest));
        let wanted_bytes = if plan.is_populated { self.gauges.bytes } else { self.gauges.resident.get() };
        self.gauges.wanted.set(wanted_bytes);
        Ok(())
    }

    /// Starts the threads that populate the other buffers, for the lane with the fewest ready ones first. They return
    /// a warning.
    pub(super) fn start_rest(self, place: Place, wakeup: &Wakeup, stop: &Stop) -> Result<Vec<FillerThread>> {
        let (to_brisk, brisk) = channel();
        let (to_idle, idle) = channel();
        // Sending cannot fail here: the receiver exists.
        let _ = to_brisk.send((self, place));
        let turns = [
            ("quaff-pool", Turn { is_idle: false, takes: brisk, passes: to_idle }),
            ("quaff-pool-idle", Turn { is_idle: true, takes: idle, passes: to_brisk }),
        ];
        let start = |(name, turn): (&str, Turn)| {
            let (wakeup, stop) = (wakeup.clone(), stop.clone());
            Ok(quaff_os::spawn(name, move || turn.run(&wakeup, &stop))?)
        };
        turns.into_iter().map(start).collect()
    }

    /// Populates buffers as long as a thread with or without the lowest priority should.
    fn fill(&mut self, place: &mut Place, is_idle: bool, wakeup: &Wakeup, stop: &Stop) -> Pause {
        loop {
            let Some((at, ready)) = self.neediest().filter(|_| !stop.raised()) else {
                return Pause::Over(None);
            };
            let is_enough = self.is_enough(ready, place);
            if place.adapt(ready, self.need.few(), is_enough) != is_idle {
                return Pause::Pass;
            }
            if is_enough {
                // A lane that takes a fresh buffer ends the wait.
                if wakeup.wait(LOOK_WAIT).is_err() {
                    return Pause::Over(None);
                }
                continue;
            }
            let next = self.lanes[at].mapped.last().or(self.rest.last());
            if ready > 0 && !self.spare.grants(next.map_or(0, |buffer| buffer.len())) {
                if wakeup.wait(SCARCE_WAIT).is_err() {
                    return Pause::Over(None);
                }
            } else {
                // The call holds the lock of all memory: only where no thread takes the core away for long.
                let populate = match place.manner {
                    Manner::Brisk if !is_idle => |buffer: &mut Buffer| buffer.fault_in(),
                    _ => Buffer::touch,
                };
                if let Err(error) = self.add(at, populate) {
                    return Pause::Over(Some(smaller(&error)));
                }
            }
        }
    }

    /// Returns whether `ready` buffers of the lane that has the fewest are enough for now. Common ones that were repaid
    /// are among them, but are not beyond those that were in use.
    fn is_enough(&mut self, ready: usize, place: &Place) -> bool {
        let gauges = &self.gauges;
        let beyond_bytes = gauges.resident.get().saturating_sub(gauges.high_bytes());
        let ready = ready.min((beyond_bytes / self.need.buffer_bytes as u64) as usize);
        let lacking = self.need.lacks(ready, gauges, place.has_quiet(), Instant::now());
        let lacking_bytes = (lacking as u64).saturating_mul(self.need.buffer_bytes as u64);
        gauges.wanted.set(gauges.resident.get().saturating_add(lacking_bytes).min(gauges.bytes));
        lacking == 0
    }

    /// The running lane with the fewest ready buffers for which there are more, and their number.
    pub(super) fn neediest(&self) -> Option<(usize, usize)> {
        let common = self.common.ready();
        let has_more = |lane: &Fresh| !(lane.mapped.is_empty() && self.rest.is_empty());
        let lanes = self.lanes.iter().enumerate();
        let lanes = lanes.filter(|(_, lane)| has_more(lane) && !lane.to_lane.is_abandoned());
        lanes.map(|(at, lane)| (at, lane.ready() + common)).min_by_key(|(_, ready)| *ready)
    }

    /// Populates a buffer for lane `at`: of its share or, when that is populated, a common one.
    pub(super) fn add(
        &mut self,
        at: usize,
        populate: impl FnOnce(&mut Buffer) -> quaff_os::Result<()>,
    ) -> quaff_os::Result<()> {
        let own = self.lanes[at].mapped.pop();
        let is_own = own.is_some();
        let Some(mut buffer) = own.or_else(|| self.rest.pop()) else { return Ok(()) };
        let begun = Instant::now();
        populate(&mut buffer)?;
        self.need.populated(begun.elapsed());
        self.gauges.resident.set(self.gauges.resident.get() + buffer.len() as u64);
        if is_own {
            let pushed = self.lanes[at].to_lane.push(buffer);
            assert!(pushed.is_ok(), "there is a place for every buffer");
        } else {
            self.common.put(buffer);
            self.common.set_unready(self.rest.len());
        }
        Ok(())
    }
}

impl Turn {
    /// Populates buffers whenever it is this thread's turn. Returns a warning.
    fn run(self, wakeup: &Wakeup, stop: &Stop) -> Option<String> {
        if self.is_idle {
            cpu::idle_priority();
        }
        // Fails when the other thread has ended.
        while let Ok((mut filler, mut place)) = self.takes.recv() {
            place.take_cores();
            match filler.fill(&mut place, self.is_idle, wakeup, stop) {
                Pause::Over(warning) => {
                    filler.gauges.wanted.set(filler.gauges.resident.get());
                    // A lane that waits for a buffer must know that no more will be populated.
                    filler.common.set_unready(0);
                    return warning;
                }
                Pause::Pass => self.passes.send((filler, place)).ok()?,
            }
        }
        None
    }
}

impl Fresh {
    /// Populated buffers that the lane has not taken.
    fn ready(&self) -> usize {
        self.to_lane.buffer().capacity() - self.to_lane.slots()
    }
}

impl Spare {
    fn new(free_bytes: fn() -> u64) -> Self {
        Self { free_bytes, least_bytes: (free_bytes() / 4).min(SPARE_BYTES_MAX), granted_bytes: 0 }
    }

    /// Returns whether `bytes` may be populated ahead of need.
    fn grants(&mut self, bytes: usize) -> bool {
        if self.granted_bytes < bytes {
            if (self.free_bytes)() < self.least_bytes + (GRANT_BYTES + bytes) as u64 {
                return false;
            }
            self.granted_bytes += GRANT_BYTES + bytes;
        }
        self.granted_bytes -= bytes;
        true
    }
}

impl Manner {
    /// Returns the next manner, for lanes with `ready` populated buffers, of which fewer than `few` are few: it returns
    /// to the lowest priority with twice as many.
    fn next(self, ready: usize, few: usize, is_enough: bool) -> Self {
        match ready {
            _ if is_enough => Self::Rest,
            0 => Self::Urgent,
            _ if ready < few => Self::Brisk,
            _ if ready < 2 * few && matches!(self, Self::Urgent | Self::Brisk) => Self::Brisk,
            _ => Self::Idle,
        }
    }
}

impl Place {
    /// The cores of the calling thread; the quiet ones are those without `busy`.
    pub(super) fn without(busy: &[usize]) -> Self {
        let all = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let mut quiet = all;
        for core in busy {
            let _ = quiet.unset(*core);
        }
        Self { all, quiet, manner: Manner::Urgent }
    }

    /// Chooses the manner by the number of buffers that are ready; returns whether that is the lowest priority.
    fn adapt(&mut self, ready: usize, few: usize, is_enough: bool) -> bool {
        let manner = self.manner.next(ready, few, is_enough);
        if manner != self.manner {
            self.manner = manner;
            self.take_cores();
        }
        manner == Manner::Idle || manner == Manner::Brisk && !self.has_quiet()
    }

    /// Moves the calling thread to the cores of the manner.
    fn take_cores(&self) {
        let is_quiet = self.has_quiet() && self.manner != Manner::Urgent;
        // A refusal leaves the thread where it is.
        let _ = sched_setaffinity(Pid::from_raw(0), if is_quiet { &self.quiet } else { &self.all });
    }

    fn has_quiet(&self) -> bool {
        self.quiet != CpuSet::new()
    }
}

/// The note about buffers that could not be populated.
pub(super) fn smaller(error: &quaff_os::Error) -> String {
    format!("the buffer stays smaller than requested: {error}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{BYTES, plan};
    use super::super::{LanePool, divide, map};
    use super::*;
    use quaff_os::Reason;

    /// A filler and its lanes, on a machine with so much free memory.
    fn filler(plan: &PoolPlan, free_bytes: fn() -> u64) -> (Filler, Vec<LanePool>) {
        let (filler, lanes, _) = divide(plan, map(plan).unwrap(), &Wakeup::new().unwrap());
        (Filler { spare: Spare::new(free_bytes), ..filler }, lanes)
    }

    #[test]
    fn the_start_populates_what_its_time_permits() {
        let within = |start_limit, stop: &Stop| {
            let plan = PoolPlan { start_limit, ..plan(2, 32) };
            let (mut filler, _lanes) = filler(&plan, || u64::MAX);
            filler.fill_first(&plan, Instant::now(), stop).unwrap();
            filler.gauges.resident.get() as usize / BYTES
        };
        let (stop, hour) = (Stop::default(), Duration::from_secs(3600));
        assert_eq!(within(Duration::ZERO, &stop), 2, "one for each lane");
        assert_eq!(within(hour, &stop), 32, "all");
        stop.raise(Reason::Signal);
        assert_eq!(within(hour, &stop), 2, "the end comes first");
    }

    #[test]
    fn a_lane_without_ready_buffers_is_served_first() {
        let plan = PoolPlan { ready_buffers: 2, shares_percent: 50, ..plan(2, 16) };
        let (mut filler, lanes) = filler(&plan, || 0);
        filler.fill_first(&plan, Instant::now(), &Stop::default()).unwrap();
        let [mut busy, mut calm] = <[LanePool; 2]>::try_from(lanes).ok().unwrap();
        let mut taken: Vec<_> = std::iter::from_fn(|| busy.supply.take()).collect();
        assert_eq!(taken.len(), 2);
        let (stop, wakeup) = (Stop::default(), Wakeup::new().unwrap());
        stop.wake(wakeup.clone());
        let ending = stop.clone();
        let threads = filler.start_rest(Place::without(&[]), &wakeup, &stop).unwrap();
        // No memory is free, so only a lane that needs a buffer gets one: of its share, and then common ones.
        while taken.len() < 4 + 8 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!busy.supply.is_exhausted(), "after {} buffers", taken.len());
            taken.extend(busy.supply.take());
        }
        assert!(busy.supply.is_exhausted() && busy.supply.take().is_none());
        ending.raise(Reason::Signal);
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), None));
        assert_eq!(std::iter::from_fn(|| calm.supply.take()).count(), 2, "it had enough");
        assert!(calm.supply.is_exhausted(), "the thread has ended, so no more is to come");
    }

    #[test]
    fn memory_that_others_need_is_left_to_them() {
        let mut spare = Spare::new(|| 400 << 20);
        assert_eq!(spare.least_bytes, 100 << 20);
        assert!(spare.grants(BYTES));
        spare.free_bytes = || 120 << 20;
        let granted = (0..).take_while(|_| spare.grants(BYTES)).count();
        assert_eq!(granted, GRANT_BYTES / BYTES, "what was granted at the reading before");
        spare.free_bytes = || 400 << 20;
        assert!(spare.grants(BYTES), "there is memory again");
    }

    #[test]
    fn the_fewer_buffers_are_ready_the_more_urgent_is_the_next() {
        let manners = |start: Manner| [0, 1, 99, 100, 199, 200].map(|ready| start.next(ready, 100, false));
        use Manner::{Brisk, Idle, Rest, Urgent};
        assert_eq!(manners(Urgent), [Urgent, Brisk, Brisk, Brisk, Brisk, Idle]);
        assert_eq!(manners(Brisk), [Urgent, Brisk, Brisk, Brisk, Brisk, Idle]);
        assert_eq!(manners(Idle), [Urgent, Brisk, Brisk, Idle, Idle, Idle], "no change back and forth");
        assert_eq!(manners(Rest), [Urgent, Brisk, Brisk, Idle, Idle, Idle]);
        assert_eq!(Idle.next(0, 100, true), Rest);
    }
}
