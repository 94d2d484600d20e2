//! Limits of a user or a cgroup: of threads, which is an error and never a panic; of memory, which a default capture
//! keeps.

use crate::support::memory::MemoryGroup;
use crate::support::{Bench, PATIENCE, QUAFF, interrupt, lab_bench, run, tool};
use quaff_lab::ChildProcess;
use quaff_testkit::test_name;
use std::process::Command;
use std::time::Duration;

/// A user without any process of its own, so that a limit counts those of the test only.
const USER: &str = "61347";
/// Longest time of a command here; one that hangs is ended.
const END: &str = "60";

/// `quaff LINE` as a user that may have so many threads, in the lab of `bench`; its status and what it said.
fn limited(bench: &Bench, threads: u32, line: &str) -> (Option<i32>, String) {
    let mut command = bench.lab.rx.command("timeout").expect("a command in the lab");
    command.args(["--signal=KILL", END, "prlimit", &format!("--nproc={threads}:{threads}")]);
    command.args(["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups"]);
    command.args(["--inh-caps", "-all,+net_raw", "--ambient-caps", "-all,+net_raw"]);
    command.arg(bench.path("quaff")).args(line.split(' ')).current_dir(bench.dir.path());
    let done = command.output().expect("timeout runs");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// A folder that each user can reach and write, with the program and a capture.
fn shared(test: &str) -> Option<Bench> {
    for name in ["prlimit", "setpriv", "timeout"] {
        tool(test, name)?;
    }
    let mut bench = Bench::new(test, 1 << 28)?;
    bench.dir = tempfile::tempdir().expect("a folder");
    run(Command::new("cp").args([QUAFF, &bench.path("quaff")]));
    for name in ["a.pcapng", "b.pcapng"] {
        run(Command::new(QUAFF).args(["generate", "--count", "1000", "-w", &bench.path(name)]));
    }
    run(Command::new("chmod").args(["-R", "a+rwX"]).arg(bench.dir.path()));
    Some(bench)
}

#[test]
fn a_limit_of_threads_is_an_error_with_advice_and_never_a_panic() {
    let test = test_name!();
    let Some(bench) = shared(test) else { return };
    let lines = [
        ("capture -i rx0 --buffer 64M -d 200ms -w live.pcapng", true),
        ("capture --read a.pcapng -w x.pcapng", true),
        ("capture --read a.pcapng --compress zstd -w x.pcapng.zst", true),
        ("flows --read a.pcapng --csv x.csv", true),
        ("flows top --read a.pcapng --once", true),
        ("streams extract --read a.pcapng --dir x", true),
        ("streams list a.pcapng", true),
        ("streams --read a.pcapng --script default", true),
        ("split --read a.pcapng -w x0 -w x1", true),
        ("merge a.pcapng b.pcapng -w m.pcapng", true),
        ("replay a.pcapng -o rx0", true),
        ("replay a.pcapng -w r.pcapng", false),
        ("generate --count 10 -o rx0", true),
        ("verify a.pcapng", false),
        ("info a.pcapng b.pcapng", false),
        ("info --traffic a.pcapng b.pcapng", false),
        ("cores", true),
        ("doctor", false),
    ];
    for (line, needs_more) in lines {
        for threads in 1..=7 {
            let (code, said) = limited(&bench, threads, line);
            let place = format!("{line}, {threads} threads: {code:?} {said}");
            assert!(matches!(code, Some(0..=2)), "{place}");
            assert!(!said.contains("panicked") && !said.contains("a defect of quaff"), "{place}");
            let is_refused = said.contains("cannot start the thread") && said.contains("ulimit -u");
            assert!(!is_refused || code == Some(2), "{place}");
            if threads == 1 && needs_more {
                assert!(is_refused, "{place}");
            }
        }
    }
}

/// The folder of cgroups is not visible in the namespaces of a lab, as with `ip netns exec`.
#[test]
fn a_default_capture_keeps_the_memory_of_its_cgroup_in_a_namespace() {
    let test = test_name!();
    let bench = lab_bench!(1 << 27);
    let Some(group) = MemoryGroup::new(test, 190 << 20) else { return };
    let mut command = bench.lab.rx.command("sh").expect("a command in the lab");
    group.wait_in(&mut command);
    command.arg(QUAFF).args(["capture", "-i", "rx0", "--json", "-w", &bench.path("small.pcapng")]);
    let mut running = ChildProcess::start(command).expect("sh runs");
    group.admit(running.pid());
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--size 1500 --count 20000 --pps 20000");
    // The rest of a default buffer is populated in the background.
    std::thread::sleep(Duration::from_secs(4));
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &20_000.into()), "{} {}", ended.json, ended.stderr);
    assert_eq!(group.ended(), 0, "the kernel ended none");
}
