//! What the machine as a whole says of itself: what the softirq had to drop, how cores save power, which
//! clock stamps packets, who else reads them, and what a folder lies on.
//!
//! Files are read below a root, so that a test can show any machine. This room judges nothing.

mod clock;
mod mount;
mod power;
mod readers;
mod softnet;

pub use clock::{ClockSource, Discipline, clock_source, discipline};
pub use mount::{Mount, mount_of};
pub use power::{Frequency, IdleState, Power, power};
pub use readers::{Owner, PacketSocket, own_sockets, owners, packet_sockets, process_named};
pub use softnet::{Softnet, SoftnetMeter, SoftnetRise, softnet};

use crate::{Error, Result, Try};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A number of sysctl(8): `net.core.netdev_budget`, below `root`.
///
/// # Errors
/// `ENOENT` where the kernel does not have it, or does not show it in this network namespace.
pub fn sysctl(root: &Path, name: &str) -> Result<u64> {
    let path = root.join("proc/sys").join(name.replace('.', "/"));
    number(&path)
}

/// What is different at each start of the machine (random(4)).
pub fn boot_id(root: &Path) -> Result<String> {
    text(&root.join("proc/sys/kernel/random/boot_id"))
}

/// How long the machine runs (proc_uptime(5)).
pub fn uptime(root: &Path) -> Result<Duration> {
    let path = root.join("proc/uptime");
    let text = text(&path)?;
    let seconds = text.split_whitespace().next().and_then(|word| word.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| no_number(&path))
}

/// The number of the calling thread's network namespace, by which `lsns` and `ip netns` know it too
/// (namespaces(7)).
pub fn netns_inode() -> Result<u64> {
    let path = "/proc/thread-self/ns/net";
    Ok(fs::metadata(path).trying(|| format!("look at {path}"))?.ino())
}

/// Whether a network namespace of that number is there: some process is in it, or it has a name. Where that may
/// not be looked at: yes.
pub fn has_netns(inode: u64) -> bool {
    let is_it = |path: &Path| match fs::metadata(path) {
        Ok(found) => found.ino() == inode,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let entries = |dir: &str| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries("/run/netns").any(|path| is_it(&path)) || entries("/proc").any(|path| is_it(&path.join("ns/net")))
}

/// A small file, without the white space around it.
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
    fn this_machine_is_told_of() {
        let root = Path::new("/");
        assert_eq!(boot_id(root).unwrap().len(), 36);
        assert!(uptime(root).unwrap() > Duration::ZERO);
        assert!(has_netns(netns_inode().unwrap()));
        assert!(!softnet(root).unwrap().is_empty());
        discipline().unwrap();
    }

    #[test]
    fn what_is_no_number_is_an_error() {
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
