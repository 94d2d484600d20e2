//! `quaff bench promises`: limits that quaff must keep, measured beside other programs in the same minutes, each with a
//! verdict. The captures are the preset `presets/promises.toml` of quaff-bench.

mod captures;
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
use crate::terminal_table;
use anyhow::bail;
use promise::Promise;
use quaff_bench::bench::result::Report;
use quaff_lab::Error;
use std::path::PathBuf;
use verdict::{Row, Samples};

/// Measure what quaff promises, beside other programs, against a limit for each promise
///
/// Prints a line for each promise: its name, its limit, the measured values and the verdict. The programs take turns on
/// the same core, the same traffic and the same disk; values are medians of the runs. A promise that compares is open
/// if the other program is not installed; what others lose is shown, and judges nothing. It takes about half an hour,
/// needs root and about 6 GiB of disk (24 with --long, 30 for large-file), and removes its files.
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
    /// Capture to replay [default: mix.pcap of $QUAFF_CAPTURES, or generated traffic]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    /// Folder for the files of the measurement, on a disk [default: the current folder or /var/tmp]
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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let setup = Setup::new(&["quaff"], args.dir.as_deref())?;
    let mut bench = Bench { args, setup, rows: Vec::new(), samples: Vec::new(), captures: None };
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
        let heads = ["promise", "limit", "measured", "verdict"];
        let cells = rows.iter().map(|row| {
            vec![row.name.clone(), row.limit.clone(), row.measured.clone(), row.verdict().to_owned()]
        });
        show::print(&terminal_table::laid_out(&heads, std::iter::empty(), cells));
    }
    Ok(Exit::judged(rows.iter().all(|row| row.holds != Some(false))))
}

/// A measurement of promises, and its results so far.
struct Bench<'a> {
    args: &'a Args,
    setup: Setup,
    rows: Vec<Row>,
    /// Results of programs that are not capturers, for `--json`.
    samples: Vec<Samples>,
    captures: Option<Report>,
}

/// Measures one promise.
type Part<'a> = fn(&mut Bench<'a>) -> quaff_lab::Result<()>;

impl<'a> Bench<'a> {
    fn all(&mut self) -> quaff_lab::Result<()> {
        self.captures()?;
        let long = self.args.long && self.args.wants(Promise::LargeFrames);
        let parts: [(Promise, Part<'a>); 9] = [
            (Promise::Idle, Self::idle),
            (Promise::TunnelFile, Self::tunnel_file),
            (Promise::Pipe, Self::pipes),
            (Promise::ReplaySpeed, Self::replay_speed),
            (Promise::ReplayFidelity, Self::replay_fidelity),
            (Promise::ReplayPace, Self::replay_pace),
            (Promise::NewFlows, Self::new_flows),
            (Promise::LargeFile, Self::large_file),
            (Promise::Interrupts, Self::interrupts),
        ];
        if long {
            self.long()?;
        }
        parts
            .into_iter()
            .filter(|(promise, _)| self.args.wants(*promise))
            .try_for_each(|(_, part)| part(self))
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
        self.setup.expect(title, u64::from(self.args.runs()) * names.len() as u64);
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
