//! Starts senders together, watches them, and reads their reports.

use super::core_use::Meter;
use super::{Sent, Stage, Watch, pause};
use crate::traffic::Traffic;
use crate::{ChildProcess, Error, Result};
use quaff_os::Signal;
use quaff_os::process::pin;
use serde::Deserialize;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a sender to set up, and to report.
const PATIENCE: Duration = Duration::from_secs(60);
/// The slowest unpaced sender, frames/s.
const PPS_MIN: u64 = 10_000;

/// The sum of the senders' reports.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) intended: u64,
    pub(super) sent: u64,
    pub(super) confirmed: u64,
    pub(super) seconds: f64,
    meter: Option<Meter>,
}

/// The report of one sender (`quaff generate --json`, `quaff replay --json`).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct Report {
    intended: u64,
    sent: u64,
    confirmed: u64,
    seconds: f64,
}

/// Runs `commands` at the same time, on `core`, until all have ended.
pub(super) fn send(
    commands: Vec<Command>,
    core: Option<usize>,
    traffic: &Traffic,
    watch: Watch<'_>,
    look: &mut dyn FnMut(),
) -> Result<Said> {
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
    let mut said = Said::default();
    for one in running {
        let Report { intended, sent, confirmed, seconds } = report(one)?;
        said.intended += intended;
        said.sent += sent;
        said.confirmed += confirmed;
        said.seconds = said.seconds.max(seconds);
    }
    said.meter = Some(meter);
    Ok(said)
}

impl From<Said> for Sent {
    fn from(said: Said) -> Self {
        let span = Duration::try_from_secs_f64(said.seconds).unwrap_or_default();
        let (cores, samples) = said.meter.map(|meter| meter.finish(span)).unwrap_or_default();
        Self {
            intended: said.intended,
            sent: said.sent,
            offered: said.confirmed,
            seconds: said.seconds,
            receiver_drops: 0,
            others: 0,
            cores,
            samples,
        }
    }
}

fn start(mut command: Command, core: Option<usize>) -> Result<ChildProcess> {
    if let Some(core) = core {
        pin(&mut command, core);
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
        let said = finished.stderr.trim();
        failed(if said.is_empty() {
            format!("ended without a report, {}", finished.status)
        } else {
            said.to_owned()
        })
    })
}

fn failed(what: String) -> Error {
    Error::Tool { name: "the generator".into(), what }
}
