//! The bounds of a search, and its next value: outwards in growing steps until both bounds exist, then the middle.
//! Shared by the searches for loads and for bursts.

use super::Bounds;

/// Largest outward step, as a share.
const STEP_MAX: f64 = 0.5;

/// The class of a value ("Load Classification", RFC 9971).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The value certainly meets the goal.
    Lower,
    /// The value certainly fails the goal.
    Upper,
    /// More trials are needed: no bound moves, and the value is tried again.
    Undecided,
}

/// Range and width of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
    /// (upper − lower) / upper at which the search ends.
    pub(super) width: f64,
}

/// All tried values with their classes, in ascending order.
#[derive(Debug)]
pub(super) struct Seen(Vec<(f64, Bound)>);

impl Seen {
    pub(super) fn of(tried: impl Iterator<Item = f64>, class: impl Fn(f64) -> Bound) -> Self {
        let mut tried: Vec<f64> = tried.collect();
        tried.sort_by(f64::total_cmp);
        tried.dedup();
        Self(tried.into_iter().map(|value| (value, class(value))).collect())
    }

    /// The relevant bounds: the smallest upper one, and the largest lower one below it.
    pub(super) fn bounds(&self) -> Bounds {
        let upper = self.all(Bound::Upper).next();
        let lower = self.all(Bound::Lower).filter(|value| upper.is_none_or(|upper| *value < upper)).last();
        Bounds { lower, upper }
    }

    /// The next whole number to try: the first undecided hint, then a step; `None` if the bounds are close enough, or
    /// at the end of the range.
    pub(super) fn next(&self, hints: &[f64], range: &Range) -> Option<f64> {
        let bounds = self.bounds();
        if bounds.are_close(range.width) {
            return None;
        }
        let is_open = |hint: &f64| {
            bounds.lower.is_none_or(|lower| *hint > lower) && bounds.upper.is_none_or(|upper| *hint < upper)
        };
        let mut hints = hints.iter().map(|hint| hint.round().clamp(range.min, range.max));
        let count = |bound| self.all(bound).count();
        hints.find(is_open).or_else(|| step(bounds, count(Bound::Lower), count(Bound::Upper), range))
    }

    fn all(&self, wanted: Bound) -> impl Iterator<Item = f64> {
        self.0.iter().filter(move |(_, bound)| *bound == wanted).map(|(value, _)| *value)
    }
}

/// The next value from the bounds; each of the `goods` enlarges a step up, each of the `bads` a step down.
fn step(bounds: Bounds, goods: usize, bads: usize, range: &Range) -> Option<f64> {
    let grown = |times: usize| (range.width * 2f64.powi(times.min(64) as i32)).min(STEP_MAX);
    match (bounds.lower, bounds.upper) {
        (None, None) => Some(range.max),
        (Some(lower), None) if lower >= range.max => None,
        (Some(lower), None) => {
            // Moves by at least one, so that small numbers grow, too.
            Some((lower / (1.0 - grown(goods))).round().max(lower + 1.0).min(range.max))
        }
        (None, Some(upper)) if upper <= range.min => None,
        (None, Some(upper)) => Some((upper * (1.0 - grown(bads))).round().min(upper - 1.0).max(range.min)),
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

    fn next(lower: Option<f64>, upper: Option<f64>, [goods, bads]: [usize; 2], range: &Range) -> Option<f64> {
        step(Bounds { lower, upper }, goods, bads, range)
    }

    #[test]
    fn steps_grow_outwards_and_end_at_the_range() {
        assert_eq!(next(Some(800.0), None, [1, 0], &RANGE), Some(1000.0));
        assert_eq!(next(Some(1000.0), None, [2, 0], &RANGE), Some(1667.0));
        assert_eq!(next(Some(9000.0), None, [3, 0], &RANGE), Some(10_000.0));
        assert_eq!(next(Some(10_000.0), None, [4, 0], &RANGE), None);
        assert_eq!(next(None, Some(1000.0), [0, 1], &RANGE), Some(800.0));
        assert_eq!(next(None, Some(800.0), [0, 9], &RANGE), Some(400.0));
        assert_eq!(next(None, Some(150.0), [0, 9], &RANGE), Some(100.0));
        assert_eq!(next(None, Some(100.0), [0, 9], &RANGE), None);
    }

    #[test]
    fn between_two_bounds_is_the_middle_of_ratios() {
        assert_eq!(next(Some(400.0), Some(900.0), [1, 1], &RANGE), Some(600.0));
        assert_eq!(next(Some(900.0), Some(1000.0), [1, 1], &RANGE), None);
        // There is no whole number in between.
        let fine = Range { width: 1e-9, ..RANGE };
        assert_eq!(next(Some(900.0), Some(901.0), [1, 1], &fine), None);
    }

    #[test]
    fn small_numbers_move_too() {
        let small = Range { min: 1.0, max: 5.0, width: 0.01 };
        assert_eq!(next(Some(1.0), None, [1, 0], &small), Some(2.0));
        assert_eq!(next(None, Some(2.0), [0, 1], &small), Some(1.0));
    }
}
