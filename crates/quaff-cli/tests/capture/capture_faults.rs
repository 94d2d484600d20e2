//! Faults of real machines: each case ends with clear words, the right exit status, and a
//! file that holds everything up to the fault.

use crate::support::disk::Disk;
use crate::support::{
    Bench, PATIENCE, QUAFF, assert_lossless, fails, finish, folder, interrupt, lab_bench, names, ours, run,
    tool, verify,
};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_failed_start_reports_the_reason_and_keeps_existing_files() {
    let bench = lab_bench!(1 << 20);
    let file = &bench.path("precious.pcapng");
    std::fs::write(file, b"do not touch").unwrap();
    for (args, words) in [
        (vec!["-i", "rx1"], "did you mean rx0"),
        (vec!["-i", "rx0", "-f", "udp and prot 53"], "          ^"),
        (vec!["-i", "rx0", "-j", "adapter"], "hardware time stamps"),
        (vec!["-i", "rx0", "--cpu", "4095"], "pin a thread"),
        (vec!["-i", "rx0", "-i", "rx0"], "twice"),
        (vec!["-i", "rx0", "--ring", "64T"], "choose smaller ones"),
    ] {
        let said = fails(&bench, &[&["capture", "-w", file], &args[..]].concat());
        assert!(said.contains(words), "{args:?}: {said}");
        assert_eq!(std::fs::read(file).unwrap(), b"do not touch", "{args:?}");
    }
    assert!(
        fails(&bench, &["capture", "-i", "rx0", "-w", "/no/such/dir/x"]).contains("create the folder first")
    );
    assert!(fails(&bench, &["capture", "-i", "rx0", "--dir", "/no/such/dir"]).contains("/no/such/dir"));
    assert!(
        fails(&bench, &["capture", "-i", "rx0", "--dir", &bench.path(""), "--name", "%A"]).contains("%Y")
    );
}

#[test]
fn without_privilege_it_names_the_capability() {
    // A copy that any user can reach: the build folder may be closed to others.
    let dir = tempfile::tempdir().unwrap();
    let quaff = dir.path().join("quaff");
    testing::copy_program(QUAFF, &quaff);
    run(Command::new("chmod").args(["-R", "a+rwX"]).arg(dir.path()));
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&quaff);
    unprivileged.args(["capture", "-i", "lo", "-w"]).arg(dir.path().join("x.pcapng"));
    let done = unprivileged.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_NET_RAW") && said.contains("setcap"), "{said}");
}

#[test]
fn an_interface_that_goes_down_and_comes_back() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("gap.pcapng");
    let running = bench.capture(&["-w", &file]);
    let link = |state: &str| run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", state]));
    bench.generate("--size 100 --count 1000 --pps 10000");
    link("down");
    std::thread::sleep(Duration::from_millis(1200));
    link("up");
    bench.generate("--size 100 --count 1000 --pps 10000 --stream 2");
    let ended = interrupt(running);
    assert_lossless(&ended, &file, 2000);
    let lane = &ended.json["interfaces"][0];
    assert_eq!(lane["downs"], 1, "{lane}");
    assert!(lane["down_ns"].as_u64().unwrap() >= 1_000_000_000, "{lane}");
}

#[test]
fn an_interface_that_is_removed_ends_it_with_the_file_complete() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("gone.pcapng");
    let running = bench.capture(&["-w", &file]);
    bench.generate("--size 100 --count 1000");
    run(bench.lab.rx.command("ip").unwrap().args(["link", "delete", "rx0"]));
    let ended = finish(running);
    assert_eq!((ended.code, &ended.json["written"]), (2, &1000.into()), "{} {}", ended.json, ended.stderr);
    assert!(ended.stderr.contains("the interface rx0 was removed\n"), "{}", ended.stderr);
    assert_eq!(verify(&[&file])["complete"], true);
}

/// `quaff generate --inject rx1`, 500 frames of another stream.
fn generate_on_rx1(bench: &Bench) {
    let args = "generate --inject rx1 --json --size 100 --count 500 --stream 9";
    let ended = finish(ChildProcess::start(bench.quaff(&args.split(' ').collect::<Vec<_>>())).unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn one_of_two_interfaces_that_is_removed_leaves_the_other() {
    let bench = lab_bench!(1 << 27);
    let delete = || run(bench.lab.rx.command("ip").unwrap().args(["link", "delete", "rx1"]));
    let file = bench.path("both.pcapng");
    for requires_all in [false, true] {
        bench.add_link();
        let mut args = vec!["-i", "rx1", "-w", &file];
        args.extend(requires_all.then_some("--require-all"));
        let mut running = bench.capture(&args);
        bench.generate("--size 100 --count 1000");
        generate_on_rx1(&bench);
        delete();
        assert!(running.hears("rx1 was removed", PATIENCE), "{}", running.heard);
        if requires_all {
            let ended = finish(running);
            assert_eq!((ended.code, &ended.json["written"]), (2, &1500.into()), "{}", ended.stderr);
            assert!(ended.json["ended_by"]["interface_gone"].is_string(), "{}", ended.json);
            continue;
        }
        bench.generate("--size 100 --count 1000 --stream 2");
        let ended = interrupt(running);
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["written"]), (1, &2500.into()), "{ledger} {}", ended.stderr);
        assert_eq!(
            (&ledger["ended_by"], &ledger["verdict"]),
            (&"signal".into(), &"unknown".into()),
            "{ledger}"
        );
        assert!(
            ended.stderr.contains("rx1 was removed; the capture of the others continues"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("rx1 was removed at 20"), "in the report: {}", ended.stderr);
        let [rx0, rx1] = [0, 1].map(|lane: usize| ledger["interfaces"][lane]["removed_ns"].as_u64().unwrap());
        assert!(rx0 == 0 && rx1 > 0, "{ledger}");
        let bytes = std::fs::read(&file).unwrap();
        let words = b"the interface was removed at 20";
        assert!(bytes.windows(words.len()).any(|part| part == words), "the file has it too");
    }
}

#[test]
fn a_link_that_goes_down_is_reported_at_once() {
    let bench = lab_bench!(1 << 27);
    let mut running = bench.capture(&["-w", &bench.path("down.pcapng")]);
    let link = |state: &str| run(bench.lab.rx.command("ip").unwrap().args(["link", "set", "rx0", state]));
    link("down");
    assert!(running.hears("rx0 is down", PATIENCE), "{}", running.heard);
    link("up");
    assert!(running.hears("rx0 is up again after", PATIENCE), "{}", running.heard);
    let ended = interrupt(running);
    assert_eq!(ended.stderr.matches("rx0 is down").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_full_disk_ends_it_cleanly_and_what_is_lost_is_counted() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let Some(disk) = Disk::new(test, 64) else { return };
    let dir = disk.path().display().to_string();
    for (args, is_folder) in [
        (vec!["-w".to_owned(), disk.file("x.pcapng")], false),
        (vec!["--dir".into(), dir, "--rotate-size".into(), "8M".into()], true),
    ] {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let running = bench.capture(&args);
        bench.generate("--size 1500 --count 60000 --pps 40000");
        let ended = finish(running);
        let ledger = &ended.json;
        assert_eq!(
            (ended.code, &ledger["ended_by"], &ledger["lossless"]),
            (1, &"disk_full".into(), &false.into()),
            "{ledger}"
        );
        assert_eq!(
            ledger["received"].as_u64(),
            Some(ledger["written"].as_u64().unwrap() + ledger["lost_on_disk"].as_u64().unwrap())
        );
        let files: Vec<_> = names(&disk.path()).into_iter().filter(|name| name != "lost+found").collect();
        assert!(files.iter().all(|name| name.ends_with(".pcapng")), "{files:?}");
        let paths: Vec<_> = files.iter().map(|name| disk.file(name)).collect();
        let found = verify(&paths.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            (&found["received"], &found["lost"], &found["corrupt"], &found["error"]),
            (&ledger["written"], &0.into(), &0.into(), &serde_json::Value::Null),
            "{found}"
        );
        assert_eq!(files.len() > 1, is_folder);
        files.iter().for_each(|name| std::fs::remove_file(disk.file(name)).unwrap());
    }
}

#[test]
fn a_full_disk_with_a_rule_loses_the_oldest_and_nothing_else() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let Some(disk) = Disk::new(test, 64) else { return };
    let dir = disk.path().display().to_string();
    for (rotate, rule) in [
        (["--rotate-size", "8M"], ["--keep-free", "30"]),
        (["--rotate-size", "8M"], ["--keep-size", "1G"]),
        (["--rotate-size", "8M"], ["--keep-size", "30M"]),
        // The disk does not hold what comes in an hour, or in two.
        (["--rotate-time", "1h"], ["--keep-free", "30"]),
        (["--rotate-time", "1h"], ["--keep-files", "3"]),
    ] {
        let running = bench.capture(&["--dir", &dir, rotate[0], rotate[1], rule[0], rule[1]]);
        bench.generate("--size 1500 --count 60000 --pps 40000");
        let ended = interrupt(running);
        assert_eq!(
            (ended.code, &ended.json["written"]),
            (0, &60_000.into()),
            "{rule:?}: {} {}",
            ended.json,
            ended.stderr
        );
        let files: Vec<_> = names(&disk.path())
            .into_iter()
            .filter(|name| name != "lost+found")
            .map(|name| disk.file(&name))
            .collect();
        let mut args = vec!["--from-first"];
        args.extend(files.iter().map(String::as_str));
        let found = verify(&args);
        assert_eq!(
            (&found["complete"], found["received"].as_u64() > Some(10_000)),
            (&true.into(), true),
            "{rule:?}: {found}"
        );
        let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
        assert!(rule[1] != "30M" || bytes <= 30 << 20, "{bytes}");
        let free = || quaff_os::disk::space(&disk.path()).unwrap().free;
        let before = free();
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        // The rules of a verify that has just ended hold its files for some ms more (Landlock).
        let until = Instant::now() + PATIENCE;
        while free() < before + bytes && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_disk_that_is_full_for_a_moment_costs_nothing() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let dir = folder();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return testing::skip(test, "this machine mounts no tmpfs");
    }
    let umount = Umount(dir.path());
    let ballast = dir.path().join("ballast");
    std::fs::write(&ballast, vec![0; 40 << 20]).unwrap();
    let running = bench.capture(&["--dir", &dir.path().display().to_string(), "--rotate-size", "8M"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let until = Instant::now() + PATIENCE;
            while quaff_os::disk::space(dir.path()).unwrap().free > 1 << 20 {
                assert!(Instant::now() < until, "the disk is never full");
                std::thread::sleep(Duration::from_millis(5));
            }
            // The last file is written into space that it had before.
            std::thread::sleep(Duration::from_millis(1500));
            std::fs::remove_file(&ballast).unwrap();
        });
        bench.generate("--size 1500 --count 20000 --pps 40000");
    });
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &20_000.into()), "{} {}", ended.json, ended.stderr);
    let notes = ended.json["notes"].to_string();
    assert!(notes.contains("No space left on device"), "{notes}");
    let found = verify(&ours(dir.path()).iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["complete"], &found["ledger"]["consistent"]), (&true.into(), &true.into()), "{found}");
    drop(umount);
}

/// Waits until the buffer of a capture is pre-faulted.
fn await_buffer(running: &mut ChildProcess) {
    let begun = Instant::now();
    let progress = |running: &ChildProcess| {
        let lines = running.heard.lines().filter(|line| line.contains("| written "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    loop {
        let before = progress(running).len();
        running.signal(Signal::SIGUSR1).unwrap();
        while progress(running).len() == before {
            assert!(begun.elapsed() < PATIENCE, "{}", running.heard);
            running.hears("no line has this", Duration::from_millis(20));
        }
        if !progress(running)[before..].iter().all(|line| line.ends_with("MiB ready")) {
            return;
        }
    }
}

/// The packets of that time fit in the buffer, at any speed of the machine, and not in the kernel's ring.
#[test]
fn a_disk_that_stalls_for_three_seconds_costs_memory_only() {
    const COUNT: u64 = 160_000;
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 29) else { return };
    let Some(disk) = Disk::new(test, 300) else { return };
    let file = disk.file("stalled.pcapng");
    let mut running = bench.capture(&["-w", &file, "--ring", "32M", "--buffer", "256M"]);
    await_buffer(&mut running);
    let frozen = disk.freeze();
    let begun = Instant::now();
    bench.generate(&format!("--size 512 --pps 50000 --count {COUNT}"));
    assert!(begun.elapsed() > Duration::from_secs(3));
    drop(frozen);
    let ended = interrupt(running);
    assert_lossless(&ended, &file, COUNT);
    let stalled = ended.json["write_high_seconds"].as_f64().unwrap();
    assert!(stalled > 2.0, "the disk stalled for {stalled} s only: nothing was tested");
}

#[test]
fn a_closed_stdout_is_success() {
    let bench = lab_bench!(1 << 27);
    for traffic in [true, false] {
        let mut command = bench.quaff(&["capture", "-i", "rx0", "--buffer", "64M", "-w", "-"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(800));
        drop(child.stdout.take());
        if traffic {
            bench.generate("--size 500 --count 20000 --pps 20000");
        }
        let started = Instant::now();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_slow_reader_costs_counted_packets_and_never_the_ring() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("slow.pcapng");
    let script = format!(
        "{QUAFF} capture -i rx0 --json --ring 64M --buffer 16M -w - | (sleep 4; cat) >{file}; exit ${{PIPESTATUS[0]}}"
    );
    let mut running = ChildProcess::start({
        let mut command = bench.lab.rx.command("bash").unwrap();
        command.args(["-c", &script]);
        command
    })
    .unwrap();
    assert!(running.hears("capturing", PATIENCE));
    // More than the buffer and the part of the ring that may fill, at a rate that a busy machine keeps up with.
    bench.generate("--size 1500 --count 60000 --pps 20000");
    // SIGINT goes to quaff alone: it is the child of the shell.
    let quaff = run(Command::new("pgrep").args(["-P", &running.pid().to_string(), "-x", "quaff"]));
    quaff_os::process::send(quaff.trim().parse().unwrap(), Signal::SIGINT).unwrap();
    let done = running.finish(PATIENCE).unwrap();
    let ledger: serde_json::Value =
        done.stderr.lines().find_map(|line| serde_json::from_str(line).ok()).expect("a ledger");
    assert_eq!(done.status.code(), Some(1), "{ledger}");
    assert_eq!((&ledger["kernel_dropped"], &ledger["offered"]), (&0.into(), &60_000.into()), "{ledger}");
    assert!(ledger["lost_in_buffer"].as_u64() > Some(0), "{ledger}");
    let found = verify(&[&file, "--expect", "60000"]);
    assert_eq!((&found["received"], &found["lost"]), (&ledger["written"], &ledger["lost"]), "{found}");
    assert_eq!(found["ledger"]["consistent"], true, "{found}");
}

/// A command of quaff whose stdout is a pipe that is not read, once it captures; and the lines that follow on stderr.
fn stuck(
    bench: &Bench,
    args: &[&str],
) -> (std::process::Child, std::io::Lines<std::io::BufReader<std::process::ChildStderr>>) {
    let mut command = bench.quaff(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.by_ref().map_while(Result::ok).any(|line| line == "capturing"));
    (child, said)
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let bench = lab_bench!(1 << 27);
    // Freeing the default buffer would take seconds.
    let capture = ["capture", "-i", "rx0", "-w", "-", "--flush", "100ms", "--buffer", "64M"];
    let reader = "exec sleep 10 >/dev/null 2>&1";
    let split = ["split", "-i", "rx0", "--members", "2", "--buffer", "64M", "--exec", reader];
    for (args, signals) in [
        (&capture[..], [Signal::SIGINT, Signal::SIGINT]),
        (&capture[..], [Signal::SIGTERM, Signal::SIGTERM]),
        (&capture[..], [Signal::SIGINT, Signal::SIGTERM]),
        (&split[..], [Signal::SIGTERM, Signal::SIGTERM]),
    ] {
        let (mut child, _said) = stuck(&bench, args);
        bench.generate("--size 1500 --count 10000 --pps 20000");
        quaff_os::process::send(child.id(), signals[0]).unwrap();
        std::thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait().unwrap().is_none(), "one signal is no reason to drop what is in memory");
        quaff_os::process::send(child.id(), signals[1]).unwrap();
        let started = Instant::now();
        let status = child.wait().unwrap();
        // A reader that was abandoned in the end would be a loss: 1.
        assert_eq!(status.code(), Some(2), "{args:?} {signals:?}");
        assert!(started.elapsed() < Duration::from_secs(5), "{args:?} {signals:?}");
    }
}

/// Every buffer is full when the end comes, so that the lane waits for one.
#[test]
fn a_signal_and_the_duration_end_a_capture_whose_reader_stands_still() {
    let bench = lab_bench!(1 << 27);
    let capture = ["capture", "-i", "rx0", "-w", "-", "--json", "--buffer", "16M"];
    let (mut signalled, said_first) = stuck(&bench, &capture);
    let (mut limited, said_second) = stuck(&bench, &[&capture[..], &["--duration", "5s"]].concat());
    bench.generate("--size 1500 --count 20000 --pps 20000");
    quaff_os::process::send(signalled.id(), Signal::SIGTERM).unwrap();
    let asked = Instant::now();
    for (child, said, ended_by) in
        [(&mut signalled, said_first, "signal"), (&mut limited, said_second, "duration")]
    {
        // Until the process ends.
        let said: Vec<_> = said.map_while(Result::ok).collect();
        let waited = asked.elapsed();
        assert!((8..20).contains(&waited.as_secs()), "{ended_by}: {waited:?}");
        let ledger: serde_json::Value =
            said.iter().find_map(|line| serde_json::from_str(line).ok()).expect("a ledger");
        let of = |field: &str| ledger[field].as_u64().unwrap_or_else(|| panic!("{field}: {ledger}"));
        assert_eq!(
            (child.wait().unwrap().code(), &ledger["ended_by"]),
            (Some(1), &ended_by.into()),
            "{ledger}"
        );
        assert_eq!((of("offered"), of("kernel_dropped"), of("lost_in_buffer")), (20_000, 0, 0), "{ledger}");
        assert_eq!((of("written") + of("lost"), of("lost") > 0), (20_000, true), "{ledger}");
        assert!(ledger["notes"].to_string().contains("has stopped reading"), "{ledger}");
    }
}

#[test]
fn sigusr1_prints_a_line_and_continues() {
    let bench = lab_bench!(1 << 27);
    let mut running = bench.capture(&["-w", &bench.path("x.pcapng")]);
    bench.generate("--size 100 --count 500");
    std::thread::sleep(Duration::from_millis(1500));
    running.signal(Signal::SIGUSR1).unwrap();
    assert!(running.hears("written 500", PATIENCE), "{}", running.heard);
    assert_eq!(interrupt(running).code, 0);
}

#[test]
fn a_frame_larger_than_a_block_is_cut_and_lossy() {
    let bench = lab_bench!(1 << 27);
    let file = bench.path("large.pcapng");
    let mut running = ChildProcess::start(
        bench.quaff(&["capture", "-i", "lo", "--json", "--ring", "256K", "--buffer", "64M", "-w", &file]),
    )
    .unwrap();
    assert!(running.hears("capturing", PATIENCE));
    let script = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(bytes(65507), ('127.0.0.1', 9))";
    run(bench.lab.rx.command("python3").unwrap().args(["-c", script]));
    std::thread::sleep(Duration::from_millis(300));
    let ended = interrupt(running);
    assert_eq!(ended.code, 1, "{} {}", ended.json, ended.stderr);
    assert_eq!(
        (&ended.json["interfaces"][0]["truncated"], &ended.json["verdict"]),
        (&1.into(), &"lossy".into()),
        "{}",
        ended.json
    );
    assert!(ended.stderr.contains("lossy: 1 packet of lo is cut"), "{}", ended.stderr);
}

#[test]
fn without_o_direct_nothing_is_lost_and_a_note_reports_it() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let dir = folder();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=200m", "tmpfs"]).arg(dir.path()).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return testing::skip(test, "this machine mounts no tmpfs");
    }
    let umount = Umount(dir.path());
    let file = dir.path().join("x.pcapng").display().to_string();
    let ended = bench.capture_of(&["-w", &file], "--size 500 --count 100000 --pps 100000");
    assert_lossless(&ended, &file, 100_000);
    assert!(ended.json["writing"].as_str().unwrap().contains("no O_DIRECT"), "{}", ended.json);
    drop(umount);
}

struct Umount<'a>(&'a Path);

impl Drop for Umount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_cuts_pcap_at_a_whole_record() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let Some(disk) = Disk::new(test, 64) else { return };
    let (file, dir) = (disk.file("x.pcap"), disk.path().display().to_string());
    for args in [&["-w", &file][..], &["--dir", &dir, "--rotate-size", "8M"][..]] {
        // As fast as it goes, so that the disk is behind when it is full.
        let running = bench.capture(&[&["--format", "pcap"], args].concat());
        bench.generate("--size 1500 --count 80000");
        let ended = finish(running);
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["ended_by"]), (1, &"disk_full".into()), "{ledger} {}", ended.stderr);
        let counted =
            ["written", "lost_on_disk", "lost_in_buffer"].map(|name| ledger[name].as_u64().unwrap());
        assert_eq!(ledger["received"].as_u64(), Some(counted.iter().sum()), "{ledger}");
        let files = ours(&disk.path());
        let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            (&found["received"], &found["corrupt"], &found["error"]),
            (&ledger["written"], &0.into(), &serde_json::Value::Null),
            "{found}"
        );
        let bytes: u64 = files.iter().map(|file| std::fs::metadata(file).unwrap().len()).sum();
        assert_eq!(Some(bytes), ledger["bytes_written"].as_u64(), "{ledger}");
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

#[test]
fn a_file_and_a_folder_have_one_capture() {
    let bench = lab_bench!(1 << 27);
    let dir = bench.path("dir");
    std::fs::create_dir(&dir).unwrap();
    let file = bench.path("one.pcapng");
    for (args, words) in [(["-w", &file], "another capture is writing"), (["--dir", &dir], "another capture")]
    {
        let running = bench.capture(&args);
        bench.generate("--size 100 --count 1000");
        let said = fails(&bench, &[&["capture", "-i", "rx0"], &args[..]].concat());
        assert!(said.contains(words), "{said}");
        assert_eq!(interrupt(running).json["written"], 1000);
    }
    assert_eq!(verify(&[&file])["received"], 1000);
    let files = ours(dir.as_ref());
    assert_eq!((files.len(), &verify(&[&files[0]])["received"]), (1, &1000.into()));
}

#[test]
fn a_limit_on_the_size_of_files_costs_a_folder_nothing() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    if tool(test, "prlimit").is_none() {
        return;
    }
    let dir = bench.path("");
    for number in 0..5 {
        std::fs::write(bench.path(&format!("quaff-20260101T000000-00000{number}.pcapng")), [0; 4096])
            .unwrap();
    }
    let mut command = bench.lab.rx.command("prlimit").unwrap();
    command.args(["--fsize=3145728", QUAFF, "capture", "-i", "rx0", "--json", "--buffer", "256M"]);
    command.args(["--dir", &dir, "--rotate-size", "8M", "--keep-size", "1G"]);
    let mut running = ChildProcess::start(command).unwrap();
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--size 1500 --count 10000 --pps 20000");
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &10_000.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(ended.json["pruned"], 0);
    let files = ours(bench.dir.path());
    assert!(files.len() > 5 + 3, "{files:?}");
    let mut args = vec!["--from-first"];
    args.extend(files[5..].iter().map(String::as_str));
    let found = verify(&args);
    assert_eq!((&found["complete"], &found["received"]), (&true.into(), &10_000.into()), "{found}");
}

#[test]
fn a_full_disk_with_a_rule_has_room_for_names_too() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let Some(disk) = Disk::new(test, 64) else { return };
    let dir = disk.path().display().to_string();
    // Names so long that the folder itself needs blocks, again and again.
    let name = "n".repeat(220);
    let running =
        bench.capture(&["--dir", &dir, "--rotate-size", "2M", "--keep-size", "1G", "--name", &name]);
    bench.generate("--size 1500 --count 100000 --pps 40000");
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &100_000.into()), "{} {}", ended.json, ended.stderr);
    let files = ours(&disk.path());
    assert!(files.len() > 15 && files.iter().all(|name| name.ends_with(".pcapng")), "{files:?}");
    let mut args = vec!["--from-first"];
    args.extend(files.iter().map(String::as_str));
    let found = verify(&args);
    assert_eq!(found["complete"], true, "{found}");
}

#[test]
fn a_failed_writeback_of_the_page_cache_is_a_failure() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    // A disk that fails: its image lies in memory that is smaller than it says.
    let memory = folder();
    let mount =
        |args: &[&str]| Command::new("mount").args(args).output().is_ok_and(|done| done.status.success());
    let path = memory.path().display().to_string();
    if !mount(&["-t", "tmpfs", "-o", "size=12m", "tmpfs", &path]) {
        return testing::skip(test, "this machine mounts no tmpfs");
    }
    let _memory = Umount(memory.path());
    let (image, disk) = (memory.path().join("image"), bench.dir.path().join("disk"));
    std::fs::create_dir(&disk).unwrap();
    std::fs::File::create(&image).unwrap().set_len(128 << 20).unwrap();
    run(Command::new("mkfs.ext4").args(["-q", "-J", "size=4"]).arg(&image));
    // Where the journal has the data too there is no O_DIRECT.
    let options = "loop,data=journal,commit=60";
    if !mount(&["-o", options, &image.display().to_string(), &disk.display().to_string()]) {
        return testing::skip(test, "this machine gives no loop device to mount");
    }
    let umount = Umount(&disk);
    let file = disk.join("x.pcapng").display().to_string();
    let ended = bench.capture_of(&["-w", &file], "--size 1500 --count 16000 --pps 40000");
    assert_eq!(ended.code, 2, "{} {}", ended.json, ended.stderr);
    drop(umount);
}

#[test]
fn a_disk_that_frees_late_loses_no_more_files_than_it_must() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 30) else { return };
    if tool(test, "mkfs.btrfs").is_none() {
        return;
    }
    let (image, mount) = (bench.dir.path().join("image"), bench.dir.path().join("disk"));
    std::fs::create_dir(&mount).unwrap();
    std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
    run(Command::new("mkfs.btrfs").arg("-q").arg(&image));
    let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount).output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        return testing::skip(test, "this machine does not mount btrfs");
    }
    let umount = Umount(&mount);
    let dir = mount.display().to_string();
    // 240 of 512 MB; half of the disk is to stay free.
    let running = bench.capture(&["--dir", &dir, "--rotate-size", "16M", "--keep-free", "50"]);
    bench.generate("--size 1500 --count 160000 --pps 40000");
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &160_000.into()), "{} {}", ended.json, ended.stderr);
    let files = ours(&mount);
    assert!(files.len() >= 8, "{files:?} are left: {}", ended.json);
    drop(umount);
}

#[test]
fn a_rotation_without_o_tmpfile_keeps_all_packets() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 1 << 28) else { return };
    let Some(mut bindfs) = tool(test, "bindfs") else { return };
    let (real, seen) = (bench.dir.path().join("real"), bench.dir.path().join("seen"));
    std::fs::create_dir(&real).unwrap();
    std::fs::create_dir(&seen).unwrap();
    if !bindfs.arg(&real).arg(&seen).output().is_ok_and(|done| done.status.success()) {
        return testing::skip(test, "this machine mounts no FUSE");
    }
    let umount = Umount(&seen);
    let dir = seen.display().to_string();
    let ended =
        bench.capture_of(&["--dir", &dir, "--rotate-size", "4M"], "--size 1000 --count 20000 --pps 40000");
    assert_eq!((ended.code, &ended.json["written"]), (0, &20_000.into()), "{} {}", ended.json, ended.stderr);
    assert!(ended.json["writing"].as_str().unwrap().contains("O_DIRECT"), "{}", ended.json);
    let files = ours(&seen);
    assert!(files.len() >= 5 && files.iter().all(|name| name.ends_with(".pcapng")), "{files:?}");
    let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["complete"], &found["received"]), (&true.into(), &20_000.into()), "{found}");
    drop(umount);
}
