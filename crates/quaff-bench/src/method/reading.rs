//! A run of a program that reads a capture file to its end. A failure of the program is part of the result.

use super::capturer::{Capturer, failed};
use super::pipeline::come_to_rest;
use super::run::Bench;
use crate::{Error, Result};
use quaff_lab::tool::{FileReader, Output, Setting};
use quaff_lab::topology::Watch;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Time limit of a run.
const FILE_MAX: Duration = Duration::from_secs(1800);

/// The figures of one run of a reader.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadRun {
    /// Number of the round, from 1.
    pub round: u32,
    /// Time from its start to its end, s.
    pub seconds: f64,
    /// CPU time of its processes, s.
    pub cpu_s: f64,
    /// Peak resident memory of its processes, bytes.
    pub memory_bytes: u64,
    /// Why the run failed.
    pub failed: Option<String>,
}

impl Bench<'_> {
    /// Performs one run of `reader`, found at `program`, on `cores` and some files.
    ///
    /// # Errors
    /// Failures of anything but the reader: the watch ends the run.
    pub fn read(
        &self,
        reader: &FileReader,
        program: &Path,
        inputs: &[&Path],
        cores: &[usize],
        watch: Watch<'_>,
    ) -> Result<ReadRun> {
        // The reader before may have written files.
        come_to_rest(&self.place.path)?;
        let tool = reader.tool(inputs);
        let setting = Setting { output: Output::Null, ..Setting::default() };
        let done = Capturer::start(self, &tool, program, &setting, cores)
            .and_then(|capturer| capturer.run_to_end(FILE_MAX, watch));
        let ended = match done {
            Err(Error::Tool { name, what }) if name == reader.name => {
                return Ok(ReadRun { failed: Some(what), ..ReadRun::default() });
            }
            done => done?,
        };
        if !ended.status.code().is_some_and(|code| reader.exits.contains(&code)) {
            let error = failed(&tool, &format!("failed ({})", ended.status), &ended.said);
            return Ok(ReadRun { failed: Some(error.to_string()), ..ReadRun::default() });
        }
        Ok(ReadRun {
            seconds: ended.took.as_secs_f64(),
            cpu_s: ended.cpu_s,
            memory_bytes: ended.memory_bytes_max,
            ..ReadRun::default()
        })
    }
}
