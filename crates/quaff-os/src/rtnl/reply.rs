//! Parser of link messages (RTM_NEWLINK).
//!
//! It reads only the attributes that quaff needs: an attribute that is unknown or that netlink-packet-route
//! refuses must not make the counters of a running capture unavailable.

use super::{Link, LinkStats};
use netlink_packet_core::{DecodeError, NetlinkDeserializable, NetlinkHeader, NlasIterator};
use netlink_packet_route::link::Stats64;

/// Bytes of `struct ifinfomsg`: family, pad, type, index, flags, change.
const HEADER_BYTES: usize = 16;

/// `IFLA_XDP`, and in it `IFLA_XDP_ATTACHED` and `IFLA_XDP_PROG_ID` (linux/if_link.h).
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;

/// One link message; all fields are `None` for a message of another type.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) link: Option<Link>,
    pub(super) stats: Option<LinkStats>,
}

impl NetlinkDeserializable for Reply {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        if header.message_type != libc::RTM_NEWLINK {
            return Ok(Self::default());
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
            master: None,
            xdp_program: None,
        };
        let mut stats = None;
        for attribute in NlasIterator::new(attributes) {
            let attribute = attribute?;
            let value = attribute.value();
            match attribute.kind() {
                libc::IFLA_IFNAME => link.name = text(value),
                libc::IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
                libc::IFLA_MTU if value.len() == 4 => link.mtu = word(value, 0),
                libc::IFLA_MASTER if value.len() == 4 => link.master = Some(word(value, 0)),
                libc::IFLA_STATS64 => stats = Some(counters(&Stats64::parse(value)?)),
                IFLA_XDP => link.xdp_program = xdp_program(value),
                _ => {}
            }
        }
        Ok(Self { link: Some(link), stats })
    }
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
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn text(value: &[u8]) -> String {
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
