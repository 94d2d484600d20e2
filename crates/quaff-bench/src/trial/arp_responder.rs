//! Address learning on the path. Switches learn from a learning frame. Routers use ARP (RFC 826): an end acts as a
//! host, which asks for its gateway's address and answers for its own.

use super::error::TrialError;
use super::filter::LEARNING;
use super::plan::{StreamPlan, tag};
use quaff_os::clock::steady_ns;
use quaff_os::packet::{Qdisc, Receiver, TxSocket};
use quaff_os::rtnl::Link;
use quaff_wire::net::Arp;
use quaff_wire::net::{ETHERTYPE_ARP, VlanTag};
use quaff_wire::probe::TrialHeader;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Interval of learning frames, ns; switches age out an address after five minutes.
const LEARNING_NS: u64 = 60_000_000_000;
/// Interval of ARP requests to a router, ns; the router itself asks again after 30 s.
const REQUEST_NS: u64 = 10_000_000_000;
/// Attempts to resolve the gateway, and the timeout of each, ns.
const REQUESTS: usize = 5;
const REPLY_NS: u64 = 300_000_000;
/// Receive timeout within a wait for a reply.
const WAIT: Duration = Duration::from_millis(20);
/// Size of an ARP packet with a tag, rounded up.
const BUFFER_BYTES: usize = 64;

/// Announces an address at intervals, and answers requests for it.
pub(super) struct ArpResponder {
    socket: TxSocket,
    /// The announcement for each VLAN.
    frames: Vec<Vec<u8>>,
    each_ns: u64,
    next_ns: u64,
    host: Option<Listener>,
}

/// An end from its router's point of view.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) mac: [u8; 6],
    pub(super) ip: Ipv4Addr,
    pub(super) gateway: Ipv4Addr,
}

/// Receives ARP for a host.
struct Listener {
    receiver: Receiver,
    host: Host,
    /// VLANs for replies: the kernel removes the tag of a request.
    tags: Vec<Option<VlanTag>>,
}

impl ArpResponder {
    /// Announces `to` to switches in frames from `from`.
    pub(super) fn of_switches(
        link: &Link,
        macs: [[u8; 6]; 2],
        streams: &[StreamPlan],
    ) -> Result<Self, TrialError> {
        let frames = tags(streams).into_iter().map(|tag| learning_frame(macs, tag)).collect();
        let socket = TxSocket::open(link.index, &link.name, Qdisc::Bypass)?;
        Ok(Self { socket, frames, each_ns: LEARNING_NS, next_ns: 0, host: None })
    }

    /// Acts as a host. Also returns the hardware address of its gateway.
    pub(super) fn of_host(
        link: &Link,
        host: Host,
        streams: &[StreamPlan],
    ) -> Result<(Self, [u8; 6]), TrialError> {
        // Only an address of this machine can be bound; the kernel would answer ARP for it with another hardware
        // address.
        if UdpSocket::bind((host.ip, 0)).is_ok() {
            return Err(TrialError::Taken { ip: host.ip, interface: link.name.clone() });
        }
        let tags = tags(streams);
        let request = Arp::question(host.mac, host.ip, host.gateway);
        let frames = tags.iter().map(|tag| request.frame(*tag)).collect();
        let socket = TxSocket::open(link.index, &link.name, Qdisc::Bypass)?;
        let receiver = Receiver::open_ethertype(link.index, &link.name, ETHERTYPE_ARP, WAIT)?;
        let host_listener = Some(Listener { receiver, host, tags });
        let mut responder = Self { socket, frames, each_ns: REQUEST_NS, next_ns: 0, host: host_listener };
        match responder.gateway()? {
            Some(mac) => Ok((responder, mac)),
            None => Err(TrialError::Silent { gateway: host.gateway, interface: link.name.clone() }),
        }
    }

    /// Sends a due announcement, and answers requests.
    pub(super) fn respond(&mut self) {
        let now_ns = steady_ns();
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + self.each_ns;
            self.announce();
        }
        if let Some(host) = &self.host {
            let mut buffer = [0; BUFFER_BYTES];
            while let Ok(Some(bytes)) = host.receiver.receive_now(&mut buffer) {
                host.answer(&buffer[..bytes.min(BUFFER_BYTES)], &self.socket);
            }
        }
    }

    /// Sends requests until the gateway answers, and answers requests meanwhile.
    fn gateway(&mut self) -> Result<Option<[u8; 6]>, TrialError> {
        let mut buffer = [0; BUFFER_BYTES];
        for _ in 0..REQUESTS {
            self.announce();
            let until_ns = steady_ns() + REPLY_NS;
            while let Some(host) = self.host.as_ref().filter(|_| steady_ns() < until_ns) {
                let Some(bytes) = host.receiver.receive(&mut buffer)? else { continue };
                let frame = &buffer[..bytes.min(BUFFER_BYTES)];
                if let Some(mac) = host.gateway_in(frame) {
                    self.next_ns = steady_ns() + self.each_ns;
                    return Ok(Some(mac));
                }
                host.answer(frame, &self.socket);
            }
        }
        Ok(None)
    }

    /// Ignores errors: a switch that has not learned an address floods, and a router asks.
    fn announce(&self) {
        for frame in &self.frames {
            let _ = self.socket.send_one(frame);
        }
    }
}

impl Listener {
    /// The gateway's hardware address, if the frame is its reply.
    fn gateway_in(&self, frame: &[u8]) -> Option<[u8; 6]> {
        let arp = Arp::read(frame)?;
        let is_it = arp.is_reply && arp.sender_ip == self.host.gateway && arp.target_ip == self.host.ip;
        is_it.then_some(arp.sender_mac)
    }

    fn answer(&self, frame: &[u8], socket: &TxSocket) {
        let Some(request) = Arp::read(frame).filter(|arp| !arp.is_reply && arp.target_ip == self.host.ip)
        else {
            return;
        };
        for tag in &self.tags {
            // A request is repeated if its reply is lost.
            let _ = socket.send_one(&request.answer(self.host.mac).frame(*tag));
        }
    }
}

/// The VLANs of the streams, each once.
fn tags(streams: &[StreamPlan]) -> Vec<Option<VlanTag>> {
    let vlans: BTreeSet<_> = streams.iter().map(|stream| stream.vlan).collect();
    vlans.into_iter().map(|vlan| vlan.map(tag)).collect()
}

fn learning_frame([from, to]: [[u8; 6]; 2], tag: Option<VlanTag>) -> Vec<u8> {
    let mut frame = [from, to].concat();
    for word in tag.into_iter().flat_map(|tag| [tag.tpid, tag.tci]).chain([LEARNING]) {
        frame.extend(word.to_be_bytes());
    }
    frame.resize(TrialHeader::LAYOUT.frame_bytes_min, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::plan::{Length, Phase};

    #[test]
    fn each_vlan_is_announced_once() {
        let stream = |vlan| StreamPlan {
            id: 3,
            sizes: vec![60],
            phases: vec![Phase { length: Length::Seconds(1.0), pps: None }],
            vlan,
            dscp: 46,
        };
        let tags = tags(&[stream(Some((100, 5))), stream(None), stream(Some((100, 5)))]);
        let frames: Vec<_> = tags.into_iter().map(|tag| learning_frame([[4; 6], [2; 6]], tag)).collect();
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60]);
        assert_eq!(frames[0][..14], [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 0x88, 0xb5]);
        assert_eq!(frames[1][12..18], [0x81, 0, 0xa0, 100, 0x88, 0xb5]);
    }
}
