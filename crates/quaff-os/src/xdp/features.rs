//! XDP features of an interface's driver, read by generic netlink, family `netdev`
//! (Documentation/netlink/specs/netdev.yaml, Linux 6.3).

use crate::{Error, Result, Try};
use netlink_packet_core::NlasIterator;
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// linux/genetlink.h.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// linux/netdev.h.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 1 << 2;

const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`, and of `struct genlmsghdr` that follows it.
const NLMSGHDR_BYTES: usize = 16;
const GENLMSGHDR_BYTES: usize = 4;

/// Returns whether interface `index` of the calling thread's network namespace sends frames that XDP programs
/// redirect to it (NETDEV_XDP_ACT_NDO_XMIT). For a veth this depends on what is attached to its peer.
///
/// # Errors
/// ENOENT before Linux 6.3; ENODEV when there is no such interface.
pub fn takes_redirected(index: u32) -> Result<bool> {
    let tried = || format!("read the XDP features of interface {index}");
    let socket = Socket::new(NETLINK_GENERIC).trying(tried)?;
    socket.connect(&SocketAddr::new(0, 0)).trying(tried)?;
    let name = attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0");
    let answer = ask(&socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &name).trying(tried)?;
    let family = find(&answer, CTRL_ATTR_FAMILY_ID).and_then(|value| value.first_chunk().copied());
    let family = family.map(u16::from_ne_bytes).ok_or_else(|| unreadable(tried()))?;
    let index = attribute(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    let answer = ask(&socket, family, NETDEV_CMD_DEV_GET, &index).trying(tried)?;
    let bits = find(&answer, NETDEV_A_DEV_XDP_FEATURES).and_then(|value| value.first_chunk().copied());
    let bits = bits.map(u64::from_ne_bytes).ok_or_else(|| unreadable(tried()))?;
    Ok(bits & NETDEV_XDP_ACT_NDO_XMIT != 0)
}

/// Sends a request and returns the attributes of its only reply.
fn ask(socket: &Socket, family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let bytes = NLMSGHDR_BYTES + GENLMSGHDR_BYTES + attributes.len();
    let mut request = Vec::with_capacity(bytes);
    request.extend((bytes as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port: not needed for one request at a time.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(attributes);
    socket.send(&request, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let word = |at: usize| answer.get(at..)?.first_chunk().copied();
    match word(4).map(|[low, high, ..]: [u8; 4]| u16::from_ne_bytes([low, high])) {
        Some(NLMSG_ERROR) => {
            let errno = word(NLMSGHDR_BYTES).map_or(libc::EPROTO, |bytes| -i32::from_ne_bytes(bytes));
            Err(io::Error::from_raw_os_error(errno))
        }
        _ => Ok(answer.get(NLMSGHDR_BYTES + GENLMSGHDR_BYTES..).unwrap_or_default().to_vec()),
    }
}

/// `struct nlattr` with a padded value.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn find(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    NlasIterator::new(attributes)
        .filter_map(std::result::Result::ok)
        .find(|attribute| attribute.kind() == kind)
        .map(|attribute| attribute.value().to_vec())
}

fn unreadable(tried: String) -> Error {
    Error::new(tried, io::Error::from(io::ErrorKind::InvalidData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_features_and_an_unknown_index_is_an_error() {
        match takes_redirected(1) {
            Err(error) if error.raw() == libc::ENOENT => {
                crate::testing::skip("loopback_has_no_features", &error.to_string());
                return;
            }
            taken => assert!(!taken.unwrap()),
        }
        assert_eq!(takes_redirected(0x7fff_fff0).expect_err("no such interface").raw(), libc::ENODEV);
    }
}
