//! The verdict of a verification: the reasons against completeness, and all of it in one line.

use super::report::{
    ACKNOWLEDGED_MISSING, FINS_MISSING, LEAPS, MIRRORED_MISSING, NUMBERS_MISSING, Report, UNTRACKED,
};
use super::sequence::StreamEnd;
use jiff::Timestamp;
use quaff_stream::proof::Numbers;

/// The share of lost packets above which a capture filter is as likely.
const FILTERED: f64 = 0.5;

/// The place of a loss that the capture's own counters suggest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    ThisMachine,
    BeforeIt,
    Unknown,
}

impl Place {
    /// Compares the drops that the file records with the share of packets that TCP proves missing.
    fn of(report: &Report) -> Self {
        let Some(ledger) = report.outcome.ledger.as_ref().filter(|ledger| ledger.consistent) else {
            return Self::Unknown;
        };
        if report.tcp.injected.is_some() {
            return Self::Unknown;
        }
        let drops = ledger.recorded_drops.max(ledger.epb_dropcount);
        let share = drops as f64 / (drops as f64 + report.outcome.frames as f64).max(1.0);
        let (loss, mirrored) = (&report.tcp.loss, report.numbers.erspan.ratio.unwrap_or(0.0));
        let ratio = loss.loss_ratio.unwrap_or(0.0).max(mirrored);
        let low = loss.loss_low.unwrap_or(0.0);
        match drops {
            // In a file that lacks most of its packets, they may have been filtered out.
            0 if ledger.covers_all && ratio <= FILTERED => Self::BeforeIt,
            0 => Self::Unknown,
            _ if share >= low && share >= ratio / 2.0 => Self::ThisMachine,
            // They explain a part of it.
            _ => Self::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::ThisMachine => "this machine",
            Self::BeforeIt => "before it",
            Self::Unknown => "cannot be told",
        }
    }
}

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
            (by_tcp(loss.fins_unseen), FINS_MISSING),
            (by_tcp(loss.leaps_confirmed), LEAPS),
            (by_tcp(loss.untracked_bytes), UNTRACKED),
        ]);
        // Frames without numbers prove nothing by themselves.
        it.is_judged = it.received > 0 || self.corrupt > 0 || witnesses > 0 || !it.reasons.is_empty();
        it.complete &= it.is_judged;
        self.verdict = words(&self);
        self
    }
}

/// The verdict of a report that has been judged.
fn words(report: &Report) -> String {
    let outcome = &report.outcome;
    let (loss, has_numbers) = (&report.tcp.loss, report.has_numbers());
    let lost = report.lost_here();
    if lost > 0 {
        let packets = if lost == 1 { "packet" } else { "packets" };
        let mirrored = &report.numbers.erspan;
        let first_ns = [loss.first_loss_ns, mirrored.first_loss_ns].into_iter().flatten().min();
        let last_ns = loss.last_loss_ns.max(mirrored.last_loss_ns);
        let [first, last] = [first_ns, last_ns].map(|ns| time(ns.unwrap_or(0)));
        let place = Place::of(report).words();
        return format!("{lost} {packets} lost here between {first} and {last}: {place}");
    }
    match (outcome.is_judged, outcome.complete) {
        (false, _) => "nothing to judge by".into(),
        (true, true) if has_numbers => "complete".into(),
        (true, true) => {
            let flows = report.witnesses();
            let flows = if flows == 1 { "1 flow".into() } else { format!("{flows} flows") };
            let aside =
                if loss.set_aside > 0 { format!(", {} set aside", loss.set_aside) } else { String::new() };
            format!("complete as far as can be known ({flows} with evidence{aside})")
        }
        (true, false) => format!("not complete: {}", outcome.reasons.join("; ")),
    }
}

/// A moment in UTC, to the millisecond.
fn time(ns: u64) -> String {
    match Timestamp::from_nanosecond(ns.into()) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{ns} ns since 1970"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Ledger, Outcome, Tcp};
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
            acked_unseen_bytes: lost * 1000,
            acked_unseen_packets_estimate: lost,
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
        let lost = "100 packets lost here between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:21.500Z:";
        for (drops, place) in [
            (None, Place::Unknown),
            (Some(0), Place::BeforeIt),
            (Some(100), Place::ThisMachine),
            (Some(10), Place::Unknown),
            // At least the lower bound, and less than half of the estimate.
            (Some(30), Place::Unknown),
        ] {
            let found = report(100, drops);
            assert_eq!(found.verdict, format!("{lost} {}", place.words()), "{drops:?}");
            assert!(found.outcome.is_judged && !found.outcome.complete);
        }
        assert!(report(1, None).verdict.starts_with("1 packet lost here"));
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
            Place::of(&report)
        };
        assert_eq!(place(|_| {}), Place::BeforeIt);
        let of_ledger = |change: fn(&mut Ledger)| {
            let mut report = report(100, Some(0));
            report.outcome.ledger.as_mut().into_iter().for_each(change);
            Place::of(&report)
        };
        assert_eq!(of_ledger(|ledger| ledger.covers_all = false), Place::Unknown);
        assert_eq!(of_ledger(|ledger| ledger.epb_dropcount = 500), Place::ThisMachine);
        assert_eq!(place(|it| it.tcp.loss.loss_ratio = Some(0.8)), Place::Unknown);
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
        let fields: [fn(&mut LossReport) -> &mut u64; 3] =
            [|it| &mut it.fins_unseen, |it| &mut it.leaps_confirmed, |it| &mut it.untracked_bytes];
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
            "complete as far as can be known (3 flows with evidence, 5000 set aside)"
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
        let expected = "107 packets lost here between 2023-11-14T22:13:20.000Z and 2023-11-14T22:13:23.000Z:";
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
