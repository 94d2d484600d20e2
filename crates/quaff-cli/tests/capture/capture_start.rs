//! The start and stop of a capture in the presence of obstacles.

use crate::support::{PATIENCE, QUAFF, finish, interrupt, lab_bench, run, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_start_that_fails_under_load_ends() {
    let bench = lab_bench!(1 << 27);
    let generate = ["generate", "--inject", "rx0", "--size", "1500", "--pps", "100000", "--duration", "4s"];
    let generator = ChildProcess::start(bench.quaff(&generate)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let file = bench.path("x.pcapng");
    // The second lane cannot be pinned; the first one is already busy and has little memory.
    let args = [
        "capture", "-i", "rx0", "-i", "lo", "--cpu", "1,4095", "--buffer", "8M", "--flush", "0", "-w", &file,
    ];
    let ended = finish(ChildProcess::start(bench.quaff(&args)).unwrap());
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("core 4095"), "{}", ended.stderr);
    generator.signal(Signal::SIGINT).unwrap();
    finish(generator);
}

#[test]
fn an_interrupt_is_heard_before_it_begins() {
    let bench = lab_bench!(1 << 27);
    let pipe = bench.path("pipe");
    run(Command::new("mkfifo").arg(&pipe));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // No process reads the pipe, so it waits forever.
        let running = ChildProcess::start(bench.quaff(&["capture", "-i", "rx0", "-w", &pipe])).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let asked = Instant::now();
        running.signal(signal).unwrap();
        assert_eq!(finish(running).code, 2);
        assert!(asked.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn an_interrupt_at_any_moment_of_the_start_leaves_a_whole_file() {
    let bench = lab_bench!(1 << 28);
    let generate = ["generate", "--inject", "rx0", "--size", "1000", "--pps", "100000"];
    let generator = ChildProcess::start(bench.quaff(&generate)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let file = bench.path("x.pcapng");
    for wait_ms in (0..200).step_by(10) {
        let args = ["capture", "-i", "rx0", "-i", "lo", "--buffer", "8M", "--json", "-w", &file];
        let running = ChildProcess::start(bench.quaff(&args)).unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let asked = Instant::now();
        running.signal(Signal::SIGINT).unwrap();
        let done = running.finish(PATIENCE).unwrap();
        assert!(asked.elapsed() < Duration::from_secs(10), "after {wait_ms} ms");
        let Ok(ledger) = serde_json::from_slice::<serde_json::Value>(&done.stdout) else {
            // It had not begun: the signal came before quaff could hear it, or while it prepared.
            assert!(!done.stderr.contains("capturing"), "after {wait_ms} ms: {}", done.stderr);
            continue;
        };
        assert_eq!(done.status.code(), Some(0), "after {wait_ms} ms: {ledger} {}", done.stderr);
        assert_eq!(ledger["received"], ledger["written"], "after {wait_ms} ms: {ledger}");
        assert_eq!(verify(&[&file])["received"], ledger["written"], "after {wait_ms} ms: {ledger}");
    }
    generator.signal(Signal::SIGINT).unwrap();
    finish(generator);
}

#[test]
fn a_named_pipe_gets_the_packets() {
    let bench = lab_bench!(1 << 27);
    let (pipe, file) = (bench.path("pipe"), bench.path("file.pcapng"));
    run(Command::new("mkfifo").arg(&pipe));
    let mut reader = Command::new("sh").args(["-c", &format!("cat {pipe} > {file}")]).spawn().unwrap();
    let running = bench.capture(&["-w", &pipe]);
    bench.generate("--size 1000 --count 20000 --pps 50000");
    assert_eq!(interrupt(running).code, 0);
    reader.wait().unwrap();
    assert_eq!(
        (&verify(&[&file])["complete"], &verify(&[&file])["received"]),
        (&true.into(), &20_000.into())
    );
}

#[test]
fn a_stdout_that_does_not_block_gets_every_packet() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("file.pcapng");
    // Python makes its end of the pipe non-blocking, which is ours too, and reads slowly.
    let script = format!(
        "import os, subprocess, sys, time\n\
         r, w = os.pipe()\n\
         os.set_blocking(w, False)\n\
         child = subprocess.Popen([{QUAFF:?}, 'capture', '-i', 'rx0', '-w', '/dev/stdout', '--count', '20000'], stdout=w)\n\
         os.close(w)\n\
         out = open({file:?}, 'wb')\n\
         while data := os.read(r, 65536):\n\
        \x20   out.write(data); time.sleep(0.001)\n\
         sys.exit(child.wait())"
    );
    let mut command = bench.lab.rx.command("python3").unwrap();
    command.args(["-c", &script]);
    let mut running = ChildProcess::start(command).unwrap();
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--size 1000 --count 20000 --pps 50000");
    let ended = finish(running);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(verify(&[&file])["complete"], true);
}

#[test]
fn nohup_is_respected_and_a_closed_stderr_is_no_failure() {
    let bench = lab_bench!(1 << 27);
    let script = format!(
        "trap '' HUP; exec {QUAFF} capture -i rx0 --buffer 64M -w {} --duration 2s 2>/dev/null",
        bench.path("x")
    );
    let mut command = bench.lab.rx.command("sh").unwrap();
    let mut child = command.args(["-c", &script]).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    quaff_os::process::send(child.id(), Signal::SIGHUP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "SIGHUP ended it");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let script = format!(
        "{QUAFF} capture -i rx0 --buffer 64M -w {} --json --duration 500ms 2>&1 | true; exit ${{PIPESTATUS[0]}}",
        bench.path("y")
    );
    let status = bench.lab.rx.command("bash").unwrap().args(["-c", &script]).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn an_interface_that_is_removed_while_it_is_down_ends_it() {
    let bench = lab_bench!(1 << 27);
    let running = bench.capture(&["-w", &bench.path("x.pcapng")]);
    let ip = |args: &[&str]| run(bench.lab.rx.command("ip").unwrap().args(args));
    ip(&["link", "set", "rx0", "down"]);
    std::thread::sleep(Duration::from_millis(1500));
    ip(&["link", "delete", "rx0"]);
    let ended = finish(running);
    assert_eq!(ended.code, 2, "{} {}", ended.json, ended.stderr);
}

#[test]
fn more_memory_than_there_is_is_refused() {
    let done = Command::new(QUAFF)
        .args(["capture", "-i", "lo", "-w", "/dev/null", "--buffer", "4000T"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("are free"));
}
