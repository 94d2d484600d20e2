//! Parsers of the values of `quaff bench capture`: lists, ranges in steps, names.

use crate::flags::{RateValue, values};
use crate::units::{self, Choice, choice, choice_or};
use clap::builder::ValueParser;
use quaff_bench::bench::plan::{Rate, Topology};
use quaff_lab::tool::{Filter, Output};
pub(super) use quaff_lab::traffic::Content;
use quaff_lab::traffic::Size;

/// Rate of the mirror port of a line by default, Mbit/s.
const MIRROR_MBPS: u32 = 1000;
/// More rates than this in one range are a mistake.
const STEPS_MAX: f64 = 1000.0;

/// The values of one flag. Boxed, because clap would treat a `Vec` as a repeatable flag.
pub(super) type List<T> = Box<[T]>;

values! {
    List<Size>: |text: &str| list(text, size);
    List<Option<u64>>: buffers;
    List<Option<u32>>: snaplens;
    List<u32>: numbers;
    List<Filter>: filters;
    Content: choice(CONTENTS);
    Topology: choice_or(BEDS, "real interfaces are given with --send-on and --receive-on");
}

impl RateValue for List<Rate> {
    fn pps() -> ValueParser {
        ValueParser::new(pps)
    }

    fn mbps() -> ValueParser {
        ValueParser::new(mbps)
    }

    fn util() -> ValueParser {
        ValueParser::new(percent)
    }
}

fn size(text: &str) -> Result<Size, String> {
    match text.parse() {
        Ok(bytes) => Ok(Size::Bytes(bytes)),
        Err(_) => {
            let size = Size::Mix(text.to_owned());
            let unknown = || format!("'{text}' is no size and no mix that I know");
            size.mean_bytes().map(|_| size).ok_or_else(unknown)
        }
    }
}

fn pps(text: &str) -> Result<List<Rate>, String> {
    rates(text, |pps| Rate::Pps(pps.round() as u64))
}

fn mbps(text: &str) -> Result<List<Rate>, String> {
    rates(text, Rate::Mbps)
}

/// Percent of a link whose rate another flag sets; until then 1 Gbit/s.
fn percent(text: &str) -> Result<List<Rate>, String> {
    rates(text, |percent| Rate::Util { percent, link_mbps: 1000.0 })
}

fn buffers(text: &str) -> Result<List<Option<u64>>, String> {
    list(text, |word| match word {
        "own" => Ok(None),
        size => match units::bytes(size)? {
            bytes if bytes > 0 && bytes % (1 << 20) == 0 => Ok(Some(bytes >> 20)),
            _ => Err(format!("'{size}' is not a whole number of MiB, such as 256M")),
        },
    })
}

fn snaplens(text: &str) -> Result<List<Option<u32>>, String> {
    list(text, |word| match word {
        "full" => Ok(None),
        bytes => number(bytes).map(Some),
    })
}

pub(super) fn numbers(text: &str) -> Result<List<u32>, String> {
    list(text, number)
}

fn filters(text: &str) -> Result<List<Filter>, String> {
    let filters = [("none", Filter::None), ("accept", Filter::AcceptAll), ("reject", Filter::RejectAll)];
    list(text, |word| units::named(word, filters))
}

pub(super) fn outputs(text: &str) -> Result<List<Output>, String> {
    let outputs =
        [("disk", Output::Disk), ("null", Output::Null), ("pipe", Output::Pipe), ("screen", Output::Screen)];
    list(text, |word| units::named(word, outputs))
}

const CONTENTS: [Choice<Content>; 3] =
    [("counting", Content::Counting, ""), ("zeros", Content::Zeros, ""), ("random", Content::Random, "")];
const BEDS: [Choice<Topology>; 4] = [
    ("direct", Topology::Direct, "generator and capturer"),
    ("span", Topology::Span, "a bridge mirrors a port"),
    ("tap", Topology::Tap, "a forwarder copies"),
    (
        "line",
        Topology::Line { mirror_mbps: MIRROR_MBPS },
        "captured at a port, at a mirror port of 1 Gbit/s, and by 'quaff tap' in it, each in turn",
    ),
];

fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("'{word}' is not a whole number"))
}

fn list<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<List<T>, String> {
    text.split(',').map(|word| read(word.trim())).collect()
}

/// `max`, numbers, and ranges `FROM-TO/STEP`, both ends included.
fn rates(text: &str, rate: impl Fn(f64) -> Rate) -> Result<List<Rate>, String> {
    let mut all = Vec::new();
    for word in text.split(',').map(str::trim) {
        match word.split_once('/') {
            None if word == "max" => all.push(Rate::Max),
            None => all.push(rate(units::decimal(word)?)),
            Some((range, step)) => all.extend(steps(word, range, step)?.into_iter().map(&rate)),
        }
    }
    Ok(all.into())
}

fn steps(word: &str, range: &str, step: &str) -> Result<Vec<f64>, String> {
    let (from, to) = range.split_once('-').ok_or_else(|| format!("'{word}' is no range FROM-TO/STEP"))?;
    let (from, to, step) = (units::decimal(from)?, units::decimal(to)?, units::decimal(step)?);
    let count = (to - from) / step;
    if !(0.0..STEPS_MAX).contains(&count) {
        return Err(format!("'{word}' is no range of some steps upwards"));
    }
    // A hair more, so that the last step is not lost to rounding.
    Ok((0..=(count + 1e-9) as u32).map(|at| from + f64::from(at) * step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bed_that_is_none_has_a_hint_for_real_interfaces() {
        for (line, flag) in
            [("bench capture --bed eth0", "--send-on"), ("service --bed eth0 --preset rfc2544", "--from")]
        {
            let words: Vec<_> = line.split(' ').map(std::ffi::OsString::from).collect();
            let refused = crate::read(&words).map(drop).unwrap_err().to_string();
            assert!(refused.contains("possible values") && refused.contains(flag), "{refused}");
        }
    }

    #[test]
    fn rates_are_numbers_ranges_and_as_fast_as_possible() {
        assert_eq!(pps("400k,max"), Ok([Rate::Pps(400_000), Rate::Max].into()));
        let pam = mbps("50-950/50").expect("a range");
        assert_eq!((pam.len(), pam[0], pam[18]), (19, Rate::Mbps(50.0), Rate::Mbps(950.0)));
        assert_eq!(percent("37.2"), Ok([Rate::Util { percent: 37.2, link_mbps: 1000.0 }].into()));
        assert_eq!(pps("0.1-0.3/0.1").map(|all| all.len()), Ok(3));
        for wrong in ["", "fast", "10-5/1", "1-5/0", "1/2", "1-1M/1"] {
            assert!(pps(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_and_numbers_of_the_others() {
        assert_eq!(size("64"), Ok(Size::Bytes(64)));
        assert_eq!(size("imix"), Ok(Size::Mix("imix".into())));
        assert!(size("imx").is_err());
        assert_eq!(buffers("own,1M,2G"), Ok([None, Some(1), Some(2048)].into()));
        assert!(buffers("1k").is_err() && buffers("0").is_err());
        assert_eq!(snaplens("76,full"), Ok([Some(76), None].into()));
        assert_eq!(filters("none,accept"), Ok([Filter::None, Filter::AcceptAll].into()));
        assert!(filters("all").is_err() && outputs("printer").is_err() && numbers("two").is_err());
        assert_eq!(outputs("null,pipe"), Ok([Output::Null, Output::Pipe].into()));
    }
}
