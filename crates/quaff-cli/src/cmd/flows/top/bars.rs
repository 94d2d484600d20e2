//! Bars of the rows of top: their lengths. They are drawn elsewhere.

use crate::units::Choice;

/// The scale of bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bars {
    Linear,
    /// A sixth of the width is a factor of ten.
    Log,
    None,
}

/// Scales by their names in arguments.
pub(super) const BARS: [Choice<Bars>; 3] =
    [("linear", Bars::Linear, ""), ("log", Bars::Log, ""), ("none", Bars::None, "")];

/// Factors of ten from a bar without length to the longest one.
const DECADES: f64 = 6.0;

impl Bars {
    /// The scale that a key chooses next.
    pub(super) fn following(self) -> Self {
        match self {
            Self::Linear => Self::Log,
            Self::Log => Self::None,
            Self::None => Self::Linear,
        }
    }

    /// The length of a bar, where that of `largest` is `width`.
    pub(super) fn length(self, value: u64, largest: u64, width: u16) -> u16 {
        if value == 0 || largest == 0 {
            return 0;
        }
        let share = value as f64 / largest as f64;
        let length = match self {
            Self::Linear => share,
            Self::Log => 1.0 + share.log10() / DECADES,
            Self::None => 0.0,
        };
        (length.clamp(0.0, 1.0) * f64::from(width)).round() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_proportion_or_by_factors_of_ten() {
        let lengths = |bars: Bars| {
            [0, 1, 1000, 250_000, 500_000, 1_000_000, u64::MAX].map(|value| bars.length(value, 1_000_000, 60))
        };
        assert_eq!(lengths(Bars::Linear), [0, 0, 0, 15, 30, 60, 60]);
        assert_eq!(lengths(Bars::Log), [0, 0, 30, 54, 57, 60, 60]);
        assert_eq!(lengths(Bars::None), [0; 7]);
        assert_eq!(Bars::Linear.length(5, 0, 60), 0);
        let chosen = [Bars::Linear, Bars::Log, Bars::None].map(Bars::following);
        assert_eq!(chosen, [Bars::Log, Bars::None, Bars::Linear]);
    }
}
