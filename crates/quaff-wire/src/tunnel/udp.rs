//! UDP (RFC 768): tunnels by port.

use super::packet::{Stop, Walk, damaged};
use super::session::tick_ns;
use super::{Marker, Reason, TunnelKind, TunnelKinds, geneve, gre, gtp, l2tp, mpls, tzsp, vxlan};
use crate::net::{UDP_BYTES, udp};

/// Tunnels over UDP whose fragments are reassembled. ERSPAN in GRE in UDP is too rare to make all UDP fragments wait
/// for it, and marker packets are never that large.
pub(super) const KINDS: TunnelKinds = TunnelKinds::NONE
    .with(TunnelKind::Gre)
    .with(TunnelKind::Mpls)
    .with(TunnelKind::Vxlan)
    .with(TunnelKind::Geneve)
    .with(TunnelKind::Gtp)
    .with(TunnelKind::L2tp)
    .with(TunnelKind::Tzsp);

/// Destination ports (IANA; 8472 is Linux's from before the assignment, 37008 is customary for TZSP).
const VXLAN: u16 = 4789;
const VXLAN_LINUX: u16 = 8472;
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const MPLS: u16 = 6635;
/// GRE-in-UDP (RFC 8086). The DTLS port, 4755, is encrypted.
const GRE: u16 = 4754;
const GTP: u16 = 2152;
const L2TP: u16 = 1701;
const TZSP: u16 = 37008;

/// True if a datagram with these ports, of source and destination, may be of one of these tunnels.
#[inline]
pub(crate) fn may_be_in_udp([source, destination]: [u16; 2]) -> bool {
    let is_known =
        matches!(destination, VXLAN | VXLAN_LINUX | VXLAN_GPE | GENEVE | MPLS | GRE | GTP | L2TP | TZSP);
    is_known || source == L2TP
}

/// Length of a marker packet after the UDP header, and the signature at its end.
const MARKER_BYTES: usize = 58;
const MARKER_SIGNATURE: [u8; 4] = [0xa5; 4];

/// Decapsulates a tunnel over UDP.
///
/// The destination port decides, since senders use the source port for entropy. Only L2TP replies to the port of the
/// request (RFC 3931 section 4.1.2.2).
#[inline]
pub(super) fn strip(walk: &mut Walk<'_>) -> Result<(), Stop> {
    let Some(head) = walk.packet.peek() else { return Err(Stop::Plain) };
    let [source, destination, len] = udp::fields(head);
    if destination == GRE && walk.kinds.intersects(gre::KINDS) {
        take_header(walk, len, TunnelKind::Gre)?;
        return gre::strip(walk);
    }
    let kind = match destination {
        VXLAN | VXLAN_LINUX | VXLAN_GPE => TunnelKind::Vxlan,
        GENEVE => TunnelKind::Geneve,
        MPLS => TunnelKind::Mpls,
        GTP => TunnelKind::Gtp,
        L2TP => TunnelKind::L2tp,
        TZSP => TunnelKind::Tzsp,
        _ if source == L2TP => TunnelKind::L2tp,
        _ => return Err(marker(walk, len)),
    };
    walk.wants(kind)?;
    take_header(walk, len, kind)?;
    match destination {
        VXLAN | VXLAN_LINUX => vxlan::strip(walk),
        VXLAN_GPE => vxlan::gpe(walk),
        GENEVE => geneve::strip(walk),
        MPLS => mpls::strip(walk),
        GTP => gtp::strip(walk),
        TZSP => tzsp::strip(walk),
        _ => l2tp::on_udp(walk),
    }
}

/// Skips the header of a datagram whose length field is `len`, and drops the bytes after the datagram.
#[inline]
fn take_header(walk: &mut Walk<'_>, len: u16, kind: TunnelKind) -> Result<(), Stop> {
    walk.packet.skip_outer(UDP_BYTES)?;
    match len {
        // A large packet that the kernel has not yet segmented, as in IPv4.
        0 => {}
        1..8 => return Err(damaged(kind, Reason::Length)),
        _ => walk.packet.limit(u32::from(len) - 8),
    }
    Ok(())
}

/// Recognises an ERSPAN type III marker, which has no port but a signature; other packets are plain.
#[inline]
fn marker(walk: &mut Walk<'_>, len: u16) -> Stop {
    let Some(bytes) = walk.packet.rest().get(8..8 + MARKER_BYTES) else { return Stop::Plain };
    let signed = bytes.ends_with(&MARKER_SIGNATURE) && usize::from(len) >= 8 + MARKER_BYTES;
    let Some(source) = walk.source else { return Stop::Plain };
    if !signed || !walk.kinds.contains(TunnelKind::Erspan) {
        return Stop::Plain;
    }
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    walk.marker = Some(Marker {
        source,
        session: bytes[23],
        tick_ns: tick_ns(bytes[24]),
        utc_offset_s: bytes[25],
        timestamp: u64::from(u16::from_be_bytes([bytes[28], bytes[29]])) << 32 | u64::from(word(30)),
        utc_s: word(34),
        utc_us: word(38),
    });
    Stop::Marker
}

#[cfg(test)]
mod tests {
    use super::may_be_in_udp;
    use crate::linktype::RAW;
    use crate::tunnel::{Outcome, TunnelKinds, strip};
    use quaff_testpackets as build;

    /// The list and the table are the same.
    #[test]
    fn a_datagram_is_of_a_tunnel_only_between_the_ports_of_one() {
        let mut found = 0;
        for port in 0..=u16::MAX {
            for ports in [[40_000, port], [port, 40_000]] {
                let datagram = build::udp(ports[0], ports[1], &[0x45; 40]);
                let packet = build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &datagram);
                let outcome = strip(&packet, packet.len() as u32, RAW.linktype, TunnelKinds::ALL, 1);
                let is_plain = matches!(outcome, Outcome::Plain);
                assert!(is_plain || may_be_in_udp(ports), "{ports:?}: {outcome:?}");
                found += u32::from(!is_plain);
            }
        }
        assert!(found >= 5, "{found}");
    }
}
