//! `quaff nprobe`: nProbe's lines around a native command.

use crate::cmd::flows::{self, Progress};
use crate::exit::Exit;
use crate::line::{self, Commands};
use crate::show::print;
use quaff_compat::nprobe::{self, Asked, Counters, Fields};
use quaff_flow::export::{Template, TemplateError};
use std::ffi::OsString;

/// Accept the command line of nProbe, as far as a probe has it, with its periodic lines
///
/// nProbe's command lines work with 'quaff ' in front; --dry-run prints the equivalent native command. Flows go to
/// the collectors of -n, or to 127.0.0.1:2055, as NetFlow v9 unless -V says otherwise. ^C ends it: the flows of the
/// table are exported, and the report of 'quaff flows' follows.
#[derive(Debug, clap::Args)]
#[command(after_help = nprobe::OPTIONS, override_usage = "quaff nprobe [OPTIONS]")]
pub(crate) struct Args {
    /// Options of nProbe, or a file of them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", hide = true)]
    options: Vec<OsString>,
}

impl Args {
    /// Meters interfaces, as far as the words say: mistakes in them are reported later.
    pub(crate) fn is_live(&self) -> bool {
        nprobe::is_live(&self.options)
    }
}

pub(crate) fn run(args: &Args, commands: Commands) -> anyhow::Result<Exit> {
    let probe = match nprobe::read(&args.options, &fields)? {
        Asked::Help => return super::print_help("nprobe", commands),
        Asked::Version => {
            print(concat!("quaff ", env!("CARGO_PKG_VERSION"), ", in the place of nProbe"));
            return Ok(Exit::Done);
        }
        Asked::Probe(probe) => probe,
    };
    probe.discarded.iter().for_each(|line| print(line));
    let Some(line) = super::line(&probe.native, probe.is_dry_run, false) else {
        return Ok(Exit::Done);
    };
    probe.greeting.iter().for_each(|line| print(line));
    let mut periodic = probe.periodic;
    let mut look = |progress: &Progress| {
        let lines = periodic.as_mut().map(|lines| lines.look(&counters(progress), progress.is_last));
        lines.into_iter().flatten().for_each(|line| print(&line));
    };
    if line.first().is_none_or(|command| command != "flows") {
        return (commands.run)(line);
    }
    // Its own lines show the progress.
    flows::run_with(&line::parse(line)?, false, &mut look)
}

/// The fields of a template that the exporter knows.
fn fields(template: &str) -> Fields {
    let (has_any, unknown) = match Template::parse_known(template) {
        Ok((_, unknown)) => (true, unknown),
        Err(TemplateError::Unknown(unknown)) => (false, unknown),
        Err(_) => (false, Vec::new()),
    };
    Fields { has_any, unknown: unknown.into_iter().map(|unknown| unknown.name).collect() }
}

fn counters(progress: &Progress) -> Counters {
    let totals =
        |of: &flows::Totals| nprobe::Totals { flows: of.flows, packets: of.packets, bytes: of.bytes };
    Counters {
        packets: progress.packets,
        bytes: progress.bytes,
        exported: totals(&progress.exported),
        sent: totals(&progress.sent),
        missed: totals(&progress.missed),
        active: progress.active,
        allocated: progress.allocated,
        fragments: progress.fragments,
        evicted: progress.evicted,
        queued: progress.queued,
        queue_max: progress.queue_max,
        probes_max: progress.probes_max,
        received: progress.received,
        dropped: progress.dropped,
    }
}
