//! Packets removed on purpose, so that an estimate of loss can be compared with a loss that is known.

use quaff_wire::flow::mix;
use serde::Serialize;

/// The packets to remove.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Injection {
    /// The share of all packets, 0 to 1.
    pub share: f64,
    /// Packets that are removed one after the other.
    pub burst: u32,
    pub seed: u64,
}

/// The packets that were removed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Injected {
    pub packets: u64,
    pub removed: u64,
    /// `removed / packets`; 0 without packets.
    pub ratio: f64,
    pub burst: u32,
    pub seed: u64,
}

/// Decides about packets one after the other.
#[derive(Debug)]
pub(super) struct Injector {
    plan: Injection,
    /// The probability that a burst begins at a packet outside of bursts, of 2^64.
    begins: u64,
    left: u32,
    packets: u64,
    removed: u64,
}

impl Injector {
    pub(super) fn new(plan: Injection) -> Self {
        let share = plan.share.clamp(0.0, 1.0);
        // A burst follows kept packets of a mean number of (1 - begin) / begin.
        let begin = share / (f64::from(plan.burst.max(1)) * (1.0 - share) + share);
        // A float at or above 2^64 becomes the largest number.
        let begins = if share > 0.0 { (begin * 2f64.powi(64)) as u64 } else { 0 };
        Self { plan, begins, left: 0, packets: 0, removed: 0 }
    }

    /// Returns true if the next packet is removed.
    #[inline]
    pub(super) fn removes(&mut self) -> bool {
        if self.left == 0 && mix(self.plan.seed, self.packets) < self.begins {
            self.left = self.plan.burst.max(1);
        }
        let is_removed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.packets += 1;
        self.removed += u64::from(is_removed);
        is_removed
    }

    pub(super) fn finish(self) -> Injected {
        let Self { plan, packets, removed, .. } = self;
        let ratio = removed as f64 / packets.max(1) as f64;
        Injected { packets, removed, ratio, burst: plan.burst, seed: plan.seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_removed_in_bursts_of_the_length() {
        for (share, burst) in [(0.0, 1), (0.001, 1), (0.05, 1), (0.05, 8), (0.5, 3), (1.0, 1)] {
            let mut injector = Injector::new(Injection { share, burst, seed: 7 });
            let removed: Vec<bool> = (0..400_000).map(|_| injector.removes()).collect();
            let runs = removed.chunk_by(|one, other| one == other).filter(|run| run[0]);
            let lengths: Vec<usize> = runs.map(<[bool]>::len).collect();
            let found = injector.finish();
            assert!((found.ratio - share).abs() <= 0.05 * share.max(0.005), "{found:?}");
            let whole = lengths.iter().filter(|length| length.is_multiple_of(burst as usize)).count();
            assert!(whole + 1 >= lengths.len(), "{found:?}");
        }
    }
}
