//! Flags of tunnels, and the plans that they make. The kinds in the help are those that exist.

use super::text;
use quaff::plan::{DecapPlan, InnerPlan, InputPlan};
use quaff_wire::tunnel::TunnelKinds;

/// The tunnels to look into.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DecapArgs {
    #[arg(long, value_name = "KINDS", help = decap_help(), long_help = decap_long_help())]
    pub(crate) decap: Option<TunnelKinds>,
    /// Look into at most N nested tunnels
    #[arg(long, value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) decap_depth: u8,
}

/// Tunnels to remove, and packets to keep by it.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct TunnelArgs {
    #[command(flatten)]
    kinds: DecapArgs,
    /// Drop packets that are not in a tunnel
    #[arg(long, requires = "decap")]
    decap_only: bool,
    /// Keep only frames that match a tcpdump expression after decapsulation
    ///
    /// Evaluated in the kernel where the outer headers have a fixed length (ERSPAN and VXLAN over IPv4 without
    /// options), so that other packets are never copied, and in user space for everything else. Both keep the same
    /// packets.
    #[arg(long, value_name = "EXPR")]
    inner: Option<String>,
}

fn decap_help() -> String {
    format!("Remove tunnel headers and keep the frames inside: auto, or a list of {}", TunnelKinds::words())
}

fn decap_long_help() -> String {
    decap_help()
        + "\n\nPackets without a tunnel pass unchanged. In a file, each tunnel's sender and session is an interface."
}

impl TunnelArgs {
    /// Frames inside tunnels are selected.
    pub(crate) fn has_inner(&self) -> bool {
        self.inner.is_some()
    }

    /// Tunnels are removed.
    pub(crate) fn is_removing(&self) -> bool {
        self.kinds.decap.is_some()
    }

    /// The plan with these tunnels.
    pub(crate) fn add_to(&self, plan: InputPlan) -> InputPlan {
        let DecapArgs { decap, decap_depth: depth } = self.kinds;
        let decap = decap.map(|kinds| DecapPlan { kinds, depth, only: self.decap_only, switch_time: false });
        let inner = text(&self.inner).map(|expression| InnerPlan { expression, user: false });
        InputPlan { decap, inner, ..plan }
    }
}
