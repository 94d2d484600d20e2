//! Makes foreign text harmless: names in capture files, names of interfaces and files, messages of programs.
//!
//! A terminal obeys control characters (ECMA-48: C0, DEL, C1), and some Unicode characters change the order of
//! displayed text (UAX 9, section 2) or break a line. They become U+FFFD; in JSON they are escaped, so that a program
//! still reads the original text. Text for a capture file is never changed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Multi-line text for a terminal. Line ends and tabs are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_obeyed(c) && !matches!(c, '\n' | '\t'))
}

/// A name, or other single-line text, for a terminal or a log: it cannot start a new line.
pub fn name(text: &str) -> Cow<'_, str> {
    replaced(text, is_obeyed)
}

/// JSON for a terminal. Outside of strings JSON is ASCII, so an escape sequence is valid wherever such a character
/// occurs.
pub fn json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_obeyed(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_escaped(c) {
            // All of them are in the basic multilingual plane: one UTF-16 unit each.
            write!(escaped, "\\u{:04x}", u32::from(c)).expect("a String takes all");
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Quotes a word for a shell.
pub fn quote(word: &str) -> String {
    // A shell expands braces around a comma or two dots.
    let expands = word.contains(',') || word.contains("..");
    let signs = if expands { "-_./=:,+@%" } else { "-_./=:+@%{}" };
    if !word.is_empty() && word.chars().all(|char| char.is_ascii_alphanumeric() || signs.contains(char)) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Words that end a command line, quoted for a shell; after `--` where one would be taken for an option.
pub fn operands(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
    let lead = if words.iter().any(|word| word.starts_with('-')) { "-- " } else { "" };
    format!("{lead}{}", quoted.join(" "))
}

/// The flag `-i` of a command of quaff with an interface, quoted for a shell.
pub fn interface_flag(interface: &str) -> String {
    let is_flag = interface.starts_with('-');
    format!("{}{}", if is_flag { "--interface=" } else { "-i " }, quote(interface))
}

/// The path of a file as a word of any command line, quoted for a shell: never an option.
pub fn quote_path(path: &str) -> String {
    if path.starts_with('-') { quote(&format!("./{path}")) } else { quote(path) }
}

/// True for characters that a terminal, a log or a page obeys instead of showing.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || is_direction(c)
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// True for characters that set the writing direction: the property Bidi_Control, and its deprecated relatives.
fn is_direction(c: char) -> bool {
    let marks = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}');
    marks || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

fn replaced(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let one = |c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c };
    Cow::Owned(text.chars().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_never_an_option() {
        assert_eq!(
            (operands(&["a", "b c"]).as_str(), operands(&["-a", "b"]).as_str()),
            ("a 'b c'", "-- -a b")
        );
        assert_eq!(interface_flag("eth0"), "-i eth0");
        assert_eq!(interface_flag("-i;x"), "--interface='-i;x'");
        assert_eq!((quote_path("-rf").as_str(), quote_path("/a b").as_str()), ("./-rf", "'/a b'"));
    }

    /// Arbitrary text with many critical characters.
    fn hostile() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            any::<char>(),
            (0u32..0xa0).prop_map(|c| char::from_u32(c).expect("below the surrogates")),
            (0x2000u32..0x2070).prop_map(|c| char::from_u32(c).expect("below the surrogates")),
            Just('\u{61c}'),
            Just('"'),
            Just('\\'),
        ];
        prop::collection::vec(one, 0..60).prop_map(|chars| chars.into_iter().collect())
    }

    /// Independent second list, by code points: C0, DEL and C1, marks, separators, directions, annotations.
    fn is_dangerous(c: char) -> bool {
        matches!(u32::from(c), 0..=0x1f | 0x7f..=0x9f | 0x61c | 0x200e | 0x200f | 0x2028..=0x202e | 0x2066..=0x206f
            | 0xfeff | 0xfff9..=0xfffb)
    }

    proptest! {
        #[test]
        fn no_character_that_a_terminal_obeys_comes_out(text in hostile()) {
            prop_assert!(!name(&text).contains(is_dangerous), "{text:?}");
            let shown = lines(&text);
            prop_assert!(!shown.replace(['\n', '\t'], "").contains(is_dangerous), "{text:?}");
            // All other characters stay in place.
            prop_assert_eq!(name(&text).chars().count(), text.chars().count());
            for (before, after) in text.chars().zip(shown.chars()) {
                let is_replaced = is_dangerous(before) && after == char::REPLACEMENT_CHARACTER;
                prop_assert!(after == before || is_replaced, "{text:?}");
            }
        }

        #[test]
        fn json_is_printable_and_reads_as_the_same_text(text in hostile()) {
            let written = serde_json::to_string(&[&text]).expect("a list of strings");
            let shown = json(&written);
            prop_assert!(!shown.contains(is_dangerous), "{shown:?}");
            let read: Vec<String> = serde_json::from_str(&shown).expect("JSON");
            prop_assert_eq!(&read[0], &text);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(["a b", "{file}", "{a,b}", "/data"].map(quote), ["'a b'", "{file}", "'{a,b}'", "/data"]);
        assert_eq!(["it's", ""].map(quote), [r"'it'\''s'", "''"]);
    }

    #[test]
    fn known_attacks_are_replaced_and_plain_text_is_not_copied() {
        assert_eq!(name("a\u{1b}]0;title\u{7}b"), "a\u{fffd}]0;title\u{fffd}b");
        assert_eq!(name("\u{85}\u{9b}31m\u{202e}gnp.exe"), "\u{fffd}\u{fffd}31m\u{fffd}gnp.exe");
        assert_eq!(name("eth0\nquaff: none lost"), "eth0\u{fffd}quaff: none lost");
        assert_eq!(lines("a\tb\nµ – 1 %\r"), "a\tb\nµ – 1 %\u{fffd}");
        assert_eq!(json("{\"name\":\"\u{9b}31m\u{202e}\"}"), r#"{"name":"\u009b31m\u202e"}"#);
        assert!(matches!(name("größe-1 日本 אב"), Cow::Borrowed(_)));
        assert!(matches!(json("{\n  \"a\": 1\n}"), Cow::Borrowed(_)));
    }
}
