//! Searches for the highest flow rate at which a meter loses no packet.

use super::plan::{Find, Plan};
use super::result::{FlowSearch, FlowTrial, Report};
use super::rounds::Events;
use super::session::{Session, describe};
use crate::search::{Goal, Highest, Input, Search, Trial};
use crate::{Error, Result};

/// Duration of the initial trials as a share of the full duration.
const INITIAL_SHARE: f64 = 1.0 / 3.0;
/// Lowest rate as a share of the highest.
const MIN_SHARE: f64 = 0.001;

/// Searches for each installed meter; partial results stay in the report.
pub(super) fn find(
    plan: &Plan,
    find: &Find,
    session: &Session,
    report: &mut Report,
    events: &mut dyn Events,
) -> Result<()> {
    let fastest = report.calibration.iter().filter(|null| null.fps.is_none());
    let Some(max_fps) = fastest.map(|null| null.offered_fps.floor()).reduce(f64::max) else { return Ok(()) };
    for name in session.present() {
        let mut row = FlowSearch {
            meter: name.to_owned(),
            lower_fps: None,
            upper_fps: None,
            max_fps,
            regular: false,
            trials: Vec::new(),
            failed: None,
        };
        let ended = search(plan, find, session, &mut row, events);
        report.body.searches.push(row);
        events.so_far(report);
        ended?;
    }
    Ok(())
}

fn search(
    plan: &Plan,
    find: &Find,
    session: &Session,
    row: &mut FlowSearch,
    events: &mut dyn Events,
) -> Result<()> {
    let Find { method, seconds, width, goal_loss } = *find;
    let goal = Goal::new(method, seconds, seconds * INITIAL_SHARE, goal_loss, width);
    let min = (row.max_fps * MIN_SHARE).max(1.0);
    let mut highest = Highest::new(Input { method, goal, min, max: row.max_fps, start: None });
    let ended = highest.run(|trial: Trial| {
        let name = row.meter.clone();
        let number = row.trials.len() + 1;
        let watch = &mut |stage| {
            events.stage(&format!("highest rate, trial {number}: {name} {}", describe(stage)));
            events.continues()
        };
        let run = session.live(plan, &name, trial.load, trial.seconds, watch)?;
        if let Some(what) = run.failed {
            return Err(Error::Tool { name, what });
        }
        // Packets that the collector or the generator missed are not lost by the meter, but the rate is not proven
        // either.
        // More packets than were sent prove nothing.
        let loss = run.loss.filter(|_| run.packets <= run.sent.packets).unwrap_or(1.0);
        row.trials.push(FlowTrial { fps: trial.load, seconds: run.seconds, loss });
        Ok(loss)
    });
    let bounds = highest.bounds();
    (row.lower_fps, row.upper_fps) = (bounds.lower, bounds.upper);
    row.regular = bounds.are_close(width);
    match ended {
        Err(Error::Tool { name, what }) => {
            row.failed = Some(format!("{name}: {what}"));
            Ok(())
        }
        other => other,
    }
}
