//! The threads that compress chunks. They never write, and never choose what is compressed next.

use super::frame::{Codec, Encoder, bound, pad, store};
use crate::write::chunk::Chunk;
use crate::write::plan::CompressPlan;
use crate::{Error, Result};
use quaff_os::{Buffer, Wakeup, cpu};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A chunk to be compressed.
pub(super) struct Job {
    pub number: u64,
    pub lane: usize,
    pub chunk: Chunk,
    /// The buffer for its frame.
    pub out: Buffer,
}

/// A compressed chunk.
pub(super) struct Done {
    pub number: u64,
    pub lane: usize,
    /// The chunk with its frame as the buffer.
    pub frame: Chunk,
    /// The buffer that it had before, and the bytes that were used of it.
    pub plain: Buffer,
    pub plain_bytes: usize,
    /// Stored as it was, because the threads did not keep up.
    pub is_rushed: bool,
}

/// The threads. They end after their last job when this is dropped.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    is_late: Arc<AtomicBool>,
}

/// The work of one thread.
struct Worker {
    encoder: Encoder,
    codec: Codec,
    align: usize,
    jobs: Arc<Mutex<Receiver<Job>>>,
    done: Sender<Done>,
    /// Set by the thread that sends jobs, read by the threads, which then store their jobs instead. A hint, so Relaxed.
    is_late: Arc<AtomicBool>,
    wakeup: Wakeup,
}

impl Workers {
    /// Starts the threads; frames are padded to `align`. `wakeup` is signalled after each job.
    pub(super) fn start(plan: &CompressPlan, align: usize, wakeup: &Wakeup) -> Result<Self> {
        let (jobs, from_jobs) = channel();
        let (to_done, done) = channel();
        let (from_jobs, is_late) = (Arc::new(Mutex::new(from_jobs)), Arc::<AtomicBool>::default());
        let mut threads = Vec::new();
        for number in 0..plan.threads.max(1) {
            let (ready, is_ready) = channel();
            let (codec, cores) = (plan.codec, plan.cores_of(number));
            let (jobs, done, is_late) = (from_jobs.clone(), to_done.clone(), is_late.clone());
            let wakeup = wakeup.clone();
            let body = move || {
                let encoder = cpu::allow(&cores).and_then(|()| {
                    Encoder::new(codec).map_err(|error| quaff_os::Error::new("make a compressor", error))
                });
                // The receiver waits for it.
                let encoder = match encoder {
                    Ok(encoder) => encoder,
                    Err(error) => return drop(ready.send(Err(error))),
                };
                let _ = ready.send(Ok(()));
                Worker { encoder, codec, align, jobs, done, is_late, wakeup }.run();
            };
            threads.push(quaff_os::spawn("quaff-compress", body)?);
            is_ready.recv().map_err(|_| Error::Defect("a compressor ended at its start".into()))??;
        }
        Ok(Self { jobs: Some(jobs), done, threads, is_late })
    }

    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    pub(super) fn send(&self, job: Job) -> Result<()> {
        let gone = || Error::Defect("the compressor has ended".into());
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())
    }

    /// Returns the next job that is done.
    pub(super) fn done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// While it is set, chunks are stored instead of compressed.
    pub(super) fn set_late(&self, is_late: bool) {
        self.is_late.store(is_late, Ordering::Relaxed);
    }

    /// Fails if a thread has ended, which leaves its job undone.
    pub(super) fn check(&self) -> Result<()> {
        match self.threads.iter().any(JoinHandle::is_finished) {
            true => Err(Error::Defect("a compressor has panicked".into())),
            false => Ok(()),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic was reported where its result was missing.
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(mut self) {
        while let Some(job) = self.next() {
            let done = self.work(job);
            if self.done.send(done).is_err() {
                return;
            }
            self.wakeup.signal();
        }
    }

    fn next(&self) -> Option<Job> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }

    fn work(&mut self, job: Job) -> Done {
        let Job { number, lane, mut chunk, mut out } = job;
        let (plain_bytes, compression) = (chunk.len, self.codec.compression);
        debug_assert!(out.len() >= bound(plain_bytes, self.align), "the frame has room");
        let is_wanted = || !self.is_late.load(Ordering::Relaxed);
        let plain = &chunk.buffer[..plain_bytes];
        let compressed = self.encoder.compress(plain, &mut out, is_wanted);
        let is_rushed = compressed.is_none() && !is_wanted();
        let len = compressed.unwrap_or_else(|| store(compression, plain, &mut out));
        chunk.len = pad(compression, &mut out, len, self.align);
        let plain = std::mem::replace(&mut chunk.buffer, out);
        Done { number, lane, frame: chunk, plain, plain_bytes, is_rushed }
    }
}
