//! Makes texts of other programs harmless, and derives names and sentences from texts.

use quaff_wire::printable::is_obeyed;

/// A file name or URL fragment: lower-case letters, digits and hyphens.
pub(super) fn slug(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars().flat_map(char::to_lowercase) {
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

/// The text for a terminal or a page: control characters, and those that XML forbids, become U+FFFD; line breaks
/// become spaces.
pub(super) fn clean(text: &str) -> String {
    let one = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if is_obeyed(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(one).collect()
}

/// The text escaped for Markdown.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in clean(text).chars() {
        if "\\`*_[]!#<|~".contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// The text with a full stop. The first letter keeps its case: it may start a name.
pub(super) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?', ':']) { "" } else { "." };
    format!("{text}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_text() {
        assert_eq!(clean("a\u{1b}]52;c;x\u{7}b\u{202e}\n"), "a\u{fffd}]52;c;x\u{fffd}b\u{fffd} ");
        assert_eq!(plain("![x](http://y) <b> `c`"), "\\!\\[x\\](http://y) \\<b> \\`c\\`");
    }

    #[test]
    fn text_becomes_names_and_sentences() {
        assert_eq!(slug("Loss at 37.2 % of 1 Gbit/s"), "loss-at-37-2-of-1-gbit-s");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(sentence("tshark crashed"), "tshark crashed.");
        assert_eq!(sentence("Done."), "Done.");
    }
}
