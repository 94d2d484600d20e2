//! Tests of scripts on packets, as in a run.

use crate::{Compile, Engine, EngineEnd, EnginePlan, Exceeded, Formats, Limits, Packet, Rows, Source, Test};
use quaff_stream::tracker::TrackPlan;
use quaff_testpackets as build;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A filter for tests: `port N`.
struct Port(u16);

impl Test for Port {
    fn wants(&mut self, packet: &Packet) -> bool {
        let port = self.0.to_be_bytes();
        packet.bytes.get(34..38).is_some_and(|ports| ports[..2] == port || ports[2..] == port)
    }
}

fn compile() -> Compile {
    Arc::new(|text| {
        let port = text.strip_prefix("port ").and_then(|port| port.parse().ok());
        port.map(|port| Box::new(Port(port)) as Box<dyn Test>).ok_or_else(|| format!("no filter: {text}"))
    })
}

fn plan(texts: &[(&str, &str)]) -> EnginePlan {
    let source = |(name, text): &(&str, &str)| Source {
        name: format!("{name}.lua"),
        text: (*text).to_owned(),
        ..Source::default()
    };
    EnginePlan {
        scripts: texts.iter().map(source).collect(),
        limits: Limits { call_time: Duration::from_millis(100), memory_bytes: 8 << 20, lane_percent: None },
        track: TrackPlan::default(),
        formats: Formats { json: true, csv: true, has_names: true },
        can_save: true,
        compile: compile(),
    }
}

/// A TCP frame from the client 10.0.0.1:4711 to 10.0.0.2:80, or back.
fn segment(is_client: bool, flags: u8, [seq, ack]: [u32; 2], payload: &[u8]) -> Vec<u8> {
    let ends = [([10, 0, 0, 1].into(), 4711u16), ([10, 0, 0, 2].into(), 80)];
    let [from, to] = if is_client { ends } else { [ends[1], ends[0]] };
    let mut tcp = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    tcp.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend(payload);
    build::ethernet(&[], 0x0800, &build::ipv4(from.0, to.0, 6, &[], &tcp))
}

/// A connection in which the client sends `parts` and the server `answer`.
fn connection(parts: &[&[u8]], answer: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = vec![
        segment(true, SYN, [99, 0], b""),
        segment(false, SYN | ACK, [499, 100], b""),
        segment(true, ACK, [100, 500], b""),
    ];
    let mut at = 100;
    for part in parts {
        frames.push(segment(true, ACK, [at, 500], part));
        at += part.len() as u32;
    }
    frames.push(segment(false, ACK, [500, at], answer));
    let end = 500 + answer.len() as u32;
    frames.push(segment(true, FIN | ACK, [at, end], b""));
    frames.push(segment(false, FIN | ACK, [end, at + 1], b""));
    frames
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    let udp = build::udp(5000, 53, payload);
    build::ethernet(&[], 0x0800, &build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &udp))
}

struct Run {
    end: EngineEnd,
    rows: Vec<Value>,
    csv: String,
    packets: Vec<u8>,
}

/// Runs scripts on frames 10 ms apart.
fn run_plan(plan: &EnginePlan, frames: &[Vec<u8>]) -> Run {
    let mut engine = Engine::new(plan, 7).unwrap_or_else(|error| panic!("{error}"));
    for (at, bytes) in frames.iter().enumerate() {
        let time_ns = 1_000_000_000 + at as u64 * 10_000_000;
        let packet = Packet { bytes, wire_bytes: bytes.len() as u32, linktype: 1, tag: None, time_ns };
        engine.packet(&packet);
    }
    let end = engine.finish();
    let (mut rows, mut csv) = (Vec::new(), String::new());
    let mut take = |texts: &Rows| {
        let lines = String::from_utf8(texts.json.clone()).expect("text");
        rows.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
        csv += &String::from_utf8_lossy(&texts.csv);
    };
    engine.take_rows(|_, texts| take(texts));
    end.histograms.clone().rows(|_, texts| take(&texts));
    let packets = engine.take_packets().into_iter().flat_map(|piece| piece.bytes).collect();
    assert_eq!(engine.pending_bytes(), 0);
    Run { end, rows, csv, packets }
}

fn run(text: &str, frames: &[Vec<u8>]) -> Run {
    run_plan(&plan(&[("a", text)]), frames)
}

/// The texts that a script printed.
#[track_caller]
fn printed(text: &str, frames: &[Vec<u8>]) -> Vec<String> {
    let done = run(text, frames);
    assert!(done.end.scripts[0].is_whole(), "{:?}", done.end.scripts[0]);
    done.rows.iter().map(|row| row["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn refused(text: &str) -> String {
    Engine::new(&plan(&[("a", text)]), 0).err().unwrap_or_default()
}

#[test]
fn a_packet_has_its_fields() {
    let frames = [segment(true, SYN, [99, 0], b"xyz"), datagram(b"question"), vec![0xff; 60]];
    let text = r#"on("packet", {}, function(p)
        print(p.time, p.length, p.captured, p.link, p.source, p.destination, p.protocol, p.source_port,
              p.destination_port, p.ttl, p.tcp_flags, p.vlan, p.icmp_type, p.arp, p:payload(2), p.source_mac)
    end)"#;
    let rows = printed(text, &frames);
    let expected = "1000000000\t57\t57\t1\t10.0.0.1\t10.0.0.2\ttcp\t4711\t80\t64\t2\tnil\tnil\tnil\txy\t";
    assert!(rows[0].starts_with(expected), "{rows:?}");
    assert!(rows[1].contains("\tudp\t5000\t53\t64\tnil\tnil\tnil\tnil\tqu\t"), "{rows:?}");
    assert!(rows[2].contains("\tnil\tnil\tnil\tnil\tnil\t"), "{rows:?}");
    let done = run(
        r#"local kept; on("packet", {}, function(p) local old = kept; kept = p; if old then print(old.length) end end)
        on("timer", {every = "1ms"}, function(now) print(kept.length) end)"#,
        &frames,
    );
    assert!(done.end.scripts[0].failures[0].text.starts_with("a.lua:2: a packet is valid in the call"));
}

#[test]
fn filters_and_ports_come_before_the_script() {
    let frames = [segment(true, SYN, [99, 0], b""), datagram(b"x"), datagram(b"y")];
    for (options, calls) in [
        ("{}", 3),
        ("{filter = 'port 53'}", 2),
        ("{ports = {53}}", 2),
        ("{ports = 80}", 1),
        ("{ports = {1, 2}}", 0),
    ] {
        let done = run(&format!("on('packet', {options}, function(p) end)"), &frames);
        assert_eq!(done.end.scripts[0].calls, calls, "{options}");
        assert!(done.end.tracked.is_none(), "no script asked for streams");
    }
    assert_eq!(
        refused("\non('packet', {filter = 'nonsense'}, function() end)"),
        "a.lua:2: no filter: nonsense"
    );
    assert!(refused("on('packet', {port = 1}, print)").contains("no option \"port\": try filter, ports"));
    assert!(refused("on('pocket', print)").contains("try packet, flow_start"));
    assert!(refused("on('match', {regex = '('}, print)").contains("a.lua:1: regex"));
    assert!(refused("x = = 1").starts_with("a.lua:1:"));
    assert!(refused("while true do end").contains("took more time"));
    assert!(
        refused("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end").contains("more memory")
    );
    assert!(refused("for i = 1, 1000 do on('packet', print) end").contains("at most 256 triggers"));
    assert!(refused("on('match', {regex = ('x'):rep(100000)}, print)").contains("at most 16 KiB"));
    assert!(refused("on('packet', {filter = ('x'):rep(100000)}, print)").contains("at most 16 KiB"));
    // More Rust references than fit in memory.
    let references = "local t = {} for i = 1, 1e7 do t[i] = string.gmatch('a', 'a') end";
    assert!(refused(references).contains("more memory"), "{}", refused(references));
    assert!(refused(&format!("on('data', {{prefix = '{}'}}, print)", "x".repeat(2000))).contains("at most"));
}

#[test]
fn flows_begin_and_end_and_have_a_state() {
    let frames = [connection(&[b"GET /"], b"OK"), vec![datagram(b"x"), datagram(b"yy")]].concat();
    let text = r#"
        on("flow_start", {}, function(f) f.state.at = f.start; print("start", f, f.packets) end)
        on("flow_end", {}, function(f)
            print("end", f.id, f.client, f.client_port, f.server, f.server_port, f.protocol, f.packets, f.bytes, f.state.at)
        end)"#;
    let expected = [
        "start\ttcp 10.0.0.1:4711 10.0.0.2:80\t1",
        "start\tudp 10.0.0.1:5000 10.0.0.2:53\t1",
        "end\t1\t10.0.0.1\t4711\t10.0.0.2\t80\ttcp\t7\t385\t1000000000",
        "end\t2\t10.0.0.1\t5000\t10.0.0.2\t53\tudp\t2\t87\t1070000000",
    ];
    assert_eq!(printed(text, &frames), expected);
    // The same with reassembly, but connections end before other flows.
    let with_data = format!("{text} on('data', {{}}, function() end)");
    assert_eq!(printed(&with_data, &frames), expected);
    let done = run("on('flow_start', {}, function(f) f.mine = 1 end)", &frames);
    assert!(done.end.scripts[0].failures[0].text.contains("flow.state.mine"));
}

/// Each kind of packet with other numbers, from both ends, before each packet of a connection.
#[test]
fn one_stray_packet_begins_and_ends_no_flow() {
    let text = "on('flow_end', {}, function(f) print(f.key, f.packets) end)";
    let frames = [connection(&[b"GET /"], b"OK"), vec![segment(true, ACK, [106, 503], b"")]].concat();
    for at in 1..frames.len() {
        for (flags, is_client) in
            [SYN, SYN | ACK, RST, ACK].into_iter().flat_map(|of| [(of, true), (of, false)])
        {
            let mut with = frames.clone();
            with.insert(at, segment(is_client, flags, [3_000_000_000, 3_000_000_077], b""));
            let expected = ["tcp 10.0.0.1:4711 10.0.0.2:80\t9"];
            assert_eq!(printed(text, &with), expected, "{at} {flags} {is_client}");
        }
    }
}

#[test]
fn a_connection_that_replaces_another_is_a_flow_from_its_answer_on() {
    let text = "on('flow_end', {}, function(f) print(f.client_port, f.packets) end)";
    let begin = |at: u32| {
        [
            segment(true, SYN, [at, 0], b""),
            segment(false, SYN | ACK, [at, at + 1], b""),
            segment(true, ACK, [at + 1, at + 1], b"GET"),
        ]
    };
    // Without an end, the flow before has the SYN.
    assert_eq!(printed(text, &[begin(100), begin(9000)].concat()), ["4711\t4", "4711\t2"]);
    let reset = [segment(false, RST, [101, 0], b"")];
    assert_eq!(printed(text, &[&begin(100)[..], &reset, &begin(9000)].concat()), ["4711\t4", "4711\t3"]);
    let refused = [segment(true, SYN, [9000, 0], b""), segment(false, RST | ACK, [0, 9001], b"")];
    assert_eq!(printed(text, &[&begin(100)[..], &refused].concat()), ["4711\t4", "4711\t1"]);
}

#[test]
fn streams_are_seen_as_bytes_lines_and_matches() {
    let frames = connection(&[b"user=an", b"na\npass=x\n", b"bye"], b"hello\n");
    let text = r#"
        on("data", {}, function(f, d) print("data", d.from, d.offset, d.bytes:gsub("\n", "|"), d.lost) end)
        on("line", {ports = {80}}, function(f, l) print("line", l.from, l.number, l.text, l.cut) end)
        on("match", {regex = "user=[a-z]+"}, function(f, m) print("match", m.from, m.offset, m.text) end)
        on("data", {prefix = "hel"}, function(f, d) print("prefix", d.from) end)
        on("data", {regex = "pass=."}, function(f, d) print("regex", d.from, #d.bytes) end)
        on("data", {ports = {81}}, function(f, d) print("never") end)"#;
    let mut rows = printed(text, &frames);
    rows.sort();
    let mut expected = [
        "data\tclient\t0\tuser=an\t0",
        "data\tclient\t17\tbye\t0",
        "data\tclient\t7\tna|pass=x|\t0",
        "data\tserver\t0\thello|\t0",
        "line\tclient\t1\tuser=anna\tfalse",
        "line\tclient\t2\tpass=x\tfalse",
        "line\tclient\t3\tbye\ttrue",
        "line\tserver\t1\thello\tfalse",
        "match\tclient\t0\tuser=anna",
        "prefix\tserver",
        "regex\tclient\t17",
        "regex\tclient\t3",
    ];
    expected.sort_unstable();
    assert_eq!(rows, expected);
}

#[test]
fn messages_of_applications_are_tables() {
    let request = b"GET /a HTTP/1.1\r\nHost: x.org\r\nX-A: 1\r\nX-A: 2\r\n\r\n";
    let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody";
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x03org\0\0\x1c\0\x01";
    let frames = [connection(&[&request[..20], &request[20..]], answer), vec![datagram(question)]].concat();
    let text = r#"
        on("http_request", {}, function(f, r)
            print(r.method, r.target, r.host, r.version, r.headers["x-a"], r.body_bytes, r.whole, f.server_port)
        end)
        on("http_response", {ports = {80}}, function(f, r)
            print(r.status, r.reason, r.body_bytes, r.request.target, r.request.host, r.from)
        end)
        on("dns", function(f, m)
            print(m.id, m.response, m.code, #m.questions, m.questions[1].name, m.questions[1].type, #m.answers, m.from)
        end)
        on("tls_hello", function(f, h) print("never") end)"#;
    let expected = [
        "GET\t/a\tx.org\t1.1\t1, 2\t0\ttrue\t80",
        "404\tNot Found\t4\t/a\tx.org\tserver",
        "4660\tfalse\tNOERROR\t1\ta.org\tAAAA\t0\tclient",
    ];
    assert_eq!(printed(text, &frames), expected);
}

/// Only requested work is done: connections on other ports are not reassembled.
#[test]
fn only_ports_that_are_asked_for_are_reassembled() {
    let frames = connection(&[b"GET /"], b"OK");
    let packets = |text: &str| run(text, &frames).end.tracked.map(|tracked| tracked.track.packets);
    assert_eq!(packets("on('line', {ports = {80}}, print)"), Some(7));
    assert_eq!(packets("on('line', {ports = {80}}, print) on('data', {ports = {21}}, print)"), Some(7));
    assert_eq!(packets("on('line', {ports = {21}}, print) on('dns', print)"), Some(0));
    assert_eq!(packets("on('line', {ports = {21}}, print) on('match', {regex = 'x'}, print)"), Some(7));
    assert_eq!(packets("on('flow_start', print) on('packet', print)"), None);
    // Flows on other ports are still flows.
    let text = "on('line', {ports = {21}}, print) on('flow_end', {}, function(f) print(f.packets) end)";
    assert_eq!(printed(text, &frames), ["7"]);
}

#[test]
fn gaps_and_differing_bytes_are_evidence() {
    let mut frames = connection(&[b"first"], b"");
    frames.truncate(4);
    frames.push(segment(true, ACK, [110, 500], b"third"));
    frames.push(segment(true, ACK, [110, 500], b"THIRD"));
    frames.push(segment(false, ACK, [500, 115], b""));
    let text = r#"
        on("data", {}, function(f, d) print("data", d.offset, d.bytes, d.lost) end)
        on("evidence", {}, function(f, e) print(e.kind, e.from, e.offset, e.bytes, e.cause or e.kept, e.first, e.second) end)"#;
    let mut rows = printed(text, &frames);
    rows.sort();
    let expected = [
        "data\t0\tfirst\t0",
        "data\t10\tthird\t0",
        "data\t5\t\t5",
        "gap\tclient\t5\t5\tacknowledged\tnil\tnil",
        "overlap\tclient\t10\t5\tfirst\tthird\tTHIRD",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn rows_are_json_and_csv() {
    let text = r#"
        local rows = list("rows", {"time", "text", "many"})
        local ports = histogram("ports", {"port", "name"})
        on("packet", {}, function(p)
            rows:add{p.time, 'a "b", c', {1, "x"}}
            rows:add{text = "by name\xff"}
            ports:count({p.destination_port, "n"}, 2)
        end)
        on("flow_end", {}, function(f) alert("over", {zz = 1, aa = true}) end)"#;
    let done = run(text, &[datagram(b"x"), datagram(b"y")]);
    let rows: Vec<String> = done.rows.iter().map(Value::to_string).collect();
    let has = |text: &str| assert!(rows.iter().any(|row| row == text), "{text} in {rows:#?}");
    assert_eq!(rows.len(), 6);
    has(r#"{"list":"rows","many":[1,"x"],"script":"a","text":"a \"b\", c","time":1000000000}"#);
    has("{\"list\":\"rows\",\"many\":null,\"script\":\"a\",\"text\":\"by name\u{fffd}\",\"time\":null}");
    has(r#"{"count":4,"histogram":"ports","name":"n","port":53,"script":"a"}"#);
    has(r#"{"aa":true,"alerts":"alerts","script":"a","text":"over","time":1010000000,"zz":1}"#);
    assert!(done.csv.contains("1000000000,\"a \"\"b\"\", c\",\"[1,\"\"x\"\"]\"\r\n"), "{}", done.csv);
    assert!(done.csv.contains("53,n,4\r\n"), "{}", done.csv);
    let tally = &done.end.scripts[0];
    assert_eq!((tally.rows, tally.alerts, tally.errors), (4, 1, 0));
    for (wrong, words) in [
        ("list('a/b', {'x'})", "is not a name"),
        ("list('a', {})", "needs columns"),
        ("list('a', {'x'}) histogram('a', {'x'})", "already"),
        ("list('a', {'x'}):add{y = 1}", "no column \"y\""),
        ("list('a', {'x'}):add{print}", "a function cannot be a value"),
        ("list('a', {'x'}):count(1)", "count is for histograms"),
        ("histogram('a', {'x'}):count(1, -1)", "not less than 0"),
        // Texts and tables that occur many times in a row cost the script no memory.
        ("local s = ('x'):rep(700000) list('a', {'x', 'y'}):add{s, s}", "at most 1024 KiB"),
        ("local s = ('x'):rep(700000) histogram('a', {'x', 'y'}):count{s, s}", "at most 1024 KiB"),
        ("alert('a', {x = ('x'):rep(1100000)})", "at most 1024 KiB"),
        (
            "local t = 1 for _ = 1, 4 do local of = {} for i = 1, 1000 do of[i] = t end t = of end list('a', {'x'}):add{t}",
            "at most 1024 KiB",
        ),
        ("local t, s = {}, ('x'):rep(10000) for i = 1, 10000 do t[i] = s end list('a', t)", "1 to 64"),
        ("list('a', {('x'):rep(10000)})", "at most 256 bytes"),
        ("for i = 1, 100 do list('a' .. i, {'x'}) end", "at most 64"),
    ] {
        assert!(refused(wrong).contains(words), "{wrong}: {}", refused(wrong));
    }
}

/// Two lanes of a run: counts become one row per key, and flow numbers are unique.
#[test]
fn results_of_lanes_are_added() {
    let text = r#"
        local ports = histogram("ports", {"port"})
        on("packet", function(packet) ports:count(packet.destination_port) end)
        on("flow_start", function(flow) print(flow.id) end)
        on("data", function(flow, data) error("odd") end)
    "#;
    let plan = plan(&[("a", text)]);
    let (mut ids, mut ends) = (Vec::new(), Vec::new());
    for lane in 0..2 {
        let mut engine = Engine::new(&plan, 7).expect("a script").for_lane(lane, 2);
        let mut frames = connection(&[b"hello"], b"world");
        frames.push(datagram(b"x"));
        for bytes in &frames {
            let wire_bytes = bytes.len() as u32;
            engine.packet(&Packet { bytes, wire_bytes, linktype: 1, tag: None, time_ns: 1_000_000_000 });
        }
        ends.push(engine.finish());
        engine.take_rows(|_, texts| {
            let lines = String::from_utf8(texts.json.clone()).expect("text");
            ids.extend(
                lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["text"].clone()),
            );
        });
    }
    assert_eq!(ids, ["1", "3", "2", "4"]);
    let (other, mut sum) = (ends.pop().expect("two"), ends.pop().expect("two"));
    let alone = sum.clone();
    sum.add(other);
    let [one, both] = [&alone, &sum].map(|end| {
        let mut counts = Vec::new();
        end.histograms.clone().rows(|_, rows| counts.push(String::from_utf8(rows.csv).expect("text")));
        (end.packets, end.flows, end.scripts[0].failures.clone(), counts.concat())
    });
    assert_eq!((one.0, one.1, one.3.as_str()), (8, 2, "80,4\r\n4711,3\r\n53,1\r\n"));
    assert_eq!((both.0, both.1, both.3.as_str()), (16, 4, "80,8\r\n4711,6\r\n53,2\r\n"));
    assert_eq!((one.2[0].count, both.2.len(), both.2[0].count), (2, 1, 4));
    let streams = |end: &EngineEnd| end.tracked.expect("streams").streams;
    assert_eq!(streams(&sum).delivered_bytes, 2 * streams(&alone).delivered_bytes);
    assert!(streams(&sum).is_balanced() && streams(&sum).delivered_bytes == 20);
}

#[test]
fn packets_of_a_flow_are_saved_from_its_first_one() {
    let frames = [connection(&[b"one", b"two"], b""), vec![datagram(b"x")]].concat();
    let text = r#"on("match", {regex = "two"}, function(f) save(f); save(f) end)"#;
    let done = run(text, &frames);
    assert_eq!(
        (done.end.saved_packets, done.end.saved_packets_dropped, done.end.scripts[0].saved),
        (8, 0, 1)
    );
    for frame in &frames[..8] {
        assert!(
            done.packets.windows(frame.len()).any(|window| window == frame),
            "each packet is in the file"
        );
    }
    let mut without = plan(&[("a", text)]);
    without.can_save = false;
    let done = run_plan(&without, &frames);
    assert!(done.end.scripts[0].failures[0].text.contains("no folder"), "{:?}", done.end.scripts[0]);
    let late = "local k; on('flow_end', {}, function(f) if k then save(k) end; k = f end)";
    let done = run(late, &frames);
    assert!(done.end.scripts[0].failures[0].text.contains("the flow has ended"));
}

#[test]
fn timers_follow_the_time_of_packets() {
    let frames: Vec<_> = (0..10).map(|_| datagram(b"x")).collect();
    let rows = printed("on('timer', {every = '20ms'}, function(now) print(now) end)", &frames);
    assert_eq!(rows, ["1020000000", "1040000000", "1060000000", "1080000000"]);
}

#[test]
fn arguments_have_the_type_of_their_default() {
    let text =
        "print(argument('limit', 5) + 1, argument('name', 'x'), argument('on', true), argument('none', 7))";
    let mut plan = plan(&[("a", text)]);
    plan.scripts[0].arguments = [("limit", "10"), ("name", "n"), ("on", "false")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(run_plan(&plan, &[]).rows[0]["text"], "11\tn\tfalse\t7");
    plan.scripts[0].arguments.insert("limit".into(), "many".into());
    let error = Engine::new(&plan, 0).err().unwrap_or_default();
    assert_eq!(error, "a.lua:1: argument limit: \"many\" is not a number");
}

/// Calls that would never end, or take all memory: each is stopped, reported with its line, and counted.
#[test]
fn a_script_that_exceeds_its_budget_is_stopped_and_the_others_continue() {
    let frames: Vec<_> = (0..5).map(|_| datagram(b"x")).collect();
    let time = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "local function f() return f() end f()",
        "string.find(('a'):rep(10000), ('.-'):rep(9) .. 'b')",
        "string.gsub(('a'):rep(10000), ('a*'):rep(9) .. 'b', 'x')",
        "for _ in string.gmatch(('a'):rep(10000), ('.-'):rep(9) .. 'b') do end",
        "string.match(('('):rep(100000), ('%b()'):rep(1) .. ('.-'):rep(9) .. 'b')",
        "for i = 1, 1e18 do end",
        "local t = {} for i = 1, 100 do t[i] = ('x'):rep(50000) .. i end while true do table.sort(t) end",
        "repeat until utf8.len(('x'):rep(1000000)) == 0",
        "string.find(('b'):rep(200000), '[' .. ('a'):rep(1000000) .. ']')",
        "string.find(('b'):rep(200000), '%f[' .. ('a'):rep(1000000) .. ']')",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "local t = {} for i = 1, 100000 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    ];
    let memory = [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "string.rep('x', 1 << 30)",
        "('x'):rep(100000):gsub('.', ('y'):rep(100000))",
        "local t = {} for i = 1, 1e7 do t[i] = i end",
        "local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) end",
        "local function f() return 1 + f() end f()",
        "('x'):rep(100000):gsub('.*', ('%0'):rep(100000))",
        "local t = {} for i = 1, 1e7 do t[i] = string.gmatch('a', 'a') end",
    ];
    let cases = time.iter().map(|text| (text, Exceeded::Time));
    for (text, part) in cases.chain(memory.iter().map(|text| (text, Exceeded::Memory))) {
        let bad = format!("on('packet', {{}}, function(p)\n  {text}\nend)");
        let plan = plan(&[("bad", &bad), ("good", "on('packet', {}, function(p) print(p.length) end)")]);
        let done = run_plan(&plan, &frames);
        let [bad, good] = &done.end.scripts[..] else { panic!("two scripts") };
        assert_eq!((bad.stopped, bad.calls, bad.dropped), (Some(part), 1, 4), "{text}: {bad:?}");
        // A memory error has no traceback: its line is the last one that the hook saw, or the function's first.
        let by = bad.stopped_by.clone().unwrap_or_default();
        let is_named =
            by.starts_with("bad.lua:2: ") || part == Exceeded::Memory && by.starts_with("bad.lua:1: ");
        assert!(is_named, "{text}: {bad:?}");
        assert!(!bad.is_whole() && good.is_whole() && done.rows.len() == 5, "{text}: {good:?}");
    }
}

/// Lua's own collector works while a script allocates, as long as it has objects.
#[test]
fn garbage_is_collected_between_calls_and_not_in_them() {
    const TEXT: &str = "local weak = setmetatable({}, { __mode = 'v' })
        on('packet', function(p)
            local before = weak[1] ~= nil
            weak[1] = {}
            for i = 1, 20 do local garbage = ('x'):rep(50000) .. i end
            print(tostring(before) .. ' ' .. tostring(weak[1] ~= nil))
        end)";
    let frames: Vec<_> = (0..100).map(|_| datagram(b"x")).collect();
    // A hundred times 1 MB, with a limit of 8 MiB.
    let rows = printed(TEXT, &frames);
    let count = |text: &str| rows.iter().filter(|row| *row == text).count();
    assert_eq!(count("false true") + count("true true"), 100, "{rows:?}");
    assert!(count("false true") > 10, "{rows:?}");
}

/// Every one of `frames` packets fails in one script, most in a second, half in a third.
#[test]
fn a_script_that_fails_all_the_time_is_stopped_and_one_that_fails_half_of_the_time_is_not() {
    let frames: Vec<_> = (0..1200).map(|_| datagram(b"x")).collect();
    let failing = |when: &str| {
        format!(
            "local n = 0 on('packet', function(p) n = n + 1\n  if {when} then error('at ' .. n) end\nend)"
        )
    };
    let (always, most, half) = (failing("true"), failing("n % 10 ~= 0"), failing("n % 2 == 0"));
    let done = run_plan(&plan(&[("always", &always), ("most", &most), ("half", &half)]), &frames);
    let [always, most, half] = &done.end.scripts[..] else { panic!("three scripts") };
    assert_eq!((always.stopped, always.errors, always.dropped), (Some(Exceeded::Errors), 100, 1100));
    assert_eq!((most.stopped, most.errors, most.calls), (Some(Exceeded::Errors), 501, 556));
    assert_eq!((half.stopped, half.errors, half.calls), (None, 600, 1200));
    for tally in [always, most] {
        let by = tally.stopped_by.clone().unwrap_or_default();
        assert!(by.starts_with(&format!("{}.lua:2: failed 100 times in a row", tally.name)), "{by}");
        let first = &tally.failures[0];
        assert!(first.text.ends_with(".lua:2: at 1") && tally.failures.len() == 8, "{:?}", tally.failures);
    }
}

/// A call of some ms per packet, of which a hundredth of the time is allowed.
#[test]
fn a_slow_script_misses_events_while_packets_wait_and_no_other_script_does() {
    const SLOW: &str = "on('packet', function(p) for i = 1, 1e6 do end end)";
    let bytes = datagram(b"x");
    let run = |is_late: bool, lane_percent: Option<u32>| {
        let mut plan = plan(&[("slow", SLOW), ("quick", "on('packet', function(p) print(p.length) end)")]);
        plan.limits = Limits { call_time: Duration::from_secs(5), lane_percent, ..plan.limits };
        let mut engine = Engine::new(&plan, 7).expect("scripts");
        engine.note_late(is_late);
        for time_ns in 0..60 {
            let wire_bytes = bytes.len() as u32;
            engine.packet(&Packet { bytes: &bytes, wire_bytes, linktype: 1, tag: None, time_ns });
        }
        engine.finish().scripts.iter().map(|script| (script.calls, script.skipped)).collect::<Vec<_>>()
    };
    let late = run(true, Some(1));
    assert!(late[0].0 > 0 && late[0].1 > 0 && late[0].0 + late[0].1 == 60, "{late:?}");
    assert_eq!(late[1], (60, 0), "{late:?}");
    assert_eq!(run(false, Some(1)), [(60, 0); 2], "no packet waits");
    assert_eq!(run(true, None), [(60, 0); 2], "a file");
}

/// Nested objects whose text the script creates: each costs stack of the thread.
#[test]
fn a_field_that_a_flow_does_not_have_costs_no_stack() {
    let text = "on('flow_start', function(flow)
        local key
        key = setmetatable({}, {__tostring = function() flow[key] = 1 end})
        flow[key] = 1
    end)";
    let done = run(text, &[datagram(b"x")]);
    let tally = &done.end.scripts[0];
    assert_eq!((tally.errors, tally.stopped), (1, None), "{tally:?}");
}

/// Errors that cost an event and nothing else.
#[test]
fn an_error_names_its_line_and_costs_one_event() {
    let frames: Vec<_> = (0..3).map(|_| datagram(b"x")).collect();
    for (text, words) in [
        ("error('mine')", "a.lua:2: mine"),
        ("error({})", "a.lua:2: the error is a table"),
        ("local x = nil; x.y = 1", "a.lua:2: attempt to index a nil value"),
        ("string.rep()", "a.lua:2: "),
        ("string.find('x', '(')", "a.lua:2: unfinished capture"),
        ("string.find('x', '[')", "a.lua:2: malformed pattern"),
        ("local function f(x) return (x:gsub('.', f)) end f('x')", "too many calls inside each other"),
        (
            "local t = setmetatable({}, {__index = function(t, x) return (x:gsub('.', t)) end}) t.x = t.y",
            "too many calls",
        ),
        ("local function f() table.sort({1, 2}, f) end f()", "overflow"),
        ("local function f() return tostring(setmetatable({}, {__tostring = f})) end f()", "overflow"),
        ("local function f() pcall(f) error('deep') end f()", "a.lua:2: deep"),
        ("table.concat({}, '', 1, 1 << 60)", "a.lua:2: invalid value"),
        (
            "table.concat(setmetatable({}, {__index = getmetatable, __metatable = ''}), '', 1, 1 << 60)",
            "metatable",
        ),
        ("table.move({}, 1, 1 << 60, 2)", "entries"),
        ("table.unpack(setmetatable({}, {__index = {1}}), 1, 9)", "metatable"),
        ("setmetatable({}, {__gc = print})", "__gc"),
        ("p.nonsense()", "a packet has no field \"nonsense\""),
        ("p.time = 1", "a.lua:2: "),
        ("load('x')", "a.lua:2: attempt to call a nil value (global 'load')"),
        ("io.open('/etc/passwd')", "global 'io'"),
        ("os.exit()", "global 'os'"),
        ("collectgarbage('stop')", "global 'collectgarbage'"),
        ("on('packet', print)", "only while the script is loaded"),
        ("coroutine.wrap(print)()", "global 'coroutine'"),
    ] {
        let body = format!("on('packet', {{}}, function(p)\n  {text}\nend)");
        let mut plan = plan(&[("a", &body)]);
        plan.limits = Limits { call_time: Duration::from_secs(5), ..Limits::default() };
        let done = run_plan(&plan, &frames);
        let tally = &done.end.scripts[0];
        assert_eq!((tally.errors, tally.calls, tally.stopped), (3, 3, None), "{text}: {tally:?}");
        let failure = &tally.failures[0];
        assert!(failure.count == 3 && failure.text.contains(words), "{text}: {failure:?}");
    }
}

/// The functions of Lua's library, as in the reference manual.
#[test]
fn the_library_is_that_of_lua() {
    let checks = r##"
        local function is(found, expected) if found ~= expected then error(tostring(found) .. " ~= " .. tostring(expected), 2) end end
        local function all(...) local t = {...} for i = 1, select("#", ...) do t[i] = tostring(t[i]) end return table.concat(t, ",") end
        is(all(("hello world"):find("o w")), "5,7")
        is(all(("hello"):find("l", -2)), "4,4")
        is(all(("a.b"):find(".", 1, true)), "2,2")
        is(all(("hello"):find("")), "1,0")
        is(all(("hello"):find("", 10)), "nil")
        is(all(("hello"):find("", 6)), "6,5")
        is(all(("key = value"):find("^(%w+)%s*=%s*(%w+)$")), "1,11,key,value")
        is(all(("key = value"):match("()=()")), "5,6")
        is(all(("THE (quick) fox"):find("%((%a+)%)")), "5,11,quick")
        is(all(("x"):rep(3, "-")), "x-x-x")
        is(("hello"):match("^(h)(.-)(l+)"), "h")
        is(("[[x]]"):match("%[(%b[])%]"), "[x]")
        is(("THE (quick) fox"):gsub("%f[%a]%a+", string.lower), "the (quick) fox")
        is(all(("abc"):gsub("%w", "%0%0")), "aabbcc,3")
        is(all(("hello world"):gsub("o", "0", 1)), "hell0 world,1")
        is(all(("abc"):gsub("", "-")), "-a-b-c-,4")
        is(all(("$name is $age"):gsub("%$(%w+)", {name = "x", age = 7})), "x is 7,2")
        is(all(("abc"):gsub("b", false and 1 or function() return nil end)), "abc,1")
        is(all(("x^2"):gsub("%^", "%%")), "x%2,1")
        is(("a,b,,c"):gsub(",+", ";"), "a;b;c")
        local words = {} for word in ("one two  three"):gmatch("%a+") do words[#words + 1] = word end
        is(table.concat(words, "|"), "one|two|three")
        local pairs_ = {} for k, v in ("a=1, b=2"):gmatch("(%w+)=(%w+)") do pairs_[#pairs_ + 1] = k .. v end
        is(table.concat(pairs_), "a1b2")
        is(("aXb"):match("[^%l]"), "X")
        is(("]"):match("[]]"), "]")
        is(("a-z"):match("[a%-]+"), "a-")
        is(("0x1F"):match("^0[xX](%x+)$"), "1F")
        is(("abab"):match("(ab)%1"), "ab")
        is(("f(a(b)c)d"):match("%b()"), "(a(b)c)")
        is(#("\0a\0"):match("%z?.*"), 3)
        local t = {3, 1, 2} table.sort(t) is(table.concat(t), "123")
        table.sort(t, function(a, b) return a > b end) is(table.concat(t), "321")
        table.insert(t, 9) table.insert(t, 1, 8) is(table.concat(t), "83219")
        is(table.remove(t), 9) is(table.remove(t, 1), 8) is(#t, 3)
        is(table.concat(table.move({1, 2, 3}, 2, 3, 1)), "233")
        is(all(table.unpack({1, 2, nil, 4}, 1, 4)), "1,2,nil,4")
        local ok, why = pcall(error, "x") is(ok, false) is(why, "x")
        is(select(2, pcall(string.find, "x", "(")), "unfinished capture")
        is(select(2, pcall(error, nil)), nil)
        is(all(pcall(function(...) return ... end, 1, 2)), "true,1,2")
        is(setmetatable({}, {__index = {x = 5}}).x, 5)
        is(string.format("%5.1f|%s|%q|%x", 1.25, "a", "b", 255), '  1.2|a|"b"|ff')
        is(utf8.len("äö"), 2) is(math.type(1 << 62), "integer")
        print("done")"##;
    assert_eq!(printed(checks, &[]), ["done"]);
}

mod objects;
