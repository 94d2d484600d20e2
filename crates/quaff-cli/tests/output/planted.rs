//! Outputs in folders that other users can write to, the owners of files that commands write themselves, limits on the
//! length of files, and folders whose files go while they are read. Files are read, so no lab is needed.

use crate::owner::{is_root, open_folder};
use crate::support::{QUAFF, names, tool};
use crate::traffic;
use quaff_testkit::test_name;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The user daemon on Debian and others, and one that is neither root nor daemon.
const DAEMON: u32 = 1;
const STRANGER: u32 = 65_534;
/// Frames of the input: some 9 MB, so several files of 2 MiB.
const FRAMES: u64 = 16_000;

/// A folder that everyone may write to, with an input beside it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: open_folder(FRAMES) };
        fs::create_dir(place.path("shared")).unwrap();
        fs::set_permissions(place.path("shared"), Permissions::from_mode(0o1777)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, runner: &[&str], args: &str) -> Command {
        let place = self.dir.path().display().to_string();
        let words = args.split_whitespace().map(|word| word.replace('@', &place));
        let mut line: Vec<String> = runner.iter().map(|&word| word.to_owned()).collect();
        line.push(QUAFF.to_owned());
        line.extend(words);
        let mut command = Command::new(&line[0]);
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command.args(&line[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        command
    }

    fn run(&self, runner: &[&str], args: &str) -> Output {
        self.command(runner, args).output().expect("quaff runs")
    }
}

fn stderr(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[track_caller]
fn report(done: &Output, code: i32) -> Value {
    assert_eq!(done.status.code(), Some(code), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Each option that names an output.
const OUTPUTS: [&str; 13] = [
    "capture --read @/input -w",
    "capture --read @/input --no-sandbox -w",
    "merge @/input -w",
    "replay @/input -w",
    "generate --count 10 -w",
    "flows --read @/input --jsonl",
    "flows --read @/input --csv",
    "flows --read @/input --ipfix",
    "flows --read @/input --ledger",
    "flows report @/input --html",
    "flows list @/input --csv",
    "flows list @/input --jsonl",
    "verify @/input --html",
];

/// UDP has no evidence for verify, which ends with 2 after it has written the page.
fn is_written(output: &str, done: &Output) -> bool {
    done.status.code() == Some(if output.starts_with("verify") { 2 } else { 0 })
        && !stderr(done).contains("write ")
}

#[test]
fn no_output_follows_what_another_user_has_planted() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    let victim = place.path("victim");
    fs::write(&victim, "kept").unwrap();
    symlink(&victim, place.path("shared/link")).unwrap();
    symlink("..", place.path("shared/above")).unwrap();
    fs::write(place.path("shared/file"), "theirs").unwrap();
    for name in ["link", "above", "file"] {
        lchown(place.path("shared").join(name), Some(STRANGER), Some(STRANGER)).unwrap();
    }
    symlink("target", place.path("shared/own")).unwrap();
    for output in OUTPUTS {
        for planted in ["link", "above/victim", "above/new", "file"] {
            let done = place.run(&[], &format!("{output} @/shared/{planted}"));
            let (code, said) = (done.status.code(), stderr(&done));
            assert!(
                code == Some(2) && said.contains("of another user"),
                "{output} {planted}: {code:?} {said}"
            );
        }
        assert_eq!(fs::read(&victim).unwrap(), b"kept", "{output}");
        assert_eq!(fs::read(place.path("shared/file")).unwrap(), b"theirs", "{output}");
        assert!(!place.path("new").exists(), "{output}");
        // One's own link, and what is no file.
        for good in ["@/shared/own", "/dev/null"] {
            let done = place.run(&[], &format!("{output} {good}"));
            assert!(is_written(output, &done), "{output} {good}: {done:?}");
        }
        let target = place.path("shared/target");
        assert!(target.metadata().unwrap().len() > 0, "{output}");
        fs::remove_file(target).unwrap();
    }
}

#[test]
fn files_that_commands_write_belong_to_who_called_sudo() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    for output in OUTPUTS {
        let mut command = place.command(&[], &format!("{output} @/out"));
        command.envs([("SUDO_UID", "1"), ("SUDO_GID", "1"), ("SUDO_USER", "daemon")]);
        let done = command.output().unwrap();
        assert!(is_written(output, &done), "{output}: {done:?}");
        let found = place.path("out").metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (DAEMON, DAEMON, 0o640), "{output}");
        fs::remove_file(place.path("out")).unwrap();
    }
    // Nothing is left of one that fails at once.
    for output in ["replay @/none -w", "flows report @/none --html", "flows --read @/none --ledger"] {
        assert_eq!(place.run(&[], &format!("{output} @/out")).status.code(), Some(2), "{output}");
        assert!(!place.path("out").exists(), "{output}");
    }
}

#[test]
fn a_stranger_in_the_folder_costs_no_recording() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    let capture = "capture --read @/input --dir @/shared --name q --rotate-size 2M --keep-size 100M --json";
    let first = report(&place.run(&[], capture), 0);
    let files = names(&place.path("shared")).len();
    assert!(files > 3, "{first}");
    let planted =
        ["q-000000.pcapng.gz", "q-018446.pcapng", "q-18446744073709551615.pcapng", "q-000003.pcapng.part"];
    let mut held = vec![File::open(place.path("shared")).unwrap()];
    for name in planted {
        let path = place.path("shared").join(name);
        let file = File::create(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        held.push(file);
    }
    // A date in 2099, and locks of another user on all of it.
    let late = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_070_908_800);
    File::options()
        .write(true)
        .open(place.path("shared/q-000000.pcapng"))
        .unwrap()
        .set_modified(late)
        .unwrap();
    held.iter().for_each(|file| file.try_lock().unwrap());
    let begun = std::time::Instant::now();
    let second = report(&place.run(&[], capture), 0);
    assert_eq!((&second["pruned"], &second["written"]), (&0.into(), &FRAMES.into()), "{second}");
    assert!(begun.elapsed().as_secs() < 30);
    let found = names(&place.path("shared"));
    assert_eq!(found.len(), 2 * files + planted.len(), "{found:?}");
    // The oldest are those with the lowest numbers.
    let third = report(&place.run(&[], &format!("{capture} --keep-files 3")), 0);
    assert_eq!(third["pruned_earlier"], 2 * files, "{third}");
}

#[test]
fn a_limit_on_the_length_of_files_costs_a_folder_nothing_and_a_file_its_rest() {
    let test = test_name!();
    if tool(test, "prlimit").is_none() {
        return;
    }
    let place = Place::new();
    let limited = ["prlimit", "--fsize=3145728"];
    fs::create_dir(place.path("d")).unwrap();
    for format in ["pcapng", "pcap"] {
        let args = format!("capture --read @/input --dir @/d --format {format} --json");
        let done = report(&place.run(&limited, &args), 0);
        assert_eq!((&done["written"], &done["lost_on_disk"]), (&FRAMES.into(), &0.into()), "{done}");
        for name in names(&place.path("d")) {
            let path = place.path("d").join(name);
            assert!(path.metadata().unwrap().len() <= 3_145_728);
            fs::remove_file(path).unwrap();
        }
    }
    let done = place.run(&["prlimit", "--fsize=1000000"], "capture --read @/input --dir @/d");
    assert!(done.status.code() == Some(2) && stderr(&done).contains("ulimit -f"), "{}", stderr(&done));
    for output in ["capture --read @/input", "replay @/input", "generate --count 100000"] {
        let done = place.run(&limited, &format!("{output} -w @/out"));
        let said = stderr(&done) + &String::from_utf8_lossy(&done.stdout);
        assert_eq!(done.status.code(), Some(2), "{output}: {said}");
        assert!(said.contains("File too large") && !said.contains("next file"), "{output}: {said}");
    }
}

/// The files that commands write beside captures: pages, the script for Wireshark, the state of a doctor.
#[test]
fn links_of_others_in_the_place_of_pages_scripts_and_states_are_not_followed() {
    if !is_root(test_name!()) {
        return;
    }
    let place = Place::new();
    let victim = place.path("victim");
    fs::write(&victim, "kept").unwrap();
    let home = format!("HOME={}", place.path("home").display());
    let plant = |name: &str| {
        let path = place.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o1777)).unwrap();
        symlink(&victim, &path).unwrap();
        lchown(&path, Some(STRANGER), None).unwrap();
    };
    for name in ["shared/quaff.1", "shared/.settings"] {
        plant(name);
    }
    fs::write(place.path("shared/state"), r#"{"boot":"","entries":[]}"#).unwrap();
    for folder in ["home/.local/lib/wireshark/extcap", "home/.config/wireshark/extcap"] {
        plant(&format!("{folder}/quaff-extcap"));
    }
    for (runner, args) in [
        (&[][..], "man @/shared"),
        (&["env", "-u", "XDG_CONFIG_HOME", &home], "extcap --install"),
        (&[], "doctor --undo --state @/shared/state"),
    ] {
        let done = place.run(runner, args);
        assert_eq!(done.status.code(), Some(2), "{args}: {done:?}");
        assert_eq!(fs::read(&victim).unwrap(), b"kept", "{args}");
        let rights = victim.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(rights & 0o111, 0, "{args}: {}", stderr(&done));
    }
    // Without the link all is written, for everyone to read.
    fs::remove_file(place.path("shared/quaff.1")).unwrap();
    let done = place.run(&[], "man @/shared");
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(place.path("shared/quaff.1").metadata().unwrap().mode() & 0o777, 0o644);
}

/// The named pipe is read first: a folder is listed, and none of its files is open, when the pipe is opened.
#[test]
fn a_file_that_goes_while_its_folder_is_read_is_named_and_the_rest_is_read() {
    let place = Place::new();
    for command in ["merge @/pipe @/d --json -w @/out.pcap", "flows report @/pipe @/d --json"] {
        let dir = place.path("d");
        fs::create_dir(&dir).unwrap();
        for name in ["a.pcap", "b.pcap", "c.pcap.part"] {
            traffic::write(&dir.join(name), 100);
        }
        let pipe = place.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let running = place.command(&[], command).spawn().unwrap();
        let mut out = File::options().write(true).open(&pipe).unwrap();
        fs::remove_file(dir.join("b.pcap")).unwrap();
        fs::rename(dir.join("c.pcap.part"), dir.join("c.pcap")).unwrap();
        out.write_all(&fs::read(dir.join("a.pcap")).unwrap()).unwrap();
        drop(out);
        let done = running.wait_with_output().unwrap();
        let said = stderr(&done);
        let found = report(&done, 1);
        assert_eq!(found["packets"], 300, "{command}: {found}");
        let missing = dir.join("b.pcap").display().to_string();
        assert!(said.contains("MISSING: ") && said.contains(&missing), "{command}: {said}");
        fs::remove_dir_all(&dir).unwrap();
        fs::remove_file(pipe).unwrap();
    }
    // A file that is named must be there.
    let done = place.run(&[], "merge @/input @/none -w @/out.pcap");
    assert_eq!(done.status.code(), Some(2), "{}", stderr(&done));
    assert!(Path::new(&place.path("input")).is_file());
}
