//! The samples of `quaff-testkit`, compiled into the unit tests of this crate.

#[path = "../../quaff-testkit/src/bench_sample.rs"]
mod bench_sample;
#[path = "../../quaff-testkit/src/service_sample.rs"]
mod service_sample;

pub use bench_sample::sample_report;
pub use service_sample::sample_service_report;
