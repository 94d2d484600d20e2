//! Any bytes and gaps of both sides of a connection: no panic, each byte has a fate, each message has one head and one
//! end, and bodies are counted as they come.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_stream::{EndReason, Sender};
use quaff_stream::application::http::{HttpEvent, HttpReader};
use quaff_stream::application::lines::{LINE_BYTES_MAX, Lines};

#[derive(Default)]
struct Checker {
    open: [Option<(u64, u64)>; 2],
}

impl Checker {
    fn take(&mut self, sender: Sender, event: HttpEvent<'_>) {
        let open = &mut self.open[sender.index()];
        match event {
            HttpEvent::Head(message) => assert!(open.replace((message.number, 0)).is_none()),
            HttpEvent::Body(message, bytes) => {
                let (number, body_bytes) = open.as_mut().expect("a message");
                *body_bytes += bytes.len() as u64;
                assert_eq!((*number, *body_bytes), (message.number, message.body_bytes));
            }
            HttpEvent::Gap(message, _) => assert_eq!(open.map(|open| open.0), Some(message.number)),
            HttpEvent::End(message) => {
                assert_eq!(open.take(), Some((message.number, message.body_bytes)));
                assert!(message.head.fields().count() <= 256 + 16);
            }
        }
    }
}

// Each line of the input is a step: its first byte chooses the side, and a gap or bytes.
fuzz_target!(|bytes: &[u8]| {
    let (mut reader, mut checker) = (HttpReader::default(), Checker::default());
    let mut sides = [Lines::default(), Lines::default()];
    let mut sink = |sender: Sender, event: HttpEvent<'_>| checker.take(sender, event);
    let mut line_sink = |line: quaff_stream::application::lines::Line<'_>| assert!(line.text.len() <= LINE_BYTES_MAX);
    for step in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (choice, data) = step.split_first().expect("not empty");
        let sender = if choice & 1 == 0 { Sender::A } else { Sender::B };
        if choice & 0x1e == 0x1e {
            let lost = data.first_chunk::<8>().map_or(3, |bytes| u64::from_le_bytes(*bytes));
            reader.gap(sender, lost, &mut sink);
            sides[sender.index()].gap(&mut line_sink);
        } else {
            reader.data(sender, data, &mut sink);
            sides[sender.index()].data(data, &mut line_sink);
        }
        assert!(reader.tally().is_balanced());
    }
    reader.end(Sender::A, EndReason::Fin, &mut sink);
    reader.end(Sender::B, EndReason::Reset, &mut sink);
    sides.iter_mut().for_each(|side| side.finish(&mut line_sink));
    assert!(reader.is_over() && checker.open == [None; 2]);
});
