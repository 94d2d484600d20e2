//! ITU-T Y.1564: the service configuration test, one service at a time, and the service performance test, all services
//! at once. Frames have no colour: the tests are the colour-blind ones.

mod configuration;
mod performance;

use super::plan::Test;
use super::result::Report;
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

#[cfg(test)]
mod tests;
