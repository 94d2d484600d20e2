//! Summarises the runs of a case. Failed runs are ignored.

use super::result::Case;
use crate::method::Run;
use crate::stats::{median, spread, trimmed_mean};

/// Computes a case's loss and CPU figures from its runs.
pub(crate) fn summarise(case: &mut Case) {
    let losses = losses(&case.runs);
    case.loss_trimmed = trimmed_mean(&losses);
    case.loss_median = median(&losses);
    case.loss_spread = spread(&losses);
    case.cpu_median = median(&cpu(&case.runs));
    let whole = case.runs.iter().filter(|run| run.failed.is_none());
    case.fairness = median(&whole.filter_map(|run| fairness(&run.lanes)).collect::<Vec<_>>());
}

/// Jain's index of fairness (RFC 5166 §2.3): (Σx)² / (n · Σx²). 1: all lanes are equal; 1/n: one lane has all packets.
/// `None` for fewer than two lanes, or without packets.
fn fairness(lanes: &[u64]) -> Option<f64> {
    let sum: f64 = lanes.iter().map(|packets| *packets as f64).sum();
    let squares: f64 = lanes.iter().map(|packets| (*packets as f64).powi(2)).sum();
    (lanes.len() > 1 && squares > 0.0).then(|| sum * sum / (lanes.len() as f64 * squares))
}

/// Loss of each run for which it is known, 0 to 1.
pub(crate) fn losses(runs: &[Run]) -> Vec<f64> {
    runs.iter().filter(|run| run.failed.is_none()).filter_map(|run| run.loss).collect()
}

/// CPU time of the capturer per second of traffic, for each run that has it; 1 is one core.
pub(crate) fn cpu(runs: &[Run]) -> Vec<f64> {
    let is_complete = |run: &&Run| run.failed.is_none() && run.seconds > 0.0;
    runs.iter().filter(is_complete).map(|run| (run.cpu_user_s + run.cpu_system_s) / run.seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(loss: Option<f64>, cpu_user_s: f64) -> Run {
        Run { loss, seconds: 2.0, cpu_user_s, cpu_system_s: 0.4, ..Run::default() }
    }

    fn case(runs: Vec<Run>) -> Case {
        Case { rival: "one".into(), size: 64, rate: "as fast as possible".into(), runs, ..Case::default() }
    }

    #[test]
    fn a_case_is_summarised_from_complete_runs() {
        let failed = Run { failed: Some("it crashed".into()), loss: Some(1.0), ..run(None, 9.0) };
        let runs = [0.5, 0.0, 0.3, 0.1, 0.2].map(|loss| run(Some(loss), 1.0 + loss));
        let mut case = case(runs.into_iter().chain([failed]).collect());
        summarise(&mut case);
        assert!((case.loss_trimmed.expect("a loss") - 0.2).abs() < 1e-12);
        assert_eq!(case.loss_median, Some(0.2));
        assert_eq!(case.loss_spread, Some([0.0, 0.5]));
        // 1.2 s and 0.4 s of CPU in 2 s.
        assert!((case.cpu_median.expect("CPU") - 0.8).abs() < 1e-12);
    }

    #[test]
    fn fairness_is_1_for_equal_lanes_and_their_inverse_for_one_that_has_everything() {
        assert_eq!(fairness(&[500, 500]), Some(1.0));
        assert_eq!(fairness(&[900, 0, 0, 0]), Some(0.25));
        assert!((fairness(&[300, 100]).expect("an index") - 0.8).abs() < 1e-12);
        assert_eq!((fairness(&[7]), fairness(&[]), fairness(&[0, 0])), (None, None, None));
    }

    #[test]
    fn a_case_without_a_run_says_nothing() {
        let mut case = case(vec![Run { failed: Some("it hung".into()), ..Run::default() }]);
        summarise(&mut case);
        assert_eq!((case.loss_trimmed, case.loss_median, case.cpu_median), (None, None, None));
    }

    #[test]
    fn cpu_of_a_run_that_is_to_capture_nothing_counts_all_the_same() {
        let mut case = case(vec![run(None, 0.0)]);
        summarise(&mut case);
        assert_eq!((case.loss_median, case.cpu_median), (None, Some(0.2)));
    }
}
