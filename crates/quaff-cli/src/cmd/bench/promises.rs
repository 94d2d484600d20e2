//! `quaff bench promises`: limits that quaff must keep, measured beside other programs in the same minutes, each with a
//! verdict. The captures are the preset `presets/promises.toml` of quaff-bench.

mod captures;
mod files;
mod lines;
mod long_file;
mod promise;
mod senders;
mod setup;
mod streams;
mod verdict;

pub(crate) use setup::Setup;

use crate::exit::Exit;
use crate::flags::{CountArg, RunsArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use anyhow::bail;
use clap::ValueEnum as _;
use long_file::LongFile;
use promise::Promise;
use quaff_bench::bench::result::Report;
use quaff_lab::Error;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::rc::Rc;
use verdict::{Row, Samples};

/// Measure what quaff promises, beside other programs, against a limit for each promise
///
/// Prints each verdict as soon as it is known, with the limit and the measured values, and their number at the end.
///
/// The programs take turns on the same core, the same traffic and the same disk; values are medians of the runs.
/// Programs that read a file take it from the page cache and may use all cores; the time on the clock is compared. A
/// promise that compares is open if the other program is not installed; what others lose is shown, and judges nothing.
/// It takes about 45 minutes, needs root and about 6 GiB of disk (24 with --long, 30 for large-file), and removes its
/// files.
///
/// Exit status: 0 no promise is broken; 1 a promise is broken; 2 the measurement failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_args(of("count", |arg| arg.hide(true))))]
pub(crate) struct Args {
    /// Promises to measure [default: all except large-file]
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    only: Vec<Promise>,
    #[command(flatten)]
    runs: RunsArg,
    /// Also capture 20 GB (large-frames), and replay the whole file at its own times (replay-fidelity)
    #[arg(long)]
    long: bool,
    /// Capture to replay, and to read in many passes [default: mix.pcap of $QUAFF_CAPTURES, or generated traffic]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    /// Folder for the files of the measurement, on a disk [default: /var/tmp, or the current folder if that is no disk]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    count: CountArg,
}

impl Args {
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(5)
    }
}

const EXAMPLES: &str = "\
Examples:
  quaff bench promises
  quaff bench promises --only 400kpps,cpu --runs 3
  quaff bench promises --only large-frames --long --dir /data
  quaff bench promises --json | jq '.checks[] | select(.holds == false)'";

impl Args {
    fn wants(&self, promise: Promise) -> bool {
        if self.only.is_empty() { promise != Promise::LargeFile } else { self.only.contains(&promise) }
    }

    /// The promises to measure, in their order.
    fn wanted(&self) -> impl Iterator<Item = Promise> {
        Promise::value_variants().iter().copied().filter(|promise| self.wants(*promise))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let setup = Setup::new(&["quaff"], args.dir.as_deref())?;
    let mut bench = Bench {
        args,
        setup,
        number: 0,
        rows: Vec::new(),
        samples: Vec::new(),
        captures: None,
        long_file: None,
    };
    let done = bench.all();
    bench.setup.end();
    match done {
        Err(Error::Interrupted) => bail!("interrupted; all files are removed"),
        done => done?,
    }
    let Bench { rows, samples, captures, .. } = bench;
    if args.report.json {
        let all = serde_json::json!({ "checks": rows, "samples": samples, "captures": captures });
        show::json(Stream::Stdout, &all)?;
    } else {
        show::print(&format!("\n{}", lines::summary(&rows)));
    }
    Ok(Exit::judged(rows.iter().all(|row| row.holds != Some(false))))
}

/// A measurement of promises, and its results so far.
struct Bench<'a> {
    args: &'a Args,
    setup: Setup,
    /// Number of the promise that is measured, from 1.
    number: usize,
    rows: Vec<Row>,
    /// Results of programs that are not capturers, for `--json`.
    samples: Vec<Samples>,
    captures: Option<Report>,
    /// The file of the programs that read, once one of them was measured.
    long_file: Option<Rc<LongFile>>,
}

impl Bench<'_> {
    fn all(&mut self) -> quaff_lab::Result<()> {
        let wanted: Vec<_> = self.args.wanted().collect();
        for promise in wanted {
            self.number += 1;
            self.captures(promise)?;
            self.part(promise)?;
        }
        Ok(())
    }

    /// Measures what a promise has besides the captures of the preset.
    fn part(&mut self, promise: Promise) -> quaff_lab::Result<()> {
        match promise {
            Promise::LargeFrames if self.args.long => self.long(),
            Promise::Paced | Promise::SmallFrames | Promise::LargeFrames | Promise::Tunnels => Ok(()),
            Promise::Cpu | Promise::CpuStenographer | Promise::CpuNull | Promise::CpuDefault => Ok(()),
            Promise::Lanes | Promise::Tap => Ok(()),
            Promise::Idle => self.idle(),
            Promise::TunnelFile => self.tunnel_file(),
            Promise::FlowsFile => self.flows_file(),
            Promise::Verify => self.verify(),
            Promise::StreamsFile => self.streams_file(),
            Promise::ReadFile => self.read_file(),
            Promise::Merge => self.merge(),
            Promise::Info => self.info(),
            Promise::Pipe => self.pipes(),
            Promise::ReplaySpeed => self.replay_speed(),
            Promise::ReplayFidelity => self.replay_fidelity(),
            Promise::ReplayPace => self.replay_pace(),
            Promise::NewFlows => self.new_flows(),
            Promise::LargeFile => self.large_file(),
            Promise::Interrupts => self.interrupts(),
        }
    }

    /// Announces a measurement of so many `runs`, by a line where no terminal shows the progress line.
    fn begin(&self, promise: Promise, title: &str, runs: u64) {
        let place = lines::place([self.number, self.args.wanted().count()], &promise.name());
        if !std::io::stderr().is_terminal() {
            show::say(&format!("{place}: {title}"));
        }
        self.setup.expect(&place, runs);
    }

    /// Prints a verdict, above the progress line, and keeps it.
    fn judge(&mut self, row: Row) {
        if self.args.report.json {
            self.setup.above(|| show::say(&lines::verdict(&row, false)));
        } else {
            let colours = std::io::stdout().is_terminal() && show::is_coloured();
            self.setup.print(&lines::verdict(&row, colours));
        }
        self.rows.push(row);
    }

    /// As many rounds as the arguments ask for; in each of them `run` runs each of the `names` once. A program that
    /// is absent or fails is recorded in its samples.
    fn rounds(
        &mut self,
        promise: Promise,
        title: &str,
        unit: &'static str,
        names: &[&str],
        mut run: impl FnMut(&Setup, usize) -> quaff_lab::Result<f64>,
    ) -> quaff_lab::Result<Vec<Samples>> {
        let mut all: Vec<_> = names
            .iter()
            .map(|name| Samples::new(&format!("{}: {title}", promise.name()), name, unit))
            .collect();
        self.begin(promise, title, u64::from(self.args.runs()) * names.len() as u64);
        for _ in 0..self.args.runs() {
            for (at, samples) in all.iter_mut().enumerate() {
                match run(&self.setup, at) {
                    Ok(value) => samples.values.push(value),
                    Err(Error::Tool { what, .. }) => samples.failed = Some(what),
                    Err(Error::Os(error)) if error.errno.kind() == std::io::ErrorKind::NotFound => {
                        samples.failed = Some("not installed".into());
                    }
                    Err(error) => return Err(error),
                }
                self.setup.done();
            }
        }
        self.samples.extend_from_slice(&all);
        Ok(all)
    }
}
