//! The meter's socket filter: keeps frames of a trial whole, and one byte of each other frame, so that counting them is
//! cheap; rejects outgoing frames.

use quaff_os::packet::Insn;
use quaff_wire::net::{ETHERTYPE_ARP, TAG_BYTES};
use quaff_wire::probe::{PAYLOAD_OFFSET, TrialHeader};

/// EtherType of learning frames (IEEE 802 local experimental); meters do not count them.
pub(super) const LEARNING: u16 = 0x88b5;
/// Bytes kept of a frame that is not part of a trial.
pub(super) const FOREIGN_BYTES: u32 = 1;
const TYPE_OFFSET: u32 = 12;
/// Offset of the UDP destination port; the kernel has removed an outer tag.
const PORT_OFFSET: u32 = PAYLOAD_OFFSET as u32 - 6;
/// Minimum length: a load beyond the end of a frame would reject it.
const LEN_MIN: u32 = (PAYLOAD_OFFSET + TAG_BYTES + 2) as u32;

/// `SKF_AD_OFF + SKF_AD_PKTTYPE` and `PACKET_OUTGOING` (linux/filter.h, linux/if_packet.h).
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const OUTGOING: u32 = 4;
const LDW_ABS: u16 = 0x20;
const LDB_ABS: u16 = 0x30;
const LDH_ABS: u16 = 0x28;
const LD_LEN: u16 = 0x80;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const RET: u16 = 0x06;

/// The filter for frames to `dst_mac`. Matching port or magic suffices, so that damaged frames are seen.
pub(super) fn program(dst_mac: [u8; 6]) -> Vec<Insn> {
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    let (port, magic) = (u32::from(TrialHeader::LAYOUT.port), u32::from(TrialHeader::LAYOUT.magic));
    let (magic_offset, tag_bytes) = (PAYLOAD_OFFSET as u32, TAG_BYTES as u32);
    let [a, b, c, d, e, f] = dst_mac;
    vec![
        insn(LDB_ABS, 0, 0, PACKET_TYPE),
        insn(JEQ, 19, 0, OUTGOING),
        insn(LDH_ABS, 0, 0, TYPE_OFFSET),
        insn(JEQ, 17, 0, LEARNING.into()),
        insn(JEQ, 16, 0, ETHERTYPE_ARP.into()),
        insn(LD_LEN, 0, 0, 0),
        insn(JGE, 0, 12, LEN_MIN),
        insn(LDW_ABS, 0, 0, 0),
        insn(JEQ, 0, 10, u32::from_be_bytes([a, b, c, d])),
        insn(LDH_ABS, 0, 0, 4),
        insn(JEQ, 0, 8, u16::from_be_bytes([e, f]).into()),
        insn(LDH_ABS, 0, 0, PORT_OFFSET),
        insn(JEQ, 7, 0, port),
        insn(LDH_ABS, 0, 0, magic_offset),
        insn(JEQ, 5, 0, magic),
        insn(LDH_ABS, 0, 0, PORT_OFFSET + tag_bytes),
        insn(JEQ, 3, 0, port),
        insn(LDH_ABS, 0, 0, magic_offset + tag_bytes),
        insn(JEQ, 1, 0, magic),
        insn(RET, 0, 0, FOREIGN_BYTES),
        insn(RET, 0, 0, u32::MAX),
        insn(RET, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::testing::KernelFilter;
    use quaff_wire::net::{TPID_CUSTOMER, VlanTag};
    use quaff_wire::probe::{OuterHeaders, ProbeFrame};
    use std::net::Ipv4Addr;

    fn frame(tags: usize) -> Vec<u8> {
        let headers = OuterHeaders {
            dst_mac: [2; 6],
            src_mac: [4; 6],
            tags: vec![VlanTag { tpid: TPID_CUSTOMER, tci: 9 }; tags],
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            stream: 5,
        };
        let mut frame = ProbeFrame::trial(&headers, 0, 100).unwrap();
        frame.set(&TrialHeader { stream: 5, seq: 1, sent_ns: 2 });
        frame.bytes
    }

    #[test]
    fn the_kernel_keeps_ours_and_a_byte_of_others() {
        let kernel = KernelFilter::new(&program([2; 6])).unwrap();
        let changed = |at: usize, bytes: &[u8]| {
            let mut frame = frame(0);
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let cases = [
            (frame(0), 100, "ours"),
            (frame(1), 100, "ours, with an inner tag"),
            (changed(36, &[0, 53]), 100, "another port, our magic"),
            (changed(42, &[0, 0]), 100, "our port, another magic"),
            (changed(36, &[0, 53, 0, 0, 0, 0, 0, 0]), 1, "neither"),
            (changed(3, &[3]), 1, "another address"),
            (changed(5, &[3]), 1, "another address"),
            (frame(0)[..47].to_vec(), 1, "too short"),
            (vec![0; 14], 1, "very short"),
            (changed(12, &LEARNING.to_be_bytes()), 0, "a learning frame"),
            (changed(12, &ETHERTYPE_ARP.to_be_bytes())[..42].to_vec(), 0, "ARP, which routers need"),
        ];
        for (frame, expected, what) in cases {
            assert_eq!(kernel.run(&frame).unwrap(), expected, "{what}");
        }
    }
}
