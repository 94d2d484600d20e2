//! How a capturer is measured: one run at a time, counted in its file and nowhere else.
//!
//! ```text
//!    generator, core 0                       capturer, core 1
//!   ┌────────────────┐   frames arrive      ┌────────────────┐    files in a
//!   │ quaff generate ├──── on rx0, ────────▶│ tcpdump, quaff ├──▶ directory of
//!   └───────┬────────┘   as from the wire   └───────┬────────┘    their own
//!           │ offered: what rx0 itself counted      │ CPU time: wait4(2)
//!           └───────────────┬───────────────────────┘
//!                 in the file: read and counted by us
//! ```
//!
//! What a tool says about its losses is kept beside that, as its own word.

mod count;
pub mod fio;
mod generator;
mod growth;
pub mod pipeline;
mod place;
mod run;

pub use generator::{Sent, Traffic};
pub use place::{Place, RunDir};
pub use run::{Bench, Cores, Outcome, Stage, Watch};

/// The number in the middle; the mean of the two there when there is an even number of them. `None`
/// for none.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even.is_multiple_of(2) => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
        _ => Some(sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
