//! Runs the trials of searches with the bench's case runner on its first interface.

use super::find::{Measurer, Workload};
use super::jobs::{null_frames, room};
use super::result::{Calibration, Report};
use super::runner::{CaseRunner, Events, calibration};
use crate::method::Run;
use crate::{Error, Result};
use quaff_lab::tool::Setting;
use quaff_lab::topology::Stage;
use quaff_lab::traffic::Size;
use quaff_lab::traffic::Traffic;
use std::collections::BTreeMap;
use std::time::Instant;

/// Index of the interface on which searches run.
const INTERFACE: usize = 0;
/// Divisor: a tenth of the free space stays free.
const ROOM_KEPT: u64 = 10;

/// Adapts a case runner to searches.
pub(super) struct Finder<'a> {
    runner: &'a mut dyn CaseRunner,
    events: &'a mut dyn Events,
    /// The current search and trial.
    about: String,
    /// Total number of searches.
    of: usize,
    /// Number of completed searches.
    done: usize,
    begun: Instant,
    nulls: BTreeMap<Size, Calibration>,
}

impl<'a> Finder<'a> {
    /// Creates an adapter for `of` searches.
    pub(super) fn new(runner: &'a mut dyn CaseRunner, events: &'a mut dyn Events, of: usize) -> Self {
        let begun = Instant::now();
        Self { runner, events, about: String::new(), of, done: 0, begun, nulls: BTreeMap::new() }
    }

    /// Position for progress: "search 3 of 24, 18 min left: ", estimated from the completed searches.
    fn place(&self) -> String {
        let number = (self.done + 1).min(self.of);
        let left = self.begun.elapsed().as_secs_f64() * (self.of - number + 1) as f64 / self.done as f64;
        let left = if self.done > 0 { format!(", {} min left", (left / 60.0).ceil()) } else { String::new() };
        format!("search {number} of {}{left}: ", self.of)
    }

    /// The null calibrations of all sizes.
    pub(super) fn calibrations(self) -> impl Iterator<Item = Calibration> {
        self.nulls.into_values()
    }
}

impl Measurer for Finder<'_> {
    fn measure(&mut self, workload: &Workload<'_>) -> Result<Run> {
        let Workload { rival, size, pps, count, setting } = *workload;
        let cannot = |what| Error::Tool { name: rival.to_owned(), what };
        self.runner.can(rival, setting).map_err(cannot)?;
        let traffic = Traffic::new(size, pps, count)?;
        let (free, place) = self.runner.free()?;
        if room(&traffic, setting) > free {
            return Err(Error::Place(format!("no room left in {place}")));
        }
        let events = &mut *self.events;
        let about = if self.about.is_empty() { rival } else { &self.about };
        let mut watch = |stage: Stage| {
            events.stage(&format!("{about} {}", stage.describe()));
            events.continues()
        };
        self.runner.run(rival, &traffic, setting, INTERFACE, &mut watch)
    }

    fn max_pps(&mut self, size: &Size) -> Result<f64> {
        if let Some(known) = self.nulls.get(size) {
            return Ok(known.offered_pps);
        }
        self.events.stage("the generator sends without a capturer");
        let traffic = Traffic::new(size, None, null_frames(None))?;
        let events = &mut *self.events;
        let sent = self.runner.null(&traffic, INTERFACE, &mut |_| events.continues())?;
        let null = calibration(&traffic, &sent);
        let pps = null.offered_pps;
        self.nulls.insert(size.clone(), null);
        Ok(pps)
    }

    fn frames_max(&mut self, size: &Size, setting: &Setting) -> Option<u64> {
        let (free, _) = self.runner.free().ok()?;
        let free = free - free / ROOM_KEPT;
        let of = |frames| Traffic::new(size, None, frames).map(|traffic| room(&traffic, setting)).ok();
        let (none, million) = (of(0)?, of(1_000_000)?);
        let per_million = million.checked_sub(none).filter(|bytes| *bytes > 0)?;
        Some((free.saturating_sub(none) as f64 / per_million as f64 * 1e6) as u64)
    }

    fn about(&mut self, words: &str) {
        self.about = self.place() + words;
    }

    fn found(&mut self, report: &Report) {
        self.done += 1;
        self.events.so_far(report);
    }
}
