//! The recorder of a tap: `quaff capture` as a process of its own, and what it says at its end. It never writes packets
//! itself.

use anyhow::Context;
use quaff::tap::Recorded;
use quaff_os::Signal;
use quaff_os::process::{self, Prepare};
use serde_json::Value;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Ends of a capture that the user has asked for, by their names in the ledger.
const ASKED: [&str; 5] = ["signal", "duration", "size", "files", "count"];

/// A running recorder. It ends as by ^C if this process dies.
#[derive(Debug)]
pub(super) struct Recorder {
    child: Child,
    /// Reads its stdout, which has the ledger alone.
    ledger: Option<JoinHandle<Vec<u8>>>,
}

/// The end of a recorder.
#[derive(Debug)]
pub(super) struct Outcome {
    /// `None` if a signal killed it.
    pub(super) code: Option<i32>,
    /// In words, if a signal killed it.
    pub(super) death: Option<String>,
    /// `None` if it never began, or was killed.
    pub(super) ledger: Option<Value>,
}

impl Recorder {
    /// Starts `quaff` with `line`.
    pub(super) fn start(line: &[OsString]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("find the program of quaff")?;
        let mut command = Command::new(program);
        command.args(line).stdin(Stdio::null());
        command.reset_signals().signal_on_parent_death(Signal::SIGINT);
        let (mut stdout, end) = std::io::pipe().context("open a pipe for the recorder")?;
        command.stdout(end);
        let read = move || {
            let mut bytes = Vec::new();
            // What was read until an error is no whole ledger, which is reported.
            let _ = stdout.read_to_end(&mut bytes);
            bytes
        };
        // Before the recorder: an error here ends no child.
        let ledger = quaff_os::spawn("quaff-ledger", read)?;
        let child = command.spawn().context("start the recorder")?;
        Ok(Self { child, ledger: Some(ledger) })
    }

    /// Passes a signal on. One that it cannot get, because it has ended, is not needed.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = process::send(self.child.id(), signal);
    }

    /// Its end, once.
    pub(super) fn outcome(&mut self) -> anyhow::Result<Option<Outcome>> {
        let Some(status) = self.child.try_wait().context("wait for the recorder")? else { return Ok(None) };
        let text = self.ledger.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let ledger = serde_json::from_slice(&text).ok();
        let death = status.signal().map(|signal| format!("was killed by signal {signal}"));
        Ok(Some(Outcome { code: status.code(), death, ledger }))
    }
}

impl Outcome {
    /// It has recorded. One that was killed may have.
    pub(super) fn has_begun(&self) -> bool {
        self.ledger.is_some() || self.death.is_some()
    }

    /// It ended because the user wanted it.
    pub(super) fn was_asked_to_end(&self) -> bool {
        let reason = self.ledger.as_ref().and_then(|ledger| ledger["ended_by"].as_str());
        reason.is_some_and(|reason| ASKED.contains(&reason))
    }

    /// The counts of both ports. Packets that could not be written are counted for the files, not for a port: each
    /// gets its share by the number of its packets.
    pub(super) fn recorded(&self, ports: [&str; 2]) -> [Recorded; 2] {
        let Some(ledger) = &self.ledger else { return [Recorded::default(); 2] };
        let all = ledger["interfaces"].as_array().map_or(&[][..], Vec::as_slice);
        let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
        let of = |port: &str| {
            let Some(lane) = all.iter().find(|lane| lane["interface"] == port) else { return [0; 3] };
            let dropped = count(lane, "kernel_dropped");
            [
                count(lane, "received") + dropped,
                count(lane, "packed"),
                dropped + count(lane, "lost_in_buffer"),
            ]
        };
        let [a, b] = ports.map(of);
        let on_disk = count(ledger, "lost_on_disk");
        let share = (u128::from(on_disk) * u128::from(a[1]) / u128::from((a[1] + b[1]).max(1))) as u64;
        let recorded = |[received, packed, lost]: [u64; 3], on_disk: u64| Recorded {
            received,
            recorded: packed.saturating_sub(on_disk),
            lost: lost + on_disk.min(packed),
        };
        [recorded(a, share), recorded(b, on_disk - share)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_port_has_its_counts() {
        let lane = |name: &str, received: u64, dropped: u64, lost: u64| {
            json!({ "interface": name, "received": received, "kernel_dropped": dropped, "lost_in_buffer": lost,
                    "packed": received - lost })
        };
        let ledger = |on_disk: u64| {
            json!({ "interfaces": [lane("b", 300, 0, 0), lane("a", 110, 5, 10)], "lost_on_disk": on_disk,
                    "ended_by": "signal" })
        };
        let outcome = |on_disk| Outcome { code: Some(0), death: None, ledger: Some(ledger(on_disk)) };
        let counts = |on_disk| {
            outcome(on_disk).recorded(["a", "b"]).map(|of| {
                assert_eq!(of.received, of.recorded + of.lost);
                [of.received, of.recorded, of.lost]
            })
        };
        assert_eq!(counts(0), [[115, 100, 15], [300, 300, 0]]);
        assert_eq!(counts(40), [[115, 90, 25], [300, 270, 30]]);
        assert!(outcome(0).was_asked_to_end() && outcome(0).has_begun());
    }

    #[test]
    fn one_that_was_killed_was_not_asked_to_end() {
        let killed = Outcome { code: None, death: Some("was killed by signal 9".into()), ledger: None };
        assert!(killed.has_begun() && !killed.was_asked_to_end());
        assert_eq!(killed.recorded(["a", "b"]), [Recorded::default(); 2]);
        let refused = Outcome { code: Some(2), death: None, ledger: None };
        assert!(!refused.has_begun());
        let failed =
            Outcome { ledger: Some(json!({ "ended_by": { "write_error": "no space" } })), ..refused };
        assert!(failed.has_begun() && !failed.was_asked_to_end());
    }
}
