//! Prints the time that one core needs for an event of a script, from memory: `script_speed [SECONDS]`. The time
//! of an engine whose script asks for nothing comes first.
//!
//! Seconds are processor time, so that other processes take nothing from the result but caches.

use quaff_os::clock::thread_cpu_ns;
use quaff_script::{Compile, Engine, EnginePlan, Formats, Limits, Packet, Source};
use quaff_stream::tracker::TrackPlan;
use quaff_testpackets as build;
use std::sync::Arc;

const CASES: [(&str, &str); 7] = [
    ("nothing", ""),
    ("packet, no field", "on('packet', function(p) end)"),
    ("packet, two fields", "local n = 0 on('packet', function(p) n = n + p.length + p.source_port end)"),
    (
        "packet, histogram",
        "local h = histogram('h', {'port'}) on('packet', function(p) h:count(p.source_port) end)",
    ),
    ("packet of another port", "on('packet', {ports = {9}}, function(p) end)"),
    ("data", "local n = 0 on('data', function(f, d) n = n + #d.bytes end)"),
    ("line of another port", "on('line', {ports = {9}}, function(f, l) end)"),
];

/// Segments of 512 bytes of one connection, in order.
fn frames() -> Vec<Vec<u8>> {
    let frame = |at: u32| {
        let mut tcp = [4711u16, 80].map(u16::to_be_bytes).concat();
        tcp.extend([at * 458, 1].map(u32::to_be_bytes).concat());
        tcp.extend([0x50, 16, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend([b'x'; 458]);
        build::ethernet(&[], 0x0800, &build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, &[], &tcp))
    };
    (0..20_000).map(frame).collect()
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let frames = frames();
    for (name, text) in CASES {
        let compile: Compile = Arc::new(|_| Err("no filters here".into()));
        let plan = EnginePlan {
            scripts: vec![Source { name: "a.lua".into(), text: text.into(), ..Source::default() }],
            limits: Limits::default(),
            track: TrackPlan::default(),
            formats: Formats { json: true, csv: false, has_names: false },
            can_save: false,
            compile,
        };
        let (mut packets, begun_ns) = (0u64, thread_cpu_ns());
        let mut engine = Engine::new(&plan, 1).expect("a script");
        while ((thread_cpu_ns() - begun_ns) as f64) < seconds * 1e9 {
            // The numbers of a pass begin again: another connection's would be late ones.
            engine.finish();
            engine = Engine::new(&plan, 1).expect("a script");
            for (at, bytes) in frames.iter().enumerate() {
                let wire_bytes = bytes.len() as u32;
                engine.packet(&Packet { bytes, wire_bytes, linktype: 1, tag: None, time_ns: at as u64 + 1 });
            }
            packets += frames.len() as u64;
        }
        let ns = (thread_cpu_ns() - begun_ns) as f64 / packets as f64;
        println!("{name:24} {ns:7.0} ns a packet, {:6.2} Mpps", 1e3 / ns);
    }
}
