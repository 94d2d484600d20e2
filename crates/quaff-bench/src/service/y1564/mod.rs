//! ITU-T Y.1564: the service configuration test, one service at a time, and the service performance test, all services
//! at once. Frames have no colour: the tests are the colour-blind ones.

mod configuration;
mod performance;

use super::plan::Test;
use super::result::{Check, Report, Way};
use super::test_context::TestContext;
use crate::Result;

/// Runs `test` if it is one of these, and adds its rows to `report`.
pub(super) fn run(test: &Test, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    match test {
        Test::Configuration { seconds, steps } => configuration::all(*seconds, steps, ctx, report),
        Test::Performance { seconds } => performance::all(*seconds, ctx, report),
        _ => Ok(()),
    }
}

pub(super) use configuration::Kind;

/// Reports each check as a result.
fn lines(test: &str, of: &str, way: Way, checks: &[Check], ctx: &mut TestContext<'_>) {
    for check in checks {
        let what = format!("{}, {}", ctx.named(of, way), check.what);
        ctx.line(test, what, format!("{} ({})", check.measured, check.limit), Some(check.passed));
    }
}

#[cfg(test)]
mod tests;
