//! Highest rates, longest bursts and loss curves of capturers: [`crate::search`] selects the trials, a [`Measurer`]
//! runs them.
//!
//! Searches of one rival and size are far apart in time: all rivals are searched at all sizes before the second search
//! of the first starts. A temporary change of the machine then appears as a difference between the two.

mod burst;
mod curve;
mod highest;
mod line;
mod measurer;

pub(super) use measurer::{Measurer, Workload};

use super::plan::{Find, Plan, Wanted};
use super::result::Report;
use crate::Result;
use line::each;

/// Runs all searches of `plan`. Results are in `report` as soon as they are known; an interrupted search leaves a
/// partial result and a note.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub(super) fn find(plan: &Plan, measurer: &mut dyn Measurer, report: &mut Report) -> Result<()> {
    for find in &plan.finds {
        let rivals = rivals(plan, find, report);
        match find.what {
            Wanted::Max => highest::all(find, &rivals, measurer, report),
            Wanted::Burst => each(find, &rivals, measurer, report, burst::search),
            Wanted::Curve => each(find, &rivals, measurer, report, curve::search),
        }?;
    }
    Ok(())
}

/// Number of searches that [`find()`] runs.
pub(super) fn count(plan: &Plan, report: &Report) -> usize {
    let of = |find: &Find| {
        let each = find.sizes.len() * rivals(plan, find, report).len();
        if find.what == Wanted::Max { each * highest::repeats(find) as usize } else { each }
    };
    plan.finds.iter().map(of).sum()
}

/// The rivals of `find` that are installed.
fn rivals(plan: &Plan, find: &Find, report: &Report) -> Vec<String> {
    let wanted = |name: &&String| find.rivals.is_empty() || find.rivals.contains(name);
    let absent =
        |name: &&String| report.rivals.iter().any(|facts| facts.name == **name && facts.absent.is_some());
    plan.rivals.iter().filter(wanted).filter(|name| !absent(name)).cloned().collect()
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
