//! Disk I/O: whole buffers, in order, bypassing the page cache.
//!
//! A [`Disk`] writes buffers and returns each when it is written or has failed, in the order of submission.
//! The order matters: a file grows only at its end, so after every completed write it contains everything
//! before it, whatever happens next. Queued writes that follow each other are given to the disk together.

mod access;
mod file;
mod output;
mod private_lock;
mod read;
mod uring;
mod write;

pub use access::FileAccess;
pub use file::{
    Space, check_writable, direct_align, drop_page_cache, file_bytes_max, free_bytes, is_of_kernel,
    open_found, open_regular, open_unnamed, preallocate, rename_new, space, sync_all, sync_folder,
    write_behind,
};
pub use libc::{O_CREAT, O_WRONLY};
pub use output::{Owners, open_output, write_output};
pub use private_lock::{LockPatience, PrivateLock};
pub use read::Reader;
pub(crate) use uring::REGISTER_IOWQ_AFF;
pub use write::{Write, Written};

use crate::wakeup::Wakeup;
use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::FileExt;

/// A queue of writes and the kernel interface that executes them.
#[derive(Debug)]
pub struct Disk {
    queue: VecDeque<Write>,
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Uring(Box<uring::Chain>),
    Pwrite,
    /// pwrite(2) with made failures: the number of the next write, and the numbers that fail with an error.
    #[cfg(any(test, feature = "testing"))]
    Failing(u64, Vec<(u64, crate::Errno)>),
}

impl Disk {
    /// Writes by io_uring where the kernel permits it, else by pwrite(2). `wakeup` is signalled when a write
    /// completes. Must be called on the thread that writes.
    pub fn new(wakeup: &Wakeup) -> Self {
        Self::ahead(wakeup).settle()
    }

    /// As [`Disk::new`], but on any thread: the ring is made here, and [`Disk::settle`] on the thread that writes
    /// completes it. A thread that may make no ring any more can use this one.
    pub fn ahead(wakeup: &Wakeup) -> Self {
        let engine = match uring::Chain::new(wakeup) {
            Ok(chain) => Engine::Uring(Box::new(chain)),
            Err(_) => Engine::Pwrite,
        };
        Self { queue: VecDeque::new(), engine }
    }

    /// Keeps the kernel's workers on the cores of the calling thread, which writes from now on.
    #[must_use]
    pub fn settle(self) -> Self {
        if let Engine::Uring(chain) = &self.engine {
            // Before Linux 5.14 workers run on any core, including those of lanes.
            let _ = chain.settle();
        }
        self
    }

    /// Writes by pwrite(2) only.
    pub fn pwrite() -> Self {
        Self { queue: VecDeque::new(), engine: Engine::Pwrite }
    }

    /// Writes by pwrite(2); the writes of these numbers, from 0, fail with these errors and write nothing.
    #[cfg(any(test, feature = "testing"))]
    pub fn failing(faults: Vec<(u64, crate::Errno)>) -> Self {
        Self { queue: VecDeque::new(), engine: Engine::Failing(0, faults) }
    }

    /// The name of the interface: `io_uring` or `pwrite`.
    pub fn name(&self) -> &'static str {
        match self.engine {
            Engine::Uring(_) => "io_uring",
            _ => "pwrite",
        }
    }

    /// Queues a write, which starts when the earlier ones have completed, or together with those that it follows in the
    /// file: then none of them is in the file before all are.
    pub fn submit(&mut self, write: Write) -> io::Result<()> {
        self.queue.push_back(write);
        self.start()
    }

    /// Queues a failed write again, ahead of all others.
    pub fn retry(&mut self, write: Write) -> io::Result<()> {
        self.queue.push_front(write);
        self.start()
    }

    /// The number of writes queued or in flight.
    pub fn pending(&self) -> usize {
        self.queue.len() + self.in_flight()
    }

    /// The oldest completed write, if any. With pwrite this call does the writing. After an error the queue
    /// stops until the next [`Disk::submit`], [`Disk::retry`] or [`Disk::abandon`].
    pub fn reap(&mut self) -> io::Result<Option<Written>> {
        let written = match &mut self.engine {
            Engine::Uring(chain) => chain.reap(&mut self.queue),
            Engine::Pwrite => self.queue.pop_front().map(pwrite),
            #[cfg(any(test, feature = "testing"))]
            Engine::Failing(number, faults) => self.queue.pop_front().map(|write| {
                *number += 1;
                match faults.iter().find(|(failing, _)| failing + 1 == *number) {
                    Some((_, errno)) => Written { write, result: Err((*errno).into()) },
                    None => pwrite(write),
                }
            }),
        };
        if written.as_ref().is_none_or(|written| written.result.is_ok()) {
            self.start()?;
        }
        Ok(written)
    }

    /// Removes and returns all writes that have not started.
    pub fn abandon(&mut self) -> impl Iterator<Item = Write> {
        std::mem::take(&mut self.queue).into_iter()
    }

    fn in_flight(&self) -> usize {
        match &self.engine {
            Engine::Uring(chain) => chain.in_flight(),
            _ => 0,
        }
    }

    fn start(&mut self) -> io::Result<()> {
        match &mut self.engine {
            Engine::Uring(chain) => chain.start(&mut self.queue),
            _ => Ok(()),
        }
    }
}

fn pwrite(write: Write) -> Written {
    let result = write.file.write_all_at(&write.buffer[..write.len], write.offset);
    Written { write, result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Buffer;
    use proptest::prelude::*;
    use std::fs::File;
    use std::sync::Arc;
    use std::time::Duration;

    fn write(file: &Arc<File>, byte: u8, offset: u64) -> Write {
        let mut buffer = Buffer::new(4096).unwrap();
        buffer.fill(byte);
        Write { file: file.clone(), buffer, len: 4096, offset }
    }

    fn finish(disk: &mut Disk, wakeup: &Wakeup) -> Vec<(u64, io::Result<()>)> {
        let mut ended = Vec::new();
        while disk.pending() > 0 {
            match disk.reap().unwrap() {
                Some(done) => ended.push((done.write.offset, done.result)),
                None => drop(wakeup.wait(Duration::from_millis(100)).unwrap()),
            }
        }
        ended
    }

    fn engines() -> Vec<(Disk, Wakeup)> {
        let wakeup = Wakeup::new().unwrap();
        let of_another_thread = wakeup.clone();
        let ahead = std::thread::spawn(move || Disk::ahead(&of_another_thread)).join().unwrap().settle();
        vec![(Disk::new(&wakeup), wakeup.clone()), (ahead, wakeup.clone()), (Disk::pwrite(), wakeup)]
    }

    #[test]
    fn writes_complete_in_order() {
        for (mut disk, wakeup) in engines() {
            let file = Arc::new(tempfile::tempfile().unwrap());
            for i in 0..37u64 {
                disk.submit(write(&file, i as u8, i * 4096)).unwrap();
            }
            let ended = finish(&mut disk, &wakeup);
            assert_eq!(
                ended.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(),
                (0..37).map(|i| i * 4096).collect::<Vec<_>>()
            );
            assert!(ended.iter().all(|(_, result)| result.is_ok()));
            let mut byte = [0];
            file.read_exact_at(&mut byte, 36 * 4096 + 17).unwrap();
            assert_eq!(byte, [36]);
            assert_eq!(file.metadata().unwrap().len(), 37 * 4096);
        }
    }

    #[test]
    fn a_failed_write_stops_the_later_ones_until_it_is_retried() {
        for (mut disk, wakeup) in engines() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            std::fs::write(&path, b"").unwrap();
            let good = Arc::new(File::options().write(true).open(&path).unwrap());
            let bad = Arc::new(File::open(&path).unwrap());
            disk.submit(write(&good, 1, 0)).unwrap();
            disk.submit(write(&bad, 2, 4096)).unwrap();
            disk.submit(write(&good, 3, 8192)).unwrap();
            let mut failed = None;
            while failed.is_none() {
                match disk.reap().unwrap() {
                    Some(done) if done.result.is_err() => failed = Some(done.write),
                    Some(_) => {}
                    None => drop(wakeup.wait(Duration::from_millis(100)).unwrap()),
                }
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
            let mut again = failed.unwrap();
            again.file = good;
            disk.retry(again).unwrap();
            assert!(finish(&mut disk, &wakeup).iter().all(|(_, result)| result.is_ok()));
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 12288);
        }
    }

    /// A file that cannot grow: a write beyond its end fails with EPERM, and one across it is written in
    /// part (memfd_create(2), F_SEAL_GROW).
    fn sealed(bytes: u64) -> File {
        use nix::fcntl::{FcntlArg, SealFlag, fcntl};
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let file = File::from(memfd_create(c"sealed", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        file.set_len(bytes).unwrap();
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_GROW)).unwrap();
        file
    }

    #[test]
    fn a_short_write_fails_with_the_error_of_its_rest() {
        for (mut disk, wakeup) in engines() {
            let file = Arc::new(sealed(8192 + 1024));
            (0..4).for_each(|i| {
                let mut write = write(&file, 7, i * 4096);
                write.buffer = Buffer::new(8192).unwrap();
                write.len = 8192;
                write.offset = i * 8192;
                disk.submit(write).unwrap();
            });
            let mut errors = Vec::new();
            while errors.is_empty() {
                match disk.reap().unwrap() {
                    Some(done) => errors.extend(done.result.err().and_then(|error| error.raw_os_error())),
                    None => drop(wakeup.wait(Duration::from_millis(100)).unwrap()),
                }
            }
            assert_eq!((errors, disk.abandon().count()), (vec![libc::EPERM], 2), "{}", disk.name());
        }
    }

    #[test]
    fn of_writes_that_are_refused_together_each_is_tried_alone() {
        let test = "of_writes_that_are_refused_together_each_is_tried_alone";
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // The disk refuses a length that is no multiple of its blocks, some file systems do not.
        let Some(file) =
            open_unnamed(dir.path(), true).ok().filter(|file| file.write_at(&[0; 100], 0).is_err())
        else {
            return crate::testing::skip(test, "no O_DIRECT where the source lies");
        };
        let file = Arc::new(file);
        for (mut disk, wakeup) in engines() {
            file.set_len(0).unwrap();
            for number in 0..8 {
                let write = write(&file, number, u64::from(number) * 4096);
                disk.submit(Write { len: if number == 3 { 100 } else { 4096 }, ..write }).unwrap();
            }
            let mut offsets = Vec::new();
            let failed = loop {
                match disk.reap().unwrap() {
                    Some(Written { write, result: Ok(()) }) => offsets.push(write.offset),
                    Some(written) => break written,
                    None => drop(wakeup.wait(Duration::from_millis(100)).unwrap()),
                }
            };
            assert_eq!(offsets, (0..3).map(|number| number * 4096).collect::<Vec<_>>(), "{}", disk.name());
            assert_eq!(failed.write.offset, 3 * 4096);
            assert_eq!((disk.abandon().count(), file.metadata().unwrap().len()), (4, 3 * 4096));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Writes of some pages each, with gaps between some, to a file that cannot grow beyond `room`.
        #[test]
        fn the_first_write_without_room_fails_and_those_before_it_are_in_the_file(
            writes in proptest::collection::vec((1..5u64, proptest::bool::weighted(0.2)), 1..40),
            room in 0..100u64,
        ) {
            for (mut disk, wakeup) in engines() {
                let (small, large) = (Arc::new(sealed(room * 4096)), Arc::new(tempfile::tempfile().unwrap()));
                let (mut at, mut expected) = (0, Vec::new());
                for (number, (pages, is_apart)) in writes.iter().enumerate() {
                    at += u64::from(*is_apart) * 4096;
                    let len = *pages as usize * 4096;
                    let mut buffer = Buffer::new(len).unwrap();
                    buffer.fill(number as u8 + 1);
                    disk.submit(Write { file: small.clone(), buffer, len, offset: at }).unwrap();
                    expected.push((at, len));
                    at += len as u64;
                }
                let fitting = expected.iter().take_while(|(at, len)| at + *len as u64 <= room * 4096).count();
                let (mut good, mut failed) = (0, None);
                while disk.pending() > 0 && failed.is_none() {
                    match disk.reap().unwrap() {
                        Some(Written { write, result: Ok(()) }) => {
                            prop_assert_eq!((write.offset, write.len), expected[good]);
                            good += 1;
                        }
                        Some(Written { write, result: Err(error) }) => {
                            prop_assert_eq!(error.raw_os_error(), Some(libc::EPERM));
                            failed = Some(write);
                        }
                        None => drop(wakeup.wait(Duration::from_millis(100)).unwrap()),
                    }
                }
                prop_assert_eq!((good, failed.is_some()), (fitting, fitting < writes.len()));
                // The unwritten part is written to another file, as after a failure of a capture.
                let rest: Vec<_> = failed.into_iter().chain(disk.abandon()).collect();
                prop_assert_eq!(rest.len(), writes.len() - good);
                for write in rest {
                    disk.submit(Write { file: large.clone(), ..write }).unwrap();
                }
                prop_assert!(finish(&mut disk, &wakeup).iter().all(|(_, result)| result.is_ok()));
                for (number, (at, len)) in expected.into_iter().enumerate() {
                    let mut found = vec![0; len];
                    let file = if number < good { &small } else { &large };
                    file.read_exact_at(&mut found, at).unwrap();
                    prop_assert!(found.iter().all(|byte| *byte == number as u8 + 1), "write {}", number);
                }
            }
        }
    }
}
