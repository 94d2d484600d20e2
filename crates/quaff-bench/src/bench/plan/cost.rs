//! Estimates the cost of a plan: runs, duration, disk space.

use super::{Amount, Plan, Rate, Sweep, Topology, Wanted};
use quaff_lab::tool::{OWN_TAP, Output};
use quaff_lab::traffic::Size;

/// Assumed rate "as fast as possible", frames/s.
const PPS_MAX: f64 = 1_500_000.0;
/// Overhead of a run, s: start, flush and stop of a capturer, and reading its file. `quick` took 1.5 s on a machine
/// with two busy cores, Stenographer takes 3.
const RUN_SECONDS: f64 = 2.0;
/// Assumed mean frame size of a file, bytes: the file is not read here.
const FILE_BYTES: f64 = 500.0;
/// Overhead of a record in a capture file, bytes.
const RECORD_BYTES: f64 = 64.0;

/// Assumed duration of a run of a file reader, s; the slowest of the presets take several times that.
const READ_SECONDS: f64 = 3.0;

/// Typical number of trials of a search.
const TRIALS: f64 = 12.0;

/// The estimated cost of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Number of points of curves and rows of tables.
    pub cases: u64,
    /// Number of runs without warm-ups.
    pub runs: u64,
    /// Total duration, s.
    pub seconds: f64,
    /// Size of the files of the largest run, bytes.
    pub bytes_max: f64,
}

impl Plan {
    /// Estimates the cost with all tools installed.
    pub fn cost(&self) -> Cost {
        // One warm-up, which is not counted as a run.
        let mut cost = Cost { seconds: RUN_SECONDS, ..Cost::default() };
        for sweep in &self.sweeps {
            let rivals: u64 = self.rivals_of(sweep).map(|name| self.places_of(name)).sum();
            for (size, rate) in sweep.workloads() {
                let (frames, seconds) = sweep.frames(size, rate);
                let runs = rivals * u64::from(self.runs);
                cost.cases += rivals;
                cost.runs += runs;
                // Includes the null calibrations.
                cost.seconds += (runs + self.places()) as f64 * (seconds + RUN_SECONDS);
                cost.bytes_max = cost.bytes_max.max(sweep.bytes(size, frames));
            }
        }
        for reading in &self.readings {
            let runs = reading.readers.len() as u64 * u64::from(self.runs);
            cost.cases += reading.readers.len() as u64;
            cost.runs += runs;
            cost.seconds += runs as f64 * READ_SECONDS;
        }
        for find in &self.finds {
            let rivals = self.named(&find.rivals).count() as f64;
            let (trials, repeats_default) = match find.what {
                Wanted::Max => (TRIALS, 2),
                Wanted::Burst => (TRIALS, 5),
                // Descends in steps until two consecutive rates lose nothing.
                Wanted::Curve => (1.0 / find.width.max(0.01), 1),
            };
            let repeats = f64::from(find.repeats.unwrap_or(repeats_default));
            let all = rivals * find.sizes.len() as f64 * trials * repeats;
            cost.seconds += all * (find.seconds + RUN_SECONDS);
        }
        cost
    }

    /// Number of interfaces, or points of a line, that are measured in turn.
    fn places(&self) -> u64 {
        match &self.bed {
            Topology::Real { receive_on, .. } => receive_on.len() as u64,
            Topology::Line { .. } => 3,
            Topology::Direct | Topology::Span | Topology::Tap => 1,
        }
    }

    /// Number of those at which a tool works: a tap only inside the line, all others only beside it.
    fn places_of(&self, rival: &str) -> u64 {
        match &self.bed {
            Topology::Line { .. } if rival == OWN_TAP => 1,
            Topology::Line { .. } => self.places() - 1,
            _ => self.places(),
        }
    }

    /// The plan's tools in `wanted`, in the order of the tables; all if it is empty.
    fn named<'a>(&'a self, wanted: &'a [String]) -> impl Iterator<Item = &'a str> {
        let is_wanted = |name: &&String| wanted.is_empty() || wanted.contains(name);
        self.rivals.iter().filter(is_wanted).map(String::as_str)
    }

    /// The tools of `sweep` in the order of the tables.
    pub(crate) fn rivals_of<'a>(&'a self, sweep: &'a Sweep) -> impl Iterator<Item = &'a str> {
        self.named(&sweep.rivals)
    }
}

impl Sweep {
    /// Each size at each rate.
    pub fn workloads(&self) -> impl Iterator<Item = (&Size, Rate)> {
        self.sizes.iter().flat_map(|size| self.rates.iter().map(move |rate| (size, *rate)))
    }

    /// Number of frames of a run, and its duration, s.
    fn frames(&self, size: &Size, rate: Rate) -> (f64, f64) {
        let pps = rate.pps(size.mean_bytes().unwrap_or(FILE_BYTES)).unwrap_or(PPS_MAX);
        match self.amount {
            Amount::Frames(frames) => (frames as f64, frames as f64 / pps),
            Amount::Seconds(seconds) => (seconds * pps, seconds),
        }
    }

    fn bytes(&self, size: &Size, frames: f64) -> f64 {
        let mean = size.mean_bytes().unwrap_or(FILE_BYTES);
        let kept = self.setting.snaplen.map_or(mean, |snaplen| mean.min(f64::from(snaplen)));
        match self.setting.output {
            Output::Disk => frames * (kept + RECORD_BYTES) * f64::from(self.setting.capturers),
            Output::Null | Output::Pipe | Output::Screen => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_duration_and_disk_space_are_computed_beforehand() {
        let plan: Plan = toml::from_str(
            r#"
            name = "a"
            title = "A"
            rivals = ["quaff", "tcpdump"]
            runs = 4
            [[sweeps]]
            sizes = [{ bytes = 936 }]
            rates = ["max", { pps = 100_000 }]
            amount = { frames = 1_500_000 }
            [[sweeps]]
            sizes = [{ bytes = 60 }]
            rates = [{ pps = 1000 }]
            amount = { seconds = 2.0 }
            setting = { output = "null" }
            rivals = ["tcpdump"]
            "#,
        )
        .expect("a plan");
        let cost = plan.cost();
        assert_eq!((cost.cases, cost.runs), (5, 20));
        // (2 × 4 + 1) × (1 + 2), the same × (15 + 2), (4 + 1) × (2 + 2), and the warm-up.
        assert!((cost.seconds - (27.0 + 153.0 + 20.0 + 2.0)).abs() < 1e-9, "{cost:?}");
        assert!((cost.bytes_max - 1.5e9).abs() < 1.0, "{cost:?}");
    }
}
