//! Flags of traffic that is sent, and of the flows that are metered, with the parts of plans that they make.

use super::{FlagValue, FormatArg, WriteArg, of};
use crate::units;
use clap::builder::ValueParser;
use std::path::PathBuf;
use std::time::Duration;

flags! {
    /// Frames per second, such as 20, 0.5, 400k or 1.5M
    #[arg(long, value_name = "RATE", value_parser = R::pps(), group = "pace")]
    PpsArg<R: RateValue> { pps: Option<R> }

    /// Megabits per second (10^6) of frames without FCS
    #[arg(long, value_name = "RATE", value_parser = R::mbps(), group = "pace")]
    MbpsArg<R: RateValue> { mbps: Option<R> }

    /// Percent of the --link rate, including preamble, FCS and gap
    #[arg(long, value_name = "PERCENT", value_parser = R::util(), group = "pace")]
    UtilArg<R: RateValue> { util: Option<R> }

    /// Link rate in bits per second, such as 1G or 100M, to which percents and loads refer
    #[arg(long, value_name = "RATE", value_parser = units::decimal)]
    LinkArg { link: Option<f64> }

    /// Seed of random choices: the same seed gives the same choices
    #[arg(long, value_name = "N")]
    SeedArg { seed: Option<u64> }

    /// Payload of the frames, after the headers and the probe header [default: counting]
    ///
    /// With any but counting, 'quaff verify' reports a frame truncated by a snaplen as damaged.
    #[arg(long, value_name = "KIND", value_parser = C::parser())]
    ContentArg<C: FlagValue> { content: Option<C> }

    /// Send the files N times; 0 repeats until SIGINT [default: 1]
    #[arg(long = "loop", value_name = "N", value_parser = units::whole)]
    LoopArg { turns: Option<u64> }

    /// Replay the packets of this capture
    #[arg(long, value_name = "FILE", help_heading = "Traffic")]
    ReplayArg { replay: Option<PathBuf> }

    /// Copy each packet N more times, for programs that support it
    #[arg(long, value_name = "N", value_parser = N::parser())]
    CopiesArg<N: FlagValue> { copies: Option<N> }

    /// Way by which packets come from an interface, or leave by it
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = V::parser())]
    ViaArg<V: FlagValue> { via: V }

    /// Topology of the lab that is made where no interfaces are named [default: that of the plan]
    #[arg(long, value_name = "BED", value_parser = B::parser())]
    BedArg<B: FlagValue> { bed: Option<B> }

    /// MTU to apply [default: the interface's]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535))]
    MtuArg { mtu: Option<u32> }

    /// End a flow or a connection after TIME without a packet
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    IdleArg { idle: Option<Duration> }

    /// Most flows in the table of a lane, such as 500k or 10M [default: 1M]
    #[arg(long, value_name = "N", value_parser = units::whole)]
    MaxFlowsArg { max_flows: Option<u64> }

    /// Show only rows with TEXT in them, in upper or lower case
    #[arg(long = "match", value_name = "TEXT", default_value = "", hide_default_value = true)]
    MatchArg { text: String }
}

/// A rate of frames, in the units that it may have on the command line.
pub(crate) trait RateValue: std::fmt::Debug + Clone + Send + Sync + 'static {
    /// Frames per second.
    fn pps() -> ValueParser;

    /// Mbit/s.
    fn mbps() -> ValueParser {
        Self::pps()
    }

    /// Percent of a link.
    fn util() -> ValueParser {
        Self::pps()
    }
}

impl RateValue for f64 {
    fn pps() -> ValueParser {
        ValueParser::new(units::rate)
    }
}

/// Sizes of frames.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SizeArgs<S: FlagValue> {
    /// Frame sizes in bytes: 64 (fixed), 64,128,256 (in turn), 64-1500 (random), 64:7,570:4 (weighted), or a
    /// named mix [default: 512]
    ///
    /// Mixes: rfc2544 (64 to 1514 in turn), imix or imix1500 (64, 570, 1514 as 7:4:1), cisco (64, 594, 1514 as
    /// 7:4:1), tolly (64, 78, 576, 1514 as 55:5:17:23), rpr3 (64, 512, 1514 as 60:20:20), rpr4 (64, 512, 1514,
    /// 9214 as 50:15:15:20). Sizes include VLAN tags, but neither the FCS (1514 bytes with it are the usual 1518; see
    /// --fcs) nor the outer headers of --erspan and --vxlan. Frames must fit the MTU of the interface or, when
    /// injected, a memory page: about 3400 bytes.
    #[arg(long, value_name = "SIZES", value_parser = S::parser())]
    pub(crate) size: Option<S>,
    /// Draw sizes from the distribution in this capture, or in a file written by --sizes-save
    ///
    /// A size that at least 1 packet in 500 has is kept exactly; the others are grouped into bins of 20 bytes.
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub(crate) sizes_from: Option<PathBuf>,
    /// Count the FCS in all sizes and in rates of bits, as RFC 2544 does: 64 is a frame of 60 bytes plus FCS
    ///
    /// Such a frame has no room for a probe header. In mixes the largest frame has 1518 bytes then, or 9218.
    #[arg(long)]
    pub(crate) fcs: bool,
}

/// The goal of frames.
#[derive(Debug, Clone, clap::Args)]
#[command(
    next_help_heading = "Output",
    mut_args(of("write", |arg| arg.group("interface").help(WRITE))),
    mut_args(of("format", |arg| arg.requires("write").help(FORMAT)))
)]
pub(crate) struct SendArgs {
    /// Send the frames from this interface
    #[arg(short = 'o', long, short_alias = 'i', value_name = "IF", group = "interface")]
    pub(crate) out: Option<String>,
    /// Inject the frames into the receive path of this interface, as if they came from the wire
    ///
    /// Start captures first: while a capture starts, up to eight frames may arrive out of order.
    #[arg(long, value_name = "IF", group = "interface")]
    pub(crate) inject: Option<String>,
    #[command(flatten)]
    pub(crate) write: WriteArg,
    #[command(flatten)]
    pub(crate) format: FormatArg,
}

/// A file takes the place of an interface.
const WRITE: &str = "Write the frames to FILE instead of sending them, with the times at which they would be sent; '-' \
                     is stdout, and a name that ends in .zst, .lz4 or .gz gets a compressed file";

const FORMAT: &str = "Format of that file: pcapng, pcap (nanoseconds) or pcap-us (microseconds) [default: by its suffix, \
                      .pcap or .pcapng, else pcap]";

/// MAC addresses of frames.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MacArgs<M: FlagValue> {
    /// Destination MAC of made frames [default: 02:71:75:61:66:02, which belongs to no host, so that the receiving
    /// stack drops them early]
    #[arg(long, value_name = "MAC", value_parser = M::parser())]
    pub(crate) dst_mac: Option<M>,
    /// Source MAC of made frames [default: with -o the interface's, otherwise 02:71:75:61:66:01]
    #[arg(long, value_name = "MAC", value_parser = M::parser())]
    pub(crate) src_mac: Option<M>,
}

/// Timeouts of flows.
#[derive(Debug, clap::Args)]
pub(crate) struct TimeoutArgs {
    /// Export a flow that lasts every TIME
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) active: Option<Duration>,
    #[command(flatten)]
    pub(crate) idle: IdleArg,
}

impl TimeoutArgs {
    /// The active timeout, if it was given.
    pub(crate) fn active_ns(&self) -> Option<u64> {
        self.active.map(nanoseconds)
    }

    /// The idle timeout, if it was given.
    pub(crate) fn idle_ns(&self) -> Option<u64> {
        self.idle.map(nanoseconds)
    }
}

/// A time of a plan, ns.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
