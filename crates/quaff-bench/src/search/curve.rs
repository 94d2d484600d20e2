//! Frame loss rate by RFC 2544 §26.3: trials from the highest load downwards, until two consecutive ones have no loss.

use super::{Measured, Search, Trial};

/// Largest step as a share of the highest load (§26.3).
const STEP_SHARE_MAX: f64 = 0.1;

/// The sweep.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    start: f64,
    step: f64,
    seconds: f64,
    results: Vec<Measured>,
}

impl Curve {
    /// Descends from `start` by `step`, at most a tenth of the highest rate `max`; all frames/s.
    pub(crate) fn new(max: f64, start: f64, step: f64, seconds: f64) -> Self {
        let step_max = (max * STEP_SHARE_MAX).max(1.0);
        Self { start, step: step.clamp(1.0, step_max), seconds, results: Vec::new() }
    }
}

impl Search for Curve {
    fn next(&self) -> Option<Trial> {
        let lossless = self.results.iter().rev().take(2).filter(|measured| measured.loss <= 0.0).count();
        // Computed from the number of steps, so that rounding errors do not accumulate.
        let load = (self.start - self.step * self.results.len() as f64).round();
        (lossless < 2 && load >= 1.0).then_some(Trial { load, seconds: self.seconds })
    }

    fn tell(&mut self, trial: Trial, loss: f64) {
        self.results.push(Measured { trial, loss });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(step: f64, loss: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut curve = Curve::new(1000.0, 1000.0, step, 2.0);
        while let Some(trial) = curve.next() {
            assert_eq!(trial.seconds, 2.0);
            curve.tell(trial, loss(trial.load));
        }
        curve.results.iter().map(|measured| measured.trial.load).collect()
    }

    #[test]
    fn it_descends_until_two_in_a_row_lose_nothing() {
        let loss = |load: f64| if load > 700.0 || load == 600.0 { 0.1 } else { 0.0 };
        assert_eq!(sweep(100.0, loss), [1000.0, 900.0, 800.0, 700.0, 600.0, 500.0, 400.0]);
    }

    #[test]
    fn it_ends_where_there_is_no_load_left() {
        let loads = sweep(50.0, |_| 1.0);
        assert_eq!((loads.len(), loads.last()), (20, Some(&50.0)));
    }

    #[test]
    fn steps_are_no_coarser_than_a_tenth() {
        assert_eq!(sweep(500.0, |_| 0.0), [1000.0, 900.0]);
    }
}
