//! The benchmarks of RFC 2544 §26.1 to §26.5, each for all its frame sizes. The two directions are searched
//! independently, at the same time.

mod burst;
mod delays;
mod latency;
mod loss;
mod of_size;
mod recovery;
mod throughput;

use super::plan::Test;
use super::result::Report;
use super::test_context::TestContext;
use crate::Result;
use of_size::OfSize;

/// Runs `test` if it is one of these, and adds its rows to `report`, also when interrupted.
pub(super) fn run(test: &Test, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    for &size in test.sizes() {
        let mut of_size = OfSize { size, ctx, report };
        match *test {
            Test::Throughput { method, seconds, width, .. } => {
                throughput::measure(&mut of_size, &throughput::Wanted { method, seconds, width })?;
            }
            Test::Latency { seconds, repeats, .. } => latency::measure(&mut of_size, seconds, repeats)?,
            Test::FrameLoss { seconds, step, .. } => loss::measure(&mut of_size, seconds, step)?,
            Test::BackToBack { seconds, repeats, .. } => burst::measure(&mut of_size, seconds, repeats)?,
            Test::Recovery { seconds, repeats, .. } => recovery::measure(&mut of_size, seconds, repeats)?,
            Test::Configuration { .. } | Test::Performance { .. } => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
