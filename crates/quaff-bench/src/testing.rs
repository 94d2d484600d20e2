//! Samples of `quaff-testkit`, compiled into this crate's unit tests, and a lock for tests that measure.

#[path = "../../quaff-testkit/src/bench_sample.rs"]
mod bench_sample;
#[path = "../../quaff-testkit/src/flow_sample.rs"]
mod flow_sample;
#[path = "../../quaff-testkit/src/service_sample.rs"]
mod service_sample;

pub use bench_sample::sample_report;
pub use flow_sample::sample_flow_report;
pub use service_sample::sample_service_report;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that measures: two cores allow one measurement at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test of this crate measures.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
