//! A distribution of sizes as a small text file, for readers and for later runs.
//!
//! ```text
//! # quaff sizes 1
//! 60 5000
//! 81-85 2
//! 1514 4000
//! ```
//!
//! The first line is [`HEADING`]. A line has a size or a range of sizes (bytes of a frame without FCS, 1 to 65535) and
//! its relative frequency; sizes of a range are equally likely. Empty lines and text after a `#` are comments. The
//! order does not matter.

use super::{SIZE_MAX, SizeClass, Sizes};
use crate::parse::{self, ParseError};
use std::fmt::Write as _;

/// The first line of such a file.
pub const HEADING: &str = "# quaff sizes 1";
/// Maximum number of lines: there are no more sizes.
const CLASSES_MAX: usize = SIZE_MAX as usize;

impl Sizes {
    /// Parses such a file.
    pub fn from_text(text: &str) -> Result<Self, ParseError> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first.trim_end() != HEADING) {
            return Err(ParseError::new(format!("a file of sizes begins with the line '{HEADING}'")));
        }
        let mut classes = Vec::new();
        for (at, line) in lines {
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let class = parse_line(content).filter(SizeClass::is_valid);
            let wrong = || {
                let why =
                    format!("is not a size or range (1 to {SIZE_MAX}) and how often, such as '64-79 12'");
                ParseError::new(format!("line {}: '{}' {why}", at + 1, shortened(content)))
            };
            classes.push(class.ok_or_else(wrong)?);
            if classes.len() > CLASSES_MAX {
                return Err(ParseError::new(format!("more than {CLASSES_MAX} lines")));
            }
        }
        Self::drawn(classes)
    }

    /// Formats such a file, with `remark` in its second line.
    pub fn to_text(&self, remark: &str) -> String {
        let mut text = format!("{HEADING}\n");
        if !remark.is_empty() {
            let _ = writeln!(text, "# {}", remark.replace(['\n', '\r'], " "));
        }
        for SizeClass { first, last, weight } in &self.classes {
            let weight = if self.in_turn { &1 } else { weight };
            let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
            let _ = writeln!(text, "{range} {weight}");
        }
        text
    }
}

fn parse_line(line: &str) -> Option<SizeClass> {
    let mut words = line.split_whitespace();
    let (first, last) = parse::range(words.next()?)?;
    let weight = words.next()?.parse().ok()?;
    words.next().is_none().then_some(SizeClass { first, last, weight })
}

/// Shortens foreign text for a message.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn classes() -> impl Strategy<Value = Vec<SizeClass>> {
        let class = (1u32..2000, 0u32..50, 1u64..1 << 30).prop_map(|(first, more, weight)| SizeClass {
            first,
            last: first + more,
            weight,
        });
        prop::collection::vec(class, 1..30)
    }

    proptest! {
        #[test]
        fn saved_sizes_are_loaded(classes in classes(), remark in ".{0,40}") {
            let sizes = Sizes::drawn(classes).unwrap();
            prop_assert_eq!(Sizes::from_text(&sizes.to_text(&remark)), Ok(sizes));
        }

        #[test]
        fn noise_is_refused_without_a_panic(noise in ".{0,200}") {
            let _ = Sizes::from_text(&format!("{HEADING}\n{noise}"));
            prop_assert!(Sizes::from_text(&noise).is_err());
        }
    }

    #[test]
    fn mistakes_are_reported_by_line() {
        let read = |body: &str| Sizes::from_text(&format!("{HEADING}\n{body}"));
        let error = |body: &str| read(body).unwrap_err().to_string();
        assert!(read("# a remark\n\n64 7 # the smallest\r\n 65-100\t4\n").is_ok());
        for (body, line) in
            [("64 1\nx", 3), ("64", 2), ("0 1", 2), ("9-8 1", 2), ("64 1 1", 2), ("65536 1", 2)]
        {
            assert!(error(body).starts_with(&format!("line {line}: ")), "{body}");
        }
        assert!(error("").starts_with("no size has any weight"));
        assert!(error("64 0").starts_with("no size has any weight"));
        assert!(Sizes::from_text("64 1\n").unwrap_err().to_string().contains(HEADING));
    }
}
