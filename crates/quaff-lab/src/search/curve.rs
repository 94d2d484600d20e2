//! Frame loss rate by RFC 2544 §26.3: trials from the highest load downwards, until two in a row have lost
//! nothing.

use super::{Measured, Search, Trial};

/// The coarsest step, as a share of the highest load (§26.3).
const STEP_MAX: f64 = 0.1;

/// The sweep.
#[derive(Debug, Clone)]
pub struct Curve {
    max: f64,
    step: f64,
    seconds: f64,
    results: Vec<Measured>,
}

impl Curve {
    /// From `max` downwards by the share `step` of it, at most a tenth, each trial `seconds` long.
    pub fn new(max: f64, step: f64, seconds: f64) -> Self {
        Self { max, step: step.clamp(f64::EPSILON, STEP_MAX), seconds, results: Vec::new() }
    }

    /// All trials, in the order of time: loads descend.
    pub fn results(&self) -> &[Measured] {
        &self.results
    }
}

impl Search for Curve {
    fn next(&self) -> Option<Trial> {
        let lossless = self.results.iter().rev().take(2).filter(|measured| measured.loss <= 0.0).count();
        // Each from the number of steps: a hundred of them add up no error.
        let load = (self.max * (1.0 - self.step * self.results.len() as f64)).round();
        (lossless < 2 && load >= 1.0).then_some(Trial { load, seconds: self.seconds })
    }

    fn tell(&mut self, measured: Measured) {
        self.results.push(measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(step: f64, loss: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut curve = Curve::new(1000.0, step, 2.0);
        while let Some(trial) = curve.next() {
            assert_eq!(trial.seconds, 2.0);
            curve.tell(Measured::new(trial, loss(trial.load)));
        }
        curve.results().iter().map(|measured| measured.trial.load).collect()
    }

    #[test]
    fn it_descends_until_two_in_a_row_lose_nothing() {
        let loss = |load: f64| if load > 700.0 || load == 600.0 { 0.1 } else { 0.0 };
        assert_eq!(sweep(0.1, loss), [1000.0, 900.0, 800.0, 700.0, 600.0, 500.0, 400.0]);
    }

    #[test]
    fn it_ends_where_there_is_no_load_left() {
        let loads = sweep(0.05, |_| 1.0);
        assert_eq!((loads.len(), loads.last()), (20, Some(&50.0)));
    }

    #[test]
    fn steps_are_no_coarser_than_a_tenth() {
        assert_eq!(sweep(0.5, |_| 0.0), [1000.0, 900.0]);
    }
}
