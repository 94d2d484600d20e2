//! Loss curves: from the highest rate down, until twice in a row nothing is lost (RFC 2544 §26.3). Each rate
//! is a case of the report.

use super::line::{Line, Stop, Tried, words};
use super::{Measurer, each};
use crate::Result;
use crate::bench::plan::Find;
use crate::bench::result::{Case, LimitedBy, Report};
use crate::bench::summary::summarise;
use crate::search::{Curve, Measured, Search};

/// The series of these cases.
const SERIES: &str = "loss curve, RFC 2544 §26.3";
/// Rates are multiples of this, frames/s: those of several rivals stand below each other then.
const GRID_PPS: f64 = 1000.0;

/// All rivals on all sizes.
pub(super) fn all(
    find: &Find,
    rivals: &[String],
    measurer: &mut dyn Measurer,
    report: &mut Report,
) -> Result<()> {
    each(find, rivals, |mut line| {
        let ended = sweep(&mut line, measurer, report);
        if let Err(Stop::Failed(sentence)) = &ended {
            report.notes.push(format!("{}, {SERIES}: {sentence}", line.rival));
        }
        measurer.found(report);
        ended
    })
}

fn sweep(line: &mut Line<'_>, measurer: &mut dyn Measurer, report: &mut Report) -> Result<(), Stop> {
    let max_pps = measurer.max_pps(line.size)?;
    let seconds = line.seconds(measurer, line.find.seconds, max_pps);
    let mut sweep = Sweep { bytes: line.frame_bytes()?, seconds, max_pps };
    let fastest = sweep.point(line, measurer, report, None)?;
    // Nothing is faster than what comes as fast as possible.
    let step = (max_pps * line.find.width / GRID_PPS).ceil().max(1.0) * GRID_PPS;
    let offered = fastest.first().map_or(max_pps, |tried| tried.row.offered_pps);
    let highest = ((offered / step).ceil() - 1.0) * step;
    if highest < step {
        return Ok(());
    }
    sweep.max_pps = offered;
    let mut curve = Curve::new(max_pps, highest, step, seconds);
    while let Some(trial) = curve.next() {
        let tried = sweep.point(line, measurer, report, Some(trial.load))?;
        let loss = tried.iter().map(|tried| tried.loss).fold(0.0, f64::max);
        curve.tell(Measured::new(trial, loss));
    }
    Ok(())
}

struct Sweep {
    bytes: u32,
    seconds: f64,
    max_pps: f64,
}

impl Sweep {
    /// All runs at one rate.
    fn point(
        &mut self,
        line: &mut Line<'_>,
        measurer: &mut dyn Measurer,
        report: &mut Report,
        pps: Option<f64>,
    ) -> Result<Vec<Tried>, Stop> {
        let count = (pps.unwrap_or(self.max_pps) * self.seconds) as u64;
        let mut tried = Vec::new();
        let mut ended = Ok(());
        for _ in 0..line.find.repeats.unwrap_or(1).max(1) {
            match line.trial(measurer, "loss curve", pps, self.max_pps, count) {
                Ok(one) => tried.push(one),
                Err(stop) => {
                    ended = Err(stop);
                    break;
                }
            }
        }
        if !tried.is_empty() {
            report.cases.push(self.case(line, pps, &tried));
        }
        ended.map(|()| tried)
    }

    fn case(&self, line: &mut Line<'_>, pps: Option<f64>, tried: &[Tried]) -> Case {
        let number = |(run, round): (&Tried, u32)| {
            let mut run = run.run.clone();
            run.round = round;
            run
        };
        let worst = tried.iter().max_by(|one, other| one.loss.total_cmp(&other.loss));
        let mut case = Case {
            rival: line.rival.into(),
            series: SERIES.into(),
            size: self.bytes,
            mix: line.size.mix().map(str::to_owned),
            pps: pps.map(|pps| pps as u64),
            rate: words(pps),
            setting: line.find.setting.clone(),
            runs: tried.iter().zip(1..).map(number).collect(),
            limited_by: worst.map_or(LimitedBy::Unknown, |tried| tried.limited_by),
            notes: line.take_notes(),
            ..Case::default()
        };
        summarise(&mut case);
        case
    }
}
