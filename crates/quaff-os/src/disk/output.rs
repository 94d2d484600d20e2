//! Opening a file that is written, by a path whose folders others may write to. All outputs with a name of the user are
//! opened here; files of a folder have names of their own, which are always new.
//!
//! A symbolic link is followed only if it belongs to the user who writes, to root, or to the owner of a folder that no
//! other user can write to. The same holds for an existing file or pipe. This is the rule of `fs.protected_symlinks`,
//! `fs.protected_regular` and `fs.protected_fifos` (Documentation/admin-guide/sysctl/fs.rst), whatever their settings,
//! for each link on the way and for folders without the sticky bit too. It never looks at a path twice: each folder is
//! opened relative to the one before.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Rights of a new file without the bits of umask(2).
const MODE: Mode = Mode::from_bits_truncate(0o640);
/// Symbolic links on the way, at most, as the kernel has it (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;
/// Writable by the group or by all.
const SHARED_BITS: u32 = 0o022;

/// The users whose files in a folder are those of this process: the user who makes files in the calling thread, the
/// process's own, root, and the owner of the folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    users: [u32; 4],
    /// Other users can write to the folder.
    is_shared: bool,
}

impl Owners {
    /// Those of a folder, for the calling thread.
    ///
    /// # Errors
    /// The folder cannot be examined.
    pub fn of(folder: &Path) -> io::Result<Self> {
        folder.metadata().map(|found| Self::of_metadata(&found))
    }

    fn of_metadata(folder: &Metadata) -> Self {
        let user = geteuid().as_raw();
        let users = [file_user().unwrap_or(user), user, 0, folder.uid()];
        Self { users, is_shared: folder.mode() & SHARED_BITS != 0 }
    }

    fn has(&self, found: &Metadata) -> bool {
        self.users.contains(&found.uid())
    }

    /// Returns whether an entry of the folder is of these users. Where no other user can write, each is. Where others
    /// can, a file with several names is not: they can give a name to a file of any user.
    pub fn own(&self, found: &Metadata) -> bool {
        let is_single = !found.is_file() || found.nlink() == 1;
        !self.is_shared || self.has(found) && is_single
    }

    /// Returns whether it is a regular file of these users.
    pub fn own_file(&self, found: &Metadata) -> bool {
        found.is_file() && self.own(found)
    }

    /// Returns whether what stands in the folder is used as it is: it is of these users, or no other user can have put
    /// it there.
    fn trust(&self, found: &Metadata) -> bool {
        !self.is_shared || self.has(found)
    }
}

/// Opens a file to write to, with these flags of open(2); a new one gets the mode 0640. What another user
/// may have put in its way is an error.
pub fn open_output(path: &Path, flags: i32) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC;
    let mut walk = Walk::begin(path)?;
    loop {
        let name = walk.next.pop_front().ok_or(io::ErrorKind::InvalidInput)?;
        if !walk.next.is_empty() {
            walk.enter(&name)?;
        } else if let Some(file) = walk.open(&name, flags)? {
            return Ok(file);
        }
    }
}

/// Writes a whole file with these rights, opened as by [`open_output`].
///
/// # Errors
/// It cannot be opened or written, or another user may have put something in its way.
pub fn write_output(path: &Path, bytes: &[u8], mode: u32) -> io::Result<File> {
    let mut file = open_output(path, (OFlag::O_WRONLY | OFlag::O_CREAT).bits())?;
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// A path on the way to its file.
struct Walk {
    /// The folder so far.
    folder: OwnedFd,
    next: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    fn begin(path: &Path) -> io::Result<Self> {
        let mut walk = Self { folder: open_folder(Path::new("."))?, next: VecDeque::new(), links: 0 };
        walk.push(path)?;
        // A path that ends in a slash names a folder.
        if path.as_os_str().as_bytes().ends_with(b"/") || walk.next.is_empty() {
            return Err(Errno::EISDIR.into());
        }
        Ok(walk)
    }

    /// Puts a path before the rest.
    fn push(&mut self, path: &Path) -> io::Result<()> {
        if path.is_absolute() {
            self.folder = open_folder(Path::new("/"))?;
        }
        let names =
            path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        for name in names.rev() {
            self.next.push_front(name.as_os_str().to_owned());
        }
        Ok(())
    }

    /// Goes into a folder of the path.
    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = File::from(openat(&self.folder, name, flags, Mode::empty())?);
        let meta = found.metadata()?;
        if !meta.is_symlink() {
            self.folder = found.into();
            return Ok(());
        }
        match self.follow(name, &meta)? {
            true => Ok(()),
            // A link of proc(5) is no path.
            false => {
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
                self.folder = openat(&self.folder, name, flags, Mode::empty())?;
                Ok(())
            }
        }
    }

    /// Opens the file; `None` if it is a link that is followed.
    fn open(&mut self, name: &OsStr, flags: OFlag) -> io::Result<Option<File>> {
        // A folder cannot be written to: an error of the kernel.
        let existing = (flags - OFlag::O_CREAT - OFlag::O_TRUNC) | OFlag::O_NOFOLLOW;
        let look = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match openat(&self.folder, name, look, Mode::empty()) {
            Ok(found) => File::from(found).metadata()?,
            Err(Errno::ENOENT) if flags.contains(OFlag::O_CREAT) => {
                let new = openat(&self.folder, name, flags | OFlag::O_EXCL | OFlag::O_NOFOLLOW, MODE);
                return match new {
                    // Another process has just made it: look again.
                    Err(Errno::EEXIST) => {
                        self.next.push_front(name.to_owned());
                        self.count_link().map(|()| None)
                    }
                    new => Ok(Some(File::from(new?))),
                };
            }
            Err(errno) => return Err(errno.into()),
        };
        if found.is_symlink() {
            return match self.follow(name, &found)? {
                true => Ok(None),
                false => Ok(Some(openat(&self.folder, name, flags - OFlag::O_NOFOLLOW, MODE)?.into())),
            };
        }
        // A device is where root has made it.
        let is_plain = found.is_file() || is_pipe(&found);
        if is_plain && !self.owners()?.trust(&found) {
            return Err(refuse("a file", name, found.uid()));
        }
        let file = File::from(openat(&self.folder, name, existing, Mode::empty())?);
        let opened = file.metadata()?;
        if is_plain && !self.owners()?.trust(&opened) {
            return Err(refuse("a file", name, opened.uid()));
        }
        if flags.contains(OFlag::O_TRUNC) && opened.is_file() {
            file.set_len(0)?;
        }
        Ok(Some(file))
    }

    /// Follows a link; `false` for one of proc(5), which only the kernel can follow.
    fn follow(&mut self, name: &OsStr, found: &Metadata) -> io::Result<bool> {
        self.count_link()?;
        if fstatfs(&self.folder)?.filesystem_type() == PROC_SUPER_MAGIC {
            return Ok(false);
        }
        if !self.owners()?.trust(found) {
            return Err(refuse("a symbolic link", name, found.uid()));
        }
        let to = PathBuf::from(readlinkat(self.folder.as_fd(), name)?);
        if to.as_os_str().as_bytes().ends_with(b"/") && self.next.is_empty() {
            return Err(Errno::EISDIR.into());
        }
        self.push(&to).map(|()| true)
    }

    fn count_link(&mut self) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX { Err(Errno::ELOOP.into()) } else { Ok(()) }
    }

    fn owners(&self) -> io::Result<Owners> {
        let folder = File::from(self.folder.try_clone()?).metadata()?;
        Ok(Owners::of_metadata(&folder))
    }
}

fn refuse(what: &str, name: &OsStr, user: u32) -> io::Error {
    let name = Path::new(name).display();
    let words = format!(
        "{name} is {what} of another user (ID {user}) in a folder that others can write to: remove it, or choose another \
         path"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, words)
}

/// The user with whose rights the calling thread uses files, by proc(5): a sandbox permits no call that returns it.
fn file_user() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    // Real, effective, saved, of files.
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().nth(3)?.parse().ok()
}

fn is_pipe(found: &Metadata) -> bool {
    found.mode() & libc::S_IFMT == libc::S_IFIFO
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    const WRITE: i32 = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
    const STRANGER: u32 = 65_534;

    /// A folder of this mode, with a file `victim` beside it.
    fn folder(mode: u32) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (shared, victim) = (dir.path().join("shared"), dir.path().join("victim"));
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(mode)).unwrap();
        fs::write(&victim, "kept").unwrap();
        (dir, shared, victim)
    }

    fn skips(test: &str) -> bool {
        let skips = !geteuid().is_root();
        if skips {
            crate::testing::skip(test, "not root");
        }
        skips
    }

    #[test]
    fn a_link_or_a_file_of_another_user_in_a_shared_folder_is_refused() {
        if skips("a_link_or_a_file_of_another_user_in_a_shared_folder_is_refused") {
            return;
        }
        for mode in [0o1777, 0o777, 0o775, 0o1775] {
            let (_dir, shared, victim) = folder(mode);
            let link = shared.join("out");
            symlink(&victim, &link).unwrap();
            lchown(&link, Some(STRANGER), None).unwrap();
            let above = shared.join("above");
            symlink("..", &above).unwrap();
            lchown(&above, Some(STRANGER), None).unwrap();
            let file = shared.join("file");
            fs::write(&file, "theirs").unwrap();
            chown(&file, Some(STRANGER), None).unwrap();
            let pipe = shared.join("pipe");
            nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
            chown(&pipe, Some(STRANGER), None).unwrap();
            for planted in [link, above.join("victim"), above.join("new"), file.clone(), pipe] {
                let error = open_output(&planted, WRITE).unwrap_err();
                assert!(error.to_string().contains("another user (ID 65534)"), "{planted:?}: {error}");
            }
            assert_eq!(
                (fs::read(&victim).unwrap(), fs::read(&file).unwrap()),
                (b"kept".into(), b"theirs".into())
            );
            assert!(!victim.with_file_name("new").exists());
        }
    }

    #[test]
    fn own_links_are_followed_and_those_in_a_folder_that_only_its_owner_writes_to() {
        for mode in [0o755, 0o1777] {
            let (_dir, shared, victim) = folder(mode);
            let names = ["link", "again", "new", "up"].map(|name| shared.join(name));
            symlink("again", &names[0]).unwrap();
            symlink(&victim, &names[1]).unwrap();
            symlink("made", &names[2]).unwrap();
            symlink("..", &names[3]).unwrap();
            if mode == 0o755 && geteuid().is_root() {
                lchown(&names[1], Some(STRANGER), None).unwrap();
            }
            open_output(&names[0], WRITE).unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"", "truncated");
            open_output(&names[2], WRITE).unwrap();
            open_output(&names[3].join("shared/../beside"), WRITE).unwrap();
            let made = shared.join("made").metadata().unwrap();
            assert_eq!(made.mode() & 0o777 & !0o640, 0);
            assert!(victim.with_file_name("beside").is_file());
        }
    }

    #[test]
    fn devices_and_descriptors_are_opened_as_by_their_paths() {
        let (_dir, shared, victim) = folder(0o755);
        let file = File::options().write(true).open(&victim).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        for path in [format!("/proc/self/fd/{number}"), format!("/dev/fd/{number}"), "/dev/null".to_owned()] {
            open_output(Path::new(&path), WRITE).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let errno = |path: &Path| open_output(path, WRITE).unwrap_err().raw_os_error();
        assert_eq!(errno(&shared), Some(libc::EISDIR));
        assert_eq!(errno(&shared.join("x/")), Some(libc::EISDIR));
        assert_eq!(errno(&shared.join("none/x")), Some(libc::ENOENT));
        assert_eq!(errno(&victim.join("x")), Some(libc::ENOTDIR));
        symlink("itself", shared.join("itself")).unwrap();
        assert_eq!(errno(&shared.join("itself")), Some(libc::ELOOP));
        assert!(open_output(Path::new(""), WRITE).is_err());
    }
}
