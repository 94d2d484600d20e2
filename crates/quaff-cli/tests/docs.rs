//! Manual pages, shell completions and the pages in `docs/` say what the commands do, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const QUAFF: &str = env!("CARGO_BIN_EXE_quaff");

/// The output of `quaff WORDS`.
fn quaff(words: &str) -> String {
    let done = Command::new(QUAFF).args(words.split_whitespace()).output().expect("quaff runs");
    assert!(done.status.success(), "quaff {words}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

/// All commands that the help lists, such as `bench list`, and the empty one.
fn commands() -> Vec<String> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while at < found.len() {
        let help = quaff(&format!("{} --help", found[at]));
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let listed = listed.take_while(|line| !line.is_empty());
        let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        let names: Vec<_> = names.map(|name| format!("{} {name}", found[at]).trim().to_owned()).collect();
        found.extend(names);
        at += 1;
    }
    found
}

/// The long options in the help of a command.
fn options(command: &str) -> BTreeSet<String> {
    let help = quaff(&format!("{command} --help"));
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2));
    let words = words.filter_map(|word| word.strip_prefix("--"));
    words
        .map(|word| word.trim_end_matches(',').split(['[', '=', '.']).next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn each_command_has_a_manual_page_that_man_accepts() {
    let dir = tempfile::tempdir().expect("a folder");
    quaff(&format!("man {}", dir.path().display()));
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for command in &commands {
        let page = dir.path().join(format!("quaff {command}.1").replace(" .", ".").replace(' ', "-"));
        let mut man = Command::new("man");
        man.env("LC_ALL", "C.UTF-8").args(["--warnings", "-E", "UTF-8", "-Tutf8", "-l"]).arg(&page);
        let shown = man.output().expect("man is installed");
        assert!(shown.status.success() && shown.stderr.is_empty(), "{}: {shown:?}", page.display());
        let text = std::fs::read_to_string(&page).expect("the page").replace("\\-", "-");
        for option in options(command) {
            assert!(text.contains(&format!("--{option}")), "{}: --{option}", page.display());
        }
    }
    let pages = dir.path().read_dir().expect("the folder").count();
    assert_eq!(pages, commands.len());
}

#[test]
fn completions_are_scripts_with_all_commands() {
    let dir = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = quaff(&format!("completions {shell}"));
        for name in ["capture", "split", "completions", "--keep-free", "--dry-run"] {
            // fish writes options without their dashes.
            assert!(script.contains(name.trim_start_matches('-')), "{shell}: {name}");
        }
        check_syntax(shell, &script, dir.path());
    }
}

/// Has the shell itself read the script, where it is installed.
fn check_syntax(shell: &str, script: &str, dir: &Path) {
    let path = dir.join(shell);
    std::fs::write(&path, script).expect("a file");
    match Command::new(shell).arg("-n").arg(&path).output() {
        Ok(done) => assert!(done.status.success() && done.stderr.is_empty(), "{shell}: {done:?}"),
        Err(error) if shell != "bash" => eprintln!("{shell} is not installed: {error}"),
        Err(error) => panic!("{shell}: {error}"),
    }
}
