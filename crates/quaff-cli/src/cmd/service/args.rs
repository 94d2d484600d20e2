//! The arguments of `quaff service`.

use super::values;
use crate::cmd::experiment::ResultArgs;
use crate::flags::{BedArg, ClockArg, LinkArg, PlanArgs, of};
use crate::shell::DurationArgs;
use crate::units;
use quaff_bench::service::plan::{Host, Path, PathEnd, Service};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    mut_args(of("duration", |arg| arg.help_heading("Test plan").help("Duration of a service performance test; Y.1564 has 15m, 2h and 24h [default: the preset's]"))),
    mut_args(of("bed", |arg| arg.conflicts_with("from"))),
    mut_args(of("link", |arg| arg.value_parser(values::rate_mbps).help(LINK))),
    mut_args(of("runs", |arg| arg.help("Repetitions of the service performance test [default: the preset's]")))
)]
pub(super) struct TestArgs {
    /// One end of the path: an interface, or NETNS/IF
    #[arg(long, value_name = "END", value_parser = values::end, requires = "to", help_heading = "Path")]
    pub(super) from: Option<PathEnd>,
    /// The other end
    #[arg(long, value_name = "END", value_parser = values::end, requires = "from", help_heading = "Path")]
    pub(super) to: Option<PathEnd>,
    /// Address of the --from end and its gateway, for paths through routers; no interface may have the address,
    /// because the test itself answers ARP for it
    #[arg(long, value_name = "IP,GATEWAY", value_parser = values::host, requires_all = ["from", "to_ip"], help_heading = "Path")]
    pub(super) from_ip: Option<Host>,
    /// Address of the --to end and its gateway
    #[arg(long, value_name = "IP,GATEWAY", value_parser = values::host, requires_all = ["from", "from_ip"], help_heading = "Path")]
    pub(super) to_ip: Option<Host>,
    #[command(flatten, next_help_heading = "Path")]
    pub(super) bed: BedArg<Path>,
    /// First port of a back-to-back cable, to calibrate the tester
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_to", help_heading = "Path")]
    pub(super) null_from: Option<PathEnd>,
    /// Second port of that cable
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_from", help_heading = "Path")]
    pub(super) null_to: Option<PathEnd>,
    #[command(flatten, next_help_heading = "Path")]
    pub(super) link: LinkArg,
    #[command(flatten, next_help_heading = "Path")]
    pub(super) clock: ClockArg,
    /// Test both directions at the same time, each with its own verdict
    #[arg(long, help_heading = "Path")]
    pub(super) both: bool,

    #[command(flatten)]
    pub(super) from_plan: PlanArgs,
    /// Shorten the preset to a few minutes: shorter trials, fewer repetitions
    #[arg(long, conflicts_with = "plan", help_heading = "Test plan")]
    pub(super) short: bool,
    /// Test this service instead of the preset's, without its limits; repeat it to test several at once
    ///
    /// SIZE is bytes with FCS, or several in turn (64+576+1518); rates are bits per second, such as 10M; bursts are
    /// bytes.
    #[arg(long, value_name = "NAME:SIZE:CIR[:EIR[:CBS[:EBS]]]", value_parser = values::service, help_heading = "Test plan")]
    pub(super) service: Vec<Service>,
    #[command(flatten)]
    pub(super) end: DurationArgs,
    /// Highest mean one-way delay (FTD), such as 100ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits of every service")]
    pub(super) max_delay: Option<Duration>,
    /// Highest delay variation (FDV, above the smallest delay), such as 20ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits of every service")]
    pub(super) max_variation: Option<Duration>,
    /// Highest frame loss ratio (FLR), in percent, such as 0.3
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, help_heading = "Limits of every service")]
    pub(super) max_loss: Option<f64>,
    /// Lowest availability, in percent of seconds, such as 99.99
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, help_heading = "Limits of every service")]
    pub(super) min_availability: Option<f64>,

    #[command(flatten)]
    pub(super) report: ResultArgs,
}

const LINK: &str =
    "Link rate in bits per second, such as 1G, to which loads refer [default: the interface's, or 1G]";
