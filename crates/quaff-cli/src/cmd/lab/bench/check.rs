//! What must hold, and whether it does: verdicts from outcomes, without running anything.

use crate::show;
use quaff_bench::method::{Outcome, median};
use serde::Serialize;

/// Rivals that are slow must lose more than this at 400 kpps, or the run says nothing, percent.
const SLOW_LOST_PERCENT: f64 = 10.0;
/// Stenographer must lose more than this at full speed, percent.
const STENOGRAPHER_LOST_PERCENT: f64 = 5.0;
/// CPU per packet, ours to the better of the others, at most.
const CPU_RATIO_MAX: f64 = 1.0 / 3.0;
/// Bytes on disk, ours to fio's, at least, when something was lost.
const DISK_RATIO_MIN: f64 = 0.95;
/// CPU without traffic, percent of a core, below.
const IDLE_PERCENT_MAX: f64 = 1.0;

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Check {
    /// Its number.
    pub(super) number: &'static str,
    /// What must hold.
    pub(super) must: String,
    /// What was measured.
    pub(super) measured: String,
    /// Whether it holds; `None` when that could not be measured.
    pub(super) holds: Option<bool>,
}

/// The runs of one capturer on the same traffic.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) runs: Vec<Outcome>,
    /// Why there are no runs, or not all.
    pub(super) failed: Option<String>,
}

impl Series {
    pub(super) fn median(&self, of: impl Fn(&Outcome) -> f64) -> Option<f64> {
        median(&self.runs.iter().map(of).collect::<Vec<_>>())
    }

    pub(super) fn lost_percent(&self) -> Option<f64> {
        self.median(Outcome::lost_percent)
    }

    fn is_lossless(&self) -> bool {
        self.failed.is_none() && !self.runs.is_empty() && self.runs.iter().all(|run| run.lost == 0)
    }

    /// "quaff 0 %", or for losses that are not the same in all runs "quaff 0 % (worst 1.2 %)".
    pub(super) fn lost_words(&self) -> String {
        let Some(median) = self.lost_percent() else {
            return format!("{}: {}", self.name, self.failed.as_deref().unwrap_or("not measured"));
        };
        let worst = self.runs.iter().map(Outcome::lost_percent).fold(0.0, f64::max);
        let worst_words = if self.name == "quaff" && worst > median {
            format!(" (worst {})", percent(worst))
        } else {
            String::new()
        };
        format!("{} {}{worst_words}", self.name, percent(median))
    }
}

/// Ours loses nothing in any run; each of the others loses more than so many percent (median).
pub(super) fn lossless(
    number: &'static str,
    traffic: &str,
    ours: &Series,
    others: &[(&Series, f64)],
) -> Check {
    let others_must: Vec<_> =
        others.iter().map(|(series, least)| format!("{} more than {least:.0} %", series.name)).collect();
    let mut must = format!("{traffic}: quaff loses none");
    if !others_must.is_empty() {
        must += &format!("; {}", others_must.join(", "));
    }
    let words: Vec<_> =
        [ours].into_iter().chain(others.iter().map(|(series, _)| *series)).map(Series::lost_words).collect();
    let others_hold: Option<bool> = others
        .iter()
        .map(|(series, least)| series.lost_percent().map(|lost| lost > *least))
        .try_fold(true, |all, one| one.map(|one| all && one));
    Check {
        number,
        must,
        measured: format!("lost: {}", words.join(", ")),
        holds: if ours.is_lossless() { others_hold } else { Some(false) },
    }
}

/// Ours against those that lose at 400 kpps.
pub(super) fn paced(traffic: &str, ours: &Series, others: &[&Series]) -> Check {
    let others: Vec<_> = others.iter().map(|series| (*series, SLOW_LOST_PERCENT)).collect();
    lossless("1", traffic, ours, &others)
}

/// Ours, with the buffers it chooses itself, against Stenographer.
pub(super) fn full_speed(traffic: &str, ours: &Series, stenographer: &Series) -> Check {
    lossless("3", traffic, ours, &[(stenographer, STENOGRAPHER_LOST_PERCENT)])
}

/// None lost; or what was written was as fast as the disk is, and all loss is accounted for.
pub(super) fn long(traffic: &str, ours: &Series, fio_rate: Option<f64>) -> Check {
    let must = format!(
        "{traffic}: none lost, or {:.0} % of fio's bytes/s and each loss in the ledger",
        DISK_RATIO_MIN * 100.0
    );
    let (rate, accounted) =
        (ours.median(Outcome::bytes_per_second), ours.runs.iter().all(|run| run.accounted == Some(true)));
    let mut measured = format!("lost: {}", ours.lost_words());
    if let Some(rate) = rate {
        measured += &format!("; {}/s", show::bytes(rate as u64));
    }
    let ratio = rate.zip(fio_rate).map(|(rate, fio)| rate / fio);
    if let (Some(ratio), Some(fio)) = (ratio, fio_rate) {
        measured += &format!(", {:.0} % of fio's {}/s", ratio * 100.0, show::bytes(fio as u64));
    }
    measured += if accounted { "; ledger agrees" } else { "; ledger does not agree" };
    let holds = match (ours.is_lossless(), ratio) {
        _ if ours.runs.is_empty() => None,
        (true, _) => Some(true),
        (false, Some(ratio)) => Some(ratio >= DISK_RATIO_MIN && accounted),
        (false, None) => None,
    };
    Check { number: "3 long", must, measured, holds }
}

/// CPU per packet where nobody loses. Start-up is told apart: it is paid once, not per packet.
pub(super) fn cpu(traffic: &str, ours: &Series, others: &[&Series]) -> Check {
    let must = format!("{traffic}, nobody loses: CPU per packet at most 1/3 of the better of the others");
    let ns = |series: &Series| series.median(Outcome::cpu_ns_per_frame);
    let startup = |series: &Series| series.median(|run| run.startup_seconds).unwrap_or_default();
    let all: Vec<_> = [ours].into_iter().chain(others.iter().copied()).collect();
    let words = |series: &&Series| match ns(series) {
        Some(ns) => format!("{} {ns:.0} ns (start-up {:.2} s)", series.name, startup(series)),
        None => series.lost_words(),
    };
    let mut measured = all.iter().map(words).collect::<Vec<_>>().join(", ");
    let best = others.iter().filter_map(|series| ns(series)).min_by(f64::total_cmp);
    let ratio = ns(ours).zip(best).map(|(ours, best)| ours / best);
    if let Some(ratio) = ratio {
        measured += &format!(": {ratio:.2}");
    }
    let losers: Vec<_> = all.iter().filter(|series| series.lost_percent() > Some(0.0)).collect();
    if !losers.is_empty() {
        let losers: Vec<_> = losers.iter().map(|series| series.lost_words()).collect();
        measured += &format!("; but lost: {}", losers.join(", "));
        return Check { number: "4", must, measured, holds: None };
    }
    Check { number: "4", must, measured, holds: ratio.map(|ratio| ratio <= CPU_RATIO_MAX) }
}

/// CPU without traffic: seconds used of seconds waited.
pub(super) fn idle(used: f64, of: f64) -> Check {
    let used_percent = 100.0 * used / of;
    Check {
        number: "8",
        must: format!("{of:.0} s without traffic: below {IDLE_PERCENT_MAX:.0} % of a core"),
        measured: format!("quaff {used_percent:.3} %"),
        holds: Some(used_percent < IDLE_PERCENT_MAX),
    }
}

/// A loss never reads as none.
fn percent(percent: f64) -> String {
    match percent {
        0.0 => "0 %".into(),
        p if p < 0.01 => "<0.01 %".into(),
        p if p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_lab::traffic::Traffic;

    const OFFERED: u64 = 1_000_000;

    fn series(name: &str, lost: &[u64]) -> Series {
        let run = |lost: &u64| Outcome {
            rival: name.into(),
            traffic: Traffic::bytes(512, None, OFFERED),
            buffer_mib: None,
            offered: OFFERED,
            seconds: 1.0,
            in_file: OFFERED - lost,
            lost: *lost,
            own_drops: None,
            startup_seconds: 0.0,
            user_seconds: 0.1,
            system_seconds: 0.1,
            bytes: 2_000_000_000,
            writing_seconds: 1.0,
            accounted: Some(true),
        };
        Series { name: name.into(), runs: lost.iter().map(run).collect(), failed: None }
    }

    fn with_cpu(mut series: Series, seconds: f64) -> Series {
        for run in &mut series.runs {
            (run.user_seconds, run.system_seconds) = (seconds, 0.0);
        }
        series
    }

    #[test]
    fn one_lost_frame_in_one_run_is_a_loss() {
        let rival = series("tcpdump", &[300_000, 200_000, 250_000]);
        let good = paced("t", &series("quaff", &[0, 0, 0]), &[&rival]);
        assert_eq!(good.holds, Some(true));
        assert_eq!(good.measured, "lost: quaff 0 %, tcpdump 25.0 %");
        assert_eq!(good.must, "t: quaff loses none; tcpdump more than 10 %");
        let bad = paced("t", &series("quaff", &[0, 1, 0]), &[&rival]);
        assert_eq!(bad.holds, Some(false));
        assert_eq!(bad.measured, "lost: quaff 0 % (worst <0.01 %), tcpdump 25.0 %");
    }

    #[test]
    fn a_rival_that_keeps_up_fails_the_comparison_and_an_absent_one_leaves_it_open() {
        let ours = series("quaff", &[0]);
        assert_eq!(full_speed("t", &ours, &series("stenographer", &[10_000])).holds, Some(false));
        assert_eq!(full_speed("t", &ours, &series("stenographer", &[60_000])).holds, Some(true));
        let absent =
            Series { name: "stenographer".into(), runs: vec![], failed: Some("not installed".into()) };
        let open = full_speed("t", &ours, &absent);
        assert_eq!(
            (open.holds, open.measured.as_str()),
            (None, "lost: quaff 0 %, stenographer: not installed")
        );
    }

    #[test]
    fn without_runs_nothing_holds() {
        let ours = Series { name: "quaff".into(), runs: vec![], failed: None };
        assert_eq!(lossless("2", "t", &ours, &[]).holds, Some(false));
        assert_eq!(long("t", &ours, Some(1.0)).holds, None);
    }

    #[test]
    fn a_full_disk_speed_excuses_a_loss_that_is_accounted_for() {
        let lossy = series("quaff", &[5000]);
        assert_eq!(long("t", &series("quaff", &[0]), None).holds, Some(true));
        assert_eq!(long("t", &lossy, None).holds, None);
        assert_eq!(long("t", &lossy, Some(2.0e9)).holds, Some(true));
        assert_eq!(long("t", &lossy, Some(2.2e9)).holds, Some(false));
        let mut silent = lossy;
        silent.runs[0].accounted = None;
        assert_eq!(long("t", &silent, Some(2.0e9)).holds, Some(false));
    }

    #[test]
    fn cpu_is_held_against_the_better_one_and_only_without_loss() {
        let ours = with_cpu(series("quaff", &[0, 0]), 0.3);
        let (tcpdump, dumpcap) =
            (with_cpu(series("tcpdump", &[0, 0]), 1.0), with_cpu(series("dumpcap", &[0, 0]), 2.0));
        let check = cpu("t", &ours, &[&tcpdump, &dumpcap]);
        assert_eq!(
            (check.holds, check.measured.as_str()),
            (
                Some(true),
                "quaff 300 ns (start-up 0.00 s), tcpdump 1000 ns (start-up 0.00 s), dumpcap 2000 ns (start-up 0.00 s): 0.30"
            )
        );
        assert_eq!(cpu("t", &with_cpu(ours.clone(), 0.34), &[&tcpdump, &dumpcap]).holds, Some(false));
        let loser = with_cpu(series("dumpcap", &[9, 9]), 0.1);
        assert_eq!(cpu("t", &ours, &[&tcpdump, &loser]).holds, None);
    }

    #[test]
    fn idle_is_a_share_of_a_core() {
        assert_eq!(idle(0.29, 30.0).holds, Some(true));
        assert_eq!(idle(0.3, 30.0).holds, Some(false));
    }
}
