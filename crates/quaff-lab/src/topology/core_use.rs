//! The load of each core while frames arrive (`/proc/stat`, proc_stat(5)).
//!
//! A sender needs some time before its first and after its last frame. Counters are therefore sampled throughout, and
//! the window of the frames is found afterwards: the busiest one of the length that the sender reports.

use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{Duration, Instant};

/// The load of each core in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    pub from: Instant,
    pub to: Instant,
    pub cores: Vec<CoreUse>,
}

/// The load of one core as shares of its time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    pub core: usize,
    /// In user mode.
    pub user: f64,
    /// In system calls.
    pub system: f64,
    pub irq: f64,
    pub softirq: f64,
    /// Taken by the host of a virtual machine.
    pub steal: f64,
    pub idle: f64,
}

/// Sampling interval of reports, as in cpusage (PAM 2007).
const SAMPLE: Duration = Duration::from_millis(500);
/// Shortest useful window: the kernel counts in hundredths of a second.
const SPAN_MIN: Duration = Duration::from_millis(100);

/// The time of a core since boot, in hundredths of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    core: usize,
    /// User, system, irq, softirq, steal.
    busy: [u64; 5],
    idle: u64,
}

/// Samples the counters of all cores.
#[derive(Debug)]
pub(super) struct Meter {
    begun: Instant,
    notes: Vec<(Duration, Vec<Ticks>)>,
}

impl Meter {
    /// Takes the first sample.
    pub(super) fn start() -> Self {
        let mut meter = Self { begun: Instant::now(), notes: Vec::new() };
        meter.look();
        meter
    }

    /// Takes a sample if the counters are readable.
    pub(super) fn look(&mut self) {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let ticks = read(&text);
        if !ticks.is_empty() {
            self.notes.push((self.begun.elapsed(), ticks));
        }
    }

    /// Returns the load of each core, and samples of it, over the busiest window of length `span`.
    pub(super) fn finish(mut self, span: Duration) -> (Vec<CoreUse>, Vec<Sampled>) {
        self.look();
        let Some((from, to)) = busiest(&self.notes, span) else { return (Vec::new(), Vec::new()) };
        let all = shares(&self.notes[from].1, &self.notes[to].1);
        (all, samples(self.begun, &self.notes[from..=to]))
    }
}

/// Parses the lines of single cores: `cpu0 user nice system idle iowait irq softirq steal …`.
fn read(text: &str) -> Vec<Ticks> {
    let core = |line: &str| {
        let mut words = line.split_whitespace();
        let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let n: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| n.get(index).copied().unwrap_or(0);
        Some(Ticks { core, busy: [at(0) + at(1), at(2), at(5), at(6), at(7)], idle: at(3) + at(4) })
    };
    text.lines().filter_map(core).collect()
}

/// The two samples, about `span` apart, between which the cores were busiest; `None` if the span is too short.
fn busiest(notes: &[(Duration, Vec<Ticks>)], span: Duration) -> Option<(usize, usize)> {
    let last = notes.last()?.0;
    let span = span.min(last);
    if span < SPAN_MIN {
        return None;
    }
    let windows = (0..notes.len()).filter_map(|from| {
        let to = from + notes[from..].iter().position(|note| note.0 >= notes[from].0 + span)?;
        Some((from, to))
    });
    let work =
        |&(from, to): &(usize, usize)| busy_ticks(&notes[to].1).saturating_sub(busy_ticks(&notes[from].1));
    windows.max_by_key(work)
}

fn busy_ticks(cores: &[Ticks]) -> u64 {
    cores.iter().flat_map(|core| core.busy).sum()
}

fn shares(from: &[Ticks], to: &[Ticks]) -> Vec<CoreUse> {
    let share = |(from, to): (&Ticks, &Ticks)| {
        // A counter may decrease by a tick (proc_stat(5) on idle and iowait).
        let did = |from: u64, to: u64| to.saturating_sub(from) as f64;
        let (busy, idle) =
            ([0, 1, 2, 3, 4].map(|at| did(from.busy[at], to.busy[at])), did(from.idle, to.idle));
        let sum = (busy.iter().sum::<f64>() + idle).max(1.0);
        let [user, system, irq, softirq, steal] = busy.map(|ticks| ticks / sum);
        CoreUse { core: to.core, user, system, irq, softirq, steal, idle: idle / sum }
    };
    from.iter().zip(to).filter(|(from, to)| from.core == to.core).map(share).collect()
}

fn samples(begun: Instant, notes: &[(Duration, Vec<Ticks>)]) -> Vec<Sampled> {
    let mut samples = Vec::new();
    let Some(mut from) = notes.first() else { return samples };
    for note in notes {
        if note.0 >= from.0 + SAMPLE {
            let cores = shares(&from.1, &note.1);
            samples.push(Sampled { from: begun + from.0, to: begun + note.0, cores });
            from = note;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(core: usize, busy: u64, idle: u64) -> Ticks {
        Ticks { core, busy: [busy, 0, 0, 0, 0], idle }
    }

    #[test]
    fn the_lines_of_cores_are_read() {
        let text =
            "cpu  99 9 9 9 9 9 9 9 0 0\ncpu0 10 1 20 300 4 5 60 7 0 0\ncpu1 1 2 3\nintr 5 cpu7\nctxt 9\n";
        let zero = Ticks { core: 0, busy: [11, 20, 5, 60, 7], idle: 304 };
        let one = Ticks { core: 1, busy: [3, 3, 0, 0, 0], idle: 0 };
        assert_eq!(read(text), [zero, one]);
        assert!(read("").is_empty());
        assert!(!read(&fs::read_to_string("/proc/stat").unwrap()).is_empty());
    }

    #[test]
    fn the_time_in_which_frames_came_is_found() {
        // Idle for a second, busy for a second, idle for a second, sampled every 100 ms.
        let note = |i: u64| {
            let busy = i.saturating_sub(10).min(10) * 10;
            (Duration::from_millis(i * 100), vec![ticks(0, busy, i * 10 - busy), ticks(1, 0, i * 10)])
        };
        let notes: Vec<_> = (0..=30).map(note).collect();
        let (from, to) = busiest(&notes, Duration::from_secs(1)).expect("long enough");
        assert_eq!((from, to), (10, 20));
        let cores = shares(&notes[from].1, &notes[to].1);
        assert_eq!((cores[0].user, cores[0].idle, cores[1].idle), (1.0, 0.0, 1.0));
        let begun = Instant::now();
        let samples = samples(begun, &notes[from..=to]);
        let user: Vec<_> = samples.iter().map(|sample| [0, 1].map(|core| sample.cores[core].user)).collect();
        assert_eq!(user, [[1.0, 0.0], [1.0, 0.0]]);
        assert_eq!(samples[1].to - begun, Duration::from_secs(2));
        assert_eq!(busiest(&notes, Duration::from_millis(50)), None);
        let (from, to) = busiest(&notes, Duration::from_secs(9)).expect("all there is");
        assert_eq!((from, to), (0, 30));
    }

    #[test]
    fn a_core_that_goes_meanwhile_is_left_out() {
        let cores = shares(&[ticks(0, 1, 1), ticks(1, 1, 1)], &[ticks(0, 2, 2)]);
        assert_eq!(cores.len(), 1);
    }
}
