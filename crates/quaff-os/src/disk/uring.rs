//! A chain of linked writes on an io_uring: each starts when the previous one has succeeded.
//!
//! One chain is in flight at a time. A failed write cancels the later ones (ECANCELED); they return to the
//! head of the queue, unwritten, until the caller has handled the failure.

use super::{Write, Written};
use crate::wakeup::Wakeup;
use io_uring::{IoUring, opcode, squeue::Flags, types::Fd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// Writes in one chain: the kernel starts the next one without waking this thread.
const CHAIN: usize = 4;

pub(super) struct Chain {
    ring: IoUring,
    /// The writes in flight, oldest first. Their buffers and files stay alive here until their completions
    /// are read.
    flight: VecDeque<Write>,
    /// The number of the oldest write in `flight`; `user_data` of a completion is the number of its write.
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
    /// A ring whose completions signal `wakeup` and whose kernel workers run on the calling thread's cores.
    pub(super) fn new(wakeup: &Wakeup) -> io::Result<Self> {
        let ring = IoUring::new(CHAIN as u32)?;
        ring.submitter().register_eventfd(wakeup.as_fd().as_raw_fd())?;
        // Kernel workers would run on any core otherwise, including those of lanes. Before Linux 5.14 this
        // fails, and they do.
        let _ = ring.submitter().register_iowq_aff(&affinity());
        Ok(Self { ring, flight: VecDeque::new(), oldest: 0, results: VecDeque::new() })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Submits the next chain when none is in flight.
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
            // SAFETY: `flight` keeps the buffer (length checked above) and the file until their completion is
            // reaped, and `drop` waits for that too. A Buffer's memory does not move with the value.
            unsafe { self.ring.submission().push(&entry) }.expect("the ring has CHAIN entries and was empty");
            self.flight.push_back(write);
            self.results.push_back(None);
        }
        self.submit(0)
    }

    /// The oldest write, if it has completed.
    pub(super) fn reap(&mut self, queue: &mut VecDeque<Write>) -> Option<Written> {
        self.collect();
        let result = (*self.results.front()?)?;
        let broken = self.flight.front().is_some_and(|write| result != write.len as i32);
        if broken && self.results.iter().any(Option::is_none) {
            return None; // The cancelled writes have not completed yet.
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
            // A short write has no errno: writing the rest returns it.
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

    /// Submits all entries; the kernel may accept fewer at once.
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
    // SAFETY: 0 is the calling thread; the kernel writes one cpu_set_t, which is local.
    unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) };
    set
}

impl Drop for Chain {
    /// Waits until the kernel has completed the writes in flight, because it reads their buffers.
    fn drop(&mut self) {
        while self.results.iter().any(Option::is_none) {
            if self.submit(1).is_err() {
                // Leaked on purpose: the kernel may still read the buffers.
                std::mem::forget(std::mem::take(&mut self.flight));
                return;
            }
            self.collect();
        }
    }
}
