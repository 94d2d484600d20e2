//! The tasks on files: both tools read the same ones.

use crate::daily::page;
use crate::daily::place::{OLD, Place, assert_done, assert_same, old_pcap, old_pcapng};
use crate::stamped::{File, Format};
use crate::support::run;
use serde_json::Value;
use std::process::{Command, Output};

/// The place with `old.pcap`, and the first pair of a task; `None` after a skip.
fn task(title: &str, tools: &[&str]) -> Option<(Place, [String; 2])> {
    let place = Place::new(title, tools)?;
    place.input("old.pcap", &old_pcap(0..OLD));
    let [pair, ..] = &page::pairs(title)[..] else { panic!("{title}: no commands") };
    Some((place, pair.clone()))
}

fn stdout(done: &Output) -> String {
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn stderr(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn a_filtered_file_has_the_packets_of_tcpdump() {
    let Some((place, pair)) = task("Filter an old file", &["tcpdump"]) else { return };
    assert_done(&place.run(None, &pair));
    let (old, new) = (place.packets("old/dns.pcap"), place.packets("new/dns.pcap"));
    assert_same(&old, &new);
    assert_eq!(new.len() as u64, OLD / 4);
}

#[test]
fn a_compressed_file_reads_as_tcpdump_prints_it() {
    let title = "Read a file as text, through a pipe";
    let Some((place, pair)) = task(title, &["tcpdump", "gzip", "zcat"]) else { return };
    for side in ["old", "new"] {
        run(Command::new("gzip").arg(place.path(side).join("old.pcap")));
    }
    let done = place.run(None, &pair);
    assert_done(&done);
    assert!(stdout(&done[0]).lines().count() >= 20, "{}", stdout(&done[0]));
    assert_eq!(stdout(&done[1]), stdout(&done[0]));
}

#[test]
fn a_summary_has_the_figures_of_capinfos() {
    let Some((place, [old, new])) = task("Summarise a file", &["capinfos"]) else { return };
    let shown = place.run(None, &[old.clone(), new.clone()]);
    assert_done(&shown);
    let text = stdout(&shown[0]);
    let figure = |head: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(head)?.strip_prefix(':'));
        let words = line.unwrap_or_else(|| panic!("{head}: {text}")).split_whitespace();
        words.filter_map(|word| word.parse::<f64>().ok()).next()
    };
    let done = place.run(None, &[old, format!("{new} --json")]);
    let report: Value = serde_json::from_slice(&done[1].stdout).expect("JSON");
    let file = &report["files"][0];
    for (head, field) in [
        ("Number of packets", "packets"),
        ("File size", "file_bytes"),
        ("Data size", "wire_bytes"),
        ("Capture duration", "seconds"),
    ] {
        assert_eq!(figure(head), file[field].as_f64(), "{head}: {text} {file}");
    }
    for (head, field) in [("Average packet rate", "pps"), ("Data bit rate", "bps")] {
        let (theirs, ours) = (figure(head).expect("a rate"), file[field].as_f64().expect("a rate"));
        assert!((theirs - ours).abs() < 0.01, "{head}: {theirs} {ours}");
    }
    // Both print local time: 22:13:20 at 5:30 h east of UTC.
    assert!(text.contains("2023-11-14 22:13:20.000000"), "{text}");
    let text = stdout(&shown[1]);
    assert!(
        text.contains("2023-11-14T22:13:20.000000000+05:30") && text.contains("6,000, 100 pps"),
        "{text}"
    );
}

#[test]
fn the_traffic_of_a_file_has_the_figures_of_tshark() {
    let Some((place, [old, new])) = task("See what is in a file", &["tshark"]) else { return };
    let done = place.run(None, &[old, format!("{new} --json")]);
    assert_done(&done);
    let (text, report) = (stdout(&done[0]), serde_json::from_slice::<Value>(&done[1].stdout).expect("JSON"));
    let rows = report["protocols"].as_array().expect("rows");
    let mut compared = 0;
    for line in text.lines().filter(|line| line.contains("frames:")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !["eth", "ip", "tcp", "udp", "icmp"].contains(&words[0]) {
            continue;
        }
        // With tags and without them a protocol has a row each.
        let is_row = |row: &Value| {
            let figures = format!("frames:{} bytes:{}", row["packets"], row["bytes"]);
            row["name"] == words[0] && words[1..].join(" ") == figures
        };
        assert!(rows.iter().any(is_row), "{line}: {report}");
        compared += 1;
    }
    let conversations = text.lines().filter(|line| line.contains("<->")).count();
    assert_eq!(report["conversations"]["count"], conversations, "{text}");
    assert!(compared >= 3 && conversations > 0, "{text}");
}

#[test]
fn merged_files_are_in_the_order_of_mergecap() {
    let Some((place, pair)) = task("Merge files by time", &["mergecap"]) else { return };
    // They overlap in time.
    place.input("a.pcap", &old_pcap((0..2000).filter(|n| n % 3 == 0)));
    place.input("b.pcap", &old_pcap((0..3000).filter(|n| n % 3 > 0)));
    let done = place.run(None, &pair);
    assert_done(&done);
    let (old, new) = (place.packets("old/merged.pcapng"), place.packets("new/merged.pcapng"));
    assert_same(&old, &new);
    assert!(new.is_sorted_by_key(|packet| packet.time_ns) && new.len() == 2667);
}

#[test]
fn a_cut_file_has_the_packets_of_editcap() {
    let Some((place, pair)) = task("Cut by time and by number", &["editcap"]) else { return };
    assert_done(&place.run(None, &pair));
    let (old, new) = (place.packets("old/cut.pcapng"), place.packets("new/cut.pcapng"));
    assert_same(&old, &new);
    // Those of 10 s to 40 s, without 5 s.
    assert_eq!(new.len(), 2500);
}

#[test]
fn a_converted_file_has_the_packets_of_editcap() {
    let title = "Shorten packets, and convert the file";
    let Some((place, pair)) = task(title, &["editcap"]) else { return };
    place.input("old.pcapng", &old_pcapng(0..1000));
    assert_done(&place.run(None, &pair));
    let (old, new) = (place.packets("old/short.pcap"), place.packets("new/short.pcap"));
    assert_same(&old, &new);
    let ns = |at: usize| [&old[at], &new[at]].map(|packet| packet.time_ns % 1000);
    assert_eq!(ns(7), [789, 789], "no digit is lost");
    assert!(new.iter().all(|packet| packet.bytes.len() <= 64) && new.iter().any(|one| one.wire_len > 1000));
    let starts =
        ["old", "new"].map(|side| std::fs::read(place.path(side).join("short.pcap")).expect("a file"));
    assert_eq!(starts[0][..8], starts[1][..8], "the same format and version");
}

#[test]
fn a_split_file_has_the_parts_of_editcap_and_tcpdump() {
    let title = "Split by time, by size and by packets";
    let Some((place, by_time)) = task(title, &["editcap", "tcpdump"]) else { return };
    let pairs = page::pairs(title);
    let [_, by_size, by_packets] = &pairs[..] else { panic!("three pairs: {pairs:?}") };
    assert_done(&place.run(None, &by_time));
    let (old, new) = (place.files("old", "part"), place.files("new/times", ""));
    assert_eq!((old.len(), new.len()), (3, 3), "{old:?} {new:?}");
    for (old, new) in old.iter().zip(&new) {
        assert_same(&place.packets(old), &place.packets(new));
    }
    assert_done(&place.run(None, by_size));
    let (old, new) = (place.files("old", "size"), place.files("new/sizes", ""));
    assert_eq!((old.len(), new.len()), (3, 3), "{old:?} {new:?}");
    let all = place.packets("old/old.pcap");
    for files in [&old, &new] {
        assert_same(&all, &place.packets_of(files));
    }
    assert!(new.iter().all(|file| place.bytes(file) <= 2 << 20), "{new:?}");
    assert!(old[..2].iter().all(|file| place.bytes(file) >= 2_000_000), "{old:?}");
    assert_done(&place.run(None, by_packets));
    let (old, new) = (place.files("old", "thousands"), place.files("new/thousands", ""));
    assert!(old.len() > 1 && old.len() == new.len(), "{old:?} {new:?}");
    for (old, new) in old.iter().zip(&new) {
        assert_same(&place.packets(old), &place.packets(new));
    }
}

#[test]
fn a_repaired_file_has_the_packets_of_editcap_and_those_after_the_damage() {
    let Some((place, pair)) = task("Repair a damaged file", &["editcap"]) else { return };
    let (whole, before) = (old_pcap(0..1000), old_pcap(0..400));
    let mut broken = whole.clone();
    // The captured length of packet 400.
    broken[before.len() + 8..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
    place.input("broken.pcap", &broken);
    place.input("whole.pcap", &whole);
    let done = place.run(None, &pair);
    assert!(done[0].status.success() && stderr(&done[0]).contains("damaged"), "{:?}", done[0]);
    assert_eq!(done[1].status.code(), Some(1), "{}", stderr(&done[1]));
    let (old, new) = (place.packets("old/repaired.pcapng"), place.packets("new/repaired.pcapng"));
    let mut whole = place.packets("new/whole.pcap");
    assert_same(&whole[..400], &old);
    whole.remove(400);
    assert_same(&whole, &new);
}

#[test]
fn packets_that_match_a_pattern_are_those_of_tshark() {
    let Some((place, pair)) = task("Search in packets", &["tshark"]) else { return };
    assert_done(&place.run(None, &pair));
    let (old, new) = (place.packets("old/letters.pcapng"), place.packets("new/letters.pcapng"));
    assert_same(&old, &new);
    assert!(!new.is_empty() && (new.len() as u64) < OLD / 2, "{}", new.len());
}

#[test]
fn losses_are_at_the_packets_that_tshark_lists() {
    let Some((place, pair)) = task("Find where packets were lost", &["tshark"]) else { return };
    let mut file = File::new(Format::Pcapng).frames(0..10);
    for (dropped, first) in [(7, 17), (12, 39), (3, 52)] {
        file.dropped = dropped;
        file = file.frames(first..first + 10);
    }
    place.input("lossy.pcapng", &file.bytes);
    let done = place.run(None, &pair);
    assert_eq!((done[0].status.code(), done[1].status.code()), (Some(0), Some(1)), "{done:?}");
    assert_eq!(stdout(&done[0]), "11\t7\n21\t12\n31\t3\n");
    let words = stdout(&done[1]).split_whitespace().collect::<Vec<_>>().join(" ");
    for place in
        ["in 3 places, first 7 before packet 11 (", "last 3 before packet 31 (", "most 12 before packet 21 ("]
    {
        assert!(words.contains(place), "{place}: {words}");
    }
}
