//! The arguments of all commands: the rules of reassembly.

use crate::flags::{IdleArg, nanoseconds, of};
use crate::units;
use quaff_stream::policy::{HostPolicy, PolicyMap};
use quaff_stream::tracker::{Ends, TrackPlan};
use quaff_wire::rewrite::Cidr;

/// Rules of reassembly.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("idle", |arg| arg.default_value("124m"))))]
pub(super) struct RuleArgs {
    /// System of the receivers, or of those in a subnet, which decides whose byte wins where segments of TCP overlap:
    /// linux, windows-vista, first, …; repeat it for more subnets [default: bsd]
    #[arg(long, value_name = "[SUBNET=]SYSTEM", value_parser = policy, help_heading = "Streams")]
    policy: Vec<(Option<Cidr>, HostPolicy)>,
    #[command(flatten, next_help_heading = "Streams")]
    idle: IdleArg,
    /// Keep the first SIZE of each direction of TCP only
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, help_heading = "Streams")]
    cutoff: Option<u64>,
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
        plan.idle_ns = self.idle.map_or(plan.idle_ns, nanoseconds);
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
