//! Noise of the machine around a measurement: core time that the host stole, and time that threads waited for a core.
//!
//! A claim about time holds only on a machine that gives a thread its core. Whether it did is measured, not assumed:
//! a run is repeated only when the kernel counted noise in it, so a claim that fails on a quiet machine fails at once.

use super::skip;
use std::fmt;
use std::time::Instant;

/// Share of core time stolen by the host from which on a run is disturbed: 2 ms of a second on each core.
const STOLEN_MAX: f64 = 0.002;
/// Share of the time in which a thread waited for a core from which on a run is disturbed.
const WAITED_MAX: f64 = 0.1;
/// The most runs of one measurement.
const RUNS_MAX: usize = 6;

/// Counters of the kernel at the start of a run.
#[derive(Debug)]
pub struct Noise {
    begun: Instant,
    counters: Counters,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counters {
    /// All ticks of all cores since boot, and those of them that the host took (proc_stat(5)).
    ticks: u64,
    stolen: u64,
    /// Time since boot in which at least one thread waited for a core, µs (Documentation/accounting/psi.rst).
    waited_us: Option<u64>,
    /// That time as a share of the last ten seconds. The kernel brings both up to date every two seconds only, so a
    /// short run is judged by the time before it too.
    waited: f64,
}

/// Noise in one run, as shares of its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disturbance {
    /// Core time that the host took.
    pub stolen: f64,
    /// Time in which at least one thread waited for a core; 0 where the kernel does not count it.
    pub waited: f64,
}

impl Noise {
    /// Starts to watch.
    pub fn watch() -> Self {
        Self { begun: Instant::now(), counters: Counters::read() }
    }

    /// Returns the noise since the start.
    pub fn so_far(&self) -> Disturbance {
        Counters::read().since(&self.counters, self.begun.elapsed().as_secs_f64())
    }
}

impl Counters {
    fn read() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/stat"), &read("/proc/pressure/cpu"))
    }

    fn parse(stat: &str, pressure: &str) -> Self {
        let cores = stat.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is part of user.
        let ticks: Vec<u64> =
            cores.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        let word = |name: &str| pressure.split_whitespace().find_map(|word| word.strip_prefix(name));
        Self {
            ticks: ticks.iter().sum(),
            stolen: ticks.get(7).copied().unwrap_or(0),
            waited_us: word("total=").and_then(|word| word.parse().ok()),
            waited: word("avg10=")
                .and_then(|word| word.parse().ok())
                .map_or(0.0, |percent: f64| percent / 100.0),
        }
    }

    fn since(&self, before: &Self, seconds: f64) -> Disturbance {
        let ticks = self.ticks.saturating_sub(before.ticks).max(1);
        let waited_us =
            self.waited_us.zip(before.waited_us).map_or(0, |(now, then)| now.saturating_sub(then));
        Disturbance {
            stolen: self.stolen.saturating_sub(before.stolen) as f64 / ticks as f64,
            waited: self.waited.max(waited_us as f64 / 1e6 / seconds.max(1.0)),
        }
    }
}

impl Disturbance {
    /// Returns whether a claim about time may fail because of it.
    pub fn is_noisy(&self) -> bool {
        self.stolen > STOLEN_MAX || self.waited > WAITED_MAX
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stolen, waited) = (self.stolen * 100.0, self.waited * 100.0);
        write!(
            f,
            "the host stole {stolen:.1} % of the cores, threads waited for one in {waited:.0} % of the time"
        )
    }
}

/// Measures until `claim` holds for a run or fails in a quiet one.
///
/// `run` asserts itself what has to hold on any machine. Six disturbed runs in which the claim failed are a skip.
///
/// # Panics
/// When the claim fails in a run that was not disturbed.
#[track_caller]
pub fn assert_when_quiet<T: fmt::Debug>(test: &str, mut run: impl FnMut() -> T, claim: impl Fn(&T) -> bool) {
    let mut noise = None;
    for _ in 0..RUNS_MAX {
        let watch = Noise::watch();
        let found = run();
        let disturbance = watch.so_far();
        if claim(&found) {
            return;
        }
        assert!(disturbance.is_noisy(), "{test}: on a quiet machine ({disturbance}): {found:?}");
        noise = Some(disturbance);
    }
    let noise = noise.expect("six runs");
    skip(test, &format!("the cores were not free in any of {RUNS_MAX} runs: {noise}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 100 700 50 20 20 10 5 0\ncpu0 1 2 3\n";
    const PRESSURE: &str = "some avg10=5.00 avg60=0.00 avg300=0.00 total=5000\nfull avg10=0.00 total=7\n";

    #[test]
    fn counters_are_read_and_become_shares() {
        let before = Counters::parse(STAT, PRESSURE);
        assert_eq!(before, Counters { ticks: 1000, stolen: 10, waited_us: Some(5000), waited: 0.05 });
        let after = Counters { ticks: 2000, stolen: 20, waited_us: Some(205_000), ..before };
        let found = after.since(&before, 2.0);
        assert_eq!(found, Disturbance { stolen: 0.01, waited: 0.1 });
        assert!(found.is_noisy() && !Disturbance { stolen: 0.001, ..found }.is_noisy());
        assert!(Counters { waited: 0.2, ..before }.since(&before, 1.0).is_noisy());
        let silent = Counters { waited_us: None, waited: 0.0, ..before };
        assert_eq!(silent.since(&before, 1.0), Disturbance { stolen: 0.0, waited: 0.0 });
    }

    #[test]
    fn a_claim_that_holds_is_run_once() {
        let mut runs = 0;
        assert_when_quiet("once", || runs += 1, |()| true);
        assert_eq!(runs, 1);
    }
}
