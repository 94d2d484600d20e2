//! What is between two ends learns where their addresses are: switches by a learning frame, routers by ARP (RFC 826), for
//! which an end is a host: it asks for its gateway, and answers for its own address.

use super::TrialError;
use super::ends::tag;
use super::filter::LEARNING;
use super::plan::StreamPlan;
use quaff_os::clock::steady_ns;
use quaff_os::packet::{Qdisc, Receiver, TxSocket};
use quaff_os::rtnl::Link;
use quaff_wire::net::ETHERTYPE_ARP;
use quaff_wire::net::VlanTag;
use quaff_wire::net::arp::Arp;
use quaff_wire::probe::trial::FRAME_BYTES_MIN;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Switches forget after five minutes; a learning frame is sent that often, ns.
const LEARNING_NS: u64 = 60_000_000_000;
/// Routers ask again after half a minute; they are told before, ns.
const TELLING_NS: u64 = 10_000_000_000;
/// A gateway is asked for so often, and waited for so long each time, ns.
const QUESTIONS: usize = 5;
const ANSWER_NS: u64 = 300_000_000;
/// How long one wait of that is.
const WAIT: Duration = Duration::from_millis(20);
/// An ARP packet, and a tag.
const BUFFER_BYTES: usize = 64;

/// Says now and then where an address is, and answers whoever asks for it.
pub(super) struct ArpResponder {
    socket: TxSocket,
    /// One for each VLAN.
    frames: Vec<Vec<u8>>,
    each_ns: u64,
    next_ns: u64,
    /// Only of a host.
    ear: Option<Ear>,
}

/// An end as a router sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    pub(super) mac: [u8; 6],
    pub(super) ip: Ipv4Addr,
    pub(super) gateway: Ipv4Addr,
}

/// Hears questions and answers.
struct Ear {
    receiver: Receiver,
    host: Host,
    /// Answers go to these VLANs: the kernel has taken the tag from what it shows.
    tags: Vec<Option<VlanTag>>,
}

impl ArpResponder {
    /// Tells switches that `to` is here, as seen by `from`.
    pub(super) fn of_switches(
        link: &Link,
        macs: [[u8; 6]; 2],
        streams: &[StreamPlan],
    ) -> Result<Self, TrialError> {
        let frames = tags(streams).into_iter().map(|tag| learning_frame(macs, tag)).collect();
        let socket = TxSocket::open(link.index, &link.name, Qdisc::Bypass)?;
        Ok(Self { socket, frames, each_ns: LEARNING_NS, next_ns: 0, ear: None })
    }

    /// Is a host; says which hardware address its gateway has.
    pub(super) fn of_host(
        link: &Link,
        host: Host,
        streams: &[StreamPlan],
    ) -> Result<(Self, [u8; 6]), TrialError> {
        // Only addresses of one's own can be bound; the kernel would answer for this one, too, and otherwise than we do.
        if UdpSocket::bind((host.ip, 0)).is_ok() {
            return Err(TrialError::Taken { ip: host.ip, interface: link.name.clone() });
        }
        let tags = tags(streams);
        let question = Arp::question(host.mac, host.ip, host.gateway);
        let frames = tags.iter().map(|tag| question.frame(*tag)).collect();
        let socket = TxSocket::open(link.index, &link.name, Qdisc::Bypass)?;
        let receiver = Receiver::open_ethertype(link.index, &link.name, ETHERTYPE_ARP)?;
        receiver.set_timeout(WAIT)?;
        let ear = Some(Ear { receiver, host, tags });
        let mut teacher = Self { socket, frames, each_ns: TELLING_NS, next_ns: 0, ear };
        match teacher.gateway()? {
            Some(mac) => Ok((teacher, mac)),
            None => Err(TrialError::Silent { gateway: host.gateway, interface: link.name.clone() }),
        }
    }

    /// Says what is due to be said, and answers.
    pub(super) fn teach(&mut self) {
        let now_ns = steady_ns();
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + self.each_ns;
            self.say();
        }
        if let Some(ear) = &self.ear {
            let mut buffer = [0; BUFFER_BYTES];
            while let Ok(Some(bytes)) = ear.receiver.receive_now(&mut buffer) {
                ear.answer(&buffer[..bytes.min(BUFFER_BYTES)], &self.socket);
            }
        }
    }

    /// Asks until the gateway answers; answers others meanwhile.
    fn gateway(&mut self) -> Result<Option<[u8; 6]>, TrialError> {
        let mut buffer = [0; BUFFER_BYTES];
        for _ in 0..QUESTIONS {
            self.say();
            let until_ns = steady_ns() + ANSWER_NS;
            while let Some(ear) = self.ear.as_ref().filter(|_| steady_ns() < until_ns) {
                let Some(bytes) = ear.receiver.receive(&mut buffer)? else { continue };
                let heard = &buffer[..bytes.min(BUFFER_BYTES)];
                if let Some(mac) = ear.gateway_in(heard) {
                    self.next_ns = steady_ns() + self.each_ns;
                    return Ok(Some(mac));
                }
                ear.answer(heard, &self.socket);
            }
        }
        Ok(None)
    }

    /// A switch that was not taught sends frames to all its ports, and a router asks: no failure of the trial.
    fn say(&self) {
        for frame in &self.frames {
            let _ = self.socket.send_one(frame);
        }
    }
}

impl Ear {
    /// The gateway's hardware address, if this is its answer to us.
    fn gateway_in(&self, frame: &[u8]) -> Option<[u8; 6]> {
        let arp = Arp::read(frame)?;
        let is_it = arp.is_reply && arp.sender_ip == self.host.gateway && arp.target_ip == self.host.ip;
        is_it.then_some(arp.sender_mac)
    }

    fn answer(&self, frame: &[u8], socket: &TxSocket) {
        let Some(question) = Arp::read(frame).filter(|arp| !arp.is_reply && arp.target_ip == self.host.ip)
        else {
            return;
        };
        for tag in &self.tags {
            // Who was not heard is asked again.
            let _ = socket.send_one(&question.answer(self.host.mac).frame(*tag));
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
    frame.resize(FRAME_BYTES_MIN, 0);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::plan::{Length, Phase};

    #[test]
    fn each_vlan_is_taught_once() {
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
