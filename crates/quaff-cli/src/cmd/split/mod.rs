//! `quaff split`: distributes one feed over several outputs, by conversation. It never assigns frames itself.

mod args;
mod report;

pub(crate) use args::Args;

use crate::exit::Exit;
use crate::shell::{self, Incident, Part, Product, ReadProgress, Settings, Shell};
use crate::show;
use quaff::split::{Report, Split};
use std::time::Duration;

/// Interval of checks for members that are down or back.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let plan = args.split_plan()?.validate()?;
    show::check_stdout(plan.takes_stdout())?;
    let mut shell = Shell::new(Settings::new(&args.watch, args.end.duration))?;
    let planned = plan.clone();
    let split = shell.start(|stop| Split::start(planned, stop))?;
    shell.notes(&split.notes);
    shell.begun(plan.input.read.is_none());
    let here = split.members().map(|_| true).collect();
    let report = shell.run(Running { split, here, read: ReadProgress::new(&plan.input) })?;
    report::print(&report, &plan, args.report.json, args.watch.quiet.is_set())?;
    Ok(shell::ended(&report, !args.watch.quiet.is_set()))
}

/// A split, as the shell watches it.
struct Running {
    split: Split,
    /// The members that were there at the last look.
    here: Vec<bool>,
    read: ReadProgress,
}

impl Product for Running {
    const LOSS: &'static str = "packets that were not sent yet are lost";
    type Report = Report;

    fn is_over(&self) -> bool {
        self.split.is_over()
    }

    fn finish(self) -> Report {
        self.split.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        report::progress(&self.split, &self.read)
    }

    /// Returns members that are down or back.
    fn look(&mut self, is_ending: bool) -> Vec<Incident> {
        let mut found = Vec::new();
        for ((name, is_here, _), was_here) in self.split.members().zip(&mut self.here) {
            if !is_ending && std::mem::replace(was_here, is_here) != is_here {
                found.push(Incident::note(match is_here {
                    true => format!("{name} is back and takes its flows again"),
                    false => format!("{name} is down; the other members take its flows"),
                }));
            }
        }
        found
    }

    fn look_interval(&self) -> Duration {
        LOOK
    }
}
