//! Numbers with their units as text: in reports, findings and progress lines. A loss is never rounded to `0 %`, nor a
//! part to `100 %`. It never prints.

/// A ratio as a percentage: `0 %`, `<0.01 %`, `0.24 %`, `5.8 %`, `66.3 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", percent_bare(ratio))
}

/// As [`percent`], without the sign.
pub fn percent_bare(ratio: f64) -> String {
    let value = ratio * 100.0;
    match value {
        0.0 => "0".into(),
        v if v > 0.0 && v < 0.005 => "<0.01".into(),
        v if v < 1.0 => trimmed(format!("{v:.2}")),
        v if v < 99.95 => trimmed(format!("{v:.1}")),
        v if v < 100.0 => ">99.9".into(),
        v => format!("{v:.0}"),
    }
}

/// A ratio in percent without the sign, with two digits that count however small it is: `0.0012`, `4.7`, `31`, `>99`.
pub fn percent_fine(ratio: f64) -> String {
    let percent = ratio * 100.0;
    match percent {
        v if v <= 0.0 => "0".into(),
        v if (99.5..100.0).contains(&v) => ">99".into(),
        v => {
            let decimals = (1.0 - v.log10().floor()).clamp(0.0, 9.0) as usize;
            format!("{v:.decimals$}")
        }
    }
}

/// The range of a ratio as percentages: `27–28.4 %`; one number where both read the same.
pub fn percents([low, high]: [f64; 2]) -> String {
    let (from, to) = (percent_bare(low), percent_bare(high));
    if from == to { format!("{to} %") } else { format!("{from}–{to} %") }
}

/// Frames/s: `400 kpps`, `1.65 Mpps`.
pub fn rate(pps: f64) -> String {
    let (value, unit) = match pps {
        p if p >= 999_500.0 => (p / 1e6, "Mpps"),
        p if p >= 999.5 => (p / 1e3, "kpps"),
        p => (p, "pps"),
    };
    format!("{} {unit}", significant(value))
}

/// `1234567` as `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with the digits that the interval of an estimate supports: two if the interval is wider than the `estimate`
/// or has no upper end, otherwise all.
pub fn supported(n: u64, estimate: u64, low: u64, high: Option<u64>) -> u64 {
    let is_wide = high.is_none_or(|high| high.saturating_sub(low) > estimate);
    if is_wide { two_digits(n) } else { n }
}

/// A number rounded to two significant digits.
fn two_digits(n: u64) -> u64 {
    let unit = 10_u64.pow(n.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (n / unit + u64::from(n % unit * 2 >= unit)) * unit
}

/// A number with what it counts, a noun in the singular: `1 packet`, `1,234 packets`, `2 bodies`.
pub fn number_of(n: u64, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{} {}", count(n), plural(noun)),
    }
}

fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if noun.ends_with('s') => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// Words that begin with a plural, as they follow a number: `packets ignored` after 1 is `packet ignored`.
pub fn after_number(n: u64, words: &str) -> String {
    let (noun, rest) = words.split_once(' ').unwrap_or((words, ""));
    // Not `is`, `was`, `has`.
    let is_noun = noun.len() > 3 && noun.chars().all(char::is_alphanumeric);
    let is_plural = is_noun && noun.ends_with('s') && !noun.ends_with("ss");
    let one = match (noun.strip_suffix("ies"), noun.strip_suffix("sses")) {
        (Some(stem), _) => format!("{stem}y"),
        (_, Some(stem)) => format!("{stem}ss"),
        _ => noun.trim_end_matches('s').to_owned(),
    };
    match (n == 1 && is_plural, rest.is_empty()) {
        (false, _) => words.to_owned(),
        (true, true) => one,
        (true, false) => format!("{one} {rest}"),
    }
}

/// A number with its noun, and a clause in the plural after it: `1 packet of lo is cut`, `2 packets of lo are
/// cut`. The first verb agrees with the number, if it is in the first clause.
pub fn clause(n: u64, noun: &str, words: &str) -> String {
    const VERBS: [(&str, &str); 3] = [("are", "is"), ("were", "was"), ("have", "has")];
    let mut is_over = n != 1;
    let agreeing = words.split(' ').map(|word| {
        let singular = VERBS.iter().find(|(many, _)| *many == word && !is_over).map(|(_, one)| *one);
        is_over |= singular.is_some() || word.ends_with([',', ':', ';']);
        singular.unwrap_or(word)
    });
    let words = agreeing.collect::<Vec<_>>().join(" ");
    format!("{} {words}", number_of(n, noun))
}

/// As often as it happened: `once`, `2 times`, `1,234 times`.
pub fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{} times", count(n)) }
}

/// A duration: `41 s`, `2 min 5 s`, `1 h 12 min`, `24 d 20 h`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{} s", significant(seconds)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..TWO_DAYS => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", count(whole / 86_400), whole % 86_400 / 3600),
    }
}

/// From here on a duration has days, s.
const TWO_DAYS: u64 = 2 * 86_400;

/// A time in ms, with the unit that fits: `850 ns`, `14.2 µs`, `1.23 ms`, `2.1 s`.
pub fn delay(ms: f64) -> String {
    let (value, unit) = match ms.abs() {
        0.0 => return "0".into(),
        ms if ms < 0.000_999_5 => (ms * 1e6, "ns"),
        ms if ms < 0.999_5 => (ms * 1e3, "µs"),
        ms if ms < 999.5 => (ms, "ms"),
        ms => (ms / 1e3, "s"),
    };
    format!("{}{} {unit}", if ms < 0.0 { "−" } else { "" }, significant(value))
}

/// Three significant digits without trailing zeros: `0.412`, `1.65`, `14.9`, `400`.
pub fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => trimmed(format!("{value:.1}")),
        v if v >= 1.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.3}")),
    }
}

/// Units of bytes, each 1024 of the one before.
pub const BYTES: &[&str] = &["B", "KiB", "MiB", "GiB", "TiB"];
/// Units of bytes/s, each 1000 of the one before, as the following ones.
pub const BYTE_RATES: &[&str] = &["B/s", "kB/s", "MB/s", "GB/s"];
/// Units of bits/s.
pub const BIT_RATES: &[&str] = &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
/// Units of time, from ns on.
pub const TIMES: &[&str] = &["ns", "µs", "ms", "s"];

/// Bytes in binary units: `512 B`, `4.00 MiB`.
pub fn bytes(n: u64) -> String {
    fixed(n as f64, 1024.0, BYTES)
}

/// Packets/s with three digits: `400 kpps`, `1.50 Mpps`.
pub fn pps(rate: f64) -> String {
    fixed(rate, 1000.0, &["pps", "kpps", "Mpps", "Gpps"])
}

/// Bits/s: `4.80 Gb/s`.
pub fn bits(rate: f64) -> String {
    fixed(rate, 1000.0, BIT_RATES)
}

/// Bytes/s in decimal units, as disks are sold: `1.62 GB/s`.
pub fn byte_rate(rate: f64) -> String {
    fixed(rate, 1000.0, BYTE_RATES)
}

/// A duration in ns: `31.0 µs`, `12.5 s`; from two minutes on as [`span`].
pub fn span_ns(ns: u64) -> String {
    if ns < TWO_MINUTES_NS { fixed(ns as f64, 1000.0, TIMES) } else { span(ns as f64 / 1e9) }
}

/// From here on a duration in ns has minutes.
const TWO_MINUTES_NS: u64 = 120_000_000_000;

/// Three digits in the unit that fits, each `step` of the one before it; whole numbers in the first.
fn fixed(value: f64, step: f64, units: &[&str]) -> String {
    let (value, unit) = in_unit(value, step, step, units.len());
    let digits = if unit == 0 { 0 } else { digits(value) };
    format!("{value:.digits$} {}", units[unit])
}

/// As `fixed`, but whole numbers without a fraction: `10 Gb/s`, `64 MiB`, `34.4 µs`.
pub fn short(value: f64, step: f64, units: &[&str]) -> String {
    // What would be printed as 1000 is 1 of the next unit.
    let (value, unit) = in_unit(value, step, step - 0.5, units.len());
    let digits = if value.fract() < 0.005 { 0 } else { digits(value) };
    format!("{value:.digits$} {}", units[unit])
}

/// `value` and the number of its unit: the next one from `limit` on.
fn in_unit(mut value: f64, step: f64, limit: f64, units: usize) -> (f64, usize) {
    let mut unit = 0;
    while value >= limit && unit + 1 < units {
        value /= step;
        unit += 1;
    }
    (value, unit)
}

fn digits(value: f64) -> usize {
    usize::from(value < 100.0) + usize::from(value < 10.0)
}

fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_never_rounded_away() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_000_3), "<0.01 %");
        assert_eq!(percent(0.0024), "0.24 %");
        assert_eq!(percent(0.058), "5.8 %");
        assert_eq!(percent(0.66), "66 %");
        assert_eq!(percent(0.6634), "66.3 %");
        assert_eq!(percent(0.999_999), ">99.9 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percents([0.0, 0.0]), "0 %");
        assert_eq!(percents([0.27, 0.284]), "27–28.4 %");
    }

    #[test]
    fn fine_percentages_have_two_digits_that_count() {
        let all = [0.0, 0.000_012_3, 0.0466, 0.314, 0.995_1, 0.9996, 1.0].map(percent_fine);
        assert_eq!(all, ["0", "0.0012", "4.7", "31", ">99", ">99", "100"]);
    }

    #[test]
    fn rates_counts_and_spans_read_well() {
        assert_eq!(rate(400_000.0), "400 kpps");
        assert_eq!(rate(1_650_000.0), "1.65 Mpps");
        assert_eq!(rate(999_600.0), "1 Mpps");
        assert_eq!(rate(12.0), "12 pps");
        assert_eq!(count(3_000_000), "3,000,000");
        assert_eq!(span(4.25), "4.25 s");
        assert_eq!(span(125.0), "2 min 5 s");
        assert_eq!(span(4320.0), "1 h 12 min");
        assert_eq!(
            [172_799.0, 172_800.0, 195_933_600.0].map(span),
            ["47 h 59 min", "2 d 0 h", "2,267 d 18 h"]
        );
        assert_eq!([1, 2, 1234].map(times), ["once", "2 times", "1,234 times"]);
    }

    #[test]
    fn an_estimate_has_the_digits_that_its_interval_supports() {
        let wide = [0, 7, 99, 310, 994, 995, 13_827, 42_193].map(|n| supported(n, 13_827, 310, Some(42_193)));
        assert_eq!(wide, [0, 7, 99, 310, 990, 1000, 14_000, 42_000]);
        assert_eq!([528, 318, 727].map(|n| supported(n, 528, 318, Some(727))), [528, 318, 727]);
        assert_eq!(supported(1234, 1234, 1200, None), 1200);
        assert_eq!(two_digits(u64::MAX), 18_000_000_000_000_000_000);
    }

    #[test]
    fn one_has_no_plural() {
        let all = [
            (0, "packet"),
            (1, "packet"),
            (14_472, "packet"),
            (1, "body"),
            (2, "body"),
            (2, "delay"),
            (3, "loss"),
        ];
        assert_eq!(
            all.map(|(n, noun)| number_of(n, noun)),
            ["0 packets", "1 packet", "14,472 packets", "1 body", "2 bodies", "2 delays", "3 losses"]
        );
        for (words, one) in [
            ("packets ignored: not IP", "packet ignored: not IP"),
            ("bodies of HTTP without a file", "body of HTTP without a file"),
            ("calls", "call"),
            ("losses at most", "loss at most"),
            ("late", "late"),
            ("FINs not captured", "FIN not captured"),
            ("missing: it is too slow", "missing: it is too slow"),
            ("(0.01 %) lost", "(0.01 %) lost"),
        ] {
            assert_eq!((after_number(1, words).as_str(), after_number(2, words).as_str()), (one, words));
        }
    }

    #[test]
    fn the_verb_of_a_clause_agrees() {
        let said = [1, 2, 14_472].map(|n| clause(n, "packet", "of lo are cut: they have no room"));
        assert_eq!(
            said,
            [
                "1 packet of lo is cut: they have no room",
                "2 packets of lo are cut: they have no room",
                "14,472 packets of lo are cut: they have no room"
            ]
        );
        assert_eq!(clause(1, "record", "for a were sent"), "1 record for a was sent");
        assert_eq!(clause(1, "packet", "came: they are late"), "1 packet came: they are late");
    }

    #[test]
    fn delays_have_the_unit_that_suits_them() {
        assert_eq!(
            [0.0, 0.000_85, 0.0142, 0.999_9, 12.346, 2100.0].map(delay),
            ["0", "850 ns", "14.2 µs", "1 ms", "12.3 ms", "2.1 s"]
        );
        assert_eq!(delay(-0.25), "−250 µs");
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0, 999].map(count), ["0", "999"]);
        assert_eq!(bytes(4 << 20), "4.00 MiB");
        assert_eq!(pps(400_000.0), "400 kpps");
        assert_eq!(bits(4.8e9), "4.80 Gb/s");
        let spans = [31_000, 119_400_000_000, 7_200_000_000_000, 2_147_484_000_000_000].map(span_ns);
        assert_eq!(spans, ["31.0 µs", "119 s", "2 h 0 min", "24 d 20 h"]);
    }
}
