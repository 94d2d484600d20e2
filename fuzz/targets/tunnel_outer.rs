//! Any frame of any link type: outer headers, fragments, and what is in them; see `tunnel`.

#![no_main]

mod tunnel;

use libfuzzer_sys::fuzz_target;

/// Ethernet, bare IP, Linux cooked 1 and 2, and one that is not known.
const LINKS: [u16; 5] = [1, 101, 113, 276, 105];

fuzz_target!(|input: tunnel::Input<'_>| {
    let (choice, more, frame) = input;
    tunnel::check(frame, more, LINKS[usize::from(choice) % LINKS.len()]);
});
