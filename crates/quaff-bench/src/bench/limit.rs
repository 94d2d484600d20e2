//! The limit of a figure (what limited a result): the generator, the path to the capturer, or the capturer.
//!
//! | frames lost in any run | rate reached | limited by |
//! |---|---|---|
//! | yes, at least half of the worst run's before its socket | – | receiver |
//! | yes | – | rival |
//! | no | no, or as fast as possible | generator: a higher rate is unknown |
//! | no | yes, but frames did not arrive | receiver |
//! | no | yes | nothing |

use super::result::{Case, LimitedBy};
use crate::method::Run;
use crate::stats::median;

/// Relative deviation of the mean rate from the requested one that still counts as reached.
const RATE_TOLERANCE: f64 = 0.01;
/// Share of frames that may be missing on the way to the interface without counting.
const WAY_TOLERANCE: f64 = 0.001;

/// The limit of a summarised case, and notes of one sentence each.
pub(super) fn limit(case: &Case) -> (LimitedBy, Vec<String>) {
    let runs: Vec<&Run> = case.runs.iter().filter(|run| run.failed.is_none() && run.loss.is_some()).collect();
    let Some([_, worst]) = case.loss_spread else { return (LimitedBy::Unknown, Vec::new()) };
    let of = |value: fn(&Run) -> f64| {
        median(&runs.iter().map(|run| value(run)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let is_slow = case.pps.is_some_and(|wanted| of(sent_pps) < wanted as f64 * (1.0 - RATE_TOLERANCE));
    let missing = of(missing);
    let limited_by = if worst > 0.0 {
        let lossy = runs.iter().filter(|run| run.loss > Some(0.0));
        match lossy.max_by(|a, b| a.loss.unwrap_or(0.0).total_cmp(&b.loss.unwrap_or(0.0))) {
            Some(run) if is_before_the_socket(run) => LimitedBy::Receiver,
            _ => LimitedBy::Rival,
        }
    } else if is_slow || case.pps.is_none() {
        LimitedBy::Generator
    } else if missing > WAY_TOLERANCE {
        LimitedBy::Receiver
    } else {
        LimitedBy::Nothing
    };
    let mut notes = Vec::new();
    if let (true, Some(wanted)) = (is_slow, case.pps) {
        let reached = 100.0 * of(sent_pps) / wanted as f64;
        notes.push(format!(
            "Frames arrived at {reached:.0} % of the requested rate: with this capturer listening the generator \
             is no faster."
        ));
    }
    if missing > WAY_TOLERANCE {
        notes.push(format!("{:.2} % of the frames did not reach the interface.", 100.0 * missing));
    }
    if worst > 0.0 && case.loss_trimmed == Some(0.0) {
        let lossy = runs.iter().filter(|run| run.loss > Some(0.0)).count();
        let all = runs.len();
        notes.push(format!("{lossy} of {all} runs lost frames, up to {:.2} %.", 100.0 * worst));
    }
    let others = runs.iter().map(|run| run.others).max().unwrap_or(0);
    if others > 0 {
        notes.push(format!("Up to {others} frames of other senders arrived as well."));
    }
    if runs.iter().any(|run| run.captured.is_some_and(|captured| captured > run.offered)) {
        notes.push("More frames were counted than offered: frames of other senders are among them.".into());
    }
    (limited_by, notes)
}

/// Rate at which frames were sent. A generator that stopped early was too slow for the rest.
fn sent_pps(run: &Run) -> f64 {
    let sent = if run.sent == 0 { run.intended } else { run.sent };
    let share = sent as f64 / run.intended.max(1) as f64;
    share.min(1.0) * sent as f64 / run.seconds.max(1e-9)
}

/// True if at least half of the lost frames did not reach the capturer's socket.
fn is_before_the_socket(run: &Run) -> bool {
    let lost = run.loss.unwrap_or(0.0) * run.offered as f64;
    run.receiver_drops > 0 && run.receiver_drops as f64 >= lost / 2.0
}

/// Share of the sent frames that did not arrive, 0 to 1.
fn missing(run: &Run) -> f64 {
    let sent = if run.sent == 0 { run.intended } else { run.sent };
    (1.0 - run.offered as f64 / sent.max(1) as f64).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::jobs::Jobs;
    use crate::bench::jobs::tests::plan;
    use crate::bench::summary::summarise;

    /// A case of 1000 frames within one second.
    fn case(pps: Option<u64>, runs: &[Run]) -> Case {
        let can = |_: &str, setting: &quaff_lab::tool::Setting| Ok(setting.clone());
        let jobs = Jobs::of(&plan(), &["quaff"], &[None], &can, &|_, _| true).expect("jobs");
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
    fn the_part_that_loses_is_the_limit() {
        assert_eq!(limited_by(&case(Some(1000), &[run(9, 1.0)])), LimitedBy::Rival);
        assert_eq!(limited_by(&case(None, &[run(9, 0.1)])), LimitedBy::Rival);
        // Too slow, and lossy as well: a higher rate would not be better.
        assert_eq!(limited_by(&case(Some(1000), &[run(9, 2.0)])), LimitedBy::Rival);
        let before = Run { receiver_drops: 8, ..run(9, 1.0) };
        assert_eq!(limited_by(&case(Some(1000), std::slice::from_ref(&before))), LimitedBy::Receiver);
        assert_eq!(limited_by(&case(Some(1000), &[Run { receiver_drops: 4, ..before }])), LimitedBy::Rival);
    }

    #[test]
    fn one_lossy_run_is_no_result_without_loss() {
        let runs = [0, 0, 0, 0, 300].map(|lost| run(lost, 1.0));
        let case = case(Some(1000), &runs);
        assert_eq!(case.loss_trimmed, Some(0.0));
        let (limited_by, notes) = limit(&case);
        assert_eq!(limited_by, LimitedBy::Rival);
        assert_eq!(notes, ["1 of 5 runs lost frames, up to 30.00 %."]);
    }

    #[test]
    fn a_rate_that_was_not_reached_says_nothing_of_it() {
        let (limited_by, notes) = limit(&case(Some(1000), &[run(0, 1.25)]));
        assert_eq!(limited_by, LimitedBy::Generator);
        assert!(notes[0].contains("80 %"), "{notes:?}");
        // The note is added with loss, too.
        let (limited_by, notes) = limit(&case(Some(1000), &[run(9, 1.25)]));
        assert_eq!(limited_by, LimitedBy::Rival);
        assert!(notes[0].contains("80 %"), "{notes:?}");
        assert_eq!(limit(&case(None, &[run(0, 0.1)])), (LimitedBy::Generator, Vec::new()));
        assert_eq!(limit(&case(Some(1000), &[run(0, 1.005)])), (LimitedBy::Nothing, Vec::new()));
        // A generator that sent a third of the frames quickly and then stopped.
        let early = Run { sent: 300, offered: 300, ..run(0, 0.3) };
        assert_eq!(limited_by_of(Some(1000), early), LimitedBy::Generator);
    }

    fn limited_by_of(pps: Option<u64>, run: Run) -> LimitedBy {
        limited_by(&case(pps, &[run]))
    }

    #[test]
    fn frames_that_do_not_arrive_are_not_lost_by_the_capturer() {
        let gone = Run { sent: 1000, offered: 900, ..run(0, 1.0) };
        let (limited_by, notes) = limit(&case(Some(1000), std::slice::from_ref(&gone)));
        assert_eq!(limited_by, LimitedBy::Receiver);
        assert!(notes[0].contains("10.00 %"), "{notes:?}");
        // This does not excuse the loss of frames that did arrive.
        let loss = Some(0.05);
        assert_eq!(limited_by_of(Some(1000), Run { loss, ..gone }), LimitedBy::Rival);
    }

    #[test]
    fn frames_of_other_senders_are_noted() {
        let (_, notes) = limit(&case(Some(1000), &[Run { others: 7, captured: Some(1007), ..run(0, 1.0) }]));
        assert!(
            notes[0].contains("7 frames of other senders") && notes[1].contains("More frames"),
            "{notes:?}"
        );
    }

    #[test]
    fn without_a_figure_nothing_is_known() {
        let failed = Run { failed: Some("it crashed".into()), ..run(5, 1.0) };
        assert_eq!(limited_by(&case(Some(1000), &[failed])), LimitedBy::Unknown);
        assert_eq!(limited_by(&case(None, &[Run { loss: None, ..run(0, 1.0) }])), LimitedBy::Unknown);
        assert_eq!(limited_by(&case(None, &[])), LimitedBy::Unknown);
    }
}
