//! `quaff generate -w`: what tshark, which knows nothing of us, finds in made-up traffic.

use crate::support::{PATIENCE, QUAFF, run, tool};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_os::process::send;
use quaff_testkit::test_name;
use quaff_wire::decode::{Decoder, Item, Step};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Right or wrong, checksums are looked at (in both passes: what comes later counts for a conversation);
/// and what is behind the headers is left alone, since content that was made up may look like anything.
const READING: &str = "-2 -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o tcp.check_checksum:TRUE \
    -d udp.port==29045,data -d tcp.port==29045,data";
/// Findings that it must not report. (Requests without an answer are intended.)
const WRONG: &str = "_ws.malformed || ip.checksum.status == 0 || (_ws.expert.severity >= 0x600000 && \
    !icmp.resp_not_found && !icmpv6.resp_not_found) || \
    tcp.checksum.status == 0 || udp.checksum.status == 0 || icmp.checksum.status == 0 || \
    icmpv6.checksum.status == 0 || tcp.analysis.flags";

/// Makes a file; its report.
fn generate(file: &Path, args: &str) -> Value {
    let mut command = Command::new(QUAFF);
    command.arg("generate").arg("-w").arg(file).args(args.split_whitespace()).arg("--json");
    serde_json::from_str(&run(&mut command)).expect("a report")
}

/// The values of these fields as tshark prints them, for frames that match the filter.
fn read(tshark: &str, file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new(tshark);
    command.arg("-r").arg(file).args(READING.split_whitespace()).args(["-T", "fields"]);
    if !filter.is_empty() {
        command.args(["-Y", filter]);
    }
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    run(&mut command).lines().map(str::to_owned).collect()
}

#[test]
fn tshark_finds_nothing_wrong() {
    let test = test_name!();
    if tool(test, "tshark").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    for (number, (args, protocols)) in [
        ("--size imix --flows 50 --content random", "eth:ethertype:ip:udp:data"),
        ("--size 90-300 --flows 50 -6 --content ones", "eth:ethertype:ipv6:udp:data"),
        ("--size 64 --tcp syn --new-flows each", "eth:ethertype:ip:tcp"),
        ("--size 100 --icmp --vlan 5,6", "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:icmp:data"),
        ("--size 100 --icmp --ipv6", "eth:ethertype:ipv6:icmpv6:data"),
        ("--size 100,400 --mpls 16,17", "eth:ethertype:mpls:ip:udp:data"),
        ("--size 100,400 --erspan 7", "eth:ethertype:ip:gre:erspan:eth:ethertype:ip:udp:data"),
        (
            "--size 100,400 --vxlan 7 --tcp syn --new-flows each",
            "eth:ethertype:ip:udp:vxlan:eth:ethertype:ip:tcp",
        ),
        ("--size 70-1400 --tcp talk --flows 7", "eth:ethertype:ip:tcp"),
        ("--size 90-1400 --tcp talk --flows 7 --ipv6 --segments 3", "eth:ethertype:ipv6:tcp"),
        ("--size 300-3000 --fragment 500", "eth:ethertype:ip"),
        ("--size 300-3000 --fragment 500 -6", "eth:ethertype:ipv6"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{number}.pcap"));
        let report = generate(&file, &format!("{args} --count 2000 --pps 1000"));
        for key in ["intended", "sent", "confirmed"] {
            assert_eq!(report[key], 2000, "{args}: {report}");
        }
        let wrong = read("tshark", &file, WRONG, &["frame.number", "frame.protocols", "_ws.expert.message"]);
        assert!(wrong.is_empty(), "{args}: {:?}", &wrong[..wrong.len().min(5)]);
        let found = read("tshark", &file, "", &["frame.protocols"]);
        assert_eq!(found.len(), 2000, "{args}");
        let other = found.iter().find(|found| !found.starts_with(protocols));
        assert_eq!(other, None, "{args}");
    }
}

#[test]
fn conversations_are_whole_and_datagrams_come_together() {
    let test = test_name!();
    if tool(test, "tshark").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("talk.pcap");
    // 30 conversations of 3 + 4 + 3 segments.
    generate(&file, "--tcp talk --segments 4 --flows 10 --size 200 --count 300 --pps 10k");
    let completeness =
        read("tshark", &file, "tcp.flags.syn == 1 && tcp.flags.ack == 0", &["tcp.completeness"]);
    // SYN, SYN-ACK, ACK, data, FIN: 1 + 2 + 4 + 8 + 16.
    assert_eq!(completeness, vec!["31"; 30]);
    let file = dir.path().join("pieces.pcap");
    // 966 bytes after the IP header, in fragments of 496: two frames each.
    generate(&file, "--fragment 500 --size 1000 --count 200 --content random");
    let whole = read("tshark", &file, "ip.reassembled.length == 966", &["udp.checksum.status"]);
    assert_eq!(whole, vec!["1"; 100]);
}

#[test]
fn damage_is_as_much_as_the_report_says() {
    let test = test_name!();
    if tool(test, "tshark").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("damaged.pcap");
    let args = "--size 200 --count 10000 --damage checksum=3%,ip-checksum=2%";
    let report = generate(&file, args);
    let damaged = &report["made"]["damaged"];
    for (name, filter, around) in
        [("checksum", "udp.checksum.status == 0", 300), ("ip-checksum", "ip.checksum.status == 0", 200)]
    {
        let found = read("tshark", &file, filter, &["frame.number"]).len() as u64;
        assert_eq!(damaged[name], found, "{name}");
        assert!(found.abs_diff(around) < 100, "{name}: {found}");
    }
    let report = generate(&file, "--size 200 --count 10000 --damage cut=5% --no-stamp");
    let cut = read("tshark", &file, "frame.len < 200", &["frame.number"]).len();
    assert_eq!(report["made"]["damaged"]["cut"], cut);
    // And our own reader finds each of them.
    let report = generate(&file, "--size 200 --count 10000 --damage flip=4%");
    let mut verify = Command::new(QUAFF);
    verify.arg("verify").arg(&file).arg("--json");
    let done = verify.output().expect("quaff runs");
    assert_eq!(done.status.code(), Some(1));
    let verdict: Value = serde_json::from_slice(&done.stdout).expect("a report");
    assert_eq!(verdict["corrupt"], report["made"]["damaged"]["flip"]);
    assert_eq!(
        verdict["received"].as_u64(),
        report["made"]["stamped"].as_u64().map(|all| all - verdict["corrupt"].as_u64().unwrap_or(0))
    );
}

#[test]
fn the_same_line_makes_the_same_frames() {
    let dir = tempfile::tempdir().expect("a folder");
    let make = |name: &str, seed| {
        let file = dir.path().join(name);
        let args = "--size 64-200 --flows 9 --content random --no-stamp --damage flip=5% --count 500";
        generate(&file, &format!("{args} --seed {seed}"));
        // Without the times.
        let bytes = std::fs::read(file).expect("a file");
        let mut at = 24;
        let mut frames = Vec::new();
        while at < bytes.len() {
            let len = u32::from_ne_bytes(bytes[at + 8..at + 12].try_into().expect("4 bytes")) as usize;
            frames.push(bytes[at + 16..at + 16 + len].to_vec());
            at += 16 + len;
        }
        frames
    };
    let first = make("a", 1);
    assert_eq!(first.len(), 500);
    assert_eq!(first, make("b", 1));
    assert_ne!(first, make("c", 2));
}

#[test]
fn learned_sizes_are_drawn_as_they_were() {
    let test = test_name!();
    let Some(capture) = quaff_testkit::capture(test, "mix.pcap") else { return };
    if tool(test, "tshark").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (file, saved) = (dir.path().join("made.pcap"), dir.path().join("sizes.txt"));
    let args = format!("--sizes-from {} --sizes-save {} --count 200k", capture.display(), saved.display());
    generate(&file, &args);
    let mut found: HashMap<u32, f64> = HashMap::new();
    for len in read("tshark", &file, "", &["frame.len"]) {
        *found.entry(len.parse().expect("a length")).or_default() += 1.0;
    }
    let text = std::fs::read_to_string(&saved).expect("what was saved");
    let classes: Vec<(u32, u32, f64)> =
        text.lines().filter(|line| !line.starts_with('#')).map(class).collect();
    let total: f64 = classes.iter().map(|class| class.2).sum();
    let (mut chi, mut cells, mut counted) = (0.0, 0.0, 0.0);
    for (first, last, weight) in classes {
        let expected = 200_000.0 * weight / total;
        let seen: f64 = (first..=last).filter_map(|size| found.get(&size)).sum();
        counted += seen;
        if expected >= 5.0 {
            chi += (seen - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    assert_eq!(counted, 200_000.0, "nothing but what was there");
    assert!(cells > 50.0, "{cells} classes");
    assert!((chi - cells) / (2.0 * cells).sqrt() < 5.0, "chi-square {chi} for {cells} classes");
    // What was saved makes the same frames.
    let again = dir.path().join("again.pcap");
    generate(&again, &format!("--sizes-from {} --count 1000 --no-stamp", saved.display()));
    generate(&file, &format!("--sizes-from {} --count 1000 --no-stamp", capture.display()));
    let sizes = |file| read("tshark", file, "", &["frame.len"]);
    assert_eq!(sizes(&again), sizes(&file));
}

/// A line of a file of sizes.
fn class(line: &str) -> (u32, u32, f64) {
    let (range, weight) = line.split_once(' ').expect("two words");
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    (first.parse().expect("a size"), last.parse().expect("a size"), weight.parse().expect("a weight"))
}

/// Waits for a line of `errors` with `words`.
fn wait_for_line(errors: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "no line has '{words}'");
    }
}

#[test]
fn senders_print_progress_on_sigusr1_and_every_interval_and_end_with_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.pcap").display().to_string();
    generate(Path::new(&file), "--count 100 --pps 1000");
    let made = ["generate", "-w", "/dev/null", "--pps", "1000000", "--duration", "90d"].map(str::to_owned);
    let replayed =
        ["replay", "-w", "/dev/null", "--pps", "1000000", "--loop", "1000000000", &file].map(str::to_owned);
    let sent = ["generate", "-o", "lo", "--size", "64", "--pps", "10", "--count", "1000"].map(str::to_owned);
    for (line, code) in [(&made[..], 0), (&replayed[..], 0), (&sent[..], 0)] {
        for more in [&[][..], &["--stats", "100ms"][..]] {
            let mut command = Command::new(QUAFF);
            command.args(line).args(more).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut running = command.spawn().unwrap();
            let mut errors = BufReader::new(running.stderr.take().unwrap());
            if more.is_empty() {
                wait_until_blocked(running.id(), Signal::SIGUSR1);
                send(running.id(), Signal::SIGUSR1).unwrap();
            }
            wait_for_line(&mut errors, " s | sent ");
            send(running.id(), Signal::SIGHUP).unwrap();
            let ended = running.wait_with_output().unwrap();
            let report: Value = serde_json::from_slice(&ended.stdout).expect("a report");
            assert_eq!((ended.status.code(), &report["interrupted"]), (Some(code), &true.into()), "{line:?}");
        }
    }
}

/// Waits until the process has blocked `signal`, which would kill it before.
pub(crate) fn wait_until_blocked(pid: u32, signal: Signal) {
    let mask = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        u64::from_str_radix(mask.trim(), 16).expect("hexadecimal digits")
    };
    while mask() & 1 << (signal as u32 - 1) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The packets in a file that is whole, as another command reads it.
fn packets(file: &Path) -> u64 {
    let mut info = Command::new(QUAFF);
    let found: Value = serde_json::from_str(&run(info.args(["info", "--json"]).arg(file))).expect("a report");
    let found = found["files"].get(0).unwrap_or(&found);
    assert!(found["skipped"]["count"].as_u64().unwrap_or(0) == 0, "{found}");
    found["packets"].as_u64().unwrap_or_else(|| panic!("{found}"))
}

/// RLIMIT_FSIZE, as ulimit -f sets it, or a file system with files of 4 GiB at most: EFBIG, and SIGXFSZ where that is
/// not blocked.
#[test]
fn a_file_that_may_not_grow_ends_with_a_whole_packet_and_an_error() {
    let test = test_name!();
    if tool(test, "prlimit").is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let trace = dir.path().join("trace.pcap");
    generate(&trace, "--count 20000 --pps 1000 --size imix --content random");
    let trace = trace.display().to_string();
    for name in ["a.pcap", "a.pcapng", "a.pcap.zst", "a.pcap.lz4", "a.pcap.gz", "-"] {
        let is_plain = !name.contains(".pcap.");
        for limit in [100_000, if is_plain { 3_000_000 } else { 200_000 }] {
            for command in [
                format!("generate --count 20000 --pps 1000 --size imix --content random -w {name}"),
                format!("replay {trace} -w {name}"),
            ] {
                let mut limited = Command::new("prlimit");
                limited.arg(format!("--fsize={limit}")).arg(QUAFF).args(command.split_whitespace());
                let out = std::fs::File::create(dir.path().join("out.pcap")).expect("a file");
                let done = limited.current_dir(dir.path()).stdout(out).output().expect("it runs");
                let said = String::from_utf8_lossy(&done.stderr);
                assert_eq!(done.status.code(), Some(2), "{command}: {said}");
                let count = said.split("more than ").nth(1).and_then(|rest| rest.split(' ').next());
                let count: u64 = count.and_then(|count| count.parse().ok()).expect(&said);
                assert!(said.contains("too large") && said.contains("ulimit -f"), "{said}");
                if name == "-" {
                    continue;
                }
                let file = dir.path().join(name);
                assert_eq!(packets(&file), count, "{command}: {said}");
                let bytes = file.metadata().expect("a file").len();
                assert!(bytes <= limit && bytes > limit - 4000, "{command}: {bytes} of {limit}");
            }
        }
    }
}

/// Each loop used to open the file twice and to start two threads: 100,000 took minutes.
#[test]
fn loops_of_a_small_file_continue_its_times_and_are_quick() {
    let dir = tempfile::tempdir().expect("a folder");
    let (file, long) = (dir.path().join("a.pcap"), dir.path().join("long.pcap"));
    generate(&file, "--count 2 --pps 10");
    let replay = |loops: &str| {
        let mut command = Command::new(QUAFF);
        command.arg("replay").arg(&file).arg("-w").arg(&long).args(["--loop", loops]);
        let done = ChildProcess::start(command).expect("it runs").finish(PATIENCE).expect("it ends");
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    };
    replay("3");
    let bytes = std::fs::read(&long).expect("a file");
    let (mut rest, mut decoder, mut times) = (&bytes[..], Decoder::default(), Vec::new());
    while let Ok(Step::Item(item)) = decoder.next(&mut rest) {
        if let Item::Frame(frame) = item {
            times.push(frame.time_ns);
        }
    }
    let since: Vec<u64> = times.iter().map(|time_ns| (time_ns - times[0]) / 1_000_000).collect();
    assert_eq!(since, [0, 100, 100, 200, 200, 300]);
    replay("100000");
    assert_eq!(packets(&long), 200_000);
}
