//! Names of rotated files: `TEMPLATE-NUMBER.EXTENSION`, or a template with the number's place in it.
//!
//! Retention deletes files, so only a name that matches the template field by field is recognised.

use super::suffix::{Suffix, plain};
use crate::{Error, Result};
use jiff::{Timestamp, tz::TimeZone};
use std::path::Path;

/// The suffix of a file that is still being written.
pub(super) const PART: &str = ".part";
/// Digits of the number in a name, unless the template says otherwise.
const NUMBER_DIGITS: usize = 6;
/// The largest width of a number: the digits of a u64.
const NUMBER_DIGITS_MAX: usize = 20;

/// A parsed template: the text before the number, the number's least digits, the text after it.
#[derive(Debug, Clone)]
pub(super) struct NameTemplate {
    before: String,
    digits: usize,
    after: String,
    pattern: Vec<Field>,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Literal(char),
    Digits(usize),
    /// `%s`: seconds since 1970, any number of digits.
    Seconds,
    /// The file's number, with at least this many digits.
    Number(usize),
}

impl NameTemplate {
    /// Parses an strftime template with the fields `%Y %y %m %d %H %M %S %j %F %T %s %%`, which can be
    /// recognised in a name. A template with `%i` (or `%3i`: at least three digits) is the whole name, with
    /// the file's number there, but for the suffix of a compression in `extension`; to any other the number and
    /// `extension` are appended.
    pub(super) fn new(template: &str, extension: &str) -> Result<Self> {
        let refuse = |words: &str| Err(Error::Plan(format!("file name template '{template}': {words}")));
        if template.is_empty() || template.contains('/') {
            return refuse("it must be a file name without folders");
        }
        let whole = |(before, digits, after): (String, usize, String)| {
            let compression =
                extension.split_once('.').map_or(String::new(), |(_, suffix)| format!(".{suffix}"));
            let is_named = after.ends_with(&compression);
            (before, digits, if is_named { after } else { after + &compression })
        };
        let appended = || (format!("{template}-"), NUMBER_DIGITS, format!(".{extension}"));
        let placed = split(template);
        // Files of this name with another compression, or none, belong to the folder as well.
        let is_literal = placed.is_some() && !extension.contains('.');
        let (before, digits, after) = placed.map(whole).unwrap_or_else(appended);
        let plain_after = if is_literal { &after[..] } else { plain(&after) };
        let (Some(mut pattern), Some(rest)) = (pattern(&before), pattern(plain_after)) else {
            return refuse("the fields are %Y %y %m %d %H %M %S %j %F %T %s %%, and %i once");
        };
        pattern.push(Field::Number(digits));
        pattern.extend(rest);
        // A field of any number of digits would take the digits of the next one.
        let touches =
            |pair: &[Field]| matches!(pair[0], Field::Seconds | Field::Number(_)) && pair[1].is_digit();
        if pattern.windows(2).any(touches) {
            return refuse("%i and %s must not touch other digits");
        }
        Ok(Self { before, digits, after, pattern, zone: TimeZone::system() })
    }

    /// The same template with names in UTC instead of local time.
    pub(super) fn in_utc(self) -> Self {
        Self { zone: TimeZone::UTC, ..self }
    }

    /// Returns a warning if names should be in local time and the time zone is not known.
    pub(super) fn unknown_zone(&self) -> Option<String> {
        // Without the variable and without /etc/localtime the time is UTC, as for all programs.
        let zone = std::env::var("TZ").ok()?;
        self.zone.is_unknown().then(|| {
            format!("the time zone TZ={zone} is not known here: names of files and `rotate-time` are in UTC")
        })
    }

    /// Returns the name of a file that begins at `time_ns` (ns since 1970).
    pub(super) fn name(&self, time_ns: u64, number: u64) -> String {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.to_zoned(self.zone.clone());
        let (before, after) = (time.strftime(&self.before), time.strftime(&self.after));
        format!("{before}{number:0digits$}{after}", digits = self.digits)
    }

    /// Returns the number in the name of a finished file, also of one that was compressed; `None` if the name does not
    /// match.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        number_in(&self.pattern, name).or_else(|| number_in(&self.pattern, plain(name)))
    }

    /// Returns the name that a finished file had before it was compressed.
    pub(super) fn plain_name<'a>(&self, name: &'a str) -> &'a str {
        let plain = plain(name);
        if number_in(&self.pattern, plain).is_some() { plain } else { name }
    }

    /// Returns the offset of the names' time from UTC, ns.
    pub(super) fn zone_offset_ns(&self, time_ns: u64) -> i64 {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        i64::from(self.zone.to_offset(time).seconds()) * 1_000_000_000
    }

    /// Returns the next `most` changes of that offset: their times, ns since 1970, and the offsets after them, ns.
    pub(super) fn zone_changes(&self, time_ns: u64, most: usize) -> Vec<(u64, i64)> {
        let time = Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
        let changes = self.zone.following(time).take(most);
        let of = |at: Timestamp| u64::try_from(at.as_nanosecond()).ok();
        changes
            .filter_map(|change| {
                Some((of(change.timestamp())?, i64::from(change.offset().seconds()) * 1_000_000_000))
            })
            .collect()
    }
}

impl Field {
    fn is_digit(&self) -> bool {
        match self {
            Self::Literal(char) => char.is_ascii_digit(),
            _ => true,
        }
    }
}

impl Suffix {
    /// Reads the suffix of a template that is the whole name of a file, with `%i` for its number. Any other template
    /// gets the extension of the format.
    pub fn of_template(template: &str) -> Self {
        if split(template).is_some() { Self::of(Path::new(template)) } else { Self::default() }
    }
}

/// Splits a template at its `%i`; `None` without one.
fn split(template: &str) -> Option<(String, usize, String)> {
    let mut from = 0;
    while let Some(at) = template[from..].find('%').map(|at| from + at) {
        let field = &template[at + 1..];
        let width = field.bytes().take_while(u8::is_ascii_digit).count();
        if field[width..].starts_with('i') {
            let digits = field[..width].parse().unwrap_or(1).clamp(1, NUMBER_DIGITS_MAX);
            return Some((template[..at].to_owned(), digits, field[width + 1..].to_owned()));
        }
        // Skips the field's letter: the second % of %% does not begin a field.
        from = at + 1 + field.chars().next().map_or(0, char::len_utf8);
    }
    None
}

fn pattern(template: &str) -> Option<Vec<Field>> {
    let mut pieces = Vec::new();
    let mut chars = template.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            pieces.push(Field::Literal(char));
            continue;
        }
        let (digits, literal) = (Field::Digits, Field::Literal);
        match chars.next()? {
            'Y' => pieces.push(digits(4)),
            'y' | 'm' | 'd' | 'H' | 'M' | 'S' => pieces.push(digits(2)),
            'j' => pieces.push(digits(3)),
            'F' => pieces.extend([digits(4), literal('-'), digits(2), literal('-'), digits(2)]),
            'T' => pieces.extend([digits(2), literal(':'), digits(2), literal(':'), digits(2)]),
            's' => pieces.push(Field::Seconds),
            '%' => pieces.push(literal('%')),
            _ => return None,
        }
    }
    Some(pieces)
}

fn number_in(pattern: &[Field], mut text: &str) -> Option<u64> {
    let mut number = None;
    for piece in pattern {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let taken = match piece {
            Field::Literal(char) if text.starts_with(*char) => char.len_utf8(),
            Field::Digits(count) if digits >= *count => *count,
            Field::Seconds if digits > 0 => digits,
            // A longer number has no leading zeros.
            Field::Number(least) if digits == *least || digits > *least && !text.starts_with('0') => digits,
            _ => return None,
        };
        if let Field::Number(_) = piece {
            number = text[..taken].parse().ok();
        }
        text = &text[taken..];
    }
    number.filter(|_| text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::plan::DirPlan;
    use proptest::prelude::*;

    #[test]
    fn only_names_of_the_template_are_recognised() {
        for template in ["quaff-%Y%m%dT%H%M%S", "%F_%T", "tap%%1-%s", "day%j"] {
            let names = NameTemplate::new(template, "pcapng").unwrap();
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
        let names = NameTemplate::new("quaff-%Y", "pcapng").unwrap();
        assert_eq!(names.number("quaff-holiday-000001.pcapng"), None);
    }

    #[test]
    fn a_template_can_place_the_number() {
        for (template, name) in
            [("pcap%3i", "pcap042"), ("a%%i%i.cap", "a%i42.cap"), ("p%s.%3i", "p1795000000.042")]
        {
            let names = NameTemplate::new(template, "pcapng").unwrap();
            assert_eq!(names.name(1_795_000_000_123_456_789, 42), name);
            assert_eq!(names.number(name), Some(42));
            assert_eq!(names.number(&format!("{name}.part")), None);
        }
        let names = NameTemplate::new("pcap%3i", "pcapng").unwrap();
        assert_eq!((names.name(0, 1234).as_str(), names.number("pcap1234")), ("pcap1234", Some(1234)));
        assert_eq!((names.number("pcap12"), names.number("pcap")), (None, None));
    }

    #[test]
    fn a_compressed_file_has_the_number_of_the_plain_one() {
        for extension in ["pcapng", "pcapng.zst"] {
            let names = NameTemplate::new("q", extension).unwrap();
            for name in ["q-000042.pcapng", "q-000042.pcapng.gz", "q-000042.pcapng.zst"] {
                assert_eq!((names.number(name), names.plain_name(name)), (Some(42), "q-000042.pcapng"));
            }
            for other in ["q-000042.pcapng.old", "q-000042.gz", "q-000042.pcapng.gz.gz", "q-42.pcapng.gz"] {
                assert_eq!((names.number(other), names.plain_name(other)), (None, other));
            }
        }
        let names = NameTemplate::new("tap%i.gz", "pcapng").unwrap();
        assert_eq!((names.number("tap7.gz"), names.number("tap7")), (Some(7), None));
        assert_eq!(names.plain_name("tap7.gz"), "tap7.gz");
    }

    #[test]
    fn names_in_utc_do_not_follow_the_machine() {
        let plan = DirPlan { dir: ".".into(), name: "q%H".into(), utc: true, ..DirPlan::default() };
        let names = plan.name_template("pcap").unwrap();
        assert_eq!(names.name(3 * 3_600_000_000_000, 1), "q03-000001.pcap");
        assert_eq!((names.zone_offset_ns(0), names.zone_changes(0, 9)), (0, Vec::new()));
    }

    fn template() -> impl Strategy<Value = String> {
        let parts = [
            "%Y", "%y", "%m", "%d", "%H", "%M", "%S", "%j", "%F", "%T", "%s", "%s", "%%", "%i", "%3i",
            "%25i", "a", "-", "7", "é", ".gz", ".pcap", ".zst", "i", "%",
        ];
        prop::collection::vec(prop::sample::select(parts.to_vec()), 0..7).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// Retention removes the files of a folder by their names: all of them.
        #[test]
        fn a_name_has_the_number_that_it_was_given(
            template in template(), is_compressed in any::<bool>(), seconds in 0u64..18_000_000_000,
            number in prop_oneof![0u64..2000, any::<u64>()],
        ) {
            let extension = if is_compressed { "pcap.zst" } else { "pcapng" };
            let Ok(names) = NameTemplate::new(&template, extension) else { return Ok(()) };
            let name = names.name(seconds * 1_000_000_000, number);
            prop_assert_eq!(names.number(&name), Some(number), "{}", name);
        }

        /// And no others: a name that is longer by a character is that of another number, or of none.
        #[test]
        fn a_name_that_no_file_gets_has_no_number(
            template in template(), number in prop_oneof![0u64..2000, any::<u64>()],
            at in any::<prop::sample::Index>(), more in prop::sample::select(vec!["0", "7", "a", "."]),
        ) {
            let Ok(names) = NameTemplate::new(&template, "pcapng") else { return Ok(()) };
            let mut name = names.name(0, number);
            let places: Vec<_> = name.char_indices().map(|(place, _)| place).collect();
            name.insert_str(places[at.index(places.len())], more);
            if let Some(number) = names.number(&name).filter(|_| !template.contains("%s")) {
                prop_assert_eq!(names.name(0, number).len(), name.len(), "{}", name);
            }
        }
    }

    #[test]
    fn templates_that_could_match_anything_are_refused() {
        for template in ["", "a/b", "%A", "%", "%s%i", "%i%S", "%i0", "%i-%i", "%s%H", "a%s7", "%i-%s%Y"] {
            assert!(NameTemplate::new(template, "pcapng").is_err(), "{template}");
        }
    }
}
