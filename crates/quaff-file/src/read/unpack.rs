//! Threads that decompress the frames of a zstd or lz4 file side by side; the decoder takes the parts in their order,
//! and decompresses too while the next part is not ready.
//!
//! No frame depends on another one. A thread locks the source, takes the compressed bytes of one frame or of several
//! short ones, whose ends it finds by the headers of their blocks, and then decompresses them by itself, with the
//! decompressor that reads a whole file otherwise: so bytes, errors and their offsets are the same. A frame that is
//! larger than a room, cut off, or none at all is decompressed by one thread in pieces, under the lock.
//!
//! It never looks at packets, and never reads pipes, files that are followed, or gzip.

mod source;
#[cfg(test)]
mod tests;

use super::HELPERS_MAX;
use super::decompress::{Decompressor, Failure};
use super::part::{Next, Part};
use quaff_os::Buffer;
pub(super) use source::Packed;
use source::{Claim, Sizes, Source, Then, Unpacked, unpack};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A result with its number; `None` if the source is free, which the decoder wants.
type Message = Option<(u64, Unpacked)>;

/// The decoder's side.
#[derive(Debug)]
pub(super) struct Unpackers {
    shared: Arc<Shared>,
    results: Receiver<Message>,
    /// Results that are not next.
    ready: BTreeMap<u64, Unpacked>,
    /// The number of the next result.
    next: u64,
    /// The decoder decompresses too.
    helps: bool,
    idle: Option<Decompressor>,
    /// The continuation of the result taken last, and its room while there is more for it.
    then: Then,
    room: Option<Buffer>,
    /// Compressed bytes up to the end of the result taken last.
    used: u64,
}

#[derive(Debug)]
struct Shared {
    /// Locked before the rooms. A panic under the lock ends the work.
    source: Mutex<Source>,
    rooms: Mutex<Rooms>,
    /// Notified when a room was returned, and at the end.
    returned: Condvar,
    /// Set by the decoder before it tries to lock the source, taken by a thread after it has unlocked it; SeqCst orders
    /// both accesses with those to the lock. A hint: without it the decoder waits for the next result.
    is_wanted: AtomicBool,
}

#[derive(Debug)]
struct Rooms {
    free: Vec<Buffer>,
    /// Nothing more is taken from the source.
    is_over: bool,
}

impl Unpackers {
    /// Starts the threads. Parts have `part_bytes`, or those of one frame: on a machine of three cores or more twice as
    /// many at most, for the frames of pzstd.
    pub(super) fn start(packed: Packed, part_bytes: usize, helpers: usize) -> Result<Self, Failure> {
        let helpers = helpers.clamp(1, HELPERS_MAX);
        let (unpackers, sender) = Self::new(packed, part_bytes, helpers)?;
        for number in 0..helpers {
            let (shared, sender) = (unpackers.shared.clone(), sender.clone());
            match quaff_os::spawn("quaff-unpack", move || help(&shared, &sender)) {
                // The others do its work.
                Err(_) if number > 0 => break,
                started => drop(started.map_err(failed)?),
            }
        }
        Ok(unpackers)
    }

    /// Without the threads, which send their results.
    fn new(packed: Packed, part_bytes: usize, helpers: usize) -> Result<(Self, Sender<Message>), Failure> {
        let room = if helpers > 1 { 2 * part_bytes } else { part_bytes };
        // One is decoded and one is ready, beside those of the threads. A room is longer than its contents, so that it
        // is never full at the end of a frame.
        let free = (0..helpers + 2).map(|_| Buffer::with_huge_pages(room + 1)).collect::<Result<_, _>>();
        let rooms = Mutex::new(Rooms { free: free.map_err(failed)?, is_over: false });
        let helps = packed.is_cached;
        let source = Mutex::new(Source::new(packed, Sizes { part: part_bytes, room })?);
        let shared =
            Arc::new(Shared { source, rooms, returned: Condvar::new(), is_wanted: AtomicBool::new(false) });
        let (sender, results) = channel();
        let (ready, then) = (BTreeMap::new(), Then::Next);
        let unpackers =
            Self { shared, results, ready, next: 0, helps, idle: None, then, room: None, used: 0 };
        Ok((unpackers, sender))
    }

    /// Returns the next part; waits at most `wait` for another thread.
    pub(super) fn next(&mut self, wait: Option<Duration>) -> Result<Next, Failure> {
        loop {
            let unpacked = match std::mem::replace(&mut self.then, Then::End) {
                Then::Next => self.take(wait)?,
                Then::More(job) => match self.room.take() {
                    Some(room) => Some(unpack(job, room).0),
                    None => {
                        // The part before it was not returned.
                        self.then = Then::More(job);
                        return Ok(Next::Idle);
                    }
                },
                Then::Failed(failure) => return Err(failure),
                Then::End => return Ok(Next::End),
            };
            let Some(Unpacked { room, bytes, used, then }) = unpacked else {
                self.then = Then::Next;
                return Ok(Next::Idle);
            };
            // The threads would wait for rooms that are not returned any more.
            self.shared.end_after(&then);
            (self.used, self.then) = (used, then);
            if bytes > 0 {
                return Ok(Next::Part(Part::plain(room, bytes)));
            }
            self.recycle(room);
        }
    }

    /// Takes a room back.
    pub(super) fn recycle(&mut self, room: Buffer) {
        match self.then {
            // Others may have all rooms, whose turn comes after it.
            Then::More(_) => self.room = Some(room),
            _ => {
                self.shared.rooms().free.push(room);
                self.shared.returned.notify_one();
            }
        }
    }

    /// Returns the number of compressed bytes of the parts so far.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// Takes the next result; `None` if the wait timed out.
    fn take(&mut self, wait: Option<Duration>) -> Result<Option<Unpacked>, Failure> {
        loop {
            self.ready.extend(self.results.try_iter().flatten());
            if let Some(unpacked) = self.ready.remove(&self.next) {
                self.next += 1;
                return Ok(Some(unpacked));
            }
            if self.helps && self.help() {
                continue;
            }
            let received = match wait {
                Some(wait) => self.results.recv_timeout(wait),
                None => self.results.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(message) => self.ready.extend(message),
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Os(io::Error::other("a thread that decompresses has panicked")));
                }
            }
        }
    }

    /// Does the work of one of the threads once, unless it would have to wait; returns whether it did.
    fn help(&mut self) -> bool {
        self.shared.is_wanted.store(true, Ordering::SeqCst);
        let Ok(mut source) = self.shared.source.try_lock() else { return false };
        // A thread has the stream.
        if source.is_streaming() {
            return false;
        }
        let Some(room) = self.shared.rooms().take() else { return false };
        let (number, claim) = source.claim(room, &mut self.idle);
        if let Claim::Streamed(unpacked) = &claim {
            // Before another thread has the lock: nothing is read after an error.
            self.shared.end_after(&unpacked.then);
        }
        drop(source);
        self.ready.insert(number, claim.unpack(&mut self.idle));
        true
    }
}

impl Drop for Unpackers {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// A guard that ends the work when its thread panics: the decoder finds that a result is missing.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// A thread: decompresses until there is no more. A room is waited for under the lock, so that all that have one have
/// work, and the decoder gets them back.
fn help(shared: &Shared, sender: &Sender<Message>) {
    let _alarm = Alarm(shared);
    let mut idle = None;
    while let Ok(mut source) = shared.source.lock() {
        let (number, claim) = loop {
            let Some(room) = shared.wait_for_room() else { return };
            match source.claim(room, &mut idle) {
                // A stream stays on this thread, whose caches have its window.
                (number, Claim::Streamed(unpacked)) if source.is_streaming() => {
                    if !shared.send(sender, number, unpacked) {
                        return;
                    }
                }
                claimed => break claimed,
            }
        };
        drop(source);
        if shared.is_wanted.swap(false, Ordering::SeqCst) && sender.send(None).is_err()
            || !shared.send(sender, number, claim.unpack(&mut idle))
        {
            return;
        }
    }
}

impl Shared {
    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.rooms().is_over = true;
        self.returned.notify_all();
    }

    /// Returns a free room; `None` at the end.
    fn wait_for_room(&self) -> Option<Buffer> {
        let is_waiting = |rooms: &mut Rooms| rooms.free.is_empty() && !rooms.is_over;
        let rooms = self.returned.wait_while(self.rooms(), is_waiting);
        rooms.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the work if no result follows.
    fn end_after(&self, then: &Then) {
        if then.is_last() {
            self.end();
        }
    }

    /// Sends a result; `false` after the end of the decoder.
    fn send(&self, sender: &Sender<Message>, number: u64, unpacked: Unpacked) -> bool {
        self.end_after(&unpacked.then);
        sender.send(Some((number, unpacked))).is_ok()
    }
}

impl Rooms {
    fn take(&mut self) -> Option<Buffer> {
        if self.is_over { None } else { self.free.pop() }
    }
}

fn failed(error: quaff_os::Error) -> Failure {
    Failure::Os(error.errno)
}
