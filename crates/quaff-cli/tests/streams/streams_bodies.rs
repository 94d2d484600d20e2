//! `quaff streams extract --http-bodies` against tshark's `--export-objects http`: each object that tshark exports is a
//! body, for captures in which connections begin with their heads. Of others tshark exports each segment as an object;
//! and it has fewer than quaff, because a body that came in another order, or whose connection did not end in the
//! capture, is none.

use crate::support::{QUAFF, folder, tool};
use quaff_testkit as testing;
use quaff_testkit::test_name;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Captures with HTTP in them: the first one is made, the others are real.
const CAPTURES: [&str; 13] = [
    "http.pcap",
    "protocols/WebattackRCE.pcap",
    "protocols/anyconnect-vpn.pcap",
    "protocols/android.pcap",
    "protocols/emotet.pcap",
    "protocols/exe_download.pcap",
    "protocols/http-lines-split.pcap",
    "protocols/http_auth.pcap",
    "protocols/ipp.pcap",
    "protocols/netflix.pcap",
    "protocols/sql_injection.pcap",
    "protocols/starcraft_battle.pcap",
    "protocols/weibo.pcap",
];

/// Bodies, and how often each one is there.
type Bodies = BTreeMap<Vec<u8>, usize>;

pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The whole bodies that quaff extracts.
fn extracted(capture: &Path) -> Bodies {
    let dir = folder();
    let out = dir.path().join("out");
    let mut quaff = Command::new(QUAFF);
    quaff
        .args(["streams", "extract", "-q", "--decap", "auto", "--http-bodies", "--read"])
        .arg(capture)
        .arg("--dir")
        .arg(&out);
    let done = quaff.output().expect("quaff runs");
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}: {done:?}", capture.display());
    let index = std::fs::read_to_string(out.join("index.jsonl")).expect("an index");
    let mut bodies = Bodies::new();
    for line in index.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        for body in
            ["from_client", "from_server"].iter().flat_map(|side| line[side]["bodies"].as_array()).flatten()
        {
            let bytes = std::fs::read(out.join(body["file"].as_str().expect("a name"))).expect("a file");
            assert_eq!(body["bytes"], bytes.len(), "{body}");
            if body["whole"] == true {
                *bodies.entry(bytes).or_default() += 1;
            }
        }
    }
    bodies
}

/// The bodies that tshark exports, encoded as they were sent.
fn exported(capture: &Path) -> Bodies {
    let dir = folder();
    let mut tshark = Command::new("tshark");
    let objects = format!("http,{}", dir.path().display());
    let settings = ["-q", "-o", "http.decompress_body:FALSE", "-o", "tcp.reassemble_out_of_order:TRUE"];
    tshark.args(settings).args(["--export-objects", &objects, "-r"]).arg(capture);
    tshark.output().expect("tshark runs");
    let mut bodies = Bodies::new();
    for file in files(dir.path()) {
        *bodies.entry(std::fs::read(file).expect("a file")).or_default() += 1;
    }
    bodies.remove(&Vec::new());
    bodies
}

/// The captures with HTTP that are here.
pub(crate) fn captures() -> Vec<PathBuf> {
    let folder = testing::captures();
    CAPTURES.map(|name| folder.join(name)).into_iter().filter(|capture| capture.exists()).collect()
}

#[test]
fn bodies_are_those_that_tshark_exports() {
    let test = test_name!();
    let Some(_) = tool(test, "tshark") else { return };
    let captures = captures();
    if captures.is_empty() {
        testing::skip(test, &format!("there is no capture with HTTP in {}", testing::captures().display()));
        return;
    }
    let (mut compared, mut missing) = (0, Vec::new());
    for capture in captures {
        let (ours, theirs) = (extracted(&capture), exported(&capture));
        for (body, count) in &theirs {
            compared += count;
            let found = ours.get(body).copied().unwrap_or(0);
            if found < *count {
                let begin = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
                missing.push(format!(
                    "{}: {found} of {count} times {} bytes: {begin:?}",
                    capture.display(),
                    body.len()
                ));
            }
        }
    }
    assert!(compared > 70 && missing.is_empty(), "{} of {compared} differ: {missing:#?}", missing.len());
}
