//! A test of frames of one size: what the benchmarks of RFC 2544 share.

use crate::Result;
use crate::service::result::{Report, Throughput, Way};
use crate::service::test_context::{TestContext, firsts};
use crate::trial::{DirectionReport, StreamPlan, StreamReport};
use std::collections::BTreeMap;

/// A test with frames of one size.
pub(super) struct OfSize<'t, 'c> {
    /// Bytes with FCS.
    pub(super) size: u32,
    pub(super) ctx: &'t mut TestContext<'c>,
    pub(super) report: &'t mut Report,
}

impl OfSize<'_, '_> {
    pub(super) fn line_pps(&self) -> f64 {
        self.ctx.line_pps(self.size)
    }

    /// The size, and the direction if both are tested.
    pub(super) fn name(&self, way: Way) -> String {
        self.ctx.named(&format!("{} B", self.size), way)
    }

    /// Reports one result.
    pub(super) fn show(&mut self, test: &str, way: Way, measured: String) {
        let what = self.name(way);
        self.ctx.line(test, what, measured, None);
    }

    /// The measured throughput of this size, if there is one.
    pub(super) fn known(&self, way: Way) -> Option<&Throughput> {
        self.report.throughput.iter().find(|row| row.size == self.size && row.way == way)
    }

    /// The rate of each direction, frames/s; `None`, with a note that `missing` is not available, if any has none.
    pub(super) fn rates(
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
    pub(super) fn repeat(
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
