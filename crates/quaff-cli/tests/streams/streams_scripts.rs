//! `quaff streams --script`: what a script records, its files, its limits, and what a run says of a script that fails.

use crate::capture::{ACK, Capture, FIN, SYN};
use crate::support::{QUAFF, folder};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Connections whose client asks and whose server answers.
fn talk(dir: &TempDir) -> String {
    let mut capture = Capture::new();
    for port in 0..3 {
        capture.client.1 = 4711 + port;
        capture.connection(100, b"USER anna\r\nPASS x\r\n", b"230 welcome\r\n");
    }
    capture.write(dir)
}

fn script(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a script");
    path.display().to_string()
}

fn quaff(args: &[&str]) -> Output {
    Command::new(QUAFF).arg("streams").args(args).output().expect("quaff runs")
}

fn code(done: &Output) -> i32 {
    done.status.code().unwrap_or(-1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

const LOGINS: &str = r#"
    local logins = list("logins", {"client", "port", "user"})
    local ports = histogram("ports", {"port"})
    local least = argument("least", 0)
    on("line", {ports = {80}}, function(flow, line)
        local user = line.text:match("^USER (%w+)$")
        if user then flow.state.user = user end
        if line.text:find("^PASS ") and flow.client_port >= least then
            logins:add{flow.client, flow.client_port, flow.state.user}
            save(flow)
        end
    end)
    on("packet", {filter = "tcp dst port 80"}, function(packet) ports:count(packet.source_port) end)
    on("flow_end", {}, function(flow) if flow.packets ~= 7 then alert("short", {key = flow.key}) end end)
"#;

#[test]
fn rows_are_files_of_a_folder() {
    let dir = folder();
    let (input, logins) = (talk(&dir), script(&dir, "logins.lua", LOGINS));
    let out = dir.path().join("out");
    let args = ["--read", &input, "--script", &logins, "--out", &out.display().to_string()];
    let more = ["--format", "jsonl,csv", "--json", "--set", "least=4712"];
    let done = quaff(&[&args[..], &more].concat());
    assert_eq!(code(&done), 0, "{done:?}");
    let rows = "{\"client\":\"10.0.0.1\",\"port\":4712,\"user\":\"anna\"}\n{\"client\":\"10.0.0.1\",\"port\":4713,\"user\":\"anna\"}\n";
    assert_eq!(read(&out.join("logins-logins.jsonl")), rows);
    assert_eq!(
        read(&out.join("logins-logins.csv")),
        "client,port,user\r\n10.0.0.1,4712,anna\r\n10.0.0.1,4713,anna\r\n"
    );
    assert_eq!(read(&out.join("logins-ports.csv")), "port,count\r\n4711,4\r\n4712,4\r\n4713,4\r\n");
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names.len(), 6, "no alert, no file of alerts: {names:?}");
    let sums: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let found = &sums["scripts"][0];
    assert_eq!(
        (&found["name"], &found["errors"], &found["rows"], &found["saved"]),
        (&"logins".into(), &0.into(), &2.into(), &2.into())
    );
    assert_eq!(
        (&sums["flows"], &sums["saved_packets"], &sums["files"]),
        (&3.into(), &14.into(), &6.into()),
        "{sums}"
    );
    assert_eq!(sums["streams"]["connections"]["seen"], 3);
    // The packets of a flow are the whole flow.
    let saved = out.join("010.000.000.001.04712-010.000.000.002.00080.pcapng").display().to_string();
    let info = Command::new(QUAFF).args(["info", "--json", &saved]).output().expect("quaff runs");
    assert!(text(&info.stdout).contains("\"packets\":7"), "{info:?}");
    // The files are in the way of a second run.
    let again = quaff(&args);
    assert!(code(&again) == 2 && text(&again.stderr).contains("--overwrite"), "{again:?}");
    let over = quaff(&[&args[..], &["--overwrite", "-q"]].concat());
    assert_eq!((code(&over), text(&over.stderr).as_str()), (0, ""));
}

#[test]
fn without_a_folder_rows_are_lines_on_stdout() {
    let dir = folder();
    let (input, logins) = (talk(&dir), script(&dir, "logins.lua", &LOGINS.replace("save(flow)", "")));
    let ports = script(&dir, "ports.lua", "on('packet', function(p) print(p.source, '\u{202e}') end)");
    let done = quaff(&["--read", &input, "--script", &logins, &ports, "-f", "port 4711"]);
    assert_eq!(code(&done), 0, "{done:?}");
    let out = text(&done.stdout);
    assert!(!out.contains('\u{202e}') && out.contains("\\u202e"), "text of others is harmless: {out}");
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |script: &str| rows.iter().filter(|row| row["script"] == script).collect::<Vec<_>>();
    assert_eq!(of("ports").len(), 7);
    assert_eq!(of("logins")[0]["list"], "logins");
    assert_eq!(
        *of("logins")[1],
        serde_json::json!({"script": "logins", "histogram": "ports", "port": 4711, "count": 4})
    );
    let report = text(&done.stderr);
    assert!(report.contains("logins: 8 calls") && report.contains("1 row"), "{report}");
    let save = quaff(&["--read", &input, "--script", &script(&dir, "s.lua", LOGINS)]);
    assert!(
        code(&save) == 1 && text(&save.stderr).contains("s.lua:10: save: there is no folder"),
        "{save:?}"
    );
}

#[test]
fn a_script_that_fails_costs_itself_only() {
    let dir = folder();
    let input = talk(&dir);
    let good = script(
        &dir,
        "good.lua",
        "local n = 0 on('packet', function() n = n + 1 if n == 21 then print('all') end end)",
    );
    let cases = [
        (
            "on('packet', function(p)\n    while true do end\nend)",
            "STOPPED: bad.lua:2: took more time than a call may take; it missed 20 events",
        ),
        (
            "local t = {}\non('packet', function(p)\n    while true do t[#t + 1] = {} end\nend)",
            "STOPPED: bad.lua:3: needed more memory",
        ),
        (
            "on('line', function(f, l)\n    string.find(('a'):rep(20000), ('.-'):rep(9) .. 'b')\nend)",
            "STOPPED: bad.lua:2: took more time",
        ),
        ("on('packet', function(p)\n    error('mine')\nend)", "error, 21 times: bad.lua:2: mine"),
        (
            "on('packet', function(p)\n    local function f() return 1 + f() end\n    f()\nend)",
            "STOPPED: bad.lua:2: needed more memory",
        ),
    ];
    for (text_of_script, words) in cases {
        let bad = script(&dir, "bad.lua", text_of_script);
        let limits = ["--script-time", "100ms", "--script-memory", "4M"];
        let done = quaff(&[&["--read", &input, "--script", &bad, &good][..], &limits].concat());
        let report = text(&done.stderr);
        assert!(code(&done) == 1 && report.contains(words), "{text_of_script}: {report}");
        assert!(text(&done.stdout).contains("\"text\":\"all\""), "the other one has seen all: {done:?}");
        assert!(report.contains("good: 21 calls"), "{report}");
        let quiet = quaff(&[&["-q", "--read", &input, "--script", &bad][..], &limits].concat());
        assert!(text(&quiet.stderr).contains(words), "{quiet:?}");
    }
    for (wrong, words) in [
        ("on('packet', {filter = 'port nonsense'}, print)", "bad.lua:1: "),
        ("x = = 1", "bad.lua:1: "),
        ("\nwhile true do end", "bad.lua:2: took more time"),
        ("io.open('/etc/passwd')", "bad.lua:1: attempt to index a nil value (global 'io')"),
    ] {
        let bad = script(&dir, "bad.lua", wrong);
        let done = quaff(&["--read", &input, "--script", &bad, "--script-time", "100ms"]);
        assert!(code(&done) == 2 && text(&done.stderr).contains(words), "{wrong}: {done:?}");
        assert!(done.stdout.is_empty());
    }
    let twice = quaff(&["--read", &input, "--script", &good, &good]);
    assert!(code(&twice) == 2 && text(&twice.stderr).contains("two scripts are named good"), "{twice:?}");
    let missing = quaff(&["--read", &input, "--script", "/nowhere.lua"]);
    assert!(
        code(&missing) == 2 && text(&missing.stderr).contains("read the script /nowhere.lua"),
        "{missing:?}"
    );
}

/// A program with `text` at its stdin.
fn with_stdin(args: &[&str], text: &[u8]) -> Output {
    let mut quaff = Command::new(QUAFF);
    quaff.arg("streams").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = quaff.spawn().expect("quaff runs");
    // A program that refuses its arguments reads nothing.
    let _ = running.stdin.take().expect("a pipe").write_all(text);
    running.wait_with_output().expect("it ends")
}

#[test]
fn a_script_is_read_from_stdin_unless_that_is_the_capture() {
    let dir = folder();
    let input = talk(&dir);
    let text_of_script = b"on('flow_end', function(flow) print(flow.packets) end)";
    let done = with_stdin(&["--read", &input, "--script", "-"], text_of_script);
    assert_eq!((code(&done), text(&done.stdout).matches("\"script\":\"stdin\"").count()), (0, 3), "{done:?}");
    let wrong = with_stdin(&["--read", &input, "--script", "-"], b"x = = 1");
    assert!(code(&wrong) == 2 && text(&wrong.stderr).contains("stdin:1: "), "{wrong:?}");
    let both = with_stdin(&["--read", "-", "--script", "-"], text_of_script);
    let words = "stdin can be the capture (--read -) or a script (--script -), not both";
    assert!(code(&both) == 2 && text(&both.stderr).contains(words), "{both:?}");
    let twice = with_stdin(&["--read", &input, "--script", "-", "-"], text_of_script);
    assert!(code(&twice) == 2 && text(&twice.stderr).contains("stdin is one script"), "{twice:?}");
    let capture = std::fs::read(&input).expect("a capture");
    let of_capture = with_stdin(&["--read", "-", "--script", "default/large-transfers"], &capture);
    assert_eq!(code(&of_capture), 0, "{of_capture:?}");
}

/// A batch of packets of which each takes a script a tenth of a second.
#[test]
fn a_signal_is_heard_between_the_packets_of_a_slow_script() {
    let dir = folder();
    let mut capture = Capture::new();
    for port in 0..100 {
        capture.client.1 = 2000 + port;
        capture.connection(100, b"a", b"b");
    }
    let input = capture.write(&dir);
    let slow = script(&dir, "slow.lua", "on('packet', function(p) print('begun') for i = 1, 3e7 do end end)");
    let mut quaff = Command::new(QUAFF);
    quaff.args(["streams", "--read", &input, "--script", &slow, "--script-time", "1m", "--out"]);
    quaff.arg(dir.path().join("out")).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = quaff.spawn().expect("quaff runs");
    std::thread::sleep(Duration::from_millis(1500));
    let begun = Instant::now();
    quaff_os::process::send(running.id(), quaff_os::Signal::SIGTERM).expect("it runs");
    let done = running.wait_with_output().expect("it ends");
    let took = begun.elapsed();
    let sums: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let of_script = &sums["scripts"][0];
    assert!(took < Duration::from_secs(15), "{took:?}: {sums}");
    assert!(code(&done) == 1 && of_script["skipped"].as_u64() > Some(0), "{sums}");
    let seen = ["calls", "skipped"].map(|name| of_script[name].as_u64().unwrap_or(0)).iter().sum::<u64>();
    assert_eq!(Some(seen), sums["packets"].as_u64(), "{sums}");
}

/// RFC 9112, section 8, for the log of the default set and for extracted bodies.
#[test]
fn a_body_without_a_length_is_whole_after_a_fin_and_not_after_a_reset() {
    const RST: u8 = 4;
    let (asked, answer) = (b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n0123456789");
    let [client, server] = [101 + asked.len() as u32, 101 + answer.len() as u32];
    type Ending = fn(&mut Capture, [u32; 2]);
    let endings: [(&str, Ending, bool); 4] = [
        ("a reset", |capture, at| capture.server(RST | ACK, at, b""), false),
        ("the end of the capture", |_, _| (), false),
        (
            "ports that are used again",
            |capture, _| {
                capture.client(SYN, [900_000, 0], b"");
                capture.server(SYN | ACK, [900_000, 900_001], b"");
                capture.client(ACK, [900_001, 900_001], b"");
            },
            false,
        ),
        ("a FIN", |capture, at| capture.server(FIN | ACK, at, b""), true),
    ];
    for (name, ending, is_whole) in endings {
        let dir = folder();
        let mut capture = Capture::new();
        capture.client(SYN, [100, 0], b"");
        capture.server(SYN | ACK, [100, 101], b"");
        capture.client(ACK, [101, 101], asked);
        capture.server(ACK, [101, client], answer);
        capture.client(ACK, [client, server], b"");
        ending(&mut capture, [server, client]);
        let input = capture.write(&dir);
        let done = quaff(&["--read", &input, "--script", "default/http-log"]);
        let row: Value =
            serde_json::from_str(text(&done.stdout).lines().next().unwrap_or("{}")).expect("JSON");
        assert_eq!((&row["whole"], &row["response_bytes"]), (&is_whole.into(), &10.into()), "{name}: {row}");
        let out = dir.path().join("out").display().to_string();
        let done = quaff(&["extract", "--read", &input, "--http-bodies", "--dir", &out]);
        let index = read(&Path::new(&out).join("index.jsonl"));
        assert!(index.contains(&format!("\"whole\":{is_whole}")), "{name}: {index} {done:?}");
    }
}

/// A record with a ClientHello for this server.
fn client_hello(server: &str) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let name = sized(&[&[0][..], &sized(server.as_bytes())].concat());
    let extensions = sized(&[&[0, 0][..], &sized(&name)].concat());
    let hello = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    [&[22, 3, 1][..], &sized(&[&[1, 0][..], &sized(&hello)].concat())].concat()
}

/// The name that a client asks for after a change of protocol, and the host of a request inside a tunnel.
#[test]
fn logs_see_what_follows_a_change_of_protocol() {
    let dir = folder();
    let hello = client_hello("a.example");
    for (at, before) in
        [&b"STARTTLS\r\n"[..], b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", b"PROXY UNKNOWN\r\n", b""]
            .iter()
            .enumerate()
    {
        let mut capture = Capture::new();
        capture.connection(100, &[before, &hello[..]].concat(), b"220 ready\r\n");
        let input = capture.write(&dir);
        let done = quaff(&["--read", &input, "--script", "default/tls-log"]);
        assert!(text(&done.stdout).contains("\"server_name\":\"a.example\""), "{at}: {done:?}");
        let done = Command::new(QUAFF)
            .args(["flows", "--read", &input, "-T", "%applicationName %quaffServerName", "--jsonl", "-"])
            .output();
        let done = done.expect("quaff runs");
        assert!(text(&done.stdout).contains("a.example"), "{at}: {done:?}");
    }
}

#[test]
fn bytes_that_are_missing_and_damage_are_in_the_exit_status() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection_with_gap();
    let input = capture.write(&dir);
    let lines = script(&dir, "lines.lua", "on('line', function(f, l) print(l.text, l.cut) end)");
    let done = quaff(&["--read", &input, "--script", &lines]);
    assert!(code(&done) == 1 && text(&done.stderr).contains("10 bytes of streams missing"), "{done:?}");
    assert!(text(&done.stdout).contains("third\\ttrue"), "{done:?}");
    // A script that asks for no stream misses none.
    let packets = script(&dir, "packets.lua", "on('flow_end', function(f) print(f.packets) end)");
    let done = quaff(&["--read", &input, "--script", &packets]);
    assert!(code(&done) == 0 && text(&done.stdout).contains("\"text\":\"5\""), "{done:?}");
    std::fs::write(&input, &capture.bytes[..capture.bytes.len() - 5]).expect("a file");
    let done = quaff(&["--read", &input, "--script", &packets]);
    assert!(code(&done) == 1 && text(&done.stderr).contains("DAMAGED"), "{done:?}");
}
