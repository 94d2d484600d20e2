//! Messages of each type, damaged messages, streams in arbitrary pieces.

use super::*;
use crate::event::Sender::{A as CLIENT, B as SERVER};
use proptest::prelude::*;

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// A response to a question about `a.example`, with one answer per type and data; its name is that of the question.
fn response(records: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x84, 0x83, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
    bytes.extend(labels("a.example"));
    bytes.extend([0, 1, 0, 1]);
    for (kind, data) in records {
        bytes.extend([0xc0, 12]);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1, 0, 0, 1, 44]);
        bytes.extend((data.len() as u16).to_be_bytes());
        bytes.extend(*data);
    }
    bytes
}

#[test]
fn the_first_question_is_that_of_the_message() {
    let message = response(&[(A, &[10, 0, 0, 1])]);
    let whole = DnsMessage::read(&message).expect("a message");
    assert_eq!(DnsMessage::first_question(&message).as_ref(), whole.questions.first());
    for len in 0..message.len() {
        let cut = &message[..len];
        let first = DnsMessage::read(cut).and_then(|cut| cut.questions.into_iter().next());
        assert_eq!(DnsMessage::first_question(cut), first, "{len}");
    }
    let none = [&message[..5], &[0], &message[6..]].concat();
    assert_eq!(DnsMessage::first_question(&none), None);
}

#[test]
fn records_are_texts_as_in_zone_files() {
    // `example` is at offset 14.
    let soa = [
        &b"\x02ns\xc0\x0e\x04host\xc0\x0c"[..],
        &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5],
    ]
    .concat();
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let records: [(u16, &[u8], &str); 12] = [
        (A, &[10, 0, 0, 1], "10.0.0.1"),
        (AAAA, &v6, "2001:db8::1"),
        (CNAME, b"\x01b\xc0\x0e", "b.example"),
        (NS, b"\x02ns\x00", "ns"),
        (PTR, b"\xc0\x0c", "a.example"),
        (MX, b"\x00\x0a\x02mx\xc0\x0e", "10 mx.example"),
        (SRV, b"\x00\x01\x00\x02\x00\x50\x00", "1 2 80 ."),
        (TXT, b"\x05v=\"1 \x00\x03\xffb\\", "\"v=\\\"1 \" \"\" \"\\255b\\\\\""),
        (SOA, &soa, "ns.example host.a.example 1 2 3 4 5"),
        (65, b"\x00\x01\x00", "\\# 3 000100"),
        (A, &[10, 0, 0], "\\# 3 0a0000"),
        (CNAME, b"\x01b\x00\x00", "\\# 4 01620000"),
    ];
    let bytes = response(&records.map(|(kind, data, _)| (kind, data)));
    let message = DnsMessage::read(&bytes).unwrap();
    assert!(message.is_whole && message.is_response && message.is_authoritative && !message.is_truncated);
    assert_eq!((message.id, message.operation, message.code), (0x1234, 0, 3));
    assert_eq!((code_name(message.code), code_name(15)), ("NXDOMAIN".into(), "RCODE15".into()));
    assert_eq!(message.questions, [DnsQuestion { name: "a.example".into(), kind: A, class: 1 }]);
    for (record, (kind, _, text)) in message.answers.iter().zip(records) {
        assert_eq!((&*record.name, record.kind, record.ttl_s, &*record.data), ("a.example", kind, 300, text));
    }
    assert_eq!(["AAAA", "TYPE9999"], [kind_name(28), kind_name(9999)]);
}

#[test]
fn names_with_strange_bytes_are_escaped() {
    let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(b"\x05a.b\\\x07\x02 \xe4\x00\x00\x1c\x00\x01");
    let message = DnsMessage::read(&bytes).unwrap();
    assert_eq!(message.questions[0].name, "a\\.b\\\\\\007.\\032\\228");
}

#[test]
fn cut_messages_keep_what_was_read_and_other_bytes_are_none() {
    let bytes = response(&[(A, &[10, 0, 0, 1]), (A, &[10, 0, 0, 2])]);
    for cut in 0..bytes.len() {
        let read = DnsMessage::read(&bytes[..cut]);
        assert_eq!(read.is_some(), cut >= 27, "the header and the question have 27 bytes: {cut}");
        if let Some(message) = read {
            assert!(!message.is_whole && message.answers.len() == usize::from(cut >= 27 + 16));
        }
    }
    let mut many = response(&[]);
    many[6..8].copy_from_slice(&[255, 255]);
    for _ in 0..5000 {
        many.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]);
    }
    let message = DnsMessage::read(&many).unwrap();
    assert_eq!((message.answers.len(), message.is_whole), (RECORDS_MAX - 1, false));
    let other_operation = [0, 1, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(DnsMessage::read(&other_operation), None);
}

fn sized(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

#[test]
fn streams_have_messages_one_after_the_other() {
    let message = response(&[(A, &[10, 0, 0, 1])]);
    let stream = [sized(&message), sized(&message)].concat();
    for piece in [1, 2, 3, 50, 1000] {
        let (mut reader, mut found) = (DnsStream::default(), 0);
        for bytes in stream.chunks(piece) {
            reader.data(SERVER, bytes, &mut |sender, message| {
                assert!(sender == SERVER && message.is_whole);
                found += 1;
            });
        }
        assert_eq!(found, 2, "pieces of {piece}");
        reader.gap(SERVER);
        reader.data(SERVER, &stream, &mut |_, _| panic!("after a gap"));
        assert!(!reader.is_over());
        reader.data(CLIENT, b"\x00\x05hello", &mut |_, _| panic!("no message"));
        assert!(reader.is_over());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1u8), Just(0xc0u8), Just(12u8), any::<u8>()], 0..400)) {
        if let Some(message) = DnsMessage::read(&bytes) {
            let records = message.answers.len() + message.authorities.len() + message.additionals.len();
            prop_assert!(records + message.questions.len() <= RECORDS_MAX);
            let texts = message.answers.iter().flat_map(|record| [&record.name, &record.data]);
            for text in texts.chain(message.questions.iter().map(|question| &question.name)) {
                prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{:?}", text);
            }
        }
        let mut stream = DnsStream::default();
        stream.data(CLIENT, &bytes, &mut |_, _| {});
    }
}
