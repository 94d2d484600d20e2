//! A chain of linked writes on an io_uring: each starts when the one before it has succeeded.
//!
//! One chain is in flight at a time. A failed write cancels those behind it (ECANCELED); they go
//! back to the head of the queue, unwritten, and wait until somebody has dealt with the failure.

use super::{Write, Written};
use crate::wakeup::Wakeup;
use io_uring::{IoUring, opcode, squeue::Flags, types::Fd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// Writes in one chain. With 4 MiB each, the next one starts while we are still asleep.
const CHAIN: usize = 4;

pub(super) struct Chain {
    ring: IoUring,
    /// The writes that the kernel has, oldest first. Their buffers and files stay alive in here until
    /// their completions have been seen.
    flight: VecDeque<Write>,
    /// The number of the oldest write in `flight`; completions carry the number of theirs.
    oldest: u64,
    /// Results by position in `flight`.
    results: VecDeque<Option<i32>>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").field("in_flight", &self.flight.len()).finish_non_exhaustive()
    }
}

impl Chain {
    /// A ring whose completions ring `wakeup`, and whose helpers keep to the calling thread's cores.
    pub(super) fn new(wakeup: &Wakeup) -> io::Result<Self> {
        let ring = IoUring::new(CHAIN as u32)?;
        ring.submitter().register_eventfd(wakeup.as_fd().as_raw_fd())?;
        // The kernel's helpers would run on any core of the machine, next to whoever is busy there.
        // Where that cannot be said (before Linux 5.14) they still work.
        let _ = ring.submitter().register_iowq_aff(&affinity());
        Ok(Self { ring, flight: VecDeque::new(), oldest: 0, results: VecDeque::new() })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Sends the next chain, when none is in flight.
    pub(super) fn start(&mut self, queue: &mut VecDeque<Write>) -> io::Result<()> {
        if !self.flight.is_empty() || queue.is_empty() {
            return Ok(());
        }
        let count = queue.len().min(CHAIN);
        for (i, write) in queue.drain(..count).enumerate() {
            let number = self.oldest + i as u64;
            let linked = if i + 1 < count { Flags::IO_LINK } else { Flags::empty() };
            let entry =
                opcode::Write::new(Fd(write.file.as_raw_fd()), write.buffer.as_ptr(), write.len as u32)
                    .offset(write.offset)
                    .build()
                    .flags(linked)
                    .user_data(number);
            assert!(write.len <= write.buffer.len());
            // SAFETY: the buffer (len checked above) and the file go into `flight`, which keeps both in
            // place until the completion has been reaped; drop waits for that too.
            unsafe { self.ring.submission().push(&entry) }.expect("the ring has CHAIN entries and was empty");
            self.flight.push_back(write);
            self.results.push_back(None);
        }
        self.submit(0)
    }

    /// The oldest write, when it has ended.
    pub(super) fn reap(&mut self, queue: &mut VecDeque<Write>) -> Option<Written> {
        self.collect();
        let result = (*self.results.front()?)?;
        let broken = self.flight.front().is_some_and(|write| result != write.len as i32);
        if broken && self.results.iter().any(Option::is_none) {
            return None; // The cancelled rest is on its way; until then the chain is not over.
        }
        let write = self.take_oldest()?;
        if !broken {
            return Some(Written { write, result: Ok(()) });
        }
        while let Some(cancelled) = self.flight.pop_back() {
            queue.push_front(cancelled);
            self.oldest += 1;
        }
        self.results.clear();
        let result = match usize::try_from(result) {
            // A short write does not say why: the rest is asked for, and that does.
            Ok(done) => write.file.write_all_at(&write.buffer[done..write.len], write.offset + done as u64),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        Some(Written { write, result })
    }

    fn take_oldest(&mut self) -> Option<Write> {
        self.results.pop_front();
        self.oldest += 1;
        self.flight.pop_front()
    }

    fn collect(&mut self) {
        for entry in self.ring.completion() {
            let position = entry.user_data().wrapping_sub(self.oldest) as usize;
            if let Some(result) = self.results.get_mut(position) {
                *result = Some(entry.result());
            }
        }
    }

    /// Hands the kernel all entries: it may take fewer at once than there are.
    fn submit(&mut self, wait: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(wait) {
                Ok(_) if self.ring.submission().is_empty() => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The cores that the calling thread may run on.
fn affinity() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is plain data; all zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and the kernel writes one cpu_set_t.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    set
}

impl Drop for Chain {
    /// The kernel may still be reading buffers in flight: they are freed only when it has finished.
    fn drop(&mut self) {
        while self.results.iter().any(Option::is_none) {
            if self.submit(1).is_err() {
                // Leaked on purpose: the kernel may still read them.
                std::mem::forget(std::mem::take(&mut self.flight));
                return;
            }
            self.collect();
        }
    }
}
