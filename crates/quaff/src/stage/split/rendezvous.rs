//! The member that owns a conversation: rendezvous hashing (Thaler and Ravishankar 1998, "highest random weight").
//!
//! Conversations fall into [`SLOTS`] slots. For each slot every member draws random numbers, as many as it has
//! weight, and the highest number of all takes it. A member that leaves takes its numbers with it, so that
//! only its own slots move, each to the member with the second highest; when it returns they return.
//! A table maps slots to members, so a frame costs one lookup however many members there are.
//! Integers only: every machine draws the same numbers.

use quaff_wire::flow::mix;

/// Number of slots: a power of two, large enough that the shares of few members are within a percent of their weights.
const SLOTS: usize = 1 << 16;
/// Largest number of members: a member's number fits a byte.
pub(crate) const MEMBERS_MAX: usize = 250;
/// Largest sum of all weights, in lowest terms.
pub(crate) const WEIGHTS_MAX: u64 = 4096;

/// A slot without a member.
const NO_MEMBER: u8 = u8::MAX;

/// The members of a bundle, and the owner of each slot.
#[derive(Debug, Clone)]
pub(crate) struct Rendezvous {
    seed: u64,
    /// The weights in lowest terms.
    weights: Vec<u64>,
    is_here: Vec<bool>,
    table: Vec<u8>,
}

impl Rendezvous {
    /// A bundle of members with these weights, all of them present; `None` when there are none or too many, when a
    /// weight is 0, or their sum is too large. Bundles in series need different seeds: the same numbers would assign
    /// all frames of a member to one member again.
    pub(crate) fn new(weights: &[u64], seed: u64) -> Option<Self> {
        let common = weights.iter().copied().fold(0, common_divisor);
        let weights: Vec<_> = weights.iter().map(|weight| weight.checked_div(common).unwrap_or(0)).collect();
        let sum = weights.iter().fold(0u64, |sum, weight| sum.saturating_add(*weight));
        if weights.is_empty() || weights.len() > MEMBERS_MAX || weights.contains(&0) || sum > WEIGHTS_MAX {
            return None;
        }
        let is_here = vec![true; weights.len()];
        let mut bundle = Self { seed, weights, is_here, table: vec![NO_MEMBER; SLOTS] };
        bundle.draw(|_| true);
        Some(bundle)
    }

    /// The member that takes the conversation with this hash; `None` when no member is present.
    #[inline]
    pub(crate) fn member(&self, hash: u64) -> Option<usize> {
        let member = self.table[(hash >> (u64::BITS - SLOTS.trailing_zeros())) as usize];
        (member != NO_MEMBER).then_some(member.into())
    }

    /// Removes a member, or adds it again. Slots of other members move only to the one that returns.
    pub(crate) fn set_here(&mut self, member: usize, is_here: bool) {
        if member >= self.weights.len() || self.is_here[member] == is_here {
            return;
        }
        self.is_here[member] = is_here;
        // After a return any slot may belong to that member again.
        self.draw(|owner| is_here || usize::from(owner) == member);
    }

    /// Draws again for the slots whose owner is `wanted`.
    fn draw(&mut self, wanted: impl Fn(u8) -> bool) {
        for slot in 0..SLOTS {
            if wanted(self.table[slot]) {
                self.table[slot] = self.highest(slot as u64);
            }
        }
    }

    fn highest(&self, slot: u64) -> u8 {
        let here = (0..self.weights.len()).filter(|member| self.is_here[*member]);
        let best = here.map(|member| (self.lot(slot, member as u64, self.weights[member]), member)).max();
        best.map_or(NO_MEMBER, |(_, member)| member as u8)
    }

    /// Returns the highest number that a member draws for a slot.
    fn lot(&self, slot: u64, member: u64, weight: u64) -> u64 {
        let begin = mix(mix(self.seed, slot), member);
        (0..weight).map(|lot| mix(begin, lot)).max().unwrap_or(0)
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owners(bundle: &Rendezvous) -> Vec<Option<usize>> {
        (0..SLOTS as u64).map(|slot| bundle.member(slot << 48 | 12345)).collect()
    }

    #[test]
    fn a_bundle_that_cannot_be_is_none() {
        assert!(Rendezvous::new(&[], 0).is_none());
        assert!(Rendezvous::new(&[1, 0], 0).is_none());
        assert!(Rendezvous::new(&[0, 0], 0).is_none());
        assert!(Rendezvous::new(&[1, 4096], 0).is_none());
        assert!(Rendezvous::new(&[u64::MAX, u64::MAX - 1], 0).is_none());
        assert!(Rendezvous::new(&[1 << 40, 1 << 41], 0).is_some(), "2 to 1 in lowest terms is 1 to 2");
        assert!(Rendezvous::new(&[1; MEMBERS_MAX + 1], 0).is_none());
    }

    #[test]
    fn only_a_factor_is_no_difference_and_a_seed_is() {
        let bundle = Rendezvous::new(&[2, 1, 1], 0).unwrap();
        assert!(owners(&bundle) == owners(&Rendezvous::new(&[200, 100, 100], 0).unwrap()));
        let other = owners(&Rendezvous::new(&[2, 1, 1], 1).unwrap());
        let same = owners(&bundle).iter().zip(&other).filter(|(one, other)| one == other).count();
        // By chance: 1/4 + 1/16 + 1/16.
        assert!(same.abs_diff(SLOTS * 6 / 16) < SLOTS / 50, "{same}");
    }

    #[test]
    fn without_members_no_frame_is_taken() {
        let mut bundle = Rendezvous::new(&[1, 1], 0).unwrap();
        let before = owners(&bundle);
        bundle.set_here(0, false);
        assert!(owners(&bundle).iter().all(|owner| *owner == Some(1)));
        bundle.set_here(1, false);
        assert!(owners(&bundle).iter().all(Option::is_none));
        bundle.set_here(1, true);
        bundle.set_here(0, true);
        assert!(owners(&bundle) == before);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn shares_are_by_weight_and_only_who_goes_is_replaced(
            weights in prop::collection::vec(1u64..8, 2..9), seed: u64, gone: prop::sample::Index,
        ) {
            let mut bundle = Rendezvous::new(&weights, seed).unwrap();
            let sum: u64 = weights.iter().sum();
            let owned = owners(&bundle);
            for (member, weight) in weights.iter().enumerate() {
                let slots = owned.iter().filter(|owner| **owner == Some(member)).count();
                // Within five standard deviations for this number of draws.
                let share = *weight as f64 / sum as f64;
                let (mean, deviation) = (SLOTS as f64 * share, (SLOTS as f64 * share * (1.0 - share)).sqrt());
                prop_assert!((slots as f64 - mean).abs() < 5.0 * deviation, "{slots} for {weight} of {sum}");
            }
            let (before, gone) = (owners(&bundle), gone.index(weights.len()));
            bundle.set_here(gone, false);
            let after = owners(&bundle);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(*after != Some(gone));
                prop_assert!(before == after || *before == Some(gone));
            }
            // The slots that the others took over follow the weights too.
            let left = (sum - weights[gone]) as f64;
            for (member, weight) in weights.iter().enumerate().filter(|(member, _)| *member != gone) {
                let share = *weight as f64 / left;
                let slots = after.iter().filter(|owner| **owner == Some(member)).count() as f64;
                let deviation = (SLOTS as f64 * share * (1.0 - share)).sqrt();
                prop_assert!((slots - SLOTS as f64 * share).abs() < 5.0 * deviation.max(1.0));
            }
            bundle.set_here(gone, true);
            prop_assert!(owners(&bundle) == before);
        }
    }
}
