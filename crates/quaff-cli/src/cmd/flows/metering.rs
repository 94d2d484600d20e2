//! A meter under the shell, until the end of the input, of the duration, or a signal.

use super::incidents::Incidents;
use super::progress::{LOOK, Look, progress};
use super::report;
use crate::shell::{Incident, Part, Product, ReadProgress, Settings, Shell};
use quaff::flows::{FlowReport, Flows, FlowsPlan};
use quaff_os::{Reason, Stop};
use std::time::{Duration, Instant};

/// Meters until the end of the input, of the duration, or a signal.
pub(super) fn meter(plan: FlowsPlan, settings: Settings, look: Look<'_>) -> anyhow::Result<FlowReport> {
    meter_while(plan, settings, look, &|| true)
}

/// The same, and only while `is_wanted`, which is asked after each look.
pub(super) fn meter_while(
    plan: FlowsPlan,
    settings: Settings,
    look: Look<'_>,
    is_wanted: &dyn Fn() -> bool,
) -> anyhow::Result<FlowReport> {
    let plan = plan.validate()?;
    let mut shell = Shell::new(settings)?;
    let (is_live, read) = (plan.input.read.is_none(), ReadProgress::new(&plan.input));
    let flows = shell.start(|stop| Flows::start(plan, stop))?;
    shell.notes(&flows.notes);
    shell.begun(is_live);
    let (stop, line, incidents) = (shell.stop().clone(), report::Line::new(read), Incidents::default());
    shell.run(Running { flows, line, incidents, shown: look, is_wanted, stop })
}

/// A meter, as the shell watches it.
struct Running<'a> {
    flows: Flows,
    line: report::Line,
    incidents: Incidents,
    shown: Look<'a>,
    is_wanted: &'a dyn Fn() -> bool,
    stop: Stop,
}

impl Product for Running<'_> {
    const LOSS: &'static str = "flows in the table are not exported";
    type Report = FlowReport;

    fn is_over(&self) -> bool {
        self.flows.is_over()
    }

    fn finish(self) -> FlowReport {
        let mut last = progress(&self.flows);
        let report = self.flows.finish();
        last.end(&report);
        (self.shown)(&last);
        report
    }

    fn progress(&mut self) -> Vec<Part> {
        let now = progress(&self.flows);
        self.line.parts(&self.flows, &now)
    }

    fn look(&mut self, is_ending: bool) -> Vec<Incident> {
        (self.shown)(&progress(&self.flows));
        if !(self.is_wanted)() {
            self.stop.raise(Reason::OutputClosed);
        }
        self.incidents.look(&self.flows.sinks(), is_ending, Instant::now())
    }

    fn look_interval(&self) -> Duration {
        LOOK
    }
}
