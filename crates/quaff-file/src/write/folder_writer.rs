//! The thread that writes one of several folders. It carries out orders and returns the buffers; it never chooses which
//! chunks it gets.

use crate::tally::{Counts, WriterTally};
use crate::write::chunk::Chunk;
use crate::write::file::{Files, HandedBack, Parts};
use crate::write::folder::Folder;
use crate::write::format::Format;
use crate::write::header::Heading;
use crate::write::repack::{REPACK_BUFFERS, REPACK_BYTES, Repack};
use crate::write::slots::Slots;
use crate::write::{Sink, WriterGauges};
use crate::{Error, Result};
use quaff_os::disk::Disk;
use quaff_os::{Buffer, Reason, Stop, Wakeup};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes the queue of writes, on the writer's thread.
pub(super) type MakeDisk = Box<dyn FnOnce(&Wakeup) -> Disk + Send>;

/// A folder that is open, before the start of its writer.
pub(super) struct OpenFolder {
    pub dir: PathBuf,
    pub folder: Folder,
    /// Alignment of writes, bytes.
    pub align: usize,
    /// Signalled by its disk, and with each order.
    pub wakeup: Wakeup,
    pub disk: MakeDisk,
}

/// The run to which the writer of a folder belongs.
#[derive(Clone)]
pub(super) struct FolderRun {
    pub heading: Heading,
    pub slots: Slots,
    /// The interval of syncs of a file that is being written.
    pub fsync: Option<Duration>,
    /// Signalled when a buffer is returned, and when the writer fails.
    pub wakeup: Wakeup,
}

/// An order to the writer of a folder.
enum Order {
    Chunk(usize, Chunk),
    Note(usize, Counts),
    Slot(u64),
    Release(usize),
    HandBack(Sender<HandedBack>),
    KeepAll,
    Finish,
}

/// The writer of one folder, as the thread that distributes the chunks has it.
#[derive(Debug)]
pub(super) struct FolderWriter {
    pub dir: PathBuf,
    pub gauges: Arc<WriterGauges>,
    /// Chunks whose buffers are not returned yet.
    pub pending: usize,
    /// The reason why it accepts no more chunks.
    pub failure: Option<Reason>,
    orders: Sender<Order>,
    returns: Receiver<(usize, Buffer)>,
    wakeup: Wakeup,
    /// Raised when the folder fails; other folders continue.
    stop: Stop,
    thread: Option<JoinHandle<Result<WriterTally>>>,
}

impl FolderWriter {
    /// Starts the writer, which takes the chunks of `lanes`; returns when its first file has begun.
    pub(super) fn start(open: OpenFolder, run: FolderRun, lanes: Vec<usize>, number: usize) -> Result<Self> {
        let (orders, from_orders) = channel();
        let (to_returns, returns) = channel();
        let (ready, is_ready) = channel();
        let (dir, wakeup) = (open.dir.clone(), open.wakeup.clone());
        let (stop, gauges) = (Stop::default(), Arc::<WriterGauges>::default());
        stop.wake(run.wakeup.clone());
        let (of_thread, shown) = (stop.clone(), gauges.clone());
        let body = move || {
            let waken = run.wakeup.clone();
            let opened = open_files(open, run, &of_thread, shown, &lanes);
            let (files, wakeup) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    // The receiver waits for it.
                    let _ = ready.send(Err(error));
                    return Ok(WriterTally::default());
                }
            };
            let _ = ready.send(Ok(()));
            let orders = from_orders;
            Thread { files, orders, returns: to_returns, wakeup, waken, stop: of_thread }.run()
        };
        let thread = quaff_os::spawn(&format!("quaff-writer-{number}"), body)?;
        is_ready.recv().map_err(|_| Error::Defect("a folder's writer ended at its start".into()))??;
        let thread = Some(thread);
        Ok(Self { dir, gauges, pending: 0, failure: None, orders, returns, wakeup, stop, thread })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.failure.is_none()
    }

    /// Returns the reason of a failure, as long as the thread has not been ended for it.
    pub(super) fn new_failure(&self) -> Option<Reason> {
        self.stop.reason().filter(|_| self.is_alive())
    }

    pub(super) fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.pending += 1;
        self.order(Order::Chunk(lane, chunk))
    }

    pub(super) fn note(&mut self, lane: usize, counts: Counts) -> Result<()> {
        self.order(Order::Note(lane, counts))
    }

    pub(super) fn begin_slot(&mut self, slot: u64) -> Result<()> {
        self.order(Order::Slot(slot))
    }

    /// See [`Files::release`].
    pub(super) fn release(&mut self, lane: usize) -> Result<()> {
        self.order(Order::Release(lane))
    }

    /// See [`Files::keep_all`].
    pub(super) fn keep_all(&mut self) -> Result<()> {
        self.order(Order::KeepAll)
    }

    /// Takes back all chunks that are not written; see [`Files::hand_back`]. Waits for the thread.
    pub(super) fn hand_back(&mut self) -> Result<HandedBack> {
        let (to_reply, reply) = channel();
        self.order(Order::HandBack(to_reply))?;
        match reply.recv() {
            Ok(handed_back) => {
                self.pending -= handed_back.chunks.len();
                Ok(handed_back)
            }
            Err(_) => Err(self.end()),
        }
    }

    /// The next buffer that is written or abandoned, with its lane.
    pub(super) fn reap(&mut self) -> Option<(usize, Buffer)> {
        let returned = self.returns.try_recv().ok()?;
        self.pending -= 1;
        Some(returned)
    }

    /// Returns the error of a thread that has ended too early.
    pub(super) fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) { Err(self.end()) } else { Ok(()) }
    }

    /// Returns whether the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Orders the writer to end its files.
    pub(super) fn begin_finish(&mut self) -> Result<()> {
        self.order(Order::Finish)
    }

    /// Waits for the end, after [`Self::begin_finish`].
    pub(super) fn finish(&mut self) -> Result<WriterTally> {
        self.join()
    }

    fn order(&mut self, order: Order) -> Result<()> {
        if self.orders.send(order).is_err() {
            return Err(self.end());
        }
        self.wakeup.signal();
        Ok(())
    }

    /// The error of a thread that takes no more orders.
    fn end(&mut self) -> Error {
        self.join().err().unwrap_or_else(|| Error::Defect("a folder's writer has ended".into()))
    }

    fn join(&mut self) -> Result<WriterTally> {
        let gone = || Error::Defect("a folder's writer has ended".into());
        let thread = self.thread.take().ok_or_else(gone)?;
        thread.join().unwrap_or_else(|_| Err(Error::Defect("a folder's writer panicked".into())))
    }
}

/// Creates the sink on its thread: io_uring's kernel threads stay on its core.
fn open_files(
    open: OpenFolder,
    run: FolderRun,
    stop: &Stop,
    gauges: Arc<WriterGauges>,
    lanes: &[usize],
) -> Result<(Files, Wakeup)> {
    let OpenFolder { dir, folder, align, wakeup, disk } = open;
    let fsync = run.fsync;
    let is_padded = run.heading.format == Format::Pcapng || run.heading.compression.is_some();
    let is_repacked = align > 1 && !is_padded;
    let parts = Parts {
        heading: Heading { align: if is_padded { align } else { 1 }, ..run.heading },
        disk: disk(&wakeup),
        repack: is_repacked.then(|| Repack::new(align, REPACK_BYTES, REPACK_BUFFERS)).transpose()?,
        slots: run.slots,
        wakeup: wakeup.clone(),
        stop: stop.clone(),
        gauges,
    };
    Ok((Files::among_several(folder, &dir, parts, lanes)?.sync_every(fsync)?, wakeup))
}

/// The thread of a folder.
struct Thread {
    files: Files,
    orders: Receiver<Order>,
    returns: Sender<(usize, Buffer)>,
    wakeup: Wakeup,
    /// Wakes the thread that distributes the chunks.
    waken: Wakeup,
    stop: Stop,
}

impl Thread {
    fn run(mut self) -> Result<WriterTally> {
        loop {
            let mut moved = self.return_buffers()?;
            match self.orders.try_recv() {
                Ok(Order::Finish) => break,
                // Nothing will be ordered: the run has failed.
                Err(TryRecvError::Disconnected) => break,
                Ok(order) => {
                    self.obey(order)?;
                    moved = true;
                }
                Err(TryRecvError::Empty) => {}
            }
            self.files.tick()?;
            if !moved {
                self.wakeup.wait(self.files.max_wait())?;
            }
        }
        // After the end, an error of the last file is an error of the run.
        self.stop.raise(Reason::InputEnded);
        let tally = self.files.finish()?;
        self.return_buffers()?;
        Ok(tally)
    }

    fn obey(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Chunk(lane, chunk) => self.files.push(lane, chunk),
            Order::Slot(slot) => self.files.begin_slot(slot),
            Order::Release(lane) => self.files.release(lane),
            Order::Note(lane, counts) => {
                self.files.note(lane, counts);
                Ok(())
            }
            Order::KeepAll => {
                self.files.keep_all();
                Ok(())
            }
            Order::HandBack(reply) => {
                let handed_back = self.files.hand_back()?;
                self.return_buffers()?;
                // The receiver waits for it.
                let _ = reply.send(handed_back);
                Ok(())
            }
            Order::Finish => Ok(()),
        }
    }

    /// Returns the buffers that are free; `true` if there were any.
    fn return_buffers(&mut self) -> Result<bool> {
        let mut any = false;
        while let Some(free) = self.files.reap()? {
            // Without a receiver the run has failed.
            let _ = self.returns.send(free);
            any = true;
        }
        if any {
            self.waken.signal();
        }
        Ok(any)
    }
}
