//! Prints the time of one segment: in order, swapped in pairs, and with a hole before each window. One core, no I/O.
//!
//! `cargo run --release -p quaff-stream --example stream_speed [FLOWS]`: median of five, ns a segment and GiB a second.

use quaff_stream::conversation::Outcome;
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Conversation, Event, Segment, Sender, StreamLane, StreamPlan, StreamSink};
use std::io::Write;
use std::time::Instant;

/// Counts bytes, and looks at one of each run.
#[derive(Default)]
struct Counter(u64);

impl StreamSink for Counter {
    fn event(&mut self, _: Sender, event: Event) {
        if let Event::Data { bytes, .. } = event {
            self.0 += bytes.len() as u64 + u64::from(bytes[0] & 1);
        }
    }
}

const BYTES: u32 = 1448;
const SEGMENTS: u32 = 2_000_000;

/// The number of a segment in the order of a pattern.
fn order(pattern: &str, at: u32) -> u32 {
    match pattern {
        "swapped in pairs" => at ^ 1,
        // The first of 32 comes last.
        "hole of 31" => at / 32 * 32 + (at + 1) % 32,
        _ => at,
    }
}

fn run(pattern: &str, flows: usize) -> f64 {
    let payload = [1u8; BYTES as usize];
    let mut lane = StreamLane::new(StreamPlan::default(), None);
    let mut sink = Counter::default();
    let new = || Conversation::new(StreamPolicy::Linux, StreamPolicy::Linux);
    let mut conversations: Vec<Conversation> = std::iter::repeat_with(new).take(flows).collect();
    for conversation in &mut conversations {
        let syn = Segment { flags: 2, ..Segment::default() };
        let answer = Segment { flags: 18, acknowledgment: 1, window: 65_535, window_scale: Some(7), ..syn };
        for (sender, segment) in [(Sender::A, syn), (Sender::B, answer)] {
            assert!(conversation.segment(sender, &segment, &mut lane, &mut sink) == Outcome::Taken);
        }
    }
    let started = Instant::now();
    for at in 0..SEGMENTS / flows as u32 {
        let place = order(pattern, at).wrapping_mul(BYTES);
        for conversation in &mut conversations {
            let segment = Segment {
                sequence: 1u32.wrapping_add(place),
                acknowledgment: 1,
                flags: 16,
                window: 500,
                payload: &payload,
                wire_bytes: BYTES,
                time_ns: u64::from(at),
                ..Segment::default()
            };
            let _ = conversation.segment(Sender::A, &segment, &mut lane, &mut sink);
        }
    }
    let ns = started.elapsed().as_nanos() as f64 / f64::from(SEGMENTS / flows as u32 * flows as u32);
    assert!(lane.tally().is_balanced() && lane.tally().delivered_bytes > 0);
    conversations.iter_mut().for_each(|conversation| conversation.finish(&mut lane, &mut sink));
    ns
}

fn main() {
    let flows = std::env::args().nth(1).and_then(|flows| flows.parse().ok()).unwrap_or(1000);
    for pattern in ["in order", "swapped in pairs", "hole of 31"] {
        let mut runs: Vec<f64> = (0..5).map(|_| run(pattern, flows)).collect();
        runs.sort_by(f64::total_cmp);
        let rate = f64::from(BYTES) / runs[2] * 1e9 / f64::from(1 << 30);
        let line = format!("{pattern}, {flows} flows: {:.1} ns a segment, {rate:.1} GiB/s\n", runs[2]);
        std::io::stdout().write_all(line.as_bytes()).expect("stdout takes a line");
    }
}
