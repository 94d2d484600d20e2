//! `quaff doctor`: what on this machine will lose packets, and how it is mended.

use super::capture::memory;
use crate::exit::Exit;
use crate::show::{print, say, wrap};
use crate::units;
use quaff::doctor::mend::{Done, STATE, fix, undo};
use quaff::doctor::readings::{Readings, Wanted};
use quaff::doctor::{Change, Diagnosis, Finding, Look, Machine, judge, look};
use quaff::plan::{default_buffer_bytes, default_ring_bytes};
use quaff_os::rtnl;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Find what on this machine will lose packets, before the capture
///
/// Looks at interfaces (ring, channels, coalescing, offloads, RSS, interrupts, other readers, XDP), at
/// cores (NUMA, governor, idle states), at the kernel's queues (backlog, budget, drops), at clocks,
/// permissions and locked memory, and with --dir at a file system: free space, direct writes, and how
/// fast it takes what is written, for a second. Each finding says what it is, why it matters, and the
/// command that mends it. On a healthy machine it prints nothing.
///
/// Without --fix nothing is changed. --fix makes those changes that can be put back, to the machine and
/// to interfaces that -i names, and --undo puts them back exactly as they were. Some drivers take the link
/// down for a moment when a ring changes.
///
/// What cannot be read here (in a container, say) is said on stderr, apart from the findings.
///
/// Exit status: 0 nothing found, 1 something found, or not put back, 2 failed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Look at this interface; may be given several times [default: all network cards that are up]
    #[arg(short, long = "interface", value_name = "IF", help_heading = "What to look at")]
    interface: Vec<String>,
    /// Cores on which their lanes are going to run, as 'quaff capture --cpu' says: is there another
    /// place for the interrupts?
    #[arg(long, value_name = "N[,N]", value_delimiter = ',', help_heading = "What to look at")]
    cpu: Vec<usize>,
    /// Look at this folder too: a second of trial writes tells how fast it is. They take no more than 5 %
    /// of what is free, and nothing of them stays
    #[arg(long, value_name = "DIR", help_heading = "What to look at")]
    dir: Option<PathBuf>,
    /// The rate that a capture has to keep up with, b/s: 10G [default: what the interfaces can bring]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "What to look at")]
    rate: Option<f64>,
    /// How long to watch the kernel's counters, and to write
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration, help_heading = "What to look at")]
    time: Duration,
    /// Findings that are known, and are neither told nor mended, by the name that --json calls 'id'
    #[arg(long, value_name = "ID[,ID]", value_delimiter = ',', help_heading = "What to look at")]
    ignore: Vec<String>,

    /// Make those changes that can be put back, then look again
    #[arg(long, conflicts_with = "undo", help_heading = "What to do")]
    fix: bool,
    /// Put back what --fix has changed since the machine was started, all of it
    #[arg(
        long,
        conflicts_with_all = ["interface", "cpu", "dir", "rate", "ignore"],
        help_heading = "What to do"
    )]
    undo: bool,
    /// Where --fix writes down what there was
    #[arg(long, value_name = "FILE", default_value = STATE, hide = true)]
    state: PathBuf,

    /// Print what was found as one JSON object
    #[arg(long, help_heading = "Words")]
    json: bool,
    /// Also print what was looked at and is as it should be
    #[arg(short, long, help_heading = "Words")]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  quaff doctor -i eth0 --dir /data
  quaff doctor -i eth0 --fix && quaff capture -i eth0 --dir /data; quaff doctor --undo
  quaff doctor -i eth0 --json | jq -r '.findings[] | .severity + \": \" + .what'";

/// Columns of what is printed.
const COLUMNS: usize = 96;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.undo {
        return put_back(args);
    }
    let interfaces = if args.interface.is_empty() { cards()? } else { args.interface.clone() };
    let wanted = wanted(args.rate, interfaces.len());
    if interfaces.is_empty() {
        say("no network card was looked at: there is none that is up; -i names another interface");
    }
    let cores = args.cpu.clone();
    let wants = Look { interfaces, cores, dir: args.dir.clone(), time: args.time, wanted };
    let readings = look(&wants)?;
    let mut found = conclude(&readings, args);
    let mut fixed = Vec::new();
    if args.fix {
        fixed = fix(&changes(&found, &args.interface), &Machine, &args.state)?;
        if !fixed.is_empty() {
            // The folder was looked at, and nothing about it was changed.
            let again = look(&Look { dir: None, ..wants })?;
            found = conclude(&Readings { target: readings.target, ..again }, args);
        }
    }
    if args.json {
        print(&as_json(&found, args.fix.then_some(&fixed)).to_string());
    } else {
        show(&found, &fixed, args.verbose);
    }
    Ok(if found.findings.is_empty() { Exit::Done } else { Exit::Loss })
}

fn rate(text: &str) -> Result<f64, String> {
    match units::decimal(text)? {
        rate if rate > 0.0 => Ok(rate),
        _ => Err(format!("'{text}' is no rate")),
    }
}

/// The network cards that are up.
fn cards() -> anyhow::Result<Vec<String>> {
    let is_card = |name: &String| Path::new("/sys/class/net").join(name).join("device").exists();
    let links = rtnl::links()?.into_iter().filter(|link| link.up);
    Ok(links.map(|link| link.name).filter(is_card).collect())
}

/// What `quaff capture` would take by itself.
fn wanted(rate_bps: Option<f64>, interfaces: usize) -> Wanted {
    let free_bytes = memory::free_bytes();
    let (ring, buffer) = (default_ring_bytes(free_bytes), default_buffer_bytes(free_bytes));
    let locked_bytes = (buffer + ring * interfaces.max(1)) as u64;
    Wanted { rate_bps, locked_bytes, buffer_bytes: buffer as u64 }
}

fn conclude(readings: &Readings, args: &Args) -> Diagnosis {
    let mut found = judge(readings);
    found.findings.retain(|finding| !args.ignore.iter().any(|id| id == finding.id));
    found
}

/// What --fix is to change: of interfaces only those that were named.
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

fn show(found: &Diagnosis, fixed: &[Done], verbose: bool) {
    for done in fixed {
        print(&match &done.refused {
            Some(why) => format!("left {} at {}: {why}", done.what, done.now),
            None => format!("set {} from {} to {}", done.what, done.was, done.now),
        });
    }
    for finding in &found.findings {
        print(&words(finding));
    }
    if verbose {
        for fine in &found.fine {
            print(&format!("fine: {}: {}", fine.what, fine.value));
        }
    }
    for unread in &found.unread {
        say(&format!("not read: {}: {}", unread.what, unread.why));
    }
}

/// A finding, for people: what, why, and how it is mended.
fn words(finding: &Finding) -> String {
    let mut text = format!("{}: {}", finding.severity.name(), finding.what);
    for line in wrap(COLUMNS - 4, &finding.why).lines() {
        text += &format!("\n    {line}");
    }
    text + &format!("\n    mend it: {}", finding.fix)
}

fn put_back(args: &Args) -> anyhow::Result<Exit> {
    let undone = undo(&Machine, &args.state)?;
    if args.json {
        print(&json!({ "undone": undone }).to_string());
    } else {
        if undone.is_empty() {
            say("nothing was changed since the machine was started");
        }
        for done in &undone {
            print(&match &done.refused {
                Some(why) => format!("left {} at {}: {why}", done.what, done.now),
                None => format!("put {} back to {}", done.what, done.now),
            });
        }
    }
    let is_all = undone.iter().all(|done| done.refused.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Loss })
}
