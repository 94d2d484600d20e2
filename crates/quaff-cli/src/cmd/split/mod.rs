//! `quaff split`: one feed to several outputs, conversations kept whole.

mod args;
mod report;

pub(crate) use args::Args;

use crate::exit::Exit;
use crate::show::say;
use quaff::split::{Split, SplitPlan};
use quaff_os::{Reason, Signal, Signals, Stop, Wakeup, is_ignored};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval of checks for members that have gone.
const LOOK: Duration = Duration::from_millis(100);
/// Interval of checks for the last write of an ending run.
const LOOK_END: Duration = Duration::from_millis(2);
/// timeout(1) sends its signal to its child and then to its group: within this time two are one.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let plan = args.split_plan()?.validate()?;
    if plan.takes_stdout() && std::io::stdout().is_terminal() {
        anyhow::bail!("stdout is a terminal: name a file with -w, or use a pipe");
    }
    let mut wanted = vec![Signal::SIGINT, Signal::SIGTERM];
    if !is_ignored(Signal::SIGHUP) {
        wanted.push(Signal::SIGHUP);
    }
    let (signals, stop) = (Signals::block(&wanted)?, Stop::default());
    let Some(split) = start(&plan, &signals, &stop)? else { return Ok(Exit::Failed) };
    greet(&args, &plan, &split);
    watch(&args, &split, &signals, &stop)?;
    let report = split.finish();
    report::print(&report, &plan, args.json, args.quiet > 0);
    Ok(report::exit(&report))
}

/// Starts on a thread of its own: waiting for a pipe can take long, and a signal must be heard.
fn start(plan: &SplitPlan, signals: &Signals, stop: &Stop) -> anyhow::Result<Option<Split>> {
    let (plan, its_stop) = (plan.clone(), stop.clone());
    let starting = std::thread::spawn(move || Split::start(plan, its_stop));
    while !starting.is_finished() {
        match signals.next(Duration::from_millis(5))? {
            None => {}
            Some(_) if stop.raised() => std::process::exit(2),
            Some(_) => stop.raise(Reason::Signal),
        }
    }
    let started = starting.join().map_err(|_| anyhow::anyhow!("a defect of quaff: the start panicked"))?;
    if stop.reason() == Some(Reason::Signal) {
        drop(started.map(Split::finish));
        say("quaff: ended before the first packet");
        return Ok(None);
    }
    Ok(Some(started?))
}

fn greet(args: &Args, plan: &SplitPlan, split: &Split) {
    let mut err = std::io::stderr().lock();
    if args.quiet == 0 {
        split.notes.iter().for_each(|note| drop(writeln!(err, "quaff: {}", crate::flags::named(note))));
    }
    if plan.capture.read.is_none() && args.quiet < 2 {
        // Scripts wait for this word: from now on each packet is sorted.
        let _ = writeln!(err, "capturing");
    }
    let _ = err.flush();
}

/// Waits for the end: a signal, the time, or the split itself. Says who goes away and who comes back.
fn watch(args: &Args, split: &Split, signals: &Signals, stop: &Stop) -> anyhow::Result<()> {
    let started = Instant::now();
    let ending = Wakeup::new()?;
    stop.wake(ending.clone());
    let mut asked: Option<Instant> = None;
    let mut here: Vec<_> = split.members().map(|_| true).collect();
    while !split.is_over() {
        let left =
            args.duration.map_or(LOOK, |duration| duration.saturating_sub(started.elapsed()).min(LOOK));
        let look = if stop.raised() { LOOK_END } else { left };
        match signals.next_or(&ending, look)?.map(|heard| heard.signal) {
            Some(_) if asked.is_some_and(|asked| asked.elapsed() > SAME_SIGNAL) => {
                say("quaff: ended immediately; packets that were not sent yet are lost");
                std::process::exit(2);
            }
            Some(_) => {
                asked.get_or_insert_with(Instant::now);
                stop.raise(Reason::Signal);
            }
            None => {}
        }
        if !stop.raised() && args.duration.is_some_and(|duration| started.elapsed() >= duration) {
            stop.raise(Reason::Duration);
        }
        if !stop.raised() && args.quiet == 0 {
            tell(split, &mut here);
        }
        ending.clear();
    }
    Ok(())
}

fn tell(split: &Split, here: &mut [bool]) {
    for ((name, is_here, _), was_here) in split.members().zip(here) {
        if is_here != *was_here {
            *was_here = is_here;
            say(&match is_here {
                true => format!("quaff: {name} is back and takes its flows again"),
                false => format!("quaff: {name} is down; the other members take its flows"),
            });
        }
    }
}
