//! Messages over UDP: one socket, one session, nothing kept. A message that the kernel refuses is lost and counted.

use super::counters::Counters;
use crate::export::{Message, Session, Version};
use nix::errno::Errno;
use quaff_os::socket::{never_fragment, path_mtu};
use quaff_os::{Result, Try};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The longest packet where the MTU of the path is unknown (RFC 7011, 10.3.3).
const MTU_UNKNOWN: usize = 512;
/// A wider path, such as loopback, is not used beyond Ethernet: collectors have buffers for that.
const MTU_MAX: usize = 1500;

/// A collector over UDP.
#[derive(Debug)]
pub(super) struct UdpLink {
    socket: UdpSocket,
    is_ipv6: bool,
    session: Session,
}

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Done,
    /// The path is narrower than the message; the next ones may have so many bytes.
    TooLong(usize),
    Refused,
}

impl UdpLink {
    /// Opens a socket to a collector, from `source` if one is given.
    pub(super) fn open(peer: SocketAddr, source: Option<IpAddr>, version: Version) -> Result<Self> {
        let is_ipv6 = peer.is_ipv6();
        let any = if is_ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let own = source.unwrap_or(any);
        let socket = UdpSocket::bind((own, 0)).trying(|| format!("open a UDP socket on {own}"))?;
        socket.connect(peer).trying(|| format!("connect a UDP socket to {peer}"))?;
        never_fragment(&socket, is_ipv6).trying(|| format!("set the MTU discovery towards {peer}"))?;
        Ok(Self { socket, is_ipv6, session: Session::new(version) })
    }

    /// The longest message, by the MTU of the path as far as it is known. The kernel learns it from what a router
    /// refused, or from a change of the route, and then refuses longer ones itself.
    pub(super) fn message_bytes_max(&self) -> usize {
        let headers = if self.is_ipv6 { 48 } else { 28 };
        path_mtu(&self.socket, self.is_ipv6).unwrap_or(MTU_UNKNOWN).min(MTU_MAX).saturating_sub(headers)
    }

    /// Counts records that never became a message.
    pub(super) fn lose(&mut self, records: u64) {
        self.session.lose(records);
    }

    /// Sends a message. The sequence advances also when it is lost, so that the collector sees that.
    pub(super) fn send(&mut self, mut message: Message, counters: &Counters) -> Sent {
        self.session.seal(&mut message);
        for is_retry in [false, true] {
            let Err(error) = self.socket.send(&message.bytes) else {
                counters.sent.add(message.carried);
                Counters::add(&counters.messages, 1);
                Counters::add(&counters.bytes, message.bytes.len() as u64);
                Counters::add(&counters.templates, u64::from(message.has_templates));
                return Sent::Done;
            };
            Counters::add(&counters.errors, 1);
            let errno = error.raw_os_error().map(Errno::from_raw);
            if errno == Some(Errno::EMSGSIZE) {
                counters.missed_errors.add(message.carried);
                return Sent::TooLong(self.message_bytes_max());
            }
            // The kernel reports the fate of an earlier message; this one was not sent yet.
            let is_of_earlier =
                matches!(errno, Some(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH));
            if is_retry || !is_of_earlier {
                break;
            }
        }
        counters.missed_errors.add(message.carried);
        Sent::Refused
    }
}
