//! The benchmarks of RFC 2544 §26.1 to §26.5, each for all its sizes and both ways where both are tested. Loads of
//! the two ways are searched at the same time, each by itself.

mod burst;
mod delays;
mod latency;
mod loss;
mod recovery;
mod throughput;

use super::plan::Test;
use super::result::{Report, Throughput, Way};
use super::test_context::TestContext;
use crate::Result;

/// Runs `test`, if it is one of these; its rows are in `report`, those of an interrupted one too.
pub(super) fn run(test: &Test, ctx: &mut TestContext<'_>, report: &mut Report) -> Result<()> {
    match test {
        Test::Throughput { sizes, method, seconds, width } => {
            let wanted = throughput::Wanted { method: *method, seconds: *seconds, width: *width };
            throughput::all(sizes, &wanted, ctx, report)
        }
        Test::Latency { sizes, seconds, repeats } => latency::all(sizes, *seconds, *repeats, ctx, report),
        Test::FrameLoss { sizes, seconds, step } => loss::all(sizes, *seconds, *step, ctx, report),
        Test::BackToBack { sizes, seconds, repeats } => burst::all(sizes, *seconds, *repeats, ctx, report),
        Test::Recovery { sizes, seconds, repeats } => recovery::all(sizes, *seconds, *repeats, ctx, report),
        Test::Configuration { .. } | Test::Performance { .. } => Ok(()),
    }
}

/// The throughput of such frames, if it was sought.
fn known(report: &Report, size: u32, way: Way) -> Option<&Throughput> {
    report.throughput.iter().find(|row| row.size == size && row.way == way)
}

#[cfg(test)]
mod tests;
