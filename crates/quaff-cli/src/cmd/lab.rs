//! `quaff lab`: creates, lists and removes labs, and runs commands in them.

mod demo;
mod probe;
mod recvfrom;
mod run;
mod selection;

use super::bench::promises;
use crate::exit::Exit;
use crate::flags::{AllArg, of};
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use quaff_lab::{Lab, LabEnd, LabInfo, LabPlan, RX, TX};
use selection::{LinkArgs, only_lab};

/// Try quaff without a second machine: two network namespaces and a link between them
///
/// A lab is a pair of network namespaces joined by a virtual Ethernet link. The sending namespace
/// holds the interface tx0 (198.18.0.1), the receiving one holds rx0 (198.18.0.2). The link is
/// silent: without IPv6, ARP and ICMP errors on it, rx0 counts exactly what was sent to it. Labs need
/// root.
///
/// A temporary lab of 'quaff lab run' is removed when its command ends or is interrupted; if quaff itself is killed,
/// the next new lab removes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Up(UpArgs),
    Down(DownArgs),
    List(ListArgs),
    Run(run::Args),
    Probe(probe::Args),
    Demo(demo::Args),
    /// The earlier name of 'quaff bench promises'.
    #[command(hide = true)]
    Bench(promises::Args),
    #[command(hide = true)]
    Recvfrom(recvfrom::Args),
}

/// Create a lab that stays up until it is taken down
///
/// Prints the names of its two namespaces, which also work with 'ip netns exec', and commands to try.
#[derive(Debug, clap::Args)]
struct UpArgs {
    /// Name of the lab [default: an unused name]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    link: LinkArgs,
}

/// Take a lab down
///
/// Without a name it takes down the only lab that is up. A lab that is in use stays up. With --all, so does one that
/// another shell or program has created that still runs: its name takes it down.
#[derive(Debug, clap::Args)]
#[command(mut_args(of("all", |arg| arg.conflicts_with("name").help("Take down all labs that are not in use, and whose owner has ended or is this shell"))))]
struct DownArgs {
    /// Lab to take down
    name: Option<String>,
    #[command(flatten)]
    all: AllArg,
}

/// List the labs that are up
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    match args.verb {
        Verb::Up(args) => up(args),
        Verb::Down(args) => down(args),
        Verb::List(args) => list(&args),
        Verb::Run(args) => run::run(args),
        Verb::Probe(args) => probe::run(&args),
        Verb::Demo(args) => demo::run(&args),
        Verb::Bench(args) => promises::run(&args),
        Verb::Recvfrom(args) => recvfrom::run(args),
    }
}

fn up(args: UpArgs) -> anyhow::Result<Exit> {
    let lab =
        Lab::create(&LabPlan { name: args.name, mtu: args.link.mtu(), ..LabPlan::default() })?.keep()?;
    let LabInfo { name, tx, rx, mtu, .. } = &lab;
    let (width, receiver) = (tx.len(), RX.name);
    let [from, to] =
        [TX, RX].map(|LabEnd { name, ip, prefix_bits, .. }| format!("{name}  {ip}/{prefix_bits}"));
    show::print(&format!(
        "The lab {name} is up, MTU {mtu}.

  sends     {tx:width$}  {from}
  receives  {rx:width$}  {to}

To try it, capture in one terminal:
  quaff lab run --lab {name} -- quaff capture -i {receiver} -w lab.pcapng --count 500000
and send traffic over the link in another:
  quaff lab run --lab {name} -- quaff generate --inject {receiver} --wait 10s --size 512 --pps 100000 --count 500000
then verify that the file is complete:
  quaff verify lab.pcapng

When you are done:
  quaff lab down {name}"
    ));
    Ok(Exit::Done)
}

fn down(args: DownArgs) -> anyhow::Result<Exit> {
    if *args.all {
        return down_all();
    }
    let name = match args.name {
        Some(name) => name,
        None => only_lab("name the one to take down, or use --all")?
            .ok_or_else(|| anyhow::anyhow!("no lab is up"))?,
    };
    Lab::take_down(&name)?;
    show::print(&format!("The lab {name} is down."));
    Ok(Exit::Done)
}

fn down_all() -> anyhow::Result<Exit> {
    let mut failures = 0;
    for LabInfo { name, owner, .. } in Lab::list()? {
        if let Some(pid) = owner {
            show::message(&format!(
                "the lab {name} belongs to process {pid}, which still runs: left up; 'quaff lab down {name}' takes it down"
            ));
            continue;
        }
        match Lab::take_down(&name) {
            Ok(()) => show::print(&format!("The lab {name} is down.")),
            // Another process has just taken it down.
            Err(quaff_lab::Error::Unknown { .. }) => {}
            Err(error) => {
                show::message(&error.to_string());
                failures += 1;
            }
        }
    }
    Ok(Exit::judged((failures == 0).then_some(true)))
}

fn list(args: &ListArgs) -> anyhow::Result<Exit> {
    let labs = Lab::list()?;
    if args.report.json {
        show::json(Stream::Stdout, &labs)?;
        return Ok(Exit::Done);
    }
    if labs.is_empty() {
        show::print("No lab is up. 'quaff lab up' creates one.");
        return Ok(Exit::Done);
    }
    let width = labs.iter().map(|lab| lab.name.len()).max().unwrap_or(0).max(4);
    show::print(&format!(
        "{:width$}  {:>5}  {:wide$}  {:wide$}  STATE",
        "NAME",
        "MTU",
        "SENDS",
        "RECEIVES",
        wide = width + 3
    ));
    for lab in &labs {
        let wide = width + 3;
        show::print(&format!(
            "{:width$}  {:>5}  {:wide$}  {:wide$}  {}",
            lab.name,
            lab.mtu,
            lab.tx,
            lab.rx,
            state(lab)
        ));
    }
    Ok(Exit::Done)
}

fn state(lab: &LabInfo) -> String {
    match (lab.persistent, lab.in_use) {
        (true, true) => "up, in use".into(),
        (true, false) => "up".into(),
        (false, true) => format!("in use by process {}", lab.pid),
        (false, false) => "abandoned; the next lab removes it".into(),
    }
}
