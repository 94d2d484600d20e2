//! The packet sockets of a network namespace (`packet_seq_show`, net/packet/af_packet.c).

use crate::{Result, Try};
use std::fs;
use std::path::Path;

/// An open packet socket of any process, as the kernel lists it.
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
}
