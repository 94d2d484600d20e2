//! Flags of files to write: formats, compression, folders and the limits of what they keep, and the plans that they
//! make.

use super::{FlagValue, UtcArg, of};
use crate::units::{self, FORMATS, choice};
use anyhow::{bail, ensure};
use clap::ArgAction;
use quaff_file::write::{Codec, DirPlan, Format, Retention};
use std::path::{Path, PathBuf};
use std::time::Duration;

flags! {
    /// Write to FILE; '-' is stdout
    #[arg(short, long, value_name = "FILE", action = ArgAction::Set, help_heading = "Output")]
    WriteArg { write: Vec<PathBuf> }

    /// File format: pcapng, pcap (nanoseconds), or pcap-us (microseconds, for old readers) [default: by the suffix of
    /// FILE, .pcap or .pcapng, else pcapng]
    #[arg(long, value_name = "FORMAT", value_parser = choice(FORMATS), help_heading = "Output")]
    FormatArg { format: Option<Format> }

    /// Compress the output: zstd[:LEVEL], lz4 or gzip[:LEVEL] [default: by the suffix of -w: .zst, .lz4, .gz]
    ///
    /// On threads of its own; the files of a folder get the suffix. The output is a series of complete frames,
    /// which zstd -d, lz4 -d and gunzip read, after kill -9 too. When compression does not keep up with the
    /// packets, some are stored uncompressed in the same file, and counted; none is lost for it. Levels are 1
    /// to 19 (zstd) and 1 to 9 (gzip), 1 if omitted.
    #[arg(long, value_name = "TYPE", value_parser = C::parser())]
    CompressArg<C: FlagValue> { compress: Option<C> }

    /// Sync the file to disk every INTERVAL (fsync), so that a power failure costs at most what was written since;
    /// without it a file is synced when it ends
    #[arg(long, value_name = "INTERVAL", value_parser = units::duration, help_heading = "Output")]
    FsyncArg { fsync: Option<Duration> }

    /// Longest time until a packet is on disk, while the disk keeps up [default: 1s; with stdout, --tee, --print or
    /// --ordered 200ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Output")]
    FlushArg { flush: Option<Duration> }

    /// Run 'CMD FILE' in a shell after each completed file, one at a time, at the lowest priority; the
    /// capture waits for the last one before it exits
    #[arg(long, value_name = "CMD")]
    ExecArg { exec: Vec<String> }

    /// Write a page with pictures to FILE: values over time, and by interface, host and others
    #[arg(long, value_name = "FILE", help_heading = "Report")]
    HtmlArg { html: Option<PathBuf> }

    /// Print all columns of tables and whole names, however narrow the terminal
    #[arg(long, help_heading = "Report")]
    WideArg { wide: bool }
}

values! {
    Codec: units::codec;
}

impl WriteArg {
    /// Takes the files away.
    pub(crate) fn take(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.write)
    }
}

impl CompressArg<Codec> {
    pub(crate) fn set(&mut self, codec: Codec) {
        self.compress = Some(codec);
    }
}

impl FlushArg {
    pub(crate) fn set(&mut self, flush: Duration) {
        self.flush = Some(flush);
    }
}

/// Files that may be there already, and how many there may be.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct FilesArgs {
    /// Replace files of the same names
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Write at most N files; what others would get is counted as missing
    #[arg(long, value_name = "N", value_parser = units::whole)]
    pub(crate) max_files: Option<u64>,
}

/// A folder of files.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rotation")]
pub(crate) struct FolderArgs {
    /// Write a series of files into DIR, created if needed; a file ends in .part until it is complete; repeat it for a
    /// folder on another disk
    ///
    /// Each folder has its own writer thread. Lanes are distributed over the folders in order; with more
    /// folders than lanes, each file goes to the next folder. When a folder fails, another one takes over.
    #[arg(long, value_name = "DIR", group = "folder")]
    pub(crate) dir: Vec<PathBuf>,
    /// Template for file names: strftime fields in local time, followed by a number (NAME-000001.pcapng); %i
    /// or %3i places the number, and the suffix after it decides the format
    #[arg(long, value_name = "NAME", default_value = "quaff-%Y%m%dT%H%M%S", requires = "folder")]
    pub(crate) name: String,
    /// Start the next file before this one exceeds SIZE, such as 256M or 1G
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder")]
    pub(crate) rotate_size: Option<u64>,
    /// Keep at most N files in each folder, including the one being written and those of earlier runs; remove
    /// the oldest
    #[arg(long, value_name = "N", requires = "folder")]
    pub(crate) keep_files: Option<u64>,
}

/// Names of files have times too.
const UTC: &str = "Use UTC instead of local time: in file names, for the boundaries of --rotate-time, in what is shown, and \
                   for times without a zone";

/// Folders of capture files.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Rotation",
    mut_args(of("exec", |arg| arg.action(ArgAction::Set).requires("folder"))),
    mut_args(of("utc", |arg| arg.help(UTC))),
    mut_args(of("dir", |arg| arg.conflicts_with("write")))
)]
pub(crate) struct RotationArgs {
    #[command(flatten)]
    pub(crate) folder: FolderArgs,
    #[command(flatten)]
    utc: UtcArg,
    /// Start a file every TIME, aligned to midnight in local time, with or without traffic
    #[arg(long, value_name = "TIME", value_parser = units::duration, requires = "folder")]
    rotate_time: Option<Duration>,
    /// Start the next file after N packets; of one interface with one lane, or of files
    #[arg(long, value_name = "N", value_parser = units::packets, requires = "folder", conflicts_with = "rotate_time")]
    rotate_packets: Option<u64>,
    /// Keep at most SIZE in all files of each folder together
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "folder")]
    keep_size: Option<u64>,
    /// Keep PERCENT of the file system of each folder free; the newest files stay even if other files fill it
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, requires = "folder")]
    keep_free: Option<f64>,
    /// Number the files 0 to N-1 (the N of --keep-files) in a cycle
    #[arg(long, requires = "keep_files")]
    wrap: bool,
    /// Stop after N files
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "folder")]
    pub(crate) stop_files: Option<u64>,
    #[command(flatten)]
    exec: ExecArg,
    /// The time of a file is counted from the start.
    #[arg(skip)]
    is_from_start: bool,
}

/// The limits of files, as letters of other programs have them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rotation {
    pub(crate) bytes: Option<u64>,
    pub(crate) packets: Option<u64>,
    pub(crate) time: Option<Duration>,
    /// The time is counted from the start, not aligned to midnight.
    pub(crate) is_from_start: bool,
    /// Files to keep.
    pub(crate) keep: Option<u64>,
    /// Files after which to stop.
    pub(crate) stop: Option<u64>,
}

impl RotationArgs {
    /// Sets the limits of `rotation`, of which none is given already.
    pub(crate) fn set(&mut self, rotation: &Rotation) -> anyhow::Result<()> {
        set_once("--rotate-size", &mut self.folder.rotate_size, rotation.bytes)?;
        set_once("--rotate-packets", &mut self.rotate_packets, rotation.packets)?;
        set_once("--rotate-time", &mut self.rotate_time, rotation.time)?;
        set_once("--keep-files", &mut self.folder.keep_files, rotation.keep)?;
        set_once("--stop-files", &mut self.stop_files, rotation.stop)?;
        self.is_from_start = rotation.is_from_start;
        Ok(())
    }

    /// Times are in UTC.
    pub(crate) fn is_utc(&self) -> bool {
        *self.utc
    }

    /// The plan of one folder, whose next file begins at `rotate_bytes`.
    pub(crate) fn plan(&self, dir: &Path, rotate_bytes: Option<u64>) -> anyhow::Result<DirPlan> {
        if dir.exists() && !dir.is_dir() {
            bail!("{} is not a folder", dir.display());
        }
        let FolderArgs { name, keep_files, .. } = &self.folder;
        Ok(DirPlan {
            dir: dir.to_owned(),
            name: name.clone(),
            utc: *self.utc,
            rotate_bytes,
            rotate_time: self.rotate_time,
            rotates_from_start: self.is_from_start,
            rotate_packets: self.rotate_packets,
            retention: Retention { files: *keep_files, bytes: self.keep_size, free_percent: self.keep_free },
            wrap: self.wrap,
            exec: self.exec.first().cloned(),
        })
    }
}

/// Sets a flag that is not given.
fn set_once<T>(flag: &str, value: &mut Option<T>, new: Option<T>) -> anyhow::Result<()> {
    ensure!(
        value.is_none() || new.is_none(),
        "{flag} is given twice, also by -C, -G, -W or -b: leave one out"
    );
    *value = new.or(value.take());
    Ok(())
}
