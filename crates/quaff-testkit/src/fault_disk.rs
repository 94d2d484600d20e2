//! A file system of the tests' own whose writes fail or stand still on demand: FUSE, answered by a thread of the test.
//!
//! Its files lie in a folder beside the mount point, where a test reads them past the file system under test. It has
//! one level, no O_TMPFILE and no preallocation. The messages are those of `<linux/fuse.h>`, protocol 7.31, little
//! endian.

mod answers;

use answers::{Answer, Request};
use quaff_os::testing::skip;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Largest write that the kernel passes on.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// Errors of <errno.h>.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// The number of the root folder (`FUSE_ROOT_ID`).
const ROOT: u64 = 1;

/// Failures of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The write that brings the bytes of all files beyond `after_bytes` fails with EIO, as do all later ones at its
    /// place or behind it in its file. So do the first writes to the `files - 1` files that are written next.
    BadBlocks {
        /// Bytes written before it.
        after_bytes: u64,
        /// Number of files with a bad block.
        files: u32,
    },
    /// From the write that brings the bytes of all files beyond `after_bytes` all writes fail with ENOSPC.
    Full {
        /// Bytes written before it.
        after_bytes: u64,
        /// Time after which there is room again.
        lasts: Duration,
    },
}

/// The mounted file system. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct FaultDisk {
    seen: PathBuf,
    real: PathBuf,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// A disk that stands still.
#[derive(Debug)]
pub struct HeldDisk<'a>(&'a State);

/// The state that the test and the thread share.
#[derive(Debug, Default)]
struct State {
    faults: Mutex<Faults>,
    /// Notified when writes are answered again.
    released: Condvar,
}

/// The faults to come, and those that came.
#[derive(Debug, Default)]
struct Faults {
    is_held: bool,
    fault: Option<Fault>,
    bytes: u64,
    /// Bad places: offsets by the number of the file.
    bad: HashMap<u64, u64>,
    full_since: Option<Instant>,
    /// Names of files at their first failed write, in order.
    failed: Vec<String>,
    failed_nodes: HashSet<u64>,
}

impl FaultDisk {
    /// Mounts it in the folder `dir`; `None` after a skip.
    pub fn mount(test: &str, dir: &Path) -> Option<Self> {
        let (seen, real) = (dir.join("seen"), dir.join("real"));
        for folder in [&seen, &real] {
            std::fs::create_dir(folder).expect("a folder");
        }
        let Some(device) = connect(&seen) else {
            skip(test, "this machine mounts no FUSE");
            return None;
        };
        let state = Arc::<State>::default();
        let (shared, folder) = (state.clone(), real.clone());
        let thread = std::thread::spawn(move || serve(device, &shared, folder));
        Some(Self { seen, real, state, thread: Some(thread) })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.seen
    }

    /// The folder in which the files lie.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Plans a fault.
    pub fn plan(&self, fault: Fault) {
        self.state.lock().fault = Some(fault);
    }

    /// Answers no write, and nothing that comes after it, until the guard is dropped.
    #[must_use]
    pub fn hold(&self) -> HeldDisk<'_> {
        self.state.lock().is_held = true;
        HeldDisk(&self.state)
    }

    /// The names that files had at their first failed writes, in order.
    pub fn failed(&self) -> Vec<String> {
        self.state.lock().failed.clone()
    }
}

impl Drop for HeldDisk<'_> {
    fn drop(&mut self) {
        self.0.lock().is_held = false;
        self.0.released.notify_all();
    }
}

impl Drop for FaultDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.seen).stderr(Stdio::null()).status();
        if let Some(thread) = self.thread.take() {
            // It ends when the last file is closed. A panic of it has failed the test before.
            let _ = thread.join();
        }
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while writes are held; then decides on a write of `len` bytes at `offset` of the file `node`.
    fn judge(&self, node: u64, name: &str, offset: u64, len: u64) -> Result<(), i32> {
        let held = self.released.wait_while(self.lock(), |faults| faults.is_held);
        held.unwrap_or_else(PoisonError::into_inner).judge(node, name, offset, len)
    }
}

impl Faults {
    fn judge(&mut self, node: u64, name: &str, offset: u64, len: u64) -> Result<(), i32> {
        let errno = self.errno(node, offset, len);
        match errno {
            None => self.bytes += len,
            Some(_) if self.failed_nodes.insert(node) => self.failed.push(name.to_owned()),
            Some(_) => {}
        }
        errno.map_or(Ok(()), Err)
    }

    fn errno(&mut self, node: u64, offset: u64, len: u64) -> Option<i32> {
        if self.bad.get(&node).is_some_and(|bad| offset + len > *bad) {
            return Some(EIO);
        }
        match self.fault.as_mut()? {
            Fault::BadBlocks { after_bytes, files } if self.bytes + len > *after_bytes && *files > 0 => {
                if self.bad.contains_key(&node) {
                    return None;
                }
                *files -= 1;
                self.bad.insert(node, offset);
                Some(EIO)
            }
            Fault::Full { after_bytes, .. } if self.bytes + len > *after_bytes => {
                self.full_since.get_or_insert_with(Instant::now);
                self.is_full().then_some(ENOSPC)
            }
            _ => None,
        }
    }

    fn is_full(&self) -> bool {
        match (self.fault, self.full_since) {
            (Some(Fault::Full { lasts, .. }), Some(since)) => since.elapsed() < lasts,
            _ => false,
        }
    }
}

/// Opens the device and mounts it; `None` where that is not permitted.
fn connect(seen: &Path) -> Option<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    // mount(8) passes the device on to the kernel as its own descriptor 0.
    let stdin = Stdio::from(device.try_clone().ok()?);
    let options = "fd=0,rootmode=40000,user_id=0,group_id=0,default_permissions";
    let mut mount = Command::new("mount");
    mount.args(["-i", "-n", "-t", "fuse", "-o", options, "quaff-test"]).arg(seen).stdin(stdin);
    mount.output().is_ok_and(|done| done.status.success()).then_some(device)
}

/// Answers requests until the file system is unmounted.
fn serve(mut device: File, state: &State, real: PathBuf) {
    let mut files = answers::Files::new(real);
    let mut request = vec![0; WRITE_BYTES_MAX + (64 << 10)];
    loop {
        match device.read(&mut request) {
            Ok(len) => {
                let request = Request::new(&request[..len]);
                if let Some(answer) = answers::answer(&mut files, state, &request) {
                    let Answer { errno, body } = answer;
                    // A request that was interrupted needs no answer any more.
                    let _ = device.write_all(&answers::message(request.unique, errno, &body));
                }
            }
            // The request was withdrawn before it was read (ENOENT, EINTR), or there are none yet.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 4 | 11)) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of writes of 10 bytes each: file and offset.
    fn errors(fault: Fault, writes: &[(u64, u64)]) -> Vec<i32> {
        let mut faults = Faults { fault: Some(fault), ..Faults::default() };
        writes.iter().map(|(node, at)| faults.judge(*node, "name", *at, 10).err().unwrap_or(0)).collect()
    }

    #[test]
    fn a_bad_block_stays_bad_and_other_files_are_good() {
        let fault = Fault::BadBlocks { after_bytes: 15, files: 1 };
        let writes = [(7, 0), (7, 10), (7, 10), (7, 20), (7, 0), (8, 0), (8, 10)];
        assert_eq!(errors(fault, &writes), [0, EIO, EIO, EIO, 0, 0, 0]);
        let fault = Fault::BadBlocks { after_bytes: 0, files: 2 };
        assert_eq!(errors(fault, &[(7, 0), (7, 0), (8, 0), (9, 0)]), [EIO, EIO, EIO, 0]);
    }

    #[test]
    fn a_full_disk_has_room_again_after_its_time() {
        let always = Fault::Full { after_bytes: 15, lasts: Duration::MAX };
        assert_eq!(errors(always, &[(7, 0), (7, 10), (8, 0)]), [0, ENOSPC, ENOSPC]);
        let never = Fault::Full { after_bytes: 15, lasts: Duration::ZERO };
        assert_eq!(errors(never, &[(7, 0), (7, 10), (8, 0)]), [0, 0, 0]);
    }

    #[test]
    fn files_are_written_read_renamed_and_removed() {
        let dir = tempfile_dir();
        let Some(disk) = FaultDisk::mount("files_are_written_read_renamed_and_removed", &dir) else { return };
        let (one, two) = (disk.path().join("one"), disk.path().join("two"));
        let bytes: Vec<u8> = (0..3_000_000u32).map(|at| (at / 1000) as u8).collect();
        std::fs::write(&one, &bytes).unwrap();
        assert!(
            std::fs::read(&one).unwrap() == bytes && std::fs::read(disk.real().join("one")).unwrap() == bytes
        );
        std::fs::rename(&one, &two).unwrap();
        File::options().write(true).open(&two).unwrap().set_len(5).unwrap();
        assert_eq!(std::fs::metadata(&two).unwrap().len(), 5);
        let names: Vec<_> =
            std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["two"]);
        std::fs::remove_file(&two).unwrap();
        assert!(!two.exists() && std::fs::read_dir(disk.real()).unwrap().next().is_none());
        disk.plan(Fault::BadBlocks { after_bytes: 0, files: 1 });
        let failed = std::fs::write(&one, b"x").unwrap_err();
        assert_eq!((failed.raw_os_error(), disk.failed()), (Some(EIO), vec!["one".to_owned()]));
        drop(disk);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_held_write_is_answered_after_the_release() {
        let dir = tempfile_dir();
        let Some(disk) = FaultDisk::mount("a_held_write_is_answered_after_the_release", &dir) else { return };
        let held = disk.hold();
        let file = disk.path().join("file");
        let writing = std::thread::spawn(move || std::fs::write(file, b"late"));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!writing.is_finished());
        drop(held);
        writing.join().unwrap().unwrap();
        assert_eq!(std::fs::read(disk.real().join("file")).unwrap(), b"late");
        drop(disk);
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// A folder of this test run; its test removes it.
    fn tempfile_dir() -> PathBuf {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        // Different numbers need no order between threads.
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("quaff-fault-disk-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        dir
    }
}
