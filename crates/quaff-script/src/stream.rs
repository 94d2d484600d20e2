//! One direction of a stream for triggers: its first bytes, lines, and matches across segments.
//!
//! Memory per direction is bounded by the constants below; a longer line or match is cut.

use regex_automata::Input;
use regex_automata::meta::Regex;
use std::borrow::Cow;

/// First bytes that a prefix or a regex of `data` examines.
pub(crate) const FIRST_BYTES: usize = 1024;
/// Longest match that is found completely if it spans segments.
pub(crate) const MATCH_BYTES: usize = 4096;

/// The decision about the first bytes of a direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Too few bytes so far. They are kept, and passed on once the gate opens.
    Waiting(Vec<u8>),
    Open,
    Shut,
}

impl Default for Gate {
    fn default() -> Self {
        Self::Waiting(Vec::new())
    }
}

impl Gate {
    /// Examines the next bytes. Returns those to pass on, with their offset: all bytes so far, once it opens.
    pub(crate) fn take<'a>(
        &mut self,
        (prefix, regex): (Option<&[u8]>, Option<&Regex>),
        offset: u64,
        bytes: &'a [u8],
        is_last: bool,
    ) -> Option<(u64, Cow<'a, [u8]>)> {
        let kept = match self {
            Self::Open => return Some((offset, bytes.into())),
            Self::Shut => return None,
            Self::Waiting(kept) => std::mem::take(kept),
        };
        let begin = offset - kept.len() as u64;
        let first: Cow<[u8]> =
            if kept.is_empty() { bytes.into() } else { [&kept[..], bytes].concat().into() };
        let is_all = is_last || first.len() >= FIRST_BYTES;
        let head = &first[..first.len().min(FIRST_BYTES)];
        let by_prefix = match prefix {
            Some(prefix) if !is_all && head.len() < prefix.len() && prefix.starts_with(head) => None,
            prefix => Some(prefix.is_none_or(|prefix| head.starts_with(prefix))),
        };
        let by_regex = match regex.map(|regex| regex.is_match(head)) {
            Some(false) if !is_all => None,
            found => Some(found.unwrap_or(true)),
        };
        match (by_prefix, by_regex) {
            (Some(true), Some(true)) => {
                *self = Self::Open;
                return Some((begin, first));
            }
            (Some(false), _) | (_, Some(false)) => *self = Self::Shut,
            _ => *self = Self::Waiting(first.into_owned()),
        }
        None
    }

    /// Skips missing bytes: the first bytes can no longer be known.
    pub(crate) fn skip(&mut self) {
        if matches!(self, Self::Waiting(_)) {
            *self = Self::Shut;
        }
    }
}

/// Bytes before a match that its expression may examine: for `^`, and for `\b` after a UTF-8 character.
const BEFORE_BYTES: usize = 4;

/// Searches for matches in a direction whose bytes arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// Bytes in which a match may start, or has started, after `before` bytes of context.
    kept: Vec<u8>,
    before: usize,
}

impl Search {
    /// Examines the next bytes, which start at `offset`; `found` receives the offset and the text of each match.
    pub(crate) fn take(
        &mut self,
        regex: &Regex,
        offset: u64,
        bytes: &[u8],
        is_last: bool,
        mut found: impl FnMut(u64, &[u8]),
    ) {
        let (before, known) = (self.before, self.kept.len() - self.before);
        let begin = offset - known as u64;
        self.kept.extend_from_slice(bytes);
        let mut at = before;
        while at <= self.kept.len() {
            let input = Input::new(&self.kept).range(at..);
            let Some(span) = regex.search(&input).map(|found| found.span()) else { break };
            // The next bytes may extend it.
            let may_grow = !is_last && span.end == self.kept.len() && span.len() < MATCH_BYTES;
            if may_grow {
                self.keep_from(span.start);
                return;
            }
            if !span.is_empty() {
                found(
                    begin + (span.start - before) as u64,
                    &self.kept[span.start..span.end.min(span.start + MATCH_BYTES)],
                );
            }
            at = if span.is_empty() { span.end + 1 } else { span.end };
        }
        let keep_from = self.kept.len().saturating_sub(MATCH_BYTES).max(at.min(self.kept.len()));
        self.keep_from(if is_last { self.kept.len() } else { keep_from });
    }

    /// Keeps the bytes from an offset on, and the context before it.
    fn keep_from(&mut self, at: usize) {
        self.before = at.min(BEFORE_BYTES);
        self.kept.drain(..at - self.before);
    }

    /// Skips missing bytes: the next byte is not the first one of the direction.
    pub(crate) fn skip(&mut self) {
        self.kept.clear();
        self.kept.push(0);
        self.before = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(pattern: &str, pieces: &[&str]) -> Vec<(u64, String)> {
        let (regex, mut search, mut all, mut offset) =
            (Regex::new(pattern).unwrap(), Search::default(), Vec::new(), 0);
        for (at, piece) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            search.take(&regex, offset, piece.as_bytes(), is_last, |offset, text| {
                all.push((offset, String::from_utf8_lossy(text).into_owned()));
            });
            offset += piece.len() as u64;
        }
        all
    }

    #[test]
    fn a_match_is_found_however_segments_cut_it() {
        let text = "x=1 user=4711 yuser=12";
        let whole = search("user=[0-9]+", &[text]);
        assert_eq!(whole, [(4, "user=4711".to_owned()), (15, "user=12".to_owned())]);
        for at in 0..text.len() {
            let (one, other) = text.split_at(at);
            assert_eq!(search("user=[0-9]+", &[one, other]), whole, "cut at {at}");
        }
        let bytes: Vec<&str> = text.split_inclusive(|_| true).collect();
        assert_eq!(search("user=[0-9]+", &bytes), whole);
        assert_eq!(search("z*", &[text]), [], "nothing is no match");
    }

    #[test]
    fn memory_of_a_search_is_bounded() {
        let (regex, mut search) = (Regex::new("b+c").unwrap(), Search::default());
        for at in 0..1000 {
            search.take(&regex, at * 1000, &[b'b'; 1000], false, |_, _| ());
            assert!(search.kept.len() <= MATCH_BYTES + BEFORE_BYTES);
        }
    }

    #[test]
    fn the_begin_is_that_of_the_direction_and_of_no_segment() {
        let found = |pattern, pieces: &[&str]| search(pattern, pieces).into_iter().map(|found| found.0);
        assert_eq!(found("^a", &["a", "a", "a", "a"]).collect::<Vec<_>>(), [0]);
        let long = "b".repeat(MATCH_BYTES + 100);
        let rest = "a".repeat(100);
        let pieces: Vec<&str> = [&*long].into_iter().chain([&*rest; 50]).chain(["b"]).collect();
        assert_eq!(found("^a", &pieces).count(), 0, "a piece is no direction");
        assert_eq!(found(r"(?-u:\b)a", &["ba", "ca", " a", "x"]).collect::<Vec<_>>(), [5]);
        let (regex, mut search, mut all) = (Regex::new("^a").unwrap(), Search::default(), Vec::new());
        search.skip();
        search.take(&regex, 7, b"aa", false, |offset, _| all.push(offset));
        search.take(&regex, 9, b"a", true, |offset, _| all.push(offset));
        assert_eq!(all, [0u64; 0], "bytes are missing before it");
    }

    #[test]
    fn a_gate_keeps_the_first_bytes_until_it_knows() {
        let prefix = Some(&b"GET "[..]);
        let mut gate = Gate::default();
        assert_eq!(gate.take((prefix, None), 0, b"GE", false), None);
        assert_eq!(gate.take((prefix, None), 2, b"T /", false), Some((0, b"GET /".to_vec().into())));
        assert_eq!(gate.take((prefix, None), 5, b"x", false), Some((5, b"x".to_vec().into())));
        let mut gate = Gate::default();
        assert_eq!((gate.take((prefix, None), 0, b"POST", false), &gate), (None, &Gate::Shut));
        let regex = Regex::new("Host: a").unwrap();
        let mut gate = Gate::default();
        assert_eq!(gate.take((None, Some(&regex)), 0, &[b'x'; FIRST_BYTES - 1], false), None);
        assert_eq!((gate.take((None, Some(&regex)), 1023, b"y", false), &gate), (None, &Gate::Shut));
        let mut gate = Gate::default();
        assert_eq!(gate.take((prefix, None), 0, b"GE", true), None, "the stream ended");
        assert_eq!(gate, Gate::Shut);
    }
}
