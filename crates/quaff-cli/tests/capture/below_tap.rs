//! Packets that the kernel drops below the capture socket: the verdict, and the reason with the number.

use crate::support::backlog::{bench, flood};
use crate::support::{Ended, PATIENCE, QUAFF, interrupt, lab_bench, run};
use quaff_lab::{ChildProcess, RX};
use quaff_testkit::test_name;
use quaff_wire::format::count;
use std::fs;

#[track_caller]
fn assert_reported(ended: &Ended, dropped: u64) {
    let report = &ended.json;
    assert!(dropped > 0, "the backlog did not overflow");
    assert_eq!((ended.code, &report["verdict"]), (1, &"lossy".into()), "{report} {}", ended.stderr);
    assert_eq!(report["lossless"], false, "{report}");
    assert_eq!(report["below_tap"]["rx_dropped"], dropped, "{report}");
    assert!(report["below_tap"]["softnet_dropped"].as_u64() >= Some(dropped), "{report}");
    let reason = format!(
        "the kernel dropped {} packets on rx0 before the capture socket (rx_dropped)",
        count(dropped)
    );
    let notes = report["notes"].as_array().expect("notes");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.starts_with(&reason))), "{report}");
}

#[test]
fn a_capture_that_the_backlog_starves_is_lossy() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("all.pcapng");
    let (ended, dropped) = flood(&bench, || bench.capture(&["-w", &file]));
    assert_reported(&ended, dropped);
    assert!(
        ended.stderr.contains(&format!("lossy: the kernel dropped {} packets", count(dropped))),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_split_that_the_backlog_starves_is_lossy() {
    let Some(bench) = bench(test_name!()) else { return };
    let dir = bench.path("parts");
    let (ended, dropped) = flood(&bench, || {
        let args = ["split", "-i", "rx0", "--members", "2", "--buffer", "256M", "--dir", &dir, "--json"];
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    });
    assert_reported(&ended, dropped);
}

/// The drops of rx0 are not of lo, but the backlogs' counter does not show the interface.
#[test]
fn drops_of_another_interface_are_unknown() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("lo.pcapng");
    let (ended, dropped) = flood(&bench, || {
        let args = ["capture", "-i", "lo", "--buffer", "64M", "--json", "-w", &file];
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        running
    });
    assert!(dropped > 0, "the backlog did not overflow");
    let report = &ended.json;
    assert_eq!((ended.code, &report["verdict"]), (1, &"unknown".into()), "{report} {}", ended.stderr);
    assert_eq!(report["below_tap"]["rx_dropped"], 0, "{report}");
    assert!(report["below_tap"]["softnet_dropped"].as_u64() >= Some(dropped), "{report}");
    assert!(ended.stderr.contains("unknown if lossless: the kernel dropped"), "{}", ended.stderr);
}

/// A filter hides the frames, so those in `rx_dropped` may have been dropped after the socket, for want of a handler.
#[test]
fn drops_that_a_filter_may_explain_are_unknown() {
    let Some(bench) = bench(test_name!()) else { return };
    let file = bench.path("none.pcapng");
    let (ended, dropped) = flood(&bench, || bench.capture(&["-f", "tcp", "-w", &file]));
    assert!(dropped > 0, "the backlog did not overflow");
    let report = &ended.json;
    let filtered = report["filtered"].as_u64().expect("a number");
    let expected = if dropped > filtered { "lossy" } else { "unknown" };
    assert_eq!((ended.code, &report["verdict"]), (1, &expected.into()), "{report} {}", ended.stderr);
    assert_eq!(report["below_tap"]["rx_dropped"], dropped, "{report}");
    assert!(filtered > 0 && filtered + dropped >= 300_000, "{report}");
}

/// The kernel counts a tagged frame of a protocol that nothing handles in `rx_dropped`, after the sockets have had it.
#[test]
fn frames_that_the_stack_drops_after_the_socket_are_not_lost() {
    let bench = lab_bench!(1 << 27);
    let pcap = bench.path("tagged.pcap");
    fs::write(&pcap, tagged_pcap(1000)).expect("a file");
    let file = bench.path("all.pcapng");
    let before = bench.lab.stats(RX).expect("counters").rx_dropped;
    let running = bench.capture(&["-w", &file]);
    run(bench
        .lab
        .tx
        .command(QUAFF)
        .expect("a command")
        .args(["replay", "-o", "tx0", "--pps", "10000"])
        .arg(&pcap));
    let ended = interrupt(running);
    let dropped = bench.lab.stats(RX).expect("counters").rx_dropped - before;
    assert!(dropped >= 1000, "this kernel does not count them: {dropped}");
    assert_eq!((ended.code, &ended.json["verdict"]), (0, &"lossless".into()), "{}", ended.json);
    assert_eq!(ended.json["below_tap"]["rx_dropped"], 0, "{}", ended.json);
}

/// Frames of VLAN 5 with an EtherType for experiments (88b5).
fn tagged_pcap(count: u32) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[0x81, 0, 0, 5, 0x88, 0xb5], &[0; 50]].concat();
    for at in 0..count {
        for word in [1_700_000_000, at, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame);
    }
    file
}
