//! Tunnels: bytes of a frame in, where the inner frame lies out.
//!
//! [`strip`] reads headers and nothing else: it allocates nothing, verifies no checksum, keeps
//! nothing between two calls, and does not panic whatever the bytes. It never hands on a frame
//! that it had to invent: where a header is cut, broken, or does not say what follows, the answer
//! is [`Outcome::Damaged`]. Which stage does what with the answer is not decided here.
//!
//! One file for each family of tunnels. `link`, `ip` and `udp` lead to them; `packet` is the place in
//! the bytes that all of them move along.

pub mod build;
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

pub use fragment::{Fragment, FragmentKey};
pub use kinds::{Kind, Kinds, UnknownKind};
pub use outcome::{Control, Damage, Inner, Marker, Outcome, Reason};
pub use session::{Direction, ErspanTime, Granularity, Session, Upper};

use packet::{Found, Packet, Stop};
use std::net::IpAddr;

/// Takes tunnels of the wanted `kinds` off a frame, at most `depth` of them.
///
/// `bytes` is what was captured of the outer frame, of link type `linktype` (LINKTYPE_*: Ethernet,
/// Linux cooked 1 and 2, bare IP; any other is plain), and `wire_len` how long it was. VLAN tags
/// that are in it are stepped over.
///
/// Lengths come from the outer IP header, so that padding behind a short packet is no part of the
/// inner frame, and a frame that the capture cut keeps its own original length.
///
/// A tunnel inside a tunnel is taken off as well if that goes well. If it does not, because it is
/// a fragment, carries no frame, or is damaged, the frame that holds it is the inner frame.
#[inline]
pub fn strip(bytes: &[u8], wire_len: u32, linktype: u16, kinds: Kinds, depth: u8) -> Outcome {
    if depth == 0 || kinds.is_empty() {
        return Outcome::Plain;
    }
    outcome(link::strip(Packet::new(bytes, wire_len), linktype, kinds), kinds, depth)
}

/// Takes tunnels off a datagram that was put together from fragments.
///
/// `payload` is what the IP fragments carried, without IP headers; `protocol` is that of the first
/// [`Fragment`] and `source` that of the key. [`Inner::start`] counts from the payload's first byte.
pub fn strip_datagram(
    payload: &[u8],
    wire_len: u32,
    protocol: u8,
    source: IpAddr,
    kinds: Kinds,
    depth: u8,
) -> Outcome {
    if depth == 0 {
        return Outcome::Plain;
    }
    outcome(ip::datagram(protocol, Packet::new(payload, wire_len), kinds, source), kinds, depth)
}

/// What came of the first tunnel, and of those inside it.
#[inline]
fn outcome(first: Result<Found<'_>, Stop>, kinds: Kinds, depth: u8) -> Outcome {
    match first {
        Ok(found) => Outcome::Inner(descend(found, kinds, depth)),
        Err(Stop::Plain) => Outcome::Plain,
        Err(Stop::Fragment(fragment)) => Outcome::Fragment(fragment),
        Err(Stop::Damaged(damage)) => Outcome::Damaged(damage),
        Err(Stop::Control(control)) => Outcome::Control(control),
    }
}

/// Takes off what more tunnels there are in the one that was found.
fn descend(first: Found<'_>, kinds: Kinds, depth: u8) -> Inner {
    let (mut last, mut named, mut taken, mut damage) = (first, first, 1, None);
    while taken < depth {
        match link::strip(last.packet, last.linktype, kinds) {
            Ok(found) => {
                if rank(&found) > rank(&named) {
                    named = found;
                }
                (last, taken) = (found, taken + 1);
            }
            Err(Stop::Damaged(inside)) => {
                damage = Some(inside);
                break;
            }
            Err(_) => break,
        }
    }
    Inner {
        start: last.packet.at() as u32,
        len: last.packet.rest().len() as u32,
        wire_len: last.packet.wire_left(),
        linktype: last.linktype,
        tag: last.tag,
        session: named.session,
        sequence: named.sequence,
        time: named.time,
        direction: named.direction,
        depth: taken,
        damage,
    }
}

/// Which of nested tunnels names the session; see [`Inner`].
fn rank(found: &Found<'_>) -> u8 {
    if found.sequence.is_some() { 2 } else { found.session.id.is_some().into() }
}
