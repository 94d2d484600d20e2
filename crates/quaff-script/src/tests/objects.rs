//! The objects that scripts receive: their fields, their life, and their number.

use super::*;

/// Answers of DNSSEC zones come in fragments, in any order, and a lost one costs its datagram only.
#[test]
fn messages_of_dns_in_fragments_are_put_together() {
    let mut answer = b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x01a\x03org\0\0\x10\0\x01".to_vec();
    answer.extend(b"\xc0\x0c\0\x10\0\x01\0\0\0\x3c\x06\x40");
    answer.extend((0..16).flat_map(|_| [&[99][..], &[b'x'; 99]].concat()));
    let udp = build::udp(53, 5000, &answer);
    let fragments = |id: u16| -> Vec<Vec<u8>> {
        let parts = [(0, &udp[..800]), (800, &udp[800..1600]), (1600, &udp[1600..])];
        let fragment = |(offset, part): (u16, &[u8])| {
            let more = if offset < 1600 { 0x2000 } else { 0 };
            let field = more + offset / 8;
            let mut packet = build::ipv4([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), 17, &[], part);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            build::ethernet(&[], 0x0800, &packet)
        };
        parts.map(fragment).to_vec()
    };
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x03org\0\0\x10\0\x01";
    let text = "on('dns', function(f, m)
        print(f.client_port, m.response, m.whole, #m.answers, m.answers[1] and #m.answers[1].data, m.from)
    end)";
    let asked = "5000\tfalse\ttrue\t0\tnil\tclient";
    let answered = "5000\ttrue\ttrue\t1\t1631\tserver";
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let of_one = fragments(7);
        let frames = [vec![datagram(question)], order.map(|at| of_one[at].clone()).to_vec()].concat();
        assert_eq!(printed(text, &frames), [asked, answered], "{order:?}");
    }
    let frames = [vec![datagram(question)], fragments(7)[..2].to_vec(), fragments(8)].concat();
    let done = run(text, &frames);
    assert_eq!(done.rows.len(), 2);
    let fragments = done.end.tracked.expect("messages need streams").fragments;
    assert_eq!((fragments.fragments, fragments.wholes), (5, 1), "they are counted");
}

/// Of tables as of packets and flows; a field that a table does not have is nil.
#[test]
fn a_name_that_is_no_field_is_an_error_everywhere() {
    let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x03org\0\0\x1c\0\x01";
    let request = b"GET /a HTTP/1.1\r\nHost: x.org\r\n\r\n";
    let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nbody";
    let mut frames = [connection(&[request], answer), vec![datagram(question)]].concat();
    let last = [500 + answer.len() as u32 - 4, 100 + request.len() as u32];
    frames.insert(4, segment(false, ACK, last, b"BODY"));
    for (event, object, words) in [
        ("data", "object", "data has no field"),
        ("line", "object", "a line has no field"),
        ("match', {regex = 'GET'}, '", "object", "a match has no field"),
        ("http_request", "object", "a message of HTTP has no field"),
        ("http_response", "object.request", "the request of a response has no field"),
        ("dns", "object", "a message of DNS has no field"),
        ("dns", "object.questions[1]", "a question has no field"),
        ("evidence", "object", "evidence has no field"),
        ("flow_start", "flow", "a flow has no field"),
    ] {
        let (event, options) = event
            .split_once("', ")
            .map_or((event, "{}"), |(event, rest)| (event, rest.trim_end_matches(", '")));
        let text = format!("on('{event}', {options}, function(flow, object) return {object}.nonsense end)");
        let done = run(&text, &frames);
        let tally = &done.end.scripts[0];
        assert!(tally.errors > 0 && tally.errors == tally.calls, "{event}: {tally:?}");
        assert!(
            tally.failures[0].text.contains(&format!("a.lua:1: {words} \"nonsense\": ")),
            "{event}: {tally:?}"
        );
    }
    // Headers have any name, and a script may have values of its own.
    let text =
        "on('http_response', {}, function(f, r) r.mine = 1 print(r.headers.nonsense, r.mine, r.method) end)";
    assert_eq!(printed(text, &frames), ["nil\t1\tnil"]);
}

/// The object of a packet that is kept does not become the next packet.
#[test]
fn a_packet_that_is_kept_is_an_error() {
    let frames: Vec<_> = (0..3).map(|_| datagram(b"x")).collect();
    for use_of_it in ["kept.length", "kept:payload()", "kept.arp", "tostring(kept.time)"] {
        let text = format!(
            "local kept\non('packet', function(p)\n  if kept then print({use_of_it}) end\n  kept = kept or p\n  print(p.length)\nend)"
        );
        let done = run(&text, &frames);
        let tally = &done.end.scripts[0];
        assert_eq!((tally.errors, done.rows.len()), (2, 1), "{use_of_it}: {tally:?}");
        let words = "a.lua:3: a packet is valid in the call that receives it only: keep its fields";
        assert!(tally.failures[0].text.starts_with(words), "{tally:?}");
    }
    let same =
        "local old; on('packet', function(p) print(old == p, p == p, type(p), tostring(p)); old = p end)";
    assert_eq!(printed(same, &frames)[1], "false\ttrue\tuserdata\tpacket");
}

/// More flows than fit: each one ends another, and none of them makes a table of all move.
#[test]
fn a_flood_of_flows_costs_a_script_the_same_for_each() {
    const TEXT: &str =
        "on('flow_start', function(flow) if flow.server_port ~= 80 then flow.state.at = flow.start end end)
        on('flow_end', function(flow) end)";
    let mut plan = plan(&[("a", TEXT)]);
    plan.limits = Limits { call_time: Duration::from_secs(60), memory_bytes: 256 << 20, lane_percent: None };
    let mut engine = Engine::new(&plan, 7).expect("a script");
    let mut frame = segment(true, SYN, [99, 0], b"");
    let mut sums_ns = [0, 0];
    for number in 0..450_000_u32 {
        // Addresses of the client; the checksum of the header is not looked at.
        frame[26..30].copy_from_slice(&(0x0a00_0000 + number).to_be_bytes());
        let begun = std::time::Instant::now();
        let wire_bytes = frame.len() as u32;
        engine.packet(&Packet {
            bytes: &frame,
            wire_bytes,
            linktype: 1,
            tag: None,
            time_ns: u64::from(number),
        });
        // The table of flows is full from 262,144 on.
        sums_ns[usize::from(number > 300_000)] += begun.elapsed().as_nanos() as u64;
    }
    let [before_ns, after_ns] = [sums_ns[0] / 300_000, sums_ns[1] / 150_000];
    assert!(after_ns < 10 * before_ns, "{before_ns} ns a flow, then {after_ns} ns");
    assert!(engine.finish().scripts[0].is_whole());
}

/// After a signal: events are counted, and the engine continues with what costs no script.
#[test]
fn scripts_that_are_out_of_time_miss_events() {
    let plan = plan(&[("a", "on('packet', function() end) on('flow_end', function() end)")]);
    let mut engine = Engine::new(&plan, 7).expect("a script");
    let bytes = datagram(b"x");
    for time_ns in 0..10 {
        if time_ns == 4 {
            engine.end_by(1);
        }
        engine.packet(&Packet {
            bytes: &bytes,
            wire_bytes: bytes.len() as u32,
            linktype: 1,
            tag: None,
            time_ns,
        });
    }
    engine.end_by(u64::MAX);
    let end = engine.finish();
    let tally = &end.scripts[0];
    assert_eq!((end.packets, tally.calls, tally.skipped, tally.is_whole()), (10, 5, 6, false));
}
