//! Interfaces and their counters: parser of messages about links (RTM_NEWLINK).
//!
//! It reads only the attributes that quaff needs: an attribute that is unknown or that netlink-packet-route
//! refuses must not make the counters of a running capture unavailable.

use super::attribute::{text, word};
use netlink_packet_core::{DecodeError, NlasIterator};
use netlink_packet_route::link::Stats64;

/// Bytes of `struct ifinfomsg`: family, pad, type, index, flags, change.
const HEADER_BYTES: usize = 16;

/// `IFLA_VXLAN_LINK` in `IFLA_INFO_DATA` of a vxlan (linux/if_link.h).
const IFLA_VXLAN_LINK: u16 = 3;
/// Kinds of which `IFLA_LINK` is the peer.
const PAIRS: [&str; 3] = ["veth", "vxcan", "netkit"];

/// `IFLA_XDP`, and in it `IFLA_XDP_ATTACHED` and `IFLA_XDP_PROG_ID` (linux/if_link.h).
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// A network interface, as `RTM_NEWLINK` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// The hardware address; zeros where it does not have six bytes.
    pub mac: [u8; 6],
    /// The largest packet without the link header, bytes.
    pub mtu: u32,
    /// `ARPHRD_*` (linux/if_arp.h): 1 is Ethernet, 772 loopback, 65534 none.
    pub arphrd: u16,
    /// `IFF_UP`: administratively up.
    pub up: bool,
    /// `IFF_RUNNING`: operationally up, with carrier.
    pub running: bool,
    /// `IFF_PROMISC`, as the administrator set it; packet sockets do not change it.
    pub promiscuous: bool,
    /// Without `IFF_NOARP`.
    pub arp: bool,
    /// `IFLA_INFO_KIND`, such as "vlan" or "veth"; empty for hardware.
    pub kind: String,
    /// `IFLA_MASTER`: the bridge, bond or other interface that it belongs to.
    pub master: Option<u32>,
    /// The interface that it is made on, such as that of a VLAN (`IFLA_LINK`, `IFLA_VXLAN_LINK`). Not the peer of a
    /// veth.
    pub lower: Option<LowerLink>,
    /// The ID of its XDP program, if any; 0 where the kernel does not report the ID.
    pub xdp_program: Option<u32>,
}

/// The interface that another one is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LowerLink {
    /// Its index.
    Here(u32),
    /// It is in another network namespace.
    Elsewhere,
}

/// The fields of `struct rtnl_link_stats64` (linux/if_link.h) that quaff reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    /// `rx_missed_errors`: frames for which the host had no receive buffer.
    pub rx_missed: u64,
    /// `rx_fifo_errors`: frames that the device's own queue dropped.
    pub rx_fifo: u64,
    /// `rx_over_errors`.
    pub rx_over: u64,
    /// `rx_dropped`: frames for which the driver or a core's backlog had no room, and frames that no protocol
    /// handler of the stack accepts. Excludes `rx_nohandler` (backup links of a bond).
    pub rx_dropped: u64,
    /// IPv4 packets that the stack dropped because their destination MAC belongs to another host
    /// (`rx_otherhost_dropped`, Linux 5.19; 0 on older kernels).
    pub rx_otherhost: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub tx_dropped: u64,
}

/// Parses RTM_NEWLINK.
pub(super) fn parse(payload: &[u8]) -> Result<(Link, Option<LinkStats>), DecodeError> {
    let (head, attributes) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), HEADER_BYTES))?;
    let flags = word(head, 8) as i32;
    let mut link = Link {
        index: word(head, 4),
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        arphrd: u16::from_ne_bytes([head[2], head[3]]),
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        promiscuous: flags & libc::IFF_PROMISC != 0,
        arp: flags & libc::IFF_NOARP == 0,
        kind: String::new(),
        master: None,
        lower: None,
        xdp_program: None,
    };
    let (mut stats, mut made_on, mut is_elsewhere) = (None, None, false);
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        let value = attribute.value();
        match attribute.kind() {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            libc::IFLA_MTU if value.len() == 4 => link.mtu = word(value, 0),
            libc::IFLA_MASTER if value.len() == 4 => link.master = Some(word(value, 0)),
            libc::IFLA_LINK if value.len() == 4 => made_on = Some(word(value, 0)),
            libc::IFLA_LINK_NETNSID => is_elsewhere = true,
            libc::IFLA_LINKINFO => {
                let of_vxlan;
                (link.kind, of_vxlan) = info(value);
                made_on = of_vxlan.or(made_on);
            }
            libc::IFLA_STATS64 => stats = Some(counters(&Stats64::parse(value)?)),
            IFLA_XDP => link.xdp_program = xdp_program(value),
            _ => {}
        }
    }
    link.lower = match made_on {
        None | Some(0) => None,
        _ if PAIRS.contains(&link.kind.as_str()) => None,
        Some(_) if is_elsewhere => Some(LowerLink::Elsewhere),
        Some(index) => Some(LowerLink::Here(index)),
    };
    Ok((link, stats))
}

/// The kind of an interface and, of a vxlan, the interface that it is made on (`IFLA_LINKINFO`).
fn info(attributes: &[u8]) -> (String, Option<u32>) {
    let (mut kind, mut made_on) = (String::new(), None);
    for attribute in NlasIterator::new(attributes).flatten() {
        match attribute.kind() {
            libc::IFLA_INFO_KIND => kind = text(attribute.value()),
            libc::IFLA_INFO_DATA if kind == "vxlan" => {
                let mut data = NlasIterator::new(attribute.value()).flatten();
                let link = data.find(|data| data.kind() == IFLA_VXLAN_LINK && data.value().len() == 4);
                made_on = link.map(|link| word(link.value(), 0));
            }
            _ => {}
        }
    }
    (kind, made_on)
}

/// The ID of the attached program; `None` also for unreadable attributes.
fn xdp_program(attributes: &[u8]) -> Option<u32> {
    let (mut is_attached, mut number) = (false, 0);
    for attribute in NlasIterator::new(attributes).flatten() {
        let value = attribute.value();
        match attribute.kind() {
            IFLA_XDP_ATTACHED => is_attached = value.first().is_some_and(|&mode| mode != 0),
            IFLA_XDP_PROG_ID if value.len() == 4 => number = word(value, 0),
            _ => {}
        }
    }
    is_attached.then_some(number)
}

fn counters(stats: &Stats64) -> LinkStats {
    LinkStats {
        rx_packets: stats.rx_packets,
        rx_bytes: stats.rx_bytes,
        rx_missed: stats.rx_missed_errors,
        rx_fifo: stats.rx_fifo_errors,
        rx_over: stats.rx_over_errors,
        rx_dropped: stats.rx_dropped,
        rx_otherhost: stats.rx_otherhost_dropped,
        tx_packets: stats.tx_packets,
        tx_bytes: stats.tx_bytes,
        tx_dropped: stats.tx_dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cut_anywhere_never_panics() {
        let mut whole = vec![0u8; HEADER_BYTES];
        whole[4] = 7;
        whole.extend([8, 0, libc::IFLA_IFNAME as u8, 0, b'l', b'o', 0, 0]);
        whole.extend([8, 0, libc::IFLA_MTU as u8, 0, 0xdc, 5, 0, 0]);
        whole.extend([8, 0, libc::IFLA_STATS64 as u8, 0, 1, 2, 3, 4]);
        for end in 0..=whole.len() {
            let _ = parse(&whole[..end]);
        }
        let link = parse(&whole).expect("whole").0;
        assert_eq!((link.index, link.name.as_str(), link.mtu), (7, "lo", 1500));
    }

    #[test]
    fn the_interface_below_is_not_the_peer_of_a_pair() {
        let with = |kind: &[u8], index: u8, is_elsewhere: bool| {
            let mut whole = vec![0u8; HEADER_BYTES];
            whole.extend([8, 0, libc::IFLA_LINK as u8, 0, index, 0, 0, 0]);
            whole.extend([16, 0, libc::IFLA_LINKINFO as u8, 0x80, 9, 0, libc::IFLA_INFO_KIND as u8, 0]);
            whole.extend(kind);
            whole.extend([0; 4]);
            if is_elsewhere {
                whole.extend([8, 0, libc::IFLA_LINK_NETNSID as u8, 0, 0, 0, 0, 0]);
            }
            let link = parse(&whole).expect("whole").0;
            (link.kind, link.lower)
        };
        assert_eq!(with(b"vlan", 3, false), ("vlan".to_owned(), Some(LowerLink::Here(3))));
        assert_eq!(with(b"vlan", 3, true).1, Some(LowerLink::Elsewhere));
        assert_eq!((with(b"veth", 3, false).1, with(b"veth", 3, true).1), (None, None));
        // A tunnel that no interface is given to.
        assert_eq!(with(b"ipip", 0, false).1, None);
    }

    #[test]
    fn only_an_attached_program_is_reported() {
        let with = |mode: u8| {
            let mut whole = vec![0u8; HEADER_BYTES];
            whole.extend([20, 0, IFLA_XDP as u8, 0x80, 5, 0, IFLA_XDP_ATTACHED as u8, 0, mode, 0, 0, 0]);
            whole.extend([8, 0, IFLA_XDP_PROG_ID as u8, 0, 9, 0, 0, 0]);
            parse(&whole).expect("whole").0.xdp_program
        };
        assert_eq!((with(0), with(2)), (None, Some(9)));
    }
}
