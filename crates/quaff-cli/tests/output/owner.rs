//! Owner, group and mode of the files that a capture and a split write: of who called sudo(8), of `--user`, `--group`
//! and `--mode`, in folders of root and of that user. Files are read, so no lab is needed.

use crate::support::{QUAFF, names, tool};
use crate::traffic;
use quaff_testkit::test_name;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The users and groups daemon and bin, on Debian and others.
const DAEMON: u32 = 1;
const BIN: u32 = 2;
/// Frames of the input: some 9 MB, so several files of 2 MiB.
const FRAMES: u64 = 16_000;

/// Runs as root, or is skipped.
pub(crate) fn is_root(test: &str) -> bool {
    let is_root = fs::metadata("/proc/self").expect("proc").uid() == 0;
    if !is_root {
        quaff_testkit::skip(test, "not root");
    }
    is_root
}

/// A folder that everyone may enter, with an input file of so many frames.
pub(crate) fn open_folder(frames: u64) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    traffic::write(&dir.path().join("input"), frames);
    dir
}

/// A folder that everyone may enter, with an input file, a folder `mine` of root and a folder `theirs` of daemon.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = open_folder(FRAMES);
        for (name, owner) in [("mine", 0), ("theirs", DAEMON)] {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `quaff ARGS`, with these variables, run by `runner` with this umask. `@` in an argument is the place.
    fn run(&self, runner: &[&str], variables: &[(&str, &str)], umask: &str, args: &str) -> Output {
        let place = self.dir.path().display().to_string();
        let args = args.replace('@', &place);
        let line = format!("umask {umask}; exec {} {QUAFF} {args}", runner.join(" "));
        let mut command = Command::new("/bin/sh");
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command.args(["-c", &line]).envs(variables.iter().copied()).output().expect("quaff runs")
    }

    /// The report of a capture that must succeed.
    #[track_caller]
    fn capture(&self, runner: &[&str], variables: &[(&str, &str)], args: &str) -> Value {
        let done = self.run(runner, variables, "027", &format!("capture --read @/input --json {args}"));
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(0), "{args}: {stderr}");
        serde_json::from_slice(&done.stdout).expect("a report")
    }
}

/// As sudo(8) sets them for daemon.
const SUDO: &[(&str, &str)] = &[("SUDO_UID", "1"), ("SUDO_GID", "1"), ("SUDO_USER", "daemon")];

/// Owner, group and mode.
fn access(path: &Path) -> (u32, u32, u32) {
    let meta = path.metadata().unwrap();
    (meta.uid(), meta.gid(), meta.mode() & 0o7777)
}

/// Removes all files of a folder; returns their owners, groups and modes, which are the same for all.
#[track_caller]
fn accesses(dir: &Path) -> (u32, u32, u32) {
    let files: Vec<_> = names(dir).iter().map(|name| dir.join(name)).collect();
    assert!(files.len() > 2, "{files:?}");
    let found = access(&files[0]);
    for file in files {
        assert_eq!(access(&file), found, "{}", file.display());
        fs::remove_file(file).unwrap();
    }
    found
}

const ROTATION: &str = "--rotate-size 2M --dir";

#[test]
fn files_belong_to_who_called_sudo() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    let theirs = (DAEMON, DAEMON, 0o640);
    for (file, more) in [("a", ""), ("mine/b", ""), ("theirs/c", "--no-sandbox"), ("d", "--format pcap")] {
        let report = place.capture(&[], SUDO, &format!("-w @/{file} {more}"));
        assert_eq!(access(&place.path(file)), theirs, "{file}");
        if report["sandbox"] != Value::Null {
            assert_eq!(report["sandbox"]["capabilities"], json!([]), "{report}");
        }
    }
    // Rotated files are made after the start, by a process without rights.
    for (dir, more, kept) in [
        ("theirs", "", json!([])),
        ("mine", "", json!(["CAP_DAC_OVERRIDE"])),
        ("mine", "--keep-files 3", json!(["CAP_DAC_OVERRIDE"])),
        ("mine", "--no-sandbox", Value::Null),
    ] {
        let report = place.capture(&[], SUDO, &format!("{ROTATION} @/{dir} {more}"));
        assert_eq!(accesses(&place.path(dir)), theirs, "{dir} {more}");
        assert_eq!(report["sandbox"]["capabilities"], kept, "{report}");
        assert!(report["sandbox"].is_null() || report["sandbox"]["refused_calls"] == 0, "{report}");
    }
    // Root's wish, and a root whom no other user became.
    for (variables, more) in [(SUDO, "--user root"), (&[], ""), (&[("SUDO_UID", "0"), ("SUDO_GID", "0")], "")]
    {
        let report = place.capture(&[], variables, &format!("{ROTATION} @/mine {more}"));
        assert_eq!(accesses(&place.path("mine")), (0, 0, 0o640), "{more}");
        assert_eq!(report["sandbox"]["capabilities"], json!([]), "{report}");
    }
}

#[test]
fn a_file_that_exists_keeps_its_owner_and_a_command_root() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    let old = place.path("old");
    fs::write(&old, b"old").unwrap();
    fs::set_permissions(&old, Permissions::from_mode(0o600)).unwrap();
    place.capture(&[], SUDO, "-w @/old");
    assert_eq!(access(&old), (0, 0, 0o600));
    // No user has this number.
    place.capture(&[], &[("SUDO_UID", "54321"), ("SUDO_GID", "54322")], "-w @/stranger");
    assert_eq!(access(&place.path("stranger")), (54321, 54322, 0o640));
    let report =
        place.capture(&[], SUDO, &format!("{ROTATION} @/theirs --exec 'f() {{ id -u >>@/ids; }}; f'"));
    let ids = fs::read_to_string(place.path("ids")).unwrap();
    assert_eq!(report["commands"], ids.lines().count(), "{report}");
    assert!(ids.lines().all(|id| id == "0"), "{ids}");
}

#[test]
fn a_group_and_a_mode_are_exact() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    for (variables, user, owner) in
        [(&[][..], "", (0, 0)), (SUDO, "", (DAEMON, DAEMON)), (&[], "--user daemon", (DAEMON, DAEMON))]
    {
        let dir = if owner.0 == 0 { "mine" } else { "theirs" };
        let both = format!("{user} --group bin --mode 664");
        place.capture(&[], variables, &format!("-w @/{dir}/file {both}"));
        assert_eq!(access(&place.path(dir).join("file")), (owner.0, BIN, 0o664), "{both}");
        fs::remove_file(place.path(dir).join("file")).unwrap();
        let report = place.capture(&[], variables, &format!("{ROTATION} @/{dir} {both}"));
        assert_eq!(accesses(&place.path(dir)), (owner.0, BIN, 0o664), "{both}");
        assert_eq!(report["sandbox"]["refused_calls"], 0, "{report}");
        assert_eq!(report["sandbox"]["capabilities"], json!([]), "{report}");
        place.capture(&[], variables, &format!("{ROTATION} @/{dir} {user} --mode 0600"));
        assert_eq!(accesses(&place.path(dir)), (owner.0, owner.1, 0o600));
    }
    // In a folder that hands its own group on.
    fs::set_permissions(place.path("mine"), Permissions::from_mode(0o2755)).unwrap();
    place.capture(&[], &[], &format!("{ROTATION} @/mine --group 2 --no-sandbox"));
    assert_eq!(accesses(&place.path("mine")), (0, BIN, 0o640));
}

#[test]
fn a_user_gives_files_to_groups_of_the_user_only() {
    let test = test_name!();
    if !is_root(test) || tool(test, "setpriv").is_none() {
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.path("input"), Permissions::from_mode(0o644)).unwrap();
    let daemon = ["setpriv", "--reuid=1", "--regid=1", "--groups=2"];
    place.capture(&daemon, &[], &format!("{ROTATION} @/theirs --group bin"));
    assert_eq!(accesses(&place.path("theirs")), (DAEMON, BIN, 0o640));
    // The variables of sudo mean nothing without root.
    place.capture(&daemon, &[("SUDO_UID", "2"), ("SUDO_GID", "2")], "-w @/theirs/file");
    assert_eq!(access(&place.path("theirs/file")), (DAEMON, DAEMON, 0o640));
    for (args, words) in [
        (format!("{ROTATION} @/theirs --group sys"), "must be a member of its --group"),
        ("-w @/theirs/other --group sys".into(), "must be a member of its --group"),
        ("-w @/theirs/other --group no-such-group".into(), "no-such-group"),
        ("-w @/theirs/other --mode 8".into(), "octal"),
    ] {
        let done = place.run(&daemon, &[], "022", &format!("capture --read @/input {args}"));
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args}: {stderr}");
        assert!(stderr.contains(words), "{args}: {stderr}");
    }
}

#[test]
fn a_split_makes_its_folder_for_the_same_user() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    for (number, (variables, more, file, folder)) in [
        (SUDO, "", (DAEMON, DAEMON, 0o640), (DAEMON, DAEMON, 0o750)),
        (&[][..], "--user daemon --mode 660 --group bin", (DAEMON, BIN, 0o660), (DAEMON, BIN, 0o770)),
        (&[], "", (0, 0, 0o640), (0, 0, 0o750)),
    ]
    .into_iter()
    .enumerate()
    {
        let line = format!("split --read @/input --members 2 --json --dir @/theirs/new-{number} {more}");
        let done = place.run(&[], variables, "027", &line);
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        let dir = place.path("theirs").join(format!("new-{number}"));
        assert_eq!(access(&dir), folder, "{more}");
        assert_eq!(names(&dir).len(), 2);
        names(&dir).iter().for_each(|name| assert_eq!(access(&dir.join(name)), file, "{more} {name}"));
    }
}
