//! `quaff doctor`: finds causes of packet loss on this machine, and fixes them.

use crate::exit::Exit;
use crate::flags::{CoresArg, InterfaceArg, MbpsArg, of};
use crate::shell::{DurationArgs, ReportArgs};
use crate::show::{self, COLUMNS_MIN, Stream, name, print, say, wrap};
use crate::units;
use quaff::doctor::{
    Change, Diagnosis, Done, Finding, Look, Readings, STATE, Wanted, fix, judge, look, undo,
};
use quaff::memory;
use quaff::plan::{default_buffer_bytes, default_ring_bytes};
use quaff_os::rtnl::Rtnl;
use quaff_os::terminal_columns;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Check this machine for anything that causes packet loss, before the capture
///
/// Checks interfaces (rings, channels, coalescing, offloads, RSS, interrupts, other capture sockets, XDP), cores
/// (NUMA, governor, idle states), kernel queues (backlog, budget, drops), clocks, permissions and locked memory,
/// and with --dir a file system: free space, direct writes, and its write rate, measured for a second. Each finding
/// has a description, its effect, and the command that fixes it. On a healthy machine nothing is printed.
///
/// Without --fix nothing is changed. --fix makes only reversible changes, to the machine and to interfaces named with
/// -i; --undo restores the previous settings exactly. Some drivers take the link down briefly when a ring
/// changes.
///
/// Settings that cannot be read (in a container, for example) are listed on stderr.
///
/// Exit status: 0 no findings; 1 findings, or settings that could not be restored; 2 the check failed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_args(of("duration", |arg| {
        arg.alias("time").help("Time to observe the kernel's counters and to write [default: 1s]")
    })),
    mut_args(of("interface", |arg| {
        arg.help("Check this interface; repeat it for more [default: all network cards that are up]")
    })),
    mut_args(of("cpu", |arg| arg.help("Cores that 'quaff capture --cpu' will use, which interrupts should avoid"))),
    mut_args(of("mbps", |arg| {
        arg.help("Rate that a capture must sustain, in megabits per second (10^6) [default: the interfaces' link rates]")
    }))
)]
pub(crate) struct Args {
    #[command(flatten)]
    interface: InterfaceArg,
    #[command(flatten, next_help_heading = "Input")]
    cpu: CoresArg,
    /// Also check this folder's file system, with test writes for a second
    ///
    /// They take at most 5 % of the free space and are removed.
    #[arg(long, value_name = "DIR", help_heading = "Input")]
    dir: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Input")]
    mbps: MbpsArg<f64>,
    /// The same rate in bits per second, such as 10G
    #[arg(long, value_name = "RATE", value_parser = units::rate, conflicts_with = "mbps", hide = true)]
    rate: Option<f64>,
    #[command(flatten)]
    end: DurationArgs,
    /// Ignore findings with these IDs ('id' in --json): neither report nor fix them
    #[arg(long, value_name = "ID[,ID]", value_delimiter = ',', help_heading = "Filter")]
    ignore: Vec<String>,

    /// Apply the reversible fixes, then check again
    #[arg(long, conflicts_with = "undo", help_heading = "Changes")]
    fix: bool,
    /// Restore every setting that --fix has changed since the machine was booted
    #[arg(
        long,
        conflicts_with_all = ["interface", "cpu", "dir", "mbps", "rate", "ignore"],
        help_heading = "Changes"
    )]
    undo: bool,
    /// File in which --fix records the previous settings
    #[arg(long, value_name = "FILE", default_value = STATE, hide = true)]
    state: PathBuf,

    #[command(flatten)]
    report: ReportArgs,
    /// Also print the checks that passed
    #[arg(short, long, help_heading = "Report")]
    verbose: bool,
}

/// Time to observe the kernel's counters by default.
const OBSERVED: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  quaff doctor -i eth0 --dir /data
  quaff doctor -i eth0 --mbps 2000 --dir /data
  quaff doctor -i eth0 --fix
  quaff doctor --undo
  quaff doctor -i eth0 --json | jq -r '.findings[] | .severity + \": \" + .what'";

/// Columns of the output, and fewer on a narrow terminal.
const COLUMNS: usize = 96;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.undo {
        return restore(args);
    }
    let interfaces = if args.interface.is_empty() { cards()? } else { args.interface.to_vec() };
    let rate_bps = args.mbps.map(|mbps| mbps * 1e6).or(args.rate);
    let wanted = wanted(rate_bps, interfaces.len());
    if interfaces.is_empty() {
        say("no network card was checked: none is up; name another interface with -i");
    }
    let cores = args.cpu.to_vec();
    let wants = Look {
        interfaces,
        cores,
        dir: args.dir.clone(),
        time: args.end.duration.unwrap_or(OBSERVED),
        wanted,
    };
    let readings = look(&wants, None)?;
    let mut found = conclude(&readings, args);
    let mut fixed = Vec::new();
    if args.fix {
        fixed = fix(&changes(&found, &args.interface), &args.state)?;
        if !fixed.is_empty() {
            // Nothing about the folder was changed.
            found = conclude(&look(&wants, Some(readings))?, args);
        }
    }
    if args.report.json {
        show::json(Stream::Stdout, &as_json(&found, args.fix.then_some(&fixed)))?;
    } else {
        print_all(&found, &fixed, args.verbose);
    }
    Ok(Exit::judged(found.findings.is_empty()))
}

/// The network cards that are up.
fn cards() -> anyhow::Result<Vec<String>> {
    let is_card = |name: &String| Path::new("/sys/class/net").join(name).join("device").exists();
    let links = Rtnl::open()?.links()?.into_iter().filter(|link| link.up);
    Ok(links.map(|link| link.name).filter(is_card).collect())
}

/// The requirements of a capture with the default buffers.
fn wanted(rate_bps: Option<f64>, interfaces: usize) -> Wanted {
    let free_bytes = memory::default_free_bytes();
    let (ring, buffer) = (default_ring_bytes(free_bytes), default_buffer_bytes(free_bytes));
    let locked_bytes = (buffer + ring * interfaces.max(1)) as u64;
    Wanted { rate_bps, locked_bytes, buffer_bytes: buffer as u64 }
}

fn conclude(readings: &Readings, args: &Args) -> Diagnosis {
    let mut found = judge(readings);
    found.findings.retain(|finding| !args.ignore.iter().any(|id| id == finding.id));
    found
}

/// The changes of --fix; those of interfaces only if they are named.
fn changes(found: &Diagnosis, named: &[String]) -> Vec<Change> {
    let is_ours = |finding: &&Finding| finding.interface.as_ref().is_none_or(|name| named.contains(name));
    found.findings.iter().filter(is_ours).flat_map(|finding| finding.changes.clone()).collect()
}

fn as_json(found: &Diagnosis, fixed: Option<&Vec<Done>>) -> Value {
    let mut value = json!(found);
    if let Some(fixed) = fixed {
        value["fixed"] = json!(fixed);
    }
    value
}

fn print_all(found: &Diagnosis, fixed: &[Done], verbose: bool) {
    for done in fixed {
        print(&match &done.refused {
            Some(why) => left(done, why),
            None => format!("set {} from {} to {}", done.what, done.was, value(done)),
        });
    }
    for finding in &found.findings {
        print(&describe(finding));
    }
    if verbose {
        for fine in &found.fine {
            print(&name(&format!("fine: {}: {}", fine.what, fine.value)));
        }
    }
    for unread in &found.unread {
        say(&format!("not read: {}: {}", name(&unread.what), name(&unread.why)));
    }
}

/// A finding as text: what it is, why it matters, and its fix.
fn describe(finding: &Finding) -> String {
    let terminal = terminal_columns().map(|columns| usize::from(columns).max(COLUMNS_MIN));
    let mut text = format!("{}: {}", finding.severity, name(&finding.what));
    if let Some(columns) = terminal {
        text = wrap(columns - 2, &text).trim_end().replace('\n', "\n  ");
    }
    for line in wrap(terminal.unwrap_or(COLUMNS).min(COLUMNS) - 4, &finding.why).lines() {
        text += &format!("\n    {line}");
    }
    text + &format!("\n    fix: {}", name(&finding.fix))
}

/// A setting that was not changed, with its value where that could be read.
fn left(done: &Done, why: &str) -> String {
    match &done.now {
        Some(now) => format!("left {} at {now}: {why}", done.what),
        None => format!("left {} as it is: {why}", done.what),
    }
}

fn value(done: &Done) -> &str {
    done.now.as_deref().unwrap_or("an unknown value")
}

fn restore(args: &Args) -> anyhow::Result<Exit> {
    let undone = undo(&args.state)?;
    if args.report.json {
        show::json(Stream::Stdout, &json!({ "undone": undone }))?;
    } else {
        if undone.is_empty() {
            say("nothing was changed since the machine was booted");
        }
        for done in &undone {
            print(&match &done.refused {
                Some(why) => left(done, why),
                None => format!("restored {} to {}", done.what, value(done)),
            });
        }
    }
    let is_all = undone.iter().all(|done| done.refused.is_none());
    Ok(Exit::judged(is_all))
}
