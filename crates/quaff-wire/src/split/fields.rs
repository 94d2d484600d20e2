//! The fields by which frames are split, with their command-line names.

use crate::ParseError;
use std::fmt;
use std::str::FromStr;

/// The fields of a frame that select its member. A frame that lacks a field is assigned by those it has: by its MAC
/// addresses if it is not IP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SplitFields {
    /// The MAC addresses.
    pub macs: bool,
    /// The IP addresses.
    pub addresses: bool,
    /// The IP addresses, the protocol, and the ports of TCP, UDP and SCTP.
    pub ports: bool,
}

impl SplitFields {
    /// True if IP packets are split by more than their MAC addresses.
    pub(super) fn has_addresses(self) -> bool {
        self.addresses || self.ports
    }
}

impl FromStr for SplitFields {
    type Err = ParseError;

    /// Parses words separated by commas, case-insensitive.
    fn from_str(words: &str) -> Result<Self, ParseError> {
        words.split(',').try_fold(Self::default(), |by, word| {
            match word.trim().to_ascii_lowercase().as_str() {
                "macs" => Ok(Self { macs: true, ..by }),
                "addresses" => Ok(Self { addresses: true, ..by }),
                "ports" => Ok(Self { ports: true, ..by }),
                other => Err(ParseError::new(format!(
                    "\"{other}\" is not a field to split by; there are macs, addresses, ports (with addresses), and several with commas"
                ))),
            }
        })
    }
}

impl fmt::Display for SplitFields {
    /// Formats the fields as [`FromStr`] parses them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [(self.macs, "macs"), (self.addresses, "addresses"), (self.ports, "ports")];
        let names: Vec<_> = fields.iter().filter(|(is_in, _)| *is_in).map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_they_are_read() {
        for words in ["macs", "addresses", "ports", "macs,addresses", "macs,ports", "macs,addresses,ports"] {
            assert_eq!(words.parse::<SplitFields>().unwrap().to_string(), words);
        }
        assert_eq!("Ports, MACS".parse::<SplitFields>().unwrap().to_string(), "macs,ports");
        assert!(
            "".parse::<SplitFields>().is_err()
                && "ports,".parse::<SplitFields>().is_err()
                && "ip".parse::<SplitFields>().is_err()
        );
    }
}
