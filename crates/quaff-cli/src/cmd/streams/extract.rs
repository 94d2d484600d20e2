//! `quaff streams extract`: its arguments, plan and exit.

use super::input::RuleArgs;
use super::report;
use crate::exit::Exit;
use crate::flags::{FileArgs, FilesArgs, FilteredArgs, USER_OF_FILES, UserArgs, of, reworded};
use crate::shell::{self, ONLY_ERRORS, ReportArgs, WatchArgs};
use crate::show::{self, Stream};
use anyhow::{bail, ensure};
use quaff::streams::{Contents, ExtractPlan, IndexTarget, ReaderPlan, StreamsPlan};
use quaff_file::write::Output;
use quaff_os::was_stdout_closed;
use std::io;
use std::path::PathBuf;

/// Write each side of each TCP connection to a file, with an index
///
/// Files have the names of sender and receiver, each as address and port, with a number where ports were used again.
/// A gap is written as nothing; the index, a line of JSON for each connection, has its place. A side without bytes has
/// no file.
///
/// Memory and open files are limited, whatever the capture has in it.
///
/// Exit status: 0 nothing is missing; 1 bytes are missing, or an input file is damaged; 2 it failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("quiet", |arg| arg.help(ONLY_ERRORS))),
    mut_args(of("user", |arg| reworded(arg, USER_OF_FILES))),
    mut_args(of("max_files", |arg| arg.default_value("1M")))
)]
pub(super) struct Args {
    #[command(flatten)]
    input: FilteredArgs,
    #[command(flatten)]
    packets: FileArgs,
    #[command(flatten)]
    rules: RuleArgs,

    /// Folder of the files; it is made if it does not exist
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    dir: PathBuf,
    /// Print the index on stdout instead of writing DIR/index.jsonl
    #[arg(long, conflicts_with = "json", help_heading = "Output")]
    print_index: bool,
    #[command(flatten)]
    files: FilesArgs,
    /// Write the bodies of HTTP/1.x requests and responses to files too, without the frames of chunks
    #[arg(long, help_heading = "Output")]
    http_bodies: bool,
    /// Write the files that HTTP/1.x carried, instead of streams: decoded (gzip, deflate, br, zstd), with names from
    /// their URLs
    ///
    /// A page, index.html, and a table, objects.tsv, have all of them. The name of one that lacks bytes ends in
    /// .partial.
    #[arg(long, conflicts_with = "http_bodies", help_heading = "Output")]
    objects: bool,

    #[command(flatten)]
    user: UserArgs,

    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

const EXAMPLES: &str = "\
Examples:
  quaff streams extract day.pcapng --dir streams
  quaff streams extract a.pcap b.pcap --dir streams port 80
  quaff streams extract mirror.pcapng --decap auto --dir streams --json
  quaff streams extract day.pcapng --dir out --objects
  quaff streams extract day.pcapng --dir out --http-bodies
  quaff streams extract /data --dir out --print-index | jq .client";

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = super::run::read(args.plan()?, &args.watch, args.print_index)?;
    if args.report.json {
        show::json(Stream::of_report(args.print_index), &report)?;
    }
    let has_words = !args.watch.quiet.is_set() && !args.report.json;
    if has_words {
        report::print(&report);
    }
    Ok(shell::ended(&report, has_words))
}

impl Args {
    fn plan(&self) -> anyhow::Result<StreamsPlan> {
        let takes_stdout = self.print_index || self.report.json;
        ensure!(!takes_stdout || !was_stdout_closed(), "stdout is closed: use a pipe or a file");
        let FilesArgs { overwrite: overwrites, max_files } = self.files;
        let files_max = max_files.unwrap_or(u64::MAX);
        if files_max == 0 {
            bail!("--max-files: at least 1");
        }
        let index = match self.print_index {
            true => IndexTarget::Writer(Box::new(Stdout)),
            false => IndexTarget::Folder,
        };
        let dir = self.dir.clone();
        let extract = ExtractPlan { dir, index, overwrites, files_max, contents: self.contents() };
        Ok(StreamsPlan {
            input: self.packets.plan(self.input.find(&[&self.dir])?),
            track: self.rules.plan(None),
            reader: ReaderPlan::Extract(extract),
            also_written: if takes_stdout { vec![Output::Stdout] } else { Vec::new() },
            sandbox: self.user.sandbox(),
            owner: self.user.caller(),
        })
    }

    fn contents(&self) -> Contents {
        match (self.objects, self.http_bodies) {
            (true, _) => Contents::Objects,
            (false, true) => Contents::StreamsAndBodies,
            (false, false) => Contents::Streams,
        }
    }
}

/// Stdout for the lines of the index: JSON in which only this program's words, addresses and digits occur.
struct Stdout;

impl io::Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        show::script(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
