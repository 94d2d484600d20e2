//! `quaff capture --dry-run`: what a capture would refuse, it refuses, with the same reason; and it changes nothing. No
//! network.

use crate::support::{QUAFF, folder, run};
use quaff_testkit::{copy_program, skip, test_name};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// User and group without rights.
const UNPRIVILEGED: u32 = 65534;

/// Arguments, and what the error names. IN is a capture.
const REFUSED: [(&[&str], &[&str]); 23] = [
    (&["-i", "no-such-if", "-w", "x"], &["no-such-if", "No such device"]),
    (&["-i", "lo", "-f", "imcp", "-w", "x"], &["syntax error", "imcp"]),
    (&["-r", "IN", "-f", "imcp", "-w", "x"], &["syntax error", "imcp"]),
    (&["-r", "IN", "-f", "udp port 99999", "-w", "x"], &["filter"]),
    (&["-r", "IN", "--decap", "auto", "--inner", "imcp", "-w", "x"], &["syntax error", "imcp"]),
    (&["-r", "none", "-w", "x"], &["none", "No such file"]),
    (&["-r", "IN", "-r", "none", "-w", "x"], &["none", "No such file"]),
    (&["-r", "EMPTY", "-w", "x"], &["EMPTY", "empty"]),
    (&["-r", "TEXT", "-w", "x"], &["TEXT", "neither pcap nor pcapng"]),
    (&["-r", "IN", "-w", "IN"], &["read and written at once"]),
    (&["-r", "IN", "-w", "none/x"], &["none", "No such file"]),
    (&["-i", "lo", "-w", "none/x"], &["none", "No such file"]),
    (&["-i", "lo", "-w", "there"], &["there", "folder"]),
    (&["-i", "lo", "--dir", "IN"], &["IN", "not a folder"]),
    (&["-i", "lo", "--dir", "none/new"], &["none", "No such file"]),
    (&["-r", "IN", "--dir", "none/new"], &["none", "No such file"]),
    (&["-r", "IN", "--dir", "there", "--dir", "new"], &["several --dir"]),
    (&["-i", "lo", "--tee", "none/new", "-w", "-"], &["none", "No such file"]),
    (&["-r", "IN", "--dir", "there", "--name", "%Q"], &["template", "%Q"]),
    (&["-r", "IN", "--dir", "there", "--name", "../x"], &["template", "../x"]),
    (&["-r", "IN", "--dir", "there", "--keep-size", "1M", "--rotate-size", "2M"], &["--keep-size"]),
    (&["-r", "IN", "--dir", "there", "--name", "x%i.pcap.zst"], &["--compress"]),
    (&["-r", "IN", "-w", "x.zst", "--compress", "lz4"], &["--compress", "-w"]),
];

/// A folder with the inputs.
fn prepare() -> tempfile::TempDir {
    let dir = folder();
    std::fs::create_dir(dir.path().join("there")).expect("a folder");
    std::fs::write(dir.path().join("EMPTY"), "").expect("a file");
    std::fs::write(dir.path().join("TEXT"), "once upon a time there was a packet").expect("a file");
    run(Command::new(QUAFF).args(["generate", "--count", "20", "-q", "-w"]).arg(dir.path().join("IN")));
    dir
}

fn capture(dir: &Path, args: &[&str]) -> Output {
    Command::new(QUAFF).arg("capture").args(args).current_dir(dir).output().expect("quaff runs")
}

/// The paths in a folder and in its folder `there`.
fn paths(dir: &Path) -> Vec<std::path::PathBuf> {
    let of = |dir: &Path| std::fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("one").path());
    let mut paths: Vec<_> = of(dir).chain(of(&dir.join("there"))).collect();
    paths.sort();
    paths
}

#[test]
fn a_dry_run_refuses_what_a_capture_refuses() {
    let dir = prepare();
    let before = paths(dir.path());
    for (args, words) in REFUSED {
        let done = capture(dir.path(), &[args, &["--dry-run"]].concat());
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{args:?}: {error}");
        assert!(
            error.starts_with("quaff: ") && words.iter().all(|word| error.contains(word)),
            "{args:?}: {error}"
        );
        assert_eq!(paths(dir.path()), before, "{args:?}");
        let real = capture(dir.path(), &[args, &["-d", "50ms"]].concat());
        assert_eq!(real.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&real.stderr));
        let _ = std::fs::remove_file(dir.path().join("x"));
    }
}

#[test]
fn a_dry_run_changes_nothing_and_obeys_json() {
    let dir = prepare();
    let before = paths(dir.path());
    for args in [
        &["-r", "IN", "-w", "x.pcap"][..],
        &["-r", "IN", "--dir", "new"],
        &["-r", "IN", "--dir", "there", "--keep-files", "2"],
        &["-i", "lo", "-w", "x.pcap", "-f", "udp"],
    ] {
        let done = capture(dir.path(), &[args, &["--dry-run", "--json"]].concat());
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&done.stdout).expect("one object");
        let format = if args.contains(&"x.pcap") { "pcap" } else { "pcapng" };
        assert_eq!(
            (&plan["format"], &plan["outputs"]),
            (&format.into(), &serde_json::json!([args[3]])),
            "{plan}"
        );
        assert_eq!(paths(dir.path()), before, "{args:?}");
    }
}

#[test]
fn a_dry_run_shows_the_pattern() {
    let dir = prepare();
    let shown = |args: &[&str]| {
        let done = capture(dir.path(), &[&["-r", "IN", "-w", "x", "--dry-run"], args].concat());
        String::from_utf8(done.stdout).expect("text")
    };
    let text = shown(&["--grep", "^GET \\xff"]);
    assert!(text.contains("\npattern    '^GET \\xff', in the payload of each packet\n"), "{text}");
    assert!(shown(&["--grep", "a", "--json"]).contains("\"pattern\":\"a\""));
    assert!(!shown(&[]).contains("pattern"));
}

#[test]
fn a_dry_run_without_the_right_to_capture_or_to_write_is_refused() {
    let dir = prepare();
    if dir.path().metadata().expect("a folder").uid() != 0 {
        return skip(test_name!(), "not root: rights cannot be given away");
    }
    std::fs::copy(dir.path().join("IN"), dir.path().join("READABLE")).expect("a file");
    for (name, mode) in [("", 0o755), ("there", 0o755), ("IN", 0o600), ("READABLE", 0o644)] {
        set_permissions(dir.path().join(name), Permissions::from_mode(mode)).expect("a mode");
    }
    copy_program(QUAFF, dir.path().join("quaff"));
    for (args, words) in [
        (&["-i", "lo", "-w", "/dev/null"][..], "permi"),
        (&["-r", "IN", "-w", "/dev/null"], "IN"),
        (&["-r", "READABLE", "-w", "there/x"], "there"),
        (&["-r", "READABLE", "--dir", "there"], "there"),
        (&["-r", "READABLE", "--dir", "new"], "cannot write to .:"),
    ] {
        let mut quaff = Command::new(dir.path().join("quaff"));
        quaff.args(["capture", "--dry-run"]).args(args).current_dir(&dir);
        let done = quaff.uid(UNPRIVILEGED).gid(UNPRIVILEGED).output().expect("quaff runs");
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && error.contains(words), "{args:?}: {error}");
    }
}
