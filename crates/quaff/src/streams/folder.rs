//! The folder of extracted streams: names made of addresses alone, and files that are always new.
//!
//! Files are created relative to the open folder, never through a link, and an existing file is refused or removed
//! first, so nothing is written to a file that another process created there.

use crate::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Rights of files with the bytes of strangers, and of their folder.
const FILE_MODE: u32 = 0o640;
const FOLDER_MODE: u32 = 0o750;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    open: File,
    /// Files of the same name are removed first.
    overwrites: bool,
}

/// The identity of a file: device and inode.
pub(super) type Identity = (u64, u64);

impl Folder {
    /// Opens the folder, and makes it if it does not exist; its parent must exist.
    pub(super) fn open(path: &Path, overwrites: bool) -> Result<Self> {
        match DirBuilder::new().mode(FOLDER_MODE).create(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::path("make the folder", path, error));
            }
            _ => {}
        }
        let flags = OFlag::O_DIRECTORY.bits();
        let open = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let open = open.map_err(|error| Error::path("open the folder", path, error))?;
        Ok(Self { path: path.to_owned(), open, overwrites })
    }

    /// Makes a file.
    pub(super) fn create(&self, name: &str) -> Result<File> {
        let made = match self.create_new(name) {
            Err(Errno::EEXIST) if self.overwrites => {
                unlinkat(&self.open, name, UnlinkatFlags::NoRemoveDir).and_then(|()| self.create_new(name))
            }
            made => made,
        };
        made.map_err(|errno| match errno {
            Errno::EEXIST => Error::Plan(format!(
                "{} exists: give another folder, or `overwrite`",
                self.path.join(name).display()
            )),
            errno => self.error("create", name, errno.into()),
        })
    }

    fn create_new(&self, name: &str) -> nix::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(&self.open, name, flags, Mode::from_bits_truncate(FILE_MODE)).map(File::from)
    }

    /// Opens a file that this run has made, to append to it.
    pub(super) fn append(&self, name: &str, identity: Identity) -> Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = openat(&self.open, name, flags | OFlag::O_CLOEXEC, Mode::empty()).map(File::from);
        let file = file.map_err(|errno| self.error("open", name, errno.into()))?;
        match identity_of(&file) {
            Ok(found) if found == identity => Ok(file),
            Ok(_) => Err(self.error("append to", name, io::Error::other("another process replaced it"))),
            Err(error) => Err(self.error("append to", name, error)),
        }
    }

    /// Opens a file that this run has made, to read it.
    pub(super) fn read(&self, name: &str) -> Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.open, name, flags, Mode::empty()).map(File::from);
        file.map_err(|errno| self.error("open", name, errno.into()))
    }

    /// Removes a file that this run has made.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let removed = unlinkat(&self.open, name, UnlinkatFlags::NoRemoveDir);
        removed.map_err(|errno| self.error("remove", name, errno.into()))
    }

    /// Renames a file that this run has made. The new name is made first, as any file, because not each file system can
    /// refuse to replace one.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.create(to)?;
        let renamed = renameat(&self.open, from, &self.open, to);
        renamed.map_err(|errno| self.error("rename a file to", to, errno.into()))
    }

    /// An error about a file of the folder.
    pub(super) fn error(&self, tried: &'static str, name: &str, error: io::Error) -> Error {
        Error::path(tried, self.path.join(name), error)
    }
}

/// The identity of an open file.
pub(super) fn identity_of(file: &File) -> io::Result<Identity> {
    file.metadata().map(|meta| (meta.dev(), meta.ino()))
}

/// The name of a stream: sender and receiver, each as address and port with leading zeros, so that names sort by them.
/// From the second connection between the same ends on, its number is appended.
pub(super) fn stream_name(sender: SocketAddr, receiver: SocketAddr, number: u32) -> String {
    let name = format!("{}-{}", end_name(sender), end_name(receiver));
    if number > 1 { format!("{name}.{number:06}") } else { name }
}

fn end_name(end: SocketAddr) -> String {
    let address: Vec<String> = match end.ip() {
        IpAddr::V4(v4) => v4.octets().iter().map(|octet| format!("{octet:03}")).collect(),
        IpAddr::V6(v6) => v6.segments().iter().map(|segment| format!("{segment:04x}")).collect(),
    };
    format!("{}.{:05}", address.join("."), end.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn name(sender: &str, receiver: &str, number: u32) -> String {
        stream_name(sender.parse().unwrap(), receiver.parse().unwrap(), number)
    }

    #[test]
    fn names_sort_by_address_and_port() {
        assert_eq!(name("10.0.0.1:80", "10.0.0.12:4711", 1), "010.000.000.001.00080-010.000.000.012.04711");
        assert_eq!(
            name("[2001:db8::1]:80", "[::]:65535", 2),
            "2001.0db8.0000.0000.0000.0000.0000.0001.00080-0000.0000.0000.0000.0000.0000.0000.0000.65535.000002"
        );
        let sorted =
            [("9.0.0.1:9", 1), ("9.0.0.1:80", 1), ("9.0.0.1:80", 2), ("9.0.0.1:80", 10), ("10.0.0.1:1", 1)];
        let names = sorted.map(|(sender, number)| name(sender, "1.1.1.1:1", number));
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn nothing_is_written_to_a_file_that_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let [victim, path] = ["victim", "made"].map(|name| dir.path().join(name));
        std::fs::write(&victim, "kept").unwrap();
        let folder = Folder::open(&path, false).unwrap();
        std::os::unix::fs::symlink(&victim, path.join("link")).unwrap();
        std::fs::hard_link(&victim, path.join("hard")).unwrap();
        for name in ["link", "hard"] {
            let error = folder.create(name).unwrap_err().to_string();
            assert!(error.contains("exists") && error.contains("`overwrite`"), "{error}");
        }
        let folder = Folder::open(&path, true).unwrap();
        for name in ["link", "hard"] {
            folder.create(name).unwrap().write_all(b"new").unwrap();
            assert!(!path.join(name).is_symlink());
            assert_eq!(std::fs::read(path.join(name)).unwrap(), b"new");
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"kept");
    }

    #[test]
    fn a_file_is_renamed_to_a_new_name_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for overwrites in [false, true] {
            let folder = Folder::open(dir.path(), overwrites).unwrap();
            std::fs::write(at("old"), "old").unwrap();
            std::fs::write(at("new"), "new").unwrap();
            assert_eq!(folder.rename("new", "old").is_ok(), overwrites);
            assert_eq!(std::fs::read_to_string(at("old")).unwrap(), if overwrites { "new" } else { "old" });
            assert_eq!(at("new").exists(), !overwrites);
        }
        let folder = Folder::open(dir.path(), false).unwrap();
        folder.rename("old", "another").unwrap();
        assert_eq!(std::fs::read(at("another")).unwrap(), b"new");
        folder.remove("another").unwrap();
        assert!(!at("another").exists() && folder.read("another").is_err());
    }

    #[test]
    fn a_file_that_was_replaced_is_not_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path(), false).unwrap();
        let identity = identity_of(&folder.create("a").unwrap()).unwrap();
        folder.append("a", identity).unwrap().write_all(b"x").unwrap();
        std::fs::write(dir.path().join("b"), "other").unwrap();
        std::fs::rename(dir.path().join("b"), dir.path().join("a")).unwrap();
        let error = folder.append("a", identity).unwrap_err().to_string();
        assert!(error.contains("replaced"), "{error}");
        std::fs::remove_file(dir.path().join("a")).unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("a")).unwrap();
        assert!(folder.append("a", identity).is_err());
    }
}
