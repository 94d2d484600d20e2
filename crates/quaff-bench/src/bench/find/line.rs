//! The trials of one rival at one frame size: requested, run and evaluated.

use super::{Measurer, Workload};
use crate::bench::plan::{Find, Rate};
use crate::bench::result::{LimitedBy, Report, TrialRow};
use crate::method::Run;
use crate::{Error, Result};
use quaff_lab::traffic::Size;
use quaff_lab::traffic::Traffic;

/// A search is abandoned after more consecutive failed runs than this: the rival fails at any rate.
const FAILURES_MAX: u32 = 3;
/// Smallest ratio of offered to intended load; a lower one is a different rate (RFC 2285 §3.5.2).
const OFFERED_MIN: f64 = 0.98;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Interrupted,
    /// Why the search cannot continue.
    Failed(String),
}

/// A rival and a frame size.
pub(super) struct Line<'a> {
    pub(super) rival: &'a str,
    pub(super) size: &'a Size,
    pub(super) find: &'a Find,
    measurer: &'a mut dyn Measurer,
    pub(super) notes: Vec<String>,
    /// Largest relative shortfall of the offered rate since the last notes.
    unsent_most: f64,
    failures: u32,
    made: usize,
}

/// The result of one trial.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) row: TrialRow,
    pub(super) run: Run,
    /// Loss as a search counts it, 0 to 1: frames not sent in time count as lost (RFC 9971, "Measurer").
    pub(super) loss: f64,
    pub(super) limited_by: LimitedBy,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        rival: &'a str,
        size: &'a Size,
        find: &'a Find,
        measurer: &'a mut dyn Measurer,
    ) -> Self {
        Self { rival, size, find, measurer, notes: Vec::new(), unsent_most: 0.0, failures: 0, made: 0 }
    }

    /// Highest rate without a capturer, frames/s.
    pub(super) fn max_pps(&mut self) -> Result<f64, Stop> {
        Ok(self.measurer.max_pps(self.size)?)
    }

    /// Mean frame size, bytes.
    pub(super) fn frame_bytes(&self) -> Result<u32, Stop> {
        Ok(Traffic::new(self.size, None, 1)?.frame_bytes)
    }

    /// Runs a trial of `count` frames at `pps`; `None` sends as fast as possible, which a search counts as `max_pps`.
    pub(super) fn trial(
        &mut self,
        what: &str,
        pps: Option<f64>,
        max_pps: f64,
        count: u64,
    ) -> Result<Tried, Stop> {
        self.made += 1;
        self.measurer.about(&format!("{}, {}, {what}, trial {}", self.rival, self.size_words(), self.made));
        let workload = Workload {
            rival: self.rival,
            size: self.size,
            pps: pps.map(|pps| pps.round() as u64),
            count: count.max(1),
            setting: &self.find.setting,
        };
        let run = self.measurer.measure(&workload)?;
        self.judge(run, pps, max_pps)
    }

    fn judge(&mut self, run: Run, pps: Option<f64>, max_pps: f64) -> Result<Tried, Stop> {
        let wanted = pps.unwrap_or(max_pps);
        let offered_pps = if run.seconds > 0.0 { run.offered as f64 / run.seconds } else { 0.0 };
        let loss = match (&run.failed, run.loss) {
            (Some(what), _) => {
                self.failures += 1;
                if self.failures > FAILURES_MAX {
                    return Err(Stop::Failed(format!("It fails at any rate: {what}")));
                }
                self.note(format!("At {} it failed: {what}", words(pps)));
                1.0
            }
            (None, None) => return Err(Stop::Failed("There was nothing to capture.".into())),
            (None, Some(loss)) => {
                self.failures = 0;
                loss
            }
        };
        let row = TrialRow { pps: wanted, seconds: run.seconds, offered_pps, loss };
        let slow = pps.is_some_and(|pps| run.failed.is_none() && offered_pps < pps * OFFERED_MIN);
        let limited_by = limited_by(&run, slow, pps.is_none());
        let unsent = if slow { 1.0 - offered_pps / wanted } else { 0.0 };
        self.unsent_most = self.unsent_most.max(unsent);
        Ok(Tried { row, run, loss: loss.max(unsent), limited_by })
    }

    /// Adds a note unless it exists already.
    pub(super) fn note(&mut self, sentence: String) {
        if !self.notes.contains(&sentence) {
            self.notes.push(sentence);
        }
    }

    /// Notes why the search ended early.
    pub(super) fn note_end(&mut self, ended: &Result<(), Stop>) {
        match ended {
            Ok(()) => (),
            Err(Stop::Interrupted) => self.note("The search was interrupted.".into()),
            Err(Stop::Failed(sentence)) => self.note(sentence.clone()),
        }
    }

    /// Removes and returns the notes so far.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        let reached = 100.0 * (1.0 - std::mem::take(&mut self.unsent_most));
        if reached < 100.0 * OFFERED_MIN {
            self.note(format!("Frames arrived at {reached:.0} % of the requested rate in the worst trial."));
        }
        std::mem::take(&mut self.notes)
    }

    /// Duration for which frames at `pps` fit on the disk, at most `seconds`.
    pub(super) fn seconds(&mut self, seconds: f64, pps: f64) -> f64 {
        let room = self.measurer.frames_max(self.size, &self.find.setting);
        let fits = room.map_or(seconds, |frames| (frames as f64 / pps).min(seconds));
        if fits < seconds {
            self.note(format!(
                "Trials of {fits:.1} s instead of {seconds} s: the disk has no room for more frames."
            ));
        }
        fits
    }

    fn size_words(&self) -> String {
        match self.size {
            Size::Bytes(bytes) => format!("{bytes} B"),
            other => other.mix().unwrap_or_default().into(),
        }
    }
}

fn limited_by(run: &Run, slow: bool, as_fast_as_possible: bool) -> LimitedBy {
    let lost = run.offered.saturating_sub(run.captured.unwrap_or(0));
    match run.loss {
        _ if run.failed.is_some() => LimitedBy::Unknown,
        Some(loss) if loss > 0.0 && run.receiver_drops > 0 && run.receiver_drops * 2 >= lost => {
            LimitedBy::Receiver
        }
        Some(loss) if loss > 0.0 => LimitedBy::Rival,
        Some(_) if slow || as_fast_as_possible => LimitedBy::Generator,
        Some(_) => LimitedBy::Nothing,
        None => LimitedBy::Unknown,
    }
}

/// Formats a rate as plans do.
pub(super) fn words(pps: Option<f64>) -> String {
    pps.map_or(Rate::Max, |pps| Rate::Pps(pps.round() as u64)).words()
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::Interrupted => Self::Interrupted,
            error => Self::Failed(format!("It could not be measured: {error}.")),
        }
    }
}

/// Calls `search` for each size and rival in the order of a table; it adds its result to the report. An interrupted
/// search
/// ends all.
pub(super) fn each(
    find: &Find,
    rivals: &[String],
    measurer: &mut dyn Measurer,
    report: &mut Report,
    mut search: impl FnMut(Line<'_>, &mut Report) -> Result<(), Stop>,
) -> Result<()> {
    for size in &find.sizes {
        for rival in rivals {
            let ended = search(Line::new(rival, size, find, measurer), report);
            measurer.found(report);
            if let Err(Stop::Interrupted) = ended {
                return Err(Error::Interrupted);
            }
        }
    }
    Ok(())
}
