//! What kept a figure from being better: the generator, what is before the capturer, or the capturer.
//!
//! | lost by the capturer | rate reached | it was limited by |
//! |---|---|---|
//! | yes, half of it and more before its socket | – | receiver |
//! | yes | – | rival |
//! | no | no, or as fast as possible | generator: nothing is said about a higher rate |
//! | no | yes, but frames did not arrive | receiver |
//! | no | yes | nothing |

use super::result::{Case, LimitedBy, Run};
use crate::stats::median;

/// A mean rate that is nearer than this to the wanted one is the wanted one, of 1.
const RATE_TOLERANCE: f64 = 0.01;
/// Frames that may be missing on the way to the interface before it counts, of 1.
const WAY_TOLERANCE: f64 = 0.001;

/// Decides for a case whose figures are made; and says what there is to know.
pub(super) fn limit(case: &Case) -> (LimitedBy, Option<String>) {
    let runs: Vec<&Run> = case.runs.iter().filter(|run| run.failed.is_none() && run.loss.is_some()).collect();
    let Some(loss) = case.loss_trimmed.or(case.loss_median) else { return (LimitedBy::Unknown, None) };
    let of = |value: fn(&Run) -> f64| {
        median(&runs.iter().map(|run| value(run)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    if loss > 0.0 {
        let lost = of(|run| run.loss.unwrap_or(0.0) * run.offered as f64);
        let before = of(|run| run.receiver_drops as f64);
        return match before >= lost / 2.0 && before > 0.0 {
            true => (LimitedBy::Receiver, None),
            false => (LimitedBy::Rival, None),
        };
    }
    let sent_pps = of(|run| run.intended as f64 / run.seconds.max(1e-9));
    match case.pps {
        None => (LimitedBy::Generator, None),
        Some(wanted) if sent_pps < wanted as f64 * (1.0 - RATE_TOLERANCE) => {
            let reached = 100.0 * sent_pps / wanted as f64;
            let note = format!(
                "Frames came at {reached:.0} % of the rate that was wanted: with a capturer listening the \
                 generator is no faster."
            );
            (LimitedBy::Generator, Some(note))
        }
        Some(_) => match of(missing) {
            missing if missing > WAY_TOLERANCE => {
                let note =
                    format!("{:.2} % of the frames did not get as far as the interface.", 100.0 * missing);
                (LimitedBy::Receiver, Some(note))
            }
            _ => (LimitedBy::Nothing, None),
        },
    }
}

/// What was to be sent and did not arrive, 0 to 1.
fn missing(run: &Run) -> f64 {
    1.0 - run.offered as f64 / run.intended.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::Jobs;
    use crate::bench::jobs::tests::plan;
    use crate::bench::summary::summarise;

    /// 1000 frames, wanted in a second.
    fn case(pps: Option<u64>, runs: &[Run]) -> Case {
        let jobs = Jobs::of(&plan(), &["quaff"], &[None], &|_, _| Ok(())).expect("jobs");
        let mut case = Case { pps, runs: runs.to_vec(), ..jobs.cases[0].clone() };
        summarise(&mut case);
        case
    }

    fn run(lost: u64, seconds: f64) -> Run {
        let loss = Some(lost as f64 / 1000.0);
        Run { intended: 1000, offered: 1000, captured: Some(1000 - lost), loss, seconds, ..Run::default() }
    }

    fn limited_by(case: &Case) -> LimitedBy {
        limit(case).0
    }

    #[test]
    fn who_loses_is_the_limit() {
        assert_eq!(limited_by(&case(Some(1000), &[run(9, 1.0)])), LimitedBy::Rival);
        assert_eq!(limited_by(&case(None, &[run(9, 0.1)])), LimitedBy::Rival);
        // Too slow, and lost all the same: a higher rate is no better.
        assert_eq!(limited_by(&case(Some(1000), &[run(9, 2.0)])), LimitedBy::Rival);
        let before = Run { receiver_drops: 8, ..run(9, 1.0) };
        assert_eq!(limited_by(&case(Some(1000), std::slice::from_ref(&before))), LimitedBy::Receiver);
        assert_eq!(limited_by(&case(Some(1000), &[Run { receiver_drops: 4, ..before }])), LimitedBy::Rival);
    }

    #[test]
    fn a_rate_that_was_not_reached_says_nothing_of_it() {
        let (limited_by, note) = limit(&case(Some(1000), &[run(0, 1.25)]));
        assert_eq!(limited_by, LimitedBy::Generator);
        assert!(note.is_some_and(|note| note.contains("80 %")));
        assert_eq!(limit(&case(None, &[run(0, 0.1)])), (LimitedBy::Generator, None));
        assert_eq!(limit(&case(Some(1000), &[run(0, 1.005)])), (LimitedBy::Nothing, None));
    }

    #[test]
    fn what_does_not_arrive_is_not_the_capturers() {
        let gone = Run { offered: 900, receiver_drops: 100, ..run(0, 1.0) };
        let (limited_by, note) = limit(&case(Some(1000), &[gone]));
        assert_eq!(limited_by, LimitedBy::Receiver);
        assert!(note.is_some_and(|note| note.contains("10.00 %")));
    }

    #[test]
    fn without_a_figure_nothing_is_known() {
        let failed = Run { failed: Some("it crashed".into()), ..run(5, 1.0) };
        assert_eq!(limited_by(&case(Some(1000), &[failed])), LimitedBy::Unknown);
        assert_eq!(limited_by(&case(None, &[Run { loss: None, ..run(0, 1.0) }])), LimitedBy::Unknown);
        assert_eq!(limited_by(&case(None, &[])), LimitedBy::Unknown);
    }
}
