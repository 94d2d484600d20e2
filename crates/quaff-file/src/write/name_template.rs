//! Names of rotated files: `TEMPLATE-NUMBER.EXTENSION`, or a template that says itself where the number
//! stands, and which names in a folder are ours.
//!
//! Retention deletes files, so a name is ours only when it fits the template field by field.

use crate::{Error, Result};
use jiff::{Timestamp, tz::TimeZone};

/// The ending of a file that is still being written.
pub const PART: &str = ".part";
/// Digits of the number in a name, unless the template says otherwise.
const NUMBER_DIGITS: usize = 6;
/// The most digits that a template can ask for: what a u64 has.
const NUMBER_DIGITS_MAX: usize = 20;

/// A template for names: what stands before the number, its least digits, what stands behind it.
#[derive(Debug, Clone)]
pub struct Names {
    before: String,
    digits: usize,
    after: String,
    pattern: Vec<Piece>,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(char),
    Digits(usize),
    /// `%s`: seconds since 1970, as many digits as it takes.
    Seconds,
    /// The file's number, so many digits or more.
    Number(usize),
}

impl Names {
    /// Names after an strftime template. Its fields are those that can be told from other text:
    /// `%Y %y %m %d %H %M %S %j %F %T %s %%`. A template with `%i` (or `%3i`: three digits at least) is
    /// the whole name, with the file's number there; to any other one the number and `extension` are
    /// added.
    pub fn new(template: &str, extension: &str) -> Result<Self> {
        let refuse = |words: &str| Err(Error::Plan(format!("--name '{template}': {words}")));
        if template.is_empty() || template.contains('/') {
            return refuse("a file name without folders is needed");
        }
        let (before, digits, after) =
            split(template).unwrap_or((format!("{template}-"), NUMBER_DIGITS, format!(".{extension}")));
        let (Some(mut pattern), Some(behind)) = (pattern(&before), pattern(&after)) else {
            return refuse("the fields are %Y %y %m %d %H %M %S %j %F %T %s %%, and %i once");
        };
        if pattern.last() == Some(&Piece::Seconds) || behind.first().is_some_and(Piece::is_digit) {
            return refuse("%i has to stand apart from other digits");
        }
        pattern.push(Piece::Number(digits));
        pattern.extend(behind);
        Ok(Self { before, digits, after, pattern, zone: TimeZone::system() })
    }

    /// The name of a file that begins at `time_ns` (ns since 1970), in local time.
    pub fn name(&self, time_ns: u64, number: u64) -> String {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.to_zoned(self.zone.clone());
        let (before, after) = (time.strftime(&self.before), time.strftime(&self.after));
        format!("{before}{number:0digits$}{after}", digits = self.digits)
    }

    /// The number in a name, when the name is one of ours and finished.
    pub fn number(&self, name: &str) -> Option<u64> {
        number_in(&self.pattern, name)
    }

    /// How much local time is ahead of UTC, ns: what slots are aligned to.
    pub fn zone_offset_ns(&self, time_ns: u64) -> i64 {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        i64::from(self.zone.to_offset(time).seconds()) * 1_000_000_000
    }
}

impl Piece {
    fn is_digit(&self) -> bool {
        match self {
            Self::Literal(char) => char.is_ascii_digit(),
            _ => true,
        }
    }
}

/// Takes a template apart at its `%i`; `None` when it has none.
fn split(template: &str) -> Option<(String, usize, String)> {
    let mut from = 0;
    while let Some(at) = template[from..].find('%').map(|at| from + at) {
        let field = &template[at + 1..];
        let width = field.bytes().take_while(u8::is_ascii_digit).count();
        if field[width..].starts_with('i') {
            let digits = field[..width].parse().unwrap_or(1).clamp(1, NUMBER_DIGITS_MAX);
            return Some((template[..at].to_owned(), digits, field[width + 1..].to_owned()));
        }
        // The field's letter is skipped: in %% it is no beginning of another one.
        from = at + 1 + field.chars().next().map_or(0, char::len_utf8);
    }
    None
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
            's' => pieces.push(Piece::Seconds),
            '%' => pieces.push(literal('%')),
            _ => return None,
        }
    }
    Some(pieces)
}

fn number_in(pattern: &[Piece], mut text: &str) -> Option<u64> {
    let mut number = None;
    for piece in pattern {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let taken = match piece {
            Piece::Literal(char) if text.starts_with(*char) => char.len_utf8(),
            Piece::Digits(count) if digits >= *count => *count,
            Piece::Seconds if digits > 0 => digits,
            Piece::Number(least) if digits >= *least => digits,
            _ => return None,
        };
        if let Piece::Number(_) = piece {
            number = text[..taken].parse().ok();
        }
        text = &text[taken..];
    }
    number.filter(|_| text.is_empty())
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
    fn a_template_can_say_where_the_number_stands() {
        for (template, name) in
            [("pcap%3i", "pcap042"), ("a%%i%i.cap", "a%i42.cap"), ("p%s.%3i", "p1795000000.042")]
        {
            let names = Names::new(template, "pcapng").unwrap();
            assert_eq!(names.name(1_795_000_000_123_456_789, 42), name);
            assert_eq!(names.number(name), Some(42));
            assert_eq!(names.number(&format!("{name}.part")), None);
        }
        let names = Names::new("pcap%3i", "pcapng").unwrap();
        assert_eq!((names.name(0, 1234).as_str(), names.number("pcap1234")), ("pcap1234", Some(1234)));
        assert_eq!((names.number("pcap12"), names.number("pcap")), (None, None));
    }

    #[test]
    fn templates_that_could_match_anything_are_refused() {
        for template in ["", "a/b", "%A", "%", "%s%i", "%i%S", "%i0", "%i-%i"] {
            assert!(Names::new(template, "pcapng").is_err(), "{template}");
        }
    }
}
