//! Creates and changes interfaces, as far as the lab needs that.

use super::{NAME_BYTES_MAX, Rtnl};
use crate::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// linux/if_link.h.
const XDP_FLAGS_UPDATE_IF_NOEXIST: u32 = 1 << 0;
/// linux/if_link.h.
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// One end of a veth pair to create.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    /// At most [`NAME_BYTES_MAX`] bytes.
    pub name: &'a str,
    /// A descriptor of its network namespace, as of `/run/netns/NAME`.
    pub netns: BorrowedFd<'a>,
    pub mac: [u8; 6],
}

/// A veth pair to create (veth(4)).
#[derive(Debug, Clone, Copy)]
pub struct VethPlan<'a> {
    pub ends: [VethEnd<'a>; 2],
    /// The MTU of both ends, bytes.
    pub mtu: u32,
    /// Transmit queues, and as many receive queues, of each end.
    pub queues: u32,
}

impl Rtnl {
    /// Creates a veth pair, each end in its namespace. Both ends are down.
    ///
    /// # Errors
    /// `EEXIST` when a name is taken in its namespace; `EPERM` without CAP_NET_ADMIN over both.
    pub fn create_veth(&mut self, plan: &VethPlan<'_>) -> Result<()> {
        let [near, far] = &plan.ends;
        let tried = format!("create the veth pair {} and {}", near.name, far.name);
        for end in &plan.ends {
            if end.name.is_empty() || end.name.len() > NAME_BYTES_MAX {
                return Err(Error::new(tried, super::errno(libc::EINVAL))
                    .advise(format!("use a name of 1 to {NAME_BYTES_MAX} bytes")));
            }
        }
        let peer = InfoData::Veth(InfoVeth::Peer(end_message(far, plan)));
        let mut message = end_message(near, plan);
        message
            .attributes
            .push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)]));
        self.socket.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Creates a bridge, down and without ports, that sends no frames of its own.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken; `EOPNOTSUPP` on a kernel without bridges.
    pub fn create_bridge(&mut self, name: &str) -> Result<()> {
        let tried = format!("create the bridge {name}");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::new(tried, super::errno(libc::EINVAL)));
        }
        // With multicast snooping the bridge would join a group and send reports.
        let quiet = InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)]);
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge), LinkInfo::Data(quiet)]),
        ];
        self.socket.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Makes interface `index` a port of bridge `bridge`.
    pub fn set_bridge(&mut self, index: u32, bridge: u32) -> Result<()> {
        let mut message = on(index);
        message.attributes.push(LinkAttribute::Controller(bridge));
        let tried = format!("make interface {index} a port of bridge {bridge}");
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, &tried)
    }

    /// Sets interface `index` up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> Result<()> {
        let mut message = on(index);
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        let tried = format!("set interface {index} {}", if up { "up" } else { "down" });
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, &tried)
    }

    /// Adds an IPv4 address and the route to its network.
    pub fn add_address(&mut self, index: u32, address: Ipv4Addr, prefix_bits: u8) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_bits;
        message.header.index = index;
        let ip = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
        let tried = format!("add the address {address}/{prefix_bits} to interface {index}");
        self.socket.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, &tried)
    }

    /// Adds a permanent ARP entry, so that the host sends no ARP requests for `address`.
    pub fn add_neighbour(&mut self, index: u32, address: Ipv4Addr, mac: [u8; 6]) -> Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let tried = format!("add the neighbour {address} to interface {index}");
        self.socket.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE, &tried)
    }

    /// Attaches an XDP program to interface `index`, in the driver (`XDP_FLAGS_DRV_MODE`), or detaches it. It
    /// stays attached when its descriptor is closed.
    ///
    /// # Errors
    /// `EBUSY` when another program is attached; `EOPNOTSUPP` when the driver does not support XDP.
    pub fn set_xdp(&mut self, index: u32, program: Option<BorrowedFd<'_>>) -> Result<()> {
        let fd = program.map_or(-1, |program| program.as_raw_fd());
        let flags = XDP_FLAGS_DRV_MODE | if program.is_some() { XDP_FLAGS_UPDATE_IF_NOEXIST } else { 0 };
        let mut message = on(index);
        message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(fd), LinkXdp::Flags(flags)]));
        let doing =
            if program.is_some() { "attach an XDP program to" } else { "detach the XDP program from" };
        self.socket.change(RouteNetlinkMessage::SetLink(message), 0, &format!("{doing} interface {index}"))
    }

    /// Deletes interface `index`; for a veth also its peer.
    pub fn delete(&mut self, index: u32) -> Result<()> {
        let tried = format!("delete interface {index}");
        self.socket.change(RouteNetlinkMessage::DelLink(on(index)), 0, &tried)
    }
}

fn on(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn end_message(end: &VethEnd<'_>, plan: &VethPlan<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(end.name.to_owned()),
        LinkAttribute::Address(end.mac.to_vec()),
        LinkAttribute::Mtu(plan.mtu),
        LinkAttribute::NumTxQueues(plan.queues),
        LinkAttribute::NumRxQueues(plan.queues),
        LinkAttribute::NetNsFd(end.netns.as_raw_fd()),
    ];
    message
}
