//! Lua patterns (reference manual, 6.4.1) with bounded work.
//!
//! The pattern functions of Lua's own library run no hook, and a pattern such as `(.-)(.-)(.-)x` takes hours on a long
//! text.
//! Here each step counts against the budget of the call. This module knows no Lua values.

use crate::budget::{Budget, Exceeded};
use std::fmt;

/// Maximum number of captures (LUA_MAXCAPTURES).
const CAPTURES_MAX: usize = 32;
/// Maximum recursion depth of a match (MAXCCALLS of lstrlib.c).
const DEPTH_MAX: u32 = 200;

/// Why a match was not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The pattern is invalid; the text is Lua's own message.
    Pattern(&'static str),
    /// The budget is exceeded.
    Exceeded(Exceeded),
}

impl From<Exceeded> for Fault {
    fn from(exceeded: Exceeded) -> Self {
        Self::Exceeded(exceeded)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(words) => f.write_str(words),
            Self::Exceeded(exceeded) => exceeded.fmt(f),
        }
    }
}

type Found<T> = Result<T, Fault>;

/// A capture: a part of the text, or a position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Offset of its first byte, and offset after its last byte.
    Text(usize, usize),
    /// An offset.
    Position(usize),
}

/// A capture during matching.
#[derive(Debug, Clone, Copy)]
struct Open {
    start: usize,
    /// `None` until its parenthesis is closed.
    end: Option<usize>,
    is_position: bool,
}

/// A text, a pattern, and the captures of the last match.
pub(crate) struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    budget: &'a Budget,
    captures: Vec<Open>,
    depth: u32,
}

/// True for a pattern without special characters.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))
}

impl<'a> Matcher<'a> {
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], budget: &'a Budget) -> Self {
        Self { text, pattern, budget, captures: Vec::new(), depth: 0 }
    }

    /// Matches the pattern at an offset; returns the offset after the match.
    pub(crate) fn match_at(&mut self, at: usize) -> Found<Option<usize>> {
        self.captures.clear();
        self.depth = 0;
        self.run(at, 0)
    }

    /// True if the pattern has explicit captures.
    pub(crate) fn has_captures(&self) -> bool {
        !self.captures.is_empty()
    }

    /// The captures of the last match, from `start` to `end`: the whole match for a pattern without captures.
    pub(crate) fn captures(&self, start: usize, end: usize) -> Found<Vec<Capture>> {
        if self.captures.is_empty() {
            return Ok(vec![Capture::Text(start, end)]);
        }
        self.captures.iter().map(closed).collect()
    }

    /// Capture `index` of the last match, from 1; 0, and 1 in a pattern without captures, is the whole match.
    pub(crate) fn capture(&self, index: usize, start: usize, end: usize) -> Found<Capture> {
        match self.captures.get(index.wrapping_sub(1)) {
            _ if index == 0 => Ok(Capture::Text(start, end)),
            Some(open) => closed(open),
            None if index == 1 => Ok(Capture::Text(start, end)),
            None => Err(Fault::Pattern("invalid capture index in replacement string")),
        }
    }

    fn run(&mut self, at: usize, p: usize) -> Found<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Pattern("pattern too complex"));
        }
        let found = self.items(at, p);
        self.depth -= 1;
        found
    }

    /// Matches items in sequence, from offset `p` of the pattern on.
    fn items(&mut self, mut at: usize, mut p: usize) -> Found<Option<usize>> {
        loop {
            self.budget.step()?;
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(at)) };
            let next = self.pattern.get(p + 1).copied();
            match (item, next) {
                (b'(', Some(b')')) => return self.open(at, p + 2, true),
                (b'(', _) => return self.open(at, p + 1, false),
                (b')', _) => return self.close(at, p + 1),
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                (b'%', Some(b'b')) => match self.balanced(at, p + 2)? {
                    Some(end) => (at, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(at, p + 2)? {
                    Some(end) => p = end,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.repeated(at, digit)? {
                    Some(end) => (at, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    // The set is scanned to its end, here and for each byte.
                    self.budget.steps(end - p)?;
                    let is_single = self.is_single(at, p, end);
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if is_single && let Some(found) = self.run(at + 1, end + 1)? {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'+') if !is_single => return Ok(None),
                        Some(b'+') => return self.longest(at + 1, p, end),
                        Some(b'*') => return self.longest(at, p, end),
                        Some(b'-') => return self.shortest(at, p, end),
                        _ if !is_single => return Ok(None),
                        _ => (at, p) = (at + 1, end),
                    }
                }
            }
        }
    }

    fn open(&mut self, at: usize, p: usize, is_position: bool) -> Found<Option<usize>> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fault::Pattern("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(Open { start: at, end: is_position.then_some(at), is_position });
        let found = self.run(at, p)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, p: usize) -> Found<Option<usize>> {
        let level = self.captures.iter().rposition(|open| open.end.is_none());
        let level = level.ok_or(Fault::Pattern("invalid pattern capture"))?;
        self.captures[level].end = Some(at);
        let found = self.run(at, p)?;
        if found.is_none() {
            self.captures[level].end = None;
        }
        Ok(found)
    }

    /// `%bxy`: from an x to the balancing y.
    fn balanced(&mut self, at: usize, p: usize) -> Found<Option<usize>> {
        let [open, close] = match self.pattern.get(p..p + 2) {
            Some(&[open, close]) => [open, close],
            _ => return Err(Fault::Pattern("malformed pattern (missing arguments to '%b')")),
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.budget.step()?;
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(offset + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: returns the offset of the next item if there is a frontier.
    fn frontier(&mut self, at: usize, p: usize) -> Found<Option<usize>> {
        if self.pattern.get(p) != Some(&b'[') {
            return Err(Fault::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        self.budget.steps(3 * (end - p))?;
        let before = at.checked_sub(1).map_or(0, |before| self.text[before]);
        let after = self.text.get(at).copied().unwrap_or(0);
        let is_frontier = !self.is_in_set(before, p, end - 1) && self.is_in_set(after, p, end - 1);
        Ok(is_frontier.then_some(end))
    }

    /// `%1`: matches the text of a capture again.
    fn repeated(&mut self, at: usize, digit: u8) -> Found<Option<usize>> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some(&Open { start, end: Some(end), is_position: false }) = self.captures.get(index) else {
            return Err(Fault::Pattern("invalid capture index in pattern"));
        };
        self.budget.steps(end - start)?;
        let is_same = self.text[at..].starts_with(&self.text[start..end]);
        Ok(is_same.then_some(at + end - start))
    }

    fn longest(&mut self, at: usize, p: usize, end: usize) -> Found<Option<usize>> {
        let mut count = 0;
        while self.is_single(at + count, p, end) {
            self.budget.steps(end - p)?;
            count += 1;
        }
        for more in (0..=count).rev() {
            if let Some(found) = self.run(at + more, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, p: usize, end: usize) -> Found<Option<usize>> {
        loop {
            if let Some(found) = self.run(at, end + 1)? {
                return Ok(Some(found));
            }
            self.budget.steps(end - p)?;
            if !self.is_single(at, p, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    /// The offset after the single character class at `p`.
    fn class_end(&self, p: usize) -> Found<usize> {
        let at = |p: usize| self.pattern.get(p).copied();
        match at(p) {
            Some(b'%') if p + 1 >= self.pattern.len() => {
                Err(Fault::Pattern("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(p + 2),
            Some(b'[') => {
                let mut p = if at(p + 1) == Some(b'^') { p + 2 } else { p + 1 };
                // The first character of a set is literal, even ']'.
                loop {
                    let missing = || Fault::Pattern("malformed pattern (missing ']')");
                    p += if at(p).ok_or_else(missing)? == b'%' { 2 } else { 1 };
                    if at(p).ok_or_else(missing)? == b']' {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn is_single(&self, at: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(at) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, end - 1),
            own => own == byte,
        }
    }

    /// True for a byte in the set whose brackets are at `p` and `end`.
    fn is_in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let is_negated = self.pattern.get(p + 1) == Some(&b'^');
        let mut at = if is_negated { p + 2 } else { p + 1 };
        while at < end {
            let (first, third) = (self.pattern[at], at + 2);
            let is_in = if first == b'%' {
                at += 2;
                is_in_class(byte, self.pattern[at - 1])
            } else if self.pattern[at + 1] == b'-' && third < end {
                at += 3;
                (first..=self.pattern[third]).contains(&byte)
            } else {
                at += 1;
                first == byte
            };
            if is_in {
                return !is_negated;
            }
        }
        is_negated
    }
}

fn closed(open: &Open) -> Found<Capture> {
    match open {
        Open { start, is_position: true, .. } => Ok(Capture::Position(*start)),
        Open { start, end: Some(end), .. } => Ok(Capture::Text(*start, *end)),
        _ => Err(Fault::Pattern("unfinished capture")),
    }
}

/// The ASCII classes of the C locale; a capital letter is the complement.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn find(text: &[u8], pattern: &[u8]) -> Found<Option<(usize, usize, Vec<Capture>)>> {
        let budget = Budget::new(Duration::from_millis(200));
        let mut matcher = Matcher::new(text, pattern, &budget);
        for start in 0..=text.len() {
            if let Some(end) = matcher.match_at(start)? {
                return Ok(Some((start, end, matcher.captures(start, end)?)));
            }
        }
        Ok(None)
    }

    #[test]
    fn patterns_that_are_wrong_are_faults_and_never_panics() {
        for wrong in
            ["(", ")", "%", "[", "[^", "[%", "[a", "%b", "%bx", "%f", "%fa", "%1", "(()", "(%1)", "[]", "[^]"]
        {
            assert!(matches!(find(b"abc(", wrong.as_bytes()), Err(Fault::Pattern(_))), "{wrong}");
        }
        let deep = "(".repeat(40);
        assert_eq!(find(b"abc", deep.as_bytes()), Err(Fault::Pattern("too many captures")));
    }

    #[test]
    fn a_pattern_without_end_is_stopped() {
        let text = vec![b'a'; 4000];
        let found = find(&text, b".-.-.-.-.-.-.-.-b");
        assert_eq!(found, Err(Fault::Exceeded(Exceeded::Time)));
    }
}
