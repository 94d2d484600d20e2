//! The highest rate without loss, searched several times. This is the Manager of RFC 9971: it measures the highest
//! offered rate in a warm-up, sets the goal, and reports both.

use super::Measurer;
use super::line::{Line, Stop, Tried, each, words};
use crate::Result;
use crate::bench::plan::{Find, Method};
use crate::bench::result::{GoalRow, LimitedBy, Report, Search as SearchRow, TrialRow};
use crate::search::{Bounds, Goal, Highest, Input, Search};
use crate::stats::difference;

/// Default number of independent searches.
const REPEATS: u32 = 2;
/// Largest relative difference of two searches that agree; above it the machine is noisy.
const AGREEMENT: f64 = 0.10;
/// Duration of the initial trials and the warm-up as a share of the full duration.
const INITIAL_SHARE: f64 = 1.0 / 3.0;
/// Lowest rate as a share of the highest.
const MIN_SHARE: f64 = 0.001;
/// Lowest rate in frames/s.
const MIN_PPS: f64 = 1000.0;

/// One search.
struct Pass<'a> {
    line: Line<'a>,
    goal: Goal,
    max_pps: f64,
    /// The unpaced trial before the search; not part of it.
    warm_up: Option<TrialRow>,
    tried: Vec<Tried>,
    bounds: Bounds,
    throughput_pps: Option<f64>,
}

/// Number of independent searches per result.
pub(super) fn repeats(find: &Find) -> u32 {
    find.repeats.unwrap_or(REPEATS).max(1)
}

/// Searches all rivals at all sizes, as often as `repeats`.
pub(super) fn all(
    find: &Find,
    rivals: &[String],
    measurer: &mut dyn Measurer,
    report: &mut Report,
) -> Result<()> {
    let first = report.searches.len();
    for note in caution(find).into_iter().chain(own_buffers(find)) {
        if !report.notes.contains(&note) {
            report.notes.push(note);
        }
    }
    for repeat in 0..repeats(find) {
        let mut at = first;
        each(find, rivals, measurer, report, |line, report| {
            let mut pass = Pass::new(line);
            let ended = pass.search();
            pass.line.note_end(&ended);
            match report.searches.get_mut(at).filter(|_| repeat > 0) {
                Some(found) if ended.is_ok() => pass.again(found),
                // An interrupted search has no result to compare.
                Some(found) => found.notes.extend(pass.line.take_notes()),
                None => report.searches.push(pass.row()),
            }
            at += 1;
            ended
        })?;
    }
    Ok(())
}

/// Notes the limits of the method. RFC 2544 §24 asks for full-length trials of 60 s.
fn caution(find: &Find) -> Option<String> {
    const RFC2544_SECONDS: f64 = 60.0;
    let (seconds, loss) = (find.seconds, find.goal_loss * 100.0);
    match find.method {
        Method::Mlr => Some(format!(
            "Highest rates by RFC 9971: a rate is accepted if of at most two trials of {seconds} s no more than \
             one lost more than {loss} %."
        )),
        Method::Rfc2544 if seconds < RFC2544_SECONDS => Some(format!(
            "Highest rates by RFC 2544 §26.1 with trials of {seconds} s instead of the 60 s of its §24: they comply \
             with it conditionally at most."
        )),
        Method::Rfc2544 => None,
    }
}

/// Notes that default buffers differ between tools.
fn own_buffers(find: &Find) -> Option<String> {
    find.setting.buffer_mib.is_none().then(|| {
        format!(
            "Highest rates with the buffer that is each capturer's own default: where {} s of frames fit into it, \
             the rate is one of memory, not of capturing.",
            find.seconds
        )
    })
}

impl<'a> Pass<'a> {
    fn new(line: Line<'a>) -> Self {
        let Find { method, seconds, goal_loss, width, .. } = *line.find;
        let goal = Goal::new(method, seconds, seconds * INITIAL_SHARE, goal_loss, width);
        let bounds = Bounds::default();
        Self { line, goal, max_pps: 0.0, warm_up: None, tried: Vec::new(), bounds, throughput_pps: None }
    }

    /// Runs the search; partial results are kept after an error.
    fn search(&mut self) -> Result<(), Stop> {
        self.max_pps = self.line.max_pps()?;
        let warm_up = self.warm_up()?;
        self.warm_up = Some(warm_up.row);
        let offered = warm_up.row.offered_pps;
        let (max, start) = match warm_up.run.failed {
            Some(_) => (self.max_pps.round(), None),
            None => (offered.round(), Some(offered * (1.0 - warm_up.row.loss))),
        };
        if max < MIN_PPS {
            return Err(Stop::Failed(format!("Only {max} frames/s could be sent.")));
        }
        self.limit_seconds(max);
        let (method, min) = (self.line.find.method, (max * MIN_SHARE).round().max(MIN_PPS));
        let mut highest = Highest::new(Input { method, goal: self.goal, min, max, start });
        let ended = highest.run(|trial| {
            let paced = (trial.load < max).then_some(trial.load);
            let count = (trial.load * trial.seconds).round() as u64;
            let tried = self.line.trial("highest rate", paced, max, count)?;
            let loss = tried.loss;
            self.tried.push(tried);
            Ok(loss)
        });
        (self.bounds, self.throughput_pps) = (highest.bounds(), highest.conditional_throughput());
        ended
    }

    /// Runs an unpaced trial before the search: the highest offered rate with this tool capturing.
    fn warm_up(&mut self) -> Result<Tried, Stop> {
        let seconds = self.line.seconds(self.goal.initial_s, self.max_pps);
        let count = (self.max_pps * seconds) as u64;
        self.line.trial("highest rate", None, self.max_pps, count)
    }

    /// Shortens the trials if the disk has no room for full ones.
    fn limit_seconds(&mut self, max: f64) {
        let share = self.line.seconds(self.goal.final_s, max) / self.goal.final_s;
        let Goal { final_s, duration_sum_s, initial_s, .. } = &mut self.goal;
        for seconds in [final_s, duration_sum_s, initial_s] {
            *seconds *= share;
        }
    }

    /// Highest rate without loss, frames/s. For an unpaced trial this is the offered rate, not the requested one.
    fn lower_pps(&self) -> Option<f64> {
        let lower = self.bounds.lower?;
        let there = self.tried.iter().filter(|tried| tried.row.pps == lower);
        let good =
            there.filter(|tried| tried.loss <= self.goal.loss_ratio).map(|tried| tried.row.offered_pps);
        if self.bounds.upper.is_some() { Some(lower) } else { good.min_by(f64::total_cmp) }
    }

    fn limited_by(&self) -> LimitedBy {
        let Some(upper) = self.bounds.upper else {
            return if self.bounds.lower.is_some() { LimitedBy::Generator } else { LimitedBy::Unknown };
        };
        let lossy = |tried: &&Tried| tried.row.pps == upper && tried.loss > self.goal.loss_ratio;
        let worst = self.tried.iter().filter(lossy).max_by(|one, other| one.loss.total_cmp(&other.loss));
        worst.map_or(LimitedBy::Unknown, |tried| tried.limited_by)
    }

    fn row(mut self) -> SearchRow {
        let limited_by = self.limited_by();
        let regular = self.bounds.are_close(self.goal.width);
        if self.bounds.lower.is_some() && self.bounds.upper.is_some() && !regular {
            self.line
                .note("Irregular: the search ended before its bounds were as close as requested.".into());
        }
        self.note_buffer();
        match (limited_by, self.bounds.upper) {
            (LimitedBy::Generator, None) => {
                self.line.note(
                    "Nothing was lost at the highest rate that could be sent: the limit lies above it."
                        .into(),
                );
            }
            (LimitedBy::Generator, upper) => {
                self.line.note(format!("Frames could not be sent at {}.", words(upper)));
            }
            _ => (),
        }
        let goal = GoalRow {
            final_seconds: self.goal.final_s,
            duration_sum_s: self.goal.duration_sum_s,
            loss_ratio: self.goal.loss_ratio,
            exceed_ratio: self.goal.exceed_ratio,
            initial_seconds: self.goal.initial_s,
        };
        SearchRow {
            rival: self.line.rival.into(),
            size: self.line.frame_bytes().unwrap_or_default(),
            mix: self.line.size.mix().map(str::to_owned),
            setting: self.line.find.setting.clone(),
            method: self.line.find.method.name().into(),
            lower_pps: self.lower_pps(),
            upper_pps: self.bounds.upper,
            max_pps: self.max_pps,
            width: self.goal.width,
            limited_by,
            regular,
            warm_up: self.warm_up,
            trials: self.rows(),
            again: None,
            trials_again: Vec::new(),
            goal: Some(goal),
            throughput_pps: self.throughput_pps.filter(|_| self.bounds.upper.is_some()),
            notes: self.line.take_notes(),
        }
    }

    /// Notes that a trial fits into the buffer: it proves nothing about a longer one.
    fn note_buffer(&mut self) {
        let (Some(mib), Some(pps)) = (self.line.find.setting.buffer_mib, self.lower_pps()) else { return };
        let trial_bytes = pps * self.goal.final_s * f64::from(self.line.frame_bytes().unwrap_or_default());
        if trial_bytes < (mib << 20) as f64 {
            self.line
                .note(format!("A whole trial fits into the buffer of {mib} MiB: a longer one may lose."));
        }
    }

    fn rows(&self) -> Vec<TrialRow> {
        self.tried.iter().map(|tried| tried.row).collect()
    }

    /// Adds a later search to the first one; of several the one that differs most is kept.
    fn again(mut self, found: &mut SearchRow) {
        let (first, again) = (found.lower_pps.unwrap_or(0.0), self.lower_pps().unwrap_or(0.0));
        let apart = difference(first, again);
        for note in self.line.take_notes() {
            if !found.notes.contains(&note) {
                found.notes.push(note);
            }
        }
        if found.again.is_some_and(|[_, farthest]| farthest >= apart) {
            return;
        }
        found.again = Some([again, apart]);
        found.trials_again = self.rows();
        let noise = "This machine is too noisy:";
        found.notes.retain(|note| !note.starts_with(noise));
        if apart > AGREEMENT {
            let percent = apart * 100.0;
            found.notes.push(format!("{noise} two searches differ by {percent:.0} %."));
        }
    }
}
