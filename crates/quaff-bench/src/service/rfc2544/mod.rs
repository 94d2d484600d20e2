//! The benchmarks of RFC 2544 §26.1 to §26.5, each for all its frame sizes. The two directions are searched
//! independently, at the same time.

mod burst;
mod delays;
mod latency;
mod loss;
mod recovery;
mod throughput;

use super::plan::Test;
use super::result::{Report, Throughput, Way};
use super::test_context::{TestContext, firsts};
use crate::Result;
use crate::trial::{DirectionReport, StreamPlan, StreamReport};
use std::collections::BTreeMap;

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

/// A test with frames of one size.
struct OfSize<'t, 'c> {
    /// Bytes with FCS.
    size: u32,
    ctx: &'t mut TestContext<'c>,
    report: &'t mut Report,
}

impl OfSize<'_, '_> {
    fn line_pps(&self) -> f64 {
        self.ctx.line_pps(self.size)
    }

    /// The size, and the direction if both are tested.
    fn name(&self, way: Way) -> String {
        self.ctx.named(&format!("{} B", self.size), way)
    }

    /// Reports one result.
    fn show(&mut self, test: &str, way: Way, measured: String) {
        let what = self.name(way);
        self.ctx.line(test, what, measured, None);
    }

    /// The measured throughput of this size, if there is one.
    fn known(&self, way: Way) -> Option<&Throughput> {
        self.report.throughput.iter().find(|row| row.size == self.size && row.way == way)
    }

    /// The rate of each direction, frames/s; `None`, with a note that `missing` is not available, if any has none.
    fn rates(
        &mut self,
        rate: impl Fn(&Self, Way) -> Option<f64>,
        missing: &str,
    ) -> Option<BTreeMap<Way, f64>> {
        let ways = self.ctx.ways();
        let rates: BTreeMap<_, _> = ways.iter().filter_map(|way| Some((*way, rate(self, *way)?))).collect();
        if rates.len() == ways.len() {
            return Some(rates);
        }
        self.ctx.note(format!("{} B: without a throughput there is no {missing}.", self.size));
        None
    }

    /// `repeats` trials of `seconds`; `take` receives the direction and the first stream of each way.
    fn repeat(
        &mut self,
        test: &str,
        seconds: f64,
        repeats: u32,
        streams: impl Fn(Way) -> Vec<StreamPlan>,
        mut take: impl FnMut(Way, &DirectionReport, &StreamReport),
    ) -> Result<()> {
        for repeat in 1..=repeats {
            let what = format!("{test}, {} B, trial {repeat} of {repeats}", self.size);
            let report = self.ctx.whole(&what, seconds, &streams)?;
            firsts(&report, self.ctx.ways())
                .for_each(|(way, direction, stream)| take(way, direction, stream));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
