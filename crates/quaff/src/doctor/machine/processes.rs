//! The processes of this machine, and those that hold given sockets.

use super::text;
use std::fs;
use std::path::Path;

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The socket.
    pub(crate) inode: u64,
    pub(crate) pid: u32,
    /// The process name (`/proc/PID/comm`).
    pub(crate) name: String,
}

/// The inode numbers of the sockets of this process.
pub(crate) fn own_sockets(root: &Path) -> Vec<u64> {
    sockets_of(&root.join("proc/self"))
}

fn sockets_of(process: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?)).collect()
}

/// The processes that hold these sockets, of those that this user may inspect; root sees all.
pub(crate) fn owners(root: &Path, inodes: &[u64]) -> Vec<Owner> {
    let mut owners = Vec::new();
    for pid in pids(root) {
        let process = root.join("proc").join(pid.to_string());
        let mut held: Vec<_> =
            sockets_of(&process).into_iter().filter(|inode| inodes.contains(inode)).collect();
        held.sort_unstable();
        held.dedup();
        let name = if held.is_empty() { String::new() } else { name(&process) };
        owners.extend(held.into_iter().map(|inode| Owner { inode, pid, name: name.clone() }));
    }
    owners
}

/// The first running process of that name.
pub(crate) fn process_named(root: &Path, wanted: &str) -> Option<u32> {
    pids(root).into_iter().find(|pid| name(&root.join("proc").join(pid.to_string())) == wanted)
}

fn pids(root: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else { return Vec::new() };
    let mut pids: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn name(process: &Path) -> String {
    text(&process.join("comm")).unwrap_or_default()
}

/// `socket:[4711]`
fn inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_its_owner() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
        let inode = inode(&fs::read_link(link).unwrap()).unwrap();
        let owners = owners(Path::new("/"), &[inode]);
        assert!(own_sockets(Path::new("/")).contains(&inode));
        let pids: Vec<_> = owners.iter().map(|owner| owner.pid).collect();
        assert_eq!(pids, [std::process::id()]);
        assert!(!owners[0].name.is_empty());
        assert_eq!(process_named(Path::new("/"), "no process has such a name"), None);
    }
}
