//! `quaff split`: distributes one feed over several outputs, by conversation. It never assigns frames itself.

mod args;
mod report;

pub(crate) use args::Args;

use crate::cmd::receiving::{self, Asked, LOOK_END, ReadProgress};
use crate::exit::Exit;
use crate::show::{self, LiveLine, message, say};
use quaff::split::{Split, SplitPlan};
use quaff_os::{Reason, Signal, Signals, Stop, Wakeup};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval of checks for members that are down or back.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of the progress line on a terminal.
const DRAW: Duration = Duration::from_millis(500);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let plan = args.split_plan()?.validate()?;
    receiving::check_stdout(plan.takes_stdout())?;
    let (signals, stop) = (receiving::signals(&[Signal::SIGUSR1])?, Stop::default());
    let planned = plan.clone();
    let start = |stop| Split::start(planned, stop);
    let started = receiving::start(&signals, &stop, start)?;
    let Some(split) = started else { return Ok(Exit::Failed) };
    greet(&args, &plan, &split);
    watch(&args, &plan, &split, &signals, &stop)?;
    let report = split.finish();
    report::print(&report, &plan, args.json, args.quiet > 0)?;
    Ok(report::exit(&report))
}

fn greet(args: &Args, plan: &SplitPlan, split: &Split) {
    if args.quiet == 0 {
        split.notes.iter().for_each(|note| message(note));
    }
    if plan.input.read.is_none() && args.quiet < 2 {
        // Scripts wait for this word: from now on every packet is assigned.
        say("capturing");
    }
}

/// Waits for the end: a signal, the duration, or the split itself. Reports members that go down or return.
fn watch(args: &Args, plan: &SplitPlan, split: &Split, signals: &Signals, stop: &Stop) -> anyhow::Result<()> {
    let started = Instant::now();
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let mut asked = Asked::new(stop);
    let read = ReadProgress::new(&plan.input);
    let mut here: Vec<_> = split.members().map(|_| true).collect();
    let live = LiveLine { is_live: std::io::stderr().is_terminal() && args.quiet == 0 };
    let mut drawn = started;
    while !split.is_over() {
        let left =
            args.duration.map_or(LOOK, |duration| duration.saturating_sub(started.elapsed()).min(LOOK));
        let look = if stop.raised() { LOOK_END } else { left };
        match signals.next_or(&ending, look)?.map(|heard| heard.signal) {
            Some(Signal::SIGUSR1) => live.print(&show::joined(&report::progress(split, &read))),
            Some(signal) if asked.is_second(signal, stop) => {
                live.draw("");
                message("ended immediately; packets that were not sent yet are lost");
                show::close();
                std::process::exit(2);
            }
            _ => {}
        }
        if !stop.raised() && args.duration.is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        if !stop.raised() && args.quiet == 0 {
            report_members(split, &mut here, live);
        }
        if live.is_live && drawn.elapsed() >= DRAW {
            drawn = Instant::now();
            live.draw_parts(&report::progress(split, &read));
        }
        ending.clear();
    }
    live.draw("");
    Ok(())
}

fn report_members(split: &Split, here: &mut [bool], live: LiveLine) {
    for ((name, is_here, _), was_here) in split.members().zip(here) {
        if is_here != *was_here {
            *was_here = is_here;
            live.draw("");
            message(&match is_here {
                true => format!("{name} is back and takes its flows again"),
                false => format!("{name} is down; the other members take its flows"),
            });
        }
    }
}
