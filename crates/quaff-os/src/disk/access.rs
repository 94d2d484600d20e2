//! The group and the mode of files that are written, set through their descriptors. It never changes the owner: files
//! are made by their owner (`sandbox::User`).

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, fchown};

/// The group and the mode of files; `None` leaves what the kernel gives to a new file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAccess {
    pub group: Option<u32>,
    /// Permission bits, whatever umask(2) is.
    pub mode: Option<u32>,
}

impl FileAccess {
    /// Sets both on an open file. The group first: a change of it may clear bits of the mode.
    ///
    /// # Errors
    /// The file belongs to another user, or its owner is not a member of the group.
    pub fn apply(self, file: &File) -> io::Result<()> {
        if self.group.is_some() {
            fchown(file, None, self.group)?;
        }
        match self.mode {
            Some(mode) => file.set_permissions(Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }

    /// The access of a folder of such files: users who may read a file in it may also enter it.
    #[must_use]
    pub fn of_folder(self) -> Self {
        Self { mode: self.mode.map(|mode| mode | (mode & 0o444) >> 2), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_gets_its_mode_and_a_folder_can_be_entered() {
        let file = tempfile::tempfile().unwrap();
        let own = file.metadata().unwrap().gid();
        let access = FileAccess { group: Some(own), mode: Some(0o664) };
        access.apply(&file).unwrap();
        let meta = file.metadata().unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (own, 0o664));
        FileAccess::default().apply(&file).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o664);
        assert_eq!(access.of_folder(), FileAccess { group: Some(own), mode: Some(0o775) });
        assert_eq!(FileAccess { mode: Some(0o640), ..access }.of_folder().mode, Some(0o750));
    }
}
