//! The conversation that a frame belongs to, by its headers.
//!
//! What has no IP header goes by its MAC addresses. An ICMP error belongs to the conversation of the
//! packet that it quotes (RFC 792; RFC 4443 section 2.4). A fragment that is not its datagram's first
//! names that datagram; where only the first one says where it belongs, it has to wait for it.

use super::By;
use super::key::{Key, Macs, sorted};
use crate::layers::{self, ICMP, ICMPV6, Ip};
use crate::linktype;
use crate::tunnel::{self, Kinds, Outcome, strip, strip_datagram};
use std::net::IpAddr;

/// LINKTYPE_NULL, LINKTYPE_PPP, LINKTYPE_LOOP, LINKTYPE_LINUX_SLL, LINKTYPE_IPV4, LINKTYPE_IPV6,
/// LINKTYPE_LINUX_SLL2.
const NULL: u16 = 0;
const PPP: u16 = 9;
const LOOP: u16 = 108;
const LINUX_SLL: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const LINUX_SLL2: u16 = 276;
/// EtherTypes.
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_MPLS: u16 = 0x8847;
const ETHERTYPE_MPLS_UPSTREAM: u16 = 0x8848;
const ETHERTYPE_PPPOE: u16 = 0x8864;
/// Those with another Ethernet frame behind them: bridging, IEEE 802.1ah, Cisco's FabricPath.
const ETHERTYPE_TEB: u16 = 0x6558;
const ETHERTYPE_PBB: u16 = 0x88e7;
const ETHERTYPE_FABRICPATH: u16 = 0x8903;
/// An Ethernet frame that lies deeper is not looked into.
const ETHERNETS_MAX: u8 = 2;
/// A label stack that is deeper is not followed.
const LABELS_MAX: usize = 16;
/// A packet quoted in one that is quoted is not looked for: no error is sent about an error.
const QUOTES_MAX: u8 = 1;

/// What a frame says about its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its conversation, as far as the frame itself tells.
    pub key: Key,
    /// The MAC addresses beside it, where the frame has some and they count as well.
    pub macs: Option<Macs>,
    /// Whether another frame tells more.
    pub what: What,
}

/// Whether a frame says all about its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It does.
    Whole,
    /// It does, also for the other fragments of its datagram.
    First(Datagram),
    /// The first fragment of its datagram does, which it has to wait for.
    Later(Datagram),
    /// It quotes such a fragment, and need not wait: the first one was long ago.
    Quoted(Datagram),
}

/// What the fragments of a datagram have in common (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// IPv4: 16 bits. IPv6: 32 bits.
    pub id: u32,
    /// IPv4: the protocol. IPv6: 0, since only the first fragment is sure to name it.
    pub protocol: u8,
}

/// Finds the conversation of a frame of link type `linktype`, of which `bytes` were captured and that
/// had `wire_len`. Tunnels of `kinds` are looked into, at most `depth` in each other: it is what is
/// inside that counts.
pub fn find(bytes: &[u8], wire_len: u32, linktype: u16, by: By, (kinds, depth): (Kinds, u8)) -> Found {
    Finder { by, kinds, depth }.find(bytes, wire_len, linktype, QUOTES_MAX)
}

#[derive(Clone, Copy)]
struct Finder {
    by: By,
    kinds: Kinds,
    depth: u8,
}

impl Finder {
    fn find(self, bytes: &[u8], wire_len: u32, linktype: u16, quotes: u8) -> Found {
        if self.kinds.is_empty() || self.depth == 0 {
            return self.outside(bytes, linktype, quotes);
        }
        match strip(bytes, wire_len, linktype, self.kinds, self.depth) {
            Outcome::Inner(inner) => self.inside(bytes, &inner, quotes),
            Outcome::Fragment(piece) => self.piece(bytes, linktype, &piece, quotes),
            _ => self.outside(bytes, linktype, quotes),
        }
    }

    /// What is inside a tunnel, in bytes where the inner frame lies.
    fn inside(self, bytes: &[u8], inner: &tunnel::Inner, quotes: u8) -> Found {
        let start = inner.start as usize;
        let bytes = bytes.get(start..start + inner.len as usize).unwrap_or_default();
        Self { kinds: Kinds::NONE, ..self }.outside(bytes, inner.linktype, quotes)
    }

    /// A piece of a datagram that may be a tunnel. The first one shows what is inside.
    fn piece(self, bytes: &[u8], linktype: u16, piece: &tunnel::Fragment, quotes: u8) -> Found {
        let outer = self.outside(bytes, linktype, quotes);
        if piece.offset > 0 || piece.plain {
            return outer;
        }
        let start = piece.start as usize;
        let payload = bytes.get(start..start + piece.len as usize).unwrap_or_default();
        let (protocol, source) = (piece.protocol, piece.key.source);
        match strip_datagram(payload, piece.wire_len, protocol, source, self.kinds, self.depth) {
            Outcome::Inner(inner) => Found { what: outer.what, ..self.inside(payload, &inner, quotes) },
            _ => outer,
        }
    }

    /// What the first headers say, whatever is in the packet.
    fn outside(self, bytes: &[u8], linktype: u16, quotes: u8) -> Found {
        let macs = (linktype == linktype::ETHERNET.linktype).then(|| macs(bytes)).flatten();
        let found = |key, what| Found { key, macs: macs.filter(|_| self.by.macs), what };
        let network = network(bytes, linktype).filter(|_| self.by.has_addresses());
        if let Some(ip) = network.and_then(|at| layers::ip(bytes, at)) {
            let (key, what) = self.ip(bytes, &ip, quotes);
            return found(key, what);
        }
        match network.and_then(|at| addresses(bytes, at)) {
            Some(ends) => found(self.key(0, ends, None), What::Whole),
            None => Found { key: macs.map_or(Key::Nothing, Key::Macs), macs: None, what: What::Whole },
        }
    }

    fn ip(self, bytes: &[u8], ip: &Ip, quotes: u8) -> (Key, What) {
        let key = self.key(ip.protocol, ip.addresses, ip.ports(bytes));
        let Some(piece) = ip.fragment else {
            return self.quoted(bytes, ip, quotes).unwrap_or((key, What::Whole));
        };
        let protocol = if ip.is_v6() { 0 } else { ip.protocol };
        let datagram = Datagram { addresses: ip.addresses, id: piece.id, protocol };
        if piece.offset_bytes == 0 {
            let quoted = self.quoted(bytes, ip, quotes);
            return (quoted.map_or(key, |(key, _)| key), What::First(datagram));
        }
        let is_error = matches!(ip.protocol, ICMP | ICMPV6);
        let fallback = self.key(ip.protocol, ip.addresses, None);
        let is_all = !self.by.ports && self.kinds.is_empty() && !is_error;
        (fallback, if is_all { What::Whole } else { What::Later(datagram) })
    }

    fn key(self, protocol: u8, addresses: [IpAddr; 2], ports: Option<[u16; 2]>) -> Key {
        if !self.by.ports {
            return Key::addresses(addresses);
        }
        let [source, destination] = ports.unwrap_or_default();
        Key::ports(protocol, [(addresses[0], source), (addresses[1], destination)])
    }

    /// The conversation of the packet that an ICMP error quotes.
    fn quoted(self, bytes: &[u8], ip: &Ip, quotes: u8) -> Option<(Key, What)> {
        const HEADER_BYTES: usize = 8;
        let kind = *bytes.get(ip.transport..ip.end)?.first()?;
        let is_error = match ip.protocol {
            ICMP => matches!(kind, 3 | 4 | 5 | 11 | 12),
            ICMPV6 => (1..=4).contains(&kind),
            _ => false,
        };
        if !is_error || quotes == 0 {
            return None;
        }
        let quote = bytes.get(ip.transport + HEADER_BYTES..ip.end)?;
        let found = self.find(quote, quote.len() as u32, linktype::RAW.linktype, quotes - 1);
        let what = match found.what {
            What::Later(datagram) => What::Quoted(datagram),
            What::Whole | What::First(_) | What::Quoted(_) => What::Whole,
        };
        (found.key != Key::Nothing).then_some((found.key, what))
    }
}

/// The MAC addresses of an Ethernet frame, the lower one first.
fn macs(bytes: &[u8]) -> Option<Macs> {
    let bytes = bytes.first_chunk::<12>()?;
    let mac =
        |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4], bytes[at + 5]];
    Some(sorted([mac(0), mac(6)]))
}

/// Where the IP header of a frame begins, behind tags, labels, PPPoE and SNAP.
fn network(bytes: &[u8], linktype: u16) -> Option<usize> {
    match linktype {
        1 => ethernet(bytes, 0, ETHERNETS_MAX),
        NULL | LOOP => Some(4),
        PPP => behind_ppp(bytes, if bytes.starts_with(&[0xff, 3]) { 2 } else { 0 }),
        LINUX_SLL => behind(bytes, be16(bytes, 14)?, 16, ETHERNETS_MAX),
        LINUX_SLL2 => behind(bytes, be16(bytes, 0)?, 20, ETHERNETS_MAX),
        IPV4 | IPV6 => Some(0),
        linktype if linktype == linktype::RAW.linktype => Some(0),
        _ => None,
    }
}

/// Where it is in an Ethernet frame that begins at `at`.
fn ethernet(bytes: &[u8], at: usize, deeper: u8) -> Option<usize> {
    let layers = layers::ethernet(bytes.get(at..)?)?;
    behind(bytes, layers.ethertype, at + layers.network, deeper)
}

/// Where it is, when what begins at `at` is of this EtherType.
fn behind(bytes: &[u8], ethertype: u16, at: usize, deeper: u8) -> Option<usize> {
    match ethertype {
        ETHERTYPE_TEB | ETHERTYPE_PBB | ETHERTYPE_FABRICPATH if deeper > 0 => {
            let tag_bytes = match ethertype {
                ETHERTYPE_PBB => 4,
                ETHERTYPE_FABRICPATH => 2,
                _ => 0,
            };
            ethernet(bytes, at + tag_bytes, deeper - 1)
        }
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(at),
        // RFC 2516: version, code, session, length; then PPP.
        ETHERTYPE_PPPOE => behind_ppp(bytes, at + 6),
        ETHERTYPE_MPLS | ETHERTYPE_MPLS_UPSTREAM => behind_labels(bytes, at),
        // A length: IEEE 802.2 LLC, and SNAP (RFC 1042).
        0..=1500 => {
            let snap = bytes.get(at..)?.first_chunk::<8>()?;
            let is_ip =
                snap[..6] == [0xaa, 0xaa, 3, 0, 0, 0] && [[8, 0], [0x86, 0xdd]].contains(&[snap[6], snap[7]]);
            is_ip.then_some(at + 8)
        }
        _ => None,
    }
}

fn behind_ppp(bytes: &[u8], at: usize) -> Option<usize> {
    matches!(be16(bytes, at)?, 0x0021 | 0x0057).then_some(at + 2)
}

/// RFC 3032: the bottom of the stack has a bit of its own; what follows tells itself.
fn behind_labels(bytes: &[u8], at: usize) -> Option<usize> {
    let labels = bytes.get(at..)?.chunks_exact(4).take(LABELS_MAX);
    let bottom = labels.into_iter().position(|label| label[2] & 1 == 1)?;
    let at = at + (bottom + 1) * 4;
    matches!(bytes.get(at)? >> 4, 4 | 6).then_some(at)
}

/// The addresses of an IP header whose lengths make no sense.
fn addresses(bytes: &[u8], at: usize) -> Option<[IpAddr; 2]> {
    let header = bytes.get(at..)?;
    match header.first()? >> 4 {
        4 => {
            let header = header.first_chunk::<20>()?;
            let address = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]].into();
            Some([address(12), address(16)])
        }
        6 => {
            let header = header.first_chunk::<40>()?;
            let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).unwrap_or_default().into();
            Some([address(8), address(24)])
        }
        _ => None,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
