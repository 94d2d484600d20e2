//! The packet sockets of a network namespace (`packet_seq_show`, net/packet/af_packet.c), and the processes
//! that hold them.

use super::text;
use crate::{Result, Try};
use std::fs;
use std::path::Path;

/// A packet socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketSocket {
    /// The EtherType that it receives; 3 (`ETH_P_ALL`) is every frame, 0 none.
    pub protocol: u16,
    /// The interface that it is bound to; 0 is all.
    pub ifindex: u32,
    /// It is attached to the receive path.
    pub is_running: bool,
    /// The inode number, as in the links below `/proc/PID/fd`.
    pub inode: u64,
}

impl PacketSocket {
    /// Returns whether the socket receives frames of interface `ifindex`.
    pub(crate) fn receives_on(&self, ifindex: u32) -> bool {
        self.protocol != 0 && self.is_running && (self.ifindex == 0 || self.ifindex == ifindex)
    }
}

/// A process that holds a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The socket.
    pub inode: u64,
    pub pid: u32,
    /// The process name (`/proc/PID/comm`).
    pub name: String,
}

/// The packet sockets of the calling thread's network namespace.
pub fn packet_sockets(root: &Path) -> Result<Vec<PacketSocket>> {
    let path = root.join("proc/thread-self/net/packet");
    let text = fs::read_to_string(&path).trying(|| format!("read {}", path.display()))?;
    Ok(text.lines().skip(1).filter_map(socket).collect())
}

/// One line: sk, RefCnt, Type, Proto (hex), Iface, R, Rmem, User, Inode.
fn socket(line: &str) -> Option<PacketSocket> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [_, _, _, protocol, ifindex, running, _, _, inode, ..] = words[..] else { return None };
    Some(PacketSocket {
        protocol: u16::from_str_radix(protocol, 16).ok()?,
        ifindex: ifindex.parse().ok()?,
        is_running: running == "1",
        inode: inode.parse().ok()?,
    })
}

/// The inode numbers of the sockets of this process.
pub fn own_sockets(root: &Path) -> Vec<u64> {
    sockets_of(&root.join("proc/self"))
}

fn sockets_of(process: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| inode(&fs::read_link(entry.path()).ok()?)).collect()
}

/// The processes that hold these sockets, of those that this user may inspect; root sees all.
pub fn owners(root: &Path, inodes: &[u64]) -> Vec<Owner> {
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
pub fn process_named(root: &Path, wanted: &str) -> Option<u32> {
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
    fn a_line_is_a_socket() {
        let line = "00000000c7d1b0a1 3      3    0003   2     1       0      0      27373 ";
        let expected = PacketSocket { protocol: 3, ifindex: 2, is_running: true, inode: 27373 };
        assert_eq!(socket(line), Some(expected));
        for bad in ["", "x 3 3 zz 2 1 0 0 27373", "x 3 3 0003 2 1 0 0"] {
            assert_eq!(socket(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn only_a_bound_receiver_of_the_interface_receives() {
        let receives = |words: &str| {
            let line = format!("00000000c7d1b0a1 3      3    {words} 0      0      27373 ");
            socket(&line).expect("a line").receives_on(2)
        };
        assert!(receives("0003   2     1") && receives("0003   0     1"));
        assert!(!receives("0003   3     1"), "another interface");
        assert!(!receives("0000   2     1"), "it only sends");
        assert!(!receives("0003   2     0"), "it is not bound yet");
    }

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
