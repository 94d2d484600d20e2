//! Initial packets of RFC 9001 and RFC 9369, and generated ones: split, in any order, damaged.

use super::*;
use crate::application::tests::{alpn, client_hello_with, server_name};
use proptest::prelude::*;

const V1: [u8; 4] = [0, 0, 0, 1];
const V2: [u8; 4] = [0x6b, 0x33, 0x43, 0xcf];
/// The connection ID of RFC 9001, appendix A.
const ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

/// The CRYPTO frame of RFC 9001, appendix A.2: a ClientHello for example.com.
const CRYPTO: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c0000041301\
    1302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d00170018001000070005\
    04616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d\
    43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900\
    320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000\
    ffff";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.bytes().filter_map(|digit| char::from(digit).to_digit(16)).map(|of| of as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn variable(number: usize) -> Vec<u8> {
    match number {
        0..64 => vec![number as u8],
        64..16_384 => (number as u16 | 0x4000).to_be_bytes().to_vec(),
        _ => (number as u64 | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// An Initial packet of a client to `destination`, with keys derived from `id`, and a packet number of four bytes.
fn sealed(wire_version: [u8; 4], id: &[u8], destination: &[u8], number: u32, frames: &[u8]) -> Vec<u8> {
    let version = version(&wire_version).unwrap();
    let first = if wire_version == V2 { 0xd3 } else { 0xc3 };
    let mut header = [&[first][..], &wire_version, &[destination.len() as u8], destination, &[0, 0]].concat();
    let protected_bytes = NUMBER_BYTES_MAX + frames.len() + 16;
    header.extend((0x4000 | protected_bytes as u16).to_be_bytes());
    header.extend(number.to_be_bytes());
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
    let keys = suite.keys(id, Side::Client, version).local;
    let mut payload = frames.to_vec();
    let tag = keys.packet.encrypt_in_place(number.into(), &header, &mut payload).unwrap();
    payload.extend(tag.as_ref());
    let (first, rest) = header.split_first_mut().unwrap();
    let at = rest.len() - NUMBER_BYTES_MAX;
    keys.header.encrypt_in_place(&payload[..SAMPLE_BYTES], first, &mut rest[at..]).unwrap();
    [header, payload].concat()
}

fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    [&[6][..], &variable(offset), &variable(data.len()), data].concat()
}

/// Pads a datagram to the minimum length of a client's.
fn padded(mut datagram: Vec<u8>) -> Vec<u8> {
    datagram.resize(datagram.len().max(DATAGRAM_BYTES_MIN), 0);
    datagram
}

/// The client after these datagrams, all from the same end.
fn followed(datagrams: &[Vec<u8>]) -> QuicClient {
    let (mut client, mut decrypter) = (QuicClient::default(), Decrypter::default());
    for datagram in datagrams {
        client.add(&padded(datagram.clone()), false, &mut decrypter);
    }
    client
}

fn names(client: &QuicClient) -> (Option<String>, Option<String>) {
    let found = client.application([5, 443]);
    assert_eq!(found.protocol, "quic");
    (found.server_name, found.alpn)
}

fn hello(key_share_bytes: usize) -> Vec<u8> {
    client_hello_with(&[(51, vec![7; key_share_bytes]), server_name("q.example"), alpn(&[b"h3"])])
}

fn texts(server_name: &str, alpn: &str) -> (Option<String>, Option<String>) {
    (Some(server_name.to_owned()), Some(alpn.to_owned()))
}

/// RFC 9001, appendix A.2, and RFC 9369, appendix A.2. Equal tags at the end mean equal packets.
#[test]
fn the_packets_of_the_rfcs_are_sealed_and_opened() {
    let frames = [bytes(CRYPTO), vec![0; 917]].concat();
    for (version, begin, end) in [
        (
            V1,
            "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
            "e221af44860018ab0856972e194cd934",
        ),
        (
            V2,
            "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
            "a18b2faa745b6fe189cf772a9f84cbfc",
        ),
    ] {
        let packet = sealed(version, &ID, &ID, 2, &frames);
        assert_eq!(packet.len(), 1200);
        assert!(packet.starts_with(&bytes(begin)) && packet.ends_with(&bytes(end)), "{version:?}");
        assert!(is_long(&packet) && QuicClient::begins_with(&packet));
        let client = followed(&[packet]);
        assert!(client.is_whole());
        assert_eq!(names(&client), texts("example.com", "alpn"));
    }
}

#[test]
fn a_hello_in_two_datagrams_is_whole_with_the_second() {
    let hello = hello(1300);
    let (one, other) = hello.split_at(1100);
    let packets =
        [sealed(V1, &ID, &ID, 0, &crypto(0, one)), sealed(V1, &ID, &ID, 1, &crypto(one.len(), other))]
            .map(padded);
    for order in [[0, 1], [1, 0]] {
        let (mut client, mut decrypter) = (QuicClient::default(), Decrypter::default());
        client.add(&packets[order[0]], true, &mut decrypter);
        assert!(!client.is_whole());
        assert_eq!(names(&client), (None, None));
        client.add(&packets[order[1]], true, &mut decrypter);
        assert!(client.is_whole());
        assert_eq!(names(&client), texts("q.example", "h3"));
    }
}

/// Two Initial packets in one datagram, with a 0-RTT packet between them, and packets of the server.
#[test]
fn packets_of_other_kinds_and_of_the_other_end_are_passed() {
    let hello = hello(100);
    let zero_rtt = [&[0xd3][..], &V1, &[8], &ID, &[0], &variable(40), &[1; 40]].concat();
    let [one, other] = [crypto(0, &hello[..70]), crypto(70, &hello[70..])];
    let ack = [2, 1, 0x40, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 1, 2, 3, 1, 0, 0];
    let datagram = [
        sealed(V1, &ID, &ID, 0, &one),
        zero_rtt,
        sealed(V1, &ID, &[9; 5], 1, &[&ack[..], &other].concat()),
        vec![0; 30],
    ];
    assert_eq!(names(&followed(&[datagram.concat()])), texts("q.example", "h3"));
    let mut client = followed(&[sealed(V1, &ID, &ID, 0, &one)]);
    let tried = client.packets;
    client.add(&padded(sealed(V1, &ID, &ID, 0, &other)), true, &mut Decrypter::default());
    assert_eq!((client.packets, client.is_whole()), (tried, false), "the other end has other keys");
}

#[test]
fn after_a_retry_the_keys_follow_from_the_id_of_the_server() {
    let hello = hello(100);
    let first = sealed(V1, &ID, &ID, 0, &crypto(0, &hello[..50]));
    let second = sealed(V1, &[1; 3], &[1; 3], 1, &crypto(0, &hello));
    assert_eq!(names(&followed(&[first, second])), texts("q.example", "h3"));
}

#[test]
fn packets_bytes_and_numbers_are_bounded() {
    let hello = hello(100);
    let frames = crypto(0, &hello[..20]);
    let mut datagrams: Vec<_> =
        (0..PACKETS_MAX.into()).map(|number| sealed(V1, &ID, &ID, number, &frames)).collect();
    datagrams.push(sealed(V1, &ID, &ID, 99, &crypto(0, &hello)));
    let client = followed(&datagrams);
    assert_eq!((client.packets, client.is_whole()), (PACKETS_MAX, false));
    let far = crypto(CRYPTO_BYTES - 4, &[1; 100]);
    let farther = [crypto(1 << 50, &[1; 100]), crypto((1 << 62) - 1, &[1])].concat();
    let client = followed(&[sealed(V1, &ID, &ID, 0, &[far, farther].concat())]);
    assert_eq!((client.crypto.bytes.len(), client.crypto.bytes.capacity()), (CRYPTO_BYTES, CRYPTO_BYTES));
    let long = sealed(V1, &ID, &ID, 0, &[crypto(0, &hello), vec![0; PACKET_BYTES_MAX]].concat());
    assert!(!followed(&[long]).is_whole());
    assert!(!followed(&[sealed(V1, &[1; 7], &[1; 7], 0, &crypto(0, &hello))]).is_whole(), "a short first id");
    let whole = sealed(V1, &ID, &ID, 0, &[crypto(0, &hello), vec![0; DATAGRAM_BYTES_MIN]].concat());
    assert!(QuicClient::begins_with(&whole) && !QuicClient::begins_with(&whole[..whole.len() - 1]), "cut");
}

/// No server answers a shorter datagram, so it is not decrypted.
#[test]
fn a_datagram_that_is_too_short_for_a_client_is_not_tried() {
    let datagram = padded(sealed(V1, &ID, &ID, 0, &crypto(0, &hello(100))));
    let (mut client, mut decrypter) = (QuicClient::default(), Decrypter::default());
    let short = &datagram[..DATAGRAM_BYTES_MIN - 1];
    client.add(short, false, &mut decrypter);
    assert_eq!((client.packets, client.is_whole(), QuicClient::begins_with(short)), (0, false, false));
    assert_eq!((decrypter.tries, decrypter.skipped), (TRIES_PER_SECOND, 0));
    client.add(&datagram, false, &mut decrypter);
    assert_eq!((client.packets, client.is_whole(), QuicClient::begins_with(&datagram)), (1, true, true));
}

#[test]
fn flows_share_what_a_meter_tries_in_a_second() {
    let start_ns = 1_700_000_000_000_000_000;
    let mut decrypter = Decrypter::default();
    decrypter.advance(start_ns);
    assert_eq!(decrypter.tries, TRIES_PER_SECOND, "the most at once");
    // Packets that look like those of a client, one per flow.
    let mut forged = sealed(V1, &ID, &ID, 0, &[crypto(0, &hello(100)), vec![0; 1100]].concat());
    *forged.last_mut().unwrap() ^= 1;
    decrypter.tries = 3;
    for _ in 0..5 {
        QuicClient::default().add(&forged, false, &mut decrypter);
    }
    assert_eq!((decrypter.tries, decrypter.skipped()), (0, 2));
    let datagram = padded(sealed(V1, &ID, &ID, 0, &crypto(0, &hello(100))));
    let mut client = QuicClient::default();
    let mut add_at = |now_ns: u64| {
        decrypter.advance(now_ns);
        client.add(&datagram, false, &mut decrypter);
        (client.is_whole(), client.packets, decrypter.tries, decrypter.skipped())
    };
    assert_eq!(add_at(start_ns + TRY_NS - 1), (false, 0, 0, 3), "not yet, and the flow keeps its tries");
    assert_eq!(add_at(start_ns + TRY_NS), (true, 1, 0, 3));
    decrypter.advance(start_ns + 4 * TRY_NS + 1);
    assert_eq!(decrypter.tries, 3);
    // The input continues at an earlier time.
    decrypter.advance(7);
    decrypter.advance(7 + 2 * TRY_NS);
    assert_eq!(decrypter.tries, 5);
    decrypter.advance(u64::MAX);
    assert_eq!(decrypter.tries, TRIES_PER_SECOND);
}

#[test]
fn datagrams_that_are_not_quic_begin_nothing() {
    for datagram in [&[][..], &[0xc3, 0, 0, 0, 1], &[0xc3, 0, 0, 0, 9, 8, 1, 2], &[0x43, 0, 0, 0, 1, 8, 1, 2]]
    {
        assert!(!is_long(datagram) && !QuicClient::begins_with(datagram), "{datagram:?}");
    }
    assert!(is_long(&[0xc3, 0xff, 0, 0, 29, 8]), "draft 29");
    let long_id = [&[0xc3][..], &V1, &[8], &ID, &[21], &[1; 21], &[0, 1, 0]].concat();
    assert!(is_long(&long_id) && !QuicClient::begins_with(&padded(long_id)), "RFC 9000, section 17.2");
}

/// Drafts 33 and 34 have the keys of version 1 (draft-ietf-quic-tls-33, section 5.2), those before have others.
#[test]
fn drafts_have_keys_of_their_own() {
    let frames = crypto(0, &hello(100));
    for draft in 29..=34 {
        let wire = [0xff, 0, 0, draft];
        let mut packet = sealed(wire, &ID, &ID, 0, &frames);
        assert_eq!(names(&followed(&[packet.clone()])), texts("q.example", "h3"), "draft {draft}");
        let as_v1 = sealed(V1, &ID, &ID, 0, &frames);
        // The header is authenticated, so only the protected bytes that follow from the keys are compared.
        let protected = |bytes: &[u8]| bytes[bytes.len() - 16 - frames.len()..bytes.len() - 16].to_vec();
        assert_eq!(protected(&packet) == protected(&as_v1), draft >= 33, "draft {draft}");
        packet[1..5].copy_from_slice(&[0xff, 0, 0, 28]);
        assert!(!is_long(&packet));
    }
}

proptest! {
    /// As current clients send it: in many pieces, out of order, with repetitions, over several datagrams.
    #[test]
    fn pieces_in_any_order_are_put_together(
        key_share_bytes in 0usize..2500,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        order in any::<u64>(),
        packets in 1usize..4,
        version in prop::sample::select(vec![V1, V2]),
    ) {
        let hello = hello(key_share_bytes);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(hello.len())).collect();
        places.extend([0, hello.len()]);
        places.sort_unstable();
        let mut frames: Vec<Vec<u8>> = places.windows(2).map(|pair| crypto(pair[0], &hello[pair[0]..pair[1]])).collect();
        frames.push(vec![1]);
        frames.push(vec![0; 5]);
        frames.push(crypto(0, &hello[..hello.len().min(9)]));
        let count = frames.len();
        frames.sort_by_key(|frame| quaff_wire::flow::mix(order, frame.iter().fold(frame.len() as u64, |sum, byte| sum << 1 ^ u64::from(*byte))));
        let datagrams: Vec<Vec<u8>> = frames
            .chunks(count.div_ceil(packets))
            .enumerate()
            .map(|(number, frames)| sealed(version, &ID, &ID, number as u32, &[frames.concat(), vec![0; 16]].concat()))
            .collect();
        let client = followed(&datagrams);
        prop_assert!(client.is_whole());
        prop_assert_eq!(names(&client), texts("q.example", "h3"));
    }

    /// A packet that was changed in transit is not read: its keys authenticate it.
    #[test]
    fn damaged_packets_are_not_read(at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<prop::sample::Index>()) {
        let whole = sealed(V1, &ID, &ID, 0, &crypto(0, &hello(50)));
        let mut damaged = whole.clone();
        let place = at.index(damaged.len());
        damaged[place] ^= 1 << bit;
        prop_assert_eq!(names(&followed(&[damaged])), (None, None), "byte {}", place);
        prop_assert_eq!(names(&followed(&[whole[..cut.index(whole.len())].to_vec()])), (None, None));
    }

    #[test]
    fn any_frames_and_any_bytes_are_read(frames in prop::collection::vec(any::<u8>(), 0..300), junk in prop::collection::vec(any::<u8>(), 0..100), kind in prop::sample::select(vec![2u8, 3, 6])) {
        let frames = [&[kind][..], &frames].concat();
        let header = [&[0xc3][..], &V1, &[8], &ID].concat();
        let datagrams = [sealed(V1, &ID, &ID, 0, &[&frames[..], &[0; 20]].concat()), [&header[..], &junk].concat(), junk];
        let client = followed(&datagrams);
        prop_assert!(client.crypto.bytes.capacity() <= CRYPTO_BYTES);
        let _ = names(&client);
    }
}
