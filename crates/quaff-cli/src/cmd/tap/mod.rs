//! `quaff tap`: records a line that runs through two ports of this machine.
//!
//! Two processes: this one sets the ports up, follows their links and restores them; the recorder, which it starts, is
//! `quaff capture` and drops its rights as ever. The death of either leaves the line as it is. Neither forwards a frame
//! itself.

mod args;
mod recorder;
mod report;

pub(crate) use args::Args;

use crate::cmd::capture;
use crate::exit::Exit;
use crate::line;
use crate::shell;
use crate::show::{self, Stream, message, name, print, say};
use anyhow::bail;
use args::{Forward, OnExit};
use quaff::tap::{self, Direction, Ended, Forwarder, Recorded, Tap};
use quaff_os::rtnl;
use quaff_os::{Signal, Signals};
use quaff_wire::printable::operands;
use recorder::{Outcome, Recorder};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;

/// Longest wait for the next event.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let [a, b] = &args.ports[..] else { bail!("a tap has two ports") };
    // An alternative name becomes the name.
    let ports = [rtnl::link(a)?.name, rtnl::link(b)?.name];
    if args.remove {
        return remove(&ports, args.report.json);
    }
    let line = args.line(&ports)?;
    if *args.dry_run {
        return dry_run(args, &ports, line);
    }
    let native: capture::Args = line::parse(&line)?;
    let plan = native.plan()?.validate()?;
    let forwarder = forwarder(args.forward, plan.input.ring_bytes);
    let signals = shell::block(&[Signal::SIGUSR1, Signal::SIGCHLD])?;
    let mut tap = forwarder.map(|forwarder| Tap::start(&ports, forwarder)).transpose()?;
    if tap.is_some() && !args.recorder.is_quiet() {
        let by = if args.forward == Forward::Xdp { ", by XDP" } else { "" };
        say(&format!("the kernel forwards between {} and {}{by}", name(&ports[0]), name(&ports[1])));
    }
    let outcome = record(&line, tap.as_mut(), &signals)?;
    finish(args, &ports, tap, outcome)
}

/// The part that forwards; `None` where nothing does. Each port has a ring of `ring_bytes`, where the recorder has
/// none.
fn forwarder(forward: Forward, ring_bytes: usize) -> Option<Forwarder> {
    match forward {
        Forward::Kernel => Some(Forwarder::Tc),
        Forward::Xdp => Some(Forwarder::Xdp { ring_bytes }),
        Forward::None => None,
    }
}

/// Runs the recorder to its end.
fn record(line: &[OsString], mut tap: Option<&mut Tap>, signals: &Signals) -> anyhow::Result<Outcome> {
    let mut recorder = Recorder::start(line)?;
    loop {
        match signals.next(LOOK)?.map(|heard| heard.signal) {
            Some(Signal::SIGCHLD) | None => {}
            Some(signal) => recorder.signal(signal),
        }
        if let Some(tap) = &mut tap {
            tap.watch().iter().chain(&tap.news()).for_each(|news| show::incident(news));
        }
        if let Some(outcome) = recorder.outcome()? {
            return Ok(outcome);
        }
    }
}

/// Ends the forwarding, and reports.
fn finish(args: &Args, ports: &[String; 2], tap: Option<Tap>, outcome: Outcome) -> anyhow::Result<Exit> {
    let names = ports.each_ref().map(String::as_str);
    let recorded = outcome.recorded(names);
    // A recorder that failed must not cut the line; one that never began has recorded nothing worth a line.
    let stays = match outcome.has_begun() {
        true => args.on_exit == OnExit::Forward || !outcome.was_asked_to_end(),
        false => false,
    };
    let (is_forwarding, ended) = match tap {
        Some(tap) => (stays, tap.finish(recorded, stays)?),
        None => (false, passive(names, recorded)),
    };
    ended.news.iter().for_each(|news| show::incident(news));
    if !outcome.has_begun() {
        report::undone(&ended);
        return Ok(Exit::judged(None));
    }
    if args.report.json {
        let mut ledger = outcome.ledger.clone().unwrap_or_else(|| json!({}));
        ledger["directions"] = json!(ended.directions);
        ledger["forward"] = json!(args.forward.word());
        ledger["still_forwarding"] = json!(is_forwarding);
        ledger["not_restored"] = json!(ended.left);
        ledger["redirect_removed"] = json!(ended.cuts);
        show::json(Stream::Stdout, &ledger)?;
    }
    if let Some(death) = &outcome.death {
        message(&format!("the recorder {death}: packets that were not on disk yet are lost"));
    }
    if !args.recorder.is_quiet() {
        report::directions(&ended.directions);
    }
    report::undone(&ended);
    if is_forwarding {
        let ([a, b], words) = (names.map(show::name), operands(&names));
        message(&format!(
            "{a} and {b} forward on without a recorder, and their links are followed no longer; 'quaff tap --remove {}' ends \
             it and restores them",
            name(&words)
        ));
    }
    let is_whole = judged(&outcome, &ended);
    // The recorder gives the reason of its own status.
    if args.recorder.is_quiet() && is_whole == Some(false) && outcome.code == Some(0) {
        message(
            "done with loss: frames did not pass, or the line was changed; without -q the report has the counts",
        );
    }
    Ok(Exit::judged(is_whole))
}

/// Returns whether nothing is lost and all is restored; `None` if the recorder failed.
fn judged(outcome: &Outcome, ended: &Ended) -> Option<bool> {
    let is_restored = ended.left.is_empty() && ended.failures.is_empty();
    let is_clean = ended.directions.iter().all(Direction::is_clean) && is_restored && ended.cuts == 0;
    if ended.is_cut {
        return None;
    }
    let code = outcome.code.filter(|code| matches!(code, 0 | 1))?;
    Some(code == 0 && is_clean)
}

/// The end of a tap that forwards nothing: two feeds.
fn passive([a, b]: [&str; 2], [of_a, of_b]: [Recorded; 2]) -> Ended {
    let directions =
        [Direction::without_forwarding([a, b], &of_a), Direction::without_forwarding([b, a], &of_b)];
    Ended { directions, left: Vec::new(), news: Vec::new(), failures: Vec::new(), cuts: 0, is_cut: false }
}

fn remove(ports: &[String; 2], is_json: bool) -> anyhow::Result<Exit> {
    let (removed, undone) = tap::remove(ports)?;
    if is_json {
        show::json(Stream::Stdout, &json!({ "removed": removed, "undone": undone }))?;
    } else {
        removed.iter().for_each(|port| print(&format!("removed the redirect of {}", name(port))));
        undone.iter().for_each(|done| print(&report::restored(done)));
        if removed.is_empty() && undone.is_empty() {
            say(&format!("{} and {} have nothing of a tap", name(&ports[0]), name(&ports[1])));
        }
    }
    let is_all = undone.iter().all(|done| done.refused.is_none());
    Ok(Exit::judged(is_all))
}

/// Prints what would be changed, then the plan of the recorder.
fn dry_run(args: &Args, ports: &[String; 2], mut line: Vec<OsString>) -> anyhow::Result<Exit> {
    // The size of a ring is no change of a port.
    if let Some(forwarder) = forwarder(args.forward, 0) {
        for change in tap::changes(ports, forwarder)? {
            print(&format!("set        {} to {}", name(&change.setting.to_string()), change.to));
        }
        let [a, b] = ports.each_ref().map(|port| name(port));
        let by = if args.forward == Forward::Xdp { "XDP in the drivers" } else { "tc in the kernel" };
        print(&format!("redirect   {a} to {b}, {b} to {a}, by {by}"));
        print(&format!("at the end {}", args.on_exit.words()));
    }
    line.retain(|word| word != "--json");
    line.push("--dry-run".into());
    let native: capture::Args = line::parse(&line)?;
    capture::run(native)
}
