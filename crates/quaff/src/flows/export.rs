//! The exporter: takes the lists of all lanes, and passes them to the sinks. It never meters and never encodes.

use super::sinks::{SinkCounters, SinkReport, Sinks};
use crate::Result;
use crate::output::{Records, RecordsInlet};
use quaff_os::Wakeup;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a list.
const LOOK: Duration = Duration::from_millis(20);
/// Interval at which the command line gets the counters of the sinks.
const COUNT: Duration = Duration::from_millis(250);
/// Time that sinks have at the end for what they were given.
const END: Duration = Duration::from_secs(10);

/// The counters of the sinks, which the exporter updates and others read.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCounters(Arc<Mutex<Vec<SinkCounters>>>);

impl SharedCounters {
    fn set(&self, counters: Vec<SinkCounters>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    pub(super) fn get(&self) -> Vec<SinkCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The results of the exporter.
#[derive(Debug, Default)]
pub(super) struct Exported {
    pub(super) sinks: Vec<SinkReport>,
}

/// The exporter, which runs on its own thread.
pub(super) struct Exporter {
    inlets: Vec<RecordsInlet>,
    sinks: Sinks,
    wakeup: Wakeup,
    counters: SharedCounters,
    /// Lists that sinks still read, with the lanes to which they return.
    lent: VecDeque<(usize, Arc<Records>)>,
    counted: Instant,
}

impl Exporter {
    /// `wakeup` is signalled by the lanes.
    pub(super) fn new(inlets: Vec<RecordsInlet>, sinks: Sinks, wakeup: Wakeup) -> Self {
        let (counters, lent, counted) = (SharedCounters::default(), VecDeque::new(), Instant::now());
        Self { inlets, sinks, wakeup, counters, lent, counted }
    }

    pub(super) fn counters(&self) -> SharedCounters {
        self.counters.clone()
    }

    /// Runs until all lanes have ended and the sinks have what they take.
    pub(super) fn run(mut self) -> Result<Exported> {
        loop {
            let passed = self.pass_on();
            self.recycle();
            if self.counted.elapsed() >= COUNT {
                self.count();
            }
            if passed {
                continue;
            }
            if self.inlets.iter().all(RecordsInlet::has_ended) {
                break;
            }
            self.wakeup.wait(LOOK)?;
        }
        self.count();
        Ok(Exported { sinks: self.sinks.stop(END) })
    }

    /// Passes a list of each lane on; returns whether there was one.
    fn pass_on(&mut self) -> bool {
        let mut passed = false;
        for (lane, inlet) in self.inlets.iter_mut().enumerate() {
            let Ok(list) = inlet.inbound.pop() else { continue };
            let list = Arc::new(list);
            self.sinks.send(list.clone());
            self.lent.push_back((lane, list));
            passed = true;
        }
        passed
    }

    /// Returns the lists that no sink reads any longer, the oldest first.
    fn recycle(&mut self) {
        while let Some((lane, list)) = self.lent.pop_front() {
            match Arc::try_unwrap(list) {
                Ok(mut list) => {
                    list.clear();
                    // The lane keeps so many only; others are freed.
                    drop(self.inlets[lane].free.push(list));
                }
                Err(list) => {
                    self.lent.push_front((lane, list));
                    return;
                }
            }
        }
    }

    fn count(&mut self) {
        self.counted = Instant::now();
        self.counters.set(self.sinks.counters());
    }
}
