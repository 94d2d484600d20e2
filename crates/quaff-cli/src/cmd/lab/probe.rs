//! `quaff lab probe`: checks which kernel features and permissions quaff can use here.

use crate::exit::Exit;
use crate::shell::ReportArgs;
use crate::show::{self, Stream};
use quaff_lab::{Permit, probe};
use std::path::PathBuf;

/// Check which kernel features and permissions quaff can use on this machine
///
/// Each feature is tried: namespaces with a link between them, packets received in a kernel ring, BPF programs
/// that receive and inject frames, io_uring, direct writes, locked memory and real-time priority. For each one
/// that is refused, the reason and a remedy are printed.
///
/// Exit status: 0, whatever the result; scripts read --json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder in which to try direct writes
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let permits = probe(&args.dir);
    if args.report.json {
        show::json(Stream::Stdout, &permits)?;
        return Ok(Exit::Done);
    }
    let width = permits.iter().map(|permit| permit.what.len()).max().unwrap_or(0);
    for Permit { what, purpose, permitted, detail } in &permits {
        let answer = if *permitted { "yes" } else { "no" };
        show::print(&format!("{what:width$}  {answer:3}  for {purpose}\n{:width$}       {detail}", ""));
    }
    let refused = permits.iter().filter(|permit| !permit.permitted).count();
    if refused > 0 {
        show::print(&format!(
            "\n{refused} of {} are refused; quaff works without them where possible, and reports it.",
            permits.len()
        ));
    }
    Ok(Exit::Done)
}
