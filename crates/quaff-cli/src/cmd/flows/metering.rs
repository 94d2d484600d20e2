//! A meter under the shell, until the end of the input, of the duration, or a signal.

use super::incidents::Incidents;
use super::progress::{LOOK, Look, progress};
use super::report;
use crate::shell::{Incident, Part, Product, ReadProgress, Settings, Shell};
use quaff::flows::{FlowReport, Flows, FlowsPlan};
use std::time::{Duration, Instant};

/// Meters until the end of the input, of the duration, or a signal.
pub(super) fn meter(plan: FlowsPlan, settings: Settings, look: Look<'_>) -> anyhow::Result<FlowReport> {
    let plan = plan.validate()?;
    let mut shell = Shell::new(settings)?;
    let (is_live, read) = (plan.input.read.is_none(), ReadProgress::new(&plan.input));
    let flows = shell.start(|stop| Flows::start(plan, stop))?;
    shell.notes(&flows.notes);
    shell.begun(is_live);
    shell.run(Running { flows, line: report::Line::new(read), incidents: Incidents::default(), shown: look })
}

/// A meter, as the shell watches it.
struct Running<'a> {
    flows: Flows,
    line: report::Line,
    incidents: Incidents,
    shown: Look<'a>,
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
        self.incidents.look(&self.flows.sinks(), is_ending, Instant::now())
    }

    fn look_interval(&self) -> Duration {
        LOOK
    }
}
