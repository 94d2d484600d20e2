//! Tunnels taken off live traffic: generated stamps inside ERSPAN, the file proved by `verify`.

use crate::support::{fails, interrupt, lab_bench, ours, verify};

fn name(found: &serde_json::Value) -> &str {
    found["interfaces"][0]["decap"]["sessions"][0]["name"].as_str().unwrap_or_default()
}

#[test]
fn mirrored_frames_are_captured_without_their_mirror() {
    let bench = lab_bench!(1 << 28);
    for (format, size) in [("pcapng", 64), ("pcapng", 512), ("pcap", 512)] {
        let file = bench.path(&format!("{size}.{format}"));
        let running = bench.capture(&["-w", &file, "--format", format, "--decap", "erspan", "--decap-only"]);
        bench.generate(&format!("--size {size} --count 40000 --pps 100000 --erspan 5"));
        let ended = interrupt(running);
        let ledger = &ended.json;
        assert_eq!((ended.code, &ledger["written"]), (0, &40_000.into()), "{ledger} {}", ended.stderr);
        assert_eq!(name(ledger), "rx0 erspan 198.18.0.1 session 5", "{ledger}");
        let found = verify(&["--expect", "40000", &file]);
        assert_eq!(found["complete"], true, "{found}");
    }
}

#[test]
fn losses_before_the_capture_are_counted_separately_and_in_the_file() {
    let bench = lab_bench!(1 << 28);
    let file = bench.path("x.pcapng");
    // One in four is kept out before us, as a switch would lose it: by the number's last two bits.
    let filter = "not ip proto gre or ip[27] & 3 != 3";
    let running = bench.capture(&["-w", &file, "-f", filter, "--decap", "auto"]);
    bench.generate("--size 200 --count 20000 --pps 100000 --erspan 9");
    let ended = interrupt(running);
    let ledger = &ended.json;
    let counted = ["written", "filtered", "missing_before", "lost"].map(|count| ledger[count].as_u64());
    // Behind the last one there is no higher number that could tell.
    assert_eq!(counted, [15_000, 5_000, 4_999, 0].map(Some), "{ledger}");
    assert_eq!((ended.code, &ledger["lossless"]), (0, &true.into()));
    assert!(ended.stderr.contains("4,999 lost before the capture"), "{}", ended.stderr);
    let found = verify(&[&file]);
    assert_eq!((&found["lost"], &found["ledger"]["ifdrop"]), (&4_999.into(), &4_999.into()), "{found}");
    assert_eq!(found["ledger"]["consistent"], true, "{found}");
}

#[test]
fn sessions_continue_over_the_files_of_a_rotation() {
    let bench = lab_bench!(1 << 28);
    let dir = bench.path("");
    let running = bench.capture(&["--dir", &dir, "--rotate-size", "2M", "--decap", "auto", "-s", "96"]);
    for session in 0..3 {
        bench.generate(&format!(
            "--size 1000 --count 10000 --pps 100000 --erspan {session} --stream {session}"
        ));
    }
    let ended = interrupt(running);
    assert_eq!((ended.code, &ended.json["written"]), (0, &30_000.into()), "{} {}", ended.json, ended.stderr);
    let files = ours(bench.dir.path());
    assert!(files.len() > 1, "{files:?}");
    let found = verify(&files.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&found["complete"], &found["received"]), (&true.into(), &30_000.into()), "{found}");
    // Each file describes all that it speaks of, from its own beginning.
    for file in &files {
        let found = verify(&["--from-first", file]);
        assert_eq!(found["ledger"]["consistent"], true, "{file}: {found}");
    }
}

#[test]
fn kinds_that_do_not_exist_are_named() {
    let bench = lab_bench!(1 << 26);
    let said = fails(&bench, &["capture", "-i", "rx0", "-w", "x", "--decap", "wireguard"]);
    assert!(said.contains("wireguard") && said.contains("vxlan"), "{said}");
    let said = fails(&bench, &["capture", "-i", "rx0", "-w", "x", "--decap-only"]);
    assert!(said.contains("--decap"), "{said}");
}
