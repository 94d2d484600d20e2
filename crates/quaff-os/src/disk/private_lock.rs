//! A lock that other users can neither take nor hold: a file in a folder that they may write to.
//!
//! Only its owner can open it, and what others put in its place counts for nothing: the lock takes the next name. It is
//! removed at its end, unless it is kept.

use super::output::Owners;
use nix::libc;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The number of names.
const NAMES: u32 = 32;
/// Attempts until a lock that was removed meanwhile is made again.
const TRIES: u32 = 100;
/// Time for all locks of a start together, and the pause between attempts.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// Longest text that is read.
const TEXT_BYTES: u64 = 4096;

/// The time for which a start waits for locks, all together.
#[derive(Debug, Clone, Copy)]
pub struct LockPatience {
    until: Instant,
}

impl LockPatience {
    /// Begins now.
    pub fn begin() -> Self {
        Self { until: Instant::now() + PATIENCE }
    }

    /// Locks a file. A process killed a moment ago may still hold it: the kernel completes its pending writes first.
    ///
    /// # Errors
    /// Another process holds it, or the file system has no locks.
    pub fn lock(self, file: &File) -> Result<(), TryLockError> {
        loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if Instant::now() < self.until => std::thread::sleep(PAUSE),
                lock => return lock,
            }
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
pub struct PrivateLock {
    /// May have a text, which the next holder reads.
    pub file: File,
    path: PathBuf,
    /// The file stays at the end.
    pub is_kept: bool,
}

impl PrivateLock {
    /// Takes the lock `name` of a folder.
    ///
    /// # Errors
    /// `WouldBlock` with the text of its file: another process holds it. Any other: the file cannot be made.
    pub fn take(dir: &Path, name: &str, patience: LockPatience) -> io::Result<Self> {
        for _ in 0..TRIES {
            if let Some(lock) = Self::try_take(dir, name, patience)? {
                return Ok(lock);
            }
        }
        Err(ErrorKind::ResourceBusy.into())
    }

    /// Takes it by the first name that is free; `None` if the file was removed meanwhile. Each file of these users that
    /// is there is looked at: its process may have found other names taken.
    fn try_take(dir: &Path, name: &str, patience: LockPatience) -> io::Result<Option<Self>> {
        let owners = Owners::of(dir)?;
        let (mut own, mut free) = (None, None);
        for number in 0..NAMES {
            let path = path(dir, name, number);
            match open(&path, false) {
                Ok(file) if owners.own_file(&file.metadata()?) => match patience.lock(&file) {
                    Err(TryLockError::WouldBlock) => {
                        return Err(io::Error::new(ErrorKind::WouldBlock, text(&file)));
                    }
                    // Some file systems have no locks.
                    Ok(()) | Err(TryLockError::Error(_)) => own = own.or(Some((file, path))),
                },
                Err(error) if error.kind() == ErrorKind::NotFound => free = free.or(Some(path)),
                _ => {}
            }
        }
        let (file, path) = match (own, free) {
            (Some(own), _) => own,
            (None, None) => return Err(no_name(name)),
            (None, Some(path)) => match open(&path, true) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
                Err(error) => return Err(error),
                Ok(file) if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) => return Ok(None),
                Ok(file) => (file, path),
            },
        };
        // Its holder may have removed it at its end, after it was opened here.
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let named = path.symlink_metadata().map(identity).ok();
        if named.is_none() || named != file.metadata().map(identity).ok() {
            // The name may be of another holder's file: it stays.
            return Ok(None);
        }
        Ok(Some(Self { file, path, is_kept: false }))
    }

    /// The text that an earlier holder has left.
    pub fn text(&self) -> String {
        text(&self.file)
    }
}

impl Drop for PrivateLock {
    fn drop(&mut self) {
        if !self.is_kept {
            // The next holder uses one that remains.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn path(dir: &Path, name: &str, number: u32) -> PathBuf {
    match number {
        0 => dir.join(name),
        number => dir.join(format!("{name}-{number}")),
    }
}

fn open(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(is_new).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn text(file: &File) -> String {
    let mut text = String::new();
    // Damage is no text.
    let _ = file.take(TEXT_BYTES).read_to_string(&mut text);
    text
}

fn no_name(name: &str) -> io::Error {
    let words =
        format!("files of other users are in the place of its lock ({name}): use a folder of your own");
    io::Error::new(ErrorKind::PermissionDenied, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const NAME: &str = ".lock";

    fn take(dir: &Path) -> io::Result<PrivateLock> {
        PrivateLock::take(dir, NAME, LockPatience::begin())
    }

    fn left(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn one_at_a_time_has_the_folder_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let lock = take(dir.path()).unwrap();
        assert_eq!(dir.path().join(NAME).metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(take(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(lock);
        assert_eq!(left(dir.path()), 0);
        fs::write(dir.path().join(NAME), "of a run that was killed").unwrap();
        let lock = take(dir.path()).unwrap();
        assert_eq!(lock.text(), "of a run that was killed");
        drop(lock);
        assert_eq!(left(dir.path()), 0);
    }

    /// Runs that begin and end at the same moment never have the folder together.
    #[test]
    fn a_lock_that_is_removed_is_made_again() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let (dir, inside) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        if let Ok(_lock) = take(dir.path()) {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert_eq!(left(dir.path()), 0);
    }

    #[test]
    fn files_of_others_in_its_place_count_for_nothing() {
        if !nix::unistd::geteuid().is_root() {
            return crate::testing::skip("files_of_others_in_its_place_count_for_nothing", "not root");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let place = |number| path(dir.path(), NAME, number);
        fs::write(place(0), "").unwrap();
        chown(place(0), Some(65_534), None).unwrap();
        symlink("/etc/passwd", place(1)).unwrap();
        nix::unistd::mkfifo(&place(2), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(place(3)).unwrap();
        // Held by another user, as is the folder itself.
        let (theirs, folder) = (File::open(place(0)).unwrap(), File::open(dir.path()).unwrap());
        theirs.try_lock().unwrap();
        folder.try_lock().unwrap();
        let start = Instant::now();
        let lock = take(dir.path()).unwrap();
        assert!(start.elapsed() < PATIENCE / 2 && place(4).is_file());
        // The other user makes a name free: the lock is still found.
        fs::remove_file(place(0)).unwrap();
        assert_eq!(take(dir.path()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(lock);
        assert_eq!(left(dir.path()), 3);
        for number in 0..NAMES {
            let _ = fs::create_dir(place(number));
        }
        assert!(take(dir.path()).unwrap_err().to_string().contains("a folder of your own"));
    }
}
