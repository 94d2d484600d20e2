//! Random choices that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// A sequence of numbers (xorshift64*, S. Vigna 2016).
pub(crate) struct Draw {
    seed: u64,
    state: u64,
}

impl Draw {
    /// Begins with `QUAFF_SEED`, or with the clock. A test that fails names the seed.
    pub(crate) fn new() -> Self {
        let given =
            std::env::var("QUAFF_SEED").ok().map(|seed| seed.parse().expect("QUAFF_SEED is a number"));
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000;
        let seed = given.unwrap_or_else(clock);
        // Nearby seeds have no common beginning.
        let state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { seed, state }
    }

    /// A number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        least + (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % (most - least + 1)
    }

    /// One of `all`.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.between(0, all.len() as u64 - 1) as usize]
    }

    /// `all` in another order.
    pub(crate) fn shuffled<T: Copy>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for last in (1..all.len()).rev() {
            all.swap(last, self.between(0, last as u64) as usize);
        }
        all
    }
}

impl Drop for Draw {
    #[allow(clippy::print_stderr, reason = "a test that failed by these numbers is repeated with them")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("QUAFF_SEED={} repeats this run", self.seed);
        }
    }
}

/// The number of runs: `QUAFF_RUNS`, or `usual`.
pub(crate) fn runs(usual: usize) -> usize {
    std::env::var("QUAFF_RUNS").map_or(usual, |runs| runs.parse().expect("QUAFF_RUNS is a number"))
}
