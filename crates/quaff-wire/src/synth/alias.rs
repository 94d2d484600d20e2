//! Weighted random selection in constant time, independent of the number of items.
//!
//! Walker's alias method with Vose's construction (1991), in integers: an item of weight w out of W is drawn with
//! probability w / W exactly, except for the generator's own bias.

use super::rng::Rng;

#[derive(Debug, Clone)]
pub(super) struct Alias {
    /// Values below this select the column itself, others its alias; out of `total`.
    limits: Vec<u64>,
    aliases: Vec<u32>,
    total: u64,
}

impl Alias {
    /// Creates the tables; `None` if all weights are 0, their sum exceeds 2^64 - 1, or there are more than 2^32 of
    /// them.
    pub(super) fn new(weights: &[u64]) -> Option<Self> {
        let total = weights.iter().try_fold(0u64, |sum, weight| sum.checked_add(*weight))?;
        let count = u32::try_from(weights.len()).ok().filter(|_| total > 0)?;
        // Scaled such that a column of average weight has the height `total`.
        let mut heights: Vec<u128> =
            weights.iter().map(|weight| u128::from(*weight) * u128::from(count)).collect();
        let is_small = |height: u128| height < u128::from(total);
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|at| is_small(heights[*at as usize]));
        let mut limits = vec![total; weights.len()];
        let mut aliases: Vec<u32> = (0..count).collect();
        while let (Some(low), Some(high)) = (small.pop(), large.pop()) {
            let height = heights[low as usize];
            limits[low as usize] = height as u64;
            aliases[low as usize] = high;
            let left = &mut heights[high as usize];
            *left -= u128::from(total) - height;
            if is_small(*left) { small.push(high) } else { large.push(high) }
        }
        Some(Self { limits, aliases, total })
    }

    /// Draws the index of a weight.
    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        let column = rng.below(self.limits.len() as u64) as usize;
        if rng.below(self.total) < self.limits[column] { column } else { self.aliases[column] as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;
    use proptest::prelude::*;

    /// The share of each item in the tables, out of `total` * columns.
    fn shares(alias: &Alias) -> Vec<u128> {
        let mut shares = vec![0; alias.limits.len()];
        for (column, limit) in alias.limits.iter().enumerate() {
            shares[column] += u128::from(*limit);
            shares[alias.aliases[column] as usize] += u128::from(alias.total - limit);
        }
        shares
    }

    proptest! {
        #[test]
        fn every_weight_has_exactly_its_share(weights in prop::collection::vec(0u64..1 << 40, 1..60)) {
            let count = weights.len() as u128;
            match Alias::new(&weights) {
                None => prop_assert!(weights.iter().all(|weight| *weight == 0)),
                Some(alias) => {
                    let expected: Vec<_> = weights.iter().map(|weight| u128::from(*weight) * count).collect();
                    prop_assert_eq!(shares(&alias), expected);
                }
            }
        }
    }

    #[test]
    fn values_without_weight_are_never_drawn() {
        let alias = Alias::new(&[0, 5, 0, 1]).unwrap();
        let mut rng = Rng::new(3);
        let mut seen = [0; 4];
        for _ in 0..6000 {
            seen[alias.draw(&mut rng)] += 1;
        }
        assert_eq!((seen[0], seen[2]), (0, 0));
        assert!((4800..5200).contains(&seen[1]), "{seen:?}");
    }

    #[test]
    fn weights_that_cannot_be_are_refused() {
        assert!(Alias::new(&[]).is_none());
        assert!(Alias::new(&[0, 0]).is_none());
        assert!(Alias::new(&[u64::MAX, 1]).is_none());
        assert!(Alias::new(&[u64::MAX]).is_some());
    }
}
