//! Files for recording: O_DIRECT and its alignment, preallocation, unnamed files, locks, free space.

use crate::{Error, Result, Try};
use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, FallocateFlags, FcntlArg, OFlag, PosixFadviseAdvice, RenameFlags, fallocate, fcntl,
    posix_fadvise, renameat2,
};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statfs::{FsType, MSDOS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs, statfs};
use nix::sys::statvfs::{fstatvfs, statvfs};
use nix::unistd::{AccessFlags, access};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The capacity of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes.
    pub total: u64,
    /// Bytes available to this user.
    pub free: u64,
    /// It is in memory (tmpfs, ramfs).
    pub is_memory: bool,
}

/// Alignment where the kernel does not report one: no disk needs more than a page.
const ASSUMED_ALIGN: usize = 4096;

/// The alignment of offsets and lengths for writes to this file, opened with O_DIRECT, in bytes (statx(2),
/// STATX_DIOALIGN). `None` where its file system does not support direct writes or ignores the flag (tmpfs).
pub fn direct_align(file: &File) -> Option<usize> {
    // SAFETY: statx is plain data; all zero is a valid value.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is an empty NUL-terminated string, and the kernel writes one `struct statx`.
    let answer = unsafe {
        libc::statx(file.as_raw_fd(), c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &mut found)
    };
    let known = answer == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0;
    if !known {
        return assume_direct(file);
    }
    let offset_align = found.stx_dio_offset_align as usize;
    (offset_align > 0).then_some(offset_align)
}

/// For Linux before 6.1 and for file systems without STATX_DIOALIGN: those that open a file with O_DIRECT
/// accept whole pages; only tmpfs ignores the flag.
fn assume_direct(file: &File) -> Option<usize> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL).ok()?);
    let in_memory = fstatfs(file).ok()?.filesystem_type() == TMPFS_MAGIC;
    (flags.contains(OFlag::O_DIRECT) && !in_memory).then_some(ASSUMED_ALIGN)
}

/// Returns an error if this process may not write to a path, whatever it is: by its mode, or because its file system is
/// read-only (access(2)).
pub fn check_writable(path: &Path) -> Result<()> {
    access(path, AccessFlags::W_OK).trying(|| format!("write to {}", path.display()))
}

/// Opens a new unnamed file in `dir` (O_TMPFILE), with O_DIRECT if `direct`. After a crash no file remains
/// unless it was linked (linkat(2)).
pub fn open_unnamed(dir: &Path, direct: bool) -> io::Result<File> {
    let flag = OFlag::O_TMPFILE | if direct { OFlag::O_DIRECT } else { OFlag::empty() };
    File::options().read(true).write(true).mode(0o640).custom_flags(flag.bits()).open(dir)
}

/// Preallocates `bytes` from `offset` without changing the file's size. Returns `false` where the file system
/// does not support that.
pub fn preallocate(file: &File, offset: u64, bytes: u64) -> bool {
    loop {
        // A signal may interrupt it before it has done anything.
        match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, offset as i64, bytes as i64) {
            Err(Errno::EINTR) => {}
            done => return done.is_ok(),
        }
    }
}

/// Writes the file's whole file system to disk, including its journal (syncfs(2)).
pub fn sync_all(file: &File) -> io::Result<()> {
    nix::unistd::syncfs(file).map_err(io::Error::from)
}

/// Renames a file without replacing another: EEXIST if `to` exists (renameat2(2), RENAME_NOREPLACE).
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        // A file system without the flag, such as NFS.
        Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => rename_unless_seen(from, to),
        renamed => renamed.map_err(io::Error::from),
    }
}

/// Renames unless `to` exists. A file that appears between the check and the rename is replaced.
fn rename_unless_seen(from: &Path, to: &Path) -> io::Result<()> {
    match to.symlink_metadata() {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => std::fs::rename(from, to),
    }
}

/// Writes the names in a folder to disk: a renamed file keeps its name after a power failure (fsync(2)).
pub fn sync_folder(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // A file system without it, such as some of FUSE.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        synced => synced,
    }
}

/// Opens a file of a folder that other users may write to: no symbolic link is followed, and no pipe is waited for.
/// Anything but a regular file is an error.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::options().read(true).write(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Opens a file of such a folder for reading, also by a link. Anything but a regular file is an error, and is not
/// waited for.
pub fn open_found(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits()).open(path)?;
    let is_file = file.metadata()?.is_file();
    if is_file { Ok(file) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")) }
}

/// Returns whether a folder is of a file system through which the kernel shows its state, such as procfs: reading its
/// files may wait for events.
pub fn is_of_kernel(dir: &Path) -> bool {
    /// linux/magic.h: procfs, sysfs, debugfs, tracefs, securityfs, cgroup and cgroup2
    const MAGICS: [FsType; 7] = [
        FsType(0x9fa0),
        FsType(0x6265_6572),
        FsType(0x6462_6720),
        FsType(0x7472_6163),
        FsType(0x7363_6673),
        FsType(0x0027_e0eb),
        FsType(0x6367_7270),
    ];
    statfs(dir).is_ok_and(|found| MAGICS.contains(&found.filesystem_type()))
}

/// The longest file that this process can write in a folder, bytes: by its limit (RLIMIT_FSIZE), and on FAT by the
/// length field of a folder (4 GiB). `u64::MAX` without a limit that is known.
pub fn file_bytes_max(dir: &Path) -> u64 {
    // RLIM_INFINITY is the largest number.
    let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(limit, _)| limit);
    let is_fat = statfs(dir).is_ok_and(|found| found.filesystem_type() == MSDOS_SUPER_MAGIC);
    if is_fat { limit.min(u32::MAX.into()) } else { limit }
}

/// Removes the clean pages of a file from the page cache (POSIX_FADV_DONTNEED).
pub fn drop_page_cache(path: &Path) -> Result<()> {
    let tried = || format!("remove {} from the page cache", path.display());
    let file = File::open(path).trying(tried)?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).trying(tried)
}

/// Distance between the end of a file and the pages that [`write_behind`] removes, bytes.
const BEHIND_BYTES: u64 = 32 << 20;

/// Starts to write a range of the page cache to disk (sync_file_range(2)), so that dirty pages do not pile up until
/// they stop the writer, and removes the pages well before the range (POSIX_FADV_DONTNEED). Does not wait; an error of
/// the disk is left for the sync of the file.
pub fn write_behind(file: &File, offset: u64, bytes: u64) {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the call takes no pointers. A failure changes nothing: the kernel writes the pages later.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, bytes as i64, flags) };
    let clean = offset.saturating_sub(BEHIND_BYTES);
    if clean > 0 {
        // Pages that remain only take memory.
        let _ = posix_fadvise(file, 0, clean as i64, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }
}

/// Bytes that this user may still write to the file system of a file; 0 where it does not say.
pub fn free_bytes(file: &File) -> u64 {
    fstatvfs(file).map_or(0, |found| found.blocks_available() * found.fragment_size())
}

/// The file system that holds `path`.
pub fn space(path: &Path) -> Result<Space> {
    /// linux/magic.h
    const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
    let tried = || format!("read the free space at {}", path.display());
    let found = statvfs(path).trying(tried)?;
    let unit = found.fragment_size();
    if unit == 0 {
        return Err(Error::new(tried(), io::ErrorKind::Unsupported));
    }
    let is_memory = [TMPFS_MAGIC, RAMFS_MAGIC].contains(&statfs(path).trying(tried)?.filesystem_type());
    Ok(Space { total: found.blocks() * unit, free: found.blocks_available() * unit, is_memory })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    #[test]
    fn shared_memory_is_no_disk() {
        // proc(5) is neither; /dev/shm is tmpfs by its own documentation, shm_overview(7).
        assert!(space(Path::new("/dev/shm")).expect("asked").is_memory);
        assert!(!space(Path::new("/proc")).expect("asked").is_memory);
    }

    #[test]
    fn preallocation_keeps_the_size() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        if !preallocate(&file, 0, 1 << 20) {
            return skip("preallocation_keeps_the_size", "no fallocate in the test folder");
        }
        let found = file.metadata().unwrap();
        assert!(found.len() == 0 && found.blocks() * 512 >= 1 << 20, "{found:?}");
        file.set_len(0).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), 0, "truncation frees it");
    }

    #[test]
    fn a_rename_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        for rename in [rename_new, rename_unless_seen] {
            std::fs::write(&from, b"new").unwrap();
            std::fs::write(&to, b"old").unwrap();
            assert_eq!(rename(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&to).unwrap(), b"old");
            std::fs::remove_file(&to).unwrap();
            rename(&from, &to).unwrap();
            assert_eq!(std::fs::read(&to).unwrap(), b"new");
        }
        sync_folder(dir.path()).unwrap();
    }

    #[test]
    fn only_a_regular_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| dir.path().join(name));
        std::fs::write(&file, b"x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(open_regular(&file).is_ok());
        assert!(open_regular(&link).is_err());
        assert!(open_regular(&pipe).is_err(), "and does not wait for a writer");
        assert!(open_regular(dir.path()).is_err());
        assert!(open_found(&file).is_ok() && open_found(&link).is_ok());
        assert!(open_found(&pipe).is_err() && open_found(dir.path()).is_err());
        assert!(is_of_kernel(Path::new("/proc")) && !is_of_kernel(dir.path()));
    }

    #[test]
    fn free_space_is_part_of_all() {
        let space = space(Path::new("/")).unwrap();
        assert!(space.free <= space.total && space.total > 0);
    }

    #[test]
    fn direct_is_assumed_where_it_was_opened_except_in_memory() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(assume_direct(&File::open(&path).unwrap()), None, "without O_DIRECT");
        if let Ok(file) = open_unnamed(Path::new("/dev/shm"), true) {
            assert_eq!(assume_direct(&file), None, "tmpfs");
        }
        let Ok(file) = File::options().write(true).custom_flags(libc::O_DIRECT).open(&path) else {
            return skip("direct_is_assumed_where_it_was_opened", "no O_DIRECT in the source folder");
        };
        assert_eq!(assume_direct(&file), Some(4096));
    }
}
