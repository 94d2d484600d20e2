//! `quaff streams --script`: what a script records, its files, its limits, and what a run says of a script that fails.

use crate::capture::Capture;
use crate::support::{QUAFF, folder};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
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
    assert!(report.contains("logins: 8 calls") && report.contains("1 rows"), "{report}");
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

#[test]
fn bytes_that_are_missing_and_damage_are_in_the_exit_status() {
    let dir = folder();
    let mut capture = Capture::new();
    capture.connection_with_gap();
    let input = capture.write(&dir);
    let lines = script(&dir, "lines.lua", "on('line', function(f, l) print(l.text, l.cut) end)");
    let done = quaff(&["--read", &input, "--script", &lines]);
    assert!(code(&done) == 1 && text(&done.stderr).contains("10 bytes of streams are missing"), "{done:?}");
    assert!(text(&done.stdout).contains("third\\ttrue"), "{done:?}");
    // A script that asks for no stream misses none.
    let packets = script(&dir, "packets.lua", "on('flow_end', function(f) print(f.packets) end)");
    let done = quaff(&["--read", &input, "--script", &packets]);
    assert!(code(&done) == 0 && text(&done.stdout).contains("\"text\":\"5\""), "{done:?}");
    std::fs::write(&input, &capture.bytes[..capture.bytes.len() - 5]).expect("a file");
    let done = quaff(&["--read", &input, "--script", &packets]);
    assert!(code(&done) == 1 && text(&done.stderr).contains("DAMAGED"), "{done:?}");
}
