//! Ranges of packet numbers, such as `1-5,7,100-`, counted from 1.

use std::str::FromStr;

/// A set of packet numbers, as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Returns `true` if a number is in one of the ranges.
    pub fn contains(&self, number: u64) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&number))
    }
}

impl FromStr for Ranges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str, empty: u64| match text.trim() {
            "" => Ok(empty),
            digits => digits.parse().map_err(|_| format!("'{digits}' is not a packet number")),
        };
        let range = |part: &str| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            if from.trim().is_empty() && to.trim().is_empty() {
                return Err(format!("'{part}' is not a range of packets; examples: 1-5,7,100-"));
            }
            let (from, to) = (number(from, 1)?, number(to, u64::MAX)?);
            if from == 0 || to < from {
                return Err(format!("'{part}' is not a packet number: packets are numbered from 1"));
            }
            Ok((from, to))
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed() {
        let ranges: Ranges = "1-3,7, 9-".parse().unwrap();
        let within: Vec<_> = (1..12).filter(|number| ranges.contains(*number)).collect();
        assert_eq!(within, [1, 2, 3, 7, 9, 10, 11]);
        assert_eq!("-4,2".parse::<Ranges>(), Ok(Ranges(vec![(1, 4), (2, 2)])));
        for wrong in ["", "-", "0-3", "5-2", "a", "1,,2", "1-2-3"] {
            assert!(wrong.parse::<Ranges>().is_err(), "{wrong}");
        }
    }
}
