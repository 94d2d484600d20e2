//! The verdict of a verification: the reasons against completeness, and all of it in one line.

use super::report::{
    ACKNOWLEDGED_MISSING, FINS_MISSING, LEAPS, MIRRORED_MISSING, Missing, NUMBERS_MISSING, Report,
    SYNS_MISSING, UNTRACKED,
};
use super::sequence::StreamEnd;
use quaff_stream::proof::Numbers;
use quaff_wire::format::{count, number_of};

impl Report {
    /// The report of a run that has failed.
    pub fn failed(mut self, error: String) -> Self {
        self.outcome.error = Some(error);
        self.judge()
    }

    /// Only numbers of RTP and GRE are missing: the network may have lost these packets, and no other evidence decides.
    fn is_undecided(&self) -> bool {
        let Numbers { erspan, gre, rtp, .. } = &self.numbers;
        gre.lost + rtp.lost > 0 && self.tcp.loss.flows_with_evidence + erspan.sources == 0
    }

    /// Collects the reasons against completeness.
    pub(super) fn judge(mut self) -> Self {
        let (has_numbers, is_undecided, witnesses) =
            (self.has_numbers(), self.is_undecided(), self.witnesses());
        let (loss, mirrored) = (&self.tcp.loss, self.numbers.erspan.lost);
        let by_tcp = |count: u64| !has_numbers && count > 0;
        let it = &mut self.outcome;
        it.judge(&[
            (it.lost > 0, "frames are missing"),
            (self.end == Some(StreamEnd::Missing), "the last frame of the stream is missing"),
            (it.duplicates > 0, "frames are there more than once"),
            (self.corrupt > 0, "frames are damaged"),
            (by_tcp(loss.acked_unseen_bytes), ACKNOWLEDGED_MISSING),
            (by_tcp(mirrored), MIRRORED_MISSING),
            (!has_numbers && is_undecided, NUMBERS_MISSING),
            (by_tcp(loss.syns_unseen), SYNS_MISSING),
            (by_tcp(loss.fins_unseen), FINS_MISSING),
            (by_tcp(loss.leaps_confirmed), LEAPS),
            (by_tcp(loss.untracked_bytes), UNTRACKED),
        ]);
        // Frames without numbers prove nothing by themselves.
        it.is_judged = it.received > 0 || self.corrupt > 0 || witnesses > 0 || !it.reasons.is_empty();
        it.complete &= it.is_judged;
        self.missing = Missing::of(&self);
        self.outcome.lost_total += self.lost_here();
        self.verdict = words(&self);
        self
    }
}

/// The verdict of a report that has been judged.
fn words(report: &Report) -> String {
    let outcome = &report.outcome;
    let (loss, has_numbers) = (&report.tcp.loss, report.has_numbers());
    if let Some(missing) = &report.missing {
        return missing.words();
    }
    match (outcome.is_judged, outcome.complete) {
        (false, _) => "nothing to judge by".into(),
        (true, true) if has_numbers => "complete".into(),
        (true, true) => {
            let flows = number_of(report.witnesses(), "flow");
            let aside = if loss.set_aside > 0 {
                format!(", {} set aside", count(loss.set_aside))
            } else {
                String::new()
            };
            format!("complete as far as can be known ({flows} with evidence{aside})")
        }
        (true, false) => format!("not complete: {}", outcome.reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Ledger, LossPlace, Outcome, Tcp};
    use quaff_stream::LossReport;
    use quaff_stream::proof::NumberReport;

    fn report(lost: u64, recorded_drops: Option<u64>) -> Report {
        let ledger = recorded_drops.map(|recorded_drops| Ledger {
            recorded_drops,
            consistent: true,
            covers_all: true,
            ..Ledger::default()
        });
        let loss = LossReport {
            flows_with_evidence: 3,
            flows_with_loss: 2,
            acked_unseen_bytes: lost * 1000,
            acked_unseen_packets_estimate: lost,
            lost_packets_low: lost / 2,
            lost_packets_high: Some(lost * 2),
            loss_low: Some(0.02),
            loss_ratio: Some(0.1),
            first_loss_ns: Some(1_700_000_000_000_000_000),
            last_loss_ns: Some(1_700_000_001_500_000_000),
            ..LossReport::default()
        };
        let outcome = Outcome { frames: 900, ledger, ..Outcome::default() };
        Report { outcome, tcp: Tcp { loss, injected: None }, ..Report::default() }.judge()
    }

    #[test]
    fn a_loss_has_its_place_by_the_counters_of_the_file() {
        let lost = "incomplete: about 1,000 packets missing (95 %: 500 to 2,000) in 2 of 3 connections between \
                    2023-11-14T22:13:20.000Z and 2023-11-14T22:13:21.500Z;";
        for (drops, place, because) in [
            (None, LossPlace::Unknown, "the place cannot be told: there are no drop counters"),
            (Some(0), LossPlace::BeforeIt, "lost before this machine: its drop counters are 0"),
            (Some(1000), LossPlace::ThisMachine, "lost by this machine: its drop counters count 1,000"),
            (
                Some(10),
                LossPlace::Unknown,
                "the place cannot be told: the drop counters count 10, which is a part of it",
            ),
            // At least the lower bound, and less than half of the estimate.
            (
                Some(30),
                LossPlace::Unknown,
                "the place cannot be told: the drop counters count 30, which is a part of it",
            ),
        ] {
            let found = report(1000, drops);
            assert_eq!(found.verdict, format!("{lost} {because}"), "{drops:?}");
            assert_eq!(place_of(&found), place, "{drops:?}");
            assert!(found.outcome.is_judged && !found.outcome.complete && found.outcome.lost_total == 1000);
        }
        assert!(report(1, None).verdict.starts_with("incomplete: about 1 packet missing"));
    }

    fn place_of(report: &Report) -> LossPlace {
        report.clone().judge().missing.expect("packets are missing").place
    }

    #[test]
    fn data_that_one_end_alone_names_are_undecided() {
        let mut found = report(100, None);
        found.tcp.loss.undecided_bytes = 2048;
        found.tcp.loss.lost_packets_high = None;
        let words = found.judge().verdict;
        assert!(
            words.contains("(95 %: 50 or more)") && words.contains("; 2.00 KiB more undecided; "),
            "{words}"
        );
    }

    #[test]
    fn a_wide_interval_leaves_two_digits() {
        let mut found = report(13_827, None);
        found.tcp.loss.lost_packets_low = 310;
        found.tcp.loss.lost_packets_high = Some(42_193);
        let found = found.judge();
        let words = "incomplete: about 14,000 packets missing (95 %: 310 to 42,000) in 2 of 3 connections";
        assert!(found.verdict.starts_with(words), "{}", found.verdict);
        assert_eq!(found.missing.expect("packets are missing").packets, 13_827, "for programs it is whole");
    }

    #[test]
    fn without_loss_it_is_complete_as_far_as_can_be_known() {
        let found = report(0, Some(0));
        assert_eq!(found.verdict, "complete as far as can be known (3 flows with evidence)");
        assert!(found.outcome.complete);
        assert_eq!(report(0, Some(4)).verdict, "not complete: the capture recorded drops");
    }

    #[test]
    fn the_place_is_before_this_machine_only_if_counters_of_all_packets_have_no_drops() {
        let place = |change: fn(&mut Report)| {
            let mut report = report(100, Some(0));
            change(&mut report);
            place_of(&report)
        };
        assert_eq!(place(|_| {}), LossPlace::BeforeIt);
        let of_ledger = |change: fn(&mut Ledger)| {
            let mut report = report(100, Some(0));
            report.outcome.ledger.as_mut().into_iter().for_each(change);
            place_of(&report)
        };
        assert_eq!(of_ledger(|ledger| ledger.covers_all = false), LossPlace::Unknown);
        assert_eq!(of_ledger(|ledger| ledger.epb_dropcount = 500), LossPlace::ThisMachine);
        assert_eq!(place(|it| it.tcp.loss.loss_ratio = Some(0.8)), LossPlace::Unknown);
    }

    #[test]
    fn numbers_decide_where_there_are_some() {
        let mut found = report(100, Some(0));
        found.outcome.received = 900;
        let found = found.judge();
        assert_eq!((found.verdict.as_str(), found.outcome.complete), ("complete", true));
    }

    #[test]
    fn data_that_cannot_be_followed_are_not_complete() {
        let fields: [fn(&mut LossReport) -> &mut u64; 4] = [
            |it| &mut it.syns_unseen,
            |it| &mut it.fins_unseen,
            |it| &mut it.leaps_confirmed,
            |it| &mut it.untracked_bytes,
        ];
        for field in fields {
            let mut found = report(0, None);
            *field(&mut found.tcp.loss) = 1;
            let found = found.judge();
            assert!(
                !found.outcome.complete && found.verdict.starts_with("not complete: "),
                "{}",
                found.verdict
            );
        }
    }

    #[test]
    fn connections_set_aside_are_named() {
        let mut found = report(0, None);
        found.tcp.loss.set_aside = 5000;
        assert_eq!(
            found.judge().verdict,
            "complete as far as can be known (3 flows with evidence, 5,000 set aside)"
        );
    }

    #[test]
    fn mirrored_packets_are_lost_here_and_those_of_rtp_may_be() {
        let with = |lost: u64, flows: u64, change: fn(&mut Report)| {
            let mut found = report(lost, None);
            found.tcp.loss.flows_with_evidence = flows;
            change(&mut found);
            found.judge()
        };
        let mirrored = |it: &mut Report| {
            let times = [Some(1_700_000_002_000_000_000), Some(1_700_000_003_000_000_000)];
            let [first_loss_ns, last_loss_ns] = times;
            it.numbers.erspan =
                NumberReport { sources: 1, lost: 7, first_loss_ns, last_loss_ns, ..NumberReport::default() };
        };
        let words = with(100, 3, mirrored).verdict;
        let expected = "incomplete: about 110 packets missing (95 %: 57 to 210) in 2 of 3 connections and 7 by the numbers \
                        of a mirror between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:23.000Z;";
        assert!(words.starts_with(expected), "{words}");
        let rtp = |it: &mut Report| {
            it.numbers.rtp = NumberReport { sources: 2, lost: 7, ..NumberReport::default() }
        };
        let found = with(0, 0, rtp);
        assert!(
            found.outcome.is_judged && found.verdict.starts_with("not complete: numbers of RTP"),
            "{}",
            found.verdict
        );
        assert_eq!(with(0, 3, rtp).verdict, "complete as far as can be known (5 flows with evidence)");
        let whole = |it: &mut Report| it.numbers.gre = NumberReport { sources: 1, ..NumberReport::default() };
        assert_eq!(with(0, 0, whole).verdict, "complete as far as can be known (1 flow with evidence)");
        // Hosts that count prove nothing.
        let hosts = |it: &mut Report| {
            it.numbers.ip_id = NumberReport { sources: 1, lost: 9, ..NumberReport::default() }
        };
        assert_eq!(with(0, 0, hosts).verdict, "nothing to judge by");
    }
}
