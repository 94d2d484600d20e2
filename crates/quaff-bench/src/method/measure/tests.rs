//! Failures of capturers, imitated by a shell script; no frames are sent.

use super::*;
use crate::method::{Cores, Place};
use quaff_lab::tool::{Counter, Ready, shipped};
use quaff_lab::topology::{Sent, Site};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Frames that count as sent.
const OFFERED: u64 = 1000;

/// A site without traffic.
struct Nowhere;

impl Site for Nowhere {
    fn interface(&self) -> &str {
        "lo"
    }

    fn command(&self, program: &Path) -> Result<Command> {
        Ok(Command::new(program))
    }

    fn facts(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn send(&self, _: &Traffic, _: usize, watch: Watch<'_>, look: &mut dyn FnMut()) -> Result<Sent> {
        look();
        pause(watch, Stage::Sending)?;
        Ok(Sent { intended: OFFERED, sent: OFFERED, offered: OFFERED, seconds: 0.1, ..Sent::default() })
    }
}

/// A capturer that is a script; `$1` is its file.
fn script(text: &str) -> Tool {
    let args = ["-c", text, "{interface}", "{file}"].map(str::to_owned).to_vec();
    let quaff = shipped(Path::new("quaff")).swap_remove(0);
    Tool {
        name: "fake".into(),
        program: "sh".into(),
        args,
        ready: Ready::Says("capturing".into()),
        settle_ms: 200,
        patience_s: 1,
        drops: Some(Counter::Before("packets lost".into())),
        captured: Some(Counter::After("packets got:".into())),
        output: quaff_lab::tool::Outputs {
            disk: Some(Vec::new()),
            null: Some(Vec::new()),
            screen: Some(Vec::new()),
            pipe: None,
        },
        ..quaff
    }
}

fn run_under(tool: &Tool, setting: &Setting) -> Run {
    let place = Place::find(Some(Path::new("/var/tmp"))).expect("a place");
    let cores = Cores::pick().expect("a core");
    let bench = Bench { site: &Nowhere, quaff: Path::new("quaff"), place: &place, cores };
    let traffic = Traffic::bytes(512, None, OFFERED);
    let program = tool.present().map_or_else(|| tool.program.clone(), |present| present.program);
    bench.run(tool, &program, &traffic, setting, &mut |_| true).expect("whatever it does is a result")
}

fn failure(text: &str) -> String {
    let run = run_under(&script(text), &Setting::default());
    assert_eq!((run.captured, run.loss), (None, None));
    run.failed.unwrap_or_else(|| panic!("it is to fail: {text}"))
}

/// True if a process with this word in its command line runs.
fn runs(word: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("listed").flatten();
    let is_it = |words: Vec<u8>| String::from_utf8_lossy(&words).contains(word);
    entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(is_it)
}

const WAITS: &str = "trap 'exit 0' INT; while :; do sleep 0.01; done";

#[test]
fn a_failed_start_is_reported() {
    let absent = Tool { program: "/no/such/program".into(), ..script("") };
    let failed = run_under(&absent, &Setting::default()).failed.expect("there is none");
    assert!(failed.starts_with("cannot be started: "), "{failed}");
}

#[test]
fn an_early_end_is_reported_with_the_last_output() {
    assert_eq!(
        failure("echo no such device >&2; echo >&2; exit 1"),
        "ended before it captured (exit status: 1): no such device"
    );
    // It crashes after the last frame; no test machine is slow enough to have settled before.
    let slow = Tool {
        settle_ms: 30_000,
        ..script("echo capturing >&2; sleep 0.4; echo out of luck >&2; kill -SEGV $$")
    };
    let failed = run_under(&slow, &Setting::default()).failed.expect("it crashed");
    assert!(failed.starts_with("ended while it was to capture (signal: 11 (SIGSEGV)"), "{failed}");
    assert!(failed.ends_with(": out of luck"), "{failed}");
}

#[test]
fn a_hanging_tool_is_killed_with_its_processes() {
    let begun = Instant::now();
    let failed = failure("setsid sleep 61.25 & sleep 61.25");
    assert_eq!(failed, "does not begin to capture within 1s: no output");
    assert!(!runs("61.25"));
    let failed =
        failure("trap '' INT; echo capturing >&2; : > $1; setsid sleep 62.5 & while :; do sleep 0.01; done");
    assert!(failed.starts_with("does not end within 1s after SIGINT: "), "{failed}");
    assert!(!runs("62.5"));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn remaining_processes_are_killed() {
    let tool = script(
        "echo capturing >&2; (setsid sleep 63.75 > /dev/null 2>&1 &); trap 'exit 0' INT; while :; do sleep 0.01; done",
    );
    let run = run_under(&tool, &Setting::default());
    assert_eq!(run.failed.as_deref(), Some("wrote no file: capturing"));
    assert!(!runs("63.75"));
}

#[test]
fn a_missing_or_invalid_file_is_reported() {
    let failed = failure(&format!("echo capturing >&2; {WAITS}"));
    assert_eq!(failed, "wrote no file: capturing");
    for garbage in ["head -c 100000 /dev/urandom > $1", "echo these are no packets > $1", ": > $1"] {
        let failed = failure(&format!("{garbage}; echo capturing >&2; {WAITS}"));
        assert!(failed.starts_with("its file is not a capture: "), "{garbage}: {failed}");
    }
}

#[test]
fn endless_writing_is_stopped() {
    let failed =
        failure("echo capturing >&2; truncate -s 99G $1; trap 'exit 0' INT; while :; do sleep 0.01; done");
    assert!(failed.starts_with("writes far more than there was to capture"), "{failed}");
}

#[test]
fn without_a_file_the_own_report_counts() {
    let tool = script(
        "echo capturing >&2; trap 'echo packets got: 900 >&2; echo 17 packets lost >&2; exit 3' INT
         while :; do sleep 0.1; done",
    );
    let run = run_under(&tool, &Setting { output: Output::Null, ..Setting::default() });
    assert_eq!(run.failed, None);
    assert_eq!((run.captured, run.tool_drops, run.loss), (Some(900), Some(17), Some(0.1)));
    assert_eq!((run.counted_by.as_str(), run.offered), ("tool", OFFERED));
    let mute = script("echo capturing >&2; trap 'exit 0' INT; while :; do sleep 0.1; done");
    let run = run_under(&mute, &Setting { output: Output::Null, ..Setting::default() });
    let failed = run.failed.expect("nothing counts");
    assert_eq!(failed, "does not report how many packets it captured: capturing");
    let run = run_under(&mute, &Setting { output: Output::Pipe, ..Setting::default() });
    assert_eq!(run.failed.as_deref(), Some("fake does not write packets to a pipe"));
}

#[test]
fn lines_on_a_screen_are_counted() {
    let screen = Setting { output: Output::Screen, ..Setting::default() };
    let tool = script(
        "echo capturing >&2; trap 'echo; echo packets got: 1000 >&2; exit' INT
         seq 700; while :; do sleep 0.1; done",
    );
    let run = run_under(&tool, &screen);
    assert_eq!(run.failed, None);
    assert_eq!((run.captured, run.loss), (Some(700), Some(0.3)));
    assert_eq!(run.counted_by, "lines");
    let blank = script("echo capturing >&2; trap 'exit 0' INT; while :; do sleep 0.1; done");
    assert_eq!(run_under(&blank, &screen).captured, Some(0));
}

#[test]
fn several_capturers_are_counted_one_by_one() {
    // Each has a different directory number.
    let tool = script(
        "echo capturing >&2; trap \"echo packets got: $(( 800 + 100 * ($(basename $(dirname $1)) % 2) )) >&2; exit\" INT
         while :; do sleep 0.1; done",
    );
    let run = run_under(&tool, &Setting { output: Output::Null, capturers: 2, ..Setting::default() });
    assert_eq!(run.failed, None);
    assert_eq!((run.captured, run.each_loss.as_slice()), (Some(850), [0.2, 0.1].as_slice()));
    assert!((run.loss.expect("a loss") - 0.15).abs() < 1e-9);
    assert_eq!(run.tool_drops, None);
}

#[test]
fn without_packets_to_capture_there_is_no_loss() {
    let mut run = Run { offered: OFFERED, ..Run::default() };
    let found = [Found { captured: 0, drops: Some(0), bytes: 0, accounted: None }];
    let setting = Setting { filter: Filter::RejectAll, ..Setting::default() };
    note_found(&mut run, &setting, &found);
    assert_eq!((run.captured, run.loss), (Some(0), None));
}

#[test]
fn a_probe_header_cut_by_a_snaplen_does_not_count() {
    let traffic = Traffic::bytes(512, None, 1);
    let cut = |bytes| Setting { snaplen: Some(bytes), ..Setting::default() };
    assert!(is_stamped(&traffic, &Setting::default()) && is_stamped(&traffic, &cut(64)));
    assert!(!is_stamped(&traffic, &cut(63)));
    assert!(!is_stamped(&Traffic::bytes(60, None, 1), &Setting::default()));
    let zeros = Traffic { content: Content::Zeros, ..traffic };
    assert!(is_stamped(&zeros, &Setting::default()) && is_stamped(&zeros, &cut(512)));
    assert!(!is_stamped(&zeros, &cut(511)), "what was cut off is not known");
}

#[test]
fn a_watch_ends_a_run_at_once() {
    let tool = script("sleep 64.125");
    let place = Place::find(Some(Path::new("/var/tmp"))).expect("a place");
    let cores = Cores::pick().expect("a core");
    let bench = Bench { site: &Nowhere, quaff: Path::new("quaff"), place: &place, cores };
    let mut looks = 0;
    let traffic = Traffic::bytes(512, None, OFFERED);
    let stopped =
        bench.run(&tool, &tool.present().expect("sh").program, &traffic, &Setting::default(), &mut |_| {
            looks += 1;
            looks < 3
        });
    assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
    assert!(!runs("64.125"));
}
