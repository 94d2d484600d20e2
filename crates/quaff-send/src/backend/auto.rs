//! The backend that measures others on the first frames of the run and continues with the fastest.
//!
//! Each backend sends the next frames of the run for 100 ms. It is flushed before the next one starts, so the order of
//! frames is kept. It never sends frames that are not of the run.

use super::kind::{Backend, BackendReport, TxBackend, frame_bytes_max};
use quaff_os::clock::steady_ns;
use quaff_os::rtnl::Link;
use quaff_os::xdp::FRAME_BYTES_MAX;
use quaff_os::{Error, Result};

/// Duration of a trial, counting time inside the backend's calls, ns.
const TRIAL_NS: u64 = 100_000_000;
/// Factor by which a backend must be faster than a simpler one to be preferred.
const MARGIN: f64 = 1.05;
/// The candidates, simplest first; each keeps the order of all frames.
const KINDS: [TxBackend; 3] = [TxBackend::Sendmmsg, TxBackend::AfXdpQueue0, TxBackend::TxRing];

/// Opens a backend on an interface.
type Open = fn(TxBackend, &Link) -> Result<Box<dyn Backend>>;

/// A backend with its measurement.
struct Trial {
    backend: Box<dyn Backend>,
    frames: u64,
    busy_ns: u64,
    /// True if the backend refused a frame that another one accepts.
    is_out: bool,
}

/// Uses several backends in turn, then the fastest.
pub(super) struct AutoBackend {
    trials: Vec<Trial>,
    current: usize,
    /// Time since which the current backend has had no room, ns; waiting counts as its time.
    full_ns: Option<u64>,
    is_decided: bool,
    remarks: Vec<String>,
    /// Counts of closed backends.
    closed: BackendReport,
}

impl AutoBackend {
    /// Opens all backends that the interface supports, each by `open`.
    pub(super) fn open(link: &Link, open: Open) -> Result<Self> {
        let mut auto = Self::of(vec![open(KINDS[0], link)?]);
        for kind in &KINDS[1..] {
            if *kind == TxBackend::AfXdpQueue0 && frame_bytes_max(link) > FRAME_BYTES_MAX {
                auto.remarks.push(format!("{} carries no frames over {FRAME_BYTES_MAX} bytes", kind.name()));
                continue;
            }
            match open(*kind, link) {
                Ok(backend) => auto.add(backend),
                Err(error) => {
                    auto.remarks.push(format!("{} is not available ({})", kind.name(), error.errno))
                }
            }
        }
        Ok(auto)
    }

    fn of(backends: Vec<Box<dyn Backend>>) -> Self {
        let mut auto = Self {
            trials: Vec::new(),
            current: 0,
            full_ns: None,
            is_decided: false,
            remarks: Vec::new(),
            closed: BackendReport::default(),
        };
        backends.into_iter().for_each(|backend| auto.add(backend));
        auto
    }

    fn add(&mut self, backend: Box<dyn Backend>) {
        self.trials.push(Trial { backend, frames: 0, busy_ns: 0, is_out: false });
    }

    /// Ends the current trial: starts the next one, or decides.
    fn end_trial(&mut self) -> Result<()> {
        let trial = &mut self.trials[self.current];
        let begun_ns = steady_ns();
        trial.backend.flush()?;
        trial.busy_ns += steady_ns() - begun_ns;
        self.remarks.push(format!("{} {:.0} kpps", trial.backend.report().name, trial.pps() / 1e3));
        self.next();
        Ok(())
    }

    /// Excludes the current backend, which refused a frame; the next one gets the same frames.
    fn rule_out(&mut self, error: &Error) -> Result<()> {
        let trial = &mut self.trials[self.current];
        trial.is_out = true;
        trial.backend.flush().ok();
        self.remarks.push(format!("{} does not work here ({})", trial.backend.report().name, error.errno));
        self.next();
        Ok(())
    }

    fn next(&mut self) {
        self.full_ns = None;
        if self.current + 1 < self.trials.len() {
            self.current += 1;
        } else {
            self.decide();
        }
    }

    /// Keeps the fastest backend and closes the others.
    fn decide(&mut self) {
        let mut best = 0;
        for at in 1..self.trials.len() {
            if !self.trials[at].is_out && self.trials[at].pps() > self.trials[best].pps() * MARGIN {
                best = at;
            }
        }
        let kept = self.trials.swap_remove(best);
        for trial in self.trials.drain(..) {
            self.closed.add(&trial.backend.report());
        }
        self.trials.push(kept);
        self.current = 0;
        self.is_decided = true;
    }
}

impl Trial {
    fn pps(&self) -> f64 {
        self.frames as f64 * 1e9 / self.busy_ns.max(1) as f64
    }
}

impl Backend for AutoBackend {
    fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
        if self.is_decided {
            return self.trials[self.current].backend.send(frames);
        }
        if self.trials[self.current].busy_ns >= TRIAL_NS {
            self.end_trial()?;
        }
        let trial = &mut self.trials[self.current];
        // Waiting for room counts; otherwise a backend that only fills a ring seems faster than the wire.
        let begun_ns = self.full_ns.take().unwrap_or_else(steady_ns);
        let sent = trial.backend.send(frames);
        let now_ns = steady_ns();
        trial.busy_ns += now_ns - begun_ns;
        self.full_ns = matches!(sent, Ok(0)).then_some(now_ns);
        match sent {
            Ok(taken) => {
                trial.frames += taken as u64;
                Ok(taken)
            }
            // The simplest backend accepts every frame that can be sent; others are excluded at the first refusal.
            Err(error) if self.current > 0 => self.rule_out(&error).map(|()| 0),
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.trials[self.current].backend.flush()
    }

    fn report(&self) -> BackendReport {
        let current = self.trials[self.current].backend.report();
        let mut report = BackendReport { name: current.name.clone(), ..self.closed.clone() };
        for trial in &self.trials {
            report.add(&trial.backend.report());
        }
        let verdict = match (self.is_decided, self.remarks.is_empty()) {
            (true, _) => format!("fastest of: {}", self.remarks.join(", ")),
            (false, true) => "the run ended before others were tried".to_owned(),
            (false, false) => format!("the run ended before all were tried; {}", self.remarks.join(", ")),
        };
        report.remark = Some(verdict);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::Errno;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Sleeps for each frame and records its number. With 0 it refuses all frames.
    struct Fake {
        name: &'static str,
        frame_us: u64,
        wire: Arc<Mutex<Vec<u8>>>,
        flushed: Arc<AtomicU64>,
    }

    impl Backend for Fake {
        fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
            if self.frame_us == 0 {
                return Err(Error::new("send", std::io::Error::from_raw_os_error(Errno::EMSGSIZE as i32)));
            }
            let mut taken = 0;
            for frame in frames.take(20) {
                std::thread::sleep(Duration::from_micros(self.frame_us));
                self.wire.lock().unwrap().push(frame[0]);
                taken += 1;
            }
            Ok(taken)
        }

        fn flush(&mut self) -> Result<()> {
            self.flushed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn report(&self) -> BackendReport {
            BackendReport { refused: 1, ..BackendReport::new(self.name) }
        }
    }

    fn auto(frame_us: [(&'static str, u64); 3]) -> (AutoBackend, Arc<Mutex<Vec<u8>>>, Arc<AtomicU64>) {
        let (wire, flushed) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicU64>::default());
        let backends = frame_us.map(|(name, frame_us)| {
            let (wire, flushed) = (wire.clone(), flushed.clone());
            Box::new(Fake { name, frame_us, wire, flushed }) as Box<dyn Backend>
        });
        (AutoBackend::of(backends.into()), wire, flushed)
    }

    fn send(auto: &mut AutoBackend, numbers: &mut u8) {
        let frames: Vec<_> = (0..20).map(|at| [numbers.wrapping_add(at)]).collect();
        let taken = auto.send(&mut frames.iter().map(|frame| &frame[..])).unwrap();
        *numbers = numbers.wrapping_add(taken as u8);
    }

    #[test]
    fn the_fastest_is_kept_and_no_frame_is_lost_or_overtaken() {
        let (mut auto, wire, flushed) = auto([("slow", 2000), ("fast", 200), ("medium", 1000)]);
        let mut numbers = 0;
        while !auto.is_decided {
            send(&mut auto, &mut numbers);
        }
        let report = auto.report();
        assert_eq!(
            (report.name.as_str(), report.refused),
            ("fast", 3),
            "counts of closed backends are included"
        );
        assert!(report.remark.unwrap().starts_with("fastest of: slow "));
        assert_eq!(flushed.load(Ordering::Relaxed), 3);
        assert_eq!(auto.trials.len(), 1);
        let wire = wire.lock().unwrap();
        assert!(wire.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
        assert_eq!(*wire.last().unwrap(), numbers.wrapping_sub(1));
    }

    #[test]
    fn the_simplest_is_kept_when_others_are_hardly_faster() {
        for (same_us, kept) in [(990, "plain"), (960, "plain"), (940, "same")] {
            let (mut auto, ..) = auto([("plain", 1000), ("same", same_us), ("slow", 2000)]);
            for (trial, frame_us) in auto.trials.iter_mut().zip([1000, same_us, 2000]) {
                (trial.frames, trial.busy_ns) = (100, 100 * frame_us * 1000);
            }
            auto.decide();
            assert_eq!(auto.report().name, kept, "{same_us} µs a frame");
        }
    }

    #[test]
    fn a_backend_that_refuses_frames_is_excluded_without_loss() {
        for backends in
            [[("plain", 1000), ("deaf", 0), ("slow", 2000)], [("plain", 1000), ("slow", 2000), ("deaf", 0)]]
        {
            let (mut auto, wire, _) = auto(backends);
            let mut numbers = 0;
            while !auto.is_decided {
                send(&mut auto, &mut numbers);
            }
            assert_eq!(auto.report().name, "plain");
            assert!(auto.report().remark.unwrap().contains("deaf does not work here"));
            let wire = wire.lock().unwrap();
            assert!(wire.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
            assert_eq!(*wire.last().unwrap(), numbers.wrapping_sub(1));
        }
    }

    #[test]
    fn a_short_run_reports_that_the_choice_is_open() {
        let (mut auto, ..) = auto([("plain", 1), ("other", 1), ("slow", 1)]);
        send(&mut auto, &mut 0);
        assert_eq!(auto.report().remark.as_deref(), Some("the run ended before others were tried"));
        assert_eq!(auto.report().name, "plain");
    }
}
