//! Names of rotated files: `TEMPLATE-NUMBER.EXTENSION`, and which names in a folder are ours.
//!
//! Retention deletes files, so a name is ours only when it fits the template field by field.

use crate::{Error, Result};
use jiff::{Timestamp, tz::TimeZone};

/// The ending of a file that is still being written.
pub const PART: &str = ".part";
/// Digits of the number in a name.
const NUMBER_DIGITS: usize = 6;

/// A template for names.
#[derive(Debug, Clone)]
pub struct Names {
    template: String,
    pattern: Vec<Piece>,
    extension: &'static str,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(char),
    Digits(usize),
    /// `%s`: seconds since 1970, as many digits as it takes.
    Number,
}

impl Names {
    /// Names after an strftime template. Its fields are those that can be told from other text:
    /// `%Y %y %m %d %H %M %S %j %F %T %s %%`.
    pub fn new(template: &str, extension: &'static str) -> Result<Self> {
        let refuse = |words: String| Err(Error::Plan(words));
        if template.is_empty() || template.contains('/') {
            return refuse(format!("--name '{template}': a file name without folders is needed"));
        }
        let Some(pattern) = pattern(template) else {
            return refuse(format!(
                "--name '{template}': the fields are %Y %y %m %d %H %M %S %j %F %T %s %%"
            ));
        };
        Ok(Self { template: template.to_owned(), pattern, extension, zone: TimeZone::system() })
    }

    /// The name of a file that begins at `time_ns` (ns since 1970), in local time.
    pub fn name(&self, time_ns: u64, number: u64) -> String {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        let stamp = time.to_zoned(self.zone.clone()).strftime(&self.template);
        format!("{stamp}-{number:0NUMBER_DIGITS$}.{}", self.extension)
    }

    /// The number in a name, when the name is one of ours and finished.
    pub fn number(&self, name: &str) -> Option<u64> {
        let stem = name.strip_suffix(self.extension)?.strip_suffix('.')?;
        let (stamp, number) = stem.rsplit_once('-')?;
        let is_number = number.len() >= NUMBER_DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && fits(&self.pattern, stamp)).then(|| number.parse().ok())?
    }

    /// How much local time is ahead of UTC, ns: what slots are aligned to.
    pub fn zone_offset_ns(&self, time_ns: u64) -> i64 {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        i64::from(self.zone.to_offset(time).seconds()) * 1_000_000_000
    }
}

fn pattern(template: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut chars = template.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            pieces.push(Piece::Literal(char));
            continue;
        }
        let (digits, literal) = (Piece::Digits, Piece::Literal);
        match chars.next()? {
            'Y' => pieces.push(digits(4)),
            'y' | 'm' | 'd' | 'H' | 'M' | 'S' => pieces.push(digits(2)),
            'j' => pieces.push(digits(3)),
            'F' => pieces.extend([digits(4), literal('-'), digits(2), literal('-'), digits(2)]),
            'T' => pieces.extend([digits(2), literal(':'), digits(2), literal(':'), digits(2)]),
            's' => pieces.push(Piece::Number),
            '%' => pieces.push(literal('%')),
            _ => return None,
        }
    }
    Some(pieces)
}

fn fits(pattern: &[Piece], mut text: &str) -> bool {
    for piece in pattern {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let taken = match piece {
            Piece::Literal(char) if text.starts_with(*char) => char.len_utf8(),
            Piece::Digits(count) if digits >= *count => *count,
            Piece::Number if digits > 0 => digits,
            _ => return false,
        };
        text = &text[taken..];
    }
    text.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_names_are_recognised_and_no_others() {
        for template in ["quaff-%Y%m%dT%H%M%S", "%F_%T", "tap%%1-%s", "day%j"] {
            let names = Names::new(template, "pcapng").unwrap();
            let name = names.name(1_795_000_000_123_456_789, 42);
            assert_eq!(names.number(&name), Some(42), "{name}");
            for other in [
                format!("{name}.part"),
                format!("x{name}"),
                name.replace("-000042", ""),
                name.replace("pcapng", "pcap"),
            ] {
                assert_eq!(names.number(&other), None, "{other}");
            }
        }
        let names = Names::new("quaff-%Y", "pcapng").unwrap();
        assert_eq!(names.number("quaff-holiday-000001.pcapng"), None);
    }

    #[test]
    fn templates_that_could_match_anything_are_refused() {
        for template in ["", "a/b", "%A", "%"] {
            assert!(Names::new(template, "pcapng").is_err(), "{template}");
        }
    }
}
