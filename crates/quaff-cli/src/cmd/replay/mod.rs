//! `quaff replay`: capture files onto an interface, each packet when it is due.

mod rewrite;
mod watch;
mod words;

use crate::exit::Exit;
use crate::{show, units};
use anyhow::{Context as _, bail};
use clap::ValueEnum;
use quaff_os::rtnl;
use quaff_os::signal::{Signal, Signals};
use quaff_os::stop::Stop;
use quaff_send::replay::{self, ReplayPlan, ReplayReport, ReplayVia};
use quaff_send::{
    DualFeed, Feed, FileFeed, FilePlan, Late, Layer, Ranges, Rate, Ratio, Rewriting, Snapshot, WayKind,
};
use quaff_wire::tcpprep::Cache;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use watch::Watch;

/// Send the packets of capture files again, each exactly when it is due
///
/// The files may be pcap or pcapng, compressed or not; '-' is standard input. Several files are sent
/// one behind the other, without a pause. They may be larger than memory.
///
/// With -o the frames are sent from the interface, with --inject they arrive on it, as if from the
/// wire. Without any rate they are sent as they were captured. Deadlines are counted from the first
/// frame, so that errors never add up; at the end the report says how well they were kept.
///
/// Frames that do not fit the interface's MTU (or, in the kernel, a page: 3400 bytes) are left out
/// and counted. Files of another kind of link than Ethernet are refused before the first frame.
///
/// At the end the ledger is told: packets in the files, frames intended, frames handed to the kernel,
/// and frames that somebody else has counted. Exit status: 0 when they agree, 1 when they do not or
/// when frames were left out, 2 when nothing could be sent. A run that SIGINT or SIGTERM ended early
/// is fine (0) when all frames that were sent are confirmed; a second SIGINT ends it at once, without
/// a report.
#[derive(Debug, Clone, clap::Args)]
#[command(
    group = clap::ArgGroup::new("interface").required(true),
    group = clap::ArgGroup::new("rate"),
    after_help = "Examples:\n  \
        quaff replay -o eth1 trace.pcap                          (as captured)\n  \
        quaff replay -o eth1 --pps 100k --loop 10 trace.pcapng.zst\n  \
        quaff replay --inject eth0 -t --loop 0 --unique-ip trace.pcap --duration 30s\n  \
        quaff replay -o eth1 --util 80 --link 1G day1.pcap day2.pcap"
)]
pub(crate) struct Args {
    /// Capture files, in order; '-' is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// Send the frames from this interface
    #[arg(short = 'o', long = "out", value_name = "IF", group = "interface", help_heading = "Where")]
    pub(crate) out: Option<String>,
    /// Have the frames arrive on this interface, as if from the wire
    ///
    /// Begin captures first: of frames that arrive while one begins, eight at most may come out of order.
    #[arg(long, value_name = "IF", group = "interface", help_heading = "Where")]
    pub(crate) inject: Option<String>,
    /// A second interface, for the frames of the other side of each conversation
    ///
    /// Frames leave in the order of the file, at any speed, whichever of the two they leave by.
    #[arg(long, value_name = "IF", requires = "out", help_heading = "Where")]
    pub(crate) out2: Option<String>,
    /// A cache file of tcpprep's, which says by which of two interfaces each packet of a file leaves
    #[arg(long, value_name = "CACHE", requires = "out2", help_heading = "Where")]
    pub(crate) tcpprep: Option<PathBuf>,
    /// A capture of the other direction, sent by --out2 at the same time, in the order of time; when
    /// there are several, they follow each other
    #[arg(long, value_name = "FILE", requires = "out2", conflicts_with = "tcpprep", help_heading = "Where")]
    pub(crate) dual: Vec<PathBuf>,
    /// How frames leave by -o
    #[arg(long, value_enum, value_name = "WAY", default_value_t = Via::Auto, conflicts_with = "inject", help_heading = "Where")]
    pub(crate) via: Via,

    /// So many times as fast as captured, such as 2 or 0.5
    #[arg(short = 'x', long, value_name = "FACTOR", value_parser = ratio, group = "rate", help_heading = "Pace")]
    pub(crate) multiplier: Option<Ratio>,
    /// Frames per second, such as 20, 0.5, 400k or 1.5M
    #[arg(long, value_name = "RATE", value_parser = ratio, group = "rate", help_heading = "Pace")]
    pub(crate) pps: Option<Ratio>,
    /// Megabits per second (10^6), of what --layer says
    #[arg(long, value_name = "RATE", value_parser = ratio, group = "rate", help_heading = "Pace")]
    pub(crate) mbps: Option<Ratio>,
    /// What --mbps counts of a frame: 1 all that it takes on the wire (preamble, FCS and gap: 24 bytes
    /// more), 2 the frame as captured, without FCS, 3 what is behind its Ethernet header
    #[arg(long, value_name = "LAYER", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=3), requires = "mbps", help_heading = "Pace")]
    pub(crate) layer: u8,
    /// Percent of the link's speed, with all that a frame takes on the wire
    #[arg(long, value_name = "PERCENT", value_parser = units::decimal, group = "rate", requires = "link", help_heading = "Pace")]
    pub(crate) util: Option<f64>,
    /// The link's speed in bits per second, such as 1G or 100M
    #[arg(long, value_name = "SPEED", value_parser = units::decimal, requires = "util", help_heading = "Pace")]
    pub(crate) link: Option<f64>,
    /// As fast as possible
    #[arg(short = 't', long, group = "rate", help_heading = "Pace")]
    pub(crate) topspeed: bool,
    /// One frame for each line on standard input: press Enter
    #[arg(long, group = "rate", help_heading = "Pace")]
    pub(crate) one_at_a_time: bool,

    /// How often the files are sent; 0 is until SIGINT
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole, help_heading = "How much")]
    pub(crate) r#loop: u64,
    /// Give each loop flows of its own
    ///
    /// From loop to loop the lower address of each packet goes down by one and the higher one up by
    /// one (of IPv6 addresses the last 32 bits), so that both directions of a conversation stay
    /// together and all checksums stay as right as they were.
    #[arg(long, help_heading = "How much")]
    pub(crate) unique_ip: bool,
    /// End after so long, such as 5s, 1.5m or 250ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "How much")]
    pub(crate) duration: Option<Duration>,
    /// End after so many frames, such as 1000 or 3M
    #[arg(long, value_name = "N", value_parser = units::whole, help_heading = "How much")]
    pub(crate) limit: Option<u64>,
    /// Only these packets, counted from 1 through all files: such as 1-5,7,100-
    #[arg(long, value_name = "RANGES", help_heading = "How much")]
    pub(crate) include: Option<Ranges>,
    /// None of these packets
    #[arg(long, value_name = "RANGES", help_heading = "How much")]
    pub(crate) exclude: Option<Ranges>,

    #[command(flatten)]
    pub(crate) rewrite: rewrite::RewriteArgs,

    /// What becomes of frames that are more than 1 ms late, because the machine was busy elsewhere
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = LateArg::Burst, help_heading = "Pace")]
    pub(crate) late: LateArg,
    /// Memory for frames; what does not fit streams through a part of it
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = memory)]
    pub(crate) memory: usize,
    /// Write a line with what was sent every so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = units::duration)]
    pub(crate) stats: Option<Duration>,
    /// Show no progress while sending
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Pin the sending thread to this core
    #[arg(long, value_name = "CORE")]
    pub(crate) cpu: Option<usize>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How frames leave by `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// By xdp-redirect where the driver can do that now; otherwise at top speed by the fastest of
    /// sendmmsg, af-xdp-queue0 and tx-ring, each measured for 100 ms on the first frames of the run,
    /// and with a pace by sendmmsg. The report says which, and why
    Auto,
    /// By the driver, from a program in the kernel, without passing the stack; the fastest where the
    /// driver takes frames from XDP programs
    XdpRedirect,
    /// From a packet socket, many frames a call, past the queueing discipline
    Sendmmsg,
    /// The same through the queueing discipline, so that captures on the interface see the frames too
    SendmmsgQdisc,
    /// From a packet socket's ring; the driver reads the frames where they lie
    TxRing,
    /// The same through the queueing discipline
    TxRingQdisc,
    /// By AF_XDP, without a copy and on all queues where the driver can: frames between the same two
    /// addresses keep their order; elsewhere as af-xdp-queue0
    AfXdp,
    /// By AF_XDP on the first queue, in order
    #[value(name = "af-xdp-queue0")]
    AfXdpQueue0,
}

impl From<Via> for ReplayVia {
    fn from(via: Via) -> Self {
        match via {
            Via::Auto => Self::Auto,
            Via::XdpRedirect => Self::XdpRedirect,
            Via::Sendmmsg => Self::User(WayKind::Sendmmsg),
            Via::SendmmsgQdisc => Self::User(WayKind::SendmmsgQdisc),
            Via::TxRing => Self::User(WayKind::TxRing),
            Via::TxRingQdisc => Self::User(WayKind::TxRingQdisc),
            Via::AfXdp => Self::User(WayKind::AfXdp),
            Via::AfXdpQueue0 => Self::User(WayKind::AfXdpQueue0),
        }
    }
}

/// What becomes of late frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LateArg {
    /// They are sent at once, until the schedule is caught up with
    Burst,
    /// All that follows is later too, and gaps stay as they should be
    Shift,
    /// They are not sent, and counted
    Drop,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = execute(args)?;
    if args.json {
        println!("{}", serde_json::to_string(&report).context("write the report")?);
    } else {
        print!("{}", words::report(&report, args));
    }
    if let Some(error) = &report.error {
        show::say(&format!("quaff: {error}"));
        return Ok(Exit::Failed);
    }
    Ok(if report.agrees() { Exit::Done } else { Exit::Loss })
}

/// Does it all but telling how it ended.
fn execute(args: &Args) -> anyhow::Result<ReplayReport> {
    execute_with(args, |feed| feed, |_| {})
}

/// The same for another command line: `wrap` may put something between the files and the wire, and
/// `look` sees how far it has come.
pub(crate) fn execute_with(
    args: &Args,
    wrap: impl FnOnce(Box<dyn Feed>) -> Box<dyn Feed>,
    mut look: impl FnMut(&Snapshot),
) -> anyhow::Result<ReplayReport> {
    if args.one_at_a_time && args.files.iter().any(|file| file.as_os_str() == "-") {
        bail!("standard input can be the file, or say when a frame goes, but not both");
    }
    let signals = Signals::block(&[Signal::SIGINT, Signal::SIGTERM])?;
    let (plan, stop) = (plan(args)?, Stop::default());
    let feed = wrap(rewritten(source(args, &stop)?, args)?);
    let mut watch = Watch::new(signals, args);
    let report = replay::run(&plan, feed, stop, |snapshot, wait| {
        look(snapshot);
        watch.look(snapshot, wait)
    });
    watch.clear_line();
    Ok(report?)
}

/// The feed with what is to be changed in its frames.
fn rewritten(feed: Box<dyn Feed>, args: &Args) -> anyhow::Result<Box<dyn Feed>> {
    let mut mtu = u32::MAX;
    for interface in [&args.inject, &args.out, &args.out2].into_iter().flatten() {
        mtu = mtu.min(rtnl::link(interface)?.mtu);
    }
    let plan = args.rewrite.plan(mtu, args.out2.is_some() && args.tcpprep.is_none() && args.dual.is_empty());
    if plan.stamp.is_some() && args.r#loop != 1 {
        bail!(
            "--stamp numbers the frames of one pass, and would number them again in the next: leave --loop out"
        );
    }
    Ok(if plan.is_empty() { feed } else { Box::new(Rewriting::new(feed, plan)) })
}

/// The files, or both directions of a link from their own.
fn source(args: &Args, stop: &Stop) -> anyhow::Result<Box<dyn Feed>> {
    let sides = args.tcpprep.as_deref().map(cache).transpose()?;
    let (include, exclude) = (args.include.clone(), args.exclude.clone());
    let plan = FilePlan { files: args.files.clone(), include, exclude, sides };
    let other = FilePlan { files: args.dual.clone(), ..plan.clone() };
    let feed = Box::new(FileFeed::open(plan, stop.clone())?);
    if args.dual.is_empty() {
        return Ok(feed);
    }
    Ok(Box::new(DualFeed::new(feed, Box::new(FileFeed::open(other, stop.clone())?))))
}

fn cache(path: &Path) -> anyhow::Result<Arc<Cache>> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(Arc::new(Cache::read(&bytes).with_context(|| format!("read {}", path.display()))?))
}

fn plan(args: &Args) -> anyhow::Result<ReplayPlan> {
    let (via, interface) = match (&args.inject, &args.out) {
        (Some(interface), _) => (ReplayVia::Inject, interface.clone()),
        // The group has one of the two.
        (None, out) => (args.via.into(), out.clone().unwrap_or_default()),
    };
    Ok(ReplayPlan {
        via,
        interface,
        interface2: args.out2.clone(),
        rate: rate(args)?,
        loops: (args.r#loop > 0).then_some(args.r#loop),
        unique_ip: args.unique_ip,
        limit: args.limit,
        duration: args.duration,
        late: match args.late {
            LateArg::Burst => Late::Burst,
            LateArg::Shift => Late::Shift,
            LateArg::Drop => Late::Drop,
        },
        stepwise: args.one_at_a_time,
        core: args.cpu,
        memory_bytes: args.memory,
    })
}

fn rate(args: &Args) -> anyhow::Result<Rate> {
    let layer = match args.layer {
        1 => Layer::L1,
        3 => Layer::L3,
        _ => Layer::L2,
    };
    let too_fast = "such a rate cannot be reckoned with";
    if args.topspeed || args.one_at_a_time {
        return Ok(Rate::Topspeed);
    }
    if let Some(pps) = args.pps {
        return Ok(Rate::Frames(pps));
    }
    if let Some(mbps) = args.mbps {
        let bps = Ratio::of(mbps.value() * 1e6).context(too_fast)?;
        return Ok(Rate::Bits(bps, layer));
    }
    if let Some((percent, bps)) = args.util.zip(args.link) {
        return Rate::of_link(percent, bps).context(too_fast);
    }
    let as_captured = Ratio { num: 1, den: 1 };
    Ok(Rate::Captured(args.multiplier.unwrap_or(as_captured)))
}

fn ratio(text: &str) -> Result<Ratio, String> {
    let value = units::decimal(text)?;
    Ratio::of(value).ok_or_else(|| format!("'{text}' is too little, or too much"))
}

/// The kernel's maps have less than 512 MiB.
fn memory(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text)?;
    if (1 << 20..=500 << 20).contains(&bytes) {
        Ok(bytes as usize)
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
    fn rates_are_what_was_asked_for() {
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
