//! Parser of messages about addresses of interfaces (RTM_NEWADDR, linux/if_addr.h).

use super::attribute::word;
use netlink_packet_core::{DecodeError, NlasIterator};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of `struct ifaddrmsg`: family, prefix length, flags, scope, index.
const HEADER_BYTES: usize = 8;
const IFA_ADDRESS: u16 = 1;
/// The own address where [`IFA_ADDRESS`] is that of the peer of a point-to-point link.
const IFA_LOCAL: u16 = 2;

/// An IP address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The interface.
    pub index: u32,
    pub ip: IpAddr,
    /// Bits of the network.
    pub prefix: u8,
}

/// The address in a message; `None` for families other than IP.
pub(super) fn parse(payload: &[u8]) -> Result<Option<Address>, DecodeError> {
    let (head, attributes) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), HEADER_BYTES))?;
    let (mut address, mut local) = (None, None);
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        match attribute.kind() {
            IFA_ADDRESS => address = ip(attribute.value()),
            IFA_LOCAL => local = ip(attribute.value()),
            _ => {}
        }
    }
    Ok(local.or(address).map(|ip| Address { index: word(head, 4), ip, prefix: head[1] }))
}

/// The address in the value of an attribute.
pub(super) fn ip(value: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(value).ok().map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(value).ok().map(|bytes| Ipv6Addr::from(bytes).into());
    v4().or_else(v6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_end_of_a_point_to_point_link_is_the_address() {
        let head = [libc::AF_INET as u8, 24, 0, 0, 7, 0, 0, 0];
        let peer = [8, 0, IFA_ADDRESS as u8, 0, 10, 0, 0, 2];
        let own = [8, 0, IFA_LOCAL as u8, 0, 10, 0, 0, 1];
        let parsed = |parts: &[&[u8]]| parse(&parts.concat()).expect("whole");
        let address = |last| Some(Address { index: 7, ip: Ipv4Addr::new(10, 0, 0, last).into(), prefix: 24 });
        assert_eq!(parsed(&[&head, &peer, &own]), address(1));
        assert_eq!(parsed(&[&head, &peer]), address(2));
        assert_eq!(parsed(&[&head, &[7, 0, IFA_LOCAL as u8, 0, 1, 2, 3, 0]]), None);
        let whole = [&head[..], &peer, &own].concat();
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
    }
}
