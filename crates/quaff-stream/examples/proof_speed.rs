//! Prints the time of a packet in the meters of losses: by TCP alone, and by all evidence. One core, from memory.
//!
//! `cargo run --release -p quaff-stream --example proof_speed FILE`: median of nine, interleaved, ns a packet.

use quaff_stream::{LossMeter, ProofMeter};
use quaff_wire::decode::{Decoder, Item, Step};
use std::io::Write;
use std::time::Instant;

/// A packet in memory.
struct Packet {
    bytes: Vec<u8>,
    wire_bytes: u32,
    linktype: u16,
    time_ns: u64,
}

fn packets(path: &str) -> Vec<Packet> {
    let file = std::fs::read(path).expect("a capture file");
    let (mut decoder, mut left, mut all) = (Decoder::default(), &file[..], Vec::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut left) {
        if let Item::Frame(frame) = item {
            all.push(Packet {
                bytes: frame.data.to_vec(),
                wire_bytes: frame.wire_len,
                linktype: frame.linktype,
                time_ns: frame.time_ns,
            });
        }
    }
    all
}

/// The time of a packet, ns, and the losses found.
fn run(packets: &[Packet], has_all: bool) -> (f64, u64) {
    let started = Instant::now();
    let lost = if has_all {
        let mut meter = ProofMeter::new(7);
        packets.iter().for_each(|it| meter.packet(&it.bytes, it.wire_bytes, it.linktype, it.time_ns, 0));
        meter.finish().tcp.acked_unseen_packets_estimate
    } else {
        let mut meter = LossMeter::new(7);
        packets.iter().for_each(|it| meter.packet(&it.bytes, it.wire_bytes, it.linktype, it.time_ns));
        meter.finish().acked_unseen_packets_estimate
    };
    (started.elapsed().as_nanos() as f64 / packets.len().max(1) as f64, lost)
}

fn main() {
    let packets = packets(&std::env::args().nth(1).expect("the name of a capture file"));
    let (mut tcp, mut all) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let ((alone, one), (together, other)) = (run(&packets, false), run(&packets, true));
        assert_eq!(one, other, "the same losses");
        tcp.push(alone);
        all.push(together);
    }
    [&mut tcp, &mut all].into_iter().for_each(|times| times.sort_by(f64::total_cmp));
    let line = format!("{} packets: TCP {:.1} ns, all evidence {:.1} ns\n", packets.len(), tcp[4], all[4]);
    std::io::stdout().write_all(line.as_bytes()).expect("stdout takes a line");
}
