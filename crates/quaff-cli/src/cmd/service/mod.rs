//! `quaff service`: tests a path by RFC 2544 and ITU-T Y.1564; shows results; lists presets.

mod args;
mod list;
mod plan;
mod progress;
mod run;
mod values;

use crate::exit::Exit;
use crate::stored_result::{self, ShowArgs};

/// Test a network path: throughput, delay, loss and availability, per service
///
/// Numbered frames go from one end to the other through a device, a tap, a bridge or a router, and each is
/// accounted for by its number and its transit time. The tests are those of RFC 2544 (throughput, latency, frame
/// loss, back-to-back with the correction of RFC 9004, system recovery) and ITU-T Y.1564 (service configuration,
/// service performance of several services at once), with limits and a verdict for each. An END is an interface, or
/// NETNS/IF in a network namespace. Without --from and --to, the test makes a lab with a tap, a bridge, a router or
/// a plain link between its ends.
///
/// Without --preset and --plan, the test is y1564 if --service is given, otherwise rfc2544 with --short.
///
/// The tester is calibrated first, over a plain link: its own delay is reported beside every delay, and a rate
/// that it limited is never attributed to the path. Between real interfaces this needs a cable of its own
/// (--null-from, --null-to); without one, the report says what is unknown.
///
/// Frames carry MAC addresses that belong to no host, and pass bridges, switches, taps and transparent
/// firewalls. Through routers, each end acts as a host: --from-ip and --to-ip give it an address and a gateway,
/// and it resolves and answers ARP.
///
/// RFC 2544 is for a lab and not for a production network (RFC 6815): its tests load the path until frames are lost.
///
/// The terminal shows the verdicts; the folder (--out) holds result.json with all results, report.md, a
/// self-contained report.html, and the charts. ^C ends the test; what was measured until then is kept and shown.
/// Needs root, except with --dry-run.
///
/// Exit status: 0 all limits were met, and services without limits lost no frame; 1 a limit was not met, or a service
/// lost frames; 2 not measured, not completely, or not every limit could be judged.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        quaff service --preset whitepaper\n  \
        quaff service --bed bridge --preset rfc2544 --short\n  \
        quaff service --from eth1 --to eth2 --service voice:218:2M --both\n  \
        quaff service --from eth1 --to eth2 --null-from eth3 --null-to eth4\n  \
        quaff service --from east/eth0 --to west/eth0 --max-delay 2ms --max-loss 0.1\n  \
        quaff service --preset y1564 --dry-run > mine.toml\n  \
        quaff service show service-whitepaper-20261120-190405"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: args::TestArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print the result of a service test again
    ///
    /// Exit status: that of the measurement.
    Show(ShowArgs),
    List(list::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.verb {
        Some(Verb::Show(args)) => {
            args.confine()?;
            Ok(Exit::judged(run::verdict(&stored_result::show(args)?)))
        }
        Some(Verb::List(args)) => list::run(args),
        None => run::run(&args.run),
    }
}
