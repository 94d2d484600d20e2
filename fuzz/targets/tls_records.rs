//! Any bytes and gaps of both sides as records of TLS: no panic, each byte is in one item, items are in order, texts
//! are printable, and the records are the same however the bytes come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::Sender;
use quaff_stream::application::tls::records::{HandshakeMessage, RecordItem, RecordReader};

/// Length of a record header, bytes.
const HEADER_BYTES: usize = 5;

fn check(message: &HandshakeMessage) {
    let texts = message.server_name.iter().chain(&message.alpn);
    assert!(texts.flat_map(|text| text.bytes()).all(|byte| byte.is_ascii_graphic()));
    assert!(message.certificate_bytes.len() <= 16 && message.versions.len() < 128);
    assert_eq!(message.is_skipped, message.bytes > 64 << 10);
}

/// Checks the items of a side, and returns the bytes that they account for.
fn sum(items: &[RecordItem]) -> u64 {
    let (mut sum, mut last) = (0, 0);
    for item in items {
        let (offset, bytes) = match item {
            RecordItem::Record(record) => {
                record.messages.iter().for_each(check);
                assert!(!record.kind.is_empty() && record.missing_bytes <= record.length);
                (record.offset, (HEADER_BYTES + record.length - record.missing_bytes) as u64)
            }
            RecordItem::Unread { offset, bytes, .. } => (*offset, *bytes),
        };
        assert!(offset >= last && bytes > 0);
        (sum, last) = (sum + bytes, offset);
    }
    sum
}

/// The items of one side that comes in pieces of this size.
fn read(stream: &[u8], piece: usize) -> Vec<RecordItem> {
    let (mut reader, mut items) = (RecordReader::default(), Vec::new());
    for (number, bytes) in stream.chunks(piece).enumerate() {
        items.extend(reader.data(Sender::A, (number * piece) as u64, 0, bytes));
    }
    items.extend(reader.end(Sender::A));
    items
}

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, stream)) = bytes.split_first() else { return };
    let whole = read(stream, stream.len().max(1));
    assert_eq!(sum(&whole), stream.len() as u64);
    let parts = read(stream, usize::from(*piece) + 1);
    assert_eq!(sum(&parts), stream.len() as u64);
    // Another search begins in each piece where no record is sure.
    let is_unread = whole.iter().any(|item| matches!(item, RecordItem::Unread { .. }));
    assert!(is_unread || whole == parts);

    // Both sides with gaps: two bytes before each part have its sender, its length and the gap after it.
    let (mut reader, mut rest) = (RecordReader::default(), stream);
    let (mut offsets, mut sent, mut items) = ([0; 2], [0; 2], [Vec::new(), Vec::new()]);
    while let [place, lost, after @ ..] = rest {
        let (sender, length) = (if place & 1 == 0 { Sender::A } else { Sender::B }, usize::from(*place >> 1));
        let (bytes, after) = after.split_at(length.min(after.len()));
        let at = sender.index();
        items[at].extend(reader.data(sender, offsets[at], 0, bytes));
        offsets[at] += bytes.len() as u64;
        sent[at] += bytes.len() as u64;
        if *lost > 127 {
            items[at].extend(reader.gap(sender, u64::from(*lost)));
            offsets[at] += u64::from(*lost);
        }
        rest = after;
    }
    for sender in [Sender::A, Sender::B] {
        items[sender.index()].extend(reader.end(sender));
    }
    assert_eq!([0, 1].map(|at| sum(&items[at])), sent);
});
