//! Flags of the packets that a command reads, of interfaces or of files, and the plan that they make: the only place
//! where the plan of an input is built from flags.

use super::{FlagValue, LaneArgs, TunnelArgs, of, text};
use crate::capture_files::{self, Found};
use crate::shell::DurationArgs;
use crate::units::{self, CLOCKS, choice};
use anyhow::bail;
use clap::ValueHint;
use quaff::plan::{InputPlan, Pattern, ReadPlan, SNAPLEN_MAX};
use quaff::source::interfaces_named;
use quaff_os::packet::TimeSource;
use quaff_send::Ranges;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

flags! {
    /// Interface to read packets from; repeat it for more, each gets its own lane (ring and thread), or several with
    /// --lanes. A pattern such as 'eth*' stands for all interfaces with such names, and 'any' for all that are up
    #[arg(short, long, value_name = "IF", help_heading = "Input")]
    InterfaceArg { interface: Vec<String> }

    /// Files to read, and folders with captures, as by -r; words after them are a tcpdump expression, as by -f. With -i
    /// all words are the expression
    #[arg(value_name = "FILE|DIR|EXPR", value_hint = ValueHint::AnyPath)]
    WordsArg { words: Vec<OsString> }

    /// Files to read, and folders with captures, as by -r
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    InputsArg { inputs: Vec<OsString> }

    /// Read FILE, or the captures in the folder DIR; '-' is stdin; repeat it to read several in order
    ///
    /// pcap and pcapng, also compressed with gzip, zstd or lz4; the format is detected from the content. Files of a
    /// folder are read in the order in which they were recorded, also while they are written.
    #[arg(short, long, value_name = "FILE|DIR", help_heading = "Input")]
    ReadArg { read: Vec<PathBuf> }

    /// After damage in a file, search for the next plausible packet and continue
    #[arg(long, help_heading = "Input")]
    SalvageArg { salvage: bool }

    /// At the end of a file, wait for more data until the file is renamed or removed
    #[arg(long, conflicts_with = "interface", help_heading = "Input")]
    FollowArg { follow: bool }

    /// Stop after N packets, such as 1000 or 3M
    #[arg(short, long, value_name = "N", value_parser = units::packets)]
    CountArg { count: Option<u64> }

    /// Clock that time-stamps the packets; adapter needs a clock synchronized to the system's (phc2sys)
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", value_parser = choice(CLOCKS))]
    ClockArg { time_stamp_type: TimeSource }

    /// Compare with the file that was sent; repeat it for files that were sent one after the other
    #[arg(long, value_name = "NAME", value_parser = A::parser())]
    AgainstArg<A: FlagValue> { against: Vec<A> }

    /// Keep only packets that match a tcpdump expression; evaluated in the kernel for interfaces
    #[arg(short, long, value_name = "EXPR", value_parser = F::parser())]
    FilterArg<F: FlagValue> { filter: Option<F> }

    /// Keep packets whose payload matches a regular expression, such as '^GET /' or '(?i)password'
    ///
    /// Payload is what follows the header of TCP or UDP, or otherwise the IP header; a packet without one is searched
    /// as a whole. Each packet is searched by itself, and '^' is the start of its payload. A byte is written \xff. For
    /// a pattern that spans packets: 'quaff streams list --grep'.
    #[arg(long, value_name = "REGEX", value_parser = Pattern::new)]
    GrepArg { grep: Option<Pattern> }

    /// Bytes to keep of each packet; 0 keeps all
    #[arg(short, long, value_name = "BYTES", value_parser = S::parser())]
    SnaplenArg<S: FlagValue> { snaplen: Option<S> }
}

values! {
    String: clap::builder::StringValueParser::new();
    PathBuf: clap::builder::PathBufValueParser::new();
}

/// Packets to select by their numbers.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RangesArgs {
    /// Keep only these packets, numbered from 1 across all files, such as 1-5,7,100-
    #[arg(long, value_name = "RANGES")]
    pub(crate) include: Option<Ranges>,
    /// Drop these packets
    #[arg(long, value_name = "RANGES")]
    pub(crate) exclude: Option<Ranges>,
}

/// Captures that are named by arguments or by -r, in that order: see [`crate::grammar`].
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CapturesArgs {
    #[command(flatten)]
    _inputs: InputsArg,
    #[command(flatten)]
    read: ReadArg,
}

/// The same, with an expression after them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct FilteredArgs {
    #[command(flatten)]
    _words: WordsArg,
    #[command(flatten)]
    read: ReadArg,
}

/// The packets of files that are named elsewhere.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("filter", |arg| arg.help(FILTER_OF_FILES))))]
pub(crate) struct FileArgs {
    #[command(flatten)]
    salvage: SalvageArg,
    #[command(flatten, next_help_heading = "Filter")]
    filter: FilterArg<String>,
    #[command(flatten)]
    tunnels: TunnelArgs,
}

/// Interfaces or files.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("interface", |arg| arg.conflicts_with_all(["read", "salvage"]))))]
pub(crate) struct InputArgs {
    #[command(flatten)]
    interface: InterfaceArg,
    #[command(flatten)]
    files: FilteredArgs,
    #[command(flatten)]
    salvage: SalvageArg,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long, help_heading = "Input")]
    no_promiscuous: bool,
    #[command(flatten, next_help_heading = "Input")]
    pub(crate) count: CountArg,
    #[command(flatten, next_help_heading = "Filter")]
    filter: FilterArg<String>,
}

/// Interfaces or files for metering and for scripts.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("snaplen", |arg| arg.help(SNAPLEN))))]
pub(crate) struct MeteredArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    follow: FollowArg,
    #[command(flatten)]
    pub(crate) end: DurationArgs,
    #[command(flatten, next_help_heading = "Filter")]
    snaplen: SnaplenArg<u32>,
    #[command(flatten)]
    tunnels: TunnelArgs,
}

/// No kernel evaluates it for files.
const FILTER_OF_FILES: &str =
    "Keep only packets that match a tcpdump expression; later fragments of a datagram match no port";
/// The default of `--snaplen` depends on the command.
const SNAPLEN: &str = "Bytes to look at of each packet; 0 is all [default: all; 'flows': 256 of interfaces, 1600 with \
                       'top', unless with --decap or for names of applications]";

impl FileArgs {
    /// The flag of this group that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--filter", self.filter.is_some()),
            ("--decap", self.tunnels.is_removing()),
            ("--inner", self.tunnels.has_inner()),
            ("--salvage", *self.salvage),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The plan for files of which some were found in folders.
    pub(crate) fn plan(&self, found: Found) -> InputPlan {
        self.tunnels.add_to(of_files(found, &self.salvage, &self.filter))
    }
}

/// The files, and the filter for any input.
fn of_files(found: Found, salvage: &SalvageArg, filter: &FilterArg<String>) -> InputPlan {
    let is_given = !found.files.is_empty();
    let Found { files, in_folders } = found;
    let read = ReadPlan { files, found: Arc::new(in_folders), salvage: **salvage, ..ReadPlan::default() };
    InputPlan { read: is_given.then_some(read), filter: text(filter), ..InputPlan::default() }
}

impl CapturesArgs {
    /// The files and folders, as they were given.
    pub(crate) fn named(&self) -> &[PathBuf] {
        &self.read
    }

    /// The files, those of folders too, but for `outputs`. A process that is confined finds none.
    pub(crate) fn find(&self, outputs: &[&Path]) -> anyhow::Result<Found> {
        capture_files::find(&self.read, outputs)
    }
}

impl FilteredArgs {
    /// As [`CapturesArgs::named`].
    pub(crate) fn named(&self) -> &[PathBuf] {
        &self.read
    }

    /// As [`CapturesArgs::find`].
    pub(crate) fn find(&self, outputs: &[&Path]) -> anyhow::Result<Found> {
        capture_files::find(&self.read, outputs)
    }
}

impl FollowArg {
    /// Refuses to wait for the end of a file that has its last name.
    pub(crate) fn check(&self, found: &Found) -> anyhow::Result<()> {
        let in_folder = found.in_folders.iter().next().filter(|_| **self);
        in_folder.map_or(Ok(()), |file| {
            bail!(
                "--follow waits for more of one file until it is renamed, and {} is of a folder: name the file that grows",
                file.display()
            )
        })
    }
}

impl InputArgs {
    /// Interfaces, not files.
    pub(crate) fn is_live(&self) -> bool {
        !self.interface.is_empty()
    }

    /// The interfaces, as they were given.
    pub(crate) fn interfaces(&self) -> &[String] {
        &self.interface
    }

    /// The files and folders, as they were given.
    pub(crate) fn files(&self) -> &[PathBuf] {
        self.files.named()
    }

    /// The files, those of folders too, but for `outputs`.
    pub(crate) fn find(&self, outputs: &[&Path]) -> anyhow::Result<Found> {
        self.files.find(outputs)
    }

    /// The plan of these lanes with this input: the files of `found`, by the first of `cores` and as many lanes as
    /// `of_files`, or the interfaces of `lanes`.
    pub(crate) fn add_to(
        &self,
        (lanes, of_files): (InputPlan, Option<usize>),
        found: Found,
        cores: &[usize],
    ) -> InputPlan {
        let cpu = cores.first().copied();
        let InputPlan { read, filter, .. } = self::of_files(found, &self.salvage, &self.filter);
        let read = read.map(|read| ReadPlan { cpu, lanes: of_files, ..read });
        InputPlan { read, filter, promiscuous: !self.no_promiscuous, count: *self.count, ..lanes }
    }
}

impl MeteredArgs {
    /// Interfaces, not files.
    pub(crate) fn is_live(&self) -> bool {
        self.input.is_live()
    }

    /// The files and folders, as they were given.
    pub(crate) fn files(&self) -> &[PathBuf] {
        self.input.files()
    }

    /// The interfaces or files as text.
    pub(crate) fn names(&self) -> String {
        let files = self.input.files().iter().map(|path| path.display().to_string());
        self.input.interfaces().iter().cloned().chain(files).collect::<Vec<_>>().join(", ")
    }

    /// The plan. `snaplen_live` is the default of live packets, bytes. What is in a folder that is read, and is one of
    /// `outputs`, is no input.
    pub(crate) fn plan(
        &self,
        lanes: &LaneArgs,
        cores: &[usize],
        snaplen_live: u32,
        outputs: &[&Path],
    ) -> anyhow::Result<InputPlan> {
        let names = interfaces_named(self.input.interfaces())?;
        let of_lanes = (lanes.plan(names, cores, 0), lanes.of_files());
        let found = self.input.find(outputs)?;
        self.follow.check(&found)?;
        let mut plan = self.input.add_to(of_lanes, found, cores);
        plan.read.iter_mut().for_each(|read| read.follow = *self.follow);
        let is_part = !self.tunnels.is_removing() && self.is_live();
        let snaplen = self.snaplen.unwrap_or(if is_part { snaplen_live } else { 0 });
        plan.snaplen = if snaplen == 0 { SNAPLEN_MAX } else { snaplen };
        Ok(self.tunnels.add_to(plan))
    }
}
