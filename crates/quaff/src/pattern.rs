//! A regular expression on bytes, for which packets are searched.

use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::{NFA, WhichCaptures};
use regex_automata::util::syntax;

/// Size of the compiled program, bytes, at most.
const PROGRAM_BYTES_MAX: usize = 4 << 20;

/// A regular expression that matches bytes, in linear time.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Compiles a pattern in the syntax of the Rust crate `regex`; `(?i)` ignores case, `\xff` is a byte, and `.`
    /// matches any byte but the end of a line.
    pub fn new(text: &str) -> Result<Self, String> {
        let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(PROGRAM_BYTES_MAX));
        let built = Regex::builder().syntax(of_bytes()).configure(config).build(text);
        let regex = built.map_err(|error| {
            let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
            format!("'{text}' is no regular expression: {why}")
        })?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// The pattern, as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_in(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }

    /// The offset at which the first match begins.
    pub(crate) fn find_in(&self, bytes: &[u8]) -> Option<u64> {
        self.regex.find(bytes).map(|found| found.start() as u64)
    }

    /// The automaton of the pattern, for bytes that come in pieces.
    pub(crate) fn automaton(&self) -> Result<NFA, String> {
        let config = NFA::config().utf8(false).which_captures(WhichCaptures::None);
        let config = config.nfa_size_limit(Some(PROGRAM_BYTES_MAX));
        let built = NFA::compiler().syntax(of_bytes()).configure(config).build(&self.text);
        let nfa = built.map_err(|error| format!("'{}' is not for streams: {error}", self.text))?;
        // One would need more bytes around a place than the two that are known.
        if nfa.look_set_any().contains_word_unicode() {
            return Err(format!("'{}' is not for streams: it has a word boundary of Unicode", self.text));
        }
        Ok(nfa)
    }
}

/// The syntax of patterns of bytes, which need not be UTF-8.
fn of_bytes() -> syntax::Config {
    syntax::Config::new().utf8(false).unicode(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_match_whatever_their_encoding() {
        let is_in = |text: &str, bytes: &[u8]| Pattern::new(text).expect("a pattern").is_in(bytes);
        assert!(is_in("^GET /[0-9]+", b"GET /42 HTTP/1.1") && !is_in("^GET", b"xGET"));
        assert!(is_in("(?i)password", b"PassWord") && !is_in("password", b"PassWord"));
        assert!(is_in(r"\xff\x00.\xfe", b"a\xff\x00\x80\xfe"));
        for wrong in ["(", "a{9999999}", "[z-a]"] {
            assert!(Pattern::new(wrong).is_err(), "{wrong}");
        }
    }
}
