//! The flags of a run: its duration, its report as JSON, and what is printed meanwhile. Commands flatten them.

use crate::units;
use std::time::Duration;

/// `--duration`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct DurationArgs {
    /// Stop after TIME, such as 30s, 5m or 2h
    #[arg(short, long, value_name = "TIME", value_parser = units::duration, help_heading = "Input")]
    pub duration: Option<Duration>,
}

/// `--json`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ReportArgs {
    /// Print the report as JSON on stdout; on stderr where stdout has packets or records
    #[arg(long, help_heading = "Report")]
    pub json: bool,
}

/// The help of `--quiet` for commands that never wait for an interface.
pub(crate) const ONLY_ERRORS: &str = "Print only errors";

/// `--quiet`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct QuietArgs {
    /// Print only errors and "capturing"; twice: only errors
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Report")]
    quiet: u8,
}

impl QuietArgs {
    /// The number of times that it was given.
    pub(crate) fn count(self) -> u8 {
        self.quiet
    }

    /// It was given.
    pub(crate) fn is_set(self) -> bool {
        self.quiet > 0
    }
}

/// `--quiet` and `--stats`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
    /// Print a progress line every INTERVAL, also without a terminal
    #[arg(long, value_name = "INTERVAL", value_parser = units::interval, help_heading = "Report")]
    pub stats: Option<Duration>,
}
