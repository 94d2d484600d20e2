//! What is made of the numbers of a run.

use super::*;

#[test]
fn losses_are_told_in_percent_of_what_was_offered() {
    let traffic = Traffic::bytes(64, None, 1000);
    let outcome = Outcome {
        rival: "fake".into(),
        traffic,
        buffer_mib: None,
        offered: 1000,
        seconds: 0.5,
        in_file: 750,
        lost: 250,
        own_drops: None,
        startup_seconds: 0.0,
        user_seconds: 0.25,
        system_seconds: 0.5,
        bytes: 3000,
        writing_seconds: 0.5,
        accounted: None,
    };
    assert_eq!(outcome.cpu_ns_per_frame(), 750_000.0);
    assert_eq!(outcome.bytes_per_second(), 6000.0);
    assert_eq!(outcome.lost_percent(), 25.0);
    assert_eq!(outcome.offered_pps(), 2000.0);
    assert_eq!(outcome.cpu_seconds(), 0.75);
}
