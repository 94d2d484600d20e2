//! Waits for a file to grow while another process writes it.
//!
//! inotify(7) reports changes at once. Where it is not available (no watches left, a network file system) the
//! caller polls, which is correct but later.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use quaff_os::{Result, Try, Wakeup};
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file and the path by which it was opened.
#[derive(Debug)]
pub(super) struct Watch {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
    inotify: Option<Inotify>,
}

impl Watch {
    /// Watches `file`, which was opened as `path`.
    pub(super) fn new(path: &Path, file: &File) -> Result<Self> {
        let meta = file.metadata().trying(|| format!("read the metadata of {}", path.display()))?;
        Ok(Self { path: path.into(), identity: identity(&meta), inotify: inotify(path).ok() })
    }

    /// Returns whether the path still names the file, which was neither removed nor renamed.
    pub(super) fn is_there(&self) -> bool {
        self.path.metadata().is_ok_and(|meta| identity(&meta) == self.identity)
    }

    /// Waits until the file changes or `wakeup` is signalled, for at most `wait`. May return early. Clears
    /// `wakeup`.
    pub(super) fn wait(&self, wakeup: &Wakeup, wait: Duration) {
        let mut fds = vec![PollFd::new(wakeup.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.inotify.iter().map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)));
        // If poll fails, the caller checks the file and waits again.
        let _ = poll(&mut fds, PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX));
        wakeup.clear();
        if let Some(inotify) = &self.inotify {
            let _ = inotify.read_events();
        }
    }
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn inotify(path: &Path) -> nix::Result<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    // IN_ATTRIB reports a removal at once; IN_DELETE_SELF only when the last descriptor is closed.
    let what = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ATTRIB;
    inotify.add_watch(path, what)?;
    Ok(inotify)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    /// The duration of a wait during which `change` happens.
    fn waited(watch: &Watch, wakeup: &Wakeup, change: impl FnOnce() + Send) -> Duration {
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                change();
            });
            watch.wait(wakeup, LONG);
        });
        started.elapsed()
    }

    #[test]
    fn growth_removal_and_wakeup_end_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = File::create(&path).unwrap();
        let (watch, wakeup) = (Watch::new(&path, &file).unwrap(), Wakeup::new().unwrap());
        assert!(watch.is_there());
        assert!(waited(&watch, &wakeup, || wakeup.signal()) < LONG / 2);
        if watch.inotify.is_none() {
            return quaff_os::testing::skip("growth_removal_and_wakeup_end_the_wait", "no inotify here");
        }
        assert!(waited(&watch, &wakeup, || file.write_all(b"more").unwrap()) < LONG / 2);
        assert!(watch.is_there());
        let other = dir.path().join("other");
        assert!(waited(&watch, &wakeup, || std::fs::rename(&path, &other).unwrap()) < LONG / 2);
        assert!(!watch.is_there());
        File::create(&path).unwrap();
        assert!(!watch.is_there(), "another file under the same name");
    }
}
