//! `make install`: who may run the installed program, what the kernel lets it do, and what it drops.

use crate::support::{Bench, PATIENCE, QUAFF, finish, run, tool, verify};
use quaff_lab::ChildProcess;
use quaff_os::privilege::FILE_CAPABILITIES;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The user and the group without any right of their own.
const NO_USER: u32 = 65_534;

/// The program, installed into a folder that all users can reach.
pub(crate) struct Installed {
    pub(crate) dir: TempDir,
    pub(crate) program: PathBuf,
    /// The group that may run it.
    group: u32,
    pub(crate) has_capabilities: bool,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A group of this machine that is neither root's nor that of no user: name and number.
fn group() -> (String, u32) {
    let all = fs::read_to_string("/etc/group").expect("groups");
    let mut groups = all.lines().filter_map(|line| {
        let mut fields = line.split(':');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?))
    });
    groups.rfind(|(_, number)| ![0, NO_USER].contains(number)).expect("a group")
}

/// Runs the script of `make install`; `None` after a skip.
pub(crate) fn install(test: &str) -> Option<Installed> {
    for name in ["setpriv", "setcap", "getcap"] {
        tool(test, name)?;
    }
    if !nix_is_root() {
        testing::skip(test, "not root: Permission denied");
        return None;
    }
    let dir = tempfile::tempdir().expect("a folder");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("our folder");
    let (name, group) = group();
    let mut script = Command::new(repository().join("scripts/install"));
    script.env("QUAFF", QUAFF).env("DESTDIR", dir.path()).env("PREFIX", "/usr").env("GROUP", name);
    let done = script.env_remove("CAPABILITIES").output().expect("the script runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    let has_capabilities = !said.contains("setcap failed");
    if !has_capabilities {
        testing::skip(test, "files here cannot have capabilities");
    }
    let program = dir.path().join("usr/bin/quaff");
    Some(Installed { dir, program, group, has_capabilities })
}

fn nix_is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

impl Installed {
    /// The words that run the program as a user without rights, in the group or not. setpriv has all capabilities until
    /// it executes another program, so a shell stands between.
    pub(crate) fn unprivileged(&self, is_member: bool) -> Vec<String> {
        let group = if is_member { self.group } else { NO_USER };
        let user = ["setpriv", "--reuid", "65534", "--clear-groups", "--regid", &group.to_string()]
            .map(str::to_owned);
        let shell = ["sh", "-c", r#"exec "$0" "$@""#].map(str::to_owned);
        user.into_iter().chain(shell).chain([self.program.display().to_string()]).collect()
    }

    fn run(&self, is_member: bool, args: &[&str]) -> Output {
        let words = self.unprivileged(is_member);
        Command::new(&words[0]).args(&words[1..]).args(args).output().expect("setpriv runs")
    }
}

#[test]
fn only_root_and_members_of_the_group_may_run_the_installed_program() {
    let Some(installed) = install(test_name!()) else {
        return;
    };
    let found = fs::metadata(&installed.program).expect("installed");
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o750, 0, installed.group));
    let share = installed.dir.path().join("usr/share");
    for file in ["man/man1/quaff.1", "man/man1/quaff-capture.1", "bash-completion/completions/quaff"] {
        assert!(share.join(file).metadata().is_ok_and(|found| found.len() > 100), "{file}");
    }
    let other = installed.run(false, &["--help"]);
    assert!(!other.status.success(), "a user outside of the group ran it");
    assert!(String::from_utf8_lossy(&other.stderr).contains("Permission denied"), "{other:?}");
    let member = installed.run(true, &["--help"]);
    assert!(member.status.success() && !member.stdout.is_empty(), "{member:?}");
    if installed.has_capabilities {
        let has = run(Command::new("getcap").arg(&installed.program));
        assert_eq!(has.trim().rsplit(' ').next(), Some(format!("{FILE_CAPABILITIES}=p").as_str()));
    }
}

#[test]
fn a_member_of_the_group_captures_without_root() {
    let test = test_name!();
    let Some(installed) = install(test).filter(|installed| installed.has_capabilities) else { return };
    let Some(bench) = Bench::new(test, 1 << 27) else { return };
    let out = installed.dir.path().join("out");
    fs::create_dir(&out).expect("a folder");
    chown(&out, Some(NO_USER), None).expect("root may");
    let file = out.join("member.pcapng").display().to_string();
    let words = installed.unprivileged(true);
    let mut command = bench.lab.rx.command(&words[0]).expect("a command in the lab");
    command
        .args(&words[1..])
        .args(["capture", "-i", "rx0", "--buffer", "64M", "--json", "-c", "2000", "-w", &file]);
    let mut running = ChildProcess::start(command).expect("setpriv runs");
    assert!(running.hears("capturing", PATIENCE), "{}", running.heard);
    bench.generate("--size 100 --count 2000 --pps 20000");
    let ended = finish(running);
    // Drops of other interfaces of a busy machine leave the verdict open.
    assert!(matches!(ended.code, 0 | 1), "{} {}", ended.json, ended.stderr);
    assert_eq!((&ended.json["written"], &ended.json["lost"]), (&2000.into(), &0.into()), "{}", ended.json);
    let found = verify(&[&file]);
    assert_eq!(found["complete"], true, "{found}");
    assert_eq!(fs::metadata(&file).expect("the file").uid(), NO_USER);
    // Without the capabilities, the same user may not.
    run(Command::new("setcap").arg("-r").arg(&installed.program));
    let mut command = bench.lab.rx.command(&words[0]).expect("a command in the lab");
    command.args(&words[1..]).args(["capture", "-i", "rx0", "-w", &file]);
    let refused = command.output().expect("setpriv runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("CAP_NET_RAW"), "{said}");
}

/// A line of `/proc/PID/status`, in hexadecimal.
fn capabilities(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line");
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).expect("a number")
}

#[test]
fn a_command_drops_the_capabilities_that_it_does_not_need() {
    let test = test_name!();
    let Some(installed) = install(test).filter(|installed| installed.has_capabilities) else { return };
    let words = installed.unprivileged(true);
    let memory = 1 << 14 | 1 << 23;
    for (args, kept) in [
        (&["verify", "-"][..], 0),
        (&["capture", "--read", "-", "-w", "/dev/null"], 0),
        (&["pipe", "--buffer", "16M"], memory),
    ] {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut running = command.spawn().expect("setpriv runs");
        // It has read its command line when it waits for its input with a second thread.
        let tasks = format!("/proc/{}/task", running.id());
        let begun = std::time::Instant::now();
        while fs::read_dir(&tasks).map_or(0, Iterator::count) < 2 {
            assert!(begun.elapsed() < PATIENCE, "{args:?} does not read");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let sets = ["CapPrm", "CapEff", "CapInh"].map(|name| capabilities(running.id(), name));
        drop(running.stdin.take());
        running.wait().expect("it ends");
        assert_eq!(sets, [kept, kept, 0], "{args:?}");
    }
}

#[test]
fn the_script_the_readme_and_the_program_name_the_same_capabilities() {
    let text = |path: &str| fs::read_to_string(repository().join(path)).expect(path);
    assert!(text("scripts/install").contains(&format!("CAPABILITIES-{FILE_CAPABILITIES}}}")));
    assert!(text("README.md").contains(&format!("`{FILE_CAPABILITIES}=p`")));
    let make = Command::new("make").args(["-n", "install", "PREFIX=/opt"]).current_dir(repository()).output();
    match make {
        Ok(done) => assert!(String::from_utf8_lossy(&done.stdout).contains("scripts/install"), "{done:?}"),
        Err(_) => testing::skip("the Makefile", "make is not installed"),
    }
}
