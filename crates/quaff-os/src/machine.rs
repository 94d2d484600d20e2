//! State of the whole machine from /proc and /sys: softirq drops, power saving, clock source, packet sockets,
//! mounts.
//!
//! Files are read below a given root, so that tests can provide any machine. This module never judges values.

mod clock;
mod mount;
mod packet_sockets;
mod power;
mod softnet;

pub use clock::{ClockSource, Discipline, clock_source, discipline};
pub use mount::{Mount, mount_of};
pub use packet_sockets::{Owner, PacketSocket, own_sockets, owners, packet_sockets, process_named};
pub use power::{Frequency, IdleState, Power, power};
pub use softnet::{Softnet, SoftnetMeter, SoftnetRise, softnet};

use crate::{Error, Result, Try};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Reads a numeric sysctl(8) variable, such as `net.core.netdev_budget`, below `root`.
///
/// # Errors
/// `ENOENT` where the kernel does not have it, or not in this network namespace.
pub fn sysctl(root: &Path, name: &str) -> Result<u64> {
    let path = root.join("proc/sys").join(name.replace('.', "/"));
    number(&path)
}

/// The boot ID: unique for each boot (random(4)).
pub fn boot_id(root: &Path) -> Result<String> {
    text(&root.join("proc/sys/kernel/random/boot_id"))
}

/// The time since boot (proc_uptime(5)).
pub fn uptime(root: &Path) -> Result<Duration> {
    let path = root.join("proc/uptime");
    let text = text(&path)?;
    let seconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| no_number(&path))
}

/// The inode number of the calling thread's network namespace, as lsns(8) shows it (namespaces(7)).
pub fn netns_inode() -> Result<u64> {
    let path = "/proc/thread-self/ns/net";
    Ok(fs::metadata(path).trying(|| format!("read the metadata of {path}"))?.ino())
}

/// Returns whether the network namespace with that inode number exists: a process is in it, or it has a name.
/// `true` where permissions prevent the check.
pub fn has_netns(inode: u64) -> bool {
    let is_it = |path: &Path| match fs::metadata(path) {
        Ok(found) => found.ino() == inode,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries("/run/netns").any(|path| is_it(&path)) || entries("/proc").any(|path| is_it(&path.join("ns/net")))
}

/// The contents of a small file, trimmed.
fn text(path: &Path) -> Result<String> {
    Ok(fs::read_to_string(path).trying(|| format!("read {}", path.display()))?.trim().to_owned())
}

fn number(path: &Path) -> Result<u64> {
    text(path)?.parse().map_err(|_| no_number(path))
}

fn no_number(path: &Path) -> Error {
    Error::new(format!("read a number from {}", path.display()), io::Error::from_raw_os_error(libc::EINVAL))
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
        assert!(!softnet(root).unwrap().is_empty());
        discipline().unwrap();
    }

    #[test]
    fn a_value_that_is_not_a_number_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let core = dir.path().join("proc/sys/net/core");
        fs::create_dir_all(&core).unwrap();
        fs::write(core.join("good"), "1000\n").unwrap();
        fs::write(core.join("bad"), "many\n").unwrap();
        assert_eq!(sysctl(dir.path(), "net.core.good").unwrap(), 1000);
        assert_eq!(sysctl(dir.path(), "net.core.bad").unwrap_err().raw(), libc::EINVAL);
        assert_eq!(sysctl(dir.path(), "net.core.none").unwrap_err().raw(), libc::ENOENT);
    }
}
