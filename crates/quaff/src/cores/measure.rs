//! Measures communication between two cores: the latency of a cache line, and the throughput of the rings of lanes,
//! for messages and for buffers that are written on one core and read on the other.
//!
//! Both threads spin, so the scheduler has no influence. The best of many short measurements counts, because other
//! load can only make them worse.

use crate::{Error, Result};
use quaff_os::{Buffer, cpu, spawn_in};
use rtrb::{Consumer, Producer, RingBuffer};
use serde::Serialize;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Round trips in one measurement.
const ROUNDS: u64 = 100;
/// Capacity of the message ring.
const MESSAGES: usize = 1024;
/// Messages in one measurement: many more than the ring may hold at its start.
const BURST: u64 = 64 * MESSAGES as u64;
/// Bytes of a buffer: several fit a shared cache.
const BUFFER_BYTES: usize = 256 << 10;
/// Buffers in circulation.
const BUFFERS: usize = 8;
/// Buffers in one measurement: many more than may be full at its start.
const BUFFER_BURST: u64 = 16 * BUFFERS as u64;
/// The value of a line after the last round trip.
const END: u64 = u64::MAX;

/// The measurements of one pair of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// The core in the role of a lane.
    pub from: usize,
    /// The core in the role of the writer.
    pub to: usize,
    /// One-way latency of a cache line, ns: half a round trip.
    pub latency_ns: f64,
    /// Messages of 8 bytes through a ring, 1/s.
    pub messages_per_second: f64,
    /// Bytes in buffers, written by one core and read by the other, 1/s.
    pub bytes_per_second: f64,
}

/// Measures a pair for about `time`.
///
/// # Errors
/// Both are the same core, or this process may not use one of them.
pub fn measure(from: usize, to: usize, time: Duration) -> Result<Pair> {
    if from == to {
        return Err(Error::Plan(format!("core {from} cannot be paired with itself")));
    }
    let part = time / 3;
    Ok(Pair {
        from,
        to,
        latency_ns: latency_ns(from, to, part)?,
        messages_per_second: messages_per_second(from, to, part)?,
        bytes_per_second: bytes_per_second(from, to, part)?,
    })
}

/// Runs both closures on their cores; returns the result of the second. If one thread cannot be pinned, the other ends.
fn on_both<T: Send>(
    (from, to): (usize, usize),
    over: &AtomicBool,
    first: impl FnOnce() + Send,
    second: impl FnOnce() -> T + Send,
) -> Result<T> {
    // Set by a side that could not start, read by the other one in its loop. Relaxed: it publishes no other
    // data.
    let pinned = |core| cpu::pin(core).inspect_err(|_| over.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        // The scope waits for the first thread, which ends when the other one could not be started.
        let refused = |_: &quaff_os::Error| over.store(true, Ordering::Relaxed);
        let one = spawn_in(scope, "quaff-core", move || pinned(from).map(|()| first()))?;
        let other =
            spawn_in(scope, "quaff-core", move || pinned(to).map(|()| second())).inspect_err(refused)?;
        let panicked = |_| Error::Defect("a measuring thread panicked".into());
        one.join().map_err(panicked)??;
        Ok(other.join().map_err(panicked)??)
    })
}

/// A word alone in its cache line.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// One side writes an odd number, the other replies with the next even one.
fn latency_ns(from: usize, to: usize, time: Duration) -> Result<f64> {
    let (line, over) = (Line::default(), AtomicBool::new(false));
    let reply = || {
        loop {
            match line.0.load(Ordering::Acquire) {
                END => return,
                // Release and Acquire on both sides, as in a ring.
                word if word % 2 == 1 => line.0.store(word + 1, Ordering::Release),
                _ if over.load(Ordering::Relaxed) => return,
                _ => spin_loop(),
            }
        }
    };
    let request = || {
        let (begun, mut word, mut best) = (Instant::now(), 0, f64::INFINITY);
        while (begun.elapsed() < time || best.is_infinite()) && !over.load(Ordering::Relaxed) {
            let since = Instant::now();
            for _ in 0..ROUNDS {
                line.0.store(word + 1, Ordering::Release);
                word += 2;
                while line.0.load(Ordering::Acquire) != word && !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            }
            best = best.min(since.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64);
        }
        line.0.store(END, Ordering::Release);
        best
    };
    on_both((from, to), &over, reply, request)
}

fn messages_per_second(from: usize, to: usize, time: Duration) -> Result<f64> {
    let (mut sender, mut receiver) = RingBuffer::<u64>::new(MESSAGES);
    let over = AtomicBool::new(false);
    let send = || {
        let mut message = 0;
        while !over.load(Ordering::Relaxed) {
            match sender.push(message) {
                Ok(()) => message += 1,
                Err(_) => spin_loop(),
            }
        }
    };
    let receive = || {
        let mut next = || {
            while receiver.pop().is_err() && !over.load(Ordering::Relaxed) {
                spin_loop();
            }
        };
        next();
        let (begun, mut best) = (Instant::now(), 0.0);
        while (begun.elapsed() < time || best == 0.0) && !over.load(Ordering::Relaxed) {
            let since = Instant::now();
            (0..BURST).for_each(|_| next());
            best = f64::max(best, BURST as f64 / since.elapsed().as_secs_f64());
        }
        over.store(true, Ordering::Relaxed);
        best
    };
    on_both((from, to), &over, send, receive)
}

/// Buffers circulate as in a lane: filled, passed on, read, returned.
fn bytes_per_second(from: usize, to: usize, time: Duration) -> Result<f64> {
    let (mut full, mut inbound) = RingBuffer::<Buffer>::new(BUFFERS);
    let (mut home, mut empty) = RingBuffer::<Buffer>::new(BUFFERS);
    for _ in 0..BUFFERS {
        let buffer = Buffer::new(BUFFER_BYTES)?;
        buffer.populate()?;
        home.push(buffer).map_err(|_| Error::Defect("a ring is too short".into()))?;
    }
    let over = AtomicBool::new(false);
    let fill = || {
        let mut byte = 0u8;
        while let Some(mut buffer) = next(&mut empty, &over) {
            byte = byte.wrapping_add(1);
            buffer.fill(byte);
            pass(&mut full, buffer);
        }
    };
    let read = || {
        let (begun, mut since, mut count, mut best, mut sum) = (Instant::now(), None, 0, 0.0, 0u64);
        while let Some(buffer) = next(&mut inbound, &over) {
            let words = buffer.chunks_exact(8);
            sum = words.fold(sum, |sum, word| sum.wrapping_add(u64::from(word[0]) + u64::from(word[7])));
            pass(&mut home, buffer);
            // The first buffer shows that the other side runs.
            let begun_burst = *since.get_or_insert_with(Instant::now);
            if count == BUFFER_BURST {
                let bytes = (BUFFER_BURST * BUFFER_BYTES as u64) as f64;
                best = f64::max(best, bytes / begun_burst.elapsed().as_secs_f64());
                (count, since) = (0, Some(Instant::now()));
                if begun.elapsed() >= time {
                    break;
                }
            }
            count += 1;
        }
        over.store(true, Ordering::Relaxed);
        std::hint::black_box(sum);
        best
    };
    on_both((from, to), &over, fill, read)
}

fn next(buffers: &mut Consumer<Buffer>, over: &AtomicBool) -> Option<Buffer> {
    loop {
        match buffers.pop() {
            Ok(buffer) => return Some(buffer),
            Err(_) if over.load(Ordering::Relaxed) => return None,
            Err(_) => spin_loop(),
        }
    }
}

fn pass(buffers: &mut Producer<Buffer>, buffer: Buffer) {
    // The ring has room for every buffer.
    let _ = buffers.push(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_measured_where_there_is_one() {
        let allowed = cpu::allowed().unwrap();
        assert!(measure(allowed[0], allowed[0], Duration::ZERO).is_err());
        let [one, other, ..] = allowed[..] else {
            return quaff_os::testing::skip(
                "a_pair_is_measured_where_there_is_one",
                "there is only one core",
            );
        };
        let begun = Instant::now();
        let pair = measure(one, other, Duration::from_millis(30)).unwrap();
        assert!(
            pair.latency_ns > 1.0 && pair.messages_per_second > 1e3 && pair.bytes_per_second > 1e6,
            "{pair:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn an_unknown_core_is_reported() {
        let allowed = cpu::allowed().unwrap();
        let error = measure(allowed[0], 1000, Duration::from_millis(3)).unwrap_err();
        assert!(error.to_string().contains("core 1000"), "{error}");
        let error = measure(1000, allowed[0], Duration::from_millis(3)).unwrap_err();
        assert!(error.to_string().contains("core 1000"), "{error}");
    }
}
