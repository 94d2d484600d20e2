//! The evidence of packets that are not in files yet: `quaff verify -i` and `quaff capture --prove`.

use crate::support::{PATIENCE, QUAFF, capture, finish, interrupt, lab_bench, run};
use quaff_lab::ChildProcess;
use std::process::Command;

/// Conversations of TCP in a file.
fn talk(path: &str) {
    let words = "generate --tcp talk --segments 4 --flows 50 --size 200 --pps 20k --count 20k -w";
    let done = Command::new(QUAFF).args(words.split(' ')).arg(path).output().expect("quaff runs");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn the_verdict_of_a_lane_is_in_its_report_and_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, out] = ["talk.pcap", "out.pcapng"].map(|name| dir.path().join(name).display().to_string());
    talk(&whole);
    let plain = capture(&["--read", &whole, "-w", &out]);
    assert_eq!((plain.code, plain.json.get("proof")), (0, None), "{}", plain.json);
    for (args, expected) in [
        (&[][..], "complete as far as can be known ("),
        (&["--exclude", "1211-1220"][..], "incomplete: about "),
    ] {
        let ended = capture(&[&["--read", &whole, "--prove", "-w", &out][..], args].concat());
        let proof = &ended.json["proof"][0];
        let verdict = proof["verdict"].as_str().unwrap();
        // The run itself has lost nothing.
        assert!(ended.code == 0 && verdict.contains(expected), "{} {}", ended.json, ended.stderr);
        assert_eq!(proof["complete"], args.is_empty());
        assert_eq!(proof["lost_packets"].as_u64().unwrap() > 0, !args.is_empty(), "{proof}");
        assert!(proof["witnesses"].as_u64().unwrap() > 1000, "{proof}");
        assert!(ended.json["lossless"] == true, "{}", ended.json);
        let file = std::fs::read(&out).unwrap();
        let comment = format!("proof: {verdict}");
        let places = file.windows(comment.len()).filter(|place| *place == comment.as_bytes()).count();
        assert_eq!(places, 1, "in the last statistics alone: {comment}");
    }
}

#[test]
fn an_interface_is_watched_until_the_end() {
    let bench = lab_bench!(16 << 20);
    let [whole, cut] = ["talk.pcap", "cut.pcap"].map(|name| bench.path(name));
    talk(&whole);
    let made = capture(&["--read", &whole, "--exclude", "5211-5220", "-w", &cut]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    for (file, code, words) in
        [(&whole, 0, "complete as far as can be known"), (&cut, 1, "incomplete: about ")]
    {
        let args = ["verify", "-i", "rx0", "--json"];
        let mut running = ChildProcess::start(bench.quaff(&args)).expect("quaff runs");
        assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
        let mut replay = bench.lab.tx.command(QUAFF).expect("a command in the lab");
        replay.args(["replay", "-o", "tx0", "--pps", "10k", "--json", file]);
        let sent = finish(ChildProcess::start(replay).expect("quaff runs"));
        assert_eq!(sent.code, 0, "{} {}", sent.json, sent.stderr);
        assert!(running.hears("with evidence", PATIENCE), "{}", running.heard);
        let ended = interrupt(running);
        let verdict = ended.json["verdict"].as_str().unwrap_or_default();
        assert!(ended.code == code && verdict.contains(words), "{} {}", ended.json, ended.stderr);
        assert_eq!(ended.json["tcp"]["interfaces"][0]["name"], "rx0", "{}", ended.json);
        assert!(ended.json["frames"].as_u64() >= Some(19_000), "{}", ended.json);
    }
}

#[test]
fn an_interface_that_is_removed_fails_the_watch() {
    let bench = lab_bench!(16 << 20);
    let mut running =
        ChildProcess::start(bench.quaff(&["verify", "-i", "rx0", "--json"])).expect("quaff runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    run(bench.lab.rx.command("ip").expect("a command in the lab").args(["link", "delete", "rx0"]));
    let ended = finish(running);
    let error = ended.json["error"].as_str().unwrap_or_default();
    assert!(error == "the interface rx0 was removed", "{}", ended.json);
    assert_eq!((ended.code, &ended.json["complete"]), (2, &false.into()), "{}", ended.json);
}
