//! Reports of each kind for tests, invented and always the same, with all possible contents, and a lock for tests that
//! measure. Nothing here is compiled into what ships.

mod captures;
mod flows;
mod services;

pub use captures::sample_report;
pub use flows::sample_flow_report;
pub use services::sample_service_report;

#[cfg(test)]
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by the test that measures: two cores allow one measurement at a time.
#[cfg(test)]
static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test of this crate measures.
#[cfg(test)]
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
