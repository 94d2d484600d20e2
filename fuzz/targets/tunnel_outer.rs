//! Any frame of any link type: outer headers, fragments, and what is in them; see `tunnel`.

#![no_main]

mod tunnel;

use libfuzzer_sys::fuzz_target;

/// Ethernet, bare IP, Linux cooked 1 and 2, and one that is not known.
const LINKS: [u16; 29] = [
    1, 101, 0, 9, 113, 228, 229, 276, 105, 6, 8, 10, 12, 14, 50, 51, 100, 102, 103, 104, 107, 108, 109, 117,
    166, 204, 205, 206, 219,
];

fuzz_target!(|input: tunnel::Input<'_>| {
    let (choice, more, frame) = input;
    tunnel::check(frame, more, LINKS[usize::from(choice) % LINKS.len()]);
});
