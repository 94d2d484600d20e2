//! Classifies senders as clients and servers, so that each side is sent through its own interface.
//!
//! Decided on the fly from the frames so far: the rules are those of tcpprep, but without a first pass over the file
//! and without a cache file. Output 0 is for frames of clients, output 1 for frames of servers. A host stays on its
//! side, so that a bridge or router between the two outputs never sees it move, except for one change when evidence
//! contradicts a guess.

use crate::flow::{HashTable, hash_bytes};
use crate::net::tcp::{ACK, FLAGS_OFFSET, SYN};
use crate::net::{self, Ip, TCP, icmp};
use crate::parse::{self, ParseError};
use crate::rewrite::Cidr;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Maximum number of remembered hosts; packets of further hosts are judged individually.
const HOSTS_MAX: usize = 1 << 22;

/// The rule that distinguishes clients and servers; `auto` by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleRule(Rule);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Rule {
    /// Clients: hosts that open a connection, contact a service (ports below 1024) or send an echo request; without
    /// evidence, the host that sends first. The peer of a client is a server.
    #[default]
    Auto,
    /// A host first seen as a sender is a client, one first seen as a receiver a server.
    First,
    /// A packet to one of these TCP or UDP ports comes from a client, any other from a server.
    Ports(Vec<RangeInclusive<u16>>),
    /// A packet whose source is in one of these networks comes from a server.
    Cidrs(Vec<Cidr>),
    /// A frame whose source MAC is in this list comes from a server.
    Macs(Vec<[u8; 6]>),
}

impl FromStr for RoleRule {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Self, ParseError> {
        let (name, list) = word.split_once('=').unwrap_or((word, ""));
        let parts = || list.split(',');
        let rule = match (name, list.is_empty()) {
            ("auto", true) => Some(Rule::Auto),
            ("first", true) => Some(Rule::First),
            ("port", true) => Some(Rule::Ports(vec![0..=1023])),
            ("port", false) => parts().map(parse::ports).collect::<Option<_>>().map(Rule::Ports),
            ("cidr", false) => parts().map(|cidr| cidr.parse().ok()).collect::<Option<_>>().map(Rule::Cidrs),
            ("mac", false) => parts().map(mac).collect::<Option<_>>().map(Rule::Macs),
            _ => None,
        };
        const WHY: &str =
            "is not auto, first, port, port=0-1023,8080, cidr=10.0.0.0/8,… or mac=02:00:00:00:00:01,…";
        rule.map(Self).ok_or_else(|| ParseError::of(word, WHY))
    }
}

fn mac(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = word.split(':');
    for byte in &mut mac {
        let part = parts.next().filter(|part| part.len() <= 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Assigns frames to the side of their sender.
#[derive(Debug)]
pub struct RoleClassifier {
    rule: Rule,
    /// Output for frames that the rule does not classify.
    other: u8,
    /// Hosts by a hash of their address.
    hosts: HashTable<Host>,
    /// The side of each MAC address, for frames that have no other address.
    macs: HashTable<bool>,
}

/// The side of a host, and its certainty.
#[derive(Debug, Clone, Copy)]
struct Host {
    is_server: bool,
    /// True if evidence, not only a guess, determined it.
    is_sure: bool,
}

impl RoleClassifier {
    /// Creates a classifier; unclassified frames, such as those that are not IP, go to output `other`.
    pub fn new(rule: RoleRule, other: u8) -> Self {
        Self { rule: rule.0, other, hosts: HashTable::default(), macs: HashTable::default() }
    }

    /// The output for an Ethernet frame: 0 if a client sent it, 1 if a server did.
    pub fn output(&mut self, frame: &[u8]) -> u8 {
        let Some(layers) = net::layers(frame) else { return self.other };
        match &self.rule {
            Rule::Ports(services) => match layers.ip.and_then(|ip| tcp_or_udp(&ip, frame)) {
                Some([_, to]) => u8::from(!services.iter().any(|range| range.contains(&to))),
                None => self.other,
            },
            Rule::Cidrs(servers) => match layers.ip {
                Some(ip) => servers.iter().any(|cidr| cidr.contains(ip.addresses[0])).into(),
                None => self.other,
            },
            Rule::Macs(servers) => servers.iter().any(|mac| frame[6..12] == *mac).into(),
            Rule::Auto | Rule::First => {
                let addresses = layers.ip.map(|ip| ip.addresses).or_else(|| arp_addresses(frame, &layers));
                self.by_host(frame, addresses, layers.ip)
            }
        }
    }

    fn by_host(&mut self, frame: &[u8], addresses: Option<[IpAddr; 2]>, ip: Option<Ip>) -> u8 {
        let mac = hash_bytes(&frame[6..12]);
        let Some(addresses) = addresses else {
            return self.macs.get(&mac).map_or(self.other, |is_server| u8::from(*is_server));
        };
        let is_server = if self.rule == Rule::First {
            self.first(addresses)
        } else {
            self.auto(addresses, ip.and_then(|ip| evidence(&ip, frame)))
        };
        if self.macs.len() < HOSTS_MAX || self.macs.contains_key(&mac) {
            self.macs.insert(mac, is_server);
        }
        is_server.into()
    }

    fn has_room_for(&self, host: u64) -> bool {
        self.hosts.len() < HOSTS_MAX || self.hosts.contains_key(&host)
    }

    fn first(&mut self, addresses: [IpAddr; 2]) -> bool {
        let [source, destination] = addresses.map(hash);
        let guess = |is_server| Host { is_server, is_sure: false };
        let is_server = self.hosts.get(&source).is_some_and(|host| host.is_server);
        for (host, is_server) in [(source, false), (destination, true)] {
            if self.has_room_for(host) {
                self.hosts.entry(host).or_insert(guess(is_server));
            }
        }
        is_server
    }

    /// `evidence`: `Some(true)` if the packet shows that its sender is a server.
    fn auto(&mut self, addresses: [IpAddr; 2], evidence: Option<bool>) -> bool {
        let [source, destination] = addresses.map(hash);
        let is_one = is_one_host(addresses[1]);
        let known = self.hosts.get(&source).copied();
        let sender = match (known, evidence) {
            (Some(host), _) if host.is_sure => host,
            (_, Some(is_server)) => Host { is_server, is_sure: true },
            (Some(host), None) => host,
            (None, None) => {
                let other = self.hosts.get(&destination).filter(|_| is_one);
                Host { is_server: other.is_some_and(|other| !other.is_server), is_sure: false }
            }
        };
        if self.has_room_for(source) {
            self.hosts.insert(source, sender);
        }
        if is_one && self.has_room_for(destination) {
            let opposite = Host { is_server: !sender.is_server, is_sure: evidence.is_some() };
            let receiver = self.hosts.entry(destination).or_insert(opposite);
            if !receiver.is_sure && evidence.is_some() {
                *receiver = opposite;
            }
        }
        sender.is_server
    }
}

/// The side of the sender according to the packet: true for a server.
fn evidence(ip: &Ip, frame: &[u8]) -> Option<bool> {
    const SERVICES: RangeInclusive<u16> = 1..=1023;
    if let Some([from, to]) = tcp_or_udp(ip, frame) {
        let flags = frame.get(ip.transport + FLAGS_OFFSET).filter(|_| ip.protocol == TCP);
        return match (flags, SERVICES.contains(&from), SERVICES.contains(&to)) {
            (Some(flags), ..) if flags & SYN != 0 => Some(flags & ACK != 0),
            (_, true, false) => Some(true),
            (_, false, true) => Some(false),
            _ => None,
        };
    }
    if ip.is_later_fragment() {
        return None;
    }
    icmp::is_echo_reply(ip.protocol, *frame.get(ip.transport..ip.end)?.first()?)
}

fn tcp_or_udp(ip: &Ip, frame: &[u8]) -> Option<[u16; 2]> {
    ip.ports(frame).filter(|_| ip.protocol != net::SCTP)
}

/// The IP addresses of an ARP message, sender first.
fn arp_addresses(frame: &[u8], layers: &net::Layers) -> Option<[IpAddr; 2]> {
    let message = frame.get(layers.network..).filter(|_| layers.ethertype == net::ETHERTYPE_ARP)?;
    net::arp::addresses(message).map(|ends| ends.map(IpAddr::V4))
}

fn is_one_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast(),
    }
}

fn hash(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(v4) => hash_bytes(&v4.octets()),
        IpAddr::V6(v6) => hash_bytes(&v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{ICMP, UDP};
    use proptest::prelude::*;
    use quaff_testpackets as build;
    use std::net::Ipv4Addr;

    fn ip(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn frame(from: u8, to: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        build::ethernet(&[], 0x0800, &build::ipv4(ip(from), ip(to), protocol, &[], payload))
    }

    fn udp(from: u8, to: u8, ports: [u16; 2]) -> Vec<u8> {
        frame(from, to, UDP, &build::udp(ports[0], ports[1], b"x"))
    }

    fn tcp(from: u8, to: u8, flags: u8) -> Vec<u8> {
        let mut segment = [0; 20];
        segment[..4].copy_from_slice(&[0x20, 0, 0x30, 0]);
        segment[12..14].copy_from_slice(&[0x50, flags]);
        frame(from, to, TCP, &segment)
    }

    fn outputs(rule: &str, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut classifier = RoleClassifier::new(rule.parse().unwrap(), 0);
        frames.iter().map(|frame| classifier.output(frame)).collect()
    }

    #[test]
    fn the_side_that_opens_a_connection_is_a_client() {
        let frames = [tcp(1, 2, 0x12), tcp(2, 1, 0x10), tcp(3, 1, 2), tcp(1, 3, 0x10)];
        assert_eq!(outputs("auto", &frames), [1, 0, 0, 1]);
    }

    #[test]
    fn services_and_echoes_tell_too() {
        let frames = [
            udp(1, 2, [53, 5000]),
            udp(2, 1, [5000, 53]),
            frame(4, 5, ICMP, &[0; 8]),
            frame(5, 4, ICMP, &[8; 8]),
        ];
        assert_eq!(outputs("auto", &frames), [1, 0, 1, 0]);
    }

    #[test]
    fn without_evidence_the_first_sender_is_a_client() {
        let frames = [udp(1, 2, [5000, 6000]), udp(2, 1, [6000, 5000]), udp(3, 1, [7, 7]), udp(3, 2, [7, 7])];
        assert_eq!(outputs("auto", &frames), [0, 1, 1, 1], "the third sends to a client first");
        assert_eq!(outputs("first", &frames), [0, 1, 0, 0], "but was seen as a sender first");
    }

    #[test]
    fn a_guess_gives_way_to_evidence_once() {
        let frames =
            [udp(1, 2, [5000, 6000]), tcp(2, 1, 2), tcp(1, 2, 0x12), udp(1, 2, [5000, 6000]), tcp(1, 2, 2)];
        assert_eq!(outputs("auto", &frames), [0, 0, 1, 1, 1]);
    }

    #[test]
    fn arp_and_other_frames_follow_their_host() {
        let mut message = [0; 28];
        message[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        message[14..18].copy_from_slice(&ip(2).octets());
        message[24..28].copy_from_slice(&ip(1).octets());
        let arp = build::ethernet(&[], 0x0806, &message);
        let other = build::ethernet(&[], 0x88cc, &[0; 50]);
        let frames = [other.clone(), tcp(1, 2, 2), tcp(2, 1, 0x12), arp, other];
        assert_eq!(outputs("auto", &frames), [0, 0, 1, 1, 1], "all have one source MAC here");
    }

    #[test]
    fn lists_of_ports_networks_and_macs() {
        let frames = [udp(1, 2, [5000, 80]), udp(2, 1, [80, 5000]), frame(1, 2, ICMP, &[0; 8])];
        assert_eq!(outputs("port", &frames), [0, 1, 0]);
        assert_eq!(outputs("port=4000-5000", &frames), [1, 0, 0]);
        assert_eq!(outputs("cidr=10.0.0.2,fd00::/8", &frames), [0, 1, 0]);
        assert_eq!(outputs("mac=02:00:00:00:00:01", &frames), [1, 1, 1]);
        assert_eq!(outputs("mac=02:00:00:00:00:02", &frames), [0, 0, 0]);
        for word in
            ["", "auto=1", "cidr", "mac=", "port=9-8", "cidr=10.0.0.0/8,", "mac=02:00:00:00:00", "regex=x"]
        {
            assert!(word.parse::<RoleRule>().is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_has_an_output(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..9), rule in prop::sample::select(vec!["auto", "first", "port", "cidr=::/0", "mac=0:0:0:0:0:0"])) {
            prop_assert!(outputs(rule, &frames).iter().all(|out| *out < 2));
        }
    }
}
