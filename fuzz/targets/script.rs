//! The boundary to Lua: any packets through a script that reads every field, and any text as a script with a small
//! budget: no panic, no run without end, each packet counted, rows that are JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_script::{Compile, Engine, EnginePlan, Formats, Limits, Packet, Source, Test};
use quaff_stream::tracker::TrackPlan;
use quaff_testpackets as build;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Reads all fields of all objects.
const READER: &str = r#"
    local rows = list("rows", {"a", "b", "c"})
    local counts = histogram("counts", {"key"})
    local fields = {"time", "length", "captured", "link", "source", "destination", "source_mac", "destination_mac", "vlan",
        "protocol", "source_port", "destination_port", "ttl", "tcp_flags", "icmp_type", "icmp_code", "fragment", "arp"}
    on("packet", {}, function(packet)
        for _, name in ipairs(fields) do
            local value = packet[name]
            if type(value) == "table" then for _, inner in pairs(value) do counts:count(tostring(inner)) end
            else counts:count(value) end
        end
        rows:add{packet:payload(), packet:payload(3), #packet:payload(1 << 40)}
    end)
    local function flow_fields(flow)
        for _, name in ipairs{"id", "key", "client", "server", "client_port", "server_port", "protocol", "start", "last", "packets", "bytes"} do
            counts:count(flow[name])
        end
        flow.state.seen = (flow.state.seen or 0) + 1
    end
    on("flow_start", flow_fields)
    on("flow_end", flow_fields)
    for _, event in ipairs{"data", "line", "evidence"} do
        on(event, function(flow, object)
            flow_fields(flow)
            for name, value in pairs(object) do rows:add{event, name, value} end
            save(flow)
        end)
    end
    on("match", {regex = "a[a-c]*"}, function(flow, match) rows:add{match.text, match.offset, match.from} end)
    on("data", {prefix = "aa"}, function(flow, data) alert(data.bytes, {from = data.from}) end)
    on("timer", {every = 1}, function(now) print(now) end)
"#;

struct Any;

impl Test for Any {
    fn wants(&mut self, packet: &Packet) -> bool {
        packet.bytes.len() % 2 == 0
    }
}

fn plan(text: &str, limits: Limits) -> EnginePlan {
    let compile: Compile = Arc::new(|_| Ok(Box::new(Any) as Box<dyn Test>));
    EnginePlan {
        scripts: vec![Source { name: "a.lua".into(), text: text.into(), ..Source::default() }],
        limits,
        track: TrackPlan { connections_max: 3, ..TrackPlan::default() },
        formats: Formats { json: true, csv: true, has_names: true },
        can_save: true,
        compile,
    }
}

static READS_ALL: LazyLock<EnginePlan> = LazyLock::new(|| plan(READER, Limits::default()));

/// Ports and direction, flags, sequence number, payload, time in ms.
type Step = (u8, u8, u16, Vec<u8>, u16);

fn frame((who, flags, sequence, payload, _): &Step) -> Vec<u8> {
    let ports = [1000 + u16::from(who % 3), 80];
    let is_client = who & 128 == 0;
    let ports = if is_client { ports } else { [ports[1], ports[0]] };
    let [a, b] = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    let [from, to] = if is_client { [a, b] } else { [b, a] };
    let packet = if who & 64 != 0 {
        build::ipv4(from, to, 17, &[], &build::udp(ports[0], ports[1], payload))
    } else {
        let mut tcp = ports.map(u16::to_be_bytes).concat();
        tcp.extend([u32::from(*sequence), 0].map(u32::to_be_bytes).concat());
        tcp.extend([0x50, *flags, 0x10, 0, 0, 0, 0, 0]);
        tcp.extend(payload);
        build::ipv4(from, to, 6, &[], &tcp)
    };
    build::ethernet(&[], 0x0800, &packet)
}

fn run(plan: &EnginePlan, frames: &[(Vec<u8>, u64)]) -> Option<bool> {
    let mut engine = Engine::new(plan, 1).ok()?;
    for (bytes, time_ns) in frames {
        for linktype in [1, 101] {
            let packet =
                Packet { bytes, wire_bytes: bytes.len() as u32, linktype, tag: None, time_ns: *time_ns };
            engine.packet(&packet);
        }
    }
    let end = engine.finish();
    assert_eq!(end.packets, 2 * frames.len() as u64);
    let check = |json: &[u8]| {
        let text = std::str::from_utf8(json).expect("text");
        assert!(text.lines().all(|line| line.starts_with('{') && line.ends_with('}')));
    };
    engine.take_rows(|_, rows| check(&rows.json));
    end.histograms.clone().rows(|_, rows| check(&rows.json));
    Some(end.scripts[0].is_whole())
}

fuzz_target!(|input: (Vec<Step>, Vec<u8>, String)| {
    let (steps, noise, text) = input;
    let mut time_ns = 1_000_000_000;
    let mut frames: Vec<(Vec<u8>, u64)> = Vec::new();
    for step in &steps {
        time_ns += u64::from(step.4) * 1_000_000;
        frames.push((frame(step), time_ns));
    }
    frames.push((noise, time_ns));
    assert_eq!(run(&READS_ALL, &frames), Some(true), "all fields can be read and recorded");
    // A text as a chunk, and as the body of a function.
    let limits = Limits { call_time: Duration::from_millis(5), memory_bytes: 1 << 20, ..Limits::default() };
    let begun = Instant::now();
    for text in [text.clone(), format!("on('packet', function(p) {text}\nend)")] {
        let _ = run(&plan(&text, limits), &frames[..frames.len().min(3)]);
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "a budget was outrun");
});
