//! `quaff lab probe`: what this machine permits, for people and for scripts.

use crate::exit::Exit;
use quaff_lab::probe::{Permit, probe};
use std::path::PathBuf;

/// See what this machine permits of what quaff needs
///
/// Each thing is tried by doing it: namespaces with a link between them, packets received in a
/// kernel ring, BPF programs that receive and inject frames, io_uring, direct writes, locked memory
/// and real-time priority. Of what is refused it says why, and what to do about it.
///
/// Exits with 0 whatever it finds; scripts read --json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to try direct writes
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print a JSON array of objects with "what", "purpose", "permitted" and "detail" instead
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let permits = probe(&args.dir);
    if args.json {
        println!("{}", serde_json::to_string(&permits)?);
        return Ok(Exit::Done);
    }
    let width = permits.iter().map(|permit| permit.what.len()).max().unwrap_or(0);
    for Permit { what, purpose, permitted, detail } in &permits {
        let answer = if *permitted { "yes" } else { "no" };
        println!("{what:width$}  {answer:3}  for {purpose}\n{:width$}       {detail}", "");
    }
    let refused = permits.iter().filter(|permit| !permit.permitted).count();
    if refused > 0 {
        println!(
            "\n{refused} of {} are refused; quaff does without where it can, and says so.",
            permits.len()
        );
    }
    Ok(Exit::Done)
}
