//! Community ID version 1: a text that identifies a conversation in the logs of different tools.
//!
//! `1:` and the base64 of the SHA-1 of the seed, the ends (the lower first), protocol and ports
//! (github.com/corelight/community-id-spec).

use crate::record::RecordKey;
use quaff_wire::base64;
use std::net::IpAddr;

/// The Community ID of a flow with seed 0, the same for both directions.
pub(crate) fn community_id(key: &RecordKey) -> String {
    let ((one_port, other_port), is_one_way) = ports(key);
    let (mut one, mut other) = ((bytes(key.source), one_port), (bytes(key.destination), other_port));
    if !is_one_way && other < one {
        std::mem::swap(&mut one, &mut other);
    }
    let mut input = vec![0, 0];
    input.extend(&one.0);
    input.extend(&other.0);
    input.extend([key.protocol, 0]);
    if matches!(key.protocol, 1 | 6 | 17 | 58 | 132) {
        input.extend(one.1.to_be_bytes());
        input.extend(other.1.to_be_bytes());
    }
    format!("1:{}", base64(&sha1(&input)))
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The ports; for ICMP the type and the type of its answer, or type and code if there is none.
fn ports(key: &RecordKey) -> ((u16, u16), bool) {
    const ANSWERS_4: [(u16, u16); 5] = [(8, 0), (10, 9), (13, 14), (15, 16), (17, 18)];
    const ANSWERS_6: [(u16, u16); 6] =
        [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];
    let pairs: &[(u16, u16)] = match key.protocol {
        1 => &ANSWERS_4,
        58 => &ANSWERS_6,
        _ => return ((key.source_port, key.destination_port), false),
    };
    let (kind, code) = (key.icmp_type_code >> 8, key.icmp_type_code & 0xff);
    for (request, answer) in pairs {
        if kind == *request {
            return ((kind, *answer), false);
        }
        if kind == *answer {
            return ((kind, *request), false);
        }
    }
    ((kind, code), true)
}

/// SHA-1 (RFC 3174). It is used for names only, so its weakness does no harm.
fn sha1(input: &[u8]) -> [u8; 20] {
    let mut padded = input.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((input.len() as u64 * 8).to_be_bytes());
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at / 20 {
                0 => (b & c | !b & d, 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => (b & c | b & d | c & d, 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum.wrapping_add(constant));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(protocol: u8, ends: [(&str, u16); 2], icmp_type_code: u16) -> RecordKey {
        RecordKey {
            source: ends[0].0.parse().unwrap(),
            destination: ends[1].0.parse().unwrap(),
            source_port: ends[0].1,
            destination_port: ends[1].1,
            protocol,
            icmp_type_code,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 0,
            tunnel: 0,
        }
    }

    /// Vectors of RFC 3174, 7.3.
    #[test]
    fn sha1_is_that_of_the_rfc() {
        let hex = |digest: [u8; 20]| digest.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(hex(sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(sha1(long)), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    }

    /// The baseline test of the specification.
    #[test]
    fn a_conversation_has_the_id_of_the_specification_both_ways() {
        let ends = [("128.232.110.120", 34855), ("66.35.250.204", 80)];
        assert_eq!(community_id(&key(6, ends, 0)), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(community_id(&key(6, [ends[1], ends[0]], 0)), "1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        let ends = [("192.168.1.52", 54585), ("8.8.8.8", 53)];
        assert_eq!(community_id(&key(17, ends, 0)), "1:d/FP5EW3wiY1vCndhwleRRKHowQ=");
        let ends = [("192.168.170.8", 7), ("192.168.170.56", 7)];
        assert_eq!(community_id(&key(132, ends, 0)), "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=");
    }

    /// The vectors of pycommunityid: an echo, a type without an answer with two codes, a neighbour solicitation.
    #[test]
    fn icmp_has_the_id_of_the_specification() {
        let four = [("192.168.0.89", 0), ("192.168.0.1", 0)];
        for (type_code, expected) in [
            (0x0800, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk="),
            (0x1400, "1:3o2RFccXzUgjl7zDpqmY7yJi8rI="),
            (0x1401, "1:tz/fHIDUHs19NkixVVoOZywde+I="),
        ] {
            assert_eq!(community_id(&key(1, four, type_code)), expected, "{type_code:x}");
        }
        let six = [("fe80::200:86ff:fe05:80da", 0), ("fe80::260:97ff:fe07:69ea", 0)];
        assert_eq!(community_id(&key(58, six, 0x8700)), "1:dGHyGvjMfljg6Bppwm3bg0LO8TY=");
    }

    /// Router discovery of IPv4, and home agents of mobile IPv6: the same ID from either end.
    #[test]
    fn a_request_and_its_answer_have_one_id() {
        for (protocol, request, answer, ends) in [
            (1, 10, 9, [("10.0.0.1", 0), ("10.0.0.2", 0)]),
            (58, 144, 145, [("2001:db8::1", 0), ("2001:db8::2", 0)]),
        ] {
            let asked = community_id(&key(protocol, ends, request << 8));
            assert_eq!(asked, community_id(&key(protocol, [ends[1], ends[0]], answer << 8)), "{request}");
        }
    }
}
