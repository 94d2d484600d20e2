//! One rule for points in time: local time with its offset, or UTC with `--utc`; the same for those that a user writes.

use crate::screens::place;
use crate::support::QUAFF;
use jiff::Timestamp;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Berlin, without a file of time zones.
const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

/// Command lines that show points in time; the files are those of the screens.
const SHOWING: [&str; 4] = [
    "info a.pcapng",
    "info a.pcapng b.pcap",
    "verify a.pcapng",
    "flows report b.pcap --by port --over 1s -q",
];

/// The output of `quaff LINE` in a zone.
fn shown(dir: &Path, zone: &str, line: &str) -> String {
    let mut quaff = Command::new(QUAFF);
    let done = quaff.args(line.split(' ')).current_dir(dir).env("TZ", zone).output().expect("quaff runs");
    String::from_utf8(done.stdout).expect("text")
}

/// The points in time of a text, as words.
fn times(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';', ':']));
    let digits = |word: &&str| word.len() > 18 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T';
    words.filter(digits).map(str::to_owned).collect()
}

fn moments(times: &[String]) -> Vec<Timestamp> {
    times.iter().map(|time| time.parse().unwrap_or_else(|error| panic!("{time}: {error}"))).collect()
}

#[test]
fn points_in_time_are_local_or_in_utc_on_request() {
    let dir = place();
    for line in SHOWING {
        let local = times(&shown(dir.path(), ZONE, line));
        assert!(!local.is_empty(), "{line} shows no time");
        assert!(
            local.iter().all(|time| time.ends_with("+01:00") || time.ends_with("+02:00")),
            "{line}: {local:?}"
        );
        let utc = times(&shown(dir.path(), ZONE, &format!("{line} --utc")));
        assert!(utc.iter().all(|time| time.ends_with('Z')), "{line}: {utc:?}");
        assert_eq!(moments(&local), moments(&utc), "{line}");
        assert_eq!(utc, times(&shown(dir.path(), "UTC", line)), "{line}");
    }
}

#[test]
fn a_time_without_a_zone_is_read_as_times_are_shown() {
    let dir = place();
    let info: Value = serde_json::from_str(&shown(dir.path(), ZONE, "info b.pcap --json")).expect("JSON");
    let first_ns = info["files"][0]["first_ns"].as_u64().expect("a time");
    let last_ns = info["files"][0]["last_ns"].as_u64().expect("a time");
    let middle = Timestamp::from_nanosecond(((first_ns + last_ns) / 2).into()).expect("a time").to_string();
    let bare = middle.trim_end_matches('Z');
    let written = |from: &str, flags: &str| {
        let line = format!("capture b.pcap --from {from} -w part.pcapng --json{flags}");
        let report: Value = serde_json::from_str(&shown(dir.path(), ZONE, &line)).expect("JSON");
        report["written"].as_u64().expect("a number")
    };
    let half = written(&middle, "");
    assert!(half > 0 && half < 2000, "{half}");
    assert_eq!(written(bare, " --utc"), half);
    // An hour or two earlier.
    assert_eq!(written(bare, ""), 2000);
}
