//! The arguments of `quaff replay`.

use super::rewrite;
use crate::flags::{
    BufferArg, CapturesArgs, CoreArg, CountArg, LinkArg, LoopArg, MbpsArg, NoSandboxArg, PpsArg, RangesArgs,
    RateValue, SendArgs, UtilArg, ViaArg, of, values,
};
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::units::{self, Choice, choice};
use clap::builder::ValueParser;
use quaff_send::{LatePolicy, Ratio, ReplayVia, TxBackend};
use std::path::PathBuf;
use std::time::Duration;

/// Send the packets of capture files, each exactly when it is due
///
/// Input files are pcap or pcapng, compressed or not; '-' is stdin. Several files are sent one after the
/// other without a pause. They may be larger than memory.
///
/// With -o the frames leave by the interface; with --inject they arrive on it, as if from the wire. Without
/// a rate they are sent with their captured timing. With -w they are written into a file instead, rewritten
/// as they would be sent. Deadlines are counted from the first frame, so errors
/// never accumulate; the report says how precisely they were kept.
///
/// Frames that exceed the interface's MTU (or, when injected, a memory page: 3400 bytes) are skipped and
/// counted. Files with a link type other than Ethernet are refused before the first frame.
///
/// The report compares the packets in the files, the frames intended, the frames handed to the kernel, and
/// the frames confirmed by a counter that quaff does not keep itself. SIGINT or SIGTERM ends the run with a
/// report; a second SIGINT ends it immediately, without one. SIGUSR1 prints a progress line.
///
/// Frames that are written keep their times; with a rate they have the times at which they would be sent, from
/// that of the first one on. No MTU applies to them but that of --mtu. With --seed, loopback, link-local and
/// multicast addresses stay as they are.
///
/// Exit status: 0 the counts agree, or every frame sent before a signal is confirmed; 1 they differ, or frames
/// were skipped; 2 nothing could be sent.
#[derive(Debug, Clone, clap::Args)]
#[command(
    group = clap::ArgGroup::new("interface").required(true),
    group = clap::ArgGroup::new("pace"),
    mut_arg("quiet", |arg| arg.help("Do not show progress")),
    after_help = "Examples:\n  \
        quaff replay -o eth1 trace.pcap\n  \
        quaff replay -o eth1 --pps 100k --loop 10 trace.pcapng.zst\n  \
        quaff replay --inject eth0 -t --loop 0 --unique-ip --duration 30s trace.pcap\n  \
        quaff replay -o eth1 --util 80 --link 1G day1.pcap day2.pcap\n  \
        quaff replay -o eth1 --out2 eth2 --map-ip 10.0.0.0/8:192.168.0.0/16 a.pcap\n  \
        quaff replay -w anonymous.pcapng --seed 42 trace.pcap",
    mut_args(of("count", |arg| arg.alias("limit").value_parser(units::whole))),
    mut_args(of("write", |arg| arg.conflicts_with_all(["one_at_a_time", "cpu"]))),
    mut_args(of("via", |arg| arg.conflicts_with("inject"))),
    mut_args(of("mbps", |arg| arg.help("Megabits per second (10^6), counted at --layer"))),
    mut_args(of("util", |arg| arg.requires("link"))),
    mut_args(of("link", |arg| arg.requires("util"))),
    mut_args(of("seed", |arg| {
        arg.help("Randomize the addresses that no map covers; the same seed gives the same addresses")
    })),
    mut_args(of("buffer", |arg| arg.alias("memory").help("Memory for frames; input that exceeds it is streamed [default: 256M]")))
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) input: CapturesArgs,
    /// Cache file of tcpprep, which assigns each packet to one of the two interfaces
    #[arg(long, value_name = "CACHE", requires = "out2", help_heading = "Input")]
    pub(crate) tcpprep: Option<PathBuf>,
    /// Capture of the other direction, sent by --out2 at the same time, merged by time; several follow each
    /// other
    #[arg(long, value_name = "FILE", requires = "out2", conflicts_with = "tcpprep", help_heading = "Input")]
    pub(crate) dual: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Input")]
    pub(crate) ranges: RangesArgs,
    #[command(flatten, next_help_heading = "Input")]
    pub(crate) turns: LoopArg,
    /// Give each loop its own flows
    ///
    /// With every loop the lower address of each packet decreases by one and the higher one increases by one
    /// (of IPv6 addresses, the last 32 bits), so both directions of a conversation stay together. Checksums
    /// are updated.
    #[arg(long, help_heading = "Input")]
    pub(crate) unique_ip: bool,
    #[command(flatten, next_help_heading = "Input")]
    pub(crate) count: CountArg,
    #[command(flatten)]
    pub(super) end: DurationArgs,

    #[command(flatten)]
    pub(crate) send: SendArgs,
    /// Second interface, for the other side of each conversation
    ///
    /// Frames leave in the order of the file at any rate, whichever interface they leave by.
    #[arg(long, value_name = "IF", requires = "out", help_heading = "Output")]
    pub(crate) out2: Option<String>,
    #[command(flatten, next_help_heading = "Output")]
    pub(crate) via: ViaArg<ReplayVia>,

    /// Multiply the captured speed by FACTOR, such as 2 or 0.5
    #[arg(short = 'x', long, value_name = "FACTOR", value_parser = ratio, group = "pace", help_heading = "Rate")]
    pub(crate) multiplier: Option<Ratio>,
    /// Shorten gaps between packets to TIME at most, at the captured speed or its multiple
    #[arg(long, value_name = "TIME", value_parser = units::duration, conflicts_with_all = ["pps", "mbps", "util", "topspeed", "one_at_a_time"], help_heading = "Rate")]
    pub(crate) max_gap: Option<Duration>,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) pps: PpsArg<Ratio>,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) mbps: MbpsArg<Ratio>,
    /// Bytes that --mbps counts: 1 everything on the wire (24 bytes more: preamble, FCS and gap), 2 the frame
    /// as captured, without FCS, 3 the payload of the Ethernet frame
    #[arg(long, value_name = "LAYER", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3), requires = "mbps", help_heading = "Rate")]
    pub(crate) layer: u8,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) util: UtilArg<f64>,
    #[command(flatten, next_help_heading = "Rate")]
    pub(crate) link: LinkArg,
    /// Send as fast as possible
    #[arg(short = 't', long, group = "pace", help_heading = "Rate")]
    pub(crate) topspeed: bool,
    /// Send one frame for each line on stdin (press Enter)
    #[arg(long, group = "pace", help_heading = "Rate")]
    pub(crate) one_at_a_time: bool,
    /// Handling of frames that are more than 1 ms late
    #[arg(long, value_name = "POLICY", default_value = "burst", value_parser = choice(LATE), help_heading = "Rate")]
    pub(crate) late: LatePolicy,

    #[command(flatten)]
    pub(crate) rewrite: rewrite::RewriteArgs,

    #[command(flatten, next_help_heading = "Performance")]
    pub(crate) buffer: BufferArg<Memory>,
    #[command(flatten)]
    pub(crate) cpu: CoreArg,

    #[command(flatten)]
    pub(super) report: ReportArgs,
    #[command(flatten)]
    pub(super) watch: WatchArgs,

    #[command(flatten)]
    pub(crate) no_sandbox: NoSandboxArg,
}

/// The transmit backends for `-o`.
const BACKENDS: [Choice<ReplayVia>; 8] = [
    (
        "auto",
        ReplayVia::Auto,
        "xdp-redirect where the driver supports it; otherwise at top speed the fastest of sendmmsg, \
         af-xdp-queue0 and tx-ring, each measured for 100 ms on the first frames of the run, and sendmmsg at \
         a given rate. The report names the choice and its reason",
    ),
    (
        "xdp-redirect",
        ReplayVia::XdpRedirect,
        "Sent by the driver from an XDP program in the kernel, bypassing the stack; the fastest backend where \
         the driver accepts redirected frames",
    ),
    (
        "sendmmsg",
        ReplayVia::User(TxBackend::Sendmmsg),
        "Packet socket, many frames per system call, bypassing the queueing discipline",
    ),
    (
        "sendmmsg-qdisc",
        ReplayVia::User(TxBackend::SendmmsgQdisc),
        "As sendmmsg, through the queueing discipline, so that captures on the interface see the frames",
    ),
    (
        "tx-ring",
        ReplayVia::User(TxBackend::TxRing),
        "Ring of a packet socket; the driver reads the frames in place",
    ),
    ("tx-ring-qdisc", ReplayVia::User(TxBackend::TxRingQdisc), "As tx-ring, through the queueing discipline"),
    (
        "af-xdp",
        ReplayVia::User(TxBackend::AfXdp),
        "AF_XDP, zero-copy and on all queues where the driver supports that: frames between the same two \
         addresses keep their order; otherwise as af-xdp-queue0",
    ),
    ("af-xdp-queue0", ReplayVia::User(TxBackend::AfXdpQueue0), "AF_XDP on the first queue, in order"),
];

impl Args {
    /// Times that the files are sent; 0 is without end.
    pub(super) fn turns(&self) -> u64 {
        self.turns.unwrap_or(1)
    }
}

values! {
    ReplayVia: choice(BACKENDS);
    Memory: memory;
}

impl RateValue for Ratio {
    fn pps() -> ValueParser {
        ValueParser::new(ratio)
    }
}

/// The handling of late frames.
const LATE: [Choice<LatePolicy>; 3] = [
    ("burst", LatePolicy::Burst, "Send them immediately until the schedule has caught up"),
    ("shift", LatePolicy::Shift, "Delay everything that follows, keeping the gaps"),
    ("drop", LatePolicy::Drop, "Discard and count them"),
];

fn ratio(text: &str) -> Result<Ratio, String> {
    let value = units::decimal(text)?;
    Ratio::of(value).ok_or_else(|| format!("'{text}' is out of range"))
}

/// Memory for frames, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory(pub(super) usize);

/// Memory for frames by default, bytes.
pub(super) const MEMORY_BYTES: usize = 256 << 20;

/// A size that fits the kernel's BPF maps, which hold less than 512 MiB.
fn memory(text: &str) -> Result<Memory, String> {
    let bytes = units::bytes(text)?;
    if (1 << 20..=500 << 20).contains(&bytes) {
        Ok(Memory(bytes as usize))
    } else {
        Err("between 1M and 500M".to_owned())
    }
}
