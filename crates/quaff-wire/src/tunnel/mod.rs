//! Tunnels: from the bytes of a frame to the place of the inner frame in them.
//!
//! [`strip`] reads headers and nothing else: it allocates nothing, verifies no checksum, keeps
//! nothing between two calls, and does not panic whatever the bytes. It never returns a frame
//! that it had to invent: if a header is cut, broken, or does not name its payload, the answer
//! is [`Outcome::Damaged`]. The stages decide about the answer.
//!
//! One file for each family of known tunnels. `link`, `ip` and `udp` lead to them; `packet` is the place in
//! the bytes that all of them move along.

mod erspan;
mod fragment;
mod geneve;
mod gre;
mod gtp;
mod guess;
mod ip;
mod kinds;
mod l2tp;
mod link;
mod mpls;
mod outcome;
mod packet;
mod session;
mod tzsp;
mod udp;
mod vxlan;
pub(crate) mod write;

pub use fragment::TunnelFragment;
pub use gre::GreSequence;
pub use kinds::{TunnelKind, TunnelKinds};
pub use outcome::{Damage, Inner, Marker, Outcome, Reason};
pub use session::{Direction, ErspanTime, Session, Upper};

use packet::{Packet, Stop, Walk};
use std::net::IpAddr;

/// Takes tunnels of the wanted `kinds` off a frame, at most `depth` of them.
///
/// `bytes` are the captured bytes of the outer frame, of link type `linktype` (LINKTYPE_*: Ethernet, Linux cooked
/// 1 and 2, PPP, HDLC, bare IP; any other is plain), and `wire_len` is its length on the wire. VLAN tags are skipped.
///
/// Lengths come from the outer IP header, so that padding after a short packet is no part of the
/// inner frame, and a frame that the capture cut keeps its own original length.
///
/// A tunnel inside a tunnel is taken off as well. If it cannot be, because it is a fragment, carries no frame, or is
/// damaged, the frame that holds it is the inner frame.
#[inline]
pub fn strip(bytes: &[u8], wire_len: u32, linktype: u16, kinds: TunnelKinds, depth: u8) -> Outcome {
    if depth == 0 || kinds.is_empty() {
        return Outcome::Plain;
    }
    let mut walk = Walk::new(Packet::new(bytes, wire_len), kinds);
    let first = link::strip(&mut walk, linktype);
    outcome(first, &mut walk, depth)
}

/// Takes tunnels off a datagram that was reassembled from fragments.
///
/// `payload` is what the IP fragments carried, without IP headers; `protocol` is that of the first
/// [`TunnelFragment`] and `source` that of the key. [`Inner::start`] counts from the payload's first byte.
pub fn strip_datagram(
    payload: &[u8],
    wire_len: u32,
    protocol: u8,
    source: IpAddr,
    kinds: TunnelKinds,
    depth: u8,
) -> Outcome {
    if depth == 0 {
        return Outcome::Plain;
    }
    let mut walk = Walk::new(Packet::new(payload, wire_len), kinds);
    walk.source = Some(source);
    let first = ip::datagram(protocol, &mut walk);
    outcome(first, &mut walk, depth)
}

/// The outcome of the first tunnel and of those inside it.
#[inline]
fn outcome(first: Result<(), Stop>, walk: &mut Walk<'_>, depth: u8) -> Outcome {
    match first {
        Ok(()) => Outcome::Inner(descend(walk, depth)),
        Err(Stop::Plain) => Outcome::Plain,
        Err(Stop::Fragment) => walk.fragment.map_or(Outcome::Plain, Outcome::Fragment),
        Err(Stop::Marker) => walk.marker.map_or(Outcome::Plain, Outcome::Marker),
        Err(Stop::Damaged(damage)) => Outcome::Damaged(damage),
        Err(Stop::Control) => Outcome::Control,
    }
}

/// Takes off the tunnels inside the one that was found.
fn descend(walk: &mut Walk<'_>, depth: u8) -> Inner {
    let mut inner = inner(walk);
    let mut rank = walk.rank();
    while inner.depth < depth {
        walk.forget();
        match link::strip(walk, inner.linktype) {
            Ok(()) => {
                let Inner { session, sequence, time, direction, .. } = inner;
                inner = Inner { depth: inner.depth + 1, ..self::inner(walk) };
                if walk.rank() <= rank {
                    inner = Inner { session, sequence, time, direction, ..inner };
                }
                rank = rank.max(walk.rank());
            }
            Err(Stop::Damaged(damage)) => {
                inner.damage = Some(damage);
                break;
            }
            Err(_) => break,
        }
    }
    inner
}

/// The frame of the tunnel that was just taken off.
#[inline]
fn inner(walk: &Walk<'_>) -> Inner {
    Inner {
        start: walk.packet.at() as u32,
        len: walk.packet.rest().len() as u32,
        wire_len: walk.packet.wire_left(),
        linktype: walk.found.linktype,
        tag: walk.found.tag,
        session: walk.session(),
        sequence: walk.found.sequence,
        time: walk.found.time,
        direction: walk.found.direction,
        depth: 1,
        damage: None,
    }
}
