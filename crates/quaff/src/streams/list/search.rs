//! The search for a pattern in streams whose bytes come in pieces.
//!
//! The automaton of the pattern is run byte by byte. Of each stream only the states that it is in are kept, each with
//! the earliest offset at which a match that leads there begins: at most one per state of the automaton, whatever the
//! length of a match. So a match may span any number of segments, and the first one is that of a search of the whole
//! stream.
//! No match spans a gap.

use crate::pattern::Pattern;
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::{Look, LookMatcher};
use regex_automata::util::primitives::StateID;

/// Attempts of all streams together, 64 MiB. A stream for whose attempts there is no room loses them.
const ATTEMPTS_MAX: usize = (64 << 20) / size_of::<Attempt>();
/// The byte beside a gap, for `^`, `$` and `\b`: neither a line's end nor part of a word, nor the end of the stream.
const UNKNOWN: u8 = 0;

/// A match that has begun, and needs more bytes.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    state: StateID,
    /// Offset of its first byte.
    start: u64,
}

/// A stream that is searched.
#[derive(Debug, Default)]
pub(super) struct Searched {
    /// By their starts; none of them later than the first match.
    attempts: Box<[Attempt]>,
    /// The byte before the next one; `None` at the start of the stream.
    before: Option<u8>,
    /// Offset of the next byte.
    next: u64,
    /// Offset of the first byte of the first match so far.
    found: Option<u64>,
    has_lost_attempts: bool,
}

impl Searched {
    /// True if more bytes change nothing.
    fn is_decided(&self) -> bool {
        self.found.is_some() && self.attempts.is_empty()
    }
}

/// A place between two bytes of a stream.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// `None` at the start of the stream.
    before: Option<u8>,
    /// `None` at its end.
    after: Option<u8>,
    /// The byte after it is of the stream, and not that of a gap.
    is_readable: bool,
}

impl Place {
    fn holds(self, matcher: &LookMatcher, look: Look) -> bool {
        let (mut around, mut len) = ([0; 2], 0);
        for byte in self.before.into_iter().chain(self.after) {
            around[len] = byte;
            len += 1;
        }
        matcher.matches(look, &around[..len], usize::from(self.before.is_some()))
    }
}

/// Searches streams for a pattern.
#[derive(Debug)]
pub(super) struct Searcher {
    pattern: Pattern,
    nfa: NFA,
    /// By byte: a match can begin with it.
    is_first: [bool; 256],
    /// By state: the last step that visited it.
    visited: Vec<u64>,
    steps: u64,
    stack: Vec<StateID>,
    /// Attempts of the stream that is searched, and those after the next byte.
    attempts: Vec<Attempt>,
    next_attempts: Vec<Attempt>,
    /// Attempts that are kept of all streams.
    kept: usize,
    kept_max: usize,
    /// Streams without a match that have lost attempts.
    searched_in_part: u64,
}

impl Searcher {
    pub(super) fn new(pattern: Pattern) -> Result<Self, String> {
        let nfa = pattern.automaton()?;
        Ok(Self {
            pattern,
            is_first: first_bytes(&nfa),
            visited: vec![0; nfa.states().len()],
            nfa,
            steps: 0,
            stack: Vec::new(),
            attempts: Vec::new(),
            next_attempts: Vec::new(),
            kept: 0,
            kept_max: ATTEMPTS_MAX,
            searched_in_part: 0,
        })
    }

    /// The offset of the first match in a datagram, which is searched by itself.
    pub(super) fn find_in_datagram(&self, bytes: &[u8]) -> Option<u64> {
        self.pattern.find_in(bytes)
    }

    /// Streams without a match of which not every match was looked for.
    pub(super) fn searched_in_part(&self) -> u64 {
        self.searched_in_part
    }

    /// Searches the next bytes of a stream, which are at `offset`.
    pub(super) fn add(&mut self, stream: &mut Searched, offset: u64, bytes: &[u8]) {
        if stream.is_decided() {
            return;
        }
        self.resume(stream);
        let mut at = 0;
        while at < bytes.len() {
            if self.attempts.is_empty() {
                let is_first = &self.is_first;
                let skipped = bytes[at..].iter().position(|byte| is_first[usize::from(*byte)]);
                let Some(skipped) = skipped else { break };
                at += skipped;
            }
            let before = if at == 0 { stream.before } else { Some(bytes[at - 1]) };
            let place = Place { before, after: Some(bytes[at]), is_readable: true };
            self.step(&mut stream.found, place, offset + at as u64);
            if stream.found.is_some() && self.attempts.is_empty() {
                break;
            }
            at += 1;
        }
        stream.before = bytes.last().copied().or(stream.before);
        stream.next = offset + bytes.len() as u64;
        self.keep(stream);
    }

    /// Ends all attempts of a stream: the bytes up to the offset `end` are missing.
    pub(super) fn gap(&mut self, stream: &mut Searched, end: u64) {
        if stream.is_decided() {
            return;
        }
        self.resume(stream);
        let place = Place { before: stream.before, after: Some(UNKNOWN), is_readable: false };
        self.step(&mut stream.found, place, stream.next);
        (stream.before, stream.next) = (Some(UNKNOWN), end);
        self.keep(stream);
    }

    /// Ends the search of a stream; returns the offset of its first match.
    pub(super) fn finish(&mut self, stream: &mut Searched) -> Option<u64> {
        if !stream.is_decided() {
            self.resume(stream);
            let place = Place { before: stream.before, after: None, is_readable: false };
            self.step(&mut stream.found, place, stream.next);
        }
        self.searched_in_part += u64::from(stream.has_lost_attempts && stream.found.is_none());
        stream.found
    }

    /// Continues the attempts of a stream.
    fn resume(&mut self, stream: &mut Searched) {
        let attempts = std::mem::take(&mut stream.attempts);
        self.kept -= attempts.len();
        self.attempts.clear();
        self.attempts.extend_from_slice(&attempts);
    }

    /// Keeps the attempts of a stream until its next bytes come.
    fn keep(&mut self, stream: &mut Searched) {
        let found = stream.found;
        self.attempts.retain(|attempt| found.is_none_or(|found| attempt.start < found));
        if self.kept + self.attempts.len() > self.kept_max {
            stream.has_lost_attempts = true;
            self.attempts.clear();
        }
        self.kept += self.attempts.len();
        stream.attempts = self.attempts.as_slice().into();
    }

    /// Takes the attempts of a stream, and one that begins here, over the byte after a place.
    fn step(&mut self, found: &mut Option<u64>, place: Place, offset: u64) {
        self.steps += 1;
        self.next_attempts.clear();
        // By their starts: the first one that visits a state is the earliest one there.
        for at in 0..self.attempts.len() {
            self.advance(found, place, self.attempts[at]);
        }
        self.advance(found, place, Attempt { state: self.nfa.start_anchored(), start: offset });
        std::mem::swap(&mut self.attempts, &mut self.next_attempts);
    }

    /// Takes an attempt over the byte after a place, or notes that it is a match.
    fn advance(&mut self, found: &mut Option<u64>, place: Place, attempt: Attempt) {
        if found.is_some_and(|found| found <= attempt.start) {
            return;
        }
        self.stack.clear();
        self.stack.push(attempt.state);
        while let Some(id) = self.stack.pop() {
            if std::mem::replace(&mut self.visited[id.as_usize()], self.steps) == self.steps {
                continue;
            }
            let state = self.nfa.state(id);
            if let State::Match { .. } = state {
                *found = Some(attempt.start);
                return;
            }
            let matcher = self.nfa.look_matcher();
            push_next(state, &mut self.stack, |look| place.holds(matcher, look));
            if let Some(byte) = place.after.filter(|_| place.is_readable)
                && let Some(state) = state_after(state, byte)
            {
                // Mostly known here, so that a match that is complete needs no room.
                if let State::Match { .. } = self.nfa.state(state) {
                    *found = Some(attempt.start);
                    return;
                }
                self.next_attempts.push(Attempt { state, start: attempt.start });
            }
        }
    }
}

/// The states that follow a state without a byte.
fn push_next(state: &State, stack: &mut Vec<StateID>, holds: impl Fn(Look) -> bool) {
    match state {
        State::Look { look, next } if holds(*look) => stack.push(*next),
        State::Union { alternates } => stack.extend(alternates.iter()),
        State::BinaryUnion { alt1, alt2 } => stack.extend([alt1, alt2]),
        State::Capture { next, .. } => stack.push(*next),
        _ => {}
    }
}

/// The state that follows a state with a byte.
fn state_after(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(transitions) => transitions.matches_byte(byte),
        State::Dense(transitions) => transitions.matches_byte(byte),
        _ => None,
    }
}

/// By byte: a match can begin with it. All, if a match can be empty.
fn first_bytes(nfa: &NFA) -> [bool; 256] {
    let (mut is_first, mut is_visited) = ([false; 256], vec![false; nfa.states().len()]);
    let mut stack = vec![nfa.start_anchored()];
    while let Some(id) = stack.pop() {
        if std::mem::replace(&mut is_visited[id.as_usize()], true) {
            continue;
        }
        let state = nfa.state(id);
        if let State::Match { .. } = state {
            return [true; 256];
        }
        push_next(state, &mut stack, |_| true);
        for byte in 0..=u8::MAX {
            is_first[usize::from(byte)] |= state_after(state, byte).is_some();
        }
    }
    is_first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn searcher(pattern: &str) -> Searcher {
        Searcher::new(Pattern::new(pattern).expect("a pattern")).expect("a searcher")
    }

    /// The first match in pieces of a stream; `None` is a gap of 10 bytes.
    fn found(pattern: &str, pieces: &[Option<&[u8]>]) -> Option<u64> {
        let (mut searcher, mut stream, mut offset) = (searcher(pattern), Searched::default(), 0);
        for piece in pieces {
            match piece {
                Some(bytes) => searcher.add(&mut stream, offset, bytes),
                None => searcher.gap(&mut stream, offset + 10),
            }
            offset += piece.map_or(10, |bytes| bytes.len() as u64);
        }
        let found = searcher.finish(&mut stream);
        assert_eq!((searcher.kept, searcher.searched_in_part()), (0, 0));
        found
    }

    fn in_pieces(pattern: &str, pieces: &[&[u8]]) -> Option<u64> {
        found(pattern, &pieces.iter().map(|piece| Some(*piece)).collect::<Vec<_>>())
    }

    #[test]
    fn a_match_spans_pieces_and_begins_where_the_first_one_does() {
        for (pattern, pieces, expected) in [
            ("password", &[&b"the pass"[..], b"wo", b"", b"rd is"][..], Some(4)),
            ("(?i)PassWord", &[b"p", b"a", b"s", b"s", b"w", b"o", b"r", b"d"], Some(0)),
            // A later match is complete first.
            ("a.{6}z|c", &[b"xa12", b"c456z"], Some(1)),
            ("a.{6}z|c", &[b"xa12", b"c456y"], Some(4)),
            ("a.{6}z|c", &[b"xa12", b"c4"], Some(4)),
            ("^GET", &[b"G", b"ET"], Some(0)),
            ("^GET", &[b"xG", b"ET"], None),
            ("(?m)^GET", &[b"x\n", b"GET"], Some(2)),
            ("end$", &[b"end, en", b"d"], Some(5)),
            ("(?m)end$", &[b"end", b"\n"], Some(0)),
            (r"\bword\b", &[b"sword wor", b"d", b" "], Some(6)),
            (r"\bword\b", &[b"word", b"s"], None),
            ("", &[], Some(0)),
            ("^$", &[], Some(0)),
            ("^$", &[b"x"], None),
            ("x*", &[b"ab"], Some(0)),
            (r"\xff\x00", &[b"\xff", b"\x00"], Some(0)),
        ] {
            assert_eq!(in_pieces(pattern, pieces), expected, "{pattern} in {pieces:?}");
        }
    }

    #[test]
    fn no_match_spans_a_gap() {
        let with_gap = |pattern: &str, before, after| found(pattern, &[Some(before), None, Some(after)]);
        assert_eq!(with_gap("password", b"pass", b"word"), None);
        assert_eq!(with_gap("(?s)a.*b", b"a", b"b"), None);
        assert_eq!(with_gap("password", b"pass", b"password"), Some(14), "offsets count missing bytes");
        assert_eq!(with_gap("pass", b"pass", b"pass"), Some(0));
        assert_eq!(with_gap("^word|pass$", b"pass", b"word"), None, "neither start nor end of the stream");
        assert_eq!(with_gap("word$", b"pass", b"word"), Some(14));
        assert_eq!(found("^word", &[None, Some(b"word")]), None);
        // What a match has before the gap is one.
        assert_eq!(with_gap("a+", b"xaa", b"a"), Some(1));
    }

    #[test]
    fn attempts_of_all_streams_have_a_limit_and_a_stream_that_loses_them_is_counted() {
        let mut searcher = searcher("a[^b]*b");
        searcher.kept_max = 2;
        let mut streams = [(); 4].map(|()| Searched::default());
        streams.iter_mut().for_each(|stream| searcher.add(stream, 0, b"a"));
        assert_eq!(searcher.kept, 2);
        streams[..3].iter_mut().for_each(|stream| searcher.add(stream, 1, b"b"));
        // The last one has a match later.
        searcher.add(&mut streams[3], 1, b"ab");
        let found = streams.each_mut().map(|stream| searcher.finish(stream));
        assert_eq!(found, [Some(0), Some(0), None, Some(1)]);
        assert_eq!((searcher.kept, searcher.searched_in_part()), (0, 1));
    }

    #[test]
    fn a_stream_keeps_at_most_an_attempt_per_state_and_nothing_without_one() {
        let mut searcher = searcher("a.{20}z");
        let mut stream = Searched::default();
        for at in 0..10 {
            searcher.add(&mut stream, at * 1000, &[b'a'; 1000]);
            assert!(stream.attempts.len() <= searcher.nfa.states().len(), "{}", stream.attempts.len());
        }
        assert!(stream.attempts.len() >= 20);
        searcher.add(&mut stream, 10_000, &[b'\n'; 100]);
        assert_eq!((stream.attempts.len(), searcher.kept), (0, 0));
    }

    const PATTERNS: [&str; 14] = [
        "ab",
        "a+b",
        "(a|ab)(c|bcd)",
        "a.{2}b",
        "(?s)a.{2,5}c",
        "^a",
        "(?m)^b",
        "c$",
        "(?m)c$",
        r"\bab",
        r"a\B",
        "(ab)*c",
        "a*?b|c{3}",
        "[^a]{4}",
    ];

    proptest! {
        #[test]
        fn pieces_are_searched_as_the_whole_is(bytes in "[abc \n]{0,40}", cuts in prop::collection::vec(0usize..40, 0..6)) {
            let bytes = bytes.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            for pattern in PATTERNS {
                let whole = Pattern::new(pattern).expect("a pattern").find_in(bytes);
                prop_assert_eq!(in_pieces(pattern, &pieces), whole, "{} in {:?}", pattern, pieces);
            }
        }
    }
}
