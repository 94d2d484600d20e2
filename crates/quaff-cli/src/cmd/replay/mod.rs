//! `quaff replay`: sends capture files from an interface, each packet when it is due, or writes them into a file.

mod confined;
mod report;
mod rewrite;
mod to_file;

pub(crate) use to_file::write;

use crate::cmd::sending::{Watch, destination};
use crate::exit::Exit;
use crate::flags::{
    BufferArg, CoreArg, CountArg, LinkArg, LoopArg, MbpsArg, NoSandboxArg, PpsArg, RangesArgs, RateValue,
    SendArgs, UtilArg, ViaArg, of, values,
};
use crate::shell::{DurationArgs, ReportArgs, WatchArgs};
use crate::show::{self, Stream};
use crate::units::{self, Choice, choice};
use anyhow::{Context as _, bail};
use clap::builder::ValueParser;
use quaff_os::{Stop, rtnl};
use quaff_send::{
    Feed, FilePlan, LatePolicy, Layer, Rate, Ratio, ReplayPlan, ReplayReport, ReplayVia, Snapshot, TxBackend,
    merge,
};
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
    /// Capture files, in order; '-' is stdin
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

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
    end: DurationArgs,

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
    report: ReportArgs,
    #[command(flatten)]
    watch: WatchArgs,

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
    fn turns(&self) -> u64 {
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

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(path) = args.send.write.first() {
        let written = write(args, path)?;
        let stream = Stream::of_report(path.as_os_str() == "-");
        match args.report.json {
            true => show::json(stream, &written)?,
            false => show::report(stream, report::written(&written, args, path).trim_end()),
        }
        return Ok(Exit::judged(written.is_whole()));
    }
    let report = execute(args)?;
    if args.report.json {
        show::json(Stream::Stdout, &report)?;
    } else {
        show::report(Stream::Stdout, report::text(&report, args).trim_end());
    }
    report.error.iter().for_each(|error| show::message(error));
    Ok(Exit::judged(report.error.is_none().then(|| report.agrees())))
}

/// Runs the replay and returns its report, without printing it.
fn execute(args: &Args) -> anyhow::Result<ReplayReport> {
    execute_with(args, |feed| feed, |_| {})
}

/// Runs the replay for another command line: `wrap` may insert a feed between the files and the sender, and `look`
/// receives the progress.
pub(crate) fn execute_with(
    args: &Args,
    wrap: impl FnOnce(Box<dyn Feed>) -> Box<dyn Feed>,
    mut look: impl FnMut(&Snapshot),
) -> anyhow::Result<ReplayReport> {
    if args.one_at_a_time && args.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("stdin can be the input file or trigger the frames (--one-at-a-time), not both");
    }
    let mut watch = Watch::new(&args.watch, args.one_at_a_time)?;
    let (plan, stop) = (plan(args)?, Stop::default());
    let feed = wrap(rewritten(source(args, &stop)?, args)?);
    let (feed, sandbox) = confined::confined(feed, args);
    let report = quaff_send::replay(&plan, feed, stop, |snapshot, wait| {
        look(snapshot);
        watch.look(snapshot, wait)
    });
    watch.clear_line();
    sandbox.finish();
    Ok(report?)
}

/// Inserts the rewriting of the flags.
fn rewritten(feed: Box<dyn Feed>, args: &Args) -> anyhow::Result<Box<dyn Feed>> {
    let mut mtu = u32::MAX;
    for interface in [&args.send.inject, &args.send.out, &args.out2].into_iter().flatten() {
        mtu = mtu.min(rtnl::link(interface)?.mtu);
    }
    let plan = args.rewrite.plan(mtu, args.out2.is_some() && args.tcpprep.is_none() && args.dual.is_empty());
    if plan.stamp.is_some() && args.turns() != 1 {
        bail!("--stamp numbers the frames of a single pass: omit --loop");
    }
    Ok(plan.apply(feed))
}

/// The feed of the files, or of both directions of a link.
fn source(args: &Args, stop: &Stop) -> anyhow::Result<Box<dyn Feed>> {
    let (include, exclude) = (args.ranges.include.clone(), args.ranges.exclude.clone());
    let plan = FilePlan { files: args.files.clone(), include, exclude, cache: args.tcpprep.clone() };
    let other = FilePlan { files: args.dual.clone(), ..plan.clone() };
    let feed = plan.open(stop.clone())?;
    if args.dual.is_empty() { Ok(feed) } else { Ok(merge(feed, other.open(stop.clone())?)) }
}

fn plan(args: &Args) -> anyhow::Result<ReplayPlan> {
    let (via, interface) = destination(&args.send.inject, &args.send.out, [ReplayVia::Inject, *args.via]);
    Ok(ReplayPlan {
        via,
        interface,
        interface2: args.out2.clone(),
        rate: rate(args)?,
        gap_max: args.max_gap,
        loops: Some(args.turns()).filter(|turns| *turns > 0),
        unique_ip: args.unique_ip,
        limit: *args.count,
        duration: args.end.duration,
        late: args.late,
        stepwise: args.one_at_a_time,
        core: *args.cpu,
        memory_bytes: args.buffer.map_or(MEMORY_BYTES, |Memory(bytes)| bytes),
    })
}

fn rate(args: &Args) -> anyhow::Result<Rate> {
    let layer = match args.layer {
        1 => Layer::L1,
        3 => Layer::L3,
        _ => Layer::L2,
    };
    let too_fast = "the rate is out of range";
    if args.topspeed || args.one_at_a_time {
        return Ok(Rate::Topspeed);
    }
    if let Some(pps) = *args.pps {
        return Ok(Rate::Frames(pps));
    }
    if let Some(mbps) = *args.mbps {
        let bps = Ratio::of(mbps.value() * 1e6).context(too_fast)?;
        return Ok(Rate::Bits(bps, layer));
    }
    if let Some((percent, bps)) = args.util.zip(*args.link) {
        let bps = Ratio::of(bps * percent / 100.0).context(too_fast)?;
        return Ok(Rate::Bits(bps, Layer::L1));
    }
    let as_captured = Ratio { num: 1, den: 1 };
    Ok(Rate::Captured(args.multiplier.unwrap_or(as_captured)))
}

fn ratio(text: &str) -> Result<Ratio, String> {
    let value = units::decimal(text)?;
    Ratio::of(value).ok_or_else(|| format!("'{text}' is out of range"))
}

/// Memory for frames, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory(usize);

/// Memory for frames by default, bytes.
const MEMORY_BYTES: usize = 256 << 20;

/// A size that fits the kernel's BPF maps, which hold less than 512 MiB.
fn memory(text: &str) -> Result<Memory, String> {
    let bytes = units::bytes(text)?;
    if (1 << 20..=500 << 20).contains(&bytes) {
        Ok(Memory(bytes as usize))
    } else {
        Err("between 1M and 500M".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use std::ffi::OsString;

    fn args(line: &str) -> Args {
        let line: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        let Ok(Command::Replay(args)) = crate::read(&line) else { panic!("{line:?}") };
        *args
    }

    #[test]
    fn rate_flags_select_the_rate() {
        let ratio = |value| Ratio::of(value).unwrap();
        for (line, expected) in [
            ("", Rate::Captured(Ratio { num: 1, den: 1 })),
            ("-x 2.5", Rate::Captured(ratio(2.5))),
            ("--pps 553097", Rate::Frames(ratio(553_097.0))),
            ("--mbps 9.5", Rate::Bits(ratio(9.5e6), Layer::L2)),
            ("--mbps 100 --layer 3", Rate::Bits(ratio(1e8), Layer::L3)),
            ("--util 80 --link 1G", Rate::Bits(ratio(8e8), Layer::L1)),
            ("-t", Rate::Topspeed),
        ] {
            assert_eq!(rate(&args(&format!("replay -o a f {line}"))).unwrap(), expected, "{line}");
        }
    }
}
