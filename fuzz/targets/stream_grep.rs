//! The search of `quaff streams list --grep`: any pattern in any bytes that come in any pieces: no panic, and the first
//! match begins where that of a search of the whole does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pattern::Pattern;
use search::{Searched, Searcher};

// Two files of the engine, which has no name for them outside, and would be built whole.
#[allow(dead_code, reason = "datagrams and packets are searched by the same pattern")]
#[path = "../../crates/quaff/src/pattern.rs"]
mod pattern;
#[allow(dead_code, reason = "datagrams and packets are searched by the same pattern")]
#[path = "../../crates/quaff/src/streams/list/search.rs"]
mod search;

/// Longer patterns and larger automata take their time, and say nothing else.
const PATTERN_BYTES_MAX: usize = 64;
const STATES_MAX: usize = 2000;

// A line with the pattern, one whose bytes are the lengths of the pieces, and the stream.
fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(3, |byte| *byte == b'\n');
    let [Some(text), Some(lengths), Some(bytes)] = [(); 3].map(|()| parts.next()) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    if text.len() > PATTERN_BYTES_MAX {
        return;
    }
    let Ok(pattern) = Pattern::new(text) else { return };
    let Ok(automaton) = pattern.automaton() else { return };
    if automaton.states().len() > STATES_MAX {
        return;
    }
    let whole = pattern.find_in(bytes);
    let mut searcher = Searcher::new(pattern).expect("it has an automaton");
    let (mut stream, mut offset) = (Searched::default(), 0);
    for length in lengths {
        let end = (offset + usize::from(*length)).min(bytes.len());
        searcher.add(&mut stream, offset as u64, &bytes[offset..end]);
        offset = end;
    }
    searcher.add(&mut stream, offset as u64, &bytes[offset..]);
    assert_eq!((searcher.finish(&mut stream), searcher.searched_in_part()), (whole, 0), "{text}");
});
