//! Selection of packets (RFC 5475): systematic by count, or random from a seed.

use crate::plan::Sampling;
use quaff_wire::flow::mix;

/// Selects packets one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    plan: Sampling,
    /// Packets seen.
    seen: u64,
}

impl Sampler {
    pub(crate) fn new(plan: Sampling) -> Self {
        Self { plan, seen: 0 }
    }

    /// Counts the next packet; true if it is selected.
    #[inline]
    pub(crate) fn picks(&mut self) -> bool {
        let interval = u64::from(self.plan.interval());
        let picks = match self.plan {
            Sampling::All => return true,
            Sampling::Systematic { .. } => self.seen.is_multiple_of(interval),
            // The upper half of a hash of the packet's number, scaled to the interval.
            Sampling::Random { seed, .. } => (mix(seed, self.seen) >> 32) * interval < 1 << 32,
        };
        self.seen += 1;
        picks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(plan: Sampling, packets: u64) -> Vec<u64> {
        let mut sampler = Sampler::new(plan);
        (0..packets).filter(|_| sampler.picks()).collect()
    }

    #[test]
    fn systematic_sampling_picks_the_first_of_each_interval() {
        assert_eq!(picked(Sampling::Systematic { interval: 4 }, 10), [0, 4, 8]);
        assert_eq!(picked(Sampling::Systematic { interval: 0 }, 3), [0, 1, 2]);
        assert_eq!(picked(Sampling::All, 3), [0, 1, 2]);
    }

    #[test]
    fn random_sampling_picks_its_share_and_the_same_each_time() {
        let plan = |seed| Sampling::Random { interval: 10, seed };
        let picks = picked(plan(1), 100_000);
        assert!((9_500..10_500).contains(&picks.len()), "{}", picks.len());
        assert_eq!(picks, picked(plan(1), 100_000));
        assert_ne!(picks, picked(plan(2), 100_000));
        // No pattern by number: about a tenth of the selected numbers has each residue modulo ten.
        let of = |residue| picks.iter().filter(|number| *number % 10 == residue).count();
        assert!((0..10).all(|residue| (850..1150).contains(&of(residue))));
    }
}
