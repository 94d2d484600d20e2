//! The pool of buffers, which are populated and locked before they are needed.
//!
//! The start populates as many as its time permits. Then a thread on other cores than the lanes' where possible
//! populates the rest, whether packets arrive or not, at the lowest priority while the lanes have enough: populating
//! memory takes seconds per GiB on a virtual machine, and a flood does not wait for it.

use crate::{Result, memory};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use quaff_os::{Buffer, Gauge, Stop, Wakeup, cpu};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the thread checks the free memory while that is scarce.
const SCARCE_WAIT: Duration = Duration::from_millis(100);
/// Free memory of the machine that is not populated ahead of need, at most.
const SPARE_BYTES_MAX: u64 = 512 << 20;
/// With fewer ready buffers of a lane the thread leaves its low priority; with twice as many it returns to it.
const FEW_BUFFERS: usize = 64;
/// Bytes populated between two readings of the free memory.
const GRANT_BYTES: usize = 64 << 20;

/// The size of the pool.
pub(crate) struct PoolPlan {
    pub(crate) buffers_per_lane: usize,
    pub(crate) buffer_bytes: usize,
    /// Buffers of each lane that the start populates, however long that takes; one at least.
    pub(crate) ready_buffers: usize,
    /// Time within which the start populates more of them.
    pub(crate) start_limit: Duration,
    /// Cores that the thread avoids if there are others.
    pub(crate) busy_cores: Vec<usize>,
}

/// One lane's share.
pub(crate) struct LanePool {
    /// For the lane.
    pub(crate) supply: Supply,
    /// For the writer.
    pub(crate) free_buffers: Producer<Buffer>,
}

/// The thread that populates buffers.
pub(crate) struct Pool {
    thread: JoinHandle<Option<String>>,
    /// Bytes populated so far.
    pub(crate) resident: Arc<Gauge>,
    /// Warnings for the user, such as memory that could not be locked.
    pub(crate) notes: Vec<String>,
}

/// One lane's fresh buffers.
struct Fresh {
    /// Mapped, but not populated.
    mapped: Vec<Buffer>,
    to_lane: Producer<Buffer>,
}

/// Populates the buffers of all lanes.
struct Filler {
    lanes: Vec<Fresh>,
    resident: Arc<Gauge>,
    spare: Spare,
}

/// Memory of the machine that stays free unless a lane needs it: several captures that start together each plan with
/// the memory that all of them see.
struct Spare {
    free_bytes: fn() -> u64,
    least_bytes: u64,
    granted_bytes: usize,
}

/// The priority and the cores of the pool's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The lowest priority, on the quiet cores.
    Idle,
    /// A lane has few ready buffers: normal priority on the quiet cores; without such cores the lowest.
    Brisk,
    /// A lane has none, and may be waiting for one: normal priority on all cores.
    Urgent,
}

/// The state of the thread, and the cores that it may use.
struct Place {
    all: CpuSet,
    /// Those without a lane; may be none.
    quiet: CpuSet,
    manner: Manner,
}

impl Pool {
    /// Populates buffers for `lanes` lanes until the start's time is over, then returns and continues in the background.
    pub(crate) fn start(plan: &PoolPlan, lanes: usize, stop: &Stop) -> Result<(Self, Vec<LanePool>)> {
        let started = Instant::now();
        let (mapped, notes) = map(plan, lanes)?;
        let (shares, lanes) = mapped.into_iter().map(|mapped| share(mapped, plan.buffers_per_lane)).unzip();
        let resident = Arc::new(Gauge::default());
        let mut filler = Filler { lanes, resident: resident.clone(), spare: Spare::new(memory::free_bytes) };
        filler.fill_first(plan, started, stop)?;
        let wakeup = Wakeup::new()?;
        stop.wake(wakeup.clone());
        let (busy, stop) = (plan.busy_cores.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("quaff-pool".into())
            .spawn(move || filler.fill_rest(Place::without(&busy), &wakeup, &stop))
            .map_err(|errno| quaff_os::Error::new("start a thread", errno))?;
        Ok((Self { thread, resident, notes }, shares))
    }

    /// The warning of the thread. One that has not ended yet is not waited for: at its priority that could take long.
    pub(crate) fn finish(self) -> Option<String> {
        if self.thread.is_finished() { self.thread.join().ok().flatten() } else { None }
    }
}

/// Maps the buffers of all lanes, locked within the limit, but not populated: mapping takes a lock for which a lane
/// might wait, so no thread of low priority does it. Returns warnings for the user as well.
fn map(plan: &PoolPlan, lanes: usize) -> Result<(Vec<Vec<Buffer>>, Vec<String>)> {
    let mut mapped: Vec<Vec<Buffer>> = (0..lanes).map(|_| Vec::new()).collect();
    let (mut unlocked, mut short) = (None, None);
    'all: for round in 0..plan.buffers_per_lane {
        for lane in &mut mapped {
            let buffer = match Buffer::with_huge_pages(plan.buffer_bytes) {
                Ok(buffer) => buffer,
                Err(error) if round == 0 => return Err(error.into()),
                Err(error) => {
                    short = Some(smaller(&error));
                    break 'all;
                }
            };
            if unlocked.is_none() {
                let refused = |error| format!("the buffer is not locked and could be swapped out: {error}");
                unlocked = buffer.lock().err().map(refused);
            }
            lane.push(buffer);
        }
    }
    Ok((mapped, unlocked.into_iter().chain(short).collect()))
}

fn smaller(error: &quaff_os::Error) -> String {
    format!("the buffer stays smaller than requested: {error}")
}

/// The ends of one lane's rings: for the lane and its writer, and for the filler.
fn share(mapped: Vec<Buffer>, count: usize) -> (LanePool, Fresh) {
    let (free_buffers, returned) = RingBuffer::new(count);
    let (to_lane, fresh) = RingBuffer::new(count);
    (LanePool { supply: Supply::new(returned, fresh, count), free_buffers }, Fresh { mapped, to_lane })
}

impl Filler {
    /// Populates the first buffers of all lanes, in turns.
    fn fill_first(&mut self, plan: &PoolPlan, started: Instant, stop: &Stop) -> Result<()> {
        for round in 0..plan.buffers_per_lane {
            for lane in &mut self.lanes {
                // At least one buffer circulates, with which a lane can end its work.
                let is_needed = round == 0 || round < plan.ready_buffers && !stop.raised();
                let has_time = !stop.raised() && started.elapsed() < plan.start_limit;
                let is_granted = is_needed || has_time && self.spare.grants(plan.buffer_bytes);
                if !is_granted {
                    return Ok(());
                }
                lane.add(&self.resident, |buffer| buffer.populate())?;
            }
        }
        Ok(())
    }

    /// Populates the other buffers, for the lane with the fewest ready ones first. Returns a warning.
    fn fill_rest(mut self, mut place: Place, wakeup: &Wakeup, stop: &Stop) -> Option<String> {
        loop {
            self.lanes.retain(|lane| !lane.mapped.is_empty() && !lane.to_lane.is_abandoned());
            let next = self.lanes.iter_mut().min_by_key(|lane| lane.ready());
            let lane = next.filter(|_| !stop.raised())?;
            let ready = lane.ready();
            place.adapt(ready);
            if ready > 0 && !self.spare.grants(lane.mapped.last().map_or(0, |buffer| buffer.len())) {
                wakeup.wait(SCARCE_WAIT).ok()?;
            } else if let Err(error) = lane.add(&self.resident, Buffer::touch) {
                return Some(smaller(&error));
            }
        }
    }
}

impl Fresh {
    /// Populated buffers that the lane has not taken.
    fn ready(&self) -> usize {
        self.to_lane.buffer().capacity() - self.to_lane.slots()
    }

    /// Populates a buffer and passes it to the lane.
    fn add(
        &mut self,
        resident: &Gauge,
        populate: impl FnOnce(&mut Buffer) -> quaff_os::Result<()>,
    ) -> quaff_os::Result<()> {
        let Some(mut buffer) = self.mapped.pop() else { return Ok(()) };
        populate(&mut buffer)?;
        let bytes = buffer.len() as u64;
        let pushed = self.to_lane.push(buffer);
        assert!(pushed.is_ok(), "there is a place for every buffer");
        resident.set(resident.get() + bytes);
        Ok(())
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
    /// For lanes with `ready` populated buffers, after this manner.
    fn next(self, ready: usize) -> Self {
        match ready {
            0 => Self::Urgent,
            1..FEW_BUFFERS => Self::Brisk,
            _ if ready < 2 * FEW_BUFFERS && self != Self::Idle => Self::Brisk,
            _ => Self::Idle,
        }
    }
}

impl Place {
    /// The cores of the calling thread, `busy` ones set apart.
    fn without(busy: &[usize]) -> Self {
        let all = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
        let mut quiet = all;
        for core in busy {
            let _ = quiet.unset(*core);
        }
        Self { all, quiet, manner: Manner::Urgent }
    }

    /// Chooses the manner by the number of buffers that are ready.
    fn adapt(&mut self, ready: usize) {
        let manner = self.manner.next(ready);
        if manner == self.manner {
            return;
        }
        self.manner = manner;
        let has_quiet = self.quiet != CpuSet::new();
        let cores = if has_quiet && manner != Manner::Urgent { &self.quiet } else { &self.all };
        // A refusal leaves the thread where it is.
        let _ = sched_setaffinity(Pid::from_raw(0), cores);
        cpu::idle_priority(manner == Manner::Idle || manner == Manner::Brisk && !has_quiet);
    }
}

/// The empty buffers of a lane: first the one that the writer returned last, which is in the cache, then fresh ones,
/// which the pool's thread populates ahead. So while the output keeps up, a lane uses the same one or two again.
#[derive(Debug)]
pub(crate) struct Supply {
    returned: Consumer<Buffer>,
    /// Returned buffers, the last one on top; has a place for all.
    warm: Vec<Buffer>,
    fresh: Consumer<Buffer>,
    pub(crate) count: usize,
    /// Fresh ones that this lane has taken.
    taken: usize,
}

impl Supply {
    /// A supply of `count` buffers in all.
    pub(crate) fn new(returned: Consumer<Buffer>, fresh: Consumer<Buffer>, count: usize) -> Self {
        Self { returned, warm: Vec::with_capacity(count), fresh, count, taken: 0 }
    }

    /// An empty buffer, if there is one.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        while let Ok(buffer) = self.returned.pop() {
            self.warm.push(buffer);
        }
        if let Some(buffer) = self.warm.pop() {
            return Some(buffer);
        }
        let buffer = self.fresh.pop().ok()?;
        self.taken += 1;
        Some(buffer)
    }

    /// Buffers in use: being filled, waiting, or being written.
    pub(crate) fn out(&self) -> usize {
        self.taken - self.warm.len() - self.returned.slots()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaff_os::Reason;

    const BYTES: usize = 64 << 10;

    fn plan(buffers_per_lane: usize) -> PoolPlan {
        PoolPlan {
            buffers_per_lane,
            buffer_bytes: BYTES,
            ready_buffers: 1,
            start_limit: Duration::ZERO,
            busy_cores: Vec::new(),
        }
    }

    /// The ends of all rings of `lanes` lanes.
    fn ends(lanes: usize, count: usize) -> (Vec<LanePool>, Vec<Fresh>) {
        map(&plan(count), lanes).unwrap().0.into_iter().map(|mapped| share(mapped, count)).unzip()
    }

    fn address(buffer: &Buffer) -> usize {
        buffer.as_ptr() as usize
    }

    #[test]
    fn all_of_it_becomes_resident_although_nothing_arrives() {
        let (pool, mut lanes) = Pool::start(&plan(8), 4, &Stop::default()).unwrap();
        assert!(pool.resident.get() >= 4 * BYTES as u64, "one buffer of each lane before the start");
        let started = Instant::now();
        while pool.resident.get() < 4 * 8 * BYTES as u64 {
            assert!(started.elapsed() < Duration::from_secs(60), "{} B", pool.resident.get());
            std::thread::sleep(Duration::from_millis(1));
        }
        for lane in &mut lanes {
            let mut taken: Vec<_> = std::iter::from_fn(|| lane.supply.take()).collect();
            assert_eq!((taken.len(), lane.supply.out()), (8, 8));
            taken.sort_by_key(address);
            taken.dedup_by_key(|buffer| address(buffer));
            assert_eq!(taken.len(), 8, "each is another one");
        }
    }

    #[test]
    fn the_start_populates_what_its_time_permits() {
        let within = |start_limit, stop: &Stop| {
            let (_shares, lanes) = ends(2, 16);
            let mut filler = Filler { lanes, resident: Arc::default(), spare: Spare::new(|| u64::MAX) };
            filler.fill_first(&PoolPlan { start_limit, ..plan(16) }, Instant::now(), stop).unwrap();
            filler.resident.get() as usize / BYTES
        };
        let (stop, hour) = (Stop::default(), Duration::from_secs(3600));
        assert_eq!(within(Duration::ZERO, &stop), 2, "one for each lane");
        assert_eq!(within(hour, &stop), 32, "all");
        stop.raise(Reason::Signal);
        assert_eq!(within(hour, &stop), 2, "the end comes first");
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
        let manners = |start: Manner| {
            [0, 1, FEW_BUFFERS - 1, FEW_BUFFERS, 2 * FEW_BUFFERS - 1, 2 * FEW_BUFFERS]
                .map(|ready| start.next(ready))
        };
        use Manner::{Brisk, Idle, Urgent};
        assert_eq!(manners(Urgent), [Urgent, Brisk, Brisk, Brisk, Brisk, Idle]);
        assert_eq!(manners(Brisk), [Urgent, Brisk, Brisk, Brisk, Brisk, Idle]);
        assert_eq!(manners(Idle), [Urgent, Brisk, Brisk, Idle, Idle, Idle], "no change back and forth");
    }

    /// A step of a lane or of its writer.
    #[derive(Debug, Clone)]
    enum Step {
        Take,
        /// The writer returns one of those that are out.
        Return(prop::sample::Index),
    }

    proptest! {
        /// The free buffers are a stack, and fresh ones are used only when it is empty.
        #[test]
        fn the_buffer_returned_last_is_used_first(
            steps in prop::collection::vec(
                prop_oneof![Just(Step::Take), any::<prop::sample::Index>().prop_map(Step::Return)], 0..200),
        ) {
            let count = 6;
            let mapped = (0..count).map(|_| Buffer::new(1).unwrap()).collect();
            let (LanePool { mut supply, mut free_buffers }, mut fresh) = share(mapped, count);
            while !fresh.mapped.is_empty() {
                fresh.add(&Gauge::default(), Buffer::touch).unwrap();
            }
            let (mut out, mut stack, mut used) = (Vec::new(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Take => match supply.take() {
                        Some(buffer) => {
                            match stack.pop() {
                                Some(last) => prop_assert_eq!(address(&buffer), last),
                                None => {
                                    prop_assert!(!used.contains(&address(&buffer)), "a fresh one");
                                    used.push(address(&buffer));
                                }
                            }
                            out.push(buffer);
                        }
                        None => prop_assert!(stack.is_empty() && out.len() == count),
                    },
                    Step::Return(at) if !out.is_empty() => {
                        let buffer: Buffer = out.swap_remove(at.index(out.len()));
                        stack.push(address(&buffer));
                        free_buffers.push(buffer).unwrap();
                    }
                    Step::Return(_) => {}
                }
                prop_assert_eq!(supply.out(), out.len());
            }
        }
    }

    #[test]
    fn a_lane_without_ready_buffers_is_served_first() {
        let (shares, lanes) = ends(2, 4);
        let mut filler = Filler { lanes, resident: Arc::default(), spare: Spare::new(|| 0) };
        filler
            .fill_first(&PoolPlan { ready_buffers: 2, ..plan(4) }, Instant::now(), &Stop::default())
            .unwrap();
        let [mut busy, calm] = <[LanePool; 2]>::try_from(shares).ok().unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| busy.supply.take()).collect();
        assert_eq!(taken.len(), 2);
        let (stop, wakeup) = (Stop::default(), Wakeup::new().unwrap());
        stop.wake(wakeup.clone());
        let ending = stop.clone();
        let thread = std::thread::spawn(move || filler.fill_rest(Place::without(&[]), &wakeup, &stop));
        // No memory is free, so only a lane that needs a buffer gets one.
        let mut next = None;
        while next.is_none() {
            std::thread::sleep(Duration::from_millis(1));
            next = busy.supply.take();
        }
        ending.raise(Reason::Signal);
        assert_eq!(thread.join().unwrap(), None);
        let mut calm = calm.supply;
        assert_eq!(std::iter::from_fn(|| calm.take()).count(), 2, "it had enough");
    }
}
