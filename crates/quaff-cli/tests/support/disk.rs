//! A small file system of a test's own, on a loop device: one that is full, and one that does not answer.

use super::{folder, run};
use quaff_testkit as testing;
use std::path::PathBuf;
use std::process::Command;

/// ext4 on a loop device; unmounted when it is dropped.
pub(crate) struct Disk {
    dir: tempfile::TempDir,
}

/// A file system whose writes wait in the kernel, uninterruptibly; dropped, it answers again.
pub(crate) struct Frozen<'a>(&'a Disk);

impl Disk {
    /// ext4 of so many MiB, or `None` after a skip.
    pub(crate) fn new(test: &str, mib: u64) -> Option<Self> {
        let dir = folder();
        if !testing::space(test, dir.path(), mib << 20) {
            return None;
        }
        let (image, mount) = (dir.path().join("image"), dir.path().join("mnt"));
        std::fs::create_dir(&mount).unwrap();
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let made =
            Command::new("mkfs.ext4").arg("-q").arg(&image).status().is_ok_and(|status| status.success());
        let mut mounting = Command::new("mount");
        let mounted = made
            && mounting
                .args(["-o", "loop"])
                .arg(&image)
                .arg(&mount)
                .output()
                .is_ok_and(|done| done.status.success());
        if !mounted {
            testing::skip(test, "this machine gives no loop device to mount");
            return None;
        }
        Some(Self { dir })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    /// Freezes it: whatever writes to it waits in state D.
    #[must_use]
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        run(Command::new("fsfreeze").arg("-f").arg(self.path()));
        Frozen(self)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0.path()).status();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}
