//! The tap in the path of a service test: `quaff tap` between the two ends, a process of its own that records while
//! the tests run. It forwards and counts; nothing here touches a frame.

use super::result::{TapDirection, Way};
use crate::method::{Place, RunDir};
use crate::{Error, Result};
use quaff_lab::{ChildProcess, Finished, MIDDLE_IFS};
use quaff_os::{Netns, Signal};
use serde::Deserialize;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

/// Time limit for starting and for stopping.
const PATIENCE: Duration = Duration::from_secs(60);
/// Only the newest files, of this size each, are kept: a test of hours must not fill the disk.
const RECORDING: [&str; 10] =
    ["--rotate-size", "256M", "--keep-size", "1G", "--ring", "64M", "--buffer", "256M", "--json", "--quiet"];
/// Exit statuses that come with a report.
const REPORTED: [i32; 2] = [0, 1];

/// A running tap. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct LineTap {
    running: ChildProcess,
    /// The recorded files; removed on drop.
    _record: RunDir,
    _place: Place,
}

/// The fields of `quaff tap --json` that are used.
#[derive(Debug, Deserialize)]
struct TapReport {
    directions: [Counts; 2],
}

/// Counters of one direction, in frames.
#[derive(Debug, Deserialize)]
struct Counts {
    received: u64,
    recorded: u64,
    lost: u64,
    forwarded: Option<u64>,
    forward_dropped: Option<u64>,
    unrecorded: Option<u64>,
}

impl LineTap {
    /// Starts the tap between the ports of `mid`. Returns once it forwards and records.
    ///
    /// # Errors
    /// No disk space for its files; [`Error::Tool`] with its output if it does not start.
    pub(super) fn start(quaff: &Path, mid: &Netns) -> Result<Self> {
        let place = Place::find(None)?;
        // A separate folder: this process holds the lock on the other one.
        let record = place.run_dir()?;
        let mut command = mid.command(quaff)?;
        command.arg("tap").args(MIDDLE_IFS).arg("--dir").arg(&record.path).args(RECORDING);
        // A separate process group, so that Ctrl-C reaches this process only.
        command.process_group(0);
        let mut running = ChildProcess::start(command)?;
        if !running.hears("capturing", PATIENCE) {
            return Err(failed("does not begin to record", &running.heard));
        }
        Ok(Self { running, _record: record, _place: place })
    }

    /// Stops the tap. Returns the counters of both directions.
    ///
    /// # Errors
    /// [`Error::Tool`] if it failed or had already exited.
    pub(super) fn finish(mut self) -> Result<Vec<TapDirection>> {
        if self.running.has_ended()? {
            self.running.hear_the_end(PATIENCE);
            return Err(failed("ended during the test", &self.running.heard));
        }
        self.running.signal(Signal::SIGINT)?;
        let Finished { status, stdout, stderr, .. } = self.running.finish(PATIENCE)?;
        let report = serde_json::from_slice::<TapReport>(&stdout);
        match (status.code(), report) {
            (Some(code), Ok(report)) if REPORTED.contains(&code) => Ok(account(report)),
            _ => Err(failed(&format!("ended without an account, {status}"), &stderr)),
        }
    }
}

/// Maps the tap's ports to directions: its first port faces the first end.
fn account(report: TapReport) -> Vec<TapDirection> {
    let ways = [Way::There, Way::Back].into_iter().zip(report.directions);
    let direction = |(way, counts): (Way, Counts)| {
        let Counts { received, recorded, lost, forwarded, forward_dropped, unrecorded } = counts;
        TapDirection { way, received, recorded, lost, forwarded, forward_dropped, unrecorded }
    };
    ways.map(direction).collect()
}

fn failed(what: &str, heard: &str) -> Error {
    let heard = heard.trim();
    let what = if heard.is_empty() { what.to_owned() } else { format!("{what}: {heard}") };
    Error::Tool { name: "quaff tap".into(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_tap_has_a_row_for_each_way() {
        let counts = r#"{"from":"a0","received":9,"recorded":8,"lost":1,"forwarded":9,"forward_dropped":0,"unrecorded":2}"#;
        let text = format!(r#"{{"written":8,"directions":[{counts},{counts}],"forward":"kernel"}}"#);
        let [there, back] = &account(serde_json::from_str(&text).expect("a report"))[..] else {
            panic!("two")
        };
        assert_eq!((there.way, back.way), (Way::There, Way::Back));
        assert_eq!((there.received, there.recorded, there.lost), (9, 8, 1));
        assert_eq!((there.forwarded, there.forward_dropped, there.unrecorded), (Some(9), Some(0), Some(2)));
    }
}
