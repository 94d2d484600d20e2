//! Real capturers, real packets, in a lab: what they have is counted by us, whatever they say of it.

use crate::support::{Bench, QUAFF};
use quaff_bench::method::Run;
use quaff_bench::method::{self, Cores, Place};
use quaff_lab::tool::{self, Tool, resolve, shipped};
use quaff_lab::tool::{Filter, Output, Setting};
use quaff_lab::topology::LabSite;
use quaff_lab::traffic::Content;
use quaff_lab::traffic::Traffic;
use quaff_os::testing::assert_when_quiet;
use quaff_testkit::{skip, test_name};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const COUNT: u64 = 10_000;

/// One at a time, as in `support`.
static TURN: Mutex<()> = Mutex::new(());

/// A lab in which rivals are measured.
struct Stand {
    site: LabSite,
    place: Place,
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Stand {
    fn new(test: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let Bench { lab, dir, .. } = Bench::new(test, 1 << 30)?;
        let place = Place::find(Some(dir.path())).expect("a place");
        Some(Self { site: LabSite { lab, quaff: PathBuf::from(QUAFF) }, place, dir, _turn: turn })
    }

    fn run(&self, rival: &Tool, setting: &Setting) -> Run {
        self.run_of(Content::Counting, rival, setting)
    }

    fn run_of(&self, content: Content, rival: &Tool, setting: &Setting) -> Run {
        let cores = Cores::pick().expect("a core");
        let quaff = Path::new(QUAFF);
        let bench = method::Bench { site: &self.site, quaff, place: &self.place, cores };
        let traffic = Traffic { content, ..Traffic::bytes(256, Some(20_000), COUNT) };
        let program = rival.present().expect("it is here").program;
        bench.run(rival, &program, &traffic, setting, &mut |_| true).expect("a result")
    }
}

fn to(output: Output) -> Setting {
    Setting { output, ..Setting::default() }
}

/// Those of these names that are installed; the others are reported as skipped.
fn installed(test: &str, names: &[&str]) -> Vec<Tool> {
    let found = resolve(names, &shipped(Path::new(QUAFF))).expect("all are shipped");
    for rival in found.absent {
        skip(test, &format!("{} is not installed ({})", rival.name, rival.install));
    }
    found.present.into_iter().map(|present| present.rival).collect()
}

#[test]
fn a_loss_that_a_capturer_hides_is_counted() {
    let Some(stand) = Stand::new(test_name!()) else { return };
    // It throws every tenth packet away, and says that it has lost none.
    let script = stand.dir.path().join("liar");
    let text =
        format!("#!/bin/sh\nexec '{QUAFF}' capture -q -i \"$1\" -w \"$2\" --json -f 'udp[16:2] % 10 != 0'\n");
    std::fs::write(&script, text).expect("written");
    let command = format!("liar=sh {} {{interface}} {{file}}", script.display());
    let liar = Tool {
        drops: Some(tool::Counter::Json(vec!["lost".into()])),
        ..tool::from_command(&command, Path::new(QUAFF)).expect("a command")
    };
    let run = stand.run(&liar, &Setting::default());
    assert_eq!(run.failed, None);
    assert_eq!((run.offered, run.captured, run.tool_drops), (COUNT, Some(COUNT * 9 / 10), Some(0)));
    assert_eq!((run.loss, run.counted_by.as_str()), (Some(0.1), "file"));
}

#[test]
fn each_rival_is_measured_in_each_way_that_it_knows() {
    let test = test_name!();
    let Some(stand) = Stand::new(test) else { return };
    let names = [
        "quaff",
        "tcpdump",
        "dumpcap",
        "tshark",
        "tshark-screen",
        "netsniff-ng",
        "stenographer",
        "gulp",
        "recvfrom",
    ];
    for rival in installed(test, &names) {
        let only_screen = rival.name == "tshark-screen";
        for (output, counted_by) in [
            (Output::Disk, "file"),
            (Output::Null, "tool"),
            (Output::Pipe, "pipe"),
            (Output::Screen, "lines"),
        ] {
            let setting = Setting { buffer_mib: Some(64), ..to(output) };
            // One that has no file of its own writes to the screen where others write to disk.
            if rival.can(&setting).is_err() || only_screen && output == Output::Disk {
                continue;
            }
            let run = stand.run(&rival, &setting);
            let what = format!("{} {output:?}: {run:?}", rival.name);
            assert_eq!(run.failed, None, "{what}");
            assert_eq!((run.offered, run.counted_by.as_str()), (COUNT, counted_by), "{what}");
            // This machine may be busy; what was captured is some of what there was.
            let captured = run.captured.expect("counted");
            assert!(captured > COUNT / 10 && captured <= COUNT, "{what}");
            assert!(run.cpu_user_s + run.cpu_system_s > 0.0 && run.seconds > 0.25, "{what}");
            assert_eq!(run.bytes > captured * 256, output == Output::Disk, "{what}");
        }
    }
}

#[test]
fn quaff_and_recvfrom_obey_each_setting() {
    let test = test_name!();
    let Some(stand) = Stand::new(test) else { return };
    let all = shipped(Path::new(QUAFF));
    for name in ["quaff", "recvfrom"] {
        let rival = all.iter().find(|rival| rival.name == name).expect("shipped");
        let plain = Setting { buffer_mib: Some(64), ..Setting::default() };
        let nothing = stand.run(rival, &Setting { filter: Filter::RejectAll, ..plain.clone() });
        assert_eq!(
            (nothing.failed.as_deref(), nothing.captured, nothing.loss),
            (None, Some(0), None),
            "{name}"
        );
        // All frames, unless the capturer has no core for longer than its buffer lasts.
        let all_of = |content, setting: &Setting| {
            let mut found = None;
            let run = || {
                let run = stand.run_of(content, rival, setting);
                assert_eq!(run.failed.as_deref(), None, "{name}");
                let captured = run.captured;
                found = Some(run);
                (name, captured)
            };
            assert_when_quiet(test, run, |(_, captured)| *captured == Some(COUNT));
            found.expect("a run")
        };
        let accepted = || all_of(Content::Counting, &Setting { filter: Filter::AcceptAll, ..plain.clone() });
        let short = all_of(Content::Counting, &Setting { snaplen: Some(48), ..plain.clone() });
        assert!(short.bytes < accepted().bytes, "{name}");
        for content in [Content::Counting, Content::Zeros] {
            all_of(content, &Setting { snaplen: Some(76), ..plain.clone() });
        }
        let both = || {
            let laden = stand.run(rival, &Setting { copies: 25, compression: 9, ..plain.clone() });
            assert_eq!(laden.failed.as_deref(), None, "{name}");
            (accepted(), laden)
        };
        let used = |run: &Run| (run.cpu_user_s + run.cpu_system_s) / run.captured.unwrap_or(1).max(1) as f64;
        assert_when_quiet(test, both, |(accepted, laden)| used(laden) > 1.2 * used(accepted));
        let two = stand.run(rival, &Setting { capturers: 2, ..plain });
        assert_eq!((two.failed.as_deref(), two.each_loss.len()), (None, 2), "{name}");
    }
}
