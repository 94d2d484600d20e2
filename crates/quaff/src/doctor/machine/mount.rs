//! The file system of a folder (proc_pid_mountinfo(5)).

use quaff_os::{Result, Try};
use std::fs;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The type, such as "ext4".
    pub(crate) fs_type: String,
    /// The source, such as "/dev/vda".
    pub(crate) device: String,
    pub(crate) mount_point: PathBuf,
    /// The mount or the file system is read-only.
    pub(crate) is_read_only: bool,
}

/// The mount that holds `dir`, which must exist; `None` where none is listed.
pub(crate) fn mount_of(root: &Path, dir: &Path) -> Result<Option<Mount>> {
    let dir = dir.canonicalize().trying(|| format!("find {}", dir.display()))?;
    let path = root.join("proc/self/mountinfo");
    let text = fs::read_to_string(&path).trying(|| format!("read {}", path.display()))?;
    Ok(nearest(&text, &dir))
}

/// The mount with the longest mount point that contains `dir`; the later one of two with the same mount point.
fn nearest(mounts: &str, dir: &Path) -> Option<Mount> {
    let found = mounts.lines().filter_map(mount).filter(|mount| dir.starts_with(&mount.mount_point));
    found.max_by_key(|mount| mount.mount_point.as_os_str().len())
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(4);
    let (mount_point, options) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (fs_type, device) = (right.next()?, right.next()?);
    let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
    Some(Mount {
        fs_type: fs_type.to_owned(),
        device: unescape(device),
        mount_point: unescape(mount_point).into(),
        is_read_only: is_read_only(options) || right.next().is_some_and(is_read_only),
    })
}

/// Decodes the octal escapes of mountinfo, such as `\040` for a space.
fn unescape(text: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")]
        .iter()
        .fold(text.to_owned(), |text, (code, char)| text.replace(code, char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_is_found() {
        let mounts = "22 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw\n\
                      40 22 0:30 / /var rw - tmpfs none rw\n\
                      41 40 8:1 / /var/my\\040disk ro,nosuid - xfs /dev/sdb1 rw\n\
                      42 41 8:2 / /var/lib rw - btrfs /dev/sdc1 ro,compress=zstd\n";
        let of = |dir: &str| nearest(mounts, Path::new(dir)).unwrap();
        assert_eq!((of("/variable").fs_type.as_str(), of("/variable").is_read_only), ("ext4", false));
        assert_eq!((of("/var/my disk/x").fs_type.as_str(), of("/var/my disk/x").is_read_only), ("xfs", true));
        assert!(of("/var/lib").is_read_only, "the file system itself is");
        assert_eq!(nearest("nonsense", Path::new("/")), None);
    }

    #[test]
    fn the_root_has_a_mount() {
        assert!(mount_of(Path::new("/"), Path::new("/")).unwrap().is_some());
        assert!(mount_of(Path::new("/"), Path::new("/no/such/folder")).is_err());
    }
}
