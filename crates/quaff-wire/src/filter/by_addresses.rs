//! The program that distributes packets to lanes by their addresses (PACKET_FANOUT_CBPF): both directions of a
//! conversation go to one lane, and so do all fragments of a datagram.
//!
//! The outermost IP addresses decide, after up to two VLAN tags in the frame; a tag in the kernel's metadata does not
//! matter. Without IP the MAC addresses decide. A frame that is truncated before its addresses goes to the first lane.
//!
//! The kernel runs the program on received frames from their network header on, and on sent frames from their link
//! header.

use super::asm::{Asm, Label};
use super::insn::code::{
    A, ABS, ADD, ALU, B, H, JEQ, K, LD, LDX, MEM, MISC, MUL, RET, RSH, ST, TAX, W, X, XOR,
};
use super::insn::{ANCILLARY, Insn};
use crate::net::{TAG_BYTES, TPID_CUSTOMER, TPID_SERVICE};

/// EtherType and direction of a packet (`SKF_AD_PROTOCOL`, `SKF_AD_PKTTYPE`, linux/filter.h).
const PROTOCOL: u32 = ANCILLARY;
const DIRECTION: u32 = ANCILLARY + 4;
/// PACKET_OUTGOING, linux/if_packet.h.
const OUTGOING: u32 = 4;
/// Base of loads relative to the link header (`SKF_LL_OFF`, linux/filter.h).
const LINK_HEADER: u32 = 0xffe0_0000;
const ETHERTYPE_AT: u32 = 12;
const ETHERNET_BYTES: u32 = 14;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
/// Maximum number of VLAN tags in a frame that are skipped.
const TAGS: u32 = 2;
/// Scratch slot M[0]: hash of the first address.
const FIRST: u32 = 0;

/// The program for an interface with Ethernet headers, or without link headers (bare IP).
pub fn by_addresses(has_ethernet: bool) -> Vec<Insn> {
    let mut asm = Asm::default();
    if has_ethernet {
        let (sent, received) = (asm.label(), asm.label());
        asm.put(LD | B | ABS, DIRECTION);
        asm.branch(JEQ | K, OUTGOING, sent, received);
        asm.place(received);
        asm.put(LD | H | ABS, PROTOCOL);
        put_headers(&mut asm, 0, LINK_HEADER);
        asm.place(sent);
        asm.put(LD | H | ABS, ETHERTYPE_AT);
        put_headers(&mut asm, ETHERNET_BYTES, 0);
    } else {
        asm.put(LD | H | ABS, PROTOCOL);
        put_headers(&mut asm, 0, LINK_HEADER);
    }
    asm.finish()
}

/// Emits the decision for headers at offset `network`, whose EtherType is in A; the MAC addresses are at `link`.
fn put_headers(asm: &mut Asm, network: u32, link: u32) {
    let other = asm.label();
    for tags in 0..=TAGS {
        let at = network + tags * TAG_BYTES as u32;
        let (ipv4, ipv6, tagged) = (asm.label(), asm.label(), asm.label());
        asm.refuse(JEQ, IPV4, ipv4);
        asm.refuse(JEQ, IPV6, ipv6);
        if tags < TAGS {
            asm.refuse(JEQ, u32::from(TPID_CUSTOMER), tagged);
            asm.refuse(JEQ, u32::from(TPID_SERVICE), tagged);
        }
        asm.jump(other);
        place(asm, ipv4, &[at + 12], &[at + 16]);
        place(asm, ipv6, &[at + 8, at + 12, at + 16, at + 20], &[at + 24, at + 28, at + 32, at + 36]);
        asm.place(tagged);
        if tags < TAGS {
            // The EtherType follows the two bytes of the TCI.
            asm.put(LD | H | ABS, at + 2);
        }
    }
    // The last four bytes of each MAC address.
    place(asm, other, &[link + 2], &[link + 8]);
}

/// Emits: return hash(source) + hash(destination) of the words at these offsets.
fn place(asm: &mut Asm, label: Label, source: &[u32], destination: &[u32]) {
    asm.place(label);
    put_address(asm, source);
    asm.put(ST, FIRST);
    put_address(asm, destination);
    asm.put(LDX | MEM, FIRST);
    asm.put(ALU | ADD | X, 0);
    asm.put(RET | A, 0);
}

/// Emits: A = hash of an address, which differs for similar addresses. Their plain sum or difference would be the same
/// for many conversations of a subnet.
fn put_address(asm: &mut Asm, words: &[u32]) {
    for (number, word) in words.iter().enumerate() {
        if number == 0 {
            asm.put(LD | W | ABS, *word);
            continue;
        }
        asm.put(ALU | MUL | K, FACTORS[0]);
        asm.put(MISC | TAX, 0);
        asm.put(LD | W | ABS, *word);
        asm.put(ALU | XOR | X, 0);
    }
    for (factor, shift) in FACTORS.into_iter().zip(SHIFTS) {
        asm.put(ALU | MUL | K, factor);
        asm.put(MISC | TAX, 0);
        asm.put(ALU | RSH | K, shift);
        asm.put(ALU | XOR | X, 0);
    }
}

/// Odd, with about as many ones as zeros: a change of any bit reaches the upper half.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca77];
/// Shifts that mix the upper half into the lower one.
const SHIFTS: [u32; 2] = [16, 15];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Program, Subject};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The part for sent frames, which the interpreter can run: it has no metadata.
    fn lane_of(frame: &[u8], lanes: u32) -> u32 {
        let mut asm = Asm::default();
        asm.put(LD | H | ABS, ETHERTYPE_AT);
        put_headers(&mut asm, ETHERNET_BYTES, 0);
        let program = Program::new(&asm.finish()).expect("a program");
        program.run(&Subject { bytes: frame, wire_len: frame.len() as u32, tag: None }) % lanes
    }

    /// A frame with MAC addresses, tags, and the bytes after them.
    fn frame(macs: ([u8; 6], [u8; 6]), tags: &[u16], ethertype: u16, rest: &[u8]) -> Vec<u8> {
        let mut frame = [macs.0, macs.1].concat();
        for tpid in tags {
            frame.extend(tpid.to_be_bytes());
            frame.extend([0x20, 7]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(rest);
        frame
    }

    fn ipv4(source: u32, destination: u32, fragment: u16, ports: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 24, 0, 1];
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, 17, 0, 0]);
        packet.extend(source.to_be_bytes());
        packet.extend(destination.to_be_bytes());
        packet.extend(ports);
        packet
    }

    fn ipv6(source: u128, destination: u128, next: u8) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet.extend(source.to_be_bytes());
        packet.extend(destination.to_be_bytes());
        packet
    }

    const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    const BACK: ([u8; 6], [u8; 6]) = (MACS.1, MACS.0);

    proptest! {
        #[test]
        fn a_conversation_and_its_fragments_have_one_lane(
            (a, b) in any::<(u32, u32)>(), (c, d) in any::<(u128, u128)>(), ports in any::<[u8; 4]>(),
            fragment in any::<u16>(), next in any::<u8>(), lanes in 1..9u32,
        ) {
            let v4 = lane_of(&frame(MACS, &[], 0x0800, &ipv4(a, b, 0, [1, 2, 3, 4])), lanes);
            let v6 = lane_of(&frame(MACS, &[], 0x86dd, &ipv6(c, d, 6)), lanes);
            for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
                let back = frame(BACK, tags, 0x0800, &ipv4(b, a, fragment, ports));
                prop_assert_eq!(lane_of(&back, lanes), v4, "{:?}", tags);
                let back = frame(BACK, tags, 0x86dd, &ipv6(d, c, next));
                prop_assert_eq!(lane_of(&back, lanes), v6, "{:?}", tags);
            }
        }

        #[test]
        fn frames_without_ip_go_by_their_macs(one in any::<[u8; 6]>(), other in any::<[u8; 6]>(), rest in any::<[u8; 40]>()) {
            let lane = |macs, ethertype, rest: &[u8]| lane_of(&frame(macs, &[], ethertype, rest), 4);
            prop_assert_eq!(lane((one, other), 0x88cc, &rest), lane((other, one), 0x8847, &[]));
            // A third tag hides the addresses.
            let deep = frame((one, other), &[0x88a8, 0x8100, 0x8100], 0x0800, &ipv4(1, 2, 0, [0; 4]));
            prop_assert_eq!(lane_of(&deep, 4), lane((other, one), 0x88cc, &rest));
        }
    }

    /// The addresses of a conversation, by its index.
    type Pair = fn(u32) -> (u32, u32);

    /// Conversations of hosts with similar addresses, as in a subnet, a cloud or a lab.
    #[test]
    fn lanes_get_alike_shares() {
        let count = 4096u32;
        let pairs: [(&str, Pair); 4] = [
            ("one server", |i| (0x0a00_0000 + i, 0xc0a8_0001)),
            ("the same host numbers", |i| (0x0a00_0000 + i, 0x0a01_0000 + i)),
            ("numbers that add up", |i| (0x0a00_0000 + i, 0x0a01_ffff - i)),
            ("every 256th", |i| (0x0a00_0000 + (i << 8), 0xc0a8_0001)),
        ];
        for lanes in [2u32, 3, 4, 8] {
            for (what, pair) in pairs {
                let mut shares = BTreeMap::<u32, u32>::new();
                for (source, destination) in (0..count).map(pair) {
                    let v4 = frame(MACS, &[], 0x0800, &ipv4(source, destination, 0, [0; 4]));
                    *shares.entry(lane_of(&v4, lanes)).or_default() += 1;
                    let wide = |address: u32| (0x2001_0db8 << 96) + u128::from(address);
                    let v6 = frame(MACS, &[], 0x86dd, &ipv6(wide(source), wide(destination), 6));
                    *shares.entry(lane_of(&v6, lanes)).or_default() += 1;
                }
                let mean = 2 * count / lanes;
                let is_near = |share: &u32| (mean * 9 / 10..mean * 11 / 10).contains(share);
                assert!(shares.len() == lanes as usize && shares.values().all(is_near), "{what}: {shares:?}");
            }
        }
    }

    #[test]
    fn a_frame_that_is_cut_goes_to_the_first_lane() {
        let whole = frame(MACS, &[0x8100], 0x0800, &ipv4(1, 0xffff_0000, 0, [0; 4]));
        for end in 0..whole.len() - 4 {
            assert_eq!(lane_of(&whole[..end], 1 << 16), 0, "{end}");
        }
        assert_ne!(lane_of(&whole, 1 << 16), 0);
    }

    #[test]
    fn the_program_is_as_the_kernel_takes_them() {
        for has_ethernet in [true, false] {
            let program = by_addresses(has_ethernet);
            assert!(Program::new(&program).is_ok() && program.len() < 1024, "{}", program.len());
        }
    }
}
