//! Frame sizes: a single size, several in turn, or drawn from a distribution.
//!
//! Sizes are those in captures: with MAC addresses and VLAN tags, without FCS. The named sets have their commonly
//! printed values, interpreted in the same way, but for the largest: 1518 bytes are the largest frame of an MTU of 1500
//! with its FCS, so it has 1514 bytes here.

mod learn;
mod text;

pub use learn::Histogram;
pub use text::HEADING;

use super::alias::Alias;
use super::rng::Rng;
use crate::parse::{self, ParseError};
use std::str::FromStr;

/// Maximum frame size, bytes.
pub const SIZE_MAX: u32 = 65_535;

/// Equally likely sizes from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeClass {
    /// Smallest size, bytes.
    pub first: u32,
    /// Largest size, bytes.
    pub last: u32,
    /// Relative frequency.
    pub weight: u64,
}

impl SizeClass {
    fn exact(size: u32, weight: u64) -> Self {
        Self { first: size, last: size, weight }
    }

    /// Number of sizes.
    pub(crate) fn width(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    fn is_valid(&self) -> bool {
        1 <= self.first && self.first <= self.last && self.last <= SIZE_MAX
    }
}

/// The distribution of the sizes of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    classes: Vec<SizeClass>,
    /// True to use the classes in turn, equally often, instead of drawing by weight.
    in_turn: bool,
    /// True for a named set, whose largest frames lack the FCS.
    is_named: bool,
}

/// Named sets as (size, weight). Weights of 0 mean in turn.
///
/// The first set is from RFC 2544 section 9.1; the mixes are those that traffic generators print.
const SETS: [(&str, &[(u32, u64)]); 7] = [
    ("rfc2544", &[(64, 0), (128, 0), (256, 0), (512, 0), (1024, 0), (1280, 0), (1514, 0)]),
    ("imix", &[(64, 7), (570, 4), (1514, 1)]),
    // An older name.
    ("imix1500", &[(64, 7), (570, 4), (1514, 1)]),
    ("tolly", &[(64, 55), (78, 5), (576, 17), (1514, 23)]),
    ("cisco", &[(64, 7), (594, 4), (1514, 1)]),
    ("rpr3", &[(64, 60), (512, 20), (1514, 20)]),
    ("rpr4", &[(64, 50), (512, 15), (1514, 15), (9214, 20)]),
];

/// Largest frames of the named sets, for an MTU of 1500 and of 9200: with FCS they are 1518 and 9218.
const LARGEST: [u32; 2] = [1514, 9214];

impl Sizes {
    /// Creates sizes drawn from classes by their weights.
    pub(crate) fn drawn(classes: Vec<SizeClass>) -> Result<Self, ParseError> {
        let weights: Vec<_> = classes.iter().map(|class| class.weight).collect();
        if let Some(class) = classes.iter().find(|class| !class.is_valid()) {
            return Err(wrong_range(&format!("{}-{}", class.first, class.last)));
        }
        Alias::new(&weights).ok_or_else(|| {
            ParseError::new("no size has any weight, or the weights are too large to be added")
        })?;
        Ok(Self { classes, in_turn: false, is_named: false })
    }

    /// A single size.
    pub(crate) fn only(bytes: u32) -> Self {
        Self { classes: vec![SizeClass::exact(bytes, 1)], in_turn: true, is_named: false }
    }

    /// The same where sizes include an FCS of `bytes`: each is reduced by it, to at least 1.
    pub fn smaller_by(&self, bytes: u32) -> Self {
        let is_without = |size: u32| self.is_named && LARGEST.contains(&size);
        let less = |size: u32| if is_without(size) { size } else { size.saturating_sub(bytes).max(1) };
        let smaller =
            |class: &SizeClass| SizeClass { first: less(class.first), last: less(class.last), ..*class };
        Self { classes: self.classes.iter().map(smaller).collect(), ..*self }
    }

    /// The size, if there is only one.
    pub fn single(&self) -> Option<u32> {
        let first = self.classes[0].first;
        self.classes.iter().all(|class| class.first == first && class.last == first).then_some(first)
    }

    /// Mean size with all sizes limited to `min` to `max`, bytes.
    pub fn mean(&self, min: u32, max: u32) -> f64 {
        let weight = |class: &SizeClass| if self.in_turn { 1.0 } else { class.weight as f64 };
        let mean = |class: &SizeClass| {
            let sum: u64 = (class.first..=class.last).map(|size| u64::from(size.max(min).min(max))).sum();
            sum as f64 / class.width() as f64
        };
        let total: f64 = self.classes.iter().map(weight).sum();
        self.classes.iter().map(|class| weight(class) * mean(class)).sum::<f64>() / total
    }

    /// Smallest and largest size, bytes.
    pub fn bounds(&self) -> (u32, u32) {
        let used = self.classes.iter().filter(|class| self.in_turn || class.weight > 0);
        used.fold((SIZE_MAX, 1), |(min, max), class| (min.min(class.first), max.max(class.last)))
    }

    /// A source that returns these sizes one after the other.
    pub(crate) fn source(&self) -> SizeSource {
        let weights: Vec<_> = self.classes.iter().map(|class| class.weight).collect();
        let alias = if self.in_turn { None } else { Alias::new(&weights) };
        SizeSource { classes: self.classes.clone(), alias, at: 0 }
    }
}

impl FromStr for Sizes {
    type Err = ParseError;

    /// Parses the name of a set; `64,128,256` in turn; `64:7,570:4,1518:1` by weight; `64-1518` uniformly.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if let Some((_, set)) = SETS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            let classes: Vec<_> = set.iter().map(|(size, weight)| SizeClass::exact(*size, *weight)).collect();
            return Ok(Self { in_turn: set[0].1 == 0, classes, is_named: true });
        }
        let mut classes = Vec::new();
        let mut in_turn = true;
        for part in text.split(',') {
            let (range, weight) = part.split_once(':').map_or((part, None), |(a, b)| (a, Some(b)));
            in_turn &= weight.is_none() && !range.contains('-');
            let unknown = || {
                let sets = SETS.map(|(name, _)| name).join(", ");
                let why = format!("is not a size, such as 64, 64-1518 or 64:7, nor one of the sets {sets}");
                ParseError::of(part.trim(), &why)
            };
            let (first, last) = parse::range(range).ok_or_else(unknown)?;
            let weight = weight.map_or(Ok(1), |weight| weight.trim().parse()).map_err(|_| unknown())?;
            let class = SizeClass { first, last, weight };
            if !class.is_valid() {
                return Err(wrong_range(range.trim()));
            }
            classes.push(class);
        }
        if in_turn { Ok(Self { classes, in_turn, is_named: false }) } else { Self::drawn(classes) }
    }
}

fn wrong_range(text: &str) -> ParseError {
    let why = "a range begins with its smaller end";
    ParseError::new(format!("a frame has 1 to {SIZE_MAX} bytes, and {why}: '{text}'"))
}

/// Returns sizes one after the other.
#[derive(Debug, Clone)]
pub(crate) struct SizeSource {
    classes: Vec<SizeClass>,
    /// `None`: the classes are used in turn.
    alias: Option<Alias>,
    at: usize,
}

impl SizeSource {
    /// The next size, bytes.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> u32 {
        let at = match &self.alias {
            Some(alias) => alias.draw(rng),
            None => self.at,
        };
        self.at = if self.at + 1 == self.classes.len() { 0 } else { self.at + 1 };
        let class = &self.classes[at];
        match class.width() {
            1 => class.first,
            width => class.first + rng.below(width) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(Sizes::from_str("64").unwrap().single(), Some(64));
        assert!(Sizes::from_str("64,128").unwrap().in_turn);
        let [mix, named] = ["64:7,570:4,1514:1", "IMIX"].map(|text| Sizes::from_str(text).unwrap());
        assert_eq!(mix.classes, named.classes);
        let [mix, named] = [mix, named].map(|sizes| sizes.smaller_by(4).bounds());
        assert_eq!((mix, named), ((60, 1510), (60, 1514)), "its largest has no FCS already");
        assert_eq!(Sizes::from_str("100-200").unwrap().bounds(), (100, 200));
        assert_eq!(Sizes::from_str("64,64").unwrap().single(), Some(64));
        for wrong in ["", "x", "64,", "0", "65536", "200-100", "64:x", "64:0", "64:-1", "64-"] {
            assert!(Sizes::from_str(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn means_are_those_of_the_classes() {
        assert!((Sizes::from_str("imix").unwrap().mean(1, SIZE_MAX) - 353.5).abs() < 0.001);
        assert!((Sizes::from_str("10-20").unwrap().mean(1, SIZE_MAX) - 15.0).abs() < 1e-9);
        assert!((Sizes::from_str("60,100").unwrap().mean(64, 90) - 77.0).abs() < 1e-9);
    }

    #[test]
    fn a_sweep_goes_round() {
        let mut source = Sizes::from_str("rfc2544").unwrap().source();
        let mut rng = Rng::new(0);
        let sizes: Vec<_> = (0..8).map(|_| source.next(&mut rng)).collect();
        assert_eq!(sizes, [64, 128, 256, 512, 1024, 1280, 1514, 64]);
    }

    /// Chi-square of the drawn sizes, in standard deviations from its mean (nearly normal for many classes; for few, 5
    /// is still extreme).
    #[test]
    fn drawn_sizes_have_the_requested_distribution() {
        for set in ["imix", "tolly", "cisco", "rpr3", "rpr4", "64-1518", "40-59:3,60:50,61-99:7"] {
            let sizes = Sizes::from_str(set).unwrap();
            let mut source = sizes.source();
            let mut rng = Rng::new(7);
            let mut seen = vec![0u64; 10_000];
            const DRAWS: u64 = 400_000;
            (0..DRAWS).for_each(|_| seen[source.next(&mut rng) as usize] += 1);
            let total: u64 = sizes.classes.iter().map(|class| class.weight).sum();
            let (mut chi, mut cells, mut counted) = (0.0, 0, 0);
            for class in &sizes.classes {
                let expected = DRAWS as f64 * class.weight as f64 / total as f64 / class.width() as f64;
                for size in class.first..=class.last {
                    let count = seen[size as usize];
                    chi += (count as f64 - expected).powi(2) / expected;
                    (cells, counted) = (cells + 1, counted + count);
                }
            }
            let freedom = f64::from(cells - 1).max(1.0);
            assert!((chi - freedom) / (2.0 * freedom).sqrt() < 5.0, "{set}: {chi} for {freedom}");
            assert_eq!(counted, DRAWS, "{set}: nothing else is drawn");
        }
    }
}
