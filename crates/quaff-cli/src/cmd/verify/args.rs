//! The arguments of `quaff verify`.

use crate::flags::{
    AgainstArg, CapturesArgs, FilterArg, FollowArg, HtmlArg, InterfaceArg, LoopArg, NoSandboxArg, SalvageArg,
    SeedArg, SnaplenArg, SpreadArgs, UtcArg, of,
};
use crate::shell::{DurationArgs, ReportArgs};
use crate::units;
use clap::ArgAction;
use std::path::PathBuf;

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
#[command(
    after_help = EXAMPLES,
    mut_args(of("interface", |arg| arg
        .action(ArgAction::Set)
        .conflicts_with_all(["read", "salvage", "from_first", "expect", "against", "inject_loss"])
        .help("Watch an interface instead of a file: a line each second on stderr, and the report at the end"))),
    mut_args(of("inputs", |arg| arg.help(INPUTS))),
    mut_args(of("duration", |arg| arg.requires("interface"))),
    mut_args(of("filter", |arg| arg.requires("interface"))),
    mut_args(of("turns", |arg| {
        arg.requires("against").conflicts_with("expect").help("The file was sent N times [default: 1]")
    })),
    mut_args(of("snaplen", |arg| {
        arg.short(None).requires("against").help("Compare only the first BYTES of each frame, for captures taken with a snaplen")
    })),
    mut_args(of("against", |arg| arg.value_name("FILE"))),
    mut_args(of("seed", |arg| {
        arg.requires("inject_loss").help("Seed of --inject-loss [default: a new one, which the report shows]")
    })),
    mut_args(of("html", |arg| {
        arg.conflicts_with("against").help("Write a page with pictures to FILE as well: loss over time, by interface and by connection")
    }))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: CapturesArgs,
    #[command(flatten)]
    pub(super) interface: InterfaceArg,
    #[command(flatten, next_help_heading = "Input")]
    pub(super) filter: FilterArg<String>,
    #[command(flatten)]
    pub(super) end: DurationArgs,
    #[command(flatten)]
    pub(super) salvage: SalvageArg,
    #[command(flatten)]
    pub(super) follow: FollowArg,
    /// Start each stream at the lowest sequence number found instead of 0, for captures whose oldest files
    /// were removed
    #[arg(long, conflicts_with = "against", help_heading = "Input")]
    pub(super) from_first: bool,
    /// Require exactly N frames in each stream, numbers 0 to N-1
    ///
    /// Without this, frames lost at the end of a stream are noticed only where the generator knew its length.
    /// With --against: the first N frames were sent, over as many loops as that takes.
    #[arg(long, value_name = "N", help_heading = "Input")]
    pub(super) expect: Option<u64>,

    #[command(flatten, next_help_heading = "Comparison")]
    pub(super) against: AgainstArg<PathBuf>,
    #[command(flatten, next_help_heading = "Comparison")]
    pub(super) turns: LoopArg,
    /// Ignore MAC addresses, which routers change
    #[arg(long, requires = "against", help_heading = "Comparison")]
    pub(super) ignore_macs: bool,
    /// Ignore TTL and header checksum of IPv4, and the hop limit of IPv6
    #[arg(long, requires = "against", help_heading = "Comparison")]
    pub(super) ignore_ttl: bool,
    #[command(flatten, next_help_heading = "Comparison")]
    pub(super) snaplen: SnaplenArg<u32>,

    /// Remove PERCENT of all packets at random before judging, in bursts of BURST packets [default: 1]
    #[arg(
        long,
        value_name = "PERCENT[,BURST]",
        value_parser = injected_loss,
        conflicts_with = "against",
        help_heading = "Validation"
    )]
    pub(super) inject_loss: Option<(f64, u32)>,
    #[command(flatten, next_help_heading = "Validation")]
    pub(super) seed: SeedArg,

    #[command(flatten)]
    pub(super) lanes: SpreadArgs,

    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    _utc: UtcArg,
    #[command(flatten)]
    pub(super) html: HtmlArg,

    #[command(flatten)]
    pub(super) no_sandbox: NoSandboxArg,
}

const INPUTS: &str = "Files to read, and folders with captures, as by -r. With -i the words are a tcpdump expression, as by -f";

impl Args {
    /// An interface, not files.
    pub(crate) fn is_live(&self) -> bool {
        !self.interface.is_empty()
    }
}

const EXAMPLES: &str = "\
Examples:
  quaff verify all.pcapng
  quaff verify --from-first /data
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
