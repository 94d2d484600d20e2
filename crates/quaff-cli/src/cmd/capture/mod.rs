//! `quaff capture`: captures packets of interfaces or files to files. It never edits or writes packets itself.

mod args;
mod auto_stop;
mod edit;
mod habits;
mod incidents;
mod interface_names;
mod native;
mod printer;
mod report;
mod stop;

pub(crate) use args::Args;
pub(crate) use habits::instead_of;
pub(crate) use report::{decap_words, ledger_text, places, terms};

use incidents::Incidents;
use interface_names::InterfaceIndexes;
use printer::Printer;

use crate::cmd::interfaces;
use crate::exit::Exit;
use crate::shell::{self, Incident, Part, Product, Settings, Shell};
use crate::show::{self, Stream, message, name, say};
use quaff::Capture;
use quaff::doctor::{self, Finding};
use quaff::plan::CapturePlan;
use quaff::tally::Ledger;
use quaff_wire::printable::interface_flag;
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait of a completed start for the check of its interfaces.
const LOOK_AT_MOST: Duration = Duration::from_millis(20);

pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    if args.list_interfaces {
        return interfaces::list(false);
    }
    let args = args.native()?;
    let prints = args.is_printing();
    let plan = args.plan()?.validate()?;
    if args.dump_filter {
        report::dump(&quaff::compiled_filters(&plan.input)?);
        return Ok(Exit::Done);
    }
    if *args.dry_run {
        match printer::find() {
            Err(missing) if args.print => return Err(missing),
            Err(missing) if prints => message(&format!("{missing:#}")),
            _ => {}
        }
        let found = quaff::dry_run(&plan)?;
        match args.report.json {
            true => show::json(Stream::Stdout, &found)?,
            false => report::explain(&plan, &found),
        }
        return Ok(Exit::Done);
    }
    let ledger = capture(&args, &plan)?;
    report::ledger(&ledger, args.report.json, args.watch.quiet.is_set(), plan.takes_stdout() || prints)?;
    let has_words = !args.watch.quiet.is_set() && !(args.report.json && (plan.takes_stdout() || prints));
    Ok(shell::ended(&ledger, has_words))
}

/// Captures until the end.
pub(crate) fn capture(args: &Args, plan: &CapturePlan) -> anyhow::Result<Ledger> {
    show::check_stdout(plan.takes_stdout())?;
    let mut settings = Settings::new(&args.watch, args.duration());
    // On one terminal, packets would be printed into the progress line.
    settings.has_line &= !(args.is_printing() && std::io::stdout().is_terminal());
    let mut shell = Shell::new(settings)?;
    let finding = (!args.watch.quiet.is_set()).then(|| worst_finding(plan));
    let planned = plan.clone();
    let user = plan.sandbox.as_ref().and_then(|sandbox| sandbox.user.as_deref());
    let indexes = args.prints_interfaces(plan).then(InterfaceIndexes::now).transpose()?;
    let printer = args
        .pipe(plan)
        .map(|pipe| Printer::start(pipe, &args.habits.of_printing(), indexes, user, shell.stop()))
        .transpose()?;
    let capture = shell.start(|stop| Capture::start(planned, stop))?;
    let finding = finding.and_then(|finding| finding.recv_timeout(LOOK_AT_MOST).ok());
    greet(&shell, args, plan, (&capture, finding));
    let live = report::Live::new(capture.status.clone(), plan);
    let (incidents, names_process) = (Incidents::new(plan), args.stats_name);
    let mut running = Running { capture, printer, live, incidents, names_process };
    shell.watch(&mut running)?;
    let Running { capture, printer, .. } = running;
    let mut ledger = capture.finish();
    if let Some(printer) = printer {
        printer.finish(shell.signals(), shell.stop())?;
        printer.news().iter().for_each(|failure| show::incident(failure));
        if let Some(failure) = printer.failure() {
            ledger.note_reader(failure, plan.live_copy.is_some());
        }
    }
    Ok(ledger)
}

/// Checks the interfaces while the capture starts; returns the most severe finding.
fn worst_finding(plan: &CapturePlan) -> Receiver<Finding> {
    let (sender, finding) = channel();
    let interfaces = plan.input.interfaces.clone();
    let look = move || {
        let found =
            interfaces.iter().filter_map(|it| doctor::glance(&it.name, it.cpus.first().copied().flatten()));
        if let Some(worst) = found.max_by_key(|finding| finding.severity) {
            // Fails if the capture did not wait for it.
            let _ = sender.send(worst);
        }
    };
    // The finding is a courtesy: without its thread there is none.
    let _ = quaff_os::spawn("quaff-glance", look);
    finding
}

fn greet(shell: &Shell, args: &Args, plan: &CapturePlan, (capture, finding): (&Capture, Option<Finding>)) {
    if let Some(Finding { what, fix, interface, .. }) = finding {
        let command = fix.split("   #").next().unwrap_or(&fix);
        let on = interface.map(|name| format!(" {}", interface_flag(&name))).unwrap_or_default();
        message(&format!("{what}; {command} ('quaff doctor{on}' has the reason)"));
    }
    shell.notes(&capture.notes);
    if !args.watch.quiet.is_set() {
        let (from, to) = (report::sources(plan), report::target(plan));
        say(&format!("{} → {} ({})", name(&from), name(&to), capture.writing));
    }
    shell.begun(plan.input.read.is_none());
}

/// A capture, as the shell watches it.
struct Running {
    capture: Capture,
    printer: Option<Printer>,
    live: report::Live,
    incidents: Incidents,
    /// Progress is shown as the name of the process.
    names_process: bool,
}

impl Product for Running {
    const LOSS: &'static str = "packets that were not on disk yet are lost";
    type Report = Ledger;

    fn is_over(&self) -> bool {
        self.capture.is_over()
    }

    fn finish(self) -> Ledger {
        self.capture.finish()
    }

    fn progress(&mut self) -> Vec<Part> {
        self.live.parts()
    }

    fn stats(&mut self) -> Option<Vec<Part>> {
        if self.names_process {
            self.live.name_process();
            return None;
        }
        Some(self.progress())
    }

    fn look(&mut self, _: bool) -> Vec<Incident> {
        let mut found = self.incidents.look(&self.capture.status, Instant::now());
        found.extend(self.printer.as_ref().and_then(Printer::news).map(Incident::severe));
        found
    }
}
