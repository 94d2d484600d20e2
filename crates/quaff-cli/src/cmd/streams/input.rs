//! The arguments of both commands: the packets to read, and the rules of reassembly.

use crate::units;
use quaff::plan::{DecapPlan, InnerPlan, InputPlan, ReadPlan};
use quaff_stream::policy::{HostPolicy, PolicyMap};
use quaff_stream::tracker::{Ends, TrackPlan};
use quaff_wire::rewrite::Cidr;
use quaff_wire::tunnel::TunnelKinds;
use std::path::PathBuf;
use std::time::Duration;

/// Filters, tunnels.
#[derive(Debug, clap::Args)]
pub(super) struct SelectArgs {
    /// After damage in FILE, search for the next plausible packet and continue
    #[arg(long, help_heading = "Input")]
    salvage: bool,

    /// Read only packets that match a tcpdump expression; later fragments of a datagram match no port
    #[arg(short, long, value_name = "EXPR", help_heading = "Filter")]
    filter: Option<String>,
    /// Remove tunnel headers and read the packets inside: auto, or a list of kinds as in 'quaff capture --decap'
    #[arg(long, value_name = "KINDS", help_heading = "Filter")]
    decap: Option<TunnelKinds>,
    /// Remove at most N nested tunnels
    #[arg(long, value_name = "N", default_value_t = 4, requires = "decap", value_parser = clap::value_parser!(u8).range(1..=16), help_heading = "Filter")]
    decap_depth: u8,
    /// Drop packets that are not in a tunnel
    #[arg(long, requires = "decap", help_heading = "Filter")]
    decap_only: bool,
    /// Read only packets that match a tcpdump expression after decapsulation
    #[arg(long, value_name = "EXPR", requires = "decap", help_heading = "Filter")]
    inner: Option<String>,
}

/// Rules of reassembly.
#[derive(Debug, clap::Args)]
pub(super) struct RuleArgs {
    /// System of the receivers, or of those in a subnet, which decides whose byte wins where segments overlap: linux,
    /// windows-vista, first, …; repeat it for more subnets [default: bsd]
    #[arg(long, value_name = "[SUBNET=]SYSTEM", value_parser = policy, help_heading = "Streams")]
    policy: Vec<(Option<Cidr>, HostPolicy)>,
    /// End a connection after TIME without a packet
    #[arg(long, value_name = "TIME", default_value = "124m", value_parser = units::duration, help_heading = "Streams")]
    idle: Duration,
    /// Keep the first SIZE of each direction only
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Streams")]
    cutoff: Option<u64>,
}

impl SelectArgs {
    /// The plan for these files.
    pub(super) fn plan(&self, files: &[PathBuf]) -> InputPlan {
        let has_text = |text: &String| !text.trim().is_empty();
        let inner = self.inner.clone().filter(has_text);
        InputPlan {
            read: Some(ReadPlan { files: files.to_vec(), salvage: self.salvage, ..ReadPlan::default() }),
            filter: self.filter.clone().filter(has_text),
            decap: self.decap.map(|kinds| DecapPlan {
                kinds,
                depth: self.decap_depth,
                only: self.decap_only,
                switch_time: false,
            }),
            inner: inner.map(|expression| InnerPlan { expression, user: false }),
            ..InputPlan::default()
        }
    }
}

impl RuleArgs {
    /// The plan for all connections, or for those between two ends.
    pub(super) fn plan(&self, only: Option<Ends>) -> TrackPlan {
        let mut plan = TrackPlan { only, ..TrackPlan::default() };
        let default = self.policy.iter().rfind(|(subnet, _)| subnet.is_none());
        let default = default.map_or(HostPolicy::default(), |(_, policy)| *policy);
        let subnets =
            self.policy.iter().filter_map(|(subnet, policy)| subnet.map(|subnet| (subnet, *policy)));
        plan.policies = PolicyMap::new(default, subnets.collect());
        plan.idle_ns = u64::try_from(self.idle.as_nanos()).unwrap_or(u64::MAX);
        plan.stream.cutoff_bytes = self.cutoff.unwrap_or(u64::MAX);
        plan
    }
}

/// `linux`, `10.0.0.0/8=windows`.
fn policy(text: &str) -> Result<(Option<Cidr>, HostPolicy), String> {
    let (subnet, policy) = match text.split_once('=') {
        None => (None, text),
        Some((subnet, policy)) => (Some(subnet), policy),
    };
    let subnet = subnet.map(|subnet| subnet.parse().map_err(|error| format!("'{subnet}': {error}")));
    Ok((subnet.transpose()?, policy.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_that_of_all_or_of_a_subnet() {
        assert_eq!(policy("linux").unwrap(), (None, "linux".parse().unwrap()));
        let (subnet, windows) = policy("10.0.0.0/8=windows/first").unwrap();
        assert_eq!(
            (subnet.map(|subnet| subnet.prefix()), windows),
            (Some(8), "windows/first".parse().unwrap())
        );
        for wrong in ["plan9", "10.0.0.0/8", "10.0.0.0/99=linux", "=linux"] {
            assert!(policy(wrong).is_err(), "{wrong}");
        }
    }
}
