//! What can be said on the command line of `quaff service`.

use super::values::{self, Bed};
use crate::units::{self, TimeStampType};
use quaff::trial::plan::End;
use quaff_lab::service::plan::{Host, Service};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct TestArgs {
    /// One end, an interface or NETNS/IF
    #[arg(long, value_name = "END", value_parser = values::end, requires = "to", help_heading = "Where")]
    pub(super) from: Option<End>,
    /// The other end
    #[arg(long, value_name = "END", value_parser = values::end, requires = "from", help_heading = "Where")]
    pub(super) to: Option<End>,
    /// Through a router: an address for the one end, and the router's there; the test answers for its own itself, so
    /// that no interface may have it
    #[arg(long, value_name = "IP,GATEWAY", value_parser = values::host, requires_all = ["from", "to_ip"], help_heading = "Where")]
    pub(super) from_ip: Option<Host>,
    /// And at the other end
    #[arg(long, value_name = "IP,GATEWAY", value_parser = values::host, requires_all = ["from", "from_ip"], help_heading = "Where")]
    pub(super) to_ip: Option<Host>,
    /// In a lab: what stands between its ends, link (nothing), bridge, tap or router [default: the preset's, tap]
    #[arg(long, value_name = "BED", value_parser = values::bed, conflicts_with = "from", help_heading = "Where")]
    pub(super) bed: Option<Bed>,
    /// Two ends that are joined by nothing but a link, on which the instrument is measured alone
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_to", help_heading = "Where")]
    pub(super) null_from: Option<End>,
    /// And the other of them
    #[arg(long, value_name = "END", value_parser = values::end, requires = "null_from", help_heading = "Where")]
    pub(super) null_to: Option<End>,
    /// The link's rate, by which loads are reckoned, bits per second such as 1G [default: the interface's, or 1G]
    #[arg(long, value_name = "RATE", value_parser = values::rate_mbps, help_heading = "Where")]
    pub(super) link: Option<f64>,
    /// Whose clock stamps arriving frames: host or adapter, whose clock then has to be kept with the system's (phc2sys)
    #[arg(short = 'j', long, value_name = "TYPE", default_value = "host", help_heading = "Where")]
    pub(super) time_stamp_type: TimeStampType,
    /// Both ways at the same time, each with its own verdict
    #[arg(long, help_heading = "Where")]
    pub(super) both: bool,

    /// whitepaper (a service performance test through a tap), rfc2544 or y1564, as their texts have them; with
    /// none of --preset, --plan and --service rfc2544 on its short profile
    #[arg(long, value_name = "NAME", help_heading = "What is tested")]
    pub(super) preset: Option<String>,
    /// A few minutes instead of hours: shorter trials, fewer repetitions
    #[arg(long, conflicts_with = "plan", help_heading = "What is tested")]
    pub(super) short: bool,
    /// What a file says; --print-plan shows its form
    #[arg(long, value_name = "FILE.toml", conflicts_with = "preset", help_heading = "What is tested")]
    pub(super) plan: Option<PathBuf>,
    /// A service, instead of the preset's and without its limits; several are tested at once. SIZE is bytes with FCS, or some of them in
    /// turns (64+576+1518); rates are bits per second, such as 10M; bursts are bytes
    #[arg(long, value_name = "NAME:SIZE:CIR[:EIR[:CBS[:EBS]]]", value_parser = values::service, help_heading = "What is tested")]
    pub(super) service: Vec<Service>,
    /// How often the service performance test is done [default: the preset's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is tested")]
    pub(super) runs: Option<u32>,
    /// How long a service performance test lasts; Y.1564 has 15m, 2h and 24h [default: the preset's]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "What is tested")]
    pub(super) duration: Option<Duration>,
    /// Print what would be run, as a file for --plan, and how long it would take; run nothing
    #[arg(long, help_heading = "What is tested")]
    pub(super) print_plan: bool,

    /// The largest mean one-way delay (FTD), such as 100ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits of every service")]
    pub(super) max_delay: Option<Duration>,
    /// The largest delay variation (FDV, above the smallest delay), such as 20ms
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits of every service")]
    pub(super) max_variation: Option<Duration>,
    /// The most that may be lost (FLR), percent such as 0.3
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, help_heading = "Limits of every service")]
    pub(super) max_loss: Option<f64>,
    /// The least share of seconds in which it has to be available, percent such as 99.99
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, help_heading = "Limits of every service")]
    pub(super) min_availability: Option<f64>,

    /// The folder for the result, a new one [default: service-NAME-TIME]
    #[arg(long, value_name = "DIR", help_heading = "Result")]
    pub(super) out: Option<PathBuf>,
    /// Print result.json instead of the tables
    #[arg(long, help_heading = "Result")]
    pub(super) json: bool,
    /// Print no line for each verdict while it runs
    #[arg(short, long, help_heading = "Result")]
    pub(super) quiet: bool,
}
