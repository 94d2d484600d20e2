//! Estimates the duration of a plan, with the usual number of trials of a search.

use super::{Plan, Test};
use crate::experiment::Method;
use crate::service::null;
use crate::service::y1564::Kind;
use std::collections::BTreeSet;

/// Overhead of a trial, s.
const BESIDE_S: f64 = 0.4;
/// Time to wait for late frames after a trial with loss, s.
const RESIDUAL_S: f64 = 2.0;
/// Trials of the null calibration per size: the first or the second is without loss.
const NULL_TRIALS: f64 = 2.0;
/// Usual number of loads of a loss curve.
const CURVE_LOADS: f64 = 4.0;
/// Bursts until the longest is found, and their mean length as a share of the limit.
const BURSTS: f64 = 10.0;
const BURST_SHARE: f64 = 0.3;

impl Plan {
    /// Estimated duration, s.
    pub fn seconds(&self) -> f64 {
        self.parts(true).iter().sum()
    }

    /// Estimated durations of the calibration and of each test, s.
    pub(in crate::service) fn parts(&self, has_null: bool) -> Vec<f64> {
        let sizes: BTreeSet<u32> = self.tests.iter().flat_map(Test::sizes).copied().collect();
        let null = sizes.len() as f64 * NULL_TRIALS * (null::TRIAL_S + BESIDE_S) + null::DELAY_S + BESIDE_S;
        let tests = self.tests.iter().map(|test| self.test_s(test, has_null));
        std::iter::once(if has_null { null } else { BESIDE_S }).chain(tests).collect()
    }

    fn test_s(&self, test: &Test, has_null: bool) -> f64 {
        let beside_s = BESIDE_S + self.pause_s;
        let sizes = test.sizes().len() as f64;
        match test {
            Test::Throughput { seconds, width, method, .. } => {
                let halvings = (1.0 / width).log2().ceil();
                let full = if *method == Method::Mlr { 3.0 } else { 1.0 };
                let short_s = (seconds / 6.0).max(1.0).min(*seconds) + RESIDUAL_S / 2.0;
                sizes * ((halvings + 1.0) * (short_s + beside_s) + full * (seconds + beside_s))
            }
            Test::Latency { seconds, repeats, .. } => {
                let null_s = if has_null { null::DELAY_S + beside_s } else { 0.0 };
                sizes * (f64::from(*repeats) * (seconds + beside_s) + null_s)
            }
            Test::FrameLoss { seconds, .. } => sizes * CURVE_LOADS * (seconds + beside_s),
            Test::BackToBack { seconds, repeats, .. } => {
                sizes * f64::from(*repeats) * BURSTS * (seconds * BURST_SHARE + beside_s + RESIDUAL_S / 2.0)
            }
            Test::Recovery { seconds, repeats, .. } => {
                sizes * f64::from(*repeats) * (seconds * 1.5 + beside_s + RESIDUAL_S)
            }
            Test::Configuration { seconds, steps } => {
                let kinds =
                    self.services.iter().map(|service| Kind::all(service, steps).len()).sum::<usize>();
                kinds as f64 * (seconds + beside_s)
            }
            Test::Performance { seconds } => f64::from(self.runs) * (seconds + beside_s),
        }
    }
}
