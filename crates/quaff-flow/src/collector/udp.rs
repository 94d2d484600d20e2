//! Messages over UDP: one socket, one session, no retransmission. A message that the kernel refuses is lost and
//! counted.
//!
//! The messages of a batch are sent together: one pass through the network stack costs less than one for each.

use super::counters::Counters;
use crate::export::{Message, Session, Version};
use nix::errno::Errno;
use quaff_os::socket::{
    TOGETHER_BYTES_MAX, TOGETHER_MAX, allow_fragments, never_fragment, path_mtu, send_together,
};
use quaff_os::{Result, Try};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Maximum bytes of a packet where the MTU of the path is unknown (RFC 7011, 10.3.3).
const MTU_UNKNOWN: usize = 512;
/// Maximum used of a larger MTU, such as loopback's: the buffers of collectors are made for Ethernet.
const MTU_MAX: usize = 1500;

/// A collector over UDP.
#[derive(Debug)]
pub(super) struct UdpLink {
    socket: UdpSocket,
    is_ipv6: bool,
    session: Session,
    /// Maximum bytes of a message, set by the user.
    bytes_max: usize,
    /// Messages that are sent next, together.
    waiting: Vec<Message>,
    waiting_bytes: usize,
    /// The path accepts several messages in one call.
    sends_together: bool,
}

impl UdpLink {
    /// Opens a socket to a collector, from `source` if one is given.
    pub(super) fn open(
        peer: SocketAddr,
        source: Option<IpAddr>,
        version: Version,
        bytes_max: usize,
    ) -> Result<Self> {
        let is_ipv6 = peer.is_ipv6();
        let any = if is_ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let own = source.unwrap_or(any);
        let socket = UdpSocket::bind((own, 0)).trying(|| format!("open a UDP socket on {own}"))?;
        socket.connect(peer).trying(|| format!("connect a UDP socket to {peer}"))?;
        // Without fragmentation the kernel learns the MTU of the path from routers, and `message_bytes_max` follows it.
        never_fragment(&socket, is_ipv6).trying(|| format!("learn the MTU of the path to {peer}"))?;
        let (session, waiting) = (Session::new(version), Vec::new());
        Ok(Self { socket, is_ipv6, session, bytes_max, waiting, waiting_bytes: 0, sends_together: true })
    }

    /// Maximum bytes of a message, by the currently known MTU of the path.
    pub(super) fn message_bytes_max(&self) -> usize {
        message_bytes(path_mtu(&self.socket, self.is_ipv6), self.is_ipv6).min(self.bytes_max)
    }

    /// Advances the sequence by records that were lost before they were encoded.
    pub(super) fn lose(&mut self, records: u64) {
        self.session.lose(records);
    }

    /// Queues a message, which is sent with the next ones or by [`Self::flush`]. The sequence advances even if it is
    /// lost, so that the collector notices the loss.
    pub(super) fn send(&mut self, mut message: Message, counters: &Counters) {
        self.session.seal(&mut message);
        let bytes = message.bytes.len();
        let is_full = self.waiting.len() == TOGETHER_MAX || self.waiting_bytes + bytes > TOGETHER_BYTES_MAX;
        // Messages that are sent together have the same length; only the last may be shorter.
        let has_ended = match (self.waiting.first(), self.waiting.last()) {
            (Some(first), Some(last)) => bytes > first.bytes.len() || last.bytes.len() < first.bytes.len(),
            _ => false,
        };
        if is_full || has_ended {
            self.flush(counters);
        }
        self.waiting_bytes += bytes;
        self.waiting.push(message);
    }

    /// Sends the queued messages.
    pub(super) fn flush(&mut self, counters: &Counters) {
        self.waiting_bytes = 0;
        let messages = std::mem::take(&mut self.waiting);
        if !(messages.len() > 1 && self.sends_together && self.send_all(&messages, counters)) {
            messages.iter().for_each(|message| self.send_one(message, counters));
        }
        self.waiting = messages;
        self.waiting.clear();
    }

    /// Sends messages in one call; `false` if none was sent.
    fn send_all(&mut self, messages: &[Message], counters: &Counters) -> bool {
        let all: Vec<IoSlice<'_>> = messages.iter().map(|message| IoSlice::new(&message.bytes)).collect();
        let Err(error) = send_together(&self.socket, &all) else {
            messages.iter().for_each(|message| sent(message, counters));
            return true;
        };
        match error.raw_os_error().map(Errno::from_raw) {
            // EIO: the device computes no checksums, or the path has IPsec. ENOPROTOOPT: before Linux 4.18. EINVAL and
            // EMSGSIZE: a message is longer than the path's packets, perhaps this one only.
            Some(Errno::EIO | Errno::EOPNOTSUPP | Errno::ENOPROTOOPT) => self.sends_together = false,
            Some(Errno::EINVAL | Errno::EMSGSIZE) => {}
            _ => Counters::add(&counters.errors, 1),
        }
        false
    }

    fn send_one(&self, message: &Message, counters: &Counters) {
        for is_retry in [false, true] {
            let Err(error) = self.socket.send(&message.bytes) else { return sent(message, counters) };
            Counters::add(&counters.errors, 1);
            match error.raw_os_error().map(Errno::from_raw) {
                // The MTU of the path shrank after the message was encoded: this one is sent in fragments.
                Some(Errno::EMSGSIZE) => {
                    if self.send_in_fragments(message).is_ok() {
                        return sent(message, counters);
                    }
                    break;
                }
                // The error is of an earlier message; this one was not sent yet.
                Some(Errno::ECONNREFUSED | Errno::EHOSTUNREACH | Errno::ENETUNREACH) if !is_retry => {}
                _ => break,
            }
        }
        counters.missed_errors.add(message.carried);
    }

    fn send_in_fragments(&self, message: &Message) -> io::Result<()> {
        allow_fragments(&self.socket, self.is_ipv6)?;
        let sent = self.socket.send(&message.bytes);
        never_fragment(&self.socket, self.is_ipv6)?;
        sent.map(drop)
    }
}

/// Maximum bytes of a message in a packet of this MTU.
fn message_bytes(mtu: Option<usize>, is_ipv6: bool) -> usize {
    let headers = if is_ipv6 { 48 } else { 28 };
    mtu.unwrap_or(MTU_UNKNOWN).min(MTU_MAX).saturating_sub(headers)
}

fn sent(message: &Message, counters: &Counters) {
    counters.sent.add(message.carried);
    Counters::add(&counters.messages, 1);
    Counters::add(&counters.bytes, message.bytes.len() as u64);
    Counters::add(&counters.templates, u64::from(message.has_templates));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_fit_the_path() {
        assert_eq!(message_bytes(Some(1500), false), 1472);
        assert_eq!(message_bytes(Some(65_536), true), 1452);
        assert_eq!(message_bytes(Some(700), false), 672);
        assert_eq!(message_bytes(None, false), 484);
        assert_eq!(message_bytes(Some(20), true), 0);
    }

    fn link() -> (UdpSocket, UdpLink) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let link = UdpLink::open(peer.local_addr().unwrap(), None, Version::Ipfix, 9000).unwrap();
        (peer, link)
    }

    /// In the mode in which the kernel learns the MTU of the path, a message longer than any packet is refused, not
    /// fragmented.
    #[test]
    fn a_message_that_no_packet_has_room_for_is_counted() {
        let (peer, mut link) = link();
        let counters = Counters::default();
        let carried = crate::export::Carried { records: 3, packets: 4, bytes: 5 };
        let message = |bytes| Message { bytes: vec![0; bytes], carried, ..Message::default() };
        link.send(message(65_508), &counters);
        link.send(message(60_000), &counters);
        link.flush(&counters);
        let report = counters.report("", "");
        assert_eq!((report.sent.records, report.missed.errors.records, report.errors), (3, 3, 1));
        assert_eq!(peer.recv(&mut [0; 65_536]).unwrap(), 60_000);
    }

    /// An error of a closed port is reported with a later message: that one is sent again, and none counts twice.
    /// Meanwhile the socket is connected to another peer, and keeps its own port.
    #[test]
    fn a_collector_that_refuses_costs_no_message_of_its_own() {
        let (peer, mut link) = link();
        peer.connect("127.0.0.1:9").unwrap();
        let counters = Counters::default();
        let carried = crate::export::Carried { records: 1, packets: 1, bytes: 1 };
        let message = || Message { bytes: vec![0; 100], carried, ..Message::default() };
        for _ in 0..20 {
            link.send(message(), &counters);
            link.flush(&counters);
        }
        let before = counters.report("", "");
        assert_eq!(before.sent.records + before.missed.errors.records, 20);
        assert!(before.errors > 0, "{before:?}");
        peer.connect(link.socket.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        link.send(message(), &counters);
        link.flush(&counters);
        assert_eq!(counters.report("", "").sent.records, before.sent.records + 1);
        assert_eq!(peer.recv(&mut [0; 200]).unwrap(), 100);
    }

    /// Whatever their lengths, messages arrive one by one, in order, and each is counted once.
    #[test]
    fn messages_that_leave_together_arrive_as_they_were() {
        let (peer, mut link) = link();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let counters = Counters::default();
        let carried = crate::export::Carried { records: 1, packets: 1, bytes: 1 };
        let lengths: Vec<usize> =
            [100, 100, 40, 100, 200, 200, 30, 30, 1000].into_iter().chain([90; 70]).collect();
        for (at, length) in lengths.iter().enumerate() {
            link.send(Message { bytes: vec![at as u8; *length], carried, ..Message::default() }, &counters);
        }
        link.flush(&counters);
        let sent = counters.report("", "");
        assert_eq!((sent.messages, sent.sent.records, sent.errors), (79, 79, 0));
        let mut bytes = [0; 2000];
        for (at, length) in lengths.iter().enumerate() {
            // The sequence number is at an offset in between.
            assert_eq!((peer.recv(&mut bytes).unwrap(), bytes[0], bytes[20]), (*length, at as u8, at as u8));
        }
        assert!(link.sends_together);
    }
}
