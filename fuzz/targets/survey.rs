//! A file of any bytes: no panic, and the same summary by one thread as by several that begin at a guess within it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use quaff_file::info::survey_in_parts;

/// The shortest part: less than the head of a record and a packet of some bytes leaves nothing to guess.
const PART_BYTES_MIN: u64 = 48;

fuzz_target!(|input: (u8, &[u8])| {
    let (more, file) = input;
    let path = std::env::temp_dir().join(format!("quaff-fuzz-survey-{}", std::process::id()));
    std::fs::write(&path, file).expect("a file");
    let [serial, parallel] = survey_in_parts(&path, PART_BYTES_MIN + u64::from(more));
    let _ = std::fs::remove_file(&path);
    assert_eq!(format!("{serial:?}"), format!("{parallel:?}"));
});
