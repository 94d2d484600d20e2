//! One run: a capturer on its core, traffic from another core, and what is in its file at the end.

use super::capturer::{Capturer, Ended, on_core};
use super::count::count;
use super::place::{Place, RunDir};
use crate::Result;
use quaff_lab::tool::{Setting, Tool};
use quaff_lab::topology::{Site, Stage, Watch, pause};
use quaff_lab::traffic::Traffic;
use quaff_os::cpu;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is used in all runs.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    /// Where the capturer runs, and frames arrive.
    pub site: &'a dyn Site,
    /// Our own program, which counts what comes through a pipe.
    pub quaff: &'a Path,
    /// Where its files go.
    pub place: &'a Place,
    /// Who runs on which core.
    pub cores: Cores,
}

/// The cores of generator and capturer: two, where there are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// The generator's; the kernel's share of receiving runs here too.
    pub generator: usize,
    /// The capturer's.
    pub capturer: usize,
}

/// What came of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Whose.
    pub rival: String,
    /// What was to be captured.
    pub traffic: Traffic,
    /// MiB of buffer that it was given; `None`: its own default.
    pub buffer_mib: Option<u64>,
    /// Frames that arrived at the interface.
    pub offered: u64,
    /// How long they took to arrive, s.
    pub seconds: f64,
    /// Frames in its file.
    pub in_file: u64,
    /// Frames that are missing there.
    pub lost: u64,
    /// What it says that it has lost; `None` when it says nothing.
    pub own_drops: Option<u64>,
    /// CPU time of its process before the first frame, s: mostly what its buffers cost to touch, which
    /// depends on the memory that the machine has at hand.
    pub startup_seconds: f64,
    /// CPU time of its process in its own code, s.
    pub user_seconds: f64,
    /// CPU time of its process in the kernel, s.
    pub system_seconds: f64,
    /// The size of its file, bytes.
    pub bytes: u64,
    /// From the first change of that size to the last, s.
    pub writing_seconds: f64,
    /// Whether what the file itself says of losses is just what is missing in it; `None` when it
    /// does not say.
    pub accounted: Option<bool>,
}

impl Outcome {
    /// User and system time, s.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Lost of offered, 0 to 100.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.offered.max(1) as f64
    }

    /// CPU time per frame that was offered, from the first of them on, ns.
    pub fn cpu_ns_per_frame(&self) -> f64 {
        (self.cpu_seconds() - self.startup_seconds) * 1e9 / self.offered.max(1) as f64
    }

    /// What it wrote, bytes/s.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.writing_seconds.max(1e-9)
    }

    /// Frames offered, 1/s.
    pub fn offered_pps(&self) -> f64 {
        self.offered as f64 / self.seconds.max(1e-9)
    }
}

impl Cores {
    /// The first two of those that this process may use.
    pub fn pick() -> Result<Self> {
        let allowed = cpu::allowed()?;
        let generator = allowed.first().copied().unwrap_or(0);
        Ok(Self { generator, capturer: allowed.get(1).copied().unwrap_or(generator) })
    }
}

impl Bench<'_> {
    /// One run of `rival`, found at `program`, for which nothing may go wrong. Its files are there until the
    /// directory is dropped.
    ///
    /// # Errors
    /// The rival does not start, get ready or end; the generator fails; the watch wants no more.
    pub fn capture(
        &self,
        rival: &Tool,
        program: &Path,
        traffic: &Traffic,
        buffer_mib: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<(Outcome, RunDir)> {
        let setting = Setting { buffer_mib, ..Setting::default() };
        let mut capturer = Capturer::start(self, rival, program, &setting, self.cores.capturer)?;
        capturer.ready(watch)?;
        let sent = self.site.send(traffic, self.cores.generator, watch, &mut || capturer.look())?;
        capturer.settle(traffic.file_bytes(), watch)?;
        let Ended { usage, startup, said, writing, dir, .. } = capturer.stop(watch)?;
        let is_stamped = traffic.mirrored || traffic.is_stamped();
        let counted = count(&dir.files()?, rival.format, is_stamped, watch)?;
        pause(watch, Stage::Counting)?;
        let outcome = Outcome {
            rival: rival.name.clone(),
            traffic: traffic.clone(),
            buffer_mib,
            offered: sent.offered,
            seconds: sent.seconds,
            in_file: counted.frames,
            lost: sent.offered.saturating_sub(counted.frames),
            own_drops: rival.drops.as_ref().and_then(|drops| drops.read(&said)),
            startup_seconds: startup.total(),
            user_seconds: usage.user.as_secs_f64(),
            system_seconds: usage.system.as_secs_f64(),
            bytes: counted.bytes,
            writing_seconds: writing.as_secs_f64(),
            accounted: counted.accounted,
        };
        Ok((outcome, dir))
    }

    /// CPU time that `rival` uses for `idle` without a single frame, from when it is ready.
    pub fn idle(&self, rival: &Tool, program: &Path, idle: Duration, watch: Watch<'_>) -> Result<Duration> {
        let setting = Setting::default();
        let mut capturer = Capturer::start(self, rival, program, &setting, self.cores.capturer)?;
        capturer.ready(watch)?;
        let pid = capturer.pid()?;
        let before = on_core(pid)?;
        let end = Instant::now() + idle;
        while Instant::now() < end {
            pause(watch, Stage::Sending)?;
        }
        let used = on_core(pid)?.saturating_sub(before);
        capturer.stop(watch)?;
        Ok(used)
    }
}

#[cfg(test)]
mod tests;
