//! Prints the time of a packet in the meters of losses: by TCP alone, by all evidence, and of its two parts, which two
//! cores may share. One core, from memory.
//!
//! `cargo run --release -p quaff-stream --example proof_speed FILE`: median of nine, interleaved, ns a packet.

use quaff_stream::{LossMeter, ProofMeter, ProofReader};
use quaff_wire::decode::{Decoder, Item, Step};
use std::io::Write;
use std::time::{Duration, Instant};

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

/// The time of a packet to be read into a batch, and to be taken from it, ns.
fn run_parts(packets: &[Packet]) -> [f64; 2] {
    let (mut meter, mut reader) = (ProofMeter::new(7), ProofReader::new(7));
    let (mut started, mut times) = (Instant::now(), [Duration::ZERO; 2]);
    for it in packets {
        if reader.packet(&it.bytes, it.wire_bytes, it.linktype, it.time_ns, 0) {
            let read = Instant::now();
            meter.take_batch(reader.batch());
            let taken = Instant::now();
            times[0] += read - started;
            times[1] += taken - read;
            started = taken;
        }
    }
    times.map(|time| time.as_nanos() as f64 / packets.len().max(1) as f64)
}

fn main() {
    let packets = packets(&std::env::args().nth(1).expect("the name of a capture file"));
    let [mut tcp, mut all, mut read, mut taken] = [const { Vec::new() }; 4];
    for _ in 0..9 {
        let ((alone, one), (together, other)) = (run(&packets, false), run(&packets, true));
        assert_eq!(one, other, "the same losses");
        tcp.push(alone);
        all.push(together);
        let parts = run_parts(&packets);
        read.push(parts[0]);
        taken.push(parts[1]);
    }
    [&mut tcp, &mut all, &mut read, &mut taken].into_iter().for_each(|times| times.sort_by(f64::total_cmp));
    let packets = packets.len();
    let [tcp, all, read, taken] = [tcp[4], all[4], read[4], taken[4]];
    let line = format!(
        "{packets} packets: TCP {tcp:.1} ns, all evidence {all:.1} ns: {read:.1} ns to read, {taken:.1} ns to take\n"
    );
    std::io::stdout().write_all(line.as_bytes()).expect("stdout takes a line");
}
