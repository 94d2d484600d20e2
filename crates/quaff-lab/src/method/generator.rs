//! The traffic of a run: `quaff generate` on a core of its own, and what it reports.

use super::run::{Bench, Stage, Watch, pause};
use crate::lab::RX_IF;
use crate::{Error, Result, Running};
use quaff_os::process::pin;
use quaff_os::signal::Signal;
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// How long a generator may take to set up, and to report.
const PATIENCE: Duration = Duration::from_secs(60);
/// Nothing that we measure is sent slower than this, frames/s.
const PPS_MIN: u64 = 10_000;

/// Frames that are to arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Bytes of each, without FCS.
    pub frame_bytes: u32,
    /// How many a second; `None` is as fast as possible.
    pub pps: Option<u64>,
    /// How many.
    pub count: u64,
    /// Whether they come as a mirror port sends them, inside ERSPAN.
    pub mirrored: bool,
}

/// What a generator says that it has done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Frames that it was to send.
    pub intended: u64,
    /// Frames handed to the kernel.
    pub sent: u64,
    /// Frames counted by the interface: what capturers were offered.
    pub confirmed: u64,
    /// From the first to the last, s.
    pub seconds: f64,
}

impl Traffic {
    /// The bytes that a pcapng file needs for it, and some more.
    pub fn file_bytes(&self) -> u64 {
        /// An Enhanced Packet Block with two options, and its share of a chunk's padding.
        const RECORD_BYTES: u64 = 64;
        /// Ethernet, IPv4, GRE and ERSPAN.
        const MIRROR_BYTES: u64 = 50;
        let mirror_bytes = if self.mirrored { MIRROR_BYTES } else { 0 };
        self.count * (u64::from(self.frame_bytes) + mirror_bytes + RECORD_BYTES) + (16 << 20)
    }
}

/// Sends `traffic`, on the generator's core, to the lab's receiving interface.
pub(super) fn send(
    bench: &Bench<'_>,
    traffic: &Traffic,
    watch: Watch<'_>,
    look: &mut dyn FnMut(),
) -> Result<Sent> {
    let mut command = bench.lab.command_rx(bench.quaff)?;
    command.args(["generate", "--inject", RX_IF, "--json", "--size", &traffic.frame_bytes.to_string()]);
    command.args(["--count", &traffic.count.to_string()]);
    if let Some(pps) = traffic.pps {
        command.args(["--pps", &pps.to_string()]);
    }
    if traffic.mirrored {
        command.args(["--erspan", "1"]);
    }
    pin(&mut command, bench.cores.generator);
    // Ctrl-C is ours to hear.
    command.process_group(0);
    let mut running = Running::start(command)?;
    let end = Instant::now() + PATIENCE + Duration::from_secs(traffic.count / traffic.pps.unwrap_or(PPS_MIN));
    while !running.has_ended()? {
        if Instant::now() > end {
            running.signal(Signal::SIGINT)?;
            return Err(failed(format!("still runs after {PATIENCE:?} more than it should")));
        }
        look();
        pause(watch, Stage::Sending)?;
    }
    let finished = running.finish(PATIENCE)?;
    serde_json::from_slice(&finished.stdout).map_err(|_| failed(finished.stderr.trim().to_owned()))
}

fn failed(what: String) -> Error {
    Error::Rival { name: "the generator".into(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let said = r#"{"intended":1000000,"sent":1000000,"confirmed":999999,"seconds":2.499997509,"pps":399999.9985599986,
            "bits_per_second":4799999982.719983,"pace_error":3.6e-9,"lateness":{"mean_ns":361,"p50_ns":256,"p99_ns":14080,
            "max_ns":119359},"retried":0,"interrupted":false,"via":"inject","interface":"rx0","frame_bytes":1500,"stream":1}"#;
        let sent: Sent = serde_json::from_str(said).expect("a report");
        assert_eq!((sent.intended, sent.sent, sent.confirmed), (1_000_000, 1_000_000, 999_999));
    }

    #[test]
    fn a_file_has_room_for_its_frames() {
        let traffic = Traffic { frame_bytes: 1500, pps: None, count: 3_000_000, mirrored: false };
        assert!(traffic.file_bytes() > 3_000_000 * 1536);
    }
}
