//! `quaff tcpreplay` beside the real tcpreplay, in a lab: the lines of Tcpreplay's how-to, its final
//! text, and its figures.

use crate::generate_file::wait_until_blocked;
use crate::support::{Bench, PATIENCE, QUAFF, run, tool};
use crate::traffic;
use quaff_lab::RX;
use quaff_os::{Signal, process};
use quaff_testkit::{Receiver, captures, skip, test_name};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The lines of the how-to; its interface is the lab's, its files are ours.
const HOW_TO: [&str; 4] = [
    "tcpreplay -i tx0 -tK --loop 50 --unique-ip bigFlows.pcap",
    "tcpreplay -i tx0 -K --mbps 3500 --loop 50 --unique-ip bigFlows.pcap",
    "tcpreplay -i tx0 -tK --loop 50 --unique-ip --netmap bigFlows.pcap",
    "tcpreplay -i tx0 -tK --loop 50 --unique-ip --netmap smallFlows.pcap",
];

/// A lab with files in it, whose far end takes what XDP sends.
fn bench(test: &str) -> Option<Bench> {
    let bench = Bench::new(test, 64 << 20)?;
    traffic::write(Path::new(&bench.path("bigFlows.pcap")), 3000);
    traffic::write(Path::new(&bench.path("smallFlows.pcap")), 500);
    if tool(test, "ethtool").is_some() {
        let mut ethtool = bench.lab.rx.command("ethtool").expect("a command in the lab");
        run(ethtool.args(["-K", "rx0", "gro", "on"]));
    }
    Some(bench)
}

/// The stdout and stderr of a command line.
#[track_caller]
fn said(bench: &Bench, program: &str, args: &str) -> (String, String) {
    let mut command = bench.lab.tx.command(program).expect("a command in the lab");
    let command = command.args(args.split_whitespace()).current_dir(bench.dir.path()).env("TZ", "UTC");
    let done = command.output().expect("it runs");
    let [out, err] = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert!(done.status.success(), "{program} {args}: {out}{err}");
    (out, err)
}

fn ours(bench: &Bench, args: &str) -> (String, String) {
    said(bench, QUAFF, &format!("tcpreplay {args}"))
}

/// The figures that a script for tcpreplay's output reads in it.
fn figures(text: &str) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/tcpreplay.awk");
    let awk = Command::new("awk").args(["-f", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut awk = awk.expect("awk runs");
    awk.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("awk reads");
    let done = awk.wait_with_output().expect("awk ends");
    String::from_utf8(done.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// The same text without what depends on the clock.
fn shape(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let is_clock =
            |word: &&str| word.contains('.') || word.contains(':') && word.starts_with(char::is_numeric);
        let timed = ["Actual:", "Rated:", "Flows:", "Test"].iter().any(|head| line.starts_with(head));
        let words = line.split(' ').map(|word| match word.trim_end_matches("...") {
            number if timed && is_clock(&number) && number.starts_with(char::is_numeric) => "#",
            _ => word,
        });
        out += &words.collect::<Vec<_>>().join(" ");
        out.push('\n');
    }
    out
}

#[test]
fn the_lines_of_the_how_to_work_with_quaff_in_front() {
    let Some(bench) = bench(test_name!()) else { return };
    for line in HOW_TO {
        let (out, err) = said(&bench, QUAFF, line);
        let frames: u64 = if line.contains("small") { 500 } else { 3000 };
        let bytes: u64 = (0..frames).map(|n| traffic::frame(n).len() as u64).sum();
        let expected = [
            format!("packets {}", frames * 50),
            format!("bytes {}", bytes * 50),
            format!("flows {}", traffic::PAIRS * 2 * 50),
            format!("flow packets {}", frames * 50),
            "non-flow packets 0".into(),
            format!("tx0 successful {}", frames * 50),
            "tx0 failed 0".into(),
            "tx0 truncated 0".into(),
        ];
        assert_eq!(figures(&out), expected, "{line}\n{out}");
        assert!(err.contains("File Cache is enabled\n"), "{err}");
        assert_eq!(err.contains("fastest backend"), line.contains("netmap"), "{err}");
    }
}

#[test]
fn the_final_text_is_tcpreplays() {
    let test = test_name!();
    let Some(bench) = bench(test) else { return };
    if tool(test, "tcpreplay").is_none() {
        return;
    }
    for args in [
        "-t",
        "-tK",
        "-tKq",
        "-t -l 3",
        "-tK -l 3",
        "-t -l 3 --unique-ip",
        "-tK --loop=3 --unique-ip",
        "-t --flow-expiry 1",
        "-t --no-flow-stats",
        "-t -L 100",
        "-x 20",
        "-p 5000 -K",
        "-M 300 -l 2",
        "-t smallFlows.pcap",
    ] {
        let args = format!("-i tx0 {args} smallFlows.pcap");
        let (theirs, their_errors) = said(&bench, "tcpreplay", &args);
        let (out, errors) = ours(&bench, &args);
        assert_eq!(figures(&out), figures(&theirs), "{args}\n{out}{theirs}");
        assert_eq!(shape(&out), shape(&theirs), "{args}");
        assert_eq!(errors, their_errors, "{args}");
    }
}

#[test]
fn statistics_come_as_tcpreplay_has_them() {
    let test = test_name!();
    let Some(bench) = bench(test) else { return };
    if tool(test, "tcpreplay").is_none() {
        return;
    }
    let args = "-i tx0 -K -p 50000 -l 3 --stats 0 bigFlows.pcap";
    let (theirs, _) = said(&bench, "tcpreplay", args);
    let (out, _) = ours(&bench, args);
    let heads = |text: &str| -> Vec<String> {
        let heads = text.lines().map(|line| line.split([':', '.']).next().unwrap_or_default().to_owned());
        heads.collect()
    };
    assert_eq!(heads(&out), heads(&theirs), "{out}{theirs}");
    let (out, _) = ours(&bench, "-i tx0 -p 1000 -L 2500 --stats 1 bigFlows.pcap");
    let times = out.lines().filter(|line| line.starts_with("Actual: ")).count();
    assert_eq!((times, out.starts_with("Test start: 20")), (3, true), "{out}");
}

/// The figures of both, without those that tcpreplay has wrong: see docs/tcpreplay.md.
#[test]
fn two_interfaces_as_tcpreplay_has_them() {
    let test = test_name!();
    let Some(bench) = bench(test) else { return };
    if tool(test, "tcpreplay").is_none() || tool(test, "tcpprep").is_none() {
        return;
    }
    // A second way out of the lab's namespace.
    let mut ip = bench.lab.tx.command("ip").expect("a command in the lab");
    run(ip.args("link add tx1 type veth peer name rx1".split(' ')));
    for link in ["tx1", "rx1"] {
        let mut ip = bench.lab.tx.command("ip").expect("a command in the lab");
        run(ip.args(["link", "set", link, "up"]));
    }
    traffic::write(Path::new(&bench.path("other.pcap")), 300);
    said(&bench, "tcpprep", "--cidr=10.0.0.0/24 -i bigFlows.pcap -o sides");
    for args in
        ["-t -c sides bigFlows.pcap", "-tK -c sides -l 2 bigFlows.pcap", "-t -2 bigFlows.pcap other.pcap"]
    {
        let args = format!("-i tx0 -I tx1 {args}");
        let ours =
            ours(&bench, &args).0.replace("Flows unique:              8", "Flows unique:              0");
        let ours = ours.replace("Flows unique:              16", "Flows unique:              0");
        let theirs = said(&bench, "tcpreplay", &args).0;
        assert_eq!(figures(&ours), figures(&theirs), "{args}");
        assert_eq!(shape(&ours), shape(&theirs), "{args}");
    }
}

#[test]
fn flow_figures_of_real_traffic_are_tcpreplays() {
    let test = test_name!();
    let Some(bench) = bench(test) else { return };
    if tool(test, "tcpreplay").is_none() {
        return;
    }
    let mix = captures().join("mix.pcap");
    if !mix.exists() {
        return skip(test, "no mix.pcap; QUAFF_CAPTURES says where to look");
    }
    let mix = mix.canonicalize().expect("a path");
    let args = format!("-i tx0 -tK {}", mix.display());
    let of_flows = |text: &str| -> Vec<String> {
        figures(text).into_iter().filter(|line| line.contains("flow")).collect()
    };
    let (theirs, ours) = (said(&bench, "tcpreplay", &args).0, ours(&bench, &args).0);
    assert_eq!(of_flows(&ours), of_flows(&theirs), "{ours}{theirs}");
}

#[test]
fn the_native_line_is_printed_and_can_be_typed() {
    let mut command = Command::new(QUAFF);
    let printed = run(command.args(["tcpreplay", "--native", "-i", "eth7", "-tK", "-l", "9", "/dev/null"]));
    assert_eq!(printed, "quaff replay --quiet -o eth7 --topspeed --loop 9 /dev/null\n");
}

#[test]
fn command_lines_with_mistakes_are_refused_with_the_reason() {
    for (args, message) in [
        (&["-i", "a", "-t", "-p", "5", "f"][..], "--pps and --topspeed cannot be combined"),
        (&["f"], "the intf1 option is required"),
        (&["-i", "a"], "name a file or a folder"),
        (&["-i", "a", "/nowhere/f"], "/nowhere/f"),
        (&["-i", "nowhere0", "/dev/null"], "nowhere0"),
    ] {
        let done = Command::new(QUAFF).arg("tcpreplay").args(args).output().expect("quaff runs");
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(message), "{args:?}: {error}");
    }
    let version = Command::new(QUAFF).args(["tcpreplay", "-i", "a", "-V"]).output().expect("quaff runs");
    assert!(version.stderr.starts_with(b"tcpreplay version: 4.4.3"));
}

/// The state of a process, as proc_pid_stat(5) has it.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).expect("a state")
}

/// As tcpreplay's manual says: SIGUSR1 suspends, SIGCONT restarts.
#[test]
fn sigusr1_suspends_and_sigcont_continues_without_a_burst() {
    let Some(bench) = bench(test_name!()) else { return };
    let receiver = Receiver::at(&bench.lab, RX.name);
    let mut command = bench.lab.tx.command(QUAFF).expect("a command in the lab");
    command.args(["tcpreplay", "-i", "tx0", "-p", "100", "-L", "300", "smallFlows.pcap"]);
    let running = command.current_dir(bench.dir.path()).stdout(Stdio::piped()).spawn().expect("it runs");
    let pid = running.id();
    wait_until_blocked(pid, Signal::SIGUSR1);
    std::thread::sleep(Duration::from_secs(1));
    process::send(pid, Signal::SIGUSR1).expect("it runs");
    let begun = Instant::now();
    while state(pid) != 'T' {
        assert!(begun.elapsed() < PATIENCE, "it is not stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(state(pid), 'T');
    process::send(pid, Signal::SIGCONT).expect("it runs");
    let done = running.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("Successful packets:        300"), "{said}");
    let times: Vec<u64> = receiver.frames(300).into_iter().map(|(time_ns, _)| time_ns / 1_000_000).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let pause = gaps.iter().position(|gap| *gap >= 690).expect("a pause");
    // 70 frames were due meanwhile; a machine that is busy lets some of the next ones wait.
    let after: u64 = gaps[pause + 1..].iter().take(60).sum();
    assert!(after > 400, "{after} ms for 60 frames after the pause: {gaps:?}");
}
