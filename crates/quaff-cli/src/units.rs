//! Parsers of values that several commands take: `256M`, `1.5G`, `90s`, `2h`, and names such as `adapter`.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};
use quaff_file::read::Compression;
use quaff_file::write::{Codec, Format};
use quaff_os::packet::TimeSource;
use std::ffi::OsStr;
use std::time::Duration;

/// A name of a value, the value, and its description in the help.
pub(crate) type Choice<T> = (&'static str, T, &'static str);

/// The clocks that time-stamp packets, with the names of tcpdump's `-j`.
pub(crate) const CLOCKS: [Choice<TimeSource>; 2] =
    [("host", TimeSource::Host, ""), ("adapter", TimeSource::Adapter, "")];
/// The formats of capture files.
pub(crate) const FORMATS: [Choice<Format>; 3] =
    [("pcapng", Format::Pcapng, ""), ("pcap", Format::Pcap, ""), ("pcap-us", Format::PcapUs, "")];

/// A parser of the names of `values`; the help lists them, with their descriptions where there are some.
pub(crate) fn choice<T, const N: usize>(values: [Choice<T>; N]) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    let described = values.each_ref().map(|(name, _, help)| match *help {
        "" => PossibleValue::new(*name),
        help => PossibleValue::new(*name).help(help),
    });
    PossibleValuesParser::new(described).map(move |word| {
        let known = values.iter().find(|(name, ..)| *name == word);
        known.expect("clap passes listed names only").1.clone()
    })
}

/// As [`choice`]; the error of an unknown name ends with `hint`.
pub(crate) fn choice_or<T, const N: usize>(
    values: [Choice<T>; N],
    hint: &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Clone + Send + Sync + 'static,
{
    Hinted(choice(values), hint)
}

/// A parser, and a hint for what it refuses.
#[derive(Clone)]
struct Hinted<P>(P, &'static str);

impl<P: TypedValueParser> TypedValueParser for Hinted<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.0.parse_ref(command, arg, value).map_err(|mut error| {
            let hint = ContextValue::StyledStrs(vec![self.1.into()]);
            error.insert(ContextKind::Suggested, hint);
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// A compression, with its level behind a colon where it has one: `zstd`, `zstd:3`, `lz4`, `gzip:6`.
pub(crate) fn codec(text: &str) -> Result<Codec, String> {
    let (word, level) = text.split_once(':').map_or((text, None), |(word, level)| (word, Some(level)));
    let known = [("zstd", Compression::Zstd), ("lz4", Compression::Lz4), ("gzip", Compression::Gzip)];
    let fastest = Codec::fastest(named(word, known)?);
    let Some(level) = level else { return Ok(fastest) };
    let most = Codec::level_max(fastest.compression);
    match level.parse() {
        Ok(level) if most > 1 && (1..=most).contains(&level) => Ok(Codec { level, ..fastest }),
        _ if most == 1 => Err(format!("{word} has no levels")),
        _ => Err(format!("'{level}': {word} has the levels 1 to {most}")),
    }
}

/// The value called `word`; the error lists the names.
pub(crate) fn named<T, const N: usize>(word: &str, known: [(&str, T); N]) -> Result<T, String> {
    let names = known.each_ref().map(|(name, _)| *name).join(", ");
    let found = known.into_iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| value).ok_or_else(|| format!("'{word}' is none of {names}"))
}

/// Bytes: a number with an optional K, M, G or T (powers of 1024; `MiB`, `MB` are the same).
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = unit.trim_end_matches(['b', 'B']).trim_end_matches('i');
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("'{text}': unknown unit '{unit}'; use K, M, G or T")),
    };
    Ok((number * (1u64 << shift) as f64).round() as u64)
}

/// A number, perhaps a fraction, with an optional k, M or G (powers of 1000): `400k`, `1.5M`.
pub(crate) fn decimal(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    match unit {
        "" => Ok(number),
        "k" | "K" => Ok(number * 1e3),
        "M" => Ok(number * 1e6),
        "G" => Ok(number * 1e9),
        _ => Err(format!("'{text}': unknown unit '{unit}'; use k, M or G")),
    }
}

/// A rate: as [`decimal`], and more than 0.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    decimal(text).and_then(|rate| if rate > 0.0 { Ok(rate) } else { Err("a rate is more than 0".into()) })
}

/// A number of packets: as [`whole`], and 1 at least.
pub(crate) fn packets(text: &str) -> Result<u64, String> {
    whole(text).and_then(|count| if count > 0 { Ok(count) } else { Err("1 is the least".into()) })
}

/// A share in percent, from 0 to less than 100, with or without its sign: `10`, `2.5%`.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| format!("'{text}' is no number of percent from 0 to less than 100"))
}

/// A whole number with an optional k, M or G (powers of 1000): `3M`.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let number = decimal(text)?;
    // Up to 2^53 every whole number is a float of its own.
    if number.fract() == 0.0 && number < 9e15 {
        Ok(number as u64)
    } else {
        Err(format!("'{text}' is not a whole number"))
    }
}

/// A duration: a number with ns, us, ms, s (the default), m, h or d.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("'{text}': unknown unit '{unit}'; use ns, us, ms, s, m, h or d")),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|error| format!("'{text}': {error}"))
}

/// A time between two lines: as [`duration`], and 1 ms at least.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let is_long = |time: &Duration| *time >= Duration::from_millis(1);
    duration(text).and_then(|time| Some(time).filter(is_long).ok_or_else(|| "1ms is the least".to_owned()))
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text that resembles values, and any text.
    pub(crate) fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[-+@:.,0-9TZkMGinfsmhµ% ]{0,20}",
            "(duration|packets|filesize|files|zstd|gzip):[-0-9.ei]{0,25}",
            ".{0,12}"
        ]
    }

    /// Returns whether a parser gives a value or a reason.
    pub(crate) fn is_answered<T>(read: Result<T, impl std::fmt::Display>) -> bool {
        read.err().is_none_or(|error| !error.to_string().is_empty())
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_has_a_reason(text in texts()) {
            let numbers = [decimal, rate, percent].map(|parser| is_answered(parser(&text)));
            let wholes = [bytes, packets, whole].map(|parser| is_answered(parser(&text)));
            prop_assert_eq!((numbers, wholes), ([true; 3], [true; 3]));
            prop_assert!(is_answered(codec(&text)) && is_answered(duration(&text)));
            if let Ok(rate) = rate(&text) {
                prop_assert!(rate > 0.0);
            }
        }
    }

    #[test]
    fn sizes_in_powers_of_1024() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("1k"), Ok(1024));
        assert_eq!(bytes("256M"), Ok(256 << 20));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert!(bytes("12X").is_err());
        assert!(bytes("M").is_err());
    }

    #[test]
    fn rates_and_counts_in_powers_of_1000() {
        assert_eq!(decimal("400k"), Ok(400_000.0));
        assert_eq!(decimal("1.5M"), Ok(1_500_000.0));
        assert_eq!(decimal("0.5"), Ok(0.5));
        assert!(decimal("1T").is_err());
        assert_eq!(whole("3M"), Ok(3_000_000));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole("1.5k"), Ok(1500));
        assert!(whole("1.5").is_err());
        assert_eq!((packets("1k"), rate("2k")), (Ok(1000), Ok(2000.0)));
        assert!(packets("0").is_err() && rate("0").is_err() && rate("-1").is_err());
        assert!(whole("-1").is_err());
    }

    #[test]
    fn compressions_with_levels() {
        let codec_of = |text: &str| codec(text).map(|codec| codec.to_string());
        for text in ["zstd:1", "zstd:19", "lz4", "gzip:9"] {
            assert_eq!(codec_of(text), Ok(text.to_owned()));
        }
        assert_eq!((codec_of("zstd"), codec_of("gzip")), (Ok("zstd:1".into()), Ok("gzip:1".into())));
        assert_eq!(codec_of("lz4:1"), Err("lz4 has no levels".into()));
        assert_eq!(codec_of("zstd:20"), Err("'20': zstd has the levels 1 to 19".into()));
        assert_eq!(codec_of("zip"), Err("'zip' is none of zstd, lz4, gzip".into()));
    }

    #[test]
    fn percents_with_or_without_their_sign() {
        assert_eq!((percent("10"), percent("10%"), percent("2.5 %")), (Ok(10.0), Ok(10.0), Ok(2.5)));
        assert!(["", "%", "x", "-1", "100", "nan", "inf", "1%%"].iter().all(|text| percent(text).is_err()));
    }

    #[test]
    fn durations_with_units() {
        assert_eq!(duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(duration("5 parsecs").is_err());
        assert_eq!(interval("1ms"), Ok(Duration::from_millis(1)));
        assert!(["0", "1us", "x"].iter().all(|text| interval(text).is_err()));
    }
}
