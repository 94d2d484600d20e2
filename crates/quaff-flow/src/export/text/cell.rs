//! Formats one value as text: for JSON, CSV and Zeek's logs.

use std::io::Write;
use std::net::IpAddr;

/// A value that is formatted as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    Number(u64),
    Bool(bool),
    Text(std::borrow::Cow<'a, str>),
    /// An array with one text.
    List(&'static str),
    Ip(IpAddr),
    Mac([u8; 6]),
    Hex(&'a [u8]),
    /// ns since 1970, formatted by RFC 3339 with this number of decimals.
    Iso(u64, u8),
    /// ns, formatted as seconds with this number of decimals.
    Seconds(u64, u8),
}

impl Cell<'_> {
    /// Appends a JSON value.
    pub(crate) fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend(b"null"),
            Self::Number(_) | Self::Bool(_) | Self::Seconds(..) => self.write_plain(out),
            // Writing a string to memory cannot fail.
            Self::Text(text) => drop(serde_json::to_writer(out, text.as_ref())),
            Self::List(text) => {
                out.push(b'[');
                Cell::Text((*text).into()).write_json(out);
                out.push(b']');
            }
            Self::Ip(_) | Self::Mac(_) | Self::Hex(_) | Self::Iso(..) => {
                out.push(b'"');
                self.write_plain(out);
                out.push(b'"');
            }
        }
    }

    /// Appends the value without quoting; nothing if there is no value.
    pub(crate) fn write_plain(&self, out: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = match self {
            Self::Null => Ok(()),
            Self::Number(number) => write!(out, "{number}"),
            Self::Bool(is) => write!(out, "{is}"),
            Self::Text(text) => out.write_all(text.as_bytes()),
            Self::List(text) => out.write_all(text.as_bytes()),
            Self::Ip(ip) => write!(out, "{ip}"),
            Self::Mac([a, b, c, d, e, f]) => write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
            Self::Hex(bytes) => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
            Self::Iso(ns, digits) => write_iso(out, *ns, *digits),
            Self::Seconds(ns, digits) => {
                write!(out, "{}", ns / 1_000_000_000).and_then(|()| write_fraction(out, *ns, *digits))
            }
        };
    }

    /// Appends a field of CSV (RFC 4180), quoted if it contains the separator, a quote or a line break.
    pub(crate) fn write_csv(&self, separator: u8, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_plain(out);
        let special = |byte: &u8| *byte == separator || matches!(*byte, b'"' | b'\n' | b'\r');
        if out[start..].iter().any(special) {
            let text = out.split_off(start);
            out.push(b'"');
            for byte in text {
                if byte == b'"' {
                    out.push(b'"');
                }
                out.push(byte);
            }
            out.push(b'"');
        }
    }

    /// Appends a field of Zeek's logs: tabs and control bytes as \xNN, a missing value as `-`.
    pub(crate) fn write_zeek(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            Self::Null => out.push(b'-'),
            Self::Bool(is) => out.push(if *is { b'T' } else { b'F' }),
            Self::Text(text) if text.is_empty() => out.extend(b"(empty)"),
            Self::Text(text) if text == "-" => out.extend(b"\\x2d"),
            _ => self.write_plain(out),
        }
        if out[start..].iter().any(|byte| *byte < b' ' || *byte == b'\\') && matches!(self, Self::Text(_)) {
            let text = out.split_off(start);
            for byte in text {
                match byte {
                    b'\\' => out.extend(b"\\\\"),
                    byte if byte < b' ' => drop(write!(out, "\\x{byte:02x}")),
                    byte => out.push(byte),
                }
            }
        }
    }
}

/// `2026-11-23T08:14:05.123Z`.
fn write_iso(out: &mut Vec<u8>, ns: u64, digits: u8) -> std::io::Result<()> {
    let seconds = ns / 1_000_000_000;
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
    write_fraction(out, ns, digits)?;
    out.write_all(b"Z")
}

fn write_fraction(out: &mut Vec<u8>, ns: u64, digits: u8) -> std::io::Result<()> {
    let digits = usize::from(digits.min(9));
    if digits == 0 {
        return Ok(());
    }
    let part = ns % 1_000_000_000 / 10_u64.pow(9 - digits as u32);
    write!(out, ".{part:0digits$}")
}

/// The Gregorian date of a day, counted from 1970-01-01. In the computation years begin in March, so that a leap day is
/// the last day of its year; 400 years have 146,097 days.
pub(crate) fn civil(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(cell: &Cell<'_>) -> String {
        let mut out = Vec::new();
        cell.write_plain(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// Dates by `date -u -d @SECONDS`.
    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (1_709_164_799, "2024-02-28T23:59:59Z"),
            (1_795_421_645, "2026-11-23T08:14:05Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(plain(&Cell::Iso(seconds * 1_000_000_000, 0)), expected);
        }
        assert_eq!(plain(&Cell::Iso(1_000_000, 3)), "1970-01-01T00:00:00.001Z");
        assert_eq!(plain(&Cell::Seconds(1_234_567_891, 6)), "1.234567");
    }

    #[test]
    fn each_text_format_escapes_what_would_break_it() {
        let text = Cell::Text("a,\"b\"\t\n".into());
        let mut out = Vec::new();
        text.write_csv(b',', &mut out);
        assert_eq!(out, b"\"a,\"\"b\"\"\t\n\"");
        out.clear();
        text.write_zeek(&mut out);
        assert_eq!(out, b"a,\"b\"\\x09\\x0a");
        out.clear();
        text.write_json(&mut out);
        assert_eq!(out, br#""a,\"b\"\t\n""#);
        out.clear();
        Cell::Null.write_zeek(&mut out);
        assert_eq!(out, b"-");
    }
}
