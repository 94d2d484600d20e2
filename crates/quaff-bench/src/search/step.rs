//! The next value to try: outwards in growing steps until there is a bound on either side, then the middle. Shared by
//! searches for loads and for bursts.

use super::Bounds;

/// The largest step outwards, as a share.
const STEP_MAX: f64 = 0.5;

/// The results so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) bounds: Bounds,
    /// Number of good values: each makes the next step up larger.
    pub(super) goods: usize,
    /// Number of bad values: each makes the next step down larger.
    pub(super) bads: usize,
}

/// The range of the search, and its accuracy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
    /// Width at which the search ends: (upper − lower) / upper.
    pub(super) width: f64,
}

/// The next whole number to try; `None` when the bounds are close enough, or at the end of the range.
pub(super) fn next(known: &Known, range: &Range) -> Option<f64> {
    let grown = |times: usize| (range.width * 2f64.powi(times.min(64) as i32)).min(STEP_MAX);
    match (known.bounds.lower, known.bounds.upper) {
        (None, None) => Some(range.max),
        (Some(lower), None) if lower >= range.max => None,
        (Some(lower), None) => {
            // At least one more: small numbers grow, too.
            Some((lower / (1.0 - grown(known.goods))).round().max(lower + 1.0).min(range.max))
        }
        (None, Some(upper)) if upper <= range.min => None,
        (None, Some(upper)) => {
            Some((upper * (1.0 - grown(known.bads))).round().min(upper - 1.0).max(range.min))
        }
        (Some(lower), Some(upper)) => {
            // The geometric mean, since the width is a ratio.
            let middle = (lower * upper).sqrt().round();
            let wide = (upper - lower) / upper > range.width;
            (wide && lower < middle && middle < upper).then_some(middle)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range { min: 100.0, max: 10_000.0, width: 0.1 };

    fn known(lower: Option<f64>, upper: Option<f64>, goods: usize, bads: usize) -> Known {
        Known { bounds: Bounds { lower, upper }, goods, bads }
    }

    #[test]
    fn steps_grow_outwards_and_end_at_the_range() {
        assert_eq!(next(&known(Some(800.0), None, 1, 0), &RANGE), Some(1000.0));
        assert_eq!(next(&known(Some(1000.0), None, 2, 0), &RANGE), Some(1667.0));
        assert_eq!(next(&known(Some(9000.0), None, 3, 0), &RANGE), Some(10_000.0));
        assert_eq!(next(&known(Some(10_000.0), None, 4, 0), &RANGE), None);
        assert_eq!(next(&known(None, Some(1000.0), 0, 1), &RANGE), Some(800.0));
        assert_eq!(next(&known(None, Some(800.0), 0, 9), &RANGE), Some(400.0));
        assert_eq!(next(&known(None, Some(150.0), 0, 9), &RANGE), Some(100.0));
        assert_eq!(next(&known(None, Some(100.0), 0, 9), &RANGE), None);
    }

    #[test]
    fn between_two_bounds_is_the_middle_of_ratios() {
        assert_eq!(next(&known(Some(400.0), Some(900.0), 1, 1), &RANGE), Some(600.0));
        assert_eq!(next(&known(Some(900.0), Some(1000.0), 1, 1), &RANGE), None);
        // No whole number lies between.
        let fine = Range { width: 1e-9, ..RANGE };
        assert_eq!(next(&known(Some(900.0), Some(901.0), 1, 1), &fine), None);
    }

    #[test]
    fn small_numbers_move_too() {
        let small = Range { min: 1.0, max: 5.0, width: 0.01 };
        assert_eq!(next(&known(Some(1.0), None, 1, 0), &small), Some(2.0));
        assert_eq!(next(&known(None, Some(2.0), 0, 1), &small), Some(1.0));
    }
}
