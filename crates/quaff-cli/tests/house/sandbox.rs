//! The sandbox of the real binary: every thread of it, whatever it reads and writes, hostile files, and what it can
//! no longer reach.

use crate::support::{
    self, Bench, Ended, PATIENCE, QUAFF, finish, interrupt, lab_bench, names, ours, run, tool, verify,
};
use crate::traffic;
use quaff_lab::ChildProcess;
use quaff_testkit::{skip, test_name};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The user daemon and its group, on Debian.
const DAEMON: u32 = 1;

/// The values of `fields` in `/proc/PID/task/*/status`, one line for each thread, with its name.
fn threads(pid: u32, fields: &[&str]) -> Vec<(String, Vec<String>)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
    let value = |status: &str, name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or("-").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let of = |status: String| {
        (value(&status, "Name"), fields.iter().map(|name| value(&status, name)).collect::<Vec<_>>())
    };
    tasks.filter_map(|task| status(task.ok()?)).map(of).collect()
}

const SETS: [&str; 5] = ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"];

/// No thread of the process has a capability beyond `kept`, new privileges, or free choice of system calls.
#[track_caller]
fn assert_confined(pid: u32, kept: u64) {
    let fields = [&SETS[..], &["NoNewPrivs", "Seccomp"]].concat();
    let found = threads(pid, &fields);
    assert!(!found.is_empty());
    let (set, none) = (format!("{kept:016x}"), format!("{:016x}", 0));
    let is_root = effective_user() == 0;
    for (name, values) in &found {
        let bounding = if is_root { &none } else { &values[3] };
        let expected = [&set, &set, &none, bounding, &none].map(String::as_str);
        assert_eq!(values[..5], expected, "{name}: {found:#?}");
        assert_eq!(values[5..], ["1", "2"], "{name}: {found:#?}");
    }
}

/// The effective user of this test.
fn effective_user() -> u32 {
    fs::metadata("/proc/self").expect("proc").uid()
}

/// The `sandbox` of a report in full force.
#[track_caller]
fn assert_in_force(report: &Value, capabilities: &[&str]) {
    let sandbox = &report["sandbox"];
    assert_eq!(sandbox["capabilities"], json!(capabilities), "{report}");
    assert_eq!((&sandbox["seccomp"], &sandbox["refused_calls"]), (&json!(true), &json!(0)), "{report}");
    let abi = sandbox["landlock_abi"].as_u64().expect("a number");
    if abi == 0 {
        let notes = report["notes"].to_string();
        assert!(notes.contains("Landlock"), "{notes}");
    }
}

#[test]
fn every_thread_of_a_live_capture_is_confined_whatever_it_writes() {
    let bench = lab_bench!(1 << 28);
    let (file, dir, pipe) = (bench.path("file"), bench.path("dir"), bench.path("pipe"));
    fs::create_dir(&dir).unwrap();
    run(Command::new("mkfifo").arg(&pipe));
    let rotation = ["--rotate-size", "4M", "--keep-files", "3"];
    let runs = [
        vec!["-w", &file],
        vec!["-w", &file, "--format", "pcap", "--decap", "auto"],
        [&["--dir", &dir, "--exec", "cat >/dev/null"][..], &rotation].concat(),
        [&["--dir", &dir, "--format", "pcap"][..], &rotation].concat(),
        [&["--tee", &dir, "-w", &pipe][..], &rotation].concat(),
        vec!["-w", &pipe],
        vec!["-i", "lo", "-f", "udp", "-w", &file, "--stats", "1s", "--stats-name"],
    ];
    for args in runs {
        let mut reader =
            Command::new("sh").args(["-c", &format!("exec cat <>'{pipe}' >/dev/null")]).spawn().unwrap();
        let running = bench.capture(&args);
        assert_confined(running.pid(), 0);
        bench.generate("--size 1000 --count 20000 --pps 50000");
        assert_confined(running.pid(), 0);
        let ended = interrupt(running);
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert_eq!((ended.code, &ended.json["written"]), (0, &json!(20_000)), "{args:?} {}", ended.json);
        assert_in_force(&ended.json, &[]);
        assert_eq!(ended.json["commands_failed"], 0, "{args:?}");
        if args.contains(&"--exec") {
            assert_eq!(ended.json["commands"], ended.json["files"]);
        }
    }
}

#[test]
fn stdout_and_a_split_are_confined() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("file");
    let script = format!("exec {QUAFF} capture -i rx0 -w - --json >'{file}'");
    let mut command = bench.lab.rx.command("sh").unwrap();
    command.args(["-c", &script]);
    let (a, b) = (bench.path("a"), bench.path("b"));
    let split = ["split", "-i", "rx0", "--json", "-w", &a, "--exec", &format!("cat >'{b}'")];
    for command in [command, bench.quaff(&split)] {
        let mut running = ChildProcess::start(command).unwrap();
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        assert_confined(running.pid(), 0);
        bench.generate("--size 1000 --count 20000 --pps 50000");
        let ended = interrupt(running);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let line = ended.stderr.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
        assert_in_force(line.as_ref().unwrap_or(&ended.json), &[]);
    }
    assert_eq!(verify(&[&file])["received"], 20_000);
    assert_eq!(verify(&[&a, &b])["received"], 20_000);
}

#[test]
fn a_capture_without_a_sandbox_reports_it() {
    let bench = lab_bench!(1 << 27);
    let running = bench.capture(&["-w", &bench.path("x"), "--no-sandbox"]);
    assert!(threads(running.pid(), &["Seccomp"]).iter().all(|(_, values)| values[0] == "0"));
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["sandbox"]), (0, &Value::Null));
}

/// The numbers of notes of a report, and of places in stderr, that mention something.
fn mentions(ended: &Ended, what: &str) -> [usize; 2] {
    let notes = ended.json["notes"].as_array().expect("notes");
    let in_notes = notes.iter().filter(|note| note.as_str().is_some_and(|note| note.contains(what))).count();
    [in_notes, ended.stderr.matches(what).count()]
}

#[test]
fn a_kernel_that_lacks_it_all_captures_and_says_it_once() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    if tool(test, "strace").is_none() {
        return;
    }
    // Linux before 5.13, or a container that forbids it, and a kernel without CONFIG_SECCOMP_FILTER.
    const OLD: [&str; 9] = [
        "-f",
        "-qq",
        "-e",
        "trace=landlock_create_ruleset,seccomp",
        "-e",
        "inject=landlock_create_ruleset:error=ENOSYS",
        "-e",
        "inject=seccomp:error=EINVAL",
        "-o",
    ];
    let (dir, file) = (bench.path("dir"), bench.path("file"));
    fs::create_dir(&dir).unwrap();
    let start = |args: &[&str]| {
        let mut command = bench.lab.rx.command("strace").unwrap();
        command.args(OLD).args(["/dev/null", QUAFF]).args(args);
        ChildProcess::start(command).unwrap()
    };
    let mut running = start(&["capture", "-i", "rx0", "--json", "--dir", &dir, "--rotate-size", "4M"]);
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--size 1000 --count 20000 --pps 20000");
    // strace passes it on to the capture, which is its child.
    let capture = support::below(running.pid())[0].0;
    run(Command::new("kill").args(["-INT", &capture.to_string()]));
    let live = finish(running);
    let files = ours(dir.as_ref());
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    assert_eq!(verify(&files)["received"], 20_000);
    let read = finish(start(&["capture", "--read", files[0], "-w", &file, "--json"]));
    for ended in [&live, &read] {
        let sandbox = &ended.json["sandbox"];
        assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
        assert_eq!((&sandbox["landlock_abi"], &sandbox["seccomp"]), (&json!(0), &json!(false)), "{sandbox}");
        assert_eq!(sandbox["capabilities"], json!([]));
        for what in ["restricts no paths", "restricts no system calls"] {
            assert_eq!(mentions(ended, what), [1, 1], "{what}: {} {}", ended.json, ended.stderr);
        }
    }
    let verified = finish(start(&["verify", "--from-first", &file, "--json"]));
    assert!(verified.stderr.contains("restricts no paths"), "{}", verified.stderr);
}

/// Runs quaff with a pipe as its stdin.
fn with_stdin(args: &[&str]) -> Child {
    let mut command = Command::new(QUAFF);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("quaff runs")
}

#[test]
fn files_are_read_by_a_confined_process_from_the_first_byte_on() {
    let dir = support::folder();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (out, parts) = (path("out"), path("parts"));
    let file = traffic::pcap((0..1000).map(|n| (traffic::time_ns(n), traffic::frame(n))));
    for args in [
        &["capture", "--read", "-", "-w", &out, "--json"][..],
        &["split", "--read", "-", "--dir", &parts, "--members", "2", "--json"],
        &["verify", "-", "--json"],
        &["info", "-", "--json"],
    ] {
        let mut child = with_stdin(args);
        let mut stdin = child.stdin.take().unwrap();
        // Not a byte yet: it waits for the first one.
        let until = Instant::now() + PATIENCE;
        let is_waiting = || threads(child.id(), &["Seccomp"]).iter().all(|(_, values)| values[0] == "2");
        while !is_waiting() {
            assert!(Instant::now() < until, "{args:?}: {:?}", threads(child.id(), &["Seccomp", "CapEff"]));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_confined(child.id(), 0);
        stdin.write_all(&file[..file.len() / 2]).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert_confined(child.id(), 0);
        stdin.write_all(&file[file.len() / 2..]).unwrap();
        drop(stdin);
        let done = child.wait_with_output().unwrap();
        let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
        if !["verify", "info"].contains(&args[0]) {
            assert_eq!(done.status.code(), Some(0), "{args:?} {}", String::from_utf8_lossy(&done.stderr));
            assert_in_force(&report, &[]);
        }
    }
}

#[test]
fn a_folder_that_is_swapped_leads_nowhere() {
    let bench = lab_bench!(1 << 28);
    let [dir, moved, other] = ["dir", "moved", "other"].map(|name| bench.path(name));
    fs::create_dir(&dir).unwrap();
    fs::create_dir(&other).unwrap();
    let running = bench.capture(&["--dir", &dir, "--rotate-size", "4M"]);
    bench.generate("--size 1000 --count 10000 --pps 50000");
    fs::rename(&dir, &moved).unwrap();
    symlink(&other, &dir).unwrap();
    bench.generate("--size 1000 --count 20000 --pps 50000");
    let done = running.finish(PATIENCE).expect("it cannot continue");
    let ledger: Value = serde_json::from_slice(&done.stdout).expect("a ledger");
    if ledger["sandbox"]["landlock_abi"] == 0 {
        return skip(test_name!(), "no Landlock in this kernel");
    }
    assert_eq!(names(other.as_ref()), [""; 0], "{ledger}");
    assert_ne!(done.status.code(), Some(0), "{ledger}");
    assert_eq!(done.status.signal(), None, "{ledger}");
    assert!(names(moved.as_ref()).len() > 1, "what was written before is kept");
}

/// A folder that everyone may enter, with `dir` in it, which belongs to `owner`.
fn shared_folder(owner: u32, mode: u32) -> (tempfile::TempDir, String) {
    let shared = tempfile::tempdir().unwrap();
    fs::set_permissions(shared.path(), Permissions::from_mode(0o755)).unwrap();
    let dir = shared.path().join("dir");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
    chown(&dir, Some(owner), Some(owner)).unwrap();
    let dir = dir.display().to_string();
    (shared, dir)
}

#[test]
fn another_user_captures_rotates_and_runs_commands() {
    let bench = lab_bench!(1 << 28);
    let (shared, dir) = shared_folder(DAEMON, 0o755);
    let list = shared.path().join("list");
    fs::write(&list, b"").unwrap();
    chown(&list, Some(DAEMON), None).unwrap();
    let exec = format!("f() {{ id -u >>'{}'; }}; f", list.display());
    let args =
        ["--dir", &dir, "--rotate-size", "4M", "--keep-files", "2", "--user", "daemon", "--exec", &exec];
    let running = bench.capture(&args);
    assert_confined(running.pid(), 0);
    let users = threads(running.pid(), &["Uid", "Gid"]);
    let expected = [DAEMON; 4].map(|id| id.to_string()).join(" ");
    assert!(users.iter().all(|(_, ids)| ids[0] == expected && ids[1] == expected), "{users:?}");
    bench.generate("--size 1000 --count 20000 --pps 50000");
    let ended = interrupt(running);
    assert_eq!(ended.code, 0, "{} {}", ended.json, ended.stderr);
    assert!(ended.json["pruned"].as_u64() > Some(1), "{}", ended.json);
    assert_in_force(&ended.json, &[]);
    let files = ours(dir.as_ref());
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| fs::metadata(file).unwrap().uid() == DAEMON));
    let ids = fs::read_to_string(&list).unwrap();
    assert_eq!(ended.json["commands"], ids.lines().count());
    assert!(ids.lines().all(|id| id == DAEMON.to_string()), "{ids}");
}

#[test]
fn a_user_who_may_not_write_is_named_at_the_start() {
    let bench = lab_bench!(1 << 27);
    let (_shared, dir) = shared_folder(0, 0o755);
    let file = format!("{dir}/file");
    for output in [["--dir", &dir], ["-w", &file]] {
        let args = [&["capture", "-i", "rx0", "--user", "daemon"][..], &output].concat();
        let said = support::fails(&bench, &args);
        assert!(
            said.contains("daemon") && said.contains("Permission denied") && said.contains(&dir),
            "{said}"
        );
    }
    let said = support::fails(&bench, &["capture", "-i", "rx0", "-w", &file, "--user", "no-such-user"]);
    assert!(said.contains("no-such-user"), "{said}");
    assert_eq!(names(dir.as_ref()), [""; 0]);
}

#[test]
fn root_writes_and_reads_in_folders_of_others() {
    let bench = lab_bench!(1 << 28);
    let (shared, dir) = shared_folder(DAEMON, 0o755);
    let running = bench.capture(&["--dir", &dir, "--rotate-size", "4M", "--keep-files", "2"]);
    // CAP_DAC_OVERRIDE, within the folder.
    assert_confined(running.pid(), 1 << 1);
    bench.generate("--size 1000 --count 20000 --pps 50000");
    let ended = interrupt(running);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_in_force(&ended.json, &["CAP_DAC_OVERRIDE"]);
    assert!(ended.stderr.contains("--user"), "{}", ended.stderr);
    let input = shared.path().join("input");
    traffic::write(&input, 100);
    fs::set_permissions(&input, Permissions::from_mode(0o600)).unwrap();
    chown(&input, Some(DAEMON), None).unwrap();
    let read = |more: &[&str]| {
        let mut command = Command::new(QUAFF);
        command.args(["capture", "--json", "-w", "/dev/null", "--read"]).arg(&input).args(more);
        finish(ChildProcess::start(command).unwrap())
    };
    let ended = read(&[]);
    assert_eq!((ended.code, &ended.json["written"]), (0, &json!(100)), "{}", ended.stderr);
    assert_in_force(&ended.json, &["CAP_DAC_READ_SEARCH"]);
    let ended = read(&["--user", "daemon"]);
    assert_eq!((ended.code, &ended.json["written"]), (0, &json!(100)), "{}", ended.stderr);
    assert_in_force(&ended.json, &[]);
}

/// One capture in five formats of files.
fn five_formats(test: &str, dir: &Path) -> Option<Vec<(String, Vec<u8>)>> {
    let plain = dir.join("plain.pcap");
    let mix = quaff_testkit::captures().join("mix.pcap");
    let bytes = fs::read(&mix).expect("mix.pcap");
    fs::write(&plain, &bytes[..bytes.len().min(300_000)]).unwrap();
    let mut files = vec![("pcap".to_owned(), fs::read(&plain).unwrap())];
    let pcapng = dir.join("x.pcapng");
    let mut convert = Command::new(QUAFF);
    // The last packet is cut, which is reported.
    convert.args(["capture", "--read"]).arg(&plain).arg("-w").arg(&pcapng);
    assert!(convert.output().unwrap().status.code().is_some_and(|code| code < 2));
    files.push(("pcapng".into(), fs::read(&pcapng).unwrap()));
    for name in ["gzip", "zstd", "lz4"] {
        let done = tool(test, name)?.arg("-c").arg(&plain).output().expect("it runs");
        files.push((name.to_owned(), done.stdout));
    }
    Some(files)
}

/// Damages a file: bytes changed, lengths made huge, parts removed or doubled. `seed` decides.
fn damage(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for _ in 0..=random(40) {
        // Headers are at the start, so half of the damage is there.
        if bytes.is_empty() {
            break;
        }
        let reach = if random(2) == 0 { bytes.len().min(400) } else { bytes.len() };
        let at = random(reach);
        match random(4) {
            0 => bytes[at] ^= 1 << random(8),
            1 => {
                let end = bytes.len().min(at + 4);
                bytes[at..end].fill(0xff);
            }
            2 => drop(bytes.drain(at..bytes.len().min(at + 1 + random(64)).max(at))),
            _ => {
                let copy = bytes[at..bytes.len().min(at + 64)].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// Runs quaff on a hostile file: it ends by itself, and nothing that it does is refused.
#[track_caller]
fn parse(args: &[&str], file: &Path) -> i32 {
    let done = Command::new(QUAFF).args(args).arg(file).output().expect("quaff runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.signal(), None, "{args:?} {}: {stderr}", file.display());
    assert!(
        !stderr.contains("panicked") && !stderr.contains("refused"),
        "{args:?} {}: {stderr}",
        file.display()
    );
    if let Ok(report) = serde_json::from_slice::<Value>(&done.stdout)
        && !["verify", "info"].contains(&args[0])
    {
        assert_in_force(&report, &[]);
    }
    done.status.code().expect("no signal")
}

#[test]
fn five_parsers_stay_inside_with_hostile_files() {
    let test = test_name!();
    let dir = support::folder();
    let Some(files) = five_formats(test, dir.path()) else { return };
    let (file, parts) = (dir.path().join("hostile"), dir.path().join("parts"));
    let parts = parts.display().to_string();
    let runs: [&[&str]; 5] = [
        &["capture", "--decap", "auto", "--salvage", "--json", "-w", "/dev/null", "--read"],
        &["capture", "--format", "pcap", "-f", "tcp or udp", "--json", "-w", "/dev/null", "--read"],
        &["split", "--members", "2", "--decap", "--salvage", "--json", "--dir", &parts, "--read"],
        &["verify", "--salvage", "--json"],
        &["info", "--json"],
    ];
    for (name, bytes) in &files {
        let mut codes = [[0u32; 3]; 5];
        for seed in 0..12 {
            fs::write(&file, if seed == 0 { bytes.clone() } else { damage(bytes, seed) }).unwrap();
            for (run, args) in runs.iter().enumerate() {
                codes[run][parse(args, &file) as usize] += 1;
            }
        }
        writeln!(std::io::stdout(), "{name}: of 12 files, exit codes 0, 1, 2: {codes:?}").unwrap();
    }
    let found = names(dir.path());
    assert_eq!(found, ["hostile", "parts", "plain.pcap", "x.pcapng"], "nothing else was made");
}
