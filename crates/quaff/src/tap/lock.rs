//! The locks of the ports of a tap: one port belongs to one running tap. Each is a file that root alone can open,
//! locked (flock(2)) until the process ends, however it ends. A port is known by its network namespace and its index.

use crate::doctor::{STATE, machine};
use crate::{Error, Result};
use quaff_os::rtnl::Link;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The locks of two ports, held while it lives. Their files are removed then: namespaces come and go.
#[derive(Debug)]
pub(super) struct PortLocks {
    locks: Vec<(PathBuf, File)>,
}

impl PortLocks {
    /// Locks both ports.
    ///
    /// # Errors
    /// A tap with one of the ports runs; the error names its process.
    pub(super) fn take(links: &[Link; 2]) -> Result<Self> {
        Self::take_in(Path::new(STATE).parent().unwrap_or(Path::new("/run/quaff")), links)
    }

    fn take_in(dir: &Path, links: &[Link; 2]) -> Result<Self> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
        made.map_err(|errno| needs_root("make the folder", dir, errno))?;
        let netns = machine::netns_inode()?;
        let mut taken = Self { locks: Vec::new() };
        for port in links {
            // Files in this folder that end in ".lock" are labs.
            let path = dir.join(format!("tap-{netns}-{}.port", port.index));
            let file = lock(&path, &port.name)?;
            taken.locks.push((path, file));
        }
        Ok(taken)
    }
}

impl Drop for PortLocks {
    fn drop(&mut self) {
        for (path, file) in &self.locks {
            // While it is locked, no other process removes it. One that stays does no harm.
            if is_current(file, path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn lock(path: &Path, port: &str) -> Result<File> {
    let failed = |errno| needs_root("lock", path, errno);
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&mut file, port)),
            Err(TryLockError::Error(errno)) => return Err(failed(errno)),
        }
        // Between both calls its owner may have removed it.
        if is_current(&file, path) {
            // For the message to others; without it the lock holds too.
            let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
            return Ok(file);
        }
    }
}

fn needs_root(tried: &str, path: &Path, errno: io::Error) -> Error {
    let is_refused = errno.kind() == io::ErrorKind::PermissionDenied;
    let error = quaff_os::Error::new(format!("{tried} {}", path.display()), errno);
    if is_refused { error.advise("a tap needs root; try with sudo").into() } else { error.into() }
}

/// The path still names the file.
fn is_current(file: &File, path: &Path) -> bool {
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    file.metadata().ok().map(inode) == path.metadata().ok().map(inode)
}

fn in_use(file: &mut File, port: &str) -> Error {
    let mut pid = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut pid));
    let (who, end) = match pid.trim().parse::<u32>() {
        Ok(pid) => (format!(" by process {pid}"), format!(" ('kill -INT {pid}')")),
        Err(_) => (String::new(), String::new()),
    };
    Error::Plan(format!(
        "{port} is a port of a tap that runs{who}: a second one, or --remove, would cut its line; end it first{end}, which \
         restores the ports"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32) -> Link {
        Link {
            index,
            name: format!("p{index}"),
            ..quaff_os::rtnl::link("lo").expect("every namespace has lo")
        }
    }

    #[test]
    fn a_port_has_one_tap() {
        let dir = tempfile::tempdir().unwrap();
        let take = |a, b| PortLocks::take_in(dir.path(), &[link(a), link(b)]);
        let first = take(1, 2).expect("free");
        for (a, b) in [(1, 2), (2, 1), (2, 3), (3, 1)] {
            let refused = take(a, b).expect_err("one of them is taken").to_string();
            assert!(refused.contains("is a port of a tap that runs by process"), "{refused}");
        }
        let other = take(3, 4).expect("what a refused one had locked is free");
        drop((first, other));
        drop(take(1, 4).expect("free again"));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "nothing stays");
    }
}
