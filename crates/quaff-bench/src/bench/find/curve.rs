//! Loss curves: from the highest rate down, until two consecutive rates lose nothing (RFC 2544 §26.3). Each rate is a
//! case of the report.

use super::line::{Line, Stop, Tried, words};
use crate::bench::result::{Case, LimitedBy, Report};
use crate::bench::summary::summarise;
use crate::search::{Curve, Search};

/// The series of these cases.
const SERIES: &str = "loss curve, RFC 2544 §26.3";
/// Rates are multiples of this, frames/s, so that the rows of several rivals align.
const GRID_PPS: f64 = 1000.0;

/// Measures one rival at one frame size.
pub(super) fn search(line: Line<'_>, report: &mut Report) -> Result<(), Stop> {
    let rival = line.rival;
    let ended = Sweep { bytes: 0, seconds: 0.0, max_pps: 0.0, line, report }.run();
    if let Err(Stop::Failed(sentence)) = &ended {
        report.notes.push(format!("{rival}, {SERIES}: {sentence}"));
    }
    ended
}

struct Sweep<'l, 'r> {
    line: Line<'l>,
    report: &'r mut Report,
    bytes: u32,
    seconds: f64,
    max_pps: f64,
}

impl Sweep<'_, '_> {
    fn run(&mut self) -> Result<(), Stop> {
        let max_pps = self.line.max_pps()?;
        self.max_pps = max_pps;
        self.seconds = self.line.seconds(self.line.find.seconds, max_pps);
        self.bytes = self.line.frame_bytes()?;
        let fastest = self.point(None)?;
        // No rate is higher than the unpaced one.
        let step = (max_pps * self.line.find.width / GRID_PPS).ceil().max(1.0) * GRID_PPS;
        let offered = fastest.first().map_or(max_pps, |tried| tried.row.offered_pps);
        let highest = ((offered / step).ceil() - 1.0) * step;
        if highest < step {
            return Ok(());
        }
        self.max_pps = offered;
        Curve::new(max_pps, highest, step, self.seconds).run(|trial| {
            let tried = self.point(Some(trial.load))?;
            Ok(tried.iter().map(|tried| tried.loss).fold(0.0, f64::max))
        })
    }

    /// Performs all runs at one rate.
    fn point(&mut self, pps: Option<f64>) -> Result<Vec<Tried>, Stop> {
        let count = (pps.unwrap_or(self.max_pps) * self.seconds) as u64;
        let mut tried = Vec::new();
        let mut ended = Ok(());
        for _ in 0..self.line.find.repeats.unwrap_or(1).max(1) {
            match self.line.trial("loss curve", pps, self.max_pps, count) {
                Ok(one) => tried.push(one),
                Err(stop) => {
                    ended = Err(stop);
                    break;
                }
            }
        }
        if !tried.is_empty() {
            let case = self.case(pps, &tried);
            self.report.cases.push(case);
        }
        ended.map(|()| tried)
    }

    fn case(&mut self, pps: Option<f64>, tried: &[Tried]) -> Case {
        let number = |(run, round): (&Tried, u32)| {
            let mut run = run.run.clone();
            run.round = round;
            run
        };
        let worst = tried.iter().max_by(|one, other| one.loss.total_cmp(&other.loss));
        let mut case = Case {
            rival: self.line.rival.into(),
            series: SERIES.into(),
            size: self.bytes,
            mix: self.line.size.mix().map(str::to_owned),
            pps: pps.map(|pps| pps as u64),
            rate: words(pps),
            setting: self.line.find.setting.clone(),
            runs: tried.iter().zip(1..).map(number).collect(),
            limited_by: worst.map_or(LimitedBy::Unknown, |tried| tried.limited_by),
            notes: self.line.take_notes(),
            ..Case::default()
        };
        summarise(&mut case);
        case
    }
}
