//! `quaff flows report`: the traffic of files by host, port, application and others, and over time. Records are those
//! of the meter, of segments or of IPFIX files; a summary makes their sums, and the report of benches the page.

mod args;
mod output;

pub(super) use args::Args;

use super::report;
use super::stored::{self, Inputs, Origin};
use crate::confined;
use crate::exit::Exit;
use crate::shell::Settings;
use crate::show::{self, LiveLine};
use crate::written_file::WrittenFile;
use anyhow::bail;
use args::{CELLS_MAX, INTERVALS_MAX};
use output::Shown;
use quaff::flows::FlowReport;
use quaff_flow::summary::Summary;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let inputs = args.records.inputs()?;
    let page = args.html.as_deref().map(WrittenFile::open).transpose()?;
    match inputs {
        Inputs::Captures(files) => of_captures(args, &files, page),
        Inputs::Parquet(files) => of_stored(args, &files, Origin::Segments, page),
        Inputs::Ipfix(files) => of_stored(args, &files, Origin::Ipfix, page),
    }
}

fn of_captures(args: &Args, files: &[PathBuf], page: Option<WrittenFile>) -> anyhow::Result<Exit> {
    let summary = Arc::new(Mutex::new(Summary::new(args.summary()?)));
    let plan = args.plan(args.records.found(files), &summary);
    let quiet = args.quiet.count();
    let settings = Settings { quiet, has_line: args.has_line(), ..Settings::default() };
    let report = super::metering::meter(plan, settings, &mut |_| {})?;
    let summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
    check(&summary, &report)?;
    present(&Shown { files, origin: Origin::Captures, summary: &summary, report: &report, args }, page)
}

/// Reports records that another run has stored.
fn of_stored(
    args: &Args,
    files: &[PathBuf],
    origin: Origin,
    page: Option<WrittenFile>,
) -> anyhow::Result<Exit> {
    args.records.refuse_choices_of_packets()?;
    let mut summary = Summary::new(args.summary()?);
    if !*args.no_sandbox {
        let written: Vec<_> = args.html.iter().map(PathBuf::as_path).collect();
        confined::to_files(files.to_owned(), &written)?;
    }
    let line = LiveLine { is_live: args.has_line() };
    let needs_applications = args.needs_applications();
    let (files, report) = stored::read(origin, files, &mut summary, line, needs_applications)?;
    present(&Shown { files: &files, origin, summary: &summary, report: &report, args }, page)
}

/// Prints and writes what was asked for.
fn present(shown: &Shown<'_>, page: Option<WrittenFile>) -> anyhow::Result<Exit> {
    let args = shown.args;
    if args.report.json {
        shown.json()?;
    }
    if let Some(page) = page {
        page.write(&shown.page())?;
    }
    if !args.report.json && args.html.is_none() {
        show::print(shown.text().trim_end());
    }
    notes(args, shown.summary, shown.report);
    Ok(Exit::of(shown.report))
}

/// Every packet of a record is in the sums.
fn check(summary: &Summary, report: &FlowReport) -> anyhow::Result<()> {
    let (mut sum, _) = summary.total();
    sum += summary.left_out();
    let (found, expected) = (
        [sum.records, sum.packets, sum.bytes],
        [report.flows_exported, report.packets_in_flows, report.bytes_in_flows],
    );
    // A run that was ended or has failed may have dropped records, and reports it.
    if found != expected && report.lossless && report.failure.is_none() {
        bail!(
            "a defect of quaff: records, packets and bytes are {found:?} in the sums and {expected:?} in the ledger"
        );
    }
    Ok(())
}

/// The sums of the run and remarks, on stderr.
fn notes(args: &Args, summary: &Summary, report: &FlowReport) {
    if let (Some(over), true) = (args.over, summary.cell_ns() > 0)
        && over.as_nanos() != u128::from(summary.cell_ns())
    {
        let most = [INTERVALS_MAX[0], CELLS_MAX as u64].map(show::count);
        let length = quaff::format::span(summary.cell_ns() as f64 / 1e9);
        show::message(&format!(
            "values are of {length} each: a report has at most {} intervals, and {} values of groups",
            most[0], most[1]
        ));
    }
    report::sum_up(report, report.flows_exported, args.quiet.is_set());
}
