//! `quaff capture`: captures packets of interfaces or files to files. It never edits or writes packets itself.

mod args;
mod edit;
mod incidents;
mod printer;
mod report;
mod stop;

pub(crate) use args::Args;
pub(crate) use report::{PLACES, decap_words, exit, ledger_text};

use incidents::Incidents;
use printer::Printer;

use crate::cmd::interfaces;
use crate::cmd::receiving::{self, Asked, LOOK_END};
use crate::exit::Exit;
use crate::show::{self, Stream, message, name, say};
use quaff::Capture;
use quaff::doctor::{self, Finding};
use quaff::plan::CapturePlan;
use quaff::tally::Ledger;
use quaff_os::{Reason, Signal, Signals, Stop, Wakeup};
use quaff_wire::printable::quote;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Interval of the progress line.
const LOOK: Duration = Duration::from_millis(250);
/// Longest wait without one, until an incident is reported; signals and the end of the capture end it. At a low rate a
/// look costs as much as packets.
const LOOK_IDLE: Duration = Duration::from_secs(2);
/// Longest wait of a completed start for the check of its interfaces.
const LOOK_AT_MOST: Duration = Duration::from_millis(20);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.list_interfaces {
        return interfaces::list(false);
    }
    let plan = args.plan()?.validate()?;
    if args.dump_filter {
        report::dump(&quaff::compiled_filters(&plan.input)?);
        return Ok(Exit::Done);
    }
    if args.dry_run {
        if args.print {
            printer::find()?;
        }
        let found = quaff::dry_run(&plan)?;
        match args.json {
            true => show::json(Stream::Stdout, &found)?,
            false => report::explain(&plan, &found),
        }
        return Ok(Exit::Done);
    }
    let Some(ledger) = capture(&args, &plan)? else { return Ok(Exit::Failed) };
    report::ledger(&ledger, args.json, args.quiet > 0, plan.takes_stdout() || args.print)?;
    Ok(report::exit(&ledger))
}

/// Captures until the end. Returns `None` if a signal arrived before the start.
pub(crate) fn capture(args: &Args, plan: &CapturePlan) -> anyhow::Result<Option<Ledger>> {
    receiving::check_stdout(plan.takes_stdout())?;
    let signals = receiving::signals(&[Signal::SIGUSR1])?;
    let stop = Stop::default();
    let finding = (args.quiet == 0).then(|| worst_finding(plan));
    let planned = plan.clone();
    let user = plan.sandbox.as_ref().and_then(|sandbox| sandbox.user.as_deref());
    let printer = args.pipe(plan).map(|pipe| Printer::start(pipe, user, &stop)).transpose()?;
    let start = |stop| Capture::start(planned, stop);
    let started = receiving::start(&signals, &stop, start)?;
    let Some(capture) = started else { return Ok(None) };
    greet(args, plan, &capture, finding.and_then(|finding| finding.recv_timeout(LOOK_AT_MOST).ok()));
    watch(args, plan, (&capture, printer.as_ref()), &signals, &stop)?;
    let mut ledger = capture.finish();
    if let Some(printer) = printer {
        printer.finish(&signals, &stop)?;
        printer.news().iter().for_each(|failure| show::incident(failure));
        if let Some(failure) = printer.failure() {
            ledger.note_reader(failure, plan.live_copy.is_some());
        }
    }
    Ok(Some(ledger))
}

/// Checks the interfaces while the capture starts; returns the most severe finding.
fn worst_finding(plan: &CapturePlan) -> Receiver<Finding> {
    let (sender, finding) = channel();
    let interfaces = plan.input.interfaces.clone();
    std::thread::spawn(move || {
        let found =
            interfaces.iter().filter_map(|it| doctor::glance(&it.name, it.cpus.first().copied().flatten()));
        if let Some(worst) = found.max_by_key(|finding| finding.severity) {
            // Fails if the capture did not wait for it.
            let _ = sender.send(worst);
        }
    });
    finding
}

fn greet(args: &Args, plan: &CapturePlan, capture: &Capture, finding: Option<Finding>) {
    if args.quiet == 0 {
        if let Some(Finding { what, fix, interface, .. }) = finding {
            let command = fix.split("   #").next().unwrap_or(&fix);
            let on = interface.map(|name| format!(" -i {}", quote(&name))).unwrap_or_default();
            message(&format!("{what}; {command} ('quaff doctor{on}' has the reason)"));
        }
        capture.notes.iter().for_each(|note| message(note));
        let (from, to) = (report::sources(plan), report::target(plan));
        say(&format!("{} → {} ({})", name(&from), name(&to), capture.writing));
    }
    if plan.input.read.is_none() && args.quiet < 2 {
        // Scripts wait for this word: from now on every packet is captured.
        say("capturing");
    }
}

/// Waits for the end: a signal, the time, or the capture itself.
fn watch(
    args: &Args,
    plan: &CapturePlan,
    (capture, printer): (&Capture, Option<&Printer>),
    signals: &Signals,
    stop: &Stop,
) -> anyhow::Result<()> {
    let started = Instant::now();
    // On one terminal, packets would be printed into the progress line.
    let is_mixed = args.print && std::io::stdout().is_terminal();
    let is_live = std::io::stderr().is_terminal() && args.quiet == 0 && !is_mixed;
    let mut asked = Asked::new(stop);
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let mut live = report::Live::new(capture.status.clone(), plan, is_live);
    let mut incidents = Incidents::new(plan);
    let mut shown = started;
    while !capture.is_over() {
        let look = if stop.raised() { LOOK_END } else { next_look(args, started, shown, is_live) };
        if args.stats.is_some_and(|each| shown.elapsed() >= each) {
            shown = Instant::now();
            if args.stats_name { live.name_process() } else { live.print() }
        }
        match signals.next_or(&ending, look)?.map(|heard| heard.signal) {
            Some(Signal::SIGUSR1) => live.print(),
            Some(signal) if asked.is_second(signal, stop) => {
                live.end();
                message("ended immediately; packets that were not on disk yet are lost");
                show::close();
                std::process::exit(2);
            }
            _ => {}
        }
        if !stop.raised() && args.duration().is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        for incident in incidents.look(&capture.status, Instant::now()) {
            if incident.is_severe || args.quiet == 0 {
                live.end();
                show::incident(&incident.words);
            }
        }
        if let Some(failure) = printer.and_then(Printer::news) {
            live.end();
            show::incident(failure);
        }
        live.draw();
        ending.clear();
    }
    live.end();
    Ok(())
}

/// The longest wait for the next event.
fn next_look(args: &Args, started: Instant, shown: Instant, is_live: bool) -> Duration {
    let left = |time: Option<Duration>, since: Instant| time.map(|time| time.saturating_sub(since.elapsed()));
    let look = if is_live { LOOK } else { LOOK_IDLE };
    [left(args.duration(), started), left(args.stats, shown)].into_iter().flatten().fold(look, Duration::min)
}
