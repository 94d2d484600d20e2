//! Errors of transmission. Messages never name a command-line flag.

use quaff_wire::probe::ProbeFrameError;
use quaff_wire::synth::RecipeError;
use std::path::PathBuf;

/// Lowest rate, frames/s: the interval of a lower one would overflow.
pub(crate) const PPS_MIN: f64 = 1e-4;
/// Highest rate, frames/s: the interval of a higher one would be zero.
pub(crate) const PPS_MAX: f64 = 1e9;

/// A failed run.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The plan cannot be executed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A capture file cannot be read.
    #[error(transparent)]
    File(#[from] quaff_file::read::Error),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
}

/// A plan that cannot be executed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlanError {
    #[error(transparent)]
    ProbeFrame(#[from] ProbeFrameError),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error("such frames have to be sent from user space")]
    Made,
    #[error("{0} frames per second is out of range: the rate must be between {PPS_MIN} and {PPS_MAX}")]
    Pace(f64),
    #[error("nothing to send: the count is 0")]
    Nothing,
    #[error("{interface} is down; switch it on with: ip link set {interface} up")]
    Down { interface: String },
    #[error("{interface} has no carrier: the other end may be down")]
    NoCarrier { interface: String },
    #[error("a frame of {bytes} bytes is larger than the memory for frames")]
    FrameBytes { bytes: usize },
    #[error("a frame of {bytes} bytes does not fit the MTU of {mtu}, which the plan makes an error")]
    Mtu { bytes: usize, mtu: usize },
    #[error("{}: packets of link type {linktype} are not Ethernet frames and cannot be sent", .path.display())]
    LinkType { path: PathBuf, linktype: u16 },
    #[error(
        "a file would grow without an end: set `loop`, `count` or `duration`, or a rate if its frames take no time"
    )]
    Endless,
    #[error(
        "the time of a frame is later than the format can hold (pcap: 2106, pcapng: 2554): repeat less often, or write \
         pcapng"
    )]
    FileTime,
    #[error(
        "frames of up to {bytes} bytes do not fit {interface}, which takes {most} (without FCS): set `size-max` to \
         {most}, or choose smaller sizes or a larger MTU"
    )]
    TooLong { bytes: usize, most: usize, interface: String },
    #[error("nothing to send: no packet is left")]
    Empty,
    #[error("packets from a pipe can be sent again only when all of them fit into memory")]
    Again,
    #[error("two output interfaces need a user-space `via`: omit it or choose another")]
    TwoInterfaces,
    #[error("{interface} cannot be both output interfaces")]
    SameInterface { interface: String },
    #[error("read {}: {problem}", .path.display())]
    Cache { path: PathBuf, problem: String },
    #[error("the tcpprep cache covers {packets} packets, and a file has more")]
    Sides { packets: u64 },
    #[error("the rate must be above 0")]
    Rate,
    #[error("a rate of {0} is out of range: it must be between 0.0001 and 10^15")]
    OfferedRate(f64),
    #[error("a `shape` needs a rate: set `pps` or `mbps`")]
    NoRate,
    #[error("a burst has at least one frame, and an on or ramp time is longer than 0")]
    EmptyPattern,
    #[error("{path}: {problem}")]
    Sizes { path: String, problem: String },
    #[error("{interface} does not carry Ethernet frames (its type is ARPHRD {arphrd})")]
    NotEthernet { interface: String, arphrd: u16 },
}
