//! Flags of the plan of an experiment, and of its search for the highest rate without loss.

use super::of;
use crate::units;
use clap::ArgAction;
use quaff_bench::bench::plan::Method;
use std::path::PathBuf;
use std::time::Duration;

flags! {
    /// Runs of each case [default: 5, or as the plan has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    RunsArg { runs: Option<u32> }

    /// Check what can be checked, show what would be done, and do nothing
    #[arg(long)]
    DryRunArg { dry_run: bool }

    /// Print everything: what did not change, every run, trial and limit, and the machine
    #[arg(long)]
    AllArg { all: bool }

    /// Read the test plan from FILE; --dry-run prints a template
    #[arg(long, value_name = "FILE.toml", help_heading = "Test plan")]
    PlanArg { plan: Vec<PathBuf> }
}

/// The plan to run, by its name or in a file.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Test plan",
    mut_args(of("plan", |arg| arg.action(ArgAction::Set).conflicts_with("preset"))),
    mut_args(of("dry_run", |arg| {
        arg.alias("print-plan").help("Print the plan as TOML for --plan, with its duration and disk space; run nothing")
    }))
)]
pub(crate) struct PlanArgs {
    /// Run a named test plan; 'quaff bench list' and 'quaff service list' list them
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    #[command(flatten)]
    pub(crate) plan: PlanArg,
    #[command(flatten)]
    pub(crate) runs: RunsArg,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArg,
}

/// A search for the highest rate without loss.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Searches")]
pub(crate) struct SearchArgs {
    /// Find the highest rate without loss, by MLRsearch (RFC 9971), or with =rfc2544 by RFC 2544, section 26.1
    ///
    /// Searches follow the cases of a preset or a file; alone, nothing else runs. Without --buffer, each program
    /// has the buffer that the plan gives it.
    #[arg(long, value_name = "METHOD", num_args = 0..=1, require_equals = true, default_missing_value = "mlr", value_parser = method)]
    pub(crate) find_max: Option<Method>,
    /// Duration of a full-length trial; RFC 2544 has 60s [default: 3s, of meters 5s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) trial: Option<Duration>,
    /// Loss that counts as none, in percent [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = units::percent)]
    pub(crate) goal_loss: Option<f64>,
}

fn method(word: &str) -> Result<Method, String> {
    units::named(word, [("mlr", Method::Mlr), ("rfc2544", Method::Rfc2544)])
}
