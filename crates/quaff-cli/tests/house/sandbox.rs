//! The sandbox of the real binary: every thread of it, whatever it reads and writes, hostile files, and what it can
//! no longer reach.

use crate::support::{
    self, Bench, Ended, PATIENCE, QUAFF, finish, interrupt, lab_bench, names, ours, run, tool, verify,
};
use crate::traffic;
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::{skip, test_name};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

/// A process that may send signals must not change what a call returns, nor the count of refused calls.
#[test]
fn a_sigsys_that_a_process_sends_is_no_refused_call() {
    let bench = lab_bench!(1 << 28);
    let running = bench.capture(&["-w", &bench.path("file")]);
    let pid = running.pid().to_string();
    let stopping = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stopping.load(std::sync::atomic::Ordering::Relaxed) {
                let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                let threads: Vec<_> = threads.map(|it| it.file_name().into_string().unwrap()).collect();
                // kill(1) takes the number of a thread too.
                let _ = Command::new("kill").arg("-SYS").args(&threads).output();
            }
        });
        bench.generate("--size 1000 --count 20000 --pps 20000");
        stopping.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &json!(20_000)), "{} {}", ended.json, ended.stderr);
    assert_in_force(&ended.json, &[]);
}

#[test]
fn stdout_and_a_split_are_confined() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("file");
    let script = format!("exec {QUAFF} capture -i rx0 --buffer 64M -w - --json >'{file}'");
    let mut command = bench.lab.rx.command("sh").unwrap();
    command.args(["-c", &script]);
    let (a, b) = (bench.path("a"), bench.path("b"));
    let split =
        ["split", "-i", "rx0", "--buffer", "64M", "--json", "-w", &a, "--exec", &format!("cat >'{b}'")];
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
    let mut running =
        start(&["capture", "-i", "rx0", "--buffer", "64M", "--json", "--dir", &dir, "--rotate-size", "4M"]);
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

/// The files that an argument of a command names.
enum Files {
    /// Of strangers, and parsed: a command line that reads the pipe `@`, which has a capture. `%` is a folder, `!` an
    /// interface of a lab.
    Parsed(&'static str),
    /// The same of a file that must be a regular one: `@` is that file, made by this function in a folder.
    Regular(&'static str, fn(&Path) -> PathBuf),
    /// Of the user who runs the command: plans, keys, tables, scripts.
    Own,
    /// They are written.
    Written,
    /// Read, but not parsed.
    Raw,
}
use Files::{Own, Parsed, Raw, Regular, Written};

/// All arguments that name files, by the page of their command. A positional argument has an empty name.
const ARGUMENTS: &[(&str, &str, Files)] = &[
    ("capture", "", Parsed("capture @ -w %/out --json")),
    ("capture", "--read", Parsed("capture --read @ -w %/out --json")),
    ("capture", "--write", Written),
    ("capture", "--dir", Written),
    ("capture", "--tee", Written),
    ("split", "", Parsed("split @ --dir %/more --members 2 --json")),
    ("split", "--read", Parsed("split --read @ --dir %/parts --members 2 --json")),
    ("split", "--dir", Written),
    ("split", "--write", Written),
    ("merge", "", Parsed("merge @ -w %/merged --json")),
    ("merge", "--read", Parsed("merge -r @ -w %/merged --json")),
    ("merge", "--write", Written),
    ("verify", "", Parsed("verify @ --json")),
    ("verify", "--read", Parsed("verify -r @ --json")),
    ("verify", "--against", Parsed("verify --against @ %/capture --json")),
    ("verify", "--html", Written),
    ("info", "", Parsed("info @ --json")),
    ("info", "--read", Parsed("info -r @ --json")),
    ("flows", "", Parsed("flows @ --jsonl %/flows --ledger %/ledger")),
    ("flows", "--read", Parsed("flows --read @ --jsonl %/flows --ledger %/ledger")),
    ("flows", "--json", Written),
    ("flows", "--jsonl", Written),
    ("flows", "--csv", Written),
    ("flows", "--zeek", Written),
    ("flows", "--ipfix", Written),
    ("flows", "--ledger", Written),
    ("flows", "--parquet", Written),
    ("flows", "--spool", Written),
    ("flows", "--as", Own),
    ("flows", "--tls-ca", Own),
    ("flows", "--tls-cert", Own),
    ("flows", "--tls-key", Own),
    ("flows-top", "", Parsed("flows top @ --once --json")),
    ("flows-top", "--read", Parsed("flows top --once --json --read @")),
    ("flows-report", "", Parsed("flows report @ --json")),
    ("flows-report", "--read", Parsed("flows report -r @ --json")),
    ("flows-report", "", Regular("flows report @ --json", segment)),
    ("flows-report", "", Regular("flows report @ --json", messages)),
    ("flows-report", "--html", Written),
    ("flows-list", "", Parsed("flows list @ --json")),
    ("flows-list", "--read", Parsed("flows list -r @ --json")),
    ("flows-list", "", Regular("flows list @ --json", segment)),
    ("flows-list", "", Regular("flows list @ --json", messages)),
    ("flows-list", "--csv", Written),
    ("flows-list", "--jsonl", Written),
    ("streams", "", Parsed("streams @ --script default --out %/rows --overwrite")),
    ("streams", "--read", Parsed("streams --script default --out %/rows --overwrite --read @")),
    ("streams", "--script", Own),
    ("streams", "--out", Written),
    ("streams-extract", "", Parsed("streams extract @ --dir %/streams --overwrite --json")),
    ("streams-extract", "--read", Parsed("streams extract --dir %/streams --overwrite --json --read @")),
    ("streams-extract", "--dir", Written),
    ("streams-follow", "", Parsed("streams follow @ 10.0.0.1:1000,10.0.0.2:80")),
    ("streams-follow", "--read", Parsed("streams follow %/capture 10.0.0.1:1000,10.0.0.2:80 --read @")),
    ("streams-list", "", Parsed("streams list @ --json")),
    ("streams-list", "--read", Parsed("streams list --json --read @")),
    ("replay", "", Parsed("replay -w %/replayed @ --json")),
    ("replay", "--read", Parsed("replay -w %/replayed -r @ --json")),
    ("replay", "", Parsed("replay -o ! --via auto @ --json")),
    ("replay", "", Parsed("replay -o ! --via sendmmsg @ --json")),
    ("replay", "", Parsed("replay -o ! --via tx-ring @ --json")),
    ("replay", "", Parsed("replay -o ! --via af-xdp @ --json")),
    ("replay", "", Parsed("replay --inject ! @ --json")),
    ("replay", "--tcpprep", Parsed("replay -o ! --out2 lo --via sendmmsg --tcpprep @ %/capture")),
    ("replay", "--dual", Parsed("replay -o ! --out2 lo --via sendmmsg --dual @ %/capture")),
    ("replay", "--write", Written),
    // Opened once for its kind and once for its packets, so a pipe is no input.
    ("generate", "--sizes-from", Regular("generate -w /dev/null --count 9 --sizes-from @", capture_file)),
    ("generate", "--sizes-save", Written),
    ("generate", "--content-from", Raw),
    ("generate", "--write", Written),
    ("gulp", "", Parsed("gulp -i - -o %")),
    ("tcpreplay", "", Parsed("tcpreplay -i ! -t @")),
    ("tcpreplay", "", Parsed("tcpreplay -w %/sent @")),
    ("nprobe", "", Regular("nprobe -i @ -n none", capture_file)),
    // Wireshark names a pipe that quaff writes.
    ("extcap", "--fifo", Written),
    ("extcap", "--tee", Written),
    // Any bytes, which are not looked at.
    ("pipe", "--dir", Written),
    ("tap", "--dir", Written),
    ("tap", "--write", Written),
    ("bench-capture", "--plan", Own),
    ("bench-capture", "--rival-file", Own),
    // Passed on to other commands of quaff.
    ("bench-capture", "--sizes-from", Own),
    ("bench-capture", "--replay", Own),
    ("bench-capture", "--dir", Written),
    ("bench-capture", "--out", Written),
    ("bench-flow", "--plan", Own),
    ("bench-flow", "--meter-file", Own),
    ("bench-flow", "--replay", Own),
    ("bench-flow", "--dir", Written),
    ("bench-flow", "--out", Written),
    ("bench-promises", "--file", Own),
    ("bench-promises", "--dir", Written),
    ("bench-compare", "", Regular("bench compare @ @", stored_result)),
    ("bench-show", "", Regular("bench show @", stored_result)),
    ("bench-show", "--write", Written),
    ("service", "--plan", Own),
    ("service", "--out", Written),
    ("service-show", "", Regular("service show @", stored_result)),
    ("service-show", "--write", Written),
    ("lab-demo", "--dir", Written),
    ("lab-probe", "--dir", Written),
    ("doctor", "--dir", Written),
    ("man", "", Written),
];

/// Commands whose words are another program's: the pages do not show their files, so they are in [`ARGUMENTS`] once.
const OTHERS_WORDS: [&str; 3] = ["gulp", "tcpreplay", "nprobe"];

/// Commands that keep capabilities: a BPF program that depends on the frames is loaded after they are read.
const LOADS_PROGRAMS: u64 = 1 << 39 | 1 << 38 | 1 << 12;

/// A stored result: damaged, which is found when it is parsed.
fn stored_result(dir: &Path) -> PathBuf {
    let path = dir.join("result.json");
    fs::write(&path, "{\"kind\": 1}").unwrap();
    path
}

fn capture_file(dir: &Path) -> PathBuf {
    let path = dir.join("capture.pcap");
    traffic::write(&path, 100);
    path
}

/// A segment of flow records: damaged, which is found when it is parsed.
fn segment(dir: &Path) -> PathBuf {
    let path = dir.join("some.parquet");
    fs::write(&path, b"PAR1PAR1").unwrap();
    path
}

/// A message of IPFIX without records.
fn messages(dir: &Path) -> PathBuf {
    let path = dir.join("some.ipfix");
    fs::write(&path, [0, 10, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4]).unwrap();
    path
}

/// The arguments that name files, of all commands, as the manual pages have them.
fn arguments_of_pages() -> BTreeSet<(String, String)> {
    let dir = support::folder();
    run(Command::new(QUAFF).arg("man").arg(dir.path()));
    let mut found = BTreeSet::new();
    for page in names(dir.path()) {
        let text = fs::read_to_string(dir.path().join(&page)).unwrap();
        let name = page.trim_end_matches(".1").trim_start_matches("quaff").trim_start_matches('-').to_owned();
        let options = text.split("\n.TP\n").skip(1).filter_map(|option| option.lines().next());
        for option in options {
            let plain =
                ["\\fB", "\\fI", "\\fR"].iter().fold(option.to_owned(), |text, mark| text.replace(mark, ""));
            let plain = plain.replace("\\-", "-");
            let long = plain.split([' ', ',']).find(|word| word.starts_with("--")).unwrap_or("");
            let is_positional = plain.starts_with(['<', '[']);
            let named = plain.split_once(['<', '[']).map_or("", |(_, name)| name);
            let is_file = ["FILE", "DIR", "CACHE", "PIPE", "PATH"].iter().any(|word| named.contains(word));
            if is_file && (is_positional || !long.is_empty()) {
                found.insert((name.clone(), long.to_owned()));
            }
        }
    }
    found
}

/// A command that reads files is in no list by itself: a new one fails here until it is in [`ARGUMENTS`].
#[test]
fn every_argument_that_names_a_file_is_known() {
    let found = arguments_of_pages();
    assert!(found.len() > 40, "{found:?}");
    let known: BTreeSet<_> =
        ARGUMENTS.iter().map(|(command, name, _)| ((*command).to_owned(), (*name).to_owned())).collect();
    let missing: Vec<_> = found.difference(&known).collect();
    assert!(missing.is_empty(), "not in ARGUMENTS: {missing:?}");
    let is_hidden = |(command, name): &&(String, String)| {
        OTHERS_WORDS.contains(&command.as_str()) || (command.starts_with("bench-") && name.is_empty())
    };
    let gone: Vec<_> = known.difference(&found).filter(|one| !is_hidden(one)).collect();
    assert!(gone.is_empty(), "in ARGUMENTS, and in no page: {gone:?}");
}

/// Waits until all threads of the process are confined.
#[track_caller]
fn wait_until_confined(line: &str, child: &mut ChildProcess, kept: u64) {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = threads(child.pid(), &["Seccomp", "CapEff"]);
        if !found.is_empty() && found.iter().all(|(_, values)| values[0] == "2") {
            return assert_confined(child.pid(), kept);
        }
        assert!(Instant::now() < until && !child.has_ended().unwrap(), "{line}: {found:?} {}", child.heard);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn files_are_read_by_a_confined_process_from_the_first_byte_on() {
    let test = "files_are_read_by_a_confined_process_from_the_first_byte_on";
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    let capture = traffic::pcap((0..1000).map(|n| (traffic::time_ns(n), traffic::frame(n))));
    fs::write(bench.path("capture"), &capture).unwrap();
    for (at, (_, _, files)) in ARGUMENTS.iter().enumerate() {
        let Parsed(line) = files else { continue };
        let is_injected = line.contains("--inject");
        let pipe = bench.path(&format!("pipe{at}"));
        run(Command::new("mkfifo").arg(&pipe));
        let folder = bench.path("");
        let (at_stdin, interface) = (line.starts_with("gulp"), if is_injected { "rx0" } else { "tx0" });
        let words = line.split(' ').map(|word| match word {
            "@" => pipe.clone(),
            "!" => interface.to_owned(),
            word => word.replace('%', folder.trim_end_matches('/')),
        });
        let mut command = if is_injected { &bench.lab.rx } else { &bench.lab.tx }.command(QUAFF).unwrap();
        command.args(words);
        // Both ends, or the opening would wait.
        let both_ends = || File::options().read(true).write(true).open(&pipe).unwrap();
        let stdin = if at_stdin { both_ends().into() } else { Stdio::null() };
        let mut child = ChildProcess::start_with(command, stdin, None).unwrap();
        // Not a byte yet: it waits for the first one.
        wait_until_confined(line, &mut child, if is_injected { LOADS_PROGRAMS } else { 0 });
        let mut input = if at_stdin { both_ends() } else { File::options().write(true).open(&pipe).unwrap() };
        if let Err(error) = input.write_all(&capture[..capture.len() / 2]) {
            panic!("{line}: {error}: {}", child.finish(PATIENCE).map(|done| done.stderr).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(100));
        if !child.has_ended().unwrap() {
            assert_confined(child.pid(), if is_injected { LOADS_PROGRAMS } else { 0 });
        }
        // One that refuses what it has read so far has closed the pipe.
        let _ = input.write_all(&capture[capture.len() / 2..]);
        drop(input);
        if at_stdin {
            child.signal(Signal::SIGINT).unwrap();
        }
        let done = child.finish(PATIENCE).expect("it ends");
        let stderr = &done.stderr;
        assert_eq!(done.status.signal(), None, "{line}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("refused"), "{line}: {stderr}");
        if let Ok(report) = serde_json::from_slice::<Value>(&done.stdout)
            && report.get("sandbox").is_some()
        {
            assert_in_force(&report, &[]);
        }
    }
}

/// A regular file cannot be held back, so the order of the system calls shows it.
#[test]
fn regular_files_are_parsed_after_the_filter_of_system_calls() {
    let test = "regular_files_are_parsed_after_the_filter_of_system_calls";
    if tool(test, "strace").is_none() {
        return;
    }
    let dir = support::folder();
    for (_, _, files) in ARGUMENTS {
        let Regular(line, make) = files else { continue };
        let (file, log) = (make(dir.path()).display().to_string(), dir.path().join("log"));
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=seccomp,openat,open", "-o"]).arg(&log).arg(QUAFF);
        command.args(line.split(' ').map(|word| if word == "@" { file.as_str() } else { word }));
        command.output().expect("it runs");
        let log = fs::read_to_string(&log).unwrap();
        let calls: Vec<_> = log.lines().collect();
        let filter = calls.iter().position(|call| call.contains("SECCOMP_SET_MODE_FILTER"));
        let opened = calls.iter().rposition(|call| call.contains(&format!("\"{file}\"")));
        assert!(filter.is_some() && opened > filter, "{line}: {log}");
    }
}

/// An io_uring passes no filter of system calls, so the time of its making counts.
#[test]
fn writers_have_their_rings_before_a_file_is_read() {
    let test = test_name!();
    if tool(test, "strace").is_none() {
        return;
    }
    let dir = support::folder();
    let (input, log) = (capture_file(dir.path()), dir.path().join("log"));
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (file, one) = (path("file"), path("one"));
    fs::create_dir(&one).unwrap();
    let runs = [
        vec!["capture", "-w", &file, "--read"],
        vec!["capture", "-w", &file, "--compress", "zstd", "--read"],
        vec!["capture", "--dir", &one, "--read"],
        vec!["split", "--dir", &one, "--members", "3", "--read"],
        vec!["merge", "-w", &file],
    ];
    for (run, rings) in runs.iter().zip([1, 1, 1, 3, 1]) {
        let mut command = Command::new("strace");
        let calls = "trace=io_uring_setup,seccomp";
        command.args(["-f", "-qq", "-e", calls, "-o"]).arg(&log).arg(QUAFF);
        command.args(run).arg(&input).arg("--json");
        let done = command.output().expect("it runs");
        let stderr = String::from_utf8_lossy(&done.stderr);
        let report: Value = serde_json::from_slice(&done.stdout).expect("a report");
        assert_eq!(done.status.code(), Some(0), "{run:?}: {report} {stderr}");
        assert!(!stderr.contains("refused"), "{run:?}: {stderr}");
        if report.get("sandbox").is_some() {
            assert_in_force(&report, &[]);
        }
        let log = fs::read_to_string(&log).unwrap();
        let calls: Vec<_> = log.lines().collect();
        // The file is read when the first filter is in force.
        let filter = calls.iter().position(|call| call.contains("SECCOMP_SET_MODE_FILTER"));
        let (before, after) = calls.split_at(filter.expect("system calls are restricted"));
        let made = |calls: &[&str]| calls.iter().filter(|call| call.contains("io_uring_setup(")).count();
        assert_eq!((made(before), made(after)), (rings, 0), "{run:?}: {log}");
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
    let runs: [&[&str]; 6] = [
        &["capture", "--decap", "auto", "--salvage", "--json", "-w", "/dev/null", "--read"],
        &["capture", "--format", "pcap", "-f", "tcp or udp", "--json", "-w", "/dev/null", "--read"],
        &["split", "--members", "2", "--decap", "--salvage", "--json", "--dir", &parts, "--read"],
        &["verify", "--salvage", "--json"],
        &["info", "--json"],
        &["info", "--traffic", "--json"],
    ];
    for (name, bytes) in &files {
        let mut codes = [[0u32; 3]; 6];
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
