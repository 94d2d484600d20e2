//! The conversation of a frame, from its headers.
//!
//! A frame without an IP header is assigned by its MAC addresses. An ICMP error belongs to the conversation of the
//! packet that it quotes (RFC 792; RFC 4443 section 2.4). A later fragment names its datagram; if only the first
//! fragment has the key, the later one must wait for it.

use super::SplitFields;
use crate::flow::{FlowKey, sorted};
use crate::linktype;
use crate::net::ipv6::FRAGMENT;
use crate::net::{self, DatagramId, ICMP, ICMPV6, Ip, icmp, link};
use crate::tunnel::{self, Outcome, TunnelKinds, strip, strip_datagram};
use std::net::IpAddr;

/// Maximum nesting of quotes: no error is sent about an error.
const QUOTES_MAX: u8 = 1;

/// The conversation of a frame, as far as its own bytes identify it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameFlow {
    pub key: FlowKey,
    /// The MAC addresses, the lower one first, if the frame has any and they are split fields.
    pub macs: Option<[[u8; 6]; 2]>,
    /// The other frame that is needed to complete the key, if any.
    pub what: Completeness,
}

/// Completeness of a frame's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// The key is complete.
    Whole,
    /// The key is complete, also for the other fragments of this datagram.
    First(DatagramId),
    /// The first fragment of this datagram has the key: the frame must wait for it.
    Later(DatagramId),
    /// The frame quotes a later fragment and need not wait: the first fragment was long ago.
    Quoted(DatagramId),
}

/// Finds the conversation of a frame of link type `linktype` with `bytes` captured of `wire_len`. Tunnels of `kinds`
/// are entered, up to `depth` levels: the inner packet counts.
pub fn frame_flow(
    bytes: &[u8],
    wire_len: u32,
    linktype: u16,
    by: SplitFields,
    (kinds, depth): (TunnelKinds, u8),
) -> FrameFlow {
    Finder { by, kinds, depth }.find(bytes, wire_len, linktype, QUOTES_MAX)
}

#[derive(Clone, Copy)]
struct Finder {
    by: SplitFields,
    kinds: TunnelKinds,
    depth: u8,
}

impl Finder {
    fn find(self, bytes: &[u8], wire_len: u32, linktype: u16, quotes: u8) -> FrameFlow {
        if self.kinds.is_empty() || self.depth == 0 {
            return self.outside(bytes, linktype, quotes);
        }
        match strip(bytes, wire_len, linktype, self.kinds, self.depth) {
            Outcome::Inner(inner) => self.inside(bytes, &inner, quotes),
            Outcome::Fragment(fragment) => self.fragment(bytes, linktype, &fragment, quotes),
            _ => self.outside(bytes, linktype, quotes),
        }
    }

    /// The conversation inside a tunnel; `bytes` contains the inner frame.
    fn inside(self, bytes: &[u8], inner: &tunnel::Inner, quotes: u8) -> FrameFlow {
        let start = inner.start as usize;
        let bytes = bytes.get(start..start + inner.len as usize).unwrap_or_default();
        Self { kinds: TunnelKinds::NONE, ..self }.outside(bytes, inner.linktype, quotes)
    }

    /// The conversation of a fragment that may belong to a tunnel. Only the first fragment has the inner headers.
    fn fragment(
        self,
        bytes: &[u8],
        linktype: u16,
        fragment: &tunnel::TunnelFragment,
        quotes: u8,
    ) -> FrameFlow {
        let outer = self.outside(bytes, linktype, quotes);
        if fragment.offset > 0 || fragment.plain {
            return outer;
        }
        let start = fragment.start as usize;
        let payload = bytes.get(start..start + fragment.len as usize).unwrap_or_default();
        let (protocol, source) = (fragment.protocol, fragment.datagram.addresses[0]);
        match strip_datagram(payload, fragment.wire_len, protocol, source, self.kinds, self.depth) {
            Outcome::Inner(inner) => FrameFlow { what: outer.what, ..self.inside(payload, &inner, quotes) },
            _ => outer,
        }
    }

    /// The conversation by the outer headers.
    fn outside(self, bytes: &[u8], linktype: u16, quotes: u8) -> FrameFlow {
        let macs = (linktype == linktype::ETHERNET.linktype).then(|| macs(bytes)).flatten();
        let found = |key, what| FrameFlow { key, macs: macs.filter(|_| self.by.macs), what };
        let network = link::ip_offset(bytes, linktype).filter(|_| self.by.has_addresses());
        if let Some(ip) = network.and_then(|at| net::ip_at(bytes, at)) {
            let (key, what) = self.ip(bytes, &ip, quotes);
            return found(key, what);
        }
        match network.and_then(|at| net::addresses(bytes.get(at..)?)) {
            Some(ends) => found(self.key(0, ends, None), Completeness::Whole),
            None => FrameFlow {
                key: macs.map_or(FlowKey::Nothing, FlowKey::Macs),
                macs: None,
                what: Completeness::Whole,
            },
        }
    }

    fn ip(self, bytes: &[u8], ip: &Ip, quotes: u8) -> (FlowKey, Completeness) {
        let key = self.key(ip.protocol, ip.addresses, ip.ports(bytes));
        let Some(fragment) = ip.fragment else {
            return self.quoted(bytes, ip, quotes).unwrap_or((key, Completeness::Whole));
        };
        let protocol = if ip.is_v6() { FRAGMENT } else { ip.protocol };
        let datagram = DatagramId { addresses: ip.addresses, id: fragment.id, protocol };
        if fragment.offset_bytes == 0 {
            let quoted = self.quoted(bytes, ip, quotes);
            return (quoted.map_or(key, |(key, _)| key), Completeness::First(datagram));
        }
        let is_error = matches!(ip.protocol, ICMP | ICMPV6);
        let fallback = self.key(ip.protocol, ip.addresses, None);
        let is_all = !self.by.ports && self.kinds.is_empty() && !is_error;
        (fallback, if is_all { Completeness::Whole } else { Completeness::Later(datagram) })
    }

    fn key(self, protocol: u8, addresses: [IpAddr; 2], ports: Option<[u16; 2]>) -> FlowKey {
        if !self.by.ports {
            return FlowKey::addresses(addresses);
        }
        let [source, destination] = ports.unwrap_or_default();
        FlowKey::ports(protocol, [(addresses[0], source), (addresses[1], destination)])
    }

    /// The conversation of the packet that an ICMP error quotes.
    fn quoted(self, bytes: &[u8], ip: &Ip, quotes: u8) -> Option<(FlowKey, Completeness)> {
        let message = *bytes.get(ip.transport..ip.end)?.first()?;
        if !icmp::is_error(ip.protocol, message) || quotes == 0 {
            return None;
        }
        let quote = bytes.get(ip.transport + icmp::HEADER_BYTES..ip.end)?;
        let found = self.find(quote, quote.len() as u32, linktype::RAW.linktype, quotes - 1);
        let what = match found.what {
            Completeness::Later(datagram) => Completeness::Quoted(datagram),
            Completeness::Whole | Completeness::First(_) | Completeness::Quoted(_) => Completeness::Whole,
        };
        (found.key != FlowKey::Nothing).then_some((found.key, what))
    }
}

/// The MAC addresses of an Ethernet frame, the lower one first.
fn macs(bytes: &[u8]) -> Option<[[u8; 6]; 2]> {
    let bytes = bytes.first_chunk::<12>()?;
    let mac =
        |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3], bytes[at + 4], bytes[at + 5]];
    Some(sorted([mac(0), mac(6)]))
}

#[cfg(test)]
mod tests;
