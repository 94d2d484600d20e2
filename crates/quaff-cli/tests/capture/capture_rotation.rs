//! Rotation, retention, and files that survive `kill -9`.

use crate::support::canary::Canary;
use crate::support::{Bench, PATIENCE, finish, interrupt, lab_bench, names, run, tool, verify};
use quaff_lab::ChildProcess;
use quaff_os::Signal;
use quaff_testkit::test_name;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Captures that are killed in the test suite, one of each size; `make soak` does 200.
const KILLS: u32 = 3;

fn paths(bench: &Bench) -> Vec<String> {
    names(bench.dir.path()).iter().map(|name| bench.path(name)).collect()
}

fn verify_all(bench: &Bench, flags: &[&str]) -> serde_json::Value {
    let paths = paths(bench);
    let mut args = flags.to_vec();
    args.extend(paths.iter().map(String::as_str));
    verify(&args)
}

#[test]
fn no_packet_is_lost_or_repeated_across_seams() {
    const COUNT: u64 = 600_000;
    let bench = lab_bench!(2 << 30);
    let dir = bench.path("");
    for (size, rotate, files) in [(512, "64M", 5), (64, "8M", 6)] {
        let running = bench.capture_by_default(&["--dir", &dir, "--rotate-size", rotate, "--cpu", "1"]);
        bench.generate(&format!("--size {size} --pps 500000 --count {COUNT} --cpu 0"));
        let ended = interrupt(running);
        assert_eq!((ended.code, &ended.json["written"]), (0, &COUNT.into()), "{}", ended.json);
        let found = verify_all(&bench, &[]);
        assert_eq!(
            (&found["complete"], &found["received"], &found["duplicates"]),
            (&true.into(), &COUNT.into(), &0.into()),
            "{found}"
        );
        let names = names(bench.dir.path());
        assert!(names.len() >= files && names.iter().all(|name| name.ends_with(".pcapng")), "{names:?}");
        // Each file proves itself, too.
        for path in paths(&bench) {
            assert_eq!(verify(&["--from-first", &path])["ledger"]["consistent"], true, "{path}");
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn an_idle_link_rotates_by_the_clock() {
    let bench = lab_bench!(1 << 27);
    let running = bench.capture(&[
        "--dir",
        &bench.path(""),
        "--name",
        "q-%s",
        "--rotate-time",
        "2s",
        "--duration",
        "4500ms",
    ]);
    let ended = finish(running);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let names = names(bench.dir.path());
    assert!((3..=4).contains(&names.len()), "{names:?}");
    let begins: Vec<u64> =
        names.iter().map(|name| name.split('-').nth(1).unwrap().parse().unwrap()).collect();
    // All but the first, which begins with the capture, begin at even seconds, each once.
    assert!(begins[1..].iter().all(|begin| begin % 2 == 0), "{names:?}");
    assert!(begins.windows(2).skip(1).all(|pair| pair[1] == pair[0] + 2), "{names:?}");
    assert!(paths(&bench).iter().all(|path| verify(&[path])["error"].is_null()));
}

/// That of --rotate-time is aligned to midnight, and may end at once.
#[test]
fn a_file_of_tcpdump_or_dumpcap_covers_its_whole_time() {
    const TIME: Duration = Duration::from_secs(3);
    let bench = lab_bench!(1 << 27);
    for (name, words) in [("g", ["-G", "3", "-W", "1"]), ("b", ["-b", "duration:3", "-a", "files:1"])] {
        let file = bench.path(&format!("{name}.pcap"));
        let begun = Instant::now();
        let running = bench.capture(&[&["-w", &file, "--duration", "20s"][..], &words].concat());
        let ended = finish(running);
        let took = begun.elapsed();
        assert!(ended.code == 0 && (TIME..4 * TIME).contains(&took), "{took:?}: {}", ended.stderr);
    }
    assert_eq!(names(bench.dir.path()), ["b-000000.pcap", "g-000000.pcap"]);
}

#[test]
fn packets_lie_in_the_file_of_their_time() {
    let bench = lab_bench!(1 << 27);
    let running = bench.capture(&["--dir", &bench.path(""), "--name", "q-%s", "--rotate-time", "1s"]);
    bench.generate("--size 100 --pps 20000 --count 50000");
    assert_eq!(interrupt(running).code, 0);
    assert_eq!(verify_all(&bench, &[])["complete"], true);
    for (name, path) in names(bench.dir.path()).iter().zip(paths(&bench)).skip(1) {
        let begin_ns = name.split('-').nth(1).unwrap().parse::<u64>().unwrap() * 1_000_000_000;
        let mut capture = quaff_file::read::CaptureFile::open(path.as_ref()).unwrap();
        while capture
            .pull(|item| {
                if let quaff_wire::decode::Item::Frame(frame) = item {
                    let range = begin_ns..begin_ns + 1_000_000_000;
                    assert!(range.contains(&frame.time_ns), "{} in {name}", frame.time_ns);
                }
            })
            .unwrap()
        {}
    }
}

#[test]
fn keep_files_holds_over_kill_9_and_restart() {
    let bench = lab_bench!(1 << 28);
    std::fs::write(bench.path("holiday.pcapng"), b"not ours").unwrap();
    let args = ["--dir", &bench.path(""), "--rotate-size", "4M", "--keep-files", "3", "--flush", "100ms"];
    for round in 0..3 {
        let running = bench.capture(&args);
        bench.generate("--size 1000 --count 20000 --pps 40000");
        running.signal(if round < 2 { Signal::SIGKILL } else { Signal::SIGTERM }).unwrap();
        finish(running);
        let files = names(bench.dir.path());
        // At each moment: the next file waits for those that are being finished.
        assert!(files.len() <= 4, "three and the stranger: {files:?}");
        assert!(files.contains(&"holiday.pcapng".to_owned()));
        for name in files.iter().filter(|name| name.starts_with("quaff-")) {
            assert!(verify(&["--from-first", &bench.path(name)])["error"].is_null(), "{name}");
        }
    }
    assert!(names(bench.dir.path()).iter().all(|name| !name.ends_with(".part")));
}

/// A number that is not the same in each run, without a dependency for it.
fn arbitrary() -> u64 {
    u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos())
}

/// Number of kills: `QUAFF_KILLS`, or the default of the suite.
fn kills() -> u32 {
    std::env::var("QUAFF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS)
}

/// The packets that a progress line reports as written, the last of them.
fn reported(stderr: &str) -> u64 {
    let written =
        |line: &str| line.split("| written ").nth(1)?.split(' ').next()?.replace(',', "").parse().ok();
    stderr.lines().rev().find_map(written).unwrap_or(0)
}

#[test]
fn kill_9_leaves_a_file_that_everybody_reads() {
    let test = test_name!();
    let Some(bench) = Bench::new(test, 2 << 30) else { return };
    let readers = [tool(test, "capinfos"), tool(test, "tshark")].map(|tool| tool.is_some());
    let file = bench.path("killed.pcapng");
    for kill in 0..kills() {
        let size = [64, 512, 1500][kill as usize % 3];
        let flags = ["--cpu", "1", "--flush", "200ms", "--stats", "200ms"];
        let running = bench.capture_by_default(&[&["-w", &file][..], &flags].concat());
        let canary = Canary::on_disk(&bench.path("canary"));
        let args = format!("generate --inject rx0 --json --size {size} --pps 500000 --duration 10s --cpu 0");
        let generator = ChildProcess::start(bench.quaff(&args.split(' ').collect::<Vec<_>>())).unwrap();
        std::thread::sleep(Duration::from_millis(700 + arbitrary() % 600));
        let killed = Instant::now();
        running.signal(Signal::SIGKILL).unwrap();
        generator.signal(Signal::SIGINT).unwrap();
        let late = killed.elapsed();
        let sent = finish(generator).json["sent"].as_u64().unwrap();
        let words = running.finish(PATIENCE).unwrap().stderr;
        let late = late + 3 * canary.stop();
        let found = verify(&[&file]);
        let clean =
            [&found["lost"], &found["corrupt"], &found["duplicates"]].iter().all(|count| **count == 0);
        assert!(clean && found["error"].is_null(), "kill {kill}: {found}");
        // On any machine: what was reported as written is there.
        let received = found["received"].as_u64().unwrap();
        assert!(received >= reported(&words), "kill {kill}: {received} of\n{words}");
        // What may be missing: a flush interval, a chunk, some 0.3 s that a busy machine takes to run us, and what
        // arrived while the signals, a thread and a write were late.
        let chunk = (4 << 20) / size;
        let allowed = 250_000 + chunk + (late.as_secs_f64() * 500_000.0) as u64;
        let missing = sent - received;
        assert!(missing <= allowed, "kill {kill}: {missing} of {sent} are missing, {late:?} late");
        if readers[0] {
            run(Command::new("capinfos").args(["-c", "-M", &file]));
        }
        // tshark takes seconds for each, and reads blocks as capinfos does: one of four.
        if readers[1] && kill % 4 == 0 {
            run(Command::new("tshark").args(["-r", &file, "-Y", "frame.number == 0"]));
        }
    }
}
