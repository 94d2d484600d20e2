//! The arguments of `quaff service`.

use super::values;
use crate::cmd::experiment::ReportArgs;
use crate::units::{self, CLOCKS, choice};
use quaff_bench::service::plan::{Host, Path, PathEnd, Service};
use quaff_os::packet::TimeSource;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
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
    /// Topology of the lab, when no ends are given: link (a cable), bridge, tap or router [default: the preset's, tap]
    #[arg(long, value_name = "BED", value_parser = values::bed, conflicts_with = "from", help_heading = "Path")]
    pub(super) bed: Option<Path>,
    /// First port of a back-to-back cable, to calibrate the tester
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_to", help_heading = "Path")]
    pub(super) null_from: Option<PathEnd>,
    /// Second port of that cable
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_from", help_heading = "Path")]
    pub(super) null_to: Option<PathEnd>,
    /// Link rate in bits per second, to which loads refer, such as 1G [default: the interface's, or 1G]
    #[arg(long, value_name = "RATE", value_parser = values::rate_mbps, help_heading = "Path")]
    pub(super) link: Option<f64>,
    /// Clock that time-stamps arriving frames; adapter needs a clock synchronized to the system's (phc2sys)
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", value_parser = choice(CLOCKS), help_heading = "Path")]
    pub(super) time_stamp_type: TimeSource,
    /// Test both directions at the same time, each with its own verdict
    #[arg(long, help_heading = "Path")]
    pub(super) both: bool,

    /// Run a named test plan: whitepaper (service performance through a tap), rfc2544 or y1564 [default: y1564 with
    /// --service, otherwise rfc2544 with --short]
    #[arg(long, value_name = "NAME", help_heading = "Test plan")]
    pub(super) preset: Option<String>,
    /// Shorten the preset to a few minutes: shorter trials, fewer repetitions
    #[arg(long, conflicts_with = "plan", help_heading = "Test plan")]
    pub(super) short: bool,
    /// Read the test plan from FILE; --dry-run prints a template
    #[arg(long, value_name = "FILE.toml", conflicts_with = "preset", help_heading = "Test plan")]
    pub(super) plan: Option<PathBuf>,
    /// Test this service instead of the preset's, without its limits; repeat it to test several at once
    ///
    /// SIZE is bytes with FCS, or several in turn (64+576+1518); rates are bits per second, such as 10M; bursts are
    /// bytes.
    #[arg(long, value_name = "NAME:SIZE:CIR[:EIR[:CBS[:EBS]]]", value_parser = values::service, help_heading = "Test plan")]
    pub(super) service: Vec<Service>,
    /// Repetitions of the service performance test [default: the preset's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Test plan")]
    pub(super) runs: Option<u32>,
    /// Duration of a service performance test; Y.1564 has 15m, 2h and 24h [default: the preset's]
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, help_heading = "Test plan")]
    pub(super) duration: Option<Duration>,
    /// Print the plan as TOML for --plan, with its duration; run nothing
    #[arg(long, alias = "print-plan", help_heading = "Test plan")]
    pub(super) dry_run: bool,

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
    pub(super) report: ReportArgs,
}
