//! A disk that does not answer, so that writes wait in the kernel where no signal reaches them: `--duration`, a signal
//! and a second signal end a run all the same, and the report counts what the disk has not confirmed.

use crate::support::disk::Disk;
use crate::support::packets::packets_in;
use crate::support::{Bench, PATIENCE, tool, verify};
use quaff_os::Signal;
use quaff_os::process::send;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames that are on disk when it stops answering, and frames that arrive later.
const BEFORE: u64 = 500;
const AFTER: u64 = 20_000;
/// Time until a report, s: nothing is abandoned before ten, and a busy machine takes a while.
const REPORT_SECONDS: std::ops::Range<u64> = 10..25;

/// A run of quaff, and its output up to the end of each stream, which a process that cannot die has to close.
struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts `quaff ARGS --json`; returns when it captures.
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let mut command = bench.quaff(&[args, &["--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut heard = String::new();
        while heard.lines().last() != Some("capturing") {
            assert!(stderr.read_line(&mut heard).unwrap() > 0, "{args:?} ended: {heard}");
        }
        let stdout = child.stdout.take().unwrap();
        let rest = |mut from: Box<dyn Read + Send>| {
            std::thread::spawn(move || {
                let mut text = String::new();
                from.read_to_string(&mut text).unwrap();
                text
            })
        };
        Self { child, stdout: Some(rest(Box::new(stdout))), stderr: Some(rest(Box::new(stderr))) }
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal).unwrap();
    }

    /// Waits until both streams are closed; returns the report and the words.
    fn output(&mut self) -> (Value, String) {
        let begun = Instant::now();
        let [stdout, stderr] = [&mut self.stdout, &mut self.stderr].map(|stream| {
            let stream = stream.take().expect("called once");
            while !stream.is_finished() {
                assert!(begun.elapsed() < PATIENCE, "its output is still open");
                std::thread::sleep(Duration::from_millis(5));
            }
            stream.join().unwrap()
        });
        (serde_json::from_str(&stdout).unwrap_or(Value::Null), stderr)
    }

    fn is_silent(&self) -> bool {
        self.stdout.as_ref().is_some_and(|stdout| !stdout.is_finished())
    }

    /// The states of its threads (proc_pid_stat(5)).
    fn states(&self) -> String {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten();
        let state = |stat: String| stat.rsplit(')').next()?.trim_start().chars().next();
        tasks
            .flatten()
            .filter_map(|task| state(std::fs::read_to_string(task.path().join("stat")).ok()?))
            .collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A lab and a small disk, or `None` after a skip.
fn prepare(test: &str) -> Option<(Bench, Disk)> {
    let bench = Bench::new(test, 1 << 28)?;
    tool(test, "fsfreeze")?;
    Some((bench, Disk::new(test, 700)?))
}

/// Waits until the disk has the first frames of a file: a flush interval.
fn await_packets(path: &str, count: u64) {
    let begun = Instant::now();
    let there = || verify(&[path])["received"].as_u64().unwrap_or(0);
    while there() < count {
        assert!(begun.elapsed() < PATIENCE, "{path} has {}", there());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The sums of a capture that was abandoned.
#[track_caller]
fn assert_abandoned(ledger: &Value, ended_by: &str) {
    let of = |field: &str| ledger[field].as_u64().unwrap_or_else(|| panic!("{field}: {ledger}"));
    assert_eq!(
        (ledger["ended_by"].as_str(), ledger["verdict"].as_str()),
        (Some(ended_by), Some("lossy")),
        "{ledger}"
    );
    assert_eq!(
        (of("offered"), of("written"), of("lost_on_disk"), of("kernel_dropped"), of("lost_in_buffer")),
        (BEFORE + AFTER, BEFORE, AFTER, 0, 0),
        "{ledger}"
    );
    assert!(ledger["notes"].to_string().contains("has stopped answering"), "{ledger}");
}

#[test]
fn a_signal_and_the_duration_end_a_capture_whose_disk_does_not_answer() {
    let test = test_name!();
    let Some((bench, disk)) = prepare(test) else { return };
    let (file, dir) = (disk.file("one.pcapng"), disk.file("many"));
    std::fs::create_dir(&dir).unwrap();
    let folder = ["--dir", &dir, "--name", "q", "--rotate-size", "16M", "--duration", "10s"];
    let mut signalled = Running::start(&bench, &["capture", "-i", "rx0", "--buffer", "256M", "-w", &file]);
    let begun = Instant::now();
    let mut limited =
        Running::start(&bench, &[&["capture", "-i", "rx0", "--buffer", "256M"], &folder[..]].concat());
    bench.generate(&format!("--size 500 --count {BEFORE}"));
    await_packets(&file, BEFORE);
    await_packets(&format!("{dir}/q-000000.pcapng.part"), BEFORE);
    let frozen = disk.freeze();
    bench.generate(&format!("--size 500 --count {AFTER} --pps 20000"));
    // A flush interval later their writes wait.
    std::thread::sleep(Duration::from_millis(1500));
    assert!(signalled.states().contains('D'), "nothing waits for the disk: {}", signalled.states());
    let asked = Instant::now();
    signalled.signal(Signal::SIGTERM);
    let (ledger, words) = signalled.output();
    assert!(REPORT_SECONDS.contains(&asked.elapsed().as_secs()), "{:?} {words}", asked.elapsed());
    assert_abandoned(&ledger, "signal");
    let (ledger, words) = limited.output();
    assert!(begun.elapsed() > Duration::from_secs(20), "{:?} {words}", begun.elapsed());
    assert_abandoned(&ledger, "duration");
    drop(frozen);
    for running in [&mut signalled, &mut limited] {
        assert_eq!(running.child.wait().unwrap().code(), Some(1));
    }
    // The disk answers again: all blocks of the files are whole.
    assert!(packets_in(&file).count >= BEFORE);
    assert!(packets_in(&format!("{dir}/q-000000.pcapng.part")).count >= BEFORE);
}

#[test]
fn a_second_signal_ends_a_capture_whose_disk_does_not_answer_at_once() {
    let test = test_name!();
    let Some((bench, disk)) = prepare(test) else { return };
    let file = disk.file("one.pcapng");
    let mut running = Running::start(&bench, &["capture", "-i", "rx0", "--buffer", "256M", "-w", &file]);
    bench.generate(&format!("--size 500 --count {BEFORE}"));
    await_packets(&file, BEFORE);
    let frozen = disk.freeze();
    bench.generate(&format!("--size 500 --count {AFTER} --pps 20000"));
    running.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(running.is_silent(), "one signal is no reason to drop what is in memory");
    running.signal(Signal::SIGTERM);
    let asked = Instant::now();
    let (_, words) = running.output();
    assert!(words.contains("ended immediately"), "{words}");
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    drop(frozen);
    assert_eq!(running.child.wait().unwrap().code(), Some(2));
    assert!(packets_in(&file).count >= BEFORE);
}

#[test]
fn a_disk_that_answers_again_before_the_end_costs_nothing() {
    let test = test_name!();
    let Some((bench, disk)) = prepare(test) else { return };
    let file = disk.file("one.pcapng");
    let mut running = Running::start(&bench, &["capture", "-i", "rx0", "--buffer", "256M", "-w", &file]);
    let frozen = disk.freeze();
    bench.generate(&format!("--size 500 --count {AFTER} --pps 20000"));
    running.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_secs(4));
    drop(frozen);
    let (ledger, words) = running.output();
    assert_eq!((&ledger["written"], &ledger["lossless"]), (&AFTER.into(), &true.into()), "{ledger} {words}");
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert_eq!(verify(&[&file])["complete"], true);
}

/// The other member of a split is complete, and the report counts what the first has not confirmed.
#[test]
fn a_split_ends_without_the_member_whose_disk_does_not_answer() {
    let test = test_name!();
    let Some((bench, disk)) = prepare(test) else { return };
    if !testing::space(test, bench.dir.path(), 1 << 20) {
        return;
    }
    let (stuck, good) = (disk.file("one.pcapng"), bench.path("two.pcapng"));
    let args = ["split", "-i", "rx0", "--by", "ports", "--buffer", "256M", "-w", &stuck, "-w", &good];
    let mut running = Running::start(&bench, &args);
    let frozen = disk.freeze();
    for stream in 1..=16 {
        bench.generate(&format!("--size 500 --count 500 --pps 50000 --stream {stream}"));
    }
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    running.signal(Signal::SIGTERM);
    let (report, words) = running.output();
    assert!(REPORT_SECONDS.contains(&asked.elapsed().as_secs()), "{:?}", asked.elapsed());
    let of = |member: usize, field: &str| {
        report["members"][member][field].as_u64().unwrap_or_else(|| panic!("{field}: {report} {words}"))
    };
    assert_eq!(
        (of(0, "packets") + of(1, "packets"), report["verdict"].as_str()),
        (8000, Some("lossy")),
        "{report}"
    );
    assert!(of(0, "packets") > 0 && of(0, "lost") == of(0, "packets") - of(0, "written"), "{report}");
    assert_eq!((of(1, "written"), of(1, "lost")), (of(1, "packets"), 0), "{report}");
    assert_eq!(packets_in(&good).count, of(1, "written"), "{report}");
    assert!(report["failure"].as_str().is_some_and(|why| why.contains("stopped answering")), "{report}");
    drop(frozen);
    assert_eq!(running.child.wait().unwrap().code(), Some(2));
}
