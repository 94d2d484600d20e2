//! A capturer that waits without traffic.

use super::capturer::{Capturer, on_core};
use super::run::Bench;
use crate::Result;
use quaff_lab::tool::{Setting, Tool};
use quaff_lab::topology::{Stage, Watch, pause};
use std::path::Path;
use std::time::{Duration, Instant};

impl Bench<'_> {
    /// CPU time that `tool` uses during `idle` without frames, once it captures and has populated its memory.
    pub fn idle(&self, tool: &Tool, program: &Path, idle: Duration, watch: Watch<'_>) -> Result<Duration> {
        let setting = Setting::default();
        let mut capturer = Capturer::start(self, tool, program, &setting, &[self.cores.capturer])?;
        capturer.ready(watch)?;
        capturer.rest(watch)?;
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
