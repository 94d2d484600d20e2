//! Any bytes as a message of DNS, and as a stream of them in pieces: no panic, texts are printable and bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::Sender;
use quaff_stream::application::dns::{DnsMessage, DnsStream};

fn check(message: &DnsMessage) {
    let records = message.answers.iter().chain(&message.authorities).chain(&message.additionals);
    let texts = records.flat_map(|record| [&record.name, &record.data]);
    let names = message.questions.iter().map(|question| &question.name);
    let mut count = 0;
    for text in texts.chain(names) {
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
        count += 1;
    }
    assert!(count <= 512 && message.questions.iter().all(|question| question.name.len() <= 4 * 255));
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(message) = DnsMessage::read(bytes) {
        check(&message);
    }
    let Some((piece, stream)) = bytes.split_first() else { return };
    let mut counts = [0, 0];
    for (count, piece) in counts.iter_mut().zip([usize::from(*piece) + 1, stream.len().max(1)]) {
        let mut reader = DnsStream::default();
        for bytes in stream.chunks(piece) {
            reader.data(Sender::A, bytes, &mut |_, message| {
                check(message);
                *count += 1;
            });
        }
    }
    assert_eq!(counts[0], counts[1]);
});
