//! Parser of messages about links (RTM_NEWLINK), addresses (RTM_NEWADDR), routes (RTM_NEWROUTE), queueing disciplines
//! (RTM_NEWQDISC) and their filters (RTM_NEWTFILTER).
//!
//! It reads only the attributes that quaff needs: an attribute that is unknown or that netlink-packet-route
//! refuses must not make the counters of a running capture unavailable.

use super::address::{self, Address};
use super::qdisc::{self, Qdisc};
use super::route::{self, Route};
use super::tc::{self, Filter};
use super::{Link, LinkStats, LowerLink};
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NlasIterator};
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

/// One message; all fields are `None` for a message of another type.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) link: Option<Link>,
    pub(super) stats: Option<LinkStats>,
    pub(super) qdisc: Option<Qdisc>,
    pub(super) filter: Option<Filter>,
    pub(super) address: Option<Address>,
    pub(super) route: Option<Route>,
}

impl NetlinkDeserializable for Reply {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            libc::RTM_NEWLINK => {}
            libc::RTM_NEWQDISC => return Ok(Self { qdisc: Some(qdisc::parse(payload)?), ..Self::default() }),
            libc::RTM_NEWTFILTER => return Ok(Self { filter: Some(tc::parse(payload)?), ..Self::default() }),
            libc::RTM_NEWADDR => return Ok(Self { address: address::parse(payload)?, ..Self::default() }),
            libc::RTM_NEWROUTE => return Ok(Self { route: Some(route::parse(payload)?), ..Self::default() }),
            _ => return Ok(Self::default()),
        }
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
        Ok(Self { link: Some(link), stats, ..Self::default() })
    }
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

/// The word at `at`; the caller has checked that `bytes` has four bytes from there.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(payload: &[u8]) -> Result<Reply, DecodeError> {
        let mut header = NetlinkHeader::default();
        header.message_type = libc::RTM_NEWLINK;
        Reply::deserialize(&header, payload)
    }

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
        let link = parse(&whole).expect("whole").link.expect("a link");
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
            let link = parse(&whole).expect("whole").link.expect("a link");
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
            parse(&whole).expect("whole").link.expect("a link").xdp_program
        };
        assert_eq!((with(0), with(2)), (None, Some(9)));
    }
}
