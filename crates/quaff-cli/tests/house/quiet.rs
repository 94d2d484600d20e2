//! A quiet run that fails has one line on stderr that names the reason, and a quiet success has none.

use crate::support::disk::Disk;
use crate::support::{Bench, PATIENCE, QUAFF, finish, folder, lab_bench, run};
use quaff_lab::ChildProcess;
use quaff_testkit::test_name;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Waits until a packet socket of this namespace belongs to a running capture.
fn wait_for_socket(bench: &Bench, count: usize) {
    let begun = Instant::now();
    let sockets = || {
        let text = run(bench.lab.rx.command("cat").expect("a command").arg("/proc/net/packet"));
        text.lines().filter(|line| line.split_whitespace().nth(3) == Some("0003")).count()
    };
    while sockets() < count {
        assert!(begun.elapsed() < PATIENCE, "no socket");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interface_that_is_removed_is_reported_by_each_quiet_command() {
    let bench = lab_bench!(1 << 27);
    for line in [
        "capture -qq -i rx1 -w OUT",
        "capture -q -i rx1 --json -w OUT",
        "flows -qq -i rx1 --csv OUT",
        "flows -qq -i rx1 --json --csv OUT",
        "streams -qq -i rx1 --script default --out OUT",
        "split -qq -i rx1 -w OUT",
        "split -qq -i rx1 --json -w OUT",
    ] {
        bench.add_link();
        let out = bench.path("out");
        let args: Vec<_> = line.split(' ').map(|word| if word == "OUT" { &out } else { word }).collect();
        let running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        wait_for_socket(&bench, 1);
        // The socket is bound before the run has begun.
        std::thread::sleep(Duration::from_millis(300));
        run(bench.lab.rx.command("ip").expect("a command").args(["link", "delete", "rx1"]));
        let ended = finish(running);
        assert_eq!(ended.code, 2, "{line}: {}", ended.stderr);
        assert!(ended.stderr.contains("rx1 was removed"), "{line}: {:?}", ended.stderr);
        let _ = std::fs::remove_file(&out);
        let _ = std::fs::remove_dir_all(&out);
    }
}

#[test]
fn a_full_disk_is_reported_by_each_quiet_command() {
    let test = test_name!();
    let bench = lab_bench!(1 << 28);
    let Some(disk) = Disk::new(test, 16) else { return };
    let file = bench.path("large.pcapng");
    run(Command::new(QUAFF).args(["generate", "--count", "40000", "--size", "1000", "-w", &file]));
    for line in [
        "capture -qq --read FILE -w OUT",
        "capture -qq --read FILE --json -w OUT",
        "split -qq --read FILE -w OUT",
        "merge -q FILE -w OUT",
    ] {
        let out = disk.file("out");
        let args = line.split(' ').map(|word| match word {
            "FILE" => file.as_str(),
            "OUT" => &out,
            word => word,
        });
        let done = Command::new(QUAFF).args(args).output().expect("quaff runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(1 | 2)), "{line}: {said}");
        assert!(!said.trim().is_empty(), "{line} said nothing");
        assert!(said.contains("full") || said.contains("No space"), "{line}: {said}");
        let _ = std::fs::remove_file(&out);
    }
}

#[test]
fn an_input_that_is_damaged_or_gone_is_reported_by_each_quiet_command() {
    let dir = folder();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (file, cut, out) = (path("whole.pcapng"), path("cut.pcapng"), path("out"));
    run(Command::new(QUAFF).args(["generate", "--count", "100", "-w", &file]));
    let bytes = std::fs::read(&file).expect("a file");
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).expect("a file");
    for line in [
        "capture -qq --read FILE -w OUT",
        "capture -qq --read FILE --json -w OUT",
        "flows -qq --read FILE --csv OUT",
        "streams -qq --read FILE --script default --out OUT",
        "streams extract -qq --read FILE --dir OUT",
        "streams list -q --json FILE",
        "split -qq --read FILE -w OUT",
        "merge -q FILE -w OUT",
    ] {
        for input in [&file, &cut, &path("missing.pcapng")] {
            let args = line.split(' ').map(|word| match word {
                "FILE" => input.as_str(),
                "OUT" => &out,
                word => word,
            });
            let done = Command::new(QUAFF).args(args).output().expect("quaff runs");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let is_whole = *input == file;
            assert_eq!(done.status.code() == Some(0), is_whole, "{line} of {input}: {said}");
            // JSON may be on stdout.
            assert_eq!(said.trim().is_empty(), is_whole, "{line} of {input}: {said:?}");
            let _ = std::fs::remove_file(&out);
            let _ = std::fs::remove_dir_all(Path::new(&out));
        }
    }
}
