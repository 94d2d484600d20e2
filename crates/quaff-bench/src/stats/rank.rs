//! The rank-sum test of Mann and Whitney (1947): do two series of runs differ by more than their spread?
//!
//! It assumes no distribution: losses are zero in most runs and large in a few. The probability is exact, including
//! ties, since five runs are too few for an approximation.

/// Maximum count of numbers in both series together.
pub(crate) const RANKED_MAX: usize = 200;

/// The result of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    /// Number of pairs in which `one` is larger; a tie counts half.
    pub(crate) u: f64,
    /// Two-sided probability of ranks at least this uneven if both series have the same distribution.
    pub(crate) p: f64,
    /// The smallest probability possible for series of these lengths without ties.
    pub(crate) p_min: f64,
}

/// Ranks both series together; `None` if one is empty or both exceed [`RANKED_MAX`].
pub(crate) fn mann_whitney(one: &[f64], other: &[f64]) -> Option<Ranked> {
    let (count, all) = (one.len(), one.len() + other.len());
    if one.is_empty() || other.is_empty() || all > RANKED_MAX {
        return None;
    }
    let ranks = twice_ranks(one, other);
    let sum: usize = ranks[..count].iter().sum();
    // Doubled ranks are whole numbers, also for ties.
    let mean = count * (all + 1);
    let ways = ways(&ranks, count);
    let total: f64 = ways.iter().sum();
    let uneven = |at: usize| at.abs_diff(mean) >= sum.abs_diff(mean);
    let as_uneven: f64 = ways.iter().enumerate().filter(|(at, _)| uneven(*at)).map(|(_, ways)| ways).sum();
    let u = sum as f64 / 2.0 - (count * (count + 1)) as f64 / 2.0;
    Some(Ranked { u, p: as_uneven / total, p_min: (2.0 / total).min(1.0) })
}

/// Doubled ranks of all numbers of `one`, then of `other`; equal numbers share their mean rank.
fn twice_ranks(one: &[f64], other: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    let rank = |number: &f64| {
        let smaller = all.iter().filter(|other| *other < number).count();
        let equal = all.iter().filter(|other| *other == number).count();
        // Ranks smaller + 1 to smaller + equal.
        2 * smaller + equal + 1
    };
    all.iter().map(rank).collect()
}

/// Number of ways in which `count` of the `ranks` have a given sum, indexed by the sum.
fn ways(ranks: &[usize], count: usize) -> Vec<f64> {
    let sum_max: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; sum_max + 1]; count + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for taken in (1..=count).rev() {
            let (fewer, these) = ways.split_at_mut(taken);
            for (at, ways) in these[0].iter_mut().enumerate().skip(rank) {
                *ways += fewer[taken - 1][at - rank];
            }
        }
    }
    ways.swap_remove(count)
}
