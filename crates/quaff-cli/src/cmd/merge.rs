//! `quaff merge`: captures of any program into one, by time. The work is that of `quaff capture --read`; here are the
//! arguments, and the report on the order.

use crate::capture_files::Found;
use crate::cmd::capture;
use crate::exit::{Exit, RunEnd};
use crate::flags::{
    CapturesArgs, CompressArg, FormatArg, OwnerArgs, SalvageArg, SnaplenArg, USER_OF_FILES, WriteArg, of,
    reworded,
};
use crate::line;
use crate::shell::{self, ONLY_ERRORS, QuietArgs, ReportArgs};
use crate::show::{self, Stream, name};
use quaff::plan::{CapturePlan, ReadOrder};
use quaff::tally::{InputTally, Ledger, MergeTally, UnsortedFile, Verdict};
use quaff_file::read::SkippedBytes;
use quaff_file::write::Codec;
use quaff_os::{Reason, process};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Merge captures of any program into one, by time
///
/// Reads pcap and pcapng, compressed or not, of any number of files, folders and pipes, and writes their packets in the
/// order of time; packets of one time are in the order of the files. Interfaces are kept: one that several
/// files describe alike, of the same machine and program, is one interface of the output, as those of a
/// rotation or of several lanes are; all others stay apart. Recorded losses, comments and other options are
/// kept, as by 'quaff capture --read'.
///
/// A file is open while its packets are due, so files that follow each other in time take the memory of one: 16 MiB
/// for each of up to 16 files that overlap, 256 MiB for 256, 1 MiB for each of more.
///
/// Each file should be sorted by time, as those of one lane are. One that is not is named and its late packets are
/// counted; they are written as soon as they are read, and the exit status is 1. --reorder sorts them.
///
/// Exit status: 0 all packets are in the output, sorted by time; 1 the output is not sorted, the files record
/// losses or are damaged, or the merge was interrupted; 2 failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("write", |arg| arg.required(true))),
    mut_args(of("quiet", |arg| arg.help(ONLY_ERRORS))),
    mut_args(of("user", |arg| reworded(arg, USER_OF_FILES)))
)]
pub(crate) struct Args {
    #[command(flatten)]
    input: CapturesArgs,
    #[command(flatten)]
    salvage: SalvageArg,
    /// Sort packets that are late in their file, too: files are read twice
    ///
    /// The first time to find late packets, which are kept in up to 64 MiB of memory, and beyond that in a temporary
    /// file in the folder of the output. All packets of a pipe go there, since it can be read only once.
    #[arg(long, help_heading = "Input")]
    reorder: bool,

    #[command(flatten)]
    write: WriteArg,
    #[command(flatten)]
    format: FormatArg,
    #[command(flatten, next_help_heading = "Output")]
    compress: CompressArg<Codec>,
    #[command(flatten)]
    snaplen: SnaplenArg<u32>,

    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    quiet: QuietArgs,

    #[command(flatten)]
    owner: OwnerArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff merge a.pcap b.pcapng.gz -w all.pcapng
  quaff merge /disk0/capture /disk1/capture -w all.pcapng.zst
  quaff merge --reorder unsorted.pcap -w sorted.pcap
  quaff merge a.pcap b.pcap -w - | tshark -r -
  ssh sensor cat /data/all.pcapng | quaff merge - here.pcapng -w all.pcapng";

/// Unsorted files in a report; the JSON has all.
const FILES_SHOWN: usize = 8;

/// The JSON report.
#[derive(Debug, Serialize)]
struct Report<'a> {
    files: u64,
    packets: u64,
    bytes_read: u64,
    bytes_written: u64,
    seconds: f64,
    cpu_seconds: f64,
    sorted: bool,
    backward: u64,
    reordered: u64,
    spilled_bytes: u64,
    open_files_max: u64,
    unsorted_files: &'a [UnsortedFile],
    recorded_drops: u64,
    unsuited: u64,
    lost: u64,
    damages: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    missing: &'a [String],
    skipped: SkippedBytes,
    late_times: u64,
    early_times: u64,
    raised_lengths: u64,
    large_fractions: u64,
    verdict: Verdict,
    failure: Option<&'a str>,
    notes: &'a [String],
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Found { files, in_folders } = args.input.find(&[args.output()])?;
    // Files that overlap in time are open together; without the right to more, an error names the first one too many.
    process::raise_open_files().ok();
    let native = args.native(&files)?;
    let plan = args.plan(&native, in_folders)?.validate()?;
    let ledger = capture::capture(&native, &plan)?;
    let input = ledger.input.clone().unwrap_or_default();
    let merge = input.merge.clone().unwrap_or_default();
    let is_json = args.report.json;
    if is_json {
        show::json(Stream::of_report(plan.takes_stdout()), &report(&ledger, &input, &merge))?;
    }
    let is_stdout_taken = is_json && plan.takes_stdout();
    if !args.quiet.is_set() && !is_stdout_taken {
        let text = capture::ledger_text(&ledger) + &order_words(&input, &merge, args.reorder);
        show::report(Stream::Stderr, text.trim_end());
    }
    let mut end = RunEnd::from(&ledger);
    // The output is not sorted, or lacks the end.
    end.has_defect |= merge.backward > 0 || ledger.ended_by != Some(Reason::InputEnded);
    Ok(shell::ended(end, !args.quiet.is_set() && !is_stdout_taken))
}

impl Args {
    /// The file to write, which is required.
    fn output(&self) -> &Path {
        self.write.first().map_or(Path::new("-"), PathBuf::as_path)
    }

    /// The arguments of `quaff capture --read` for the same files.
    fn native(&self, files: &[PathBuf]) -> anyhow::Result<capture::Args> {
        let joined = |option: &str, value: &OsStr| {
            let mut word = OsString::from(option);
            word.push(value);
            word
        };
        let mut line = vec![OsString::from("capture"), joined("--write=", self.output().as_os_str())];
        line.extend(files.iter().map(|file| joined("--read=", file.as_os_str())));
        line.extend((*self.salvage).then(|| "--salvage".into()));
        line.extend(self.quiet.is_set().then(|| "--quiet".into()));
        line.push(format!("--snaplen={}", self.snaplen.unwrap_or(0)).into());
        if let Some(codec) = *self.compress {
            line.push(format!("--compress={codec}").into());
        }
        line::parse(&line)
    }

    fn plan(&self, native: &capture::Args, found: BTreeSet<PathBuf>) -> anyhow::Result<CapturePlan> {
        let mut plan = native.plan()?;
        plan.write.format = self.format.unwrap_or(plan.write.format);
        (plan.write.access, plan.write.owner) = (self.owner.access()?, self.owner.user.caller());
        plan.sandbox = self.owner.user.sandbox();
        if let Some(read) = &mut plan.input.read {
            read.found = Arc::new(found);
            read.order = if self.reorder { ReadOrder::Reordered } else { ReadOrder::ByTime };
        }
        show::check_stdout(plan.takes_stdout())?;
        Ok(plan)
    }
}

fn report<'a>(ledger: &'a Ledger, input: &'a InputTally, merge: &'a MergeTally) -> Report<'a> {
    Report {
        files: input.files,
        packets: ledger.written,
        bytes_read: input.bytes,
        bytes_written: ledger.bytes_written,
        seconds: ledger.seconds,
        cpu_seconds: ledger.cpu_seconds,
        sorted: merge.backward == 0,
        backward: merge.backward,
        reordered: merge.reordered,
        spilled_bytes: merge.spilled_bytes,
        open_files_max: merge.open_max,
        unsorted_files: &merge.unsorted,
        recorded_drops: input.recorded_drops,
        unsuited: ledger.unsuited,
        lost: ledger.lost,
        damages: &input.damages,
        missing: &input.missing,
        skipped: input.jumps,
        late_times: input.late_times,
        early_times: input.early_times,
        raised_lengths: input.raised_lengths,
        large_fractions: input.large_fractions,
        verdict: ledger.verdict,
        failure: ledger.failure.as_deref(),
        notes: &ledger.notes,
    }
}

/// The order of the packets, as lines of the report.
fn order_words(input: &InputTally, merge: &MergeTally, is_reordered: bool) -> String {
    let (files, open) = (show::number_of(input.files, "file"), show::count(merge.open_max));
    let mut text = match merge.backward {
        0 => format!("  {files}, at most {open} open at once; sorted by time\n"),
        backward => {
            let backward = show::number_of(backward, "packet");
            format!("  NOT SORTED by time: {backward} of {files}, earlier than one before them\n")
        }
    };
    for UnsortedFile { path, late, late_max_ns } in merge.unsorted.iter().take(FILES_SHOWN) {
        let (late, by) = (show::number_of(*late, "late packet"), show::span_ns(*late_max_ns));
        let then = if is_reordered { "sorted in" } else { "--reorder sorts them" };
        text += &format!("  {} is not sorted: {late}, by up to {by}; {then}\n", name(path));
    }
    if merge.unsorted.len() > FILES_SHOWN {
        text += &format!(
            "  and {}\n",
            show::number_of((merge.unsorted.len() - FILES_SHOWN) as u64, "more unsorted file")
        );
    }
    if merge.spilled_bytes > 0 {
        let bytes = show::bytes(merge.spilled_bytes);
        text += &format!("  {bytes} of late packets went through a temporary file\n");
    }
    text
}
