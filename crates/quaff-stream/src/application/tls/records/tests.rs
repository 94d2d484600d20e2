//! Records of a whole conversation, in pieces, with missing bytes and hostile lengths.

use super::super::tests::{client_hello, records, server_hello, sized};
use super::*;
use crate::event::Sender::{A, B};
use proptest::prelude::*;

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &sized(body)].concat()
}

/// A handshake message.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

/// A Certificate of TLS 1.2 with certificates of these lengths.
fn certificate(lengths: &[usize]) -> Vec<u8> {
    let of = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[1..], bytes].concat();
    let list: Vec<u8> = lengths.iter().flat_map(|length| of(&vec![0x30; *length])).collect();
    message(11, &of(&list))
}

/// A ServerHello without extensions: TLS 1.2.
fn server_hello_of_12() -> Vec<u8> {
    message(2, &[&[3, 3][..], &[7; 32], &[0, 0xc0, 0x2f, 0, 0, 0]].concat())
}

/// Reads a side in pieces of this size.
fn read_side(reader: &mut RecordReader, sender: Sender, stream: &[u8], piece: usize) -> Vec<RecordItem> {
    let at = |number: usize| (number * piece) as u64;
    let pieces = stream.chunks(piece).enumerate();
    pieces.flat_map(|(number, bytes)| reader.data(sender, at(number), at(number), bytes)).collect()
}

fn read(stream: &[u8], piece: usize) -> Vec<RecordItem> {
    let mut reader = RecordReader::default();
    let mut items = read_side(&mut reader, A, stream, piece);
    items.extend(reader.end(A));
    assert!(reader.end(A).is_empty() && reader.data(A, 1 << 40, 0, stream).is_empty(), "it has ended");
    items
}

fn record_of(item: &RecordItem) -> &TlsRecord {
    match item {
        RecordItem::Record(record) => record,
        unread @ RecordItem::Unread { .. } => panic!("{unread:?}"),
    }
}

/// The item as few words: type and length of a record, the place of other bytes.
fn words(item: &RecordItem) -> String {
    match item {
        RecordItem::Record(record) => format!("{} {}", record.kind, record.length),
        RecordItem::Unread { offset, bytes, is_first, is_last } => {
            let first = if *is_first { " first" } else { "" };
            format!("{bytes} at {offset}{first}{}", if *is_last { " last" } else { "" })
        }
    }
}

fn all_words(items: &[RecordItem]) -> Vec<String> {
    items.iter().map(words).collect()
}

#[test]
fn a_conversation_of_tls_12_is_read_up_to_the_change_of_cipher() {
    let mut reader = RecordReader::default();
    let client = read_side(&mut reader, A, &records(&client_hello(), 16384), 16384);
    let hello = record_of(&client[0]);
    assert_eq!((hello.kind, hello.version, hello.record_version), ("handshake", "TLS 1.0", "TLS 1.0"));
    let [said] = &hello.messages[..] else { panic!("{hello:?}") };
    assert_eq!((&*said.name, said.server_name.as_deref()), ("client_hello", Some("a.example")));
    assert_eq!(
        (said.alpn.join(" "), said.versions.join(" ")),
        ("h2 http/1.1".into(), "TLS 1.3 TLS 1.2".into())
    );
    assert_eq!((&said.version, &said.cipher_suite), (&None, &None));

    // Three messages in one record.
    let flight = [server_hello_of_12(), certificate(&[700, 1200]), message(14, &[])].concat();
    let finished = [record(20, &[1]), record(22, &[0; 40])].concat();
    let stream = [record(22, &flight), record(22, &message(4, &[9; 20])), finished].concat();
    let server = read_side(&mut reader, B, &stream, 16384);
    let names: Vec<_> =
        record_of(&server[0]).messages.iter().map(|message| message.name.to_string()).collect();
    assert_eq!(names, ["server_hello", "certificate", "server_hello_done"]);
    let [hello, certificates, _] = &record_of(&server[0]).messages[..] else { panic!("{server:?}") };
    assert_eq!(hello.version.as_deref(), Some("TLS 1.2"));
    assert_eq!(hello.cipher_suite.as_deref(), Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
    assert_eq!((certificates.certificates, &certificates.certificate_bytes[..]), (Some(2), &[700, 1200][..]));
    assert_eq!(all_words(&server[1..]), ["handshake 24", "change_cipher_spec 1", "handshake 40"]);
    let encrypted: Vec<_> = server.iter().map(|item| record_of(item).is_encrypted).collect();
    assert_eq!(encrypted, [false, false, false, true], "zeros of a nonce are no HelloRequest");
    let sent =
        [record(23, &[5; 30]), record(21, &[0; 26]), record(21, &[1, 0]), record(21, &[2, 40])].concat();
    let items = reader.data(B, stream.len() as u64, 0, &sent);
    let alerts: Vec<_> = items.iter().map(|item| record_of(item).alert.as_deref()).collect();
    assert_eq!(alerts, [None, None, Some("close_notify"), Some("handshake_failure")]);
    assert_eq!(record_of(&items[3]).alert_level.as_deref(), Some("fatal"));
    assert!(record_of(&items[0]).is_encrypted && record_of(&items[1]).is_encrypted);
    assert_eq!(record_of(&items[0]).version, "TLS 1.2");
    assert!(reader.end(A).is_empty() && reader.end(B).is_empty());
}

#[test]
fn tls_13_is_named_once_the_server_chose_it() {
    let mut reader = RecordReader::default();
    let early = [record(22, &client_hello()), record(20, &[1])].concat();
    let before: Vec<_> =
        read_side(&mut reader, A, &early, 999).iter().map(|item| record_of(item).version).collect();
    assert_eq!(before, ["TLS 1.2", "TLS 1.2"]);
    let server =
        read_side(&mut reader, B, &[record(22, &server_hello()), record(23, &[1; 50])].concat(), 9999);
    let [hello] = &record_of(&server[0]).messages[..] else { panic!("{server:?}") };
    assert_eq!((hello.version.as_deref(), hello.alpn.join(",")), (Some("TLS 1.3"), "h2".to_owned()));
    assert_eq!(hello.cipher_suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
    // The second hello of a client, in the clear after its change of cipher, and a record of the other side.
    let again = reader.data(A, early.len() as u64, 0, &record(22, &client_hello()));
    assert_eq!(record_of(&again[0]).messages[0].name, "client_hello");
    for item in [&server[1], &again[0]] {
        let record = record_of(item);
        assert_eq!((record.version, record.record_version), ("TLS 1.3", "TLS 1.2"));
    }
}

#[test]
fn pieces_and_records_are_cut_anywhere() {
    let flight = [client_hello(), certificate(&[3000])].concat();
    for bytes in [1, 5, 1000, 16384] {
        let stream = [records(&flight, bytes), record(23, &[1; 77]), record(23, &[])].concat();
        let whole = read(&stream, stream.len());
        let messages = whole.iter().flat_map(|item| &record_of(item).messages);
        let names: Vec<_> = messages.map(|message| (&*message.name, message.certificates)).collect();
        assert_eq!(names, [("client_hello", None), ("certificate", Some(1))]);
        for piece in [1, 4, 6, 333] {
            let parts = read(&stream, piece);
            assert_eq!(all_words(&parts), all_words(&whole), "records of {bytes}, pieces of {piece}");
            let same = parts.iter().zip(&whole).all(|(part, whole)| {
                let part = TlsRecord { time_ns: record_of(whole).time_ns, ..record_of(part).clone() };
                part == *record_of(whole)
            });
            assert!(same, "records of {bytes}, pieces of {piece}");
        }
    }
    let long = records(&certificate(&[40_000]), 16384);
    let stream = [records(&client_hello(), 16384), long].concat();
    let items = read(&stream, 1460);
    let open: Vec<_> = items.iter().map(|item| record_of(item).open_message.as_deref()).collect();
    assert_eq!(open, [None, Some("certificate"), Some("certificate"), None]);
}

#[test]
fn hostile_lengths_cost_no_memory() {
    // A message of 16 MiB is skipped, and the next one read.
    let mut stream = records(&client_hello(), 16384);
    let long = [&[11, 0xff, 0xff, 0xff][..], &vec![0x30; 0xff_ffff]].concat();
    stream.extend(records(&[long, message(14, &[])].concat(), 16384));
    let mut reader = RecordReader::default();
    let mut names = Vec::new();
    for (number, bytes) in stream.chunks(1460).enumerate() {
        let items = reader.data(A, number as u64 * 1460, 0, bytes);
        names.extend(items.iter().flat_map(|item| record_of(item).messages.clone()));
        let half = &reader.halves[0];
        let open_bytes = half.open.as_ref().map_or(0, |open| open.body.capacity());
        assert!(open_bytes <= 2 * CONTENT_BYTES_MAX && half.held.is_none(), "{open_bytes}");
    }
    let listed: Vec<_> =
        names.iter().map(|message| (&*message.name, message.bytes, message.is_skipped)).collect();
    let hello = client_hello().len() - 4;
    assert_eq!(
        listed,
        [("client_hello", hello, false), ("certificate", 0xff_ffff, true), ("server_hello_done", 0, false)]
    );
    // A record that is longer than any may be, and a list of certificates that ends too early.
    assert_eq!(all_words(&read(&[23, 3, 3, 0xff, 0xff, 1, 2, 3], 99)), ["8 at 0 first last"]);
    let mut cut = [server_hello_of_12(), certificate(&[10, 20])].concat();
    let at = server_hello_of_12().len() + 4 + 3;
    cut[at..at + 3].copy_from_slice(&[0xff; 3]);
    let items = read(&record(22, &cut), 9999);
    assert_eq!(record_of(&items[0]).messages[1].certificates, Some(0));
    // More messages than a line should have are as many as the record has room for.
    let many = [server_hello_of_12(), message(0, &[]).repeat(4000)].concat();
    assert_eq!(record_of(&read(&record(22, &many), 9999)[0]).messages.len(), 4001);
}

#[test]
fn missing_bytes_within_a_record_lose_nothing_else() {
    let data = |byte: u8| record(23, &[byte; 1000]);
    for (lost, expected) in [(100, 100), (990, 990)] {
        let mut reader = RecordReader::default();
        let stream = [data(1), data(2)].concat();
        let mut items = reader.data(A, 0, 0, &stream[..15]);
        items.extend(reader.gap(A, lost));
        items.extend(reader.data(A, 15 + lost, 0, &stream[15 + lost as usize..]));
        items.extend(reader.end(A));
        assert_eq!(all_words(&items), ["application_data 1000"; 2], "{lost}");
        assert_eq!([0, 1].map(|at| record_of(&items[at]).missing_bytes), [expected, 0]);
    }
    // Beyond it, the record is named, and the next one has to be proven.
    let mut reader = RecordReader::default();
    let mut items = reader.data(A, 0, 0, &data(1)[..15]);
    items.extend(reader.gap(A, 5000));
    assert_eq!(
        (all_words(&items), record_of(&items[0]).missing_bytes),
        (vec!["application_data 1000".into()], 990)
    );
    assert!(reader.data(A, 5015, 0, b"the rest of another one").is_empty());
    assert!(reader.data(A, 5038, 0, &data(2)).is_empty(), "it is not proven yet");
    let items = reader.data(A, 6043, 0, &data(3)[..10]);
    assert_eq!(all_words(&items), ["23 at 5015", "application_data 1000"]);
    assert_eq!(all_words(&reader.end(A)), ["application_data 1000"]);
    // One between two gaps is sure.
    let mut reader = RecordReader::default();
    reader.gap(A, 10);
    assert!(reader.data(A, 10, 0, &data(1)).is_empty());
    assert_eq!(all_words(&reader.gap(A, 3)), ["application_data 1000"]);
    // One that ends with the side is sure, one that something else follows is not.
    for (more, expected) in [
        (&b""[..], vec!["application_data 1000"]),
        (&b"no record"[..], vec!["1014 at 9005 last"]),
        (&[23, 3, 1, 0, 1, 5][..], vec!["1011 at 9005 last"]),
        (&[23, 3][..], vec!["1007 at 9005 last"]),
    ] {
        let mut reader = RecordReader::default();
        reader.data(A, 0, 0, &data(1));
        reader.gap(A, 8000);
        let mut items = reader.data(A, 9005, 0, &data(2));
        items.extend(reader.data(A, 10_010, 0, more));
        items.extend(reader.end(A));
        assert_eq!(all_words(&items), expected, "{more:?}");
    }
}

#[test]
fn messages_are_not_joined_across_missing_bytes() {
    let mut reader = RecordReader::default();
    let hello = records(&client_hello(), 16384);
    let long = record(22, &certificate(&[2000])[..1500]);
    let stream = [hello, long].concat();
    reader.data(A, 0, 0, &stream[..stream.len() - 100]);
    let items = reader.gap(A, 100);
    let record = record_of(&items[0]);
    assert_eq!((record.missing_bytes, record.messages.len(), &record.open_message), (100, 0, &None));
    let rest = record_of(&reader.data(A, stream.len() as u64, 0, &self::record(22, &[0x30; 510]))[0]).clone();
    assert!(!record.is_encrypted && rest.is_encrypted && rest.messages.is_empty(), "its rest is not read");
    let next = reader.data(A, 9999, 0, &self::record(22, &message(16, &[1; 66])));
    assert_eq!(
        record_of(&next[0]).messages[0].name,
        "client_key_exchange",
        "its length shows that it is whole"
    );
}

#[test]
fn tls_after_another_protocol_is_found() {
    let hello = records(&client_hello(), 16384);
    let length = hello.len() - 5;
    for before in [&b"STARTTLS\r\n"[..], b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n", b"\xff\xfe\x01"] {
        let expected = [format!("{} at 0 first", before.len()), format!("handshake {length}")];
        let mut reader = RecordReader::default();
        let mut items = reader.data(A, 0, 0, before);
        items.extend(reader.data(A, before.len() as u64, 0, &hello));
        assert_eq!(all_words(&items), expected, "{before:?}");
    }
    // In one piece, after a message that is known.
    let together = [&b"PROXY UNKNOWN\r\n"[..], &hello].concat();
    assert_eq!(all_words(&read(&together, 9999))[0], "15 at 0 first");
    // Before missing bytes it is not known if a record follows.
    let mut reader = RecordReader::default();
    assert!(reader.data(A, 0, 0, b"220 ready\r\n").is_empty());
    assert_eq!(all_words(&reader.gap(A, 5)), ["11 at 0"]);
    let other = read(b"SSH-2.0-x\r\n and more", 7);
    assert_eq!(all_words(&other), ["20 at 0 first last"]);
}

/// Bytes that the items account for.
fn sum(items: &[RecordItem]) -> u64 {
    let bytes = |item: &RecordItem| match item {
        RecordItem::Record(record) => (RECORD_BYTES + record.length - record.missing_bytes) as u64,
        RecordItem::Unread { bytes, .. } => *bytes,
    };
    items.iter().map(bytes).sum()
}

proptest! {
    #[test]
    fn each_byte_is_in_one_item(
        at in 0usize..2000, byte: u8, cuts in prop::collection::vec((1usize..700, 0u64..900), 1..12),
        noise in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let tls = [records(&client_hello(), 100), record(20, &[1]), record(22, &noise), record(23, &[1; 900])];
        for mut stream in [tls.concat(), noise] {
            if let Some(place) = stream.get_mut(at) {
                *place = byte;
            }
            let (mut reader, mut items, mut offset, mut rest) = (RecordReader::default(), Vec::new(), 0, &stream[..]);
            for (piece, lost_bytes) in cuts.iter().cycle().take(64) {
                let (bytes, after) = rest.split_at((*piece).min(rest.len()));
                items.extend(reader.data(B, offset, 0, bytes));
                offset += bytes.len() as u64;
                if *lost_bytes < 300 {
                    items.extend(reader.gap(B, *lost_bytes + 1));
                    offset += *lost_bytes + 1;
                }
                rest = after;
            }
            items.extend(reader.data(B, offset, 0, rest));
            items.extend(reader.end(B));
            prop_assert_eq!(sum(&items), stream.len() as u64);
        }
    }
}
