//! A file that a command writes itself: a page, counters, frames. It is opened before the process is confined, so that
//! it belongs to the caller of sudo(8), and emptied only when there is something to write. It never writes capture
//! files of the engine, nor results of benches.

use anyhow::Context;
use quaff_os::disk::{O_CREAT, O_WRONLY, open_output};
use quaff_os::sandbox::User;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Flags of open(2) for an existing file, and for a new one.
const EXISTING: i32 = O_WRONLY;
const NEW: i32 = O_WRONLY | O_CREAT;

/// A file before it is written; dropped, it leaves things as they were.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    path: PathBuf,
    /// `None` for a pipe or a device, which is opened when it is written.
    file: Option<File>,
    is_new: bool,
}

impl WrittenFile {
    /// Opens a file for who called sudo(8), or for the user of this process.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::open_for(path, User::caller_of_sudo().as_ref())
    }

    /// The same for the user who owns the files of a run.
    pub(crate) fn open_for(path: &Path, owner: Option<&User>) -> anyhow::Result<Self> {
        let rights = owner.map(User::use_files).transpose()?;
        let is_stream = path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir());
        let opened = if is_stream { Ok((None, false)) } else { open_file(path) };
        drop(rights);
        let (file, is_new) = opened.with_context(|| format!("write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file, is_new })
    }

    /// Returns the file, empty.
    pub(crate) fn begin(mut self) -> anyhow::Result<File> {
        self.is_new = false;
        let emptied = match self.file.take() {
            None => open_output(&self.path, EXISTING),
            Some(file) => file.set_len(0).map(|()| file),
        };
        emptied.with_context(|| format!("write {}", self.path.display()))
    }

    /// Writes all of it.
    pub(crate) fn write(self, text: &str) -> anyhow::Result<()> {
        let path = self.path.clone();
        let tried = || format!("write {}", path.display());
        self.begin()?.write_all(text.as_bytes()).with_context(tried)
    }
}

fn open_file(path: &Path) -> std::io::Result<(Option<File>, bool)> {
    match open_output(path, EXISTING) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            open_output(path, NEW).map(|file| (Some(file), true))
        }
        opened => opened.map(|file| (Some(file), false)),
    }
}

impl Drop for WrittenFile {
    fn drop(&mut self) {
        if self.is_new {
            // One that remains is empty.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn nothing_changes_before_there_is_something_to_write() {
        let dir = tempfile::tempdir().expect("a folder");
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "the old contents").expect("written");
        for path in [&old, &new] {
            drop(WrittenFile::open(path).expect("opened"));
        }
        assert!(!new.exists() && fs::read(&old).expect("read") == b"the old contents");
        for path in [&old, &new] {
            WrittenFile::open(path).expect("opened").write("text").expect("written");
            assert_eq!(fs::read(path).expect("read"), b"text");
        }
        assert_eq!(new.metadata().expect("there").mode() & 0o777 & !0o640, 0);
        assert!(WrittenFile::open(&dir.path().join("none/new")).is_err());
        WrittenFile::open(Path::new("/dev/null")).expect("opened").write("text").expect("written");
    }
}
