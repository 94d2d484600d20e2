//! `quaff pipe`: buffers any bytes from stdin to stdout or files in a large ring.

use crate::exit::Exit;
use crate::flags::{BufferArg, Bytes, FolderArgs, of, reworded};
use crate::shell::{self, ONLY_ERRORS, Part, Product, ReportArgs, Settings, Shell, WatchArgs};
use crate::show::{self, Stream, name, say};
use anyhow::bail;
use clap::ArgAction;
use quaff::cores::{Topology, advise};
use quaff::format::times;
use quaff::memory;
use quaff::pipe::{Pipe, PipeOutput, PipePlan, PipeReport, default_size_bytes};
use quaff_os::{SignalInfo, Wakeup, cpu, was_stdout_closed};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Buffer any byte stream between two programs in a large locked ring
///
/// Place it between a program that must not wait and one that sometimes does, or between a program and a
/// disk. One thread reads stdin as fast as bytes arrive, another writes; data that the output cannot take yet
/// waits in locked memory between them, and the upstream program is not blocked. A file on stdout is written past
/// the page cache where its file system allows it, which is much faster (not with '>>', and not where '2>&1'
/// sends messages to the same file; no other process may write to it meanwhile).
///
/// SIGINT or SIGTERM ends it once everything read is written, including what the input pipe still holds and,
/// after ^C on a terminal, what the upstream program writes within a second. A second one ends it immediately.
/// SIGUSR1 prints a progress line. When the reader of stdout exits, so does quaff, without an error.
///
/// Exit status: 0 all bytes are in the output; 2 the pipe failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("dir", |arg| reworded(arg, DIR).action(ArgAction::Set))),
    mut_args(of("name", |arg| arg.help("Template for file names: strftime fields, followed by a number"))),
    mut_args(of("quiet", |arg| arg.help(ONLY_ERRORS))),
    mut_args(of("keep_files", |arg| arg.requires("rotate_size").help(
        "Keep at most N files, including the one being written; remove the oldest and reuse its number"
    ))),
    mut_args(of("buffer", |arg| arg
        .alias("size")
        .help("Size of the ring between input and output [default: 1/8 of free memory, 16M to 1G]")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    folder: FolderArgs,

    #[command(flatten, next_help_heading = "Performance")]
    buffer: BufferArg<Bytes>,
    /// Cores for reader and writer, such as 2,3; 'auto' takes those that 'quaff cores' recommends [default:
    /// auto on more than two cores, otherwise none]
    #[arg(long, value_name = "R,W|auto", value_parser = cores, help_heading = "Performance")]
    cpu: Option<Cores>,

    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,
    /// Show a live progress line on a terminal
    #[arg(long, hide = true, conflicts_with = "stats")]
    rate: bool,
}

const DIR: &str = "Write files into DIR instead of stdout; a file ends in .part until it is complete. pcap and pcapng input \
                   is cut between packets, and each file starts with the headers it needs";

const EXAMPLES: &str = "\
Examples:
  tcpdump -i eth0 -w - | quaff pipe > all.pcap
  tcpdump -i eth0 -w - | quaff pipe --dir /data --rotate-size 1G
  quaff capture -i eth0 -w - | quaff pipe --buffer 4G --stats 1 | ssh store dd";

/// Time for the upstream program's last output after the same ^C.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// `--cpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cores {
    Auto,
    Two(usize, usize),
}

fn cores(text: &str) -> Result<Cores, String> {
    if text == "auto" {
        return Ok(Cores::Auto);
    }
    let core = |text: &str| text.trim().parse::<usize>().ok();
    let two = text.split_once(',').and_then(|(reader, writer)| core(reader).zip(core(writer)));
    two.map(|(reader, writer)| Cores::Two(reader, writer))
        .ok_or_else(|| format!("'{text}': expected two cores, such as 2,3, or 'auto'"))
}

impl Args {
    fn plan(&self) -> anyhow::Result<PipePlan> {
        let free_bytes = memory::free_bytes();
        if self.buffer.is_some_and(|Bytes(size)| size > free_bytes) {
            bail!("--buffer: only {} are free", show::bytes(free_bytes));
        }
        let FolderArgs { dir, name, rotate_size, keep_files } = &self.folder;
        let output = match dir.first() {
            None => PipeOutput::Stdout,
            Some(dir) if dir.is_dir() => {
                let (dir, name, rotate_bytes) = (dir.clone(), name.clone(), *rotate_size);
                PipeOutput::Dir { dir, name, rotate_bytes, keep_files: *keep_files }
            }
            Some(dir) => bail!("--dir {}: there is no such folder", dir.display()),
        };
        let (reader_cpu, writer_cpu) = self.place()?;
        let size_bytes = self
            .buffer
            .map_or_else(|| default_size_bytes(memory::default_free_bytes()), |Bytes(size)| size as usize);
        let is_populated = self.buffer.is_some();
        Ok(PipePlan { size_bytes, is_populated, output, reader_cpu, writer_cpu }.validate()?)
    }

    /// The cores of reader and writer. On two cores the neighbouring programs need them as well, so that the
    /// scheduler places the threads.
    fn place(&self) -> anyhow::Result<(Option<usize>, Option<usize>)> {
        let advised = || anyhow::Ok(advise(&Topology::here()?, None, 1));
        match self.cpu {
            Some(Cores::Two(reader, writer)) => return Ok((Some(reader), Some(writer))),
            Some(Cores::Auto) => {}
            None if cpu::allowed()?.len() > 2 => {}
            None => return Ok((None, None)),
        }
        Ok(advised()?.map(|advice| (advice.readers[0], advice.writer)).unzip())
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let plan = args.plan()?;
    let mut settings = Settings::new(&args.watch, None);
    settings.has_line &= args.rate;
    // Before the first thread: from here on a signal is something to read.
    let mut shell = Shell::new(settings)?;
    let is_stdout_taken = plan.output == PipeOutput::Stdout;
    anyhow::ensure!(
        !is_stdout_taken || !was_stdout_closed(),
        "stdout is closed: name a folder with --dir, or use a pipe"
    );
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = std::io::stdout().as_fd().try_clone_to_owned()?;
    let pipe = Pipe::start(plan, stdin, stdout, shell.stop().clone())?;
    shell.notes(&pipe.notes);
    let report = shell.run(Running { pipe, last: Instant::now(), read: 0, written: 0 })?;
    tell(&report, &args, is_stdout_taken)?;
    let has_words = !(args.watch.quiet.is_set() || args.report.json && is_stdout_taken);
    Ok(shell::ended(&report, has_words))
}

/// A pipe, as the shell watches it.
struct Running {
    pipe: Pipe,
    /// The time and the counters of the last progress line.
    last: Instant,
    read: u64,
    written: u64,
}

impl Product for Running {
    const LOSS: &'static str = "the data still in the ring is lost";
    type Report = PipeReport;

    fn is_over(&self) -> bool {
        self.pipe.ends.all()
    }

    fn finish(self) -> PipeReport {
        self.pipe.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        let seconds = self.last.elapsed().as_secs_f64().max(1e-3);
        let gauges = &self.pipe.gauges;
        let (read, written) = (gauges.read.get(), gauges.written.get());
        let rate = |now: u64, before: u64| show::bytes(((now - before) as f64 / seconds) as u64);
        let (read_rate, written_rate) = (rate(read, self.read), rate(written, self.written));
        let parts = vec![
            Part::new(format!("in {read_rate}/s out {written_rate}/s"), "", 4),
            Part::new(format!("written {}", show::bytes(written)), "", 2),
            Part::new(
                format!(
                    "waiting {} max {}",
                    show::bytes(gauges.buffered_bytes()),
                    show::bytes(gauges.high.get())
                ),
                "",
                3,
            ),
        ];
        (self.read, self.written, self.last) = (read, written, Instant::now());
        parts
    }

    /// After ^C on a terminal, the upstream program has received the signal too.
    fn end(&mut self, signal: &SignalInfo) {
        self.pipe.end(if signal.by_kernel { LAST_WORDS } else { Duration::ZERO });
    }

    fn wakeup(&self) -> anyhow::Result<Wakeup> {
        Ok(self.pipe.ends.wakeup.clone())
    }
}

fn tell(report: &PipeReport, args: &Args, is_stdout_taken: bool) -> anyhow::Result<()> {
    let is_json = args.report.json;
    if is_json {
        show::json(Stream::of_report(is_stdout_taken), report)?;
    }
    let is_failed = report.failure.is_some();
    if args.watch.quiet.is_set() || (is_json && is_stdout_taken) {
        return Ok(());
    }
    say(words(report).trim_end());
    if is_failed {
        say("  failed");
    }
    Ok(())
}

fn words(report: &PipeReport) -> String {
    let rate = report.written as f64 / report.seconds.max(1e-9);
    let mut text = format!("{} in {:.1} s", show::bytes(report.written), report.seconds);
    if report.seconds > 0.0 {
        text += &format!(", {}/s", show::bytes(rate as u64));
    }
    text += &match report.files {
        0 => format!(" ({})\n", report.writing),
        files => {
            let (files, kind) = (show::number_of(files, "file"), report.kind.unwrap_or_default());
            format!(", {files} of {kind} ({})\n", report.writing)
        }
    };
    text += &format!("  peak use: {} of {}\n", show::bytes(report.high), show::bytes(report.size));
    text += &format!(
        "  the ring was full {}, {:.1} s in total; empty {}, {:.1} s\n",
        times(report.full.count),
        report.full.seconds,
        times(report.empty.count),
        report.empty.seconds
    );
    if report.unready.count > 0 {
        text += &format!(
            "  memory was not ready {}, {:.1} s in total\n",
            times(report.unready.count),
            report.unready.seconds
        );
    }
    if report.unwanted > 0 {
        text +=
            &format!("  {} were not written: the reader of stdout exited\n", show::bytes(report.unwanted));
    }
    if report.lost > 0 {
        text += &format!("  {} are lost\n", show::bytes(report.lost));
    }
    for note in &report.notes {
        text += &format!("  {}\n", name(note));
    }
    if let Some(failure) = &report.failure {
        text += &format!("  {}\n", name(failure));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_two_or_auto() {
        assert_eq!(cores("auto"), Ok(Cores::Auto));
        assert_eq!(cores("2, 3"), Ok(Cores::Two(2, 3)));
        assert!(cores("2").is_err() && cores("a,b").is_err() && cores("").is_err());
    }
}
