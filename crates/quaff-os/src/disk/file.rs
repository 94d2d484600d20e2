//! Files as a recorder needs them: O_DIRECT and its alignment, space set aside, no name until ready.

use crate::{Error, Result, Try};
use nix::fcntl::{AtFlags, FallocateFlags, OFlag, fallocate};
use nix::unistd::linkat;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What direct writes to a file must be aligned to, bytes (statx(2), STATX_DIOALIGN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Direct {
    /// Offsets and lengths.
    pub offset_align: usize,
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in all.
    pub total: u64,
    /// Bytes that we may still use.
    pub free: u64,
}

/// How this file, opened with O_DIRECT, wants to be written; `None` when its file system would only
/// pretend (tmpfs) or refuses.
pub fn direct(file: &File) -> Option<Direct> {
    // SAFETY: statx is plain data; all zero is a valid value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is an empty NUL-terminated string, and the kernel writes one `struct statx`.
    let answer = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &mut found)
    };
    let known = answer == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0;
    let offset_align = found.stx_dio_offset_align as usize;
    (known && offset_align > 0).then_some(Direct { offset_align })
}

/// Opens a new file without a name in `dir` (O_TMPFILE), direct when asked. A crash leaves nothing
/// behind until [`link_unnamed`] has given it a name.
pub fn open_unnamed(dir: &Path, direct: bool) -> io::Result<File> {
    let flag = OFlag::O_TMPFILE | if direct { OFlag::O_DIRECT } else { OFlag::empty() };
    File::options().read(true).write(true).mode(0o640).custom_flags(flag.bits()).open(dir)
}

/// Gives an unnamed file its name. EEXIST when the name is taken.
pub fn link_unnamed(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    let here = nix::fcntl::AT_FDCWD;
    linkat(here, Path::new(&from), here, path, AtFlags::AT_SYMLINK_FOLLOW).map_err(io::Error::from)
}

/// Sets `bytes` aside from `offset` on without changing the file's size, so that writing there
/// allocates nothing. `false` where the file system cannot.
pub fn preallocate(file: &File, offset: u64, bytes: u64) -> bool {
    fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset as i64, bytes as i64).is_ok()
}

/// Takes the exclusive lock of a file, flock(2), without waiting; `false` when another process has it.
pub fn lock_file(file: &File) -> bool {
    file.try_lock().is_ok()
}

/// Whether a path names something, a dangling link included.
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The room on the file system that holds `path`.
pub fn space(path: &Path) -> Result<Space> {
    let found = nix::sys::statvfs::statvfs(path)
        .trying(|| format!("ask for the free space at {}", path.display()))?;
    let unit = found.fragment_size();
    if unit == 0 {
        return Err(Error::new(
            format!("ask for the free space at {}", path.display()),
            io::ErrorKind::Unsupported,
        ));
    }
    Ok(Space { total: found.blocks() * unit, free: found.blocks_available() * unit })
}

/// Whether the file system that holds `path` is memory only (tmpfs, ramfs): no place to measure a
/// disk.
pub fn is_memory(path: &Path) -> Result<bool> {
    use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};
    /// linux/magic.h
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    let found = statfs(path).trying(|| format!("ask what file system {} is on", path.display()))?;
    Ok([TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.filesystem_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_no_disk() {
        // proc(5) is neither; /dev/shm is tmpfs by its own documentation, shm_overview(7).
        assert!(is_memory(Path::new("/dev/shm")).expect("asked"));
        assert!(!is_memory(Path::new("/proc")).expect("asked"));
    }

    #[test]
    fn an_unnamed_file_appears_when_it_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(file) = open_unnamed(dir.path(), false) else { return };
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().join("a.part");
        link_unnamed(&file, &path).unwrap();
        assert_eq!(link_unnamed(&file, &path).unwrap_err().raw_os_error(), Some(libc::EEXIST));
        assert!(exists(&path));
    }

    #[test]
    fn setting_space_aside_leaves_the_size_alone() {
        let file = tempfile::tempfile().unwrap();
        if preallocate(&file, 0, 1 << 20) {
            assert_eq!(file.metadata().unwrap().len(), 0);
        }
        let space = space(Path::new("/")).unwrap();
        assert!(space.free <= space.total && space.total > 0);
    }
}
