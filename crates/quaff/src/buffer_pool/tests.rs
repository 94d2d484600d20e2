//! The pool as its lanes and writers use it.

use super::need::FEW_BUFFERS;
use super::*;
use proptest::prelude::*;
use quaff_os::Reason;
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;

pub(super) const BYTES: usize = 64 << 10;

/// A pool of `buffers` for `lanes` lanes, a quarter of which is divided into shares.
pub(super) fn plan(lanes: usize, buffers: usize) -> PoolPlan {
    PoolPlan {
        buffers,
        buffer_bytes: BYTES,
        is_populated: true,
        shares_percent: 25,
        nodes: vec![None; lanes],
        ready_buffers: 1,
        start_limit: Duration::ZERO,
        busy_cores: Vec::new(),
    }
}

fn address(buffer: &Buffer) -> usize {
    buffer.as_ptr() as usize
}

/// All buffers that a lane can have now.
fn take_all(lane: &mut LanePool) -> Vec<Buffer> {
    std::iter::from_fn(|| lane.supply.take()).collect()
}

fn wait_until_resident(gauges: &BufferGauges) {
    let started = Instant::now();
    while gauges.resident.get() < gauges.bytes {
        assert!(started.elapsed() < Duration::from_secs(60), "{gauges:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn one_lane_of_four_can_have_three_quarters_and_each_other_one_its_share() {
    for (lanes, buffers, share, most) in [
        (1, 100, 100, 100),
        (2, 16, 2, 14),
        (4, 16, 1, 13),
        (4, 32, 2, 26),
        (4, 1450, 90, 1180),
        // At least one each; and no more than 16 equal parts.
        (8, 16, 1, 9),
        (64, 1024, 4, 256),
    ] {
        let plan = plan(lanes, buffers);
        assert_eq!((plan.share(), plan.most()), (share, most), "{buffers} buffers of {lanes} lanes");
        assert!(lanes > 4 || 4 * plan.most() >= 3 * buffers);
    }
}

#[test]
fn all_of_it_becomes_resident_although_nothing_arrives() {
    let (pool, mut lanes) = Pool::start(&plan(4, 32), &Stop::default()).unwrap();
    let gauges = &pool.gauges;
    assert!(gauges.resident.get() >= 4 * BYTES as u64, "one buffer of each lane before the start");
    wait_until_resident(gauges);
    assert_eq!(gauges.bytes, 32 * BYTES as u64);
    // The first one has what is common, the others have their shares.
    let taken: Vec<_> = lanes.iter_mut().map(take_all).collect();
    assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [26, 2, 2, 2]);
    assert_eq!(gauges.used_bytes(), gauges.bytes);
    let addresses: BTreeSet<_> = taken.iter().flatten().map(address).collect();
    assert_eq!(addresses.len(), 32, "each is another one");
}

#[test]
fn buffers_that_lanes_may_need_soon_become_resident_and_more_when_they_are_taken() {
    let buffers = 8 * FEW_BUFFERS;
    let stop = Stop::default();
    let (pool, mut lanes) =
        Pool::start(&PoolPlan { is_populated: false, ..plan(1, buffers) }, &stop).unwrap();
    let resident_after = |least: usize| {
        let started = Instant::now();
        while pool.gauges.resident.get() < (least * BYTES) as u64 {
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", pool.gauges);
            std::thread::sleep(Duration::from_millis(1));
        }
        // Time for more, which should not come.
        std::thread::sleep(Duration::from_millis(50));
        pool.gauges.resident.get() as usize / BYTES
    };
    let at_rest = resident_after(FEW_BUFFERS);
    assert!(at_rest <= 2 * FEW_BUFFERS, "{at_rest}");
    let supply = &mut lanes[0].supply;
    let taken: Vec<_> = std::iter::repeat_with(|| supply.take()).take(FEW_BUFFERS).flatten().collect();
    assert_eq!(taken.len(), FEW_BUFFERS);
    resident_after(2 * FEW_BUFFERS);
    // A lane that takes more gets all of them.
    let started = Instant::now();
    let mut count = taken.len();
    while count < buffers {
        assert!(started.elapsed() < Duration::from_secs(60), "{count} of {buffers}: {:?}", pool.gauges);
        match supply.take() {
            Some(_in_use) => count += 1,
            None => std::thread::yield_now(),
        }
    }
    assert!(supply.take().is_none());
    stop.raise(Reason::Signal);
}

#[test]
fn common_buffers_return_to_all_and_own_ones_to_their_lane() {
    let plan = PoolPlan { ready_buffers: 32, ..plan(4, 32) };
    let (mut filler, mut lanes, gauges) = divide(&plan, map(&plan).unwrap(), &Wakeup::new().unwrap());
    filler.fill_first(&plan, Instant::now(), &Stop::default()).unwrap();
    for round in 0..3 {
        for (at, lane) in lanes.iter_mut().enumerate() {
            let taken = take_all(lane);
            assert_eq!((taken.len(), lane.supply.out()), (26, 26), "lane {at}, round {round}");
            assert!(lane.supply.is_exhausted());
            taken.into_iter().for_each(|buffer| lane.free_buffers.push(buffer));
            assert_eq!(lane.supply.out(), 0);
        }
    }
    assert_eq!((gauges.used_bytes(), gauges.high_bytes()), (0, 26 * BYTES as u64));
}

/// A step of a lane, of its writer, or of the pool's thread.
#[derive(Debug, Clone)]
enum Step {
    Take(usize),
    /// The writer of a lane returns one of those that are out.
    Return(usize, prop::sample::Index),
    Populate,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4usize).prop_map(Step::Take),
        // A burst of the first lane.
        2 => Just(Step::Take(0)),
        4 => (0..4usize, any::<prop::sample::Index>()).prop_map(|(lane, at)| Step::Return(lane, at)),
        1 => Just(Step::Populate),
    ];
    prop::collection::vec(step, 0..400)
}

proptest! {
    /// Whatever lanes and writers do, each buffer is in one place, and no lane is refused its share.
    #[test]
    fn each_buffer_is_in_one_place_and_shares_are_kept(steps in steps(), ready_buffers in 1..9usize) {
        const BUFFERS: usize = 32;
        let plan = PoolPlan { ready_buffers, ..plan(4, BUFFERS) };
        let (mut filler, mut lanes, gauges) = divide(&plan, map(&plan).unwrap(), &Wakeup::new().unwrap());
        filler.fill_first(&plan, Instant::now(), &Stop::default()).unwrap();
        let mut out: [Vec<Buffer>; 4] = Default::default();
        let mut high = 0;
        for step in steps {
            match step {
                Step::Take(lane) => {
                    let is_exhausted = lanes[lane].supply.is_exhausted();
                    match lanes[lane].supply.take() {
                        Some(buffer) => {
                            prop_assert!(!is_exhausted);
                            let mut others = out.iter().flatten().map(address);
                            prop_assert!(others.all(|other| other != address(&buffer)));
                            out[lane].push(buffer);
                        }
                        None if out[lane].len() < plan.share() => {
                            prop_assert!(filler.neediest().is_some(), "its share is populated");
                        }
                        None => prop_assert!(is_exhausted || filler.neediest().is_some()),
                    }
                }
                Step::Return(lane, at) if !out[lane].is_empty() => {
                    let at = at.index(out[lane].len());
                    lanes[lane].free_buffers.push(out[lane].swap_remove(at));
                }
                Step::Return(..) => {}
                Step::Populate => {
                    if let Some((lane, _)) = filler.neediest() {
                        filler.add(lane, Buffer::touch).unwrap();
                    }
                }
            }
            let used: usize = out.iter().map(Vec::len).sum();
            high = high.max(used);
            prop_assert_eq!(gauges.used_bytes() as usize, used * BYTES);
            prop_assert!(lanes.iter().zip(&out).all(|(lane, out)| lane.supply.out() == out.len()));
        }
        prop_assert_eq!(gauges.high_bytes() as usize, high * BYTES);
        for (lane, out) in lanes.iter_mut().zip(out) {
            out.into_iter().for_each(|buffer| lane.free_buffers.push(buffer));
        }
        while let Some((lane, _)) = filler.neediest() {
            filler.add(lane, Buffer::touch).unwrap();
        }
        let taken: Vec<_> = lanes.iter_mut().map(take_all).collect();
        prop_assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [26, 2, 2, 2]);
        prop_assert_eq!(taken.iter().flatten().map(address).collect::<BTreeSet<_>>().len(), BUFFERS);
    }

    /// The free buffers of a share are a stack, and fresh ones are used only when it is empty.
    #[test]
    fn the_buffer_returned_last_is_used_first(
        steps in prop::collection::vec(
            prop_oneof![
                Just(Step::Take(0)),
                any::<prop::sample::Index>().prop_map(|at| Step::Return(0, at)),
            ], 0..200),
    ) {
        let count = 6;
        let mut lane = LanePool::of((0..count).map(|_| Buffer::new(1).unwrap()).collect());
        let (mut out, mut stack, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Take(_) => match lane.supply.take() {
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
                Step::Return(_, at) if !out.is_empty() => {
                    let buffer: Buffer = out.swap_remove(at.index(out.len()));
                    stack.push(address(&buffer));
                    lane.free_buffers.push(buffer);
                }
                Step::Return(..) | Step::Populate => {}
            }
            prop_assert_eq!(lane.supply.out(), out.len());
        }
    }
}

/// Each lane and each writer is a thread, as in a split.
#[test]
fn lanes_and_writers_at_once_lose_no_buffer() {
    let (pool, lanes) = Pool::start(&plan(4, 32), &Stop::default()).unwrap();
    let threads = lanes.into_iter().enumerate().map(|(number, lane)| {
        let LanePool { mut supply, mut free_buffers } = lane;
        let (chunks, written) = channel();
        let writer = std::thread::spawn(move || {
            for (turn, buffer) in written.iter().enumerate() {
                if (turn + number) % 64 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                free_buffers.push(buffer);
            }
            free_buffers
        });
        let lane = std::thread::spawn(move || {
            let mut left = 20_000;
            while left > 0 {
                match supply.take() {
                    Some(buffer) => {
                        chunks.send(buffer).unwrap();
                        left -= 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
            supply
        });
        (lane, writer)
    });
    let threads: Vec<_> = threads.collect();
    let mut lanes: Vec<_> = threads
        .into_iter()
        .map(|(lane, writer)| LanePool { supply: lane.join().unwrap(), free_buffers: writer.join().unwrap() })
        .collect();
    wait_until_resident(&pool.gauges);
    assert_eq!(pool.gauges.used_bytes(), 0, "{:?}", pool.gauges);
    let taken: usize = lanes.iter_mut().map(|lane| take_all(lane).len()).sum();
    assert_eq!(taken, 32);
}

#[test]
fn a_stop_ends_the_thread() {
    let stop = Stop::default();
    stop.raise(Reason::Signal);
    let (pool, _lanes) = Pool::start(&plan(2, 8), &stop).unwrap();
    pool.threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), None));
    assert_eq!(pool.gauges.resident.get() as usize, 2 * BYTES, "one buffer of each lane");
}
