//! State of the whole machine from /proc and /sys: variables, power saving, clock source, processes, mounts.
//!
//! Files are read below a given root, so that tests can provide any machine. This module never judges values.

mod mount;
mod power;
mod processes;

pub(super) use mount::{Mount, mount_of};
pub(super) use power::{Frequency, IdleState, Power, power};
pub(super) use processes::process_named;
pub(crate) use processes::{Owner, own_sockets, owners};

use quaff_os::{Errno, Error, Result, Try};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The clock source of the kernel, which stamps packets (Documentation/timers/timekeeping.rst).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockSource {
    /// The clock source in use, such as "tsc".
    pub(crate) current: String,
    /// All usable ones, best first.
    pub(crate) available: Vec<String>,
    /// The file that selects it.
    pub(crate) path: PathBuf,
}

/// Reads a numeric sysctl(8) variable, such as `net.core.netdev_budget`, below `root`.
///
/// # Errors
/// `ENOENT` where the kernel does not have it, or not in this network namespace.
pub(crate) fn sysctl(root: &Path, name: &str) -> Result<u64> {
    let path = root.join("proc/sys").join(name.replace('.', "/"));
    number(&path)
}

/// The boot ID: unique for each boot (random(4)).
pub(crate) fn boot_id(root: &Path) -> Result<String> {
    text(&root.join("proc/sys/kernel/random/boot_id"))
}

/// The time since boot (proc_uptime(5)).
pub(crate) fn uptime(root: &Path) -> Result<Duration> {
    let path = root.join("proc/uptime");
    let text = text(&path)?;
    let seconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| no_number(&path))
}

/// Reads the clock source below `root`.
pub(crate) fn clock_source(root: &Path) -> Result<ClockSource> {
    let dir = root.join("sys/devices/system/clocksource/clocksource0");
    let path = dir.join("current_clocksource");
    let available = text(&dir.join("available_clocksource"))?;
    Ok(ClockSource {
        current: text(&path)?,
        available: available.split_whitespace().map(str::to_owned).collect(),
        path,
    })
}

/// The inode number of the calling thread's network namespace, as lsns(8) shows it (namespaces(7)).
pub(crate) fn netns_inode() -> Result<u64> {
    let path = "/proc/thread-self/ns/net";
    Ok(fs::metadata(path).trying(|| format!("read the metadata of {path}"))?.ino())
}

/// Returns whether the network namespace with that inode number exists: a process is in it, or it has a name.
/// `true` where permissions prevent the check.
pub(crate) fn has_netns(inode: u64) -> bool {
    let is_it = |path: &Path| match fs::metadata(path) {
        Ok(found) => found.ino() == inode,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries("/run/netns").any(|path| is_it(&path)) || entries("/proc").any(|path| is_it(&path.join("ns/net")))
}

/// The contents of a small file, trimmed.
pub(super) fn text(path: &Path) -> Result<String> {
    Ok(fs::read_to_string(path).trying(|| format!("read {}", path.display()))?.trim().to_owned())
}

fn number(path: &Path) -> Result<u64> {
    text(path)?.parse().map_err(|_| no_number(path))
}

fn no_number(path: &Path) -> Error {
    Error::new(format!("read a number from {}", path.display()), Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let root = Path::new("/");
        assert_eq!(boot_id(root).unwrap().len(), 36);
        assert!(uptime(root).unwrap() > Duration::ZERO);
        assert!(has_netns(netns_inode().unwrap()));
    }

    #[test]
    fn a_value_that_is_not_a_number_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let core = dir.path().join("proc/sys/net/core");
        fs::create_dir_all(&core).unwrap();
        fs::write(core.join("good"), "1000\n").unwrap();
        fs::write(core.join("bad"), "many\n").unwrap();
        assert_eq!(sysctl(dir.path(), "net.core.good").unwrap(), 1000);
        assert_eq!(sysctl(dir.path(), "net.core.bad").unwrap_err().raw(), Errno::EINVAL as i32);
        assert_eq!(sysctl(dir.path(), "net.core.none").unwrap_err().raw(), Errno::ENOENT as i32);
    }

    #[test]
    fn the_clock_source_is_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(clock_source(root.path()).unwrap_err().raw(), Errno::ENOENT as i32);
        let dir = root.path().join("sys/devices/system/clocksource/clocksource0");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("current_clocksource"), "hpet\n").unwrap();
        fs::write(dir.join("available_clocksource"), "tsc hpet acpi_pm \n").unwrap();
        let clock = clock_source(root.path()).unwrap();
        assert_eq!((clock.current.as_str(), clock.available.len()), ("hpet", 3));
    }
}
