//! Reasons why frames cannot be sent.

use quaff_wire::probe::ProbeFrameError;
use quaff_wire::synth::RecipeError;
use std::path::PathBuf;

/// Fewer frames per second than that would overflow an interval.
pub(crate) const PPS_MIN: f64 = 1e-4;
/// More than any machine does; keeps an interval above zero.
pub(crate) const PPS_MAX: f64 = 1e9;

/// Why nothing, or not all, could be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The plan asks for what cannot be.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A file could not be read, or not further.
    #[error(transparent)]
    File(#[from] quaff_file::read::Error),
    /// The kernel refused.
    #[error(transparent)]
    Os(#[from] quaff_os::Error),
}

/// What a plan asked for that cannot be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum PlanError {
    #[error(transparent)]
    ProbeFrame(#[from] ProbeFrameError),
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    #[error("such frames have to be made one by one")]
    Made,
    #[error("{0} frames per second cannot be kept; between {PPS_MIN} and {PPS_MAX} can be asked for")]
    Pace(f64),
    #[error("nothing to send: the count is 0")]
    Nothing,
    #[error("{interface} is down; switch it on with: ip link set {interface} up")]
    Down { interface: String },
    #[error("nothing can be sent from {interface}: there is no carrier, the other end may be down")]
    NoCarrier { interface: String },
    #[error("a frame of {bytes} bytes is larger than all memory there is for frames")]
    FrameBytes { bytes: usize },
    #[error("a frame of {bytes} bytes does not fit the MTU of {mtu}, and it was said that this is an error")]
    Mtu { bytes: usize, mtu: usize },
    #[error("{}: packets of link type {linktype} are no Ethernet frames and cannot be sent", .path.display())]
    LinkType { path: PathBuf, linktype: u16 },
    #[error("nothing to send: no packet is left of what the files have")]
    Empty,
    #[error("what comes from a pipe can be sent again only when all of it fits into memory")]
    Again,
    #[error("two output interfaces need a user-space `via`: omit it or choose another")]
    TwoInterfaces,
    #[error("{interface} cannot be both interfaces")]
    SameInterface { interface: String },
    #[error("the cache file of tcpprep speaks of {packets} packets, and a file has more")]
    Sides { packets: u64 },
    #[error("a rate has to be above 0")]
    Rate,
    #[error("{interface} does not carry Ethernet frames (its type is ARPHRD {arphrd})")]
    NotEthernet { interface: String, arphrd: u16 },
}
