//! Each script of the default set, on packets that make it fire and on others that leave it silent.

mod made;

use made::{Made, arp, frame, icmp, udp};
use quaff_script::{Compile, DEFAULT, Engine, EnginePlan, Formats, Limits, Packet, Rows, Source, Test};
use quaff_stream::tracker::TrackPlan;
use quaff_testpackets as build;
use quaff_wire::filter::{Insn, Program, Subject};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tcpdump expression on Ethernet, compiled by libpcap.
struct Filter(Program);

impl Test for Filter {
    fn wants(&mut self, packet: &Packet) -> bool {
        let Packet { bytes, wire_bytes, tag, .. } = *packet;
        self.0.run(&Subject { bytes, wire_len: wire_bytes, tag }) != 0
    }
}

fn compile() -> Compile {
    Arc::new(|text| {
        let program =
            quaff_os::filter::compile_offline(1, false, text, 262_144).map_err(|error| error.to_string())?;
        let insn =
            |insn: &quaff_os::packet::Insn| Insn { code: insn.code, jt: insn.jt, jf: insn.jf, k: insn.k };
        let program =
            Program::new(&program.iter().map(insn).collect::<Vec<_>>()).map_err(|error| error.to_string())?;
        Ok(Box::new(Filter(program)) as Box<dyn Test>)
    })
}

fn plan(name: &str, arguments: &[(&str, &str)]) -> EnginePlan {
    let (_, text) = DEFAULT.iter().find(|(known, _)| *known == name).expect("a script of the default set");
    plan_of(name, text, arguments)
}

fn plan_of(name: &str, text: &str, arguments: &[(&str, &str)]) -> EnginePlan {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let source = Source {
        name: format!("{name}.lua"),
        text: text.to_owned(),
        arguments: arguments.iter().map(owned).collect(),
    };
    EnginePlan {
        scripts: vec![source],
        limits: Limits::default(),
        track: TrackPlan::default(),
        formats: Formats { json: true, csv: false, has_names: false },
        can_save: true,
        compile: compile(),
    }
}

/// The rows of a script; none of its calls fails.
#[track_caller]
fn rows_with(name: &str, arguments: &[(&str, &str)], made: &Made) -> Vec<Value> {
    rows_of(&plan(name, arguments), made)
}

#[track_caller]
fn rows_of(plan: &EnginePlan, made: &Made) -> Vec<Value> {
    let mut engine = Engine::new(plan, 7).unwrap_or_else(|error| panic!("{error}"));
    for (time_ns, bytes) in &made.frames {
        let (wire_bytes, time_ns) = (bytes.len() as u32, *time_ns);
        engine.packet(&Packet { bytes, wire_bytes, linktype: 1, tag: None, time_ns });
    }
    engine.tick(made.time_ns + 120_000_000_000);
    let end = engine.finish();
    assert!(end.scripts[0].is_whole(), "{:?}", end.scripts[0]);
    let mut rows = Vec::new();
    let mut take = |texts: &Rows| {
        let lines = String::from_utf8(texts.json.clone()).expect("text");
        rows.extend(lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
    };
    engine.take_rows(|_, texts| take(texts));
    end.histograms.rows(|_, texts| take(&texts));
    rows
}

#[track_caller]
fn rows(name: &str, made: &Made) -> Vec<Value> {
    rows_with(name, &[], made)
}

/// The texts of alerts.
fn alerts(rows: &[Value]) -> Vec<&str> {
    rows.iter().filter_map(|row| row["alert"].as_str().or(row["text"].as_str())).collect()
}

/// Some fields of a row.
fn fields(row: &Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| row[*name].clone()).collect()
}

#[test]
fn the_set_has_each_file_and_each_is_short_enough_to_read() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/default");
    let mut files: Vec<String> = std::fs::read_dir(dir)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    let names: Vec<String> = DEFAULT.iter().map(|(name, _)| format!("{name}.lua")).collect();
    assert_eq!(files, names);
    for (name, text) in DEFAULT {
        assert!(text.starts_with("-- ") && text.lines().count() <= 60, "{name}");
        assert!(text.lines().all(|line| line.len() <= 130), "{name}");
        assert!(rows(name, &Made::default()).is_empty(), "{name}");
    }
}

/// The scripts of the page: blocks that begin with `-- NAME.lua: `.
fn examples() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripts.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        match line.strip_prefix("    ") {
            Some(code) => *blocks.last_mut().expect("one") += &format!("{code}\n"),
            None => blocks.push(String::new()),
        }
    }
    let name =
        |text: &String| text.strip_prefix("-- ")?.split_once(".lua: ").map(|(name, _)| name.to_owned());
    blocks.into_iter().filter_map(|text| Some((name(&text)?, text))).collect()
}

#[test]
fn the_examples_of_the_page_run() {
    let examples = examples();
    assert!(examples.len() >= 6, "{examples:?}");
    let mut made = Made::default();
    made.connection((1, 5000), (2, 80), &[(true, b"GET /cgi-bin/phf?x HTTP/1.0\r\n\r\n")]);
    made.syn(3, 1, 3, 1);
    let mut late = udp(1, 5, 2, 5, &[0; 1000]);
    late[20..22].copy_from_slice(&[0x1f, 0xff]);
    made.push(late);
    for (name, text) in &examples {
        let found = rows_of(&plan_of(name, text, &[]), &made);
        assert!(!found.is_empty(), "{name} records nothing");
    }
}

#[test]
fn port_scans() {
    let mut scan = Made::default();
    for port in 1..=40 {
        scan.syn(1, 40_000, 2, port);
    }
    for host in 10..=90 {
        scan.syn(3, 40_000, host, 22);
    }
    let found = rows("port-scans", &scan);
    assert_eq!(alerts(&found), ["port scan", "host scan"]);
    assert_eq!(
        fields(&found[0], &["client", "server", "ports"]),
        [json!("10.0.0.1"), json!("10.0.0.2"), json!(20)]
    );
    let mut usual = Made::default();
    for port in 0..60 {
        usual.syn(1, 40_000 + port, 2, 80);
    }
    for port in 1..=30 {
        usual.syn(1, 40_000, 2, port);
        usual.wait_s(10);
    }
    assert_eq!(
        rows("port-scans", &usual),
        [] as [Value; 0],
        "many connections, and a port every ten seconds"
    );
}

#[test]
fn syn_floods() {
    let mut flood = Made { step_ns: 1_000_000, ..Made::default() };
    for port in 0..700 {
        flood.syn((port % 200) as u8 + 3, 1000 + port, 2, 80);
    }
    flood.wait_s(3);
    flood.syn(9, 1, 8, 80);
    let found = rows("syn-floods", &flood);
    assert_eq!(alerts(&found), ["SYN flood"]);
    assert_eq!(found[0]["target"], "10.0.0.2 80");
    let mut busy = Made { step_ns: 500_000, ..Made::default() };
    for port in 0..900 {
        busy.syn(1, 1000 + port, 2, 80);
        busy.segment((1, 1000 + port), (2, 80), made::FIN | made::ACK, [100, 100], b"");
    }
    busy.wait_s(3);
    busy.syn(9, 1, 8, 80);
    assert_eq!(rows("syn-floods", &busy), [] as [Value; 0], "its clients close");
}

#[test]
fn new_services() {
    let mut made = Made::default();
    for (port, server) in [(5000, 2), (5001, 2), (5002, 3)] {
        made.connection((1, port), (server, 80), &[]);
    }
    let found = rows("new-services", &made);
    let of = |row: &Value| fields(row, &["server", "port", "client", "server_mac"]);
    assert_eq!(of(&found[0]), [json!("10.0.0.2"), json!(80), json!("10.0.0.1"), json!("02:00:00:00:00:01")]);
    assert_eq!((found.len(), found[1]["server"].as_str()), (2, Some("10.0.0.3")));
    assert_eq!(rows_with("new-services", &[("known", "10.0.0.2:80, 10.0.0.3:80")], &made), [] as [Value; 0]);
    assert_eq!(rows_with("new-services", &[("learn", "60")], &made), [] as [Value; 0]);
    let mut refused = Made::default();
    refused.syn(1, 5000, 2, 81);
    assert_eq!(rows("new-services", &refused), [] as [Value; 0]);
}

#[test]
fn http_log() {
    let mut made = Made::default();
    made.connection(
        (1, 5000),
        (2, 8080),
        &[
            (true, b"GET /a HTTP/1.1\r\nHost: h.example\r\nUser-Agent: x/1\r\n\r\n"),
            (false, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"),
            (true, b"GET /b HTTP/1.1\r\nHost: h.example\r\n\r\n"),
        ],
    );
    let found = rows("http-log", &made);
    let of = |row: &Value| {
        fields(row, &["method", "host", "target", "status", "type", "response_bytes", "whole", "user_agent"])
    };
    assert_eq!(
        of(&found[0]),
        [
            json!("GET"),
            json!("h.example"),
            json!("/a"),
            json!(200),
            json!("text/plain"),
            json!(5),
            json!(true),
            json!("x/1")
        ]
    );
    assert_eq!(fields(&found[1], &["target", "status", "whole"]), [json!("/b"), Value::Null, json!(false)]);
    assert_eq!(found.len(), 2);
    let mut other = Made::default();
    other.connection((1, 5000), (2, 80), &[(true, b"SSH-2.0-x\r\n")]);
    assert_eq!(rows("http-log", &other), [] as [Value; 0]);
}

#[test]
fn dns_log() {
    let question = b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01";
    let answer = [
        &b"\x00\x07\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00"[..],
        &question[12..],
        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x09",
    ]
    .concat();
    let mut made = Made::default();
    made.push(udp(1, 5000, 2, 53, question));
    made.push(udp(2, 53, 1, 5000, &answer));
    made.push(udp(3, 5000, 2, 53, question));
    let found = rows("dns-log", &made);
    let of = |row: &Value| fields(row, &["client", "server", "id", "name", "type", "code", "answers", "ms"]);
    let [client, server, name] = ["10.0.0.1", "10.0.0.2", "a.example"].map(Value::from);
    assert_eq!(
        of(&found[0]),
        [
            client,
            server.clone(),
            json!(7),
            name.clone(),
            json!("A"),
            json!("NOERROR"),
            json!(["10.0.0.9"]),
            json!(10.0)
        ]
    );
    assert_eq!(of(&found[1])[..6], [json!("10.0.0.3"), server, json!(7), name, json!("A"), Value::Null]);
    let mut other = Made::default();
    other.push(udp(1, 5000, 2, 53, b"no message"));
    assert_eq!(rows("dns-log", &other), [] as [Value; 0]);
}

#[test]
fn tls_log() {
    let mut made = Made::default();
    let (client, server) = (made::client_hello("a.example"), made::server_hello());
    made.connection((1, 5000), (2, 443), &[(true, &client), (false, &server)]);
    made.connection((1, 5001), (2, 443), &[(true, &client)]);
    let found = rows("tls-log", &made);
    let of = |row: &Value| fields(row, &["server_name", "alpn", "version", "cipher"]);
    assert_eq!(of(&found[0]), [json!("a.example"), json!("h2"), json!("TLS 1.3"), json!("0x1301")]);
    assert_eq!(of(&found[1])[2..], [Value::Null, Value::Null]);
    assert!(
        found.iter().all(|row| row["ja4"].as_str().is_some_and(|ja4| ja4.starts_with("t13d0103h2_"))),
        "{found:?}"
    );
    let mut other = Made::default();
    other.connection((1, 5000), (2, 443), &[(true, b"GET / HTTP/1.1\r\n\r\n")]);
    assert_eq!(rows("tls-log", &other), [] as [Value; 0]);
}

#[test]
fn mail_envelopes() {
    let mut made = Made::default();
    made.connection(
        (1, 5000),
        (2, 25),
        &[
            (false, b"220 mx.example\r\n"),
            (true, b"EHLO me.example\r\nMAIL FROM:<a@x.example> SIZE=9\r\n"),
            (true, b"RCPT TO:<b@y.example>\r\nRCPT TO: <c@y.example>\r\nDATA\r\n"),
            (false, b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n"),
            (true, b"Subject: hello there\r\n\r\nRCPT TO:<no@one>\r\n.\r\nQUIT\r\n"),
            (false, b"250 queued\r\n"),
        ],
    );
    let found = rows("mail-envelopes", &made);
    let of = |row: &Value| fields(row, &["helo", "from", "to", "subject", "lines", "code"]);
    let to = json!(["b@y.example", "c@y.example"]);
    assert_eq!(
        of(&found[0]),
        [json!("me.example"), json!("a@x.example"), to, json!("hello there"), json!(3), json!(250)]
    );
    assert_eq!(found.len(), 1);
    let mut hidden = Made::default();
    hidden.connection(
        (1, 5000),
        (2, 587),
        &[
            (true, b"EHLO me\r\nSTARTTLS\r\n\x16\x03\x01MAIL FROM:<x>\r\nDATA\r\n.\r\n"),
            (false, b"250 a\r\n"),
        ],
    );
    assert_eq!(rows("mail-envelopes", &hidden), [] as [Value; 0]);
}

#[test]
fn logins_never_with_a_password_unless_it_is_asked_for() {
    let mut made = Made::default();
    made.connection(
        (1, 5000),
        (2, 21),
        &[
            (true, b"USER anna\r\nPASS secret\r\n"),
            (false, b"530 no\r\n"),
            (true, b"USER anna\r\nPASS secret\r\n"),
            (false, b"230 yes\r\n"),
        ],
    );
    made.connection(
        (1, 5001),
        (2, 23),
        &[
            (false, b"\xff\xfd\x18\r\nlogin: "),
            (true, b"ro\xff\xfb\x18ot\r\0"),
            (false, b"root\r\nPassword: "),
            (true, b"secret\r\0"),
            (false, b"\r\nLogin incorrect\r\n"),
        ],
    );
    let found = rows("logins", &made);
    let of = |row: &Value| fields(row, &["protocol", "user", "result", "password"]);
    let row =
        |protocol: &str, user: &str, result: &str| [json!(protocol), json!(user), json!(result), Value::Null];
    assert_eq!(of(&found[0]), row("ftp", "anna", "refused"));
    assert_eq!(of(&found[1]), row("ftp", "anna", "accepted"));
    assert_eq!(of(&found[2]), row("telnet", "root", "refused"));
    assert!(found.len() == 3 && !format!("{found:?}").contains("secret"));
    let found = rows_with("logins", &[("passwords", "true")], &made);
    assert!(found.iter().all(|row| row["password"] == "secret"), "{found:?}");
    let mut anonymous = Made::default();
    anonymous.connection((1, 5000), (2, 21), &[(false, b"220 hello\r\n"), (true, b"FEAT\r\n")]);
    assert_eq!(rows("logins", &anonymous), [] as [Value; 0]);
}

#[test]
fn icmp_oddities() {
    let mut odd = Made::default();
    odd.push(icmp(1, 2, 5, &[0; 8]));
    odd.push(icmp(1, 2, 8, &[0; 1400]));
    odd.push(icmp(3, 4, 0, &[0; 8]));
    let found = rows("icmp-oddities", &odd);
    assert_eq!(
        alerts(&found),
        ["ICMP: redirect", "ICMP: large echo request", "ICMP: reply without a request"]
    );
    let mut usual = Made::default();
    usual.push(icmp(1, 2, 8, &[0; 56]));
    usual.push(icmp(2, 1, 0, &[0; 56]));
    usual.push(icmp(2, 1, 3, &[0; 28]));
    usual.push(udp(1, 5, 2, 5, b"x"));
    assert_eq!(rows("icmp-oddities", &usual), [] as [Value; 0]);
}

#[test]
fn ttl_spoofing() {
    let mut made = Made::default();
    for ttl in [64, 62, 30] {
        let mut syn = made.frame_of((1, 5000), (2, 80), made::SYN, [1, 0], b"");
        syn[22] = ttl;
        made.push(syn);
    }
    let found = rows("ttl-spoofing", &made);
    assert_eq!(alerts(&found), ["TTL of a source has changed"]);
    assert_eq!(fields(&found[0], &["source", "before", "now"]), [json!("10.0.0.1"), json!(62), json!(30)]);
    made.frames.truncate(2);
    assert_eq!(rows("ttl-spoofing", &made), [] as [Value; 0]);
}

#[test]
fn large_transfers() {
    let mut made = Made::default();
    made.connection((1, 5000), (2, 80), &[(false, &[b'x'; 1400]), (false, &[b'x'; 1400])]);
    let found = rows_with("large-transfers", &[("bytes", "2000")], &made);
    assert_eq!(
        (found.len(), found[0]["server"].as_str(), found[0]["packets"].as_u64()),
        (1, Some("10.0.0.2"), Some(8))
    );
    assert!(
        found[0]["bytes"].as_u64() > Some(2800) && found[0]["mbit_per_s"].as_f64() > Some(0.1),
        "{found:?}"
    );
    assert_eq!(rows("large-transfers", &made), [] as [Value; 0]);
}

#[test]
fn arp_changes() {
    let mut made = Made::default();
    for mac in [1, 1, 9] {
        made.push(arp(mac, 5));
    }
    let found = rows("arp-changes", &made);
    let moved: Vec<_> =
        found.iter().filter(|row| row.get("before").is_some_and(|before| !before.is_null())).collect();
    assert_eq!(alerts(&found), ["ARP: an address has moved"]);
    assert!(moved.iter().any(|row| row["mac"] == "02:00:00:00:00:09"), "{found:?}");
    made.frames.truncate(2);
    let found = rows("arp-changes", &made);
    assert!(alerts(&found).is_empty() && found.len() == 1, "its first address: {found:?}");
}

#[test]
fn fragments_and_overlaps() {
    let payload = [b'x'; 600];
    let packet =
        build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &build::udp(5, 6, &payload));
    let pieces = |bytes: usize| -> Vec<Vec<u8>> {
        build::ipv4_fragments(&packet, bytes)
            .iter()
            .map(|piece| build::ethernet(&[], 0x0800, piece))
            .collect()
    };
    let mut usual = Made::default();
    pieces(304).into_iter().for_each(|piece| usual.push(piece));
    usual.connection((1, 5000), (2, 80), &[(true, b"abc"), (true, b"def")]);
    assert_eq!(rows("fragments-overlaps", &usual), [] as [Value; 0]);
    let mut odd = Made::default();
    odd.push(pieces(24)[0].clone());
    let found = rows("fragments-overlaps", &odd);
    assert_eq!(alerts(&found), ["tiny first fragment"]);
    let mut overlap = Made::default();
    let [first, second] = [pieces(304)[0].clone(), pieces(200)[1].clone()];
    overlap.push(first);
    overlap.push(second);
    assert_eq!(alerts(&rows("fragments-overlaps", &overlap)), ["fragments overlap"]);
    let mut segments = Made::default();
    segments.push(frame((1, 5000), (2, 80), made::SYN, [99, 0], b""));
    segments.push(frame((2, 80), (1, 5000), made::SYN | made::ACK, [99, 100], b""));
    segments.push(frame((1, 5000), (2, 80), made::ACK, [103, 100], b"one"));
    segments.push(frame((1, 5000), (2, 80), made::ACK, [103, 100], b"two"));
    segments.push(frame((1, 5000), (2, 80), made::ACK, [100, 100], b"all"));
    let found = rows("fragments-overlaps", &segments);
    assert_eq!(alerts(&found), ["TCP segments overlap with other bytes"]);
    assert_eq!(
        fields(&found[0], &["from", "first", "second"]),
        [json!("client"), json!("one"), json!("two")]
    );
}
