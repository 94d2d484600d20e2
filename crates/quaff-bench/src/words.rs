//! Numbers as a report writes them. A loss that is not nothing never reads as `0 %`, and one that is not
//! everything never as `100 %`.

/// A ratio as percent: `0 %`, `<0.01 %`, `0.24 %`, `5.8 %`, `66.3 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", percent_bare(ratio))
}

/// As [`percent`], without the sign.
pub(crate) fn percent_bare(ratio: f64) -> String {
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

/// From the smallest to the largest, as percent: `27.0–28.4 %`; one number where both read the same.
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

/// A span of time: `41 s`, `2 min 5 s`, `1 h 12 min`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{} s", significant(seconds)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// A time in ms, with the unit that suits it: `850 ns`, `14.2 µs`, `1.23 ms`, `2.1 s`.
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

/// A time in ms as a column of ms has it, to the µs: `0.014`, `<0.001`, `12.35`.
pub fn millis(ms: f64) -> String {
    match ms.abs() {
        0.0 => "0".into(),
        v if v < 0.000_5 => "<0.001".into(),
        v if v < 10.0 => format!("{ms:.3}"),
        v if v < 100.0 => format!("{ms:.2}"),
        _ => format!("{ms:.1}"),
    }
}

/// Three digits that matter: `0.412`, `1.65`, `14.9`, `400`.
pub(crate) fn significant(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => trimmed(format!("{value:.1}")),
        v if v >= 1.0 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.3}")),
    }
}

/// Words as the stem of a file's name: small letters, digits and hyphens.
pub(crate) fn slug(words: &str) -> String {
    let mut out = String::new();
    for char in words.chars().flat_map(char::to_lowercase) {
        if char.is_ascii_alphanumeric() {
            out.push(char);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    out.trim_end_matches('-').into()
}

/// A word as a shell needs it.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%{}".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Words of others, fit for a terminal and a page: control characters, and those that turn the direction
/// of writing, become U+FFFD; ends of lines become spaces.
pub fn clean(words: &str) -> String {
    let one = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() => '\u{fffd}',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c => c,
    };
    words.chars().map(one).collect()
}

/// Words as Markdown takes them for words.
pub(crate) fn plain(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for char in clean(words).chars() {
        if "\\`*_[]!#<|~".contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// With a full stop. The first letter stays as it is: it may be that of a name.
pub(crate) fn sentence(words: &str) -> String {
    let end = if words.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    format!("{words}{end}")
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
    fn rates_counts_and_spans_read_well() {
        assert_eq!(rate(400_000.0), "400 kpps");
        assert_eq!(rate(1_650_000.0), "1.65 Mpps");
        assert_eq!(rate(999_600.0), "1 Mpps");
        assert_eq!(rate(12.0), "12 pps");
        assert_eq!(count(3_000_000), "3,000,000");
        assert_eq!(span(4.25), "4.25 s");
        assert_eq!(span(125.0), "2 min 5 s");
        assert_eq!(span(4320.0), "1 h 12 min");
    }

    #[test]
    fn delays_have_the_unit_that_suits_them() {
        assert_eq!(
            [0.0, 0.000_85, 0.0142, 0.999_9, 12.346, 2100.0].map(delay),
            ["0", "850 ns", "14.2 µs", "1 ms", "12.3 ms", "2.1 s"]
        );
        assert_eq!(delay(-0.25), "−250 µs");
        assert_eq!(
            [0.0, 0.000_2, 0.014, 12.346, 100.0].map(millis),
            ["0", "<0.001", "0.014", "12.35", "100.0"]
        );
    }

    #[test]
    fn words_of_others_stay_words() {
        assert_eq!(clean("a\u{1b}]52;c;x\u{7}b\u{202e}\n"), "a\u{fffd}]52;c;x\u{fffd}b\u{fffd} ");
        assert_eq!(plain("![x](http://y) <b> `c`"), "\\!\\[x\\](http://y) \\<b> \\`c\\`");
    }

    #[test]
    fn words_become_names_quotes_and_sentences() {
        assert_eq!(slug("Loss at 37.2 % of 1 Gbit/s"), "loss-at-37-2-of-1-gbit-s");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(quote("a b"), "'a b'");
        assert_eq!(quote("{file}"), "{file}");
        assert_eq!(sentence("tshark crashed"), "tshark crashed.");
        assert_eq!(sentence("Done."), "Done.");
    }
}
