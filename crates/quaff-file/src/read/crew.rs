//! Threads that read parts of a file in the page cache and look at them, each part whole on one core; the decoder takes
//! the parts in their order, and reads and looks too while the next part is not ready.
//!
//! The copy out of the page cache, the walk over the records and the look at their headers need the same bytes, so one
//! core does all three while they are in its second-level cache. It never decodes for the decoder, and ends where the
//! file is not in the page cache any more.

use super::HELPERS_MAX;
use super::decompress::Failure;
use super::input::Input;
use super::look::{Board, Looker};
use super::part::{Part, Room};
use quaff_os::{Buffer, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of a part at most: with its results it fits a core's second-level cache.
const PART_BYTES_MAX: usize = 256 << 10;
/// Parts that a thread may be ahead of the decoder.
const PARTS_AHEAD: usize = 2;
/// Bytes for which one check decides whether they are in the page cache.
const CHECK_BYTES: usize = 4 << 20;

type Done = (u64, Result<Part, io::Error>);

/// The decoder's side.
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    done: Receiver<Done>,
    /// Parts that are ready and not next.
    ready: BTreeMap<u64, Result<Part, io::Error>>,
    /// The number of the next part.
    next: u64,
    looker: Looker,
}

/// The file, and the work to be done.
#[derive(Debug)]
struct Shared {
    file: File,
    /// File offset of part 0.
    offset: u64,
    part_bytes: usize,
    board: Board,
    work: Mutex<Work>,
    /// Notified when a room was returned, and at the end.
    returned: Condvar,
}

#[derive(Debug)]
struct Work {
    /// `None` once the decoder has it back.
    input: Option<Input>,
    /// The next part to be read.
    next: u64,
    /// Parts from this number on are not read.
    end: u64,
    free: Vec<Room>,
}

/// The result of asking for work.
enum Claim {
    Part(u64, Room),
    NoRoom,
    End,
}

impl Crew {
    /// Starts the threads for the file of `input`, from `offset` on; `file` is another handle of it. Parts have at most
    /// `part_bytes`.
    pub(super) fn start(
        input: Input,
        (file, offset): (File, u64),
        part_bytes: usize,
        helpers: usize,
        board: &Board,
    ) -> Result<Self> {
        let (helpers, part_bytes) = (helpers.min(HELPERS_MAX), part_bytes.min(PART_BYTES_MAX));
        let room = |_| Ok(Room { buffer: Buffer::new(part_bytes)?, seen: None });
        let free = (0..(helpers + 1) * PARTS_AHEAD + 1).map(room).collect::<Result<_>>()?;
        let work = Mutex::new(Work { input: Some(input), next: 0, end: u64::MAX, free });
        let shared =
            Shared { file, offset, part_bytes, board: board.clone(), work, returned: Condvar::new() };
        let (shared, (sender, done)) = (Arc::new(shared), channel());
        for _ in 0..helpers {
            let (shared, sender) = (shared.clone(), sender.clone());
            // The decoder does what no thread does.
            if quaff_os::spawn("quaff-look", move || help(&shared, &sender)).is_err() {
                break;
            }
        }
        Ok(Self { shared, done, ready: BTreeMap::new(), next: 0, looker: Looker::default() })
    }

    /// Returns the next part; `None` where the file ends, or is not in the page cache.
    pub(super) fn next(&mut self) -> Result<Option<Part>, Failure> {
        loop {
            self.ready.extend(self.done.try_iter());
            // After a short part there is none, even if the file has grown since.
            if self.next >= self.shared.work().end {
                return Ok(None);
            }
            if let Some(done) = self.ready.remove(&self.next) {
                let part = done.map_err(Failure::Os)?;
                if part.bytes == 0 {
                    return Ok(None);
                }
                self.next += 1;
                return Ok(Some(part));
            }
            let claim = self.shared.work().claim(&self.shared);
            match claim {
                Claim::Part(number, room) => {
                    let part = self.shared.read(number, room, &mut self.looker);
                    self.ready.insert(number, part);
                }
                Claim::NoRoom | Claim::End => match self.done.recv() {
                    Ok((number, part)) => drop(self.ready.insert(number, part)),
                    Err(_) => return Ok(None),
                },
            }
        }
    }

    /// Takes a room back.
    pub(super) fn recycle(&self, room: Room) {
        self.shared.work().free.push(room);
        self.shared.returned.notify_one();
    }

    /// Ends the threads, and returns the file, to be read from `offset` on.
    pub(super) fn end(self, offset: u64) -> Option<Input> {
        self.shared.end();
        let mut input = self.shared.work().input.take();
        if let Some(input) = &mut input {
            input.move_to(offset);
        }
        input
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// A guard that ends the crew when its thread panics: the decoder then reads on by itself.
struct Alarm<'a>(&'a Shared);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end();
        }
    }
}

/// A thread: reads parts until there are no more.
fn help(shared: &Shared, done: &Sender<Done>) {
    let _alarm = Alarm(shared);
    let mut looker = Looker::default();
    loop {
        let mut work = shared.work();
        let (number, room) = loop {
            match work.claim(shared) {
                Claim::Part(number, room) => break (number, room),
                Claim::End => return,
                Claim::NoRoom => work = shared.returned.wait(work).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(work);
        if done.send((number, shared.read(number, room, &mut looker))).is_err() {
            return;
        }
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.work().end = 0;
        self.returned.notify_all();
    }

    fn offset_of(&self, number: u64) -> u64 {
        self.offset + number * self.part_bytes as u64
    }

    /// Reads a part, and looks at it. A short one is the last.
    fn read(&self, number: u64, mut room: Room, looker: &mut Looker) -> Result<Part, io::Error> {
        let (offset, mut bytes) = (self.offset_of(number), 0);
        while bytes < self.part_bytes {
            match self.file.read_at(&mut room.buffer[bytes..self.part_bytes], offset + bytes as u64) {
                Ok(0) => break,
                Ok(more) => bytes += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if bytes < self.part_bytes {
            let mut work = self.work();
            work.end = work.end.min(number + 1);
        }
        let Room { buffer, seen } = &mut room;
        let glance = looker.look(&self.board, &buffer[..bytes], offset, seen);
        Ok(Part { room, bytes, offset, glance })
    }
}

impl Work {
    fn claim(&mut self, shared: &Shared) -> Claim {
        if self.next >= self.end {
            return Claim::End;
        }
        if self.free.is_empty() {
            return Claim::NoRoom;
        }
        let Some(input) = &mut self.input else { return Claim::End };
        input.move_to(shared.offset_of(self.next));
        if input.is_stopped() || !input.is_cached(CHECK_BYTES) {
            self.end = self.next;
            shared.returned.notify_all();
            return Claim::End;
        }
        let Some(room) = self.free.pop() else { return Claim::NoRoom };
        self.next += 1;
        Claim::Part(self.next - 1, room)
    }
}

#[cfg(test)]
mod tests;
