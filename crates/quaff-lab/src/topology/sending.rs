//! Starts senders together, watches them, and reads their reports.

use super::core_use::Meter;
use super::{Sent, Stage, Watch, pause};
use crate::traffic::Traffic;
use crate::{ChildProcess, Error, Result};
use quaff_os::Signal;
use quaff_os::process::Prepare;
use serde::Deserialize;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a sender to set up, and to report.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest unpaced sender, frames/s.
const PPS_MIN: u64 = 10_000;

/// The report of one sender (`quaff generate --json`, `quaff replay --json`).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Report {
    intended: u64,
    sent: u64,
    confirmed: u64,
    seconds: f64,
}

/// Runs `commands` at the same time, on `core`, until all have ended. Sums their reports; all confirmed frames count as
/// offered.
pub(super) fn send(
    commands: Vec<Command>,
    core: Option<usize>,
    traffic: &Traffic,
    watch: Watch<'_>,
    look: &mut dyn FnMut(),
) -> Result<Sent> {
    let mut meter = Meter::start();
    let mut running = commands.into_iter().map(|command| start(command, core)).collect::<Result<Vec<_>>>()?;
    let end = Instant::now() + PATIENCE + expected(traffic);
    while !all_ended(&mut running)? {
        if Instant::now() > end {
            let _ = running.iter().try_for_each(|one| one.signal(Signal::SIGINT));
            return Err(failed(format!("still runs {PATIENCE:?} after its expected end")));
        }
        look();
        meter.look();
        pause(watch, Stage::Sending)?;
    }
    let mut sum = Sent::default();
    for one in running {
        let Report { intended, sent, confirmed, seconds } = report(one)?;
        sum.intended += intended;
        sum.sent += sent;
        sum.offered += confirmed;
        sum.seconds = sum.seconds.max(seconds);
    }
    let span = Duration::try_from_secs_f64(sum.seconds).unwrap_or_default();
    (sum.cores, sum.samples) = meter.finish(span);
    Ok(sum)
}

fn start(mut command: Command, core: Option<usize>) -> Result<ChildProcess> {
    if let Some(core) = core {
        command.pin(core);
    }
    // Ctrl-C must reach this process only.
    command.process_group(0);
    // A remote sender ends when its stdin is closed, so stdin stays open.
    ChildProcess::start_with(command, Stdio::piped(), None)
}

fn all_ended(running: &mut [ChildProcess]) -> Result<bool> {
    let mut ended = true;
    for one in running {
        ended &= one.has_ended()?;
    }
    Ok(ended)
}

fn expected(traffic: &Traffic) -> Duration {
    Duration::from_secs(traffic.count / traffic.pps.unwrap_or(PPS_MIN).max(1))
}

fn report(running: ChildProcess) -> Result<Report> {
    let finished = running.finish(PATIENCE)?;
    serde_json::from_slice(&finished.stdout).map_err(|_| {
        let stderr = finished.stderr.trim();
        failed(if stderr.is_empty() {
            format!("ended without a report, {}", finished.status)
        } else {
            stderr.to_owned()
        })
    })
}

fn failed(what: String) -> Error {
    Error::Tool { name: "the generator".into(), what }
}
