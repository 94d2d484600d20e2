//! Single fields of IP headers: TTL or hop limit, and traffic class.

use crate::ParseError;
use std::str::FromStr;

/// A change of TTL or hop limit, with a result from 1 to 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    Set(u8),
    Add(u8),
    Subtract(u8),
}

impl Ttl {
    /// The new value for `ttl`.
    pub(super) fn of(self, ttl: u8) -> u8 {
        match self {
            Self::Set(new) => new,
            Self::Add(more) => ttl.saturating_add(more),
            Self::Subtract(fewer) => ttl.saturating_sub(fewer),
        }
        .max(1)
    }
}

impl FromStr for Ttl {
    type Err = ParseError;

    /// Parses `64`, `+1`, `-1`.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let number = word.strip_prefix(['+', '-']).unwrap_or(word);
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let no = ParseError::of(word, "is not a TTL: try 64, +1 or -1, up to 255");
        let number = number.parse().ok().filter(|_| digits).ok_or(no)?;
        Ok(match word.as_bytes()[0] {
            b'+' => Self::Add(number),
            b'-' => Self::Subtract(number),
            _ if number == 0 => return Err(ParseError::of(word, "lets no packet arrive")),
            _ => Self::Set(number),
        })
    }
}

/// New bits of the type of service (RFC 791) or traffic class (RFC 8200).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrafficClass {
    bits: u8,
    mask: u8,
}

impl TrafficClass {
    /// All eight bits.
    pub fn whole(bits: u8) -> Self {
        Self { bits, mask: 0xff }
    }

    /// The upper six bits (RFC 2474); the ECN bits stay.
    fn dscp(dscp: u8) -> Self {
        Self { bits: dscp << 2, mask: 0xfc }
    }

    /// The new value for `class`.
    pub(super) fn of(self, class: u8) -> u8 {
        class & !self.mask | self.bits
    }
}

impl FromStr for TrafficClass {
    type Err = ParseError;

    /// Parses a DSCP by number (0 to 63) or name: `ef`, `va`, `le`, `be`, `cs0` to `cs7`, `af11` to `af43`.
    fn from_str(word: &str) -> Result<Self, ParseError> {
        let lower = word.to_ascii_lowercase();
        let dscp = match lower.as_str() {
            "be" => Some(0),
            "le" => Some(1),
            "ef" => Some(46),
            "va" => Some(44),
            _ => named(lower.as_bytes()).or_else(|| lower.parse().ok().filter(|dscp| *dscp < 64)),
        };
        dscp.map(Self::dscp).ok_or(ParseError::of(word, "is not a DSCP: try 0 to 63, ef, cs1 or af21"))
    }
}

/// Class selectors (RFC 2474) and assured forwarding (RFC 2597).
fn named(name: &[u8]) -> Option<u8> {
    match name {
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => Some((class - b'0') * 8 + (drop - b'0') * 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_stay_between_1_and_255() {
        let of = |word: &str, ttl| word.parse::<Ttl>().unwrap().of(ttl);
        assert_eq!([of("64", 1), of("+3", 253), of("-3", 64), of("-64", 64)], [64, 255, 61, 1]);
        for word in ["", "+", "256", "0", "+-1", "x"] {
            assert!(word.parse::<Ttl>().is_err(), "{word}");
        }
    }

    #[test]
    fn a_dscp_leaves_the_other_two_bits() {
        let of = |word: &str| word.parse::<TrafficClass>().unwrap().of(0b11);
        assert_eq!([of("ef"), of("cs1"), of("af21"), of("AF43"), of("63")], [187, 35, 75, 155, 255]);
        assert_eq!(TrafficClass::whole(7).of(0xff), 7);
        for word in ["", "64", "af51", "af14", "cs8", "-1"] {
            assert!(word.parse::<TrafficClass>().is_err(), "{word}");
        }
    }
}
