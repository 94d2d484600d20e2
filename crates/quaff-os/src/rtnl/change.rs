//! Creates and changes interfaces, for the lab and the tap.

use super::{NAME_BYTES_MAX, Rtnl, tc};
use crate::bpf::Program;
use crate::{Error, Result};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, LinkXdp,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::tc::TcHandle;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

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

/// A change of one interface.
#[derive(Debug, Clone, Copy)]
pub enum LinkChange<'a> {
    /// Sets it up, or down.
    Up(bool),
    /// Receives frames to all addresses (`IFF_PROMISC`), or not.
    Promiscuous(bool),
    /// Uses ARP, or not (`IFF_NOARP`).
    Arp(bool),
    /// Makes it a port of this bridge.
    Bridge(u32),
    /// Adds an IPv4 address with a prefix length, and the route to its network.
    Address(Ipv4Addr, u8),
    /// Adds a permanent ARP entry, so that the host sends no ARP requests for the address.
    Neighbour(Ipv4Addr, [u8; 6]),
    /// Attaches an XDP program in the driver (`XDP_FLAGS_DRV_MODE`), or detaches it. It stays attached when its
    /// descriptor is closed.
    Xdp(Option<&'a Program>),
    /// Attaches an XDP program in place of the attached one; no frame passes between the two.
    ReplaceXdp(&'a Program),
    /// Adds the queueing discipline `clsact`, which programs are attached to.
    Clsact,
    /// Removes `clsact` with everything that is attached to it.
    ClsactOff,
    /// Attaches a tc program ([`Program::load_tc`]) to `clsact`, for the frames that arrive. It stays attached when its
    /// descriptor is closed.
    OnIngress(&'a Program),
    /// As [`OnIngress`](Self::OnIngress), under a name ([`Rtnl::filters`]), in place of an earlier program, if there is
    /// one; no frame passes between the two.
    ReplaceOnIngress(&'a Program, &'a str),
    /// Detaches the program for the frames that arrive.
    IngressOff,
    /// As [`OnIngress`](Self::OnIngress), for the frames that leave.
    OnEgress(&'a Program),
    /// Deletes it; for a veth also its peer.
    Delete,
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

    /// Changes interface `index`.
    ///
    /// # Errors
    /// For [`LinkChange::Xdp`]: `EBUSY` when another program is attached; `EOPNOTSUPP` when the driver does not
    /// support XDP.
    pub fn change(&mut self, index: u32, change: LinkChange<'_>) -> Result<()> {
        let tried = format!("{} interface {index}", change.describe());
        let mut message = LinkMessage::default();
        message.header.index = index;
        let (request, flags) = match change {
            LinkChange::Up(up) => set_flag(message, LinkFlags::Up, up),
            LinkChange::Promiscuous(on) => set_flag(message, LinkFlags::Promisc, on),
            LinkChange::Arp(on) => set_flag(message, LinkFlags::Noarp, !on),
            LinkChange::Bridge(bridge) => {
                message.attributes.push(LinkAttribute::Controller(bridge));
                (RouteNetlinkMessage::SetLink(message), 0)
            }
            LinkChange::Address(address, prefix_bits) => {
                let message = address_message(index, address, prefix_bits);
                (RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
            }
            LinkChange::Neighbour(address, mac) => {
                let message = neighbour_message(index, address, mac);
                (RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
            }
            LinkChange::Xdp(None) => set_program(message, -1, 0),
            LinkChange::Xdp(Some(program)) => {
                set_program(message, program.as_fd().as_raw_fd(), XDP_FLAGS_UPDATE_IF_NOEXIST)
            }
            LinkChange::ReplaceXdp(program) => set_program(message, program.as_fd().as_raw_fd(), 0),
            LinkChange::Clsact => {
                (RouteNetlinkMessage::NewQueueDiscipline(tc::clsact(index)), NLM_F_CREATE | NLM_F_EXCL)
            }
            LinkChange::OnIngress(program) => {
                let message = tc::filter(index, TcHandle::MIN_INGRESS, program, tc::NAME);
                (RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_CREATE | NLM_F_EXCL)
            }
            LinkChange::ClsactOff => (RouteNetlinkMessage::DelQueueDiscipline(tc::clsact(index)), 0),
            LinkChange::ReplaceOnIngress(program, name) => {
                let message = tc::filter(index, TcHandle::MIN_INGRESS, program, name);
                (RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_CREATE | NLM_F_REPLACE)
            }
            LinkChange::IngressOff => {
                (RouteNetlinkMessage::DelTrafficFilter(tc::own(index, TcHandle::MIN_INGRESS)), 0)
            }
            LinkChange::OnEgress(program) => {
                let message = tc::filter(index, TcHandle::MIN_EGRESS, program, tc::NAME);
                (RouteNetlinkMessage::NewTrafficFilter(message), NLM_F_CREATE | NLM_F_EXCL)
            }
            LinkChange::Delete => (RouteNetlinkMessage::DelLink(message), 0),
        };
        self.socket.change(request, flags, &tried)
    }
}

impl LinkChange<'_> {
    fn describe(&self) -> String {
        match self {
            Self::Up(true) => "set up".into(),
            Self::Up(false) => "set down".into(),
            Self::Promiscuous(on) => format!("{} promiscuous mode on", if *on { "set" } else { "end" }),
            Self::Arp(on) => format!("{} ARP on", if *on { "start" } else { "stop" }),
            Self::Bridge(bridge) => format!("add to bridge {bridge}"),
            Self::Address(address, bits) => format!("add the address {address}/{bits} to"),
            Self::Neighbour(address, _) => format!("add the neighbour {address} to"),
            Self::Xdp(Some(_)) | Self::ReplaceXdp(_) => "attach an XDP program to".into(),
            Self::Xdp(None) => "detach the XDP program from".into(),
            Self::Clsact => "add the queueing discipline clsact to".into(),
            Self::ClsactOff => "remove the queueing discipline clsact from".into(),
            Self::OnIngress(_) | Self::ReplaceOnIngress(..) | Self::OnEgress(_) => {
                "attach a tc program to".into()
            }
            Self::IngressOff => "detach the tc program from".into(),
            Self::Delete => "delete".into(),
        }
    }
}

/// A request that sets one flag, or clears it.
fn set_flag(mut message: LinkMessage, flag: LinkFlags, on: bool) -> (RouteNetlinkMessage, u16) {
    message.header.change_mask = flag;
    message.header.flags = if on { flag } else { LinkFlags::empty() };
    (RouteNetlinkMessage::SetLink(message), 0)
}

/// A request that attaches a program of the driver, or detaches it.
fn set_program(mut message: LinkMessage, fd: i32, flags: u32) -> (RouteNetlinkMessage, u16) {
    let flags = LinkXdp::Flags(XDP_FLAGS_DRV_MODE | flags);
    message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(fd), flags]));
    (RouteNetlinkMessage::SetLink(message), 0)
}

fn address_message(index: u32, address: Ipv4Addr, prefix_bits: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix_bits;
    message.header.index = index;
    let ip = IpAddr::V4(address);
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    message
}

fn neighbour_message(index: u32, address: Ipv4Addr, mac: [u8; 6]) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
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
