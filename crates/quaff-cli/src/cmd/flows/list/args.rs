//! The arguments of `quaff flows list`, and what they make.

use super::order::{FirstRows, Sort};
use super::outputs::{JsonRows, Outputs, Pages, Shown, TextFile};
use crate::cmd::flows::records::RecordsArgs;
use crate::flags::{CsvArg, JsonlArg, NoSandboxArg, SortArg, TopArg, UtcArg, WideArg, of};
use crate::shell::{QuietArgs, ReportArgs};
use crate::terminal_table::Columns;
use anyhow::{bail, ensure};
use quaff_file::write::Output;
use quaff_flow::export::TextFormat;
use quaff_os::was_stdout_closed;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// List the flows of files with their times, a line each
///
/// Meters capture files as 'quaff flows --read' does, or reads what 'quaff flows' wrote with --parquet or --ipfix, and
/// prints a line for each record: start, duration, both ends, flags of TCP, packets and bytes in each direction,
/// application and server. The first end is the one that began the conversation. Bytes are those of IP packets. A flow
/// longer than --active has several records [default: --active 120s, --idle 30s].
///
/// Lines are in the order of the files, and printed while these are read; with --sort or --top they are sorted, and
/// printed at the end.
///
/// Exit status: 0 nothing was lost; 1 an input file is damaged, missing in its run or records losses; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("sort", |arg| arg.help(SORT))),
    mut_args(of("top", |arg| arg.help(TOP))),
    mut_args(of("json", |arg| arg.help("Print the list as one JSON object instead of a table"))),
    mut_args(of("csv", |arg| arg.help(CSV))),
    mut_args(of("jsonl", |arg| arg.help(JSONL))),
    mut_args(of("quiet", |arg| arg.help("Print neither progress nor the sums of the run")))
)]
pub(in crate::cmd) struct Args {
    #[command(flatten)]
    pub(super) records: RecordsArgs,

    #[command(flatten)]
    csv: CsvArg,
    #[command(flatten)]
    jsonl: JsonlArg,

    #[command(flatten, next_help_heading = "Report")]
    sort: SortArg<Sort>,
    #[command(flatten)]
    top: TopArg,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    wide: WideArg,
    #[command(flatten)]
    _utc: UtcArg,
    #[command(flatten)]
    pub(super) quiet: QuietArgs,

    #[command(flatten)]
    pub(super) no_sandbox: NoSandboxArg,
}

const CSV: &str = "Write the list to FILE as CSV, with the columns of 'flows --csv'; '-' is stdout";
const JSONL: &str = "Write the list to FILE as lines of JSON, as 'flows --jsonl'; '-' is stdout";
const SORT: &str = "Sort by a time, the earliest first, or by a number, the largest first";
const TOP: &str = "List the first N by --sort; without --sort those with the most bytes";

const EXAMPLES: &str = "\
Examples:
  quaff flows list /data --where 'host 192.168.1.7 and port 443'
  quaff flows list day.pcapng --sort start
  quaff flows list day.ipfix --where 'duration > 60s' --sort duration --top 20
  quaff flows list /data --from '2026-11-23 04:55' --csv flows.csv
  quaff flows list day.pcapng --top 10 --json | jq '.flows[].server'";

/// Most rows that are sorted without --top.
const ROWS_MAX: usize = 1_000_000;

impl Args {
    /// Refuses a stdout that was closed, and a file or a stdout that several outputs would take.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let files_on_stdout = self.files().filter(|path| path.as_os_str() == "-").count();
        ensure!(
            files_on_stdout + usize::from(self.report.json) <= 1,
            "stdout can have one of --json, --csv and --jsonl: name a file for the others"
        );
        ensure!(
            self.csv.is_none() || *self.csv != *self.jsonl,
            "--csv and --jsonl have the same file: name another one for one of them"
        );
        ensure!(
            !(was_stdout_closed() && self.takes_stdout()),
            "stdout is closed: name a file with --csv or --jsonl, or use a pipe"
        );
        Ok(())
    }

    /// The files of --csv and --jsonl.
    fn files(&self) -> impl Iterator<Item = &Path> {
        [self.csv.as_deref(), self.jsonl.as_deref()].into_iter().flatten()
    }

    /// The list goes to stdout, in one form or another.
    fn takes_stdout(&self) -> bool {
        self.report.json || self.files().count() == 0 || self.files().any(|path| path.as_os_str() == "-")
    }

    /// The files that are written.
    pub(super) fn written(&self) -> Vec<&Path> {
        self.files().filter(|path| path.as_os_str() != "-").collect()
    }

    /// The outputs of a run of the engine.
    pub(super) fn also_written(&self) -> Vec<Output> {
        let files = self.written().into_iter().map(|path| Output::File(path.to_owned()));
        files.chain(self.takes_stdout().then_some(Output::Stdout)).collect()
    }

    /// Refuses an output that is one of the files to read.
    pub(super) fn refuse_inputs(&self, files: &[PathBuf]) -> anyhow::Result<()> {
        for path in self.written() {
            let Ok(written) = path.canonicalize() else { continue };
            if files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == written)) {
                bail!("{} is read: write the list to another file", path.display());
            }
        }
        Ok(())
    }

    /// A progress line is drawn; not where rows appear on the terminal meanwhile.
    pub(super) fn has_line(&self) -> bool {
        let shows_rows = self.takes_stdout() && std::io::stdout().is_terminal() && self.order().is_none();
        std::io::stderr().is_terminal() && !self.quiet.is_set() && !shows_rows
    }

    /// The first rows of an order; `None` for the order of the files.
    pub(super) fn order(&self) -> Option<FirstRows> {
        let is_sorted = self.sort.is_some() || self.top.is_some();
        let (sort, most) = (self.sort.unwrap_or(Sort::Bytes), self.top.unwrap_or(ROWS_MAX));
        is_sorted.then(|| FirstRows::new(sort, most))
    }

    /// Opens the outputs.
    pub(super) fn outputs(&self) -> anyhow::Result<Outputs> {
        let formats = [
            (TextFormat::Csv { separator: b',' }, self.csv.as_deref()),
            (TextFormat::Json, self.jsonl.as_deref()),
        ];
        let named = formats.into_iter().filter_map(|(format, path)| Some((format, path?)));
        let files =
            named.map(|(format, path)| TextFile::open(format, path)).collect::<anyhow::Result<Vec<_>>>()?;
        let shown = match (self.report.json, files.is_empty()) {
            (true, _) => Shown::Json(JsonRows::default()),
            (false, true) => Shown::Table(Pages::new(Columns::wide(*self.wide))),
            (false, false) => Shown::Nothing,
        };
        Ok(Outputs::new(shown, files))
    }
}
