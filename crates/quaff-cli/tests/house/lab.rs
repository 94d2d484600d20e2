//! `quaff lab` from outside: the real command, on the real kernel.

use quaff_lab::{ChildProcess, Lab};
use quaff_os::Signal;
use quaff_testkit as testing;
use quaff_testkit::test_name;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");
const PATIENCE: Duration = Duration::from_secs(20);

/// `quaff lab …`, away from whatever lab the test itself may run in.
fn quaff(args: &[&str]) -> Command {
    let mut command = Command::new(QUAFF);
    command.arg("lab").args(args).env_remove("QUAFF_LAB");
    command
}

/// `quaff lab run --new -- sh -c SCRIPT`, in the background.
fn start(script: &str) -> ChildProcess {
    ChildProcess::start(quaff(&["run", "--new", "--", "sh", "-c", script])).expect("quaff runs")
}

fn output(args: &[&str]) -> Output {
    quaff(args).output().expect("quaff runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns true if this machine permits labs; skips the test otherwise.
fn permitted(test: &str) -> bool {
    testing::lab(test).is_some()
}

/// The lab of which `quaff lab list --json` says that.
fn listed(is_it: impl Fn(&serde_json::Value) -> bool) -> Option<serde_json::Value> {
    let said = stdout(&output(&["list", "--json"]));
    let labs: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
    labs.into_iter().find(is_it)
}

/// True if one of the lab's namespaces is there.
fn is_left(lab: &serde_json::Value) -> bool {
    let is_there = |name: &str| Path::new("/run/netns").join(name).exists();
    ["rx", "tx"].iter().any(|side| lab[side].as_str().is_some_and(is_there))
}

/// Takes a lab down, however its test ends.
struct DownAtLast<'a>(&'a str);

impl Drop for DownAtLast<'_> {
    fn drop(&mut self) {
        let _ = Lab::take_down(self.0);
    }
}

#[test]
fn a_lab_is_up_until_it_is_taken_down() {
    if !permitted(test_name!()) {
        return;
    }
    let name = &format!("quaff-test-{}", std::process::id());
    let _down = DownAtLast(name);
    let said = stdout(&output(&["up", "--name", name, "--mtu", "1500"]));
    assert!(
        said.contains(&format!("{name}-rx")) && said.contains(&format!("quaff lab down {name}")),
        "{said}"
    );

    let lab = listed(|lab| lab["name"] == **name).expect("it is listed");
    assert_eq!(
        (&lab["mtu"], &lab["persistent"], &lab["in_use"]),
        (&1500.into(), &true.into(), &false.into())
    );
    assert!(stdout(&output(&["list"])).contains(&format!("{name}-tx")));

    let again = output(&["up", "--name", name]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("quaff lab down"), "{again:?}");

    let mtu = output(&["run", "--lab", name, "--tx", "--", "cat", "/sys/class/net/tx0/mtu"]);
    assert_eq!(stdout(&mtu), "1500\n");

    let inside = ["run", "--lab", name, "--", "sh", "-c", "echo in >&2; exec sleep 60"];
    let mut inside = ChildProcess::start(quaff(&inside)).expect("quaff runs");
    assert!(inside.hears("in", PATIENCE));
    let refused = output(&["down", name]);
    assert_eq!(refused.status.code(), Some(2), "a process is in it: {refused:?}");
    inside.signal(Signal::SIGTERM).expect("it runs");
    assert_eq!(inside.finish(PATIENCE).expect("it ends").status.code(), Some(128 + 15));

    stdout(&output(&["down", name]));
    assert!(listed(|lab| lab["name"] == **name).is_none());
    assert!(!is_left(&lab));
    assert_eq!(output(&["down", name]).status.code(), Some(2));
}

#[test]
fn a_command_runs_in_its_namespace() {
    if !permitted(test_name!()) {
        return;
    }
    let receiving = output(&["run", "--new", "--", "ls", "/sys/class/net"]);
    assert_eq!(stdout(&receiving), "lo\nrx0\n");
    let sending = output(&["run", "--new", "--tx", "--", "ls", "/sys/class/net"]);
    assert_eq!(stdout(&sending), "lo\ntx0\n");
}

#[test]
fn the_exit_code_of_a_command_is_passed_on() {
    if !permitted(test_name!()) {
        return;
    }
    for (script, code) in [("exit 0", 0), ("exit 1", 1), ("exit 77", 77), ("kill -9 $$", 128 + 9)] {
        let run = output(&["run", "--new", "--", "sh", "-c", script]);
        assert_eq!(run.status.code(), Some(code), "{script}");
    }
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let run = output(&["run", "--new", "--", program]);
        assert_eq!(run.status.code(), Some(code));
        assert!(String::from_utf8_lossy(&run.stderr).contains(program), "{run:?}");
    }
}

#[test]
fn a_command_in_a_lab_finds_the_same_lab_again() {
    if !permitted(test_name!()) {
        return;
    }
    let again = "lab run --tx -- sh -c 'echo $QUAFF_LAB; ls /sys/class/net'";
    let script = format!("echo $QUAFF_LAB; {QUAFF} {again}");
    let said = stdout(&output(&["run", "--new", "--", "sh", "-c", &script]));
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], lines[1]);
    assert_eq!(lines[2..], ["lo", "tx0"]);
    assert!(listed(|lab| lab["name"] == lines[0]).is_none());
}

#[test]
fn two_labs_at_once_do_not_hear_each_other() {
    if !permitted(test_name!()) {
        return;
    }
    let count = "cat /sys/class/net/rx0/statistics/rx_packets";
    let send = format!("{QUAFF} lab run --tx -- bash -c 'echo x > /dev/udp/198.18.0.2/9'");
    let mut quiet = start(&format!("echo $QUAFF_LAB >&2; sleep 1; {count}"));
    let mut loud = start(&format!("echo $QUAFF_LAB >&2; {send}; {send}; {count}"));
    assert!(quiet.hears("quaff-", PATIENCE) && loud.hears("quaff-", PATIENCE));
    assert_ne!(quiet.heard, loud.heard);
    assert_eq!(loud.finish(PATIENCE).expect("it ends").stdout, b"2\n");
    assert_eq!(quiet.finish(PATIENCE).expect("it ends").stdout, b"0\n");
}

#[test]
fn nothing_arrives_on_an_idle_link() {
    if !permitted(test_name!()) {
        return;
    }
    let script = "sleep 3; cd /sys/class/net/rx0/statistics; cat rx_packets tx_packets";
    assert_eq!(stdout(&output(&["run", "--new", "--", "sh", "-c", script])), "0\n0\n");
}

#[test]
fn an_interrupt_ends_the_command_and_takes_the_lab_down() {
    if !permitted(test_name!()) {
        return;
    }
    let run = ["run", "--new", "--", "sh", "-c", "echo ready >&2; exec sleep 60"];
    // The second as a script starts things in the background: with SIGINT ignored.
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' INT; exec \"$0\" \"$@\"", QUAFF, "lab"]).args(run).env_remove("QUAFF_LAB");
    for command in [quaff(&run), ignoring] {
        let mut running = ChildProcess::start(command).expect("quaff runs");
        assert!(running.hears("ready", PATIENCE), "{}", running.heard);
        let pid = running.pid();
        let lab = listed(|lab| lab["pid"] == pid).expect("it is listed");
        assert!(is_left(&lab));
        running.signal(Signal::SIGINT).expect("it runs");
        let finished = running.finish(PATIENCE).expect("it ends");
        assert_eq!(finished.status.code(), Some(128 + 2), "{finished:?}");
        assert!(listed(|lab| lab["pid"] == pid).is_none());
        assert!(!is_left(&lab));
    }
}

#[test]
fn a_signal_reaches_the_command_once() {
    if !permitted(test_name!()) {
        return;
    }
    let script = "trap 'echo signalled >&2' INT; echo group $(cut -d' ' -f5 /proc/$$/stat) of $$ >&2
                  for i in 1 2 3 4 5 6; do sleep 0.1; done; exit 5";
    // In a process group of its own, as a shell's job is, and the whole group receives the signal.
    let mut command = quaff(&["run", "--new", "--", "sh", "-c", script]);
    command.process_group(0);
    let mut running = ChildProcess::start(command).expect("quaff runs");
    assert!(running.hears("group", PATIENCE));
    let ready = running.heard.clone();
    let words: Vec<_> = ready.split_whitespace().collect();
    assert_eq!(words[1], words[3], "the command is in a group of its own");
    let group = format!("-{}", running.pid());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().expect("kill runs").success());
    let finished = running.finish(PATIENCE).expect("it ends");
    assert_eq!((finished.status.code(), finished.stderr), (Some(5), ready + "signalled\n"));
}

#[test]
fn a_signal_reaches_what_the_command_has_started() {
    if !permitted(test_name!()) {
        return;
    }
    let mut running = start("sleep 60 & echo $! >&2; wait");
    assert!(running.hears("", PATIENCE));
    let started: u32 = running.heard.trim().parse().expect("a process id");
    running.signal(Signal::SIGTERM).expect("it runs");
    running.finish(PATIENCE).expect("it ends, and so does what holds its stderr");
    assert_ends(started);
}

#[test]
fn the_lab_of_a_killed_run_is_removed_by_the_next_run() {
    if !permitted(test_name!()) {
        return;
    }
    let mut running = start("echo $$ >&2; exec sleep 60");
    assert!(running.hears("", PATIENCE));
    let command: u32 = running.heard.trim().parse().expect("a process id");
    let pid = running.pid();
    let lab = listed(|lab| lab["pid"] == pid).expect("it is listed");
    assert!(is_left(&lab));
    running.signal(Signal::SIGKILL).expect("it runs");
    running.finish(PATIENCE).expect("it is dead");
    assert!(output(&["run", "--new", "--", "true"]).status.success());
    assert!(!is_left(&lab));
    assert!(listed(|lab| lab["pid"] == pid).is_none());
    // And what ran in there was asked to end.
    assert_ends(command);
}

fn assert_ends(pid: u32) {
    let begun = Instant::now();
    while is_running(pid) {
        assert!(begun.elapsed() < PATIENCE, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Not gone, and not a zombie that its new parent has yet to notice (proc_pid_stat(5)).
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
}

#[test]
fn a_probe_tells_of_each_thing() {
    let said = stdout(&output(&["probe", "--json"]));
    let permits: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
    let things: Vec<_> = permits.iter().map(|permit| permit["what"].as_str().expect("a name")).collect();
    for thing in ["namespaces", "AF_PACKET", "XDP", "BPF live frames", "io_uring", "O_DIRECT", "memlock"] {
        assert!(things.contains(&thing), "{thing} is missing in {things:?}");
    }
    for permit in &permits {
        assert!(permit["permitted"].is_boolean() && permit["detail"].as_str().is_some_and(|d| !d.is_empty()));
    }
    let said = stdout(&output(&["probe", "--dir", "/no/such/directory"]));
    assert!(said.contains("O_DIRECT         no") && said.contains("/no/such/directory"), "{said}");
}

#[test]
fn impossible_labs_are_refused_with_the_reason() {
    for (args, word) in [
        (vec!["up", "--name", "a/b"], "name of a lab"),
        (vec!["up", "--mtu", "9217"], "MTU"),
        (vec!["run", "--lab", "no-such-lab", "--", "true"], "there is no lab no-such-lab"),
        (vec!["down", "no-such-lab"], "there is no lab no-such-lab"),
        (vec!["run"], "COMMAND"),
        (vec!["run", "--lab", "x", "--new", "--", "true"], "cannot be used with"),
    ] {
        let refused = output(&args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(word), "{args:?}: {refused:?}");
    }
}

/// With a lab of the test's own, and fewer frames.
#[test]
fn the_lines_of_the_readme_can_be_pasted() {
    if !permitted(test_name!()) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).expect("the README");
    let section = readme.split("Try it without a network:\n").nth(1).expect("a section");
    let lines = section.lines().skip(1).take_while(|line| line.starts_with("    "));
    let name = format!("paste{}", std::process::id());
    let script = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    let script = script.replace("lab up", &format!("lab up --name {name}"));
    let script = script.replace("lab run", &format!("lab run --lab {name}"));
    let script = script.replace("lab down --all", &format!("lab down {name}")).replace("500000", "20000");
    assert!(script.lines().count() == 6 && script.ends_with(&name), "{script}");
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = Path::new(QUAFF).parent().expect("a folder").display();
    let path = format!("{program}:{}", std::env::var("PATH").expect("a path"));
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(dir.path()).env("PATH", path).env_remove("QUAFF_LAB");
    let done = bash.output().expect("bash runs");
    let text = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
    assert!(done.status.success() && text.contains("complete: 20,000 frames"), "{text}");
}

#[test]
fn a_lab_that_stays_up_names_the_process_that_uses_it() {
    if !permitted(test_name!()) {
        return;
    }
    let name = format!("used{}", std::process::id());
    stdout(&output(&["up", "--name", &name]));
    let script = format!(": sleep 60 of {name}; sleep 60");
    let run = ["run", "--lab", &name, "--", "sh", "-c", &script];
    let running = ChildProcess::start(quaff(&run)).expect("quaff runs");
    let begun = Instant::now();
    let inside = format!("sleep 60 of {name}");
    let is_begun = || {
        let lines = std::fs::read_dir("/proc").expect("processes").flatten();
        let mut lines = lines.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.any(|line| line.starts_with("sh\0") && line.contains(&inside))
    };
    while !is_begun() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = output(&["down", &name]);
    let refused = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(refused.contains("is in use by process") && refused.contains("sleep 60"), "{refused}");
    running.signal(Signal::SIGTERM).expect("it runs");
    running.finish(PATIENCE).expect("it ends");
    stdout(&output(&["down", &name]));
}

/// Labs of others are seen in a namespace of mounts of the test's own only: those of this machine are not touched.
#[test]
fn down_all_leaves_the_labs_of_others_that_still_run() {
    let test = test_name!();
    if !permitted(test) {
        return;
    }
    let script = format!(
        "set -e\n\
         mount -t tmpfs none /run\n\
         {QUAFF} lab up --name mine >/dev/null\n\
         sh -c '{QUAFF} lab up --name other >/dev/null; exec sleep 100' & other=$!\n\
         until {QUAFF} lab list | grep -q other; do sleep 0.1; done\n\
         {QUAFF} lab down --all\n\
         echo between\n\
         {QUAFF} lab list\n\
         kill $other; wait $other || true\n\
         {QUAFF} lab down --all\n\
         {QUAFF} lab list"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]).env_remove("QUAFF_LAB");
    let done = command.output().expect("unshare runs");
    let (said, errors) = (stdout(&done), String::from_utf8_lossy(&done.stderr).into_owned());
    let (first, second) = said.split_once("between").unwrap_or_else(|| panic!("{said} {errors}"));
    assert!(first.contains("The lab mine is down.") && !first.contains("other is down"), "{said}");
    assert!(errors.contains("the lab other belongs to process"), "{errors}");
    assert!(errors.contains("'quaff lab down other'"), "{errors}");
    assert!(second.contains("other") && second.contains("The lab other is down."), "{said}");
    assert!(second.contains("No lab is up"), "{said}");
}
