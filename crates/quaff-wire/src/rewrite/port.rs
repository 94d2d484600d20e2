//! Maps ports to ports.

use crate::parse::{self, ParseError};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A rule for ports; the first matching rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortMap {
    from: Vec<RangeInclusive<u16>>,
    /// The new port; for a range of new ports the first, and each port keeps its offset.
    to: u16,
    is_range: bool,
}

impl PortMap {
    /// The new port, if the rule matches this one.
    pub(crate) fn get(&self, port: u16) -> Option<u16> {
        let range = self.from.iter().find(|range| range.contains(&port))?;
        Some(if self.is_range { self.to + (port - range.start()) } else { self.to })
    }
}

impl FromStr for PortMap {
    type Err = ParseError;

    /// Parses `80:8080`, `8000,8080:80`, `8000-8999:80`, `8000-8999:9000-9999`.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let no = |why| ParseError::of(word, why);
        let (from, to) =
            word.rsplit_once(':').ok_or(no("is not a map of ports: try 80:8080, or 8000-8999:9000-9999"))?;
        let range = |word| parse::ports(word).ok_or(no("has an invalid port or range of ports"));
        let from = from.split(',').map(range).collect::<Result<Vec<_>, _>>()?;
        let to = range(to)?;
        let is_range = to.start() != to.end();
        if is_range && from.iter().any(|range| range.len() != to.len()) {
            return Err(no("has ranges of different widths"));
        }
        Ok(Self { from, to: *to.start(), is_range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ports_lists_and_ranges() {
        let to = |word: &str, port| word.parse::<PortMap>().unwrap().get(port);
        assert_eq!([to("80:8080", 80), to("80:8080", 81)], [Some(8080), None]);
        assert_eq!(to("8000,8080-8081:80", 8081), Some(80));
        assert_eq!(to("8000-8999:80", 8500), Some(80));
        assert_eq!(to("8000-8999:9000-9999", 8999), Some(9999));
        assert_eq!(to("0-65535:0-65535", 65535), Some(65535));
    }

    #[test]
    fn a_bad_map_is_refused() {
        for word in ["", "80", "80:", ":80", "80:65536", "9-8:1", "1-2:1-3", "1,2-3:5-6", "a:b"] {
            assert!(word.parse::<PortMap>().is_err(), "{word}");
        }
    }
}
