//! `quaff verify`: checks whether a capture is complete.

mod against;
mod args;
mod conclusion;
mod live;
mod numbers;
mod page;
mod tcp;
mod text;
mod words;

pub(crate) use args::Args;

use crate::confined;
use crate::exit::Exit;
use crate::shell::{Part, Product, Settings, Shell};
use crate::show;
use crate::written_file::WrittenFile;
use conclusion::{conclude, write_page};
use indicatif::{ProgressBar, ProgressStyle};
use quaff_file::read;
use quaff_file::verify::against::{Matched, Options as Against};
use quaff_file::verify::{self, Injection, Options, Progress};
use quaff_wire::fingerprint::Mask;
use quaff_wire::printable::quote_path;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use text::print;

/// Interval of checks for the end of the reader.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if let Some(interface) = args.interface.first() {
        return live::run(&args, interface);
    }
    let found = args.input.find(&[])?;
    args.follow.check(&found)?;
    let (confined_to, files) = (found.with_later_names(), found.files);
    let follow = *args.follow;
    let shell = follow.then(|| Shell::new(Settings::default())).transpose()?;
    let stop = shell.as_ref().map(|shell| shell.stop().clone()).unwrap_or_default();
    let helpers = args.lanes.of_files().map(|lanes| lanes - 1);
    let reading = read::Options {
        salvage: *args.salvage,
        follow,
        stop,
        helpers,
        found: Arc::new(found.in_folders),
        ..read::Options::default()
    };
    let next = next_command(&args);
    let written = args.html.as_deref().map(WrittenFile::open).transpose()?;
    if !*args.no_sandbox {
        let page: Vec<_> = args.html.iter().map(PathBuf::as_path).collect();
        confined::to_files([&confined_to[..], &args.against].concat(), &page)?;
    }
    let work = move || {
        if args.against.is_empty() {
            let inject = args.inject_loss.map(|(share, burst)| {
                let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
                Injection { share, burst, seed }
            });
            let options = Options { from_first: args.from_first, expect: args.expect, inject, reading };
            return check(&files, options, args.report.json, written, next.as_deref());
        }
        let snaplen = args.snaplen.map(|bytes| bytes as usize);
        let mask = Mask { macs: args.ignore_macs, ttl: args.ignore_ttl, snaplen };
        let options = Against { turns: args.turns.unwrap_or(1), expect: args.expect, mask, reading };
        compare(&args.against, &files, options, args.report.json)
    };
    match shell {
        Some(mut shell) => shell.run(Checking(quaff_os::spawn("quaff-verify", work)?))?,
        None => work(),
    }
}

/// A check of files that grow, as the shell watches it.
struct Checking(JoinHandle<anyhow::Result<Exit>>);

impl Product for Checking {
    const LOSS: &'static str = "there is no report";
    type Report = anyhow::Result<Exit>;

    fn is_over(&self) -> bool {
        self.0.is_finished()
    }

    fn finish(self) -> anyhow::Result<Exit> {
        self.0.join().map_err(|_| anyhow::anyhow!("a defect of quaff: the reader panicked"))?
    }

    fn progress(&mut self) -> Vec<Part> {
        Vec::new()
    }

    fn look_interval(&self) -> Duration {
        LOOK
    }
}

/// Files that the next command names one by one; of more the first and the last.
const FILES_SHOWN: usize = 4;

/// The command that shows the missing bytes of each connection in the same files; `None` if it would not find them.
fn next_command(args: &Args) -> Option<String> {
    let named = args.input.named();
    if args.inject_loss.is_some() || named.iter().any(|path| path.as_os_str() == "-") {
        return None;
    }
    let path = |file: &PathBuf| quote_path(&file.display().to_string());
    let files: Vec<String> = match named {
        [first, .., last] if named.len() > FILES_SHOWN => vec![path(first), "…".into(), path(last)],
        files => files.iter().map(path).collect(),
    };
    let salvage = if *args.salvage { " --salvage" } else { "" };
    Some(format!("quaff streams list {}{salvage}", files.join(" ")))
}

/// Verifies `files` and prints the result, with the `next` command where connections lack data.
pub(crate) fn check(
    files: &[PathBuf],
    options: Options,
    json: bool,
    html: Option<WrittenFile>,
    next: Option<&str>,
) -> anyhow::Result<Exit> {
    let bar = bar(files);
    let report = verify::verify(files, options, |progress| tick(&bar, progress));
    bar.finish_and_clear();
    let exit = conclude(&report, &report.outcome, json, |out| print(out, &report, next))?;
    write_page(html, files, &report)?;
    Ok(exit)
}

/// Compares `files` with those that were sent and prints the result.
fn compare(sent: &[PathBuf], files: &[PathBuf], options: Against, json: bool) -> anyhow::Result<Exit> {
    let bar = bar(&[sent, files].concat());
    let report: Matched = verify::against::against(sent, files, options, |progress| tick(&bar, progress));
    bar.finish_and_clear();
    conclude(&report, &report.outcome, json, |out| against::print(out, &report))
}

/// Shown on a terminal only; of unknown length where a file has no size.
fn bar(files: &[PathBuf]) -> ProgressBar {
    let size = |file: &PathBuf| file.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
    let (bar, line) = match files.iter().map(size).sum::<Option<u64>>() {
        Some(bytes) => (ProgressBar::new(bytes), "{percent:>3} % of {total_bytes}, {eta} left  {msg}"),
        None => (ProgressBar::no_length(), "{spinner} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(line).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn tick(bar: &ProgressBar, progress: Progress) {
    if !bar.is_hidden() && bar.elapsed() > Duration::from_millis(300) {
        bar.set_position(progress.bytes);
        let rate = progress.frames as f64 / bar.elapsed().as_secs_f64();
        bar.set_message(format!("{}, {}", show::number_of(progress.frames, "frame"), show::pps(rate)));
    }
}
