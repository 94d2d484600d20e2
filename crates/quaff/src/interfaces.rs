//! The list of the interfaces of this machine that can be captured, with the programs that capture there now.
//!
//! It reads netlink, ethtool and /proc; it changes nothing and never prints.

use crate::doctor::machine;
use quaff_os::Result;
use quaff_os::ethtool::Card;
use quaff_os::packet::{PacketSocket, packet_sockets};
use quaff_os::rtnl::{Address, Link, Rtnl};
use quaff_wire::linktype;
use serde::Serialize;
use std::path::Path;

/// The properties of an interface that `quaff interfaces` lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InterfaceInfo {
    /// Number of the interface in the kernel.
    pub index: u32,
    pub name: String,
    pub state: State,
    /// Link speed, bit/s; `None` where the driver does not report it, or while the link is down.
    pub speed_bps: Option<u64>,
    pub driver: Option<String>,
    /// The kind of a virtual interface, such as "vlan"; empty for hardware.
    pub kind: String,
    /// `None` where it has none.
    pub mac: Option<String>,
    /// Largest packet without the link header, bytes.
    pub mtu: u32,
    /// IP addresses with the length of their prefix: `192.0.2.1/24`.
    pub addresses: Vec<String>,
    /// The bridge or bond that it belongs to.
    pub master: Option<String>,
    /// LINKTYPE_ number of a capture; `None` for kinds of links that quaff cannot describe.
    pub linktype: Option<u16>,
    /// The sockets that receive every frame of this interface, or of all.
    pub captures: Vec<CaptureSocket>,
}

/// The state of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Up,
    /// Administratively up, and without a link.
    NoCarrier,
    Down,
}

/// A packet socket that receives frames of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaptureSocket {
    /// It receives the frames of all interfaces.
    pub is_on_all: bool,
    /// The EtherType that it receives; 3 (`ETH_P_ALL`) is every frame.
    pub protocol: u16,
    /// Inode number of the socket.
    pub inode: u64,
    /// The processes that hold it; empty where this user may not inspect them.
    pub processes: Vec<Process>,
}

/// A process that has a packet socket open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    pub pid: u32,
    pub name: String,
}

/// Lists the interfaces of the calling thread's network namespace, in the order of the kernel.
pub fn list() -> Result<Vec<InterfaceInfo>> {
    let mut rtnl = Rtnl::open()?;
    let (links, addresses) = (rtnl.links()?, rtnl.addresses()?);
    let root = Path::new("/");
    // Without /proc no sockets can be listed.
    let sockets = packet_sockets(root).unwrap_or_default();
    let own = machine::own_sockets(root);
    let sockets: Vec<_> = sockets
        .into_iter()
        .filter(|socket| socket.is_running && socket.protocol != 0 && !own.contains(&socket.inode))
        .collect();
    let inodes: Vec<_> = sockets.iter().map(|socket| socket.inode).collect();
    let owners = if inodes.is_empty() { Vec::new() } else { machine::owners(root, &inodes) };
    Ok(links.iter().map(|link| describe(link, &links, &addresses, &sockets, &owners)).collect())
}

fn describe(
    link: &Link,
    links: &[Link],
    addresses: &[Address],
    sockets: &[PacketSocket],
    owners: &[machine::Owner],
) -> InterfaceInfo {
    let card = Card::read(&link.name);
    let speed_mbps = card.speed_mbps.ok().flatten();
    let hex = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let of_link = addresses.iter().filter(|address| address.index == link.index);
    let master = link.master.and_then(|index| links.iter().find(|other| other.index == index));
    let here = sockets.iter().filter(|socket| socket.ifindex == link.index || socket.ifindex == 0);
    InterfaceInfo {
        index: link.index,
        name: link.name.clone(),
        state: match (link.up, link.running) {
            (false, _) => State::Down,
            (true, false) => State::NoCarrier,
            (true, true) => State::Up,
        },
        speed_bps: speed_mbps.map(|mbps| u64::from(mbps) * 1_000_000),
        driver: card.driver.ok().flatten().filter(|driver| !driver.is_empty()),
        kind: link.kind.clone(),
        mac: (link.mac != [0; 6]).then(|| hex(link.mac)),
        mtu: link.mtu,
        addresses: of_link.map(|address| format!("{}/{}", address.ip, address.prefix)).collect(),
        master: master.map(|master| master.name.clone()),
        linktype: linktype::of_arphrd(link.arphrd).map(|known| known.linktype),
        captures: here.map(|socket| capture_socket(socket, owners)).collect(),
    }
}

fn capture_socket(socket: &PacketSocket, owners: &[machine::Owner]) -> CaptureSocket {
    let holders = owners.iter().filter(|owner| owner.inode == socket.inode);
    CaptureSocket {
        is_on_all: socket.ifindex == 0,
        protocol: socket.protocol,
        inode: socket.inode,
        processes: holders.map(|owner| Process { pid: owner.pid, name: owner.name.clone() }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, master: Option<u32>) -> Link {
        Link {
            index,
            name: format!("none{index}"),
            mac: [2, 0, 0, 0, 0, index as u8],
            mtu: 1500,
            arphrd: 1,
            up: index != 3,
            running: index == 1,
            promiscuous: false,
            arp: true,
            kind: String::new(),
            master,
            lower: None,
            xdp_program: None,
        }
    }

    #[test]
    fn sockets_and_addresses_are_those_of_the_interface() {
        let links = [link(1, None), link(2, Some(1)), link(3, None)];
        let address = |index, last| Address { index, ip: [192, 0, 2, last].into(), prefix: 24 };
        let socket = |ifindex, inode| PacketSocket { protocol: 3, ifindex, is_running: true, inode };
        let owner = machine::Owner { inode: 20, pid: 7, name: "tcpdump".into() };
        let describe = |number: usize| {
            let addresses = [address(1, 1), address(2, 2), address(2, 3)];
            let sockets = [socket(2, 20), socket(0, 30), socket(3, 40)];
            describe(&links[number], &links, &addresses, &sockets, std::slice::from_ref(&owner))
        };
        let second = describe(1);
        assert_eq!(second.addresses, ["192.0.2.2/24", "192.0.2.3/24"]);
        assert_eq!((second.state, second.master.as_deref()), (State::NoCarrier, Some("none1")));
        let known: Vec<_> =
            second.captures.iter().map(|on| (on.inode, on.is_on_all, on.processes.len())).collect();
        assert_eq!(known, [(20, false, 1), (30, true, 0)]);
        assert_eq!((describe(0).state, describe(2).state), (State::Up, State::Down));
        assert_eq!((second.mac.as_deref(), second.linktype), (Some("02:00:00:00:00:02"), Some(1)));
    }

    #[test]
    fn loopback_is_listed() {
        let all = list().expect("a list");
        let lo = all.iter().find(|interface| interface.name == "lo").expect("every namespace has lo");
        assert_eq!((lo.index, lo.linktype, &lo.mac), (1, Some(1), &None));
    }
}
