//! Starts senders together, monitors them, and reads their reports.

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

/// Time limit for a sender to start, and to report.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rate of the slowest unpaced sender, frames/s.
const PPS_MIN: u64 = 10_000;

/// The report of one sender (`quaff generate --json`, `quaff replay --json`).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Report {
    intended: u64,
    sent: u64,
    confirmed: u64,
    seconds: f64,
    /// Bytes of the frames that user space sent.
    bytes: Option<u64>,
    flows: Option<u64>,
    /// Present for a replay only.
    #[serde(default)]
    skipped: Skipped,
}

/// Frames of one pass through a capture that cannot be sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
struct Skipped {
    too_large: u64,
    too_short: u64,
}

/// Runs `commands` at the same time on `core` until all have ended. Sums their reports; all confirmed frames count as
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
            return Err(failed(format!("is still running {PATIENCE:?} after its expected end")));
        }
        look();
        meter.look();
        pause(watch, Stage::Sending)?;
    }
    let reports = running.into_iter().map(report).collect::<Result<Vec<_>>>()?;
    let mut sum = summed(&reports);
    let span = Duration::try_from_secs_f64(sum.seconds).unwrap_or_default();
    (sum.cores, sum.samples) = meter.finish(span);
    Ok(sum)
}

fn summed(reports: &[Report]) -> Sent {
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    let known = |of: fn(&Report) -> Option<u64>| reports.iter().map(of).sum::<Option<u64>>();
    Sent {
        intended: sum(|report| report.intended),
        sent: sum(|report| report.sent),
        offered: sum(|report| report.confirmed),
        skipped: sum(|report| report.skipped.too_large + report.skipped.too_short),
        bytes: known(|report| report.bytes),
        flows: known(|report| report.flows),
        seconds: reports.iter().map(|report| report.seconds).fold(0.0, f64::max),
        ..Sent::default()
    }
}

fn start(mut command: Command, core: Option<usize>) -> Result<ChildProcess> {
    if let Some(core) = core {
        command.pin(core);
    }
    // Ctrl-C must reach this process only.
    command.process_group(0);
    // stdin stays open: a remote sender ends when it is closed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_one_sender_does_not_report_has_no_sum() {
        let report = |more: &str| {
            let text = format!(r#"{{"intended":9,"sent":8,"confirmed":7,"seconds":0.5{more}}}"#);
            serde_json::from_str::<Report>(&text).expect("a report")
        };
        let plain = report("");
        let replay = report(r#","bytes":900,"flows":2,"skipped":{"too_large":3,"too_short":1}"#);
        let sum = summed(&[replay, replay]);
        assert_eq!((sum.intended, sum.sent, sum.offered, sum.skipped), (18, 16, 14, 8));
        assert_eq!((sum.bytes, sum.flows, sum.seconds), (Some(1800), Some(4), 0.5));
        let sum = summed(&[replay, plain]);
        assert_eq!((sum.bytes, sum.flows, sum.skipped), (None, None, 4));
    }
}
