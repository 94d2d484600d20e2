//! The segments of a part of a file by which attempts to connect are judged: those with SYN or RST, and of all others
//! the first one in each direction of a connection. After a SYN the next ones are first ones again.
//!
//! So the first segment after a SYN is always among them. Which later ones are depends on the sizes of the parts and on
//! other connections: this is a cache, in which directions with the same place replace each other.

use super::keys::words_of;
use quaff_wire::flow::{FlowPacket, mix};
use quaff_wire::net::agreement::{ACK, RST, SYN};
use std::net::IpAddr;

/// Directions that are remembered: a power of two. With 16 KiB it stays in the processor's nearest cache.
const PLACES: usize = 1 << 11;

/// The directions whose first segment was taken, by the hash of their ends; 0 is none.
#[derive(Debug)]
pub(super) struct Firsts(Box<[u64; PLACES]>);

impl Default for Firsts {
    fn default() -> Self {
        Self(Box::new([0; PLACES]))
    }
}

impl Firsts {
    /// True for a packet of TCP by which an attempt may be judged.
    #[inline]
    pub(super) fn takes(&mut self, packet: &FlowPacket) -> bool {
        if packet.tcp_flags & (SYN | RST) != 0 {
            self.forget(packet);
            return true;
        }
        if packet.tcp_flags & ACK == 0 {
            return false;
        }
        let hash = hash(packet.addresses, packet.ports);
        std::mem::replace(&mut self.0[hash as usize % PLACES], hash) != hash
    }

    /// Forgets both directions of a connection.
    #[cold]
    pub(super) fn forget(&mut self, packet: &FlowPacket) {
        let ([from, to], [source, destination]) = (packet.addresses, packet.ports);
        for hash in [hash([from, to], [source, destination]), hash([to, from], [destination, source])] {
            self.0[hash as usize % PLACES] = 0;
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// The hash of a direction. It is not secret: who makes two directions equal hides one of them.
#[inline]
fn hash(addresses: [IpAddr; 2], [source, destination]: [u16; 2]) -> u64 {
    let ports = u64::from(source) << 16 | u64::from(destination);
    if let [IpAddr::V4(from), IpAddr::V4(to)] = addresses {
        return mix(ports, u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()));
    }
    addresses.into_iter().flat_map(words_of).fold(ports, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;

    const ENDS: [([u8; 4], u16); 2] = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80)];

    /// The packets that are taken of a connection: true for one of the server, and the flags.
    fn taken(firsts: &mut Firsts, packets: &[(bool, u8)]) -> Vec<bool> {
        let takes = |(is_server, flags): &(bool, u8)| {
            let [from, to] = if *is_server { [ENDS[1], ENDS[0]] } else { ENDS };
            let ports = [from.1, to.1].map(u16::to_be_bytes).concat();
            let tcp = [&ports[..], &[0; 8], &[0x50, *flags, 0xff, 0xff], &[0; 4]].concat();
            let frame = build::ethernet(&[], 0x0800, &build::ipv4(from.0.into(), to.0.into(), 6, &[], &tcp));
            firsts.takes(&FlowPacket::read(&frame, frame.len() as u32, 1).expect("a segment"))
        };
        packets.iter().map(takes).collect()
    }

    #[test]
    fn the_first_segment_of_each_direction_is_taken_and_again_after_a_syn() {
        let mut firsts = Firsts::default();
        let (up, down, syn) = ((false, ACK), (true, ACK), (false, SYN));
        let packets = [up, up, down, down, syn, syn, up, up, down, down];
        let expected = [true, false, true, false, true, true, true, false, true, false];
        assert_eq!(taken(&mut firsts, &packets), expected);
        // Without ACK it shows nothing, and the next one may.
        assert_eq!(taken(&mut firsts, &[(true, RST), (false, 0), up, up]), [true, false, true, false]);
        firsts.clear();
        assert_eq!(taken(&mut firsts, &[up, up]), [true, false]);
    }
}
