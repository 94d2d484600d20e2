//! Decapsulation: from the bytes of a frame to the place of its inner frame.
//!
//! [`strip`] only reads headers: it allocates nothing, verifies no checksum, stores nothing between calls, and never
//! panics on any input. It never returns a frame that it had to invent: if a header is truncated, invalid, or does not
//! name its payload, the outcome is [`Outcome::Damaged`]. The stages decide about outcomes.
//!
//! One file per family of known tunnels. `link`, `ip` and `udp` lead to them; `packet` is the position in the bytes
//! that all of them advance.

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
pub(crate) use ip::may_be_in_ip;
pub use kinds::{TunnelKind, TunnelKinds};
pub use outcome::{Damage, Inner, Marker, Outcome, Reason};
pub use session::{Direction, ErspanTime, Session, Upper};
pub(crate) use udp::may_be_in_udp;

use packet::{Packet, Stop, Walk};
use std::net::IpAddr;

/// Decapsulates tunnels of the wanted `kinds` in a frame, at most `depth` of them.
///
/// `bytes` are the captured bytes of the outer frame, of link type `linktype` (LINKTYPE_*: Ethernet, Linux cooked 1 and
/// 2, PPP, HDLC, bare IP; others are plain), and `wire_len` is its length on the wire. VLAN tags are skipped.
///
/// Lengths come from the outer IP header, so that padding after a short packet is not part of the inner frame, and a
/// frame that the capture truncated keeps its original length.
///
/// Nested tunnels are decapsulated, too. If one cannot be, because it is a fragment, carries no frame, or is damaged,
/// the frame that contains it is the inner frame.
#[inline]
pub fn strip(bytes: &[u8], wire_len: u32, linktype: u16, kinds: TunnelKinds, depth: u8) -> Outcome {
    if depth == 0 || kinds.is_empty() {
        return Outcome::Plain;
    }
    let mut walk = Walk::new(Packet::new(bytes, wire_len), kinds);
    let first = link::strip(&mut walk, linktype);
    outcome(first, &mut walk, depth)
}

/// Decapsulates tunnels in a datagram that was reassembled from fragments.
///
/// `payload` is the payload of the IP fragments, without IP headers; `protocol` is that of the first
/// [`TunnelFragment`], and `source` that of the key. [`Inner::start`] is relative to the payload.
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

/// The outcome of the first tunnel and of those nested in it.
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

/// Decapsulates the tunnels nested in the one that was found.
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

/// The frame of the tunnel that was decapsulated last.
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
