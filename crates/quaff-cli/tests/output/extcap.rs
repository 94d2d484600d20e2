//! `quaff extcap` with the real tshark: it lists our interfaces, and a capture that it starts is
//! complete, on the disk also when tshark stands still.

use crate::support::{Bench, PATIENCE, below, finish, interrupt, lab_bench, names, run, tool, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_os::process::send;
use quaff_testkit::test_name;
use std::process::Command;
use std::time::{Duration, Instant};

/// A lab, and a home in which Wireshark finds quaff. `None` after a skip.
fn prepare(test: &str, bytes: u64) -> Option<Bench> {
    let bench = Bench::new(test, bytes)?;
    tool(test, "tshark")?;
    let printed = run(at_home(&bench, &mut bench.quaff(&["extcap", "--install"])));
    assert!(printed.contains("quaff-extcap"), "{printed}");
    Some(bench)
}

/// The command with the test's own home.
fn at_home<'a>(bench: &Bench, command: &'a mut Command) -> &'a mut Command {
    command.env("HOME", bench.dir.path()).env_remove("XDG_CONFIG_HOME")
}

fn tshark(bench: &Bench, args: &[&str]) -> Command {
    let mut command = bench.lab.rx.command("tshark").expect("a command in the lab");
    at_home(bench, command.args(args));
    command
}

/// Waits until quaff captures for this tshark: its ring is open.
fn await_capture(bench: &Bench, running: &ChildProcess) -> u32 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let quaff = below(running.pid()).into_iter().find(|(_, name)| name == "quaff").map(|(pid, _)| pid);
        let lists = |pid: u32| {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            threads
                .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
                .collect::<String>()
        };
        // The writer is the last thread to start, and by then each lane captures.
        if let Some(pid) = quaff.filter(|pid| lists(*pid).contains("quaff-writer")) {
            return pid;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("tshark starts no capture: {} {:?}", running.heard, bench.dir.path());
}

#[test]
fn tshark_lists_our_interfaces_and_their_options() {
    let Some(bench) = prepare(test_name!(), 1 << 20) else { return };
    let listed = run(&mut tshark(&bench, &["-D"]));
    assert!(listed.contains("quaff-rx0 (quaff on rx0)") && listed.contains("quaff-lo"), "{listed}");
    let dlts = run(&mut tshark(&bench, &["-i", "quaff-rx0", "-L"]));
    assert!(dlts.contains("EN10MB"), "{dlts}");
    // tshark has made settings of our options.
    let settings = run(&mut tshark(&bench, &["-G", "currentprefs"]));
    for option in ["filter", "snaplen", "decap", "inner", "ring", "buffer", "tee"] {
        assert!(settings.contains(&format!("extcap.quaff_rx0.{option}")), "{option}");
    }
}

#[test]
fn a_filter_is_right_or_wrong_in_a_line() {
    let bench = lab_bench!(1 << 20);
    let printed = |filter: &str| {
        let args = ["extcap", "--extcap-capture-filter", filter, "--extcap-interface", "quaff-rx0"];
        run(&mut bench.quaff(&args))
    };
    assert_eq!(printed("udp port 53 and len > 100"), "");
    assert_eq!(printed(""), "");
    let wrong = printed("udp prot 53");
    assert!(wrong.lines().count() == 1 && wrong.contains("syntax error"), "{wrong}");
    let done = bench.quaff(&["extcap", "--extcap-interface", "quaff-rx7", "--extcap-dlts"]).output().unwrap();
    assert!(done.status.code() == Some(2) && done.stdout.is_empty(), "{done:?}");
}

#[test]
fn a_capture_that_tshark_starts_is_complete() {
    let Some(bench) = prepare(test_name!(), 1 << 28) else { return };
    let file = bench.path("shark.pcapng");
    let args =
        ["-i", "quaff-rx0", "-q", "-f", "udp", "-o", "extcap.quaff_rx0.filter:src port 1", "-w", &file];
    let running = ChildProcess::start(tshark(&bench, &args)).expect("tshark runs");
    let quaff = await_capture(&bench, &running);
    bench.generate("--size 300 --count 30000 --pps 30000");
    bench.generate("--size 300 --count 100 --stream 9");
    // What is on its way through two pipes arrives.
    std::thread::sleep(Duration::from_secs(2));
    let ended = interrupt(running);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("quaff:"), "nothing to say: {}", ended.stderr);
    let found = verify(&[&file]);
    assert_eq!((&found["received"], &found["complete"]), (&30_000.into(), &true.into()), "{found}");
    assert!(send(quaff, Signal::SIGCONT).is_err(), "quaff has ended with it");
}

#[test]
fn options_of_the_dialog_are_those_of_the_capture() {
    let Some(bench) = prepare(test_name!(), 1 << 28) else { return };
    let file = bench.path("shark.pcapng");
    let options =
        ["decap:erspan", "inner:src port 3", "snaplen:80"].map(|option| format!("extcap.quaff_rx0.{option}"));
    let options = options.iter().flat_map(|option| ["-o", option]);
    let args: Vec<_> = ["-i", "quaff-rx0", "-q", "-w", &file].into_iter().chain(options).collect();
    let running = ChildProcess::start(tshark(&bench, &args)).expect("tshark runs");
    await_capture(&bench, &running);
    bench.generate("--size 300 --count 2000 --pps 20000 --stream 3 --erspan 5");
    bench.generate("--size 300 --count 1000 --pps 20000 --stream 4 --erspan 5");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(interrupt(running).code, 0);
    let found = verify(&[&file]);
    assert_eq!(
        (&found["received"], &found["complete"], &found["foreign"]),
        (&2000.into(), &true.into(), &0.into()),
        "{found}"
    );
    let lengths =
        run(tool(test_name!(), "tshark").unwrap().args(["-r", &file, "-T", "fields", "-e", "frame.cap_len"]));
    assert!(lengths.lines().all(|length| length == "80"), "{lengths}");
}

#[test]
fn a_stalled_tshark_costs_the_disk_nothing() {
    let Some(bench) = prepare(test_name!(), 2 << 30) else { return };
    let (file, disk) = (bench.path("shark.pcapng"), bench.path("disk"));
    std::fs::create_dir(&disk).unwrap();
    let tee = format!("extcap.quaff_rx0.tee:{disk}");
    let args = [
        "-i",
        "quaff-rx0",
        "-q",
        "-o",
        &tee,
        "-o",
        "extcap.quaff_rx0.buffer:64M",
        "-o",
        "extcap.quaff_rx0.ring:16M",
    ];
    let running =
        ChildProcess::start(tshark(&bench, &[&args[..], &["-w", &file]].concat())).expect("tshark runs");
    let quaff = await_capture(&bench, &running);
    let stalled: Vec<u32> = below(running.pid())
        .into_iter()
        .filter(|(_, name)| name == "dumpcap")
        .map(|(pid, _)| pid)
        .chain([running.pid()])
        .collect();
    assert_eq!(stalled.len(), 2, "{:?}", below(running.pid()));
    stalled.iter().for_each(|pid| send(*pid, Signal::SIGSTOP).expect("it runs"));
    // More than the pipes, the copy's ring, the buffer and the kernel's ring hold together.
    bench.generate_for_disk(disk.as_ref(), 12);
    send(quaff, Signal::SIGTERM).expect("it runs");
    let begun = Instant::now();
    // It is a child of tshark, which stands still: dead, but not gone.
    let is_over = || {
        let stat = std::fs::read_to_string(format!("/proc/{quaff}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    while !is_over() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(is_over(), "it does not wait for a reader that stands still");
    stalled.iter().for_each(|pid| send(*pid, Signal::SIGCONT).expect("it is there"));
    let ended = finish(running);
    assert!(ended.stderr.contains("Wireshark was too slow for"), "{}", ended.stderr);
    let files = names(disk.as_ref());
    assert!(files.iter().all(|name| name.ends_with(".pcapng")), "{files:?}");
    let paths: Vec<_> = files.iter().map(|name| format!("{disk}/{name}")).collect();
    let found = verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["received"], &found["complete"]), (&120_000.into(), &true.into()), "{found}");
}
