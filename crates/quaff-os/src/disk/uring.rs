//! A chain of linked writes on an io_uring: each starts when the previous one has succeeded.
//!
//! ```text
//!   queue    w0 w1 w2 w3 │ w4 w5 w6 w7 │ w8 …
//!   chain    └── span ──┘ → └── span ──┘ → …       one after another
//!   disk     ▐▌ ▐▌ ▐▌ ▐▌                           all requests of a span at once
//! ```
//!
//! Writes that follow each other in a file go out as one vectored write, a span: the disk works on all of them at once,
//! and the file still grows only by what is complete. One chain is in flight at a time. A failed write cancels the
//! later ones (ECANCELED); they return to the head of the queue, unwritten, until the caller has handled the failure. A
//! span that fails is repeated write by write, which shows the one that fails and keeps those before it.

use super::{Write, Written};
use crate::clock::steady_ns;
use crate::wakeup::Wakeup;
use io_uring::register::Restriction;
use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types::Fd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// Spans in one chain: the kernel starts the next one without waking this thread.
const CHAIN: usize = 4;
/// Largest span of several writes, bytes. With 16 MiB a busy core wrote 30 % less, because this thread's kernel worker
/// waits for the core after each.
const SPAN_BYTES: usize = 32 << 20;
/// Smallest limit for a span on a slow disk, bytes.
const SPAN_BYTES_MIN: usize = 1 << 20;
/// A span that takes longer halves the limit for the next ones, ns, so that a slow disk answers, and returns buffers,
/// often. One that takes a quarter of it doubles the limit.
const SPAN_NS: u64 = 1_000_000_000;
const QUICK_NS: u64 = SPAN_NS / 4;
/// Largest number of writes in a span.
const SPAN_WRITES: usize = 64;
/// `IORING_REGISTER_IOWQ_AFF` (linux/io_uring.h): sets the cores of workers.
pub(crate) const REGISTER_IOWQ_AFF: u8 = 17;

pub(super) struct Chain {
    ring: IoUring,
    /// The writes in flight, oldest first. Their buffers and files stay alive here until their completions
    /// are read.
    flight: VecDeque<Write>,
    /// The spans of `flight`, oldest first.
    spans: VecDeque<Span>,
    /// The number of the oldest span; `user_data` of a completion is the number of its span.
    oldest: u64,
    /// Limit for the spans of the next chain, bytes; see [`SPAN_NS`].
    span_bytes: usize,
    /// Steady time at which the oldest span began, at the latest.
    begun_ns: u64,
    /// Next writes that start as spans of their own, after a span of several has failed.
    singles: usize,
}

/// Writes to one place of a file, in flight together.
struct Span {
    /// Number of its writes that have not been returned to the caller.
    writes: usize,
    /// The bytes of all its writes, as the kernel reads them. Not read after the completion.
    parts: Box<[Part]>,
    /// Bytes written by the writes that have not been returned, or a negative errno; `None` before the completion.
    result: Option<i32>,
}

/// `struct iovec` (sys/uio.h), with an address instead of a pointer, so that it may move between threads.
#[repr(C)]
struct Part {
    start: usize,
    bytes: usize,
}

impl Span {
    fn of<'a>(writes: impl Iterator<Item = &'a Write>) -> Self {
        let part = |write: &Write| Part {
            start: write.buffer[..write.len].as_ptr().expose_provenance(),
            bytes: write.len,
        };
        let parts: Box<[_]> = writes.map(part).collect();
        Self { writes: parts.len(), parts, result: None }
    }

    /// The request to write this span, which begins with `first`.
    fn request(&self, first: &Write) -> Entry {
        let fd = Fd(first.file.as_raw_fd());
        match &self.parts[..] {
            [_] => {
                opcode::Write::new(fd, first.buffer.as_ptr(), first.len as u32).offset(first.offset).build()
            }
            parts => opcode::Writev::new(fd, parts.as_ptr().cast(), parts.len() as u32)
                .offset(first.offset)
                .build(),
        }
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain").field("in_flight", &self.flight.len()).finish_non_exhaustive()
    }
}

impl Chain {
    /// A ring whose completions signal `wakeup`. [`Self::settle`] completes it, on the thread that writes.
    pub(super) fn new(wakeup: &Wakeup) -> io::Result<Self> {
        let ring = IoUring::builder().setup_r_disabled().build(CHAIN as u32)?;
        ring.submitter().register_eventfd(wakeup.as_fd().as_raw_fd())?;
        restrict(&ring)?;
        Ok(Self {
            ring,
            flight: VecDeque::new(),
            spans: VecDeque::new(),
            oldest: 0,
            span_bytes: SPAN_BYTES,
            begun_ns: 0,
            singles: 0,
        })
    }

    /// Keeps the kernel's workers for writes of the calling thread on its cores (Linux 5.14).
    pub(super) fn settle(&self) -> io::Result<()> {
        let ring = self.ring.submitter();
        // The kernel knows the thread that made the ring, and those that have submitted to it.
        // SAFETY: one entry is submitted at most, the queue is empty, and there is no argument to be read.
        unsafe { ring.enter::<libc::sigset_t>(1, 0, 0, None) }?;
        ring.register_iowq_aff(&affinity())
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Submits the next chain when none is in flight.
    pub(super) fn start(&mut self, queue: &mut VecDeque<Write>) -> io::Result<()> {
        if !self.flight.is_empty() || queue.is_empty() {
            return Ok(());
        }
        let lengths = span_lengths(queue, if self.singles > 0 { 0 } else { self.span_bytes });
        self.begun_ns = steady_ns();
        self.singles = self.singles.saturating_sub(lengths.len());
        for (i, writes) in lengths.iter().copied().enumerate() {
            let span = Span::of(queue.iter().take(writes));
            let linked = if i + 1 < lengths.len() { Flags::IO_LINK } else { Flags::empty() };
            let number = self.oldest + i as u64;
            let entry = span.request(&queue[0]).flags(linked).user_data(number);
            // SAFETY: `flight` keeps the buffers (whose lengths `Span::of` has checked) and the file, and `spans` the
            // parts, until their completion is reaped, and `drop` waits for that too. The memory of a Buffer and of a
            // Box does not move with the value.
            unsafe { self.ring.submission().push(&entry) }.expect("the ring has CHAIN entries and was empty");
            self.flight.extend(queue.drain(..writes));
            self.spans.push_back(span);
        }
        self.submit(0)
    }

    /// The oldest write, if it has completed. `None` with writes in the queue and none in flight: they can be started
    /// again.
    pub(super) fn reap(&mut self, queue: &mut VecDeque<Write>) -> Option<Written> {
        self.collect();
        let span = self.spans.front_mut()?;
        let result = span.result?;
        let len = self.flight.front()?.len as i32;
        if result >= len {
            span.result = Some(result - len);
            span.writes -= 1;
            if span.writes == 0 {
                self.spans.pop_front();
                self.oldest += 1;
                let now_ns = steady_ns();
                self.span_bytes = next_span_bytes(self.span_bytes, now_ns - self.begun_ns);
                self.begun_ns = now_ns;
            }
            return self.flight.pop_front().map(|write| Written { write, result: Ok(()) });
        }
        let several = Some(span.writes).filter(|writes| *writes > 1 && result < 0);
        if self.spans.iter().any(|span| span.result.is_none()) {
            return None; // The cancelled writes have not completed yet.
        }
        let failed = if several.is_some() { None } else { self.flight.pop_front() };
        self.singles = several.unwrap_or(0);
        self.oldest += self.spans.len() as u64;
        self.spans.clear();
        while let Some(unwritten) = self.flight.pop_back() {
            queue.push_front(unwritten);
        }
        let write = failed?;
        let result = match usize::try_from(result) {
            // A short write has no errno: writing the rest returns it.
            Ok(done) => write.file.write_all_at(&write.buffer[done..write.len], write.offset + done as u64),
            Err(_) => Err(io::Error::from_raw_os_error(-result)),
        };
        Some(Written { write, result })
    }

    fn collect(&mut self) {
        for entry in self.ring.completion() {
            let position = entry.user_data().wrapping_sub(self.oldest) as usize;
            if let Some(span) = self.spans.get_mut(position) {
                span.result = Some(entry.result());
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

/// The lengths of the spans of the next chain, in writes: at least one, and at most `CHAIN`. A span of several writes
/// has `bytes_max` at most.
fn span_lengths(queue: &VecDeque<Write>, bytes_max: usize) -> Vec<usize> {
    // Half of what is queued at most: the producer refills the buffers of one half while the other is written.
    let most = queue.len().div_ceil(2).min(SPAN_WRITES);
    let (mut lengths, mut bytes): (Vec<usize>, usize) = (Vec::with_capacity(CHAIN), 0);
    let mut before: Option<&Write> = None;
    for write in queue {
        let follows = before.is_some_and(|before| write.follows(before));
        let joins = follows && bytes + write.len <= bytes_max;
        if let Some(writes) = lengths.last_mut().filter(|writes| joins && **writes < most) {
            *writes += 1;
            bytes += write.len;
        } else if lengths.len() < CHAIN {
            lengths.push(1);
            bytes = write.len;
        } else {
            break;
        }
        before = Some(write);
    }
    lengths
}

/// The limit for spans after one that took `took_ns`.
fn next_span_bytes(bytes_max: usize, took_ns: u64) -> usize {
    match took_ns {
        SPAN_NS.. => (bytes_max / 2).max(SPAN_BYTES_MIN),
        ..=QUICK_NS => (bytes_max * 2).min(SPAN_BYTES),
        _ => bytes_max,
    }
}

/// Lets the ring write to descriptors and do nothing else, for good: no filter of system calls sees its operations.
/// The only thing that is set later are the cores of workers.
fn restrict(ring: &IoUring) -> io::Result<()> {
    let mut only = [
        Restriction::sqe_op(opcode::Write::CODE),
        Restriction::sqe_op(opcode::Writev::CODE),
        Restriction::sqe_flags_allowed(Flags::IO_LINK.bits()),
        Restriction::register_op(REGISTER_IOWQ_AFF),
    ];
    let writes = only.len() - 1;
    let register = |only: &mut [Restriction]| ring.submitter().register_restrictions(only);
    // Kernels before 5.14 know no cores of workers.
    register(&mut only).or_else(|_| register(&mut only[..writes]))?;
    ring.submitter().register_enable_rings()
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
        while self.spans.iter().any(|span| span.result.is_none()) {
            if self.submit(1).is_err() {
                // Leaked on purpose: the kernel may still read the buffers.
                std::mem::forget(std::mem::take(&mut self.flight));
                std::mem::forget(std::mem::take(&mut self.spans));
                return;
            }
            self.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Buffer;
    use std::fs::File;
    use std::sync::Arc;

    /// `writes` of `pages` each, one after another in a file.
    fn queue(pages: impl IntoIterator<Item = usize>) -> VecDeque<Write> {
        let (file, mut offset) = (Arc::new(File::open("/dev/null").unwrap()), 0);
        let write = |pages: usize| {
            let len = pages * 4096;
            offset += len as u64;
            Write { file: file.clone(), buffer: Buffer::new(len).unwrap(), len, offset: offset - len as u64 }
        };
        pages.into_iter().map(write).collect()
    }

    #[test]
    fn a_ring_can_only_write() {
        let Ok(mut chain) = Chain::new(&Wakeup::new().unwrap()) else {
            return crate::testing::skip("a_ring_can_only_write", "no io_uring");
        };
        let (file, mut bytes) = (File::open("/dev/zero").unwrap(), [1; 8]);
        let read = opcode::Read::new(Fd(file.as_raw_fd()), bytes.as_mut_ptr(), 8).build();
        for entry in [opcode::Nop::new().build(), read] {
            // SAFETY: the loop waits for the completion of each entry, and `file` and `bytes` outlive it.
            unsafe { chain.ring.submission().push(&entry) }.unwrap();
            chain.ring.submit_and_wait(1).unwrap();
            let result = chain.ring.completion().next().map(|completion| completion.result());
            assert_eq!(result, Some(-libc::EACCES), "{entry:?}");
        }
        assert_eq!(bytes, [1; 8]);
        let wakeup = Wakeup::new().unwrap();
        let registered = chain.ring.submitter().register_eventfd(wakeup.as_fd().as_raw_fd());
        assert_eq!(registered.unwrap_err().raw_os_error(), Some(libc::EACCES));
    }

    #[test]
    fn a_ring_that_another_thread_made_has_workers_on_the_cores_of_the_writer() {
        let test = "a_ring_that_another_thread_made_has_workers_on_the_cores_of_the_writer";
        let Ok(chain) = Chain::new(&Wakeup::new().unwrap()) else {
            return crate::testing::skip(test, "no io_uring");
        };
        if IoUring::new(1).unwrap().submitter().register_iowq_aff(&affinity()).is_err() {
            return crate::testing::skip(test, "a kernel before 5.14");
        }
        std::thread::spawn(move || chain.settle()).join().unwrap().unwrap();
    }

    #[test]
    fn writes_that_follow_each_other_are_one_span() {
        let lengths = |queue| span_lengths(&queue, SPAN_BYTES);
        assert_eq!(lengths(queue([1])), [1]);
        assert_eq!(lengths(queue([1; 5])), [3, 2], "half at most, for the other half to be refilled");
        assert_eq!(lengths(queue([1024; 32])), [SPAN_BYTES >> 22; CHAIN]);
        assert_eq!(lengths(queue([1; 500])), [SPAN_WRITES; CHAIN]);
        assert_eq!(span_lengths(&queue([1; 8]), 0), [1; CHAIN]);
        let mut apart = queue([1; 8]);
        apart[2].offset += 4096;
        apart[3].file = Arc::new(File::open("/dev/null").unwrap());
        assert_eq!(lengths(apart), [2, 1, 1, 4]);
    }

    #[test]
    fn a_slow_disk_gets_small_spans_until_it_is_quick_again() {
        let after =
            |times: &[u64]| times.iter().fold(SPAN_BYTES, |bytes, took_ns| next_span_bytes(bytes, *took_ns));
        assert_eq!(after(&[QUICK_NS + 1]), SPAN_BYTES);
        assert_eq!(after(&[3 * SPAN_NS]), SPAN_BYTES / 2);
        assert_eq!(after(&[SPAN_NS; 9]), SPAN_BYTES_MIN);
        assert_eq!(after(&[SPAN_NS, SPAN_NS, QUICK_NS]), SPAN_BYTES / 2);
        assert_eq!(after(&[SPAN_NS, SPAN_NS, QUICK_NS, 0, 0]), SPAN_BYTES);
    }
}
