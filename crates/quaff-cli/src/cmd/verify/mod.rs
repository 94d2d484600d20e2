//! `quaff verify`: checks whether a capture is complete.

mod against;
mod live;
mod numbers;
mod page;
mod tcp;

use crate::cmd::lanes::SpreadArgs;
use crate::exit::Exit;
use crate::flags;
use crate::shell::{DurationArgs, Part, Product, ReportArgs, Settings, Shell};
use crate::show::{self, Stream, name};
use crate::units;
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use quaff_file::read;
use quaff_file::verify::against::{Matched, Options as Against};
use quaff_file::verify::{self, Gap, Injection, Ledger, Options, Outcome, Progress, Report, StreamEnd};
use quaff_os::sandbox::{Limits, Phase, Sandbox};
use quaff_wire::fingerprint::Mask;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// Check whether a capture is complete: generated and replayed traffic packet by packet, any other by its TCP
///
/// Frames of 'quaff generate' carry a stream id, a sequence number and a checksum. verify reads pcap and
/// pcapng files of any writer and reports which of these frames are missing, duplicate, late or damaged, and
/// when the first and the last gap occurred. Files may be compressed with gzip, zstd or lz4; the format is
/// detected from the content. A stream starts at number 0, so frames lost before the first one in the file
/// count as missing.
///
/// Any other traffic is judged by its TCP connections: data that both ends name and that the file lacks were lost by
/// the capture, or before it. Data that came late or twice are no loss of the capture. verify reports
/// the share of lost segments with an interval of 95 %, and whether the drops recorded in the file explain it.
/// --inject-loss removes packets first, so that the estimate can be compared with a loss that is known.
///
/// The drop counts and interface statistics in a pcapng file are compared with its content: verify reports
/// whether they explain the gaps, and where they contradict the file.
///
/// Several FILEs are read in order, as one capture: name the files of a rotation together. Files that were captured at
/// the same time, as one for each direction of a tap, need to be merged first ('quaff merge').
///
/// With --against, frames need no probe header: each is searched by its bytes in the file that was sent.
/// verify reports missing, duplicate, late and altered frames (similar to a missing one), unrelated frames,
/// and how the gaps between frames differ from the file's. This takes 40 bytes of memory per frame of that
/// file, and none for the capture.
///
/// Exit status: 0 complete, as far as can be known; 1 not complete; 2 a file could not be read, or holds nothing to
/// judge by: no probe headers, no acknowledged TCP data, no recorded loss.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("duration", |arg| arg.requires("interface")))]
pub(crate) struct Args {
    /// Capture files, pcap or pcapng; '-' is stdin
    #[arg(id = "read", required_unless_present = "interface", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Watch the packets of an interface instead of a file: a line each second on stderr, and the report at the end
    #[arg(
        short,
        long,
        value_name = "IF",
        conflicts_with_all = ["read", "salvage", "follow", "from_first", "expect", "against", "inject_loss"],
        help_heading = "Input"
    )]
    interface: Option<String>,
    /// Watch only packets that match a tcpdump expression
    #[arg(short, long, value_name = "EXPR", requires = "interface", help_heading = "Input")]
    filter: Option<String>,
    #[command(flatten)]
    end: DurationArgs,
    /// After damage, search for the next plausible packet and continue
    #[arg(long, help_heading = "Input")]
    salvage: bool,
    /// At the end of a file, wait for more data until the file is renamed or removed, or until a signal
    #[arg(long, help_heading = "Input")]
    follow: bool,
    /// Start each stream at the lowest sequence number found instead of 0, for captures whose oldest files
    /// were removed
    #[arg(long, conflicts_with = "against", help_heading = "Input")]
    from_first: bool,
    /// Require exactly N frames in each stream, numbers 0 to N-1
    ///
    /// Without this, frames lost at the end of a stream are noticed only where the generator knew its length.
    /// With --against: the first N frames were sent, over as many loops as that takes.
    #[arg(long, value_name = "N", help_heading = "Input")]
    expect: Option<u64>,

    /// Compare with the file that was sent; repeat it for files that were sent one after the other
    #[arg(long, value_name = "FILE", help_heading = "Comparison")]
    against: Vec<PathBuf>,
    /// The file was sent N times
    #[arg(
        long = "loop",
        value_name = "N",
        default_value_t = 1,
        requires = "against",
        conflicts_with = "expect",
        help_heading = "Comparison"
    )]
    turns: u64,
    /// Ignore MAC addresses, which routers change
    #[arg(long, requires = "against", help_heading = "Comparison")]
    ignore_macs: bool,
    /// Ignore TTL and header checksum of IPv4, and the hop limit of IPv6
    #[arg(long, requires = "against", help_heading = "Comparison")]
    ignore_ttl: bool,
    /// Compare only the first BYTES of each frame, for captures taken with a snaplen
    #[arg(long, value_name = "BYTES", requires = "against", help_heading = "Comparison")]
    snaplen: Option<usize>,

    /// Remove PERCENT of all packets at random before judging, in bursts of BURST packets [default: 1]
    #[arg(
        long,
        value_name = "PERCENT[,BURST]",
        value_parser = injected_loss,
        conflicts_with = "against",
        help_heading = "Validation"
    )]
    inject_loss: Option<(f64, u32)>,
    /// Random seed of --inject-loss [default: a new one, which the report shows]
    #[arg(long, value_name = "N", requires = "inject_loss", help_heading = "Validation")]
    seed: Option<u64>,

    #[command(flatten)]
    lanes: SpreadArgs,

    #[command(flatten)]
    report: ReportArgs,
    /// Write a page with pictures to FILE as well: loss over time, by interface and by connection
    #[arg(long, value_name = "FILE", conflicts_with = "against", help_heading = "Report")]
    html: Option<PathBuf>,

    /// Do not restrict the process before it reads: it keeps its privileges, and may use any file and system call
    #[arg(long, help_heading = "Privileges")]
    no_sandbox: bool,
}

/// Interval of checks for the end of the reader.
const LOOK: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  quaff verify all.pcapng
  quaff verify --from-first /data/quaff-*.pcapng
  quaff verify --expect 500000 --json lab.pcapng
  quaff verify --against sent.pcap --loop 10 received.pcapng
  quaff verify office.pcap
  quaff verify --html loss.html office.pcap
  quaff verify -i eth0 --duration 1m
  quaff verify -i eth0 --lanes 4
  quaff verify --inject-loss 0.1 office.pcap
  zstd -dc old.pcap.zst | quaff verify -";

/// Reads PERCENT[,BURST]: a share from 0 to 1, and packets.
fn injected_loss(text: &str) -> Result<(f64, u32), String> {
    let (percent, burst) = text.split_once(',').unwrap_or((text, "1"));
    let burst = burst.parse().ok().filter(|burst| *burst > 0);
    let burst = burst.ok_or_else(|| format!("'{text}': a burst is a number of packets, 1 at least"))?;
    Ok((units::percent(percent)? / 100.0, burst))
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if let Some(interface) = &args.interface {
        return live::run(&args, interface);
    }
    let follow = args.follow;
    let shell = follow.then(|| Shell::new(Settings::default())).transpose()?;
    let stop = shell.as_ref().map(|shell| shell.stop().clone()).unwrap_or_default();
    let reading = read::Options { salvage: args.salvage, follow, stop, buffer_bytes: None };
    if !args.no_sandbox {
        confine_with([&args.files[..], &args.against].concat(), args.html.as_deref())?;
    }
    let work = move || {
        if args.against.is_empty() {
            let inject = args.inject_loss.map(|(share, burst)| {
                let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
                Injection { share, burst, seed }
            });
            let options = Options { from_first: args.from_first, expect: args.expect, inject, reading };
            return check(&args.files, options, args.report.json, args.html.as_deref());
        }
        let mask = Mask { macs: args.ignore_macs, ttl: args.ignore_ttl, snaplen: args.snaplen };
        let options = Against { turns: args.turns, expect: args.expect, mask, reading };
        compare(&args.against, &args.files, options, args.report.json)
    };
    match shell {
        Some(mut shell) => shell.run(Checking(std::thread::spawn(work)))?,
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

/// Restricts the process to reading `files`, before it parses them.
pub(crate) fn confine(files: Vec<PathBuf>) -> anyhow::Result<()> {
    confine_with(files, None)
}

/// As [`confine`]; it may write a page as well.
pub(crate) fn confine_with(files: Vec<PathBuf>, page: Option<&Path>) -> anyhow::Result<()> {
    let folder = |path: &Path| match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let write = page.map(folder).into_iter().collect();
    confine_to(&Limits { read: files, write, ..Limits::default() })
}

/// Restricts the process to `limits`, before it parses the first byte.
pub(crate) fn confine_to(limits: &Limits) -> anyhow::Result<()> {
    let mut sandbox = Sandbox::confine(limits)?;
    sandbox.restrict_calls(Phase::Running);
    if sandbox.landlock_abi == 0 || !sandbox.seccomp {
        sandbox.notes.iter().for_each(|note| show::message(note));
    }
    Ok(())
}

/// Verifies `files` and prints the result.
pub(crate) fn check(
    files: &[PathBuf],
    options: Options,
    json: bool,
    html: Option<&Path>,
) -> anyhow::Result<Exit> {
    let bar = bar(files);
    let report = verify::verify(files, options, |progress| tick(&bar, progress));
    bar.finish_and_clear();
    let exit = conclude(&report, &report.outcome, json, |out| print(out, &report))?;
    write_page(html, files, &report)?;
    Ok(exit)
}

/// Writes the page, if one is wanted, after the report: a page that cannot be written costs no report.
fn write_page(html: Option<&Path>, files: &[PathBuf], report: &Report) -> anyhow::Result<()> {
    html.map_or(Ok(()), |path| {
        std::fs::write(path, page::page(files, report)).with_context(|| format!("write {}", path.display()))
    })
}

/// Compares `files` with those that were sent and prints the result.
fn compare(sent: &[PathBuf], files: &[PathBuf], options: Against, json: bool) -> anyhow::Result<Exit> {
    let bar = bar(&[sent, files].concat());
    let report: Matched = verify::against::against(sent, files, options, |progress| tick(&bar, progress));
    bar.finish_and_clear();
    conclude(&report, &report.outcome, json, |out| against::print(out, &report))
}

/// Prints a report as JSON, or in `words` if anything was read, and returns its exit status.
fn conclude(
    report: &impl serde::Serialize,
    outcome: &Outcome,
    json: bool,
    words: impl FnOnce(&mut String) -> std::fmt::Result,
) -> anyhow::Result<Exit> {
    if json {
        show::json(Stream::Stdout, report)?;
    } else if !outcome.unreadable || outcome.frames > 0 {
        let mut text = String::new();
        words(&mut text)?;
        show::report(Stream::Stdout, text.trim_end());
    }
    if outcome.unreadable {
        let error = outcome.error.as_deref().unwrap_or("a file could not be read");
        show::message(error);
        return Ok(Exit::judged(None));
    }
    Ok(Exit::judged(outcome.is_judged.then_some(outcome.complete)))
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
        bar.set_message(format!("{} frames, {}", show::count(progress.frames), show::pps(rate)));
    }
}

/// The first line, and the reasons below it when there are several.
fn verdict(out: &mut impl Write, reasons: &[String], complete: &str) -> std::fmt::Result {
    match reasons {
        [] => writeln!(out, "complete: {complete}"),
        [reason] => writeln!(out, "NOT complete: {}", name(reason)),
        reasons => {
            writeln!(out, "NOT complete:")?;
            reasons.iter().try_for_each(|reason| writeln!(out, "- {}", name(reason)))
        }
    }
}

fn print(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    let has_numbers = report.has_numbers();
    match report.outcome.is_judged {
        true if has_numbers => {
            let frames = show::count(report.outcome.received);
            let complete = format!("{frames} frames, none missing, duplicate or damaged");
            verdict(out, &report.outcome.reasons, &complete)?;
        }
        true => print_verdict(out, report)?,
        false => writeln!(
            out,
            "nothing to judge by: none of {} frames has a probe header of 'quaff generate', no TCP connection has \
             acknowledged data, no mirror, tunnel or RTP source numbers its packets, and no loss is recorded; \
             --against FILE compares with the file that was sent",
            show::count(report.outcome.frames)
        )?,
    }
    if report.outcome.frames == 0 {
        return Ok(());
    }
    if has_numbers || report.witnesses() == 0 {
        print_numbers(out, report)?;
    }
    tcp::print(out, &report.tcp)?;
    numbers::print(out, &report.numbers)?;
    numbers::print_copies(out, &report.copies, report.tcp.loss.copied_bytes)?;
    let ledger = report.outcome.ledger.as_ref();
    line(out, "ledger", &if has_numbers { ledger_words(ledger) } else { drop_words(ledger) })?;
    print_end(out, &report.outcome, report.outcome.frames)
}

/// The first line of a capture without numbered frames, and the reasons that are not in it.
fn print_verdict(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    let (outcome, lost) = (&report.outcome, report.lost_here() > 0);
    if !outcome.complete && !lost {
        return verdict(out, &outcome.reasons, "");
    }
    writeln!(out, "{}", name(&report.verdict))?;
    let others = outcome.reasons.iter().filter(|reason| !verify::LOST_HERE.contains(&reason.as_str()));
    others.map(|reason| name(reason)).try_for_each(|reason| writeln!(out, "- {reason}"))
}

/// The frames with numbers.
fn print_numbers(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    row(out, "received", report.outcome.received, "")?;
    let gaps = match report.gaps.count {
        0 => String::new(),
        1 => "in 1 gap".into(),
        count => format!("in {} gaps", show::count(count)),
    };
    row(out, "lost", report.outcome.lost, &gaps)?;
    print_gaps(out, report)?;
    row(out, "duplicates", report.outcome.duplicates, "")?;
    row(out, "reordered", report.outcome.reordered, "")?;
    row(out, "corrupt", report.corrupt, "")?;
    row(out, "unnumbered", report.foreign, "")?;
    print_streams(out, report)?;
    report.end.map_or(Ok(()), |end| line(out, "end", end_words(end)))
}

/// Shortest check that has a rate, s.
const RATE_SECONDS_MIN: f64 = 0.01;

/// The last lines: the notes, and how fast so many `frames` were read.
fn print_end(out: &mut impl Write, outcome: &Outcome, frames: u64) -> std::fmt::Result {
    outcome.notes.iter().try_for_each(|note| line(out, "note", note))?;
    let (bytes, seconds) = (outcome.bytes, outcome.seconds);
    let mut read = format!("{} in {seconds:.2} s", show::bytes(bytes));
    if seconds >= RATE_SECONDS_MIN {
        let of = |count: u64| count as f64 / seconds;
        read += &format!(": {}/s, {}", show::bytes(of(bytes) as u64), show::pps(of(frames)));
    }
    line(out, "read", &read)
}

fn row(out: &mut impl Write, what: &str, count: u64, note: &str) -> std::fmt::Result {
    writeln!(out, "{}", format!("  {what:<12}{:>15}  {note}", show::count(count)).trim_end())
}

fn line(out: &mut impl Write, what: &str, words: &str) -> std::fmt::Result {
    writeln!(out, "  {what:<12}  {}", flags::named(&name(words)))
}

fn print_gaps(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    let (Some(first), Some(last)) = (&report.gaps.first, &report.gaps.last) else { return Ok(()) };
    let many = report.streams.len() > 1;
    if first == last {
        row(out, "  the gap", first.frames, &gap_words(first, many))
    } else {
        row(out, "  first gap", first.frames, &gap_words(first, many))?;
        row(out, "  last gap", last.frames, &gap_words(last, many))
    }
}

fn gap_words(gap: &Gap, many: bool) -> String {
    let stream = if many { format!("stream {}, ", gap.stream) } else { String::new() };
    let numbers = match gap.frames {
        1 => format!("number {}", show::count(gap.first)),
        _ => format!("numbers {} to {}", show::count(gap.first), show::count(gap.last)),
    };
    let when = match (gap.before_ns, gap.after_ns) {
        (Some(before), Some(after)) => {
            format!("within {} from {}", show::span_ns(after.saturating_sub(before)), show::time_ns(before))
        }
        (None, Some(after)) => {
            format!(
                "before {}, the time of the first frame (--from-first if older files were removed)",
                show::time_ns(after)
            )
        }
        (Some(before), None) => format!("after {}", show::time_ns(before)),
        (None, None) => "at an unknown time".into(),
    };
    format!("{stream}{numbers}, {when}")
}

/// Each stream in a line, when there are several; the first few of very many.
fn print_streams(out: &mut impl Write, report: &Report) -> std::fmt::Result {
    const SHOWN_MAX: usize = 16;
    if report.streams.len() < 2 {
        return Ok(());
    }
    for stream in report.streams.iter().take(SHOWN_MAX) {
        let what = format!("  {}", stream.stream);
        let note = format!("lost {}, {}", show::count(stream.lost), end_words(stream.end));
        row(out, &what, stream.received, &note)?;
    }
    match report.streams.len().saturating_sub(SHOWN_MAX) {
        0 => Ok(()),
        more => line(out, "  …", &format!("and {more} more streams; --json lists all")),
    }
}

fn end_words(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Seen => "the last frame was received",
        StreamEnd::Open => "open: the generator had no planned end",
        StreamEnd::Missing => "MISSING: the last frame of the stream was not received",
    }
}

const NO_LEDGER: &str = "none: the files record no drop counts";

/// The ledger of a capture without numbers: nothing says which packets its drops were.
fn drop_words(ledger: Option<&Ledger>) -> String {
    let Some(ledger) = ledger else { return NO_LEDGER.into() };
    if !ledger.consistent {
        return "CONTRADICTS the frames, see above".into();
    }
    let mut words = match ledger.recorded_drops.max(ledger.epb_dropcount) {
        0 => "records no drops".into(),
        drops => format!("{} drops recorded{}", show::count(drops), drop_places(ledger)),
    };
    if !ledger.covers_all {
        words += "; not for each interface, or not to its last frame";
    }
    words
}

/// The places of recorded drops, in parentheses.
fn drop_places(ledger: &Ledger) -> String {
    let places = [("interface", ledger.ifdrop), ("kernel", ledger.osdrop), ("buffer", ledger.undelivered)];
    let places = places.iter().filter(|(_, drops)| *drops > 0);
    let places: Vec<String> =
        places.map(|(place, drops)| format!("{place} {}", show::count(*drops))).collect();
    if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) }
}

fn ledger_words(ledger: Option<&Ledger>) -> String {
    let Some(ledger) = ledger else { return NO_LEDGER.into() };
    if !ledger.consistent {
        return "CONTRADICTS the frames, see above".into();
    }
    let (drops, places) = (show::count(ledger.recorded_drops), drop_places(ledger));
    let mut words = match (ledger.recorded_drops, ledger.unexplained) {
        (0, 0) => "agrees: no drops recorded, and nothing is missing".into(),
        (_, 0) => {
            format!("agrees: {drops} drops recorded{places}, and as many frames are missing")
        }
        (0, more) => format!("records no drops; {} frames are missing", show::count(more.unsigned_abs())),
        (_, more) if more > 0 => {
            let more = show::count(more.unsigned_abs());
            format!("{drops} drops recorded{places}; {more} more frames are missing")
        }
        (_, fewer) => {
            let fewer = show::count(fewer.unsigned_abs());
            format!(
                "{drops} drops recorded{places}; {fewer} of them after the last frame, or without a probe header"
            )
        }
    };
    if ledger.frames_behind > 0 {
        words +=
            &format!("; it ends {} frames before the end of the file", show::count(ledger.frames_behind));
    }
    words
}
