//! `quaff service`: a path tested by RFC 2544 and ITU-T Y.1564; what came of it shown; presets listed.

mod args;
mod list;
mod plan;
mod progress;
mod run;
mod show;
mod text;
mod values;

use crate::exit::Exit;

/// Test what a path does to frames: throughput, delay, loss, service by service
///
/// Stamped frames go from one end to the other, through a device, a tap, a bridge, a router, and each of
/// them is accounted for: by its number, and by the time that it took. The tests are those of RFC 2544
/// (throughput, latency, frame loss, back-to-back with RFC 9004's correction, system recovery) and of ITU-T
/// Y.1564 (service configuration, service performance of several services at once), with limits, and a verdict
/// for each line. An END is an interface, or NETNS/IF in a network namespace. Without --from and --to the ends
/// are made in a lab, with a tap, a bridge, a router or nothing but a link between them.
///
/// First the instrument is measured alone, over nothing but a link: its delay stands beside every delay, and a
/// rate that it limited is never called the path's. Between interfaces that are there it needs such a link of
/// its own (--null-from, --null-to); without one a note says what is not known.
///
/// Frames have hardware addresses that nobody has, and find their way through a bridge, a switch, a tap, a
/// transparent firewall. Through a router each end is a host of its own: --from-ip and --to-ip give it an address
/// and its gateway, for which it asks and answers by ARP.
///
/// RFC 2544 is for a lab and not for a network that others use (RFC 6815): its tests go where frames are lost.
///
/// The verdicts stand on the terminal; the folder (--out) holds result.json with everything, report.md,
/// report.html, which needs nothing else, and the pictures. ^C ends it: what was measured until then is kept
/// and shown. It needs root, except with --print-plan.
///
/// Exit status: 0 all limits held, and where there were none no service lost a frame; 1 a limit did not hold,
/// or frames of a service were lost; 2 not measured, not to the end, or not all could be judged.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        quaff service --preset whitepaper\n  \
        quaff service --bed bridge --preset rfc2544 --short\n  \
        quaff service --from eth1 --to eth2 --service voice:218:2M --service data:64+576+1518:200M:50M --both\n  \
        quaff service --from eth1 --to eth2 --null-from eth3 --null-to eth4 --preset y1564\n  \
        quaff service --from eth1 --to eth2 --from-ip 10.0.1.2,10.0.1.1 --to-ip 10.0.2.2,10.0.2.1 --short\n  \
        quaff service --from east/eth0 --to west/eth0 --service lan:1518:500M --max-delay 2ms --max-loss 0.1\n  \
        quaff service --preset y1564 --print-plan > mine.toml; quaff service --plan mine.toml\n  \
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
    Show(show::Args),
    List(list::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.verb {
        Some(Verb::Show(args)) => show::run(args),
        Some(Verb::List(args)) => list::run(args),
        None => run::run(&args.run),
    }
}
