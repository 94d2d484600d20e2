//! Parser of messages about routes (RTM_NEWROUTE, linux/rtnetlink.h).

use super::address::ip;
use netlink_packet_core::{DecodeError, NlasIterator};
use std::net::IpAddr;

/// Bytes of `struct rtmsg`.
const HEADER_BYTES: usize = 12;
const RTA_GATEWAY: u16 = 5;

/// The route to one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    /// `None` where the destination is on a link of this machine, or the gateway is of another family (`RTA_VIA`).
    pub(super) gateway: Option<IpAddr>,
}

pub(super) fn parse(payload: &[u8]) -> Result<Route, DecodeError> {
    let (_, attributes) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), HEADER_BYTES))?;
    let mut route = Route { gateway: None };
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        if attribute.kind() == RTA_GATEWAY {
            route.gateway = ip(attribute.value());
        }
    }
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_read_and_a_cut_message_never_panics() {
        let head = [libc::AF_INET as u8, 32, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0];
        let destination = [8, 0, libc::RTA_DST as u8, 0, 192, 0, 2, 1];
        let gateway = [8, 0, RTA_GATEWAY as u8, 0, 10, 0, 0, 254];
        let whole = [&head[..], &destination, &gateway].concat();
        assert_eq!(parse(&whole).expect("whole").gateway, Some([10, 0, 0, 254].into()));
        assert_eq!(parse(&whole[..20]).expect("whole").gateway, None);
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
    }
}
