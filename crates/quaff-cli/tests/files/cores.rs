//! Commands that read files use the cores that they may use, or as many threads as they were given: the results are
//! those of one core, byte for byte.
//!
//! Each capture is repeated until threads have several parts to look at; so times go back, and sections follow others.

use quaff_testkit::{captures, skip, test_name};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
/// Bytes of a repeated capture at least.
const BYTES: usize = 5 << 18;
/// Fields for which the meter looks into packets.
const EXTRAS: &str =
    "%IPV4_SRC_ADDR %L7_PROTO_NAME %RETRANSMITTED_IN_PKTS %CLIENT_NW_LATENCY_MS %TLS_SERVER_NAME %IN_SRC_MAC";

/// Command lines for a file; `FILE` and `OUT` stand for it and for an output.
const COMMANDS: [&[&str]; 9] = [
    &["flows", "--read", "FILE", "--jsonl", "-", "--ledger", "/dev/stderr", "-q"],
    &["flows", "--read", "FILE", "--csv", "-", "-T", EXTRAS, "-q"],
    &[
        "flows",
        "--read",
        "FILE",
        "--jsonl",
        "-",
        "-f",
        "ip",
        "--max-flows",
        "100",
        "--idle",
        "2s",
        "--uniflow",
        "-q",
    ],
    &["flows", "--read", "FILE", "--jsonl", "-", "--decap", "auto", "--sample", "1/3", "-q"],
    &["capture", "--read", "FILE", "-f", "tcp or udp port 53", "-w", "OUT", "--json"],
    &["capture", "--read", "FILE", "--decap", "auto", "--from", "+1ms", "-w", "OUT", "--json"],
    &["capture", "--read", "FILE", "--decap", "auto", "-f", "ip", "-w", "OUT", "--json"],
    &["capture", "--read", "FILE", "-f", "ip", "-c", "700", "-w", "OUT", "--json"],
    &["verify", "--json", "FILE"],
];

/// The first core that this process may use: a container need not have core 0.
fn first_core() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    list.trim().chars().take_while(char::is_ascii_digit).collect()
}

/// The cores or threads of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    OneCore,
    AllCores,
    FourLanes,
}

fn run(args: &[&str], file: &Path, out: &Path, of: Use) -> Output {
    let mut command = if of == Use::OneCore { Command::new("taskset") } else { Command::new(QUAFF) };
    if of == Use::OneCore {
        command.args(["-c", &first_core(), QUAFF]);
    }
    let path = |name: &&str| match *name {
        "FILE" => file.display().to_string(),
        "OUT" => out.display().to_string(),
        other => other.to_owned(),
    };
    command.args(args.iter().map(path));
    if of == Use::FourLanes {
        command.args(["--lanes", "4"]);
    }
    command.output().expect("quaff runs")
}

/// Text with its JSON, without what is of the machine and of the run.
fn without_run(text: &[u8]) -> (String, Value) {
    let text = String::from_utf8_lossy(text).into_owned();
    let Some(at) = text.find('{') else { return (text, Value::Null) };
    let first = serde_json::Deserializer::from_str(&text[at..]).into_iter().next();
    let mut json: Value = first.and_then(Result::ok).unwrap_or_default();
    strip(&mut json);
    (text[..at].to_owned(), json)
}

fn strip(json: &mut Value) {
    let of_run = ["seconds", "probes_max", "sandbox", "evicted", "memory", "buffer", "resident"];
    match json {
        Value::Object(fields) => {
            fields.retain(|name, _| !of_run.iter().any(|of_run| name.contains(of_run)));
            fields.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

fn has_unchecked(report: &[u8]) -> bool {
    without_run(report).1["copies"]["unchecked"] != 0
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_equal(args: &[&str], file: &Path, dir: &Path) {
    let out = dir.join("out.pcapng");
    let by = |of: Use| {
        let done = run(args, file, &out, of);
        (done, std::fs::read(&out).unwrap_or_default())
    };
    let (one, one_file) = by(Use::OneCore);
    for of in [Use::AllCores, Use::FourLanes] {
        let (other, other_file) = by(of);
        let what = format!("{} of {} by {of:?}", args.join(" "), file.display());
        assert_eq!(one.status, other.status, "{what}: {one:?} {other:?}");
        let is_equal = match args[0] {
            "flows" => one.stdout == other.stdout,
            // Which copies of packets a full table finds depends on its random secret.
            "verify" if [&one, &other].iter().any(|done| has_unchecked(&done.stdout)) => true,
            _ => without_run(&one.stdout) == without_run(&other.stdout),
        };
        assert!(is_equal, "{what}:\n{}\n{}", text(&one.stdout), text(&other.stdout));
        let [of_one, of_other] = [&one, &other].map(|done| without_run(&done.stderr).1);
        assert!(of_one == of_other, "{what}:\n{of_one}\n{of_other}");
        assert!(one_file == other_file, "{what}: the files differ");
    }
}

/// A file with the content of `path` several times; as it is where that is not possible.
fn repeated(path: &Path, dir: &Path) -> PathBuf {
    let bytes = std::fs::read(path).expect("a capture");
    let is_pcap =
        [[0xd4, 0xc3, 0xb2, 0xa1], [0x4d, 0x3c, 0xb2, 0xa1]].iter().any(|magic| bytes.starts_with(magic));
    let (head, body) = bytes.split_at(if is_pcap { 24.min(bytes.len()) } else { 0 });
    if body.is_empty() || !is_pcap && !bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) {
        return path.to_owned();
    }
    let times = BYTES.div_ceil(body.len());
    let repeated = dir.join(path.file_name().expect("a name"));
    std::fs::write(&repeated, [head, &body.repeat(times)].concat()).expect("a place for it");
    repeated
}

#[test]
fn captures_give_the_same_on_one_core_and_on_all() {
    let in_folder = |folder: &str| std::fs::read_dir(captures().join(folder)).into_iter().flatten().flatten();
    let all = ["", "protocols", "tunnels"].into_iter().flat_map(in_folder).map(|entry| entry.path());
    let mut files: Vec<_> = all.filter(|path| path.is_file()).collect();
    files.sort();
    if files.is_empty() {
        return skip(test_name!(), "no captures; QUAFF_CAPTURES says where to look");
    }
    let dir = tempfile::tempdir().expect("a folder");
    for (number, path) in files.iter().enumerate() {
        let file = repeated(path, dir.path());
        // In turns: each capture meets one of them.
        assert_equal(COMMANDS[number % COMMANDS.len()], &file, dir.path());
        if file != *path {
            std::fs::remove_file(file).expect("the test made it");
        }
    }
}
