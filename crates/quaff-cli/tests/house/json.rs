//! `--json` is the same in all commands but for the rows of a table in `docs/output.md`, and the numbers in it that no
//! double has are those of that page.

use crate::docs::{commands, document};
use crate::screens::place;
use crate::support::QUAFF;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Up to it, each whole number is a double.
const EXACT_MAX: u64 = 1 << 53;

/// Command lines whose JSON is looked at; the files are those of the screens.
const LINES: [&str; 15] = [
    "info a.pcapng b.pcap --json",
    "verify a.pcapng --json",
    "verify b.pcap --inject-loss 1 --json",
    "verify --against b.pcap b.pcap --json",
    "capture --read b.pcap --prove -w c.pcapng --json",
    "capture --read b.pcap -w d.pcapng --dry-run --json",
    "split --read b.pcap --members 2 --dir parts --json",
    "merge a.pcapng b.pcap -w m.pcapng --json",
    "generate --count 9 -w g.pcap --json",
    "replay -w r.pcap b.pcap --json",
    "flows --read b.pcap --jsonl flows.jsonl --json",
    "flows top --read b.pcap --once --json",
    "flows report b.pcap --over 1s --json",
    "flows list b.pcap --json",
    "streams extract b.pcap --dir streams --json",
];

fn printed(dir: &Path, line: &str) -> String {
    let done = Command::new(QUAFF).args(line.split(' ')).current_dir(dir).output().expect("quaff runs");
    String::from_utf8(done.stdout).expect("text")
}

/// The names of fields with numbers above [`EXACT_MAX`].
fn large(value: &Value, name: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| large(value, name, found)),
        Value::Array(items) => items.iter().for_each(|item| large(item, name, found)),
        Value::Number(number) if number.as_u64().is_some_and(|number| number > EXACT_MAX) => {
            found.insert(name.to_owned());
        }
        _ => {}
    }
}

#[test]
fn numbers_that_no_double_has_are_those_of_the_page() {
    let dir = place();
    let mut found = BTreeSet::new();
    for line in LINES {
        let json = serde_json::from_str(&printed(dir.path(), line))
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        large(&json, "", &mut found);
    }
    for file in ["flows.jsonl", "streams/index.jsonl"] {
        let lines = std::fs::read_to_string(dir.path().join(file)).expect("lines");
        lines.lines().for_each(|line| large(&serde_json::from_str(line).expect("JSON"), "", &mut found));
    }
    assert!(found.contains("first_ns"), "{found:?}");
    let page = document("docs/output.md");
    let is_known = |name: &&String| name.ends_with("_ns") || page.contains(&format!("- `{name}`"));
    let unknown: Vec<_> = found.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "docs/output.md lacks {unknown:?}");
}

#[test]
fn each_command_with_json_is_in_the_table() {
    let page = document("docs/output.md");
    let (_, table) = page.split_once("\n## JSON\n").expect("a section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: BTreeSet<String> = rows
        .flat_map(|row| row.split(" | ").next().unwrap_or_default().split('`').step_by(2).map(str::to_owned))
        .collect();
    let has = |command: &str| {
        named.iter().any(|name| name == command || name.starts_with(&format!("{command} --")))
    };
    for command in commands() {
        let help = printed(Path::new("."), format!("{command} --help").trim());
        if help.contains("--json") && !command.is_empty() {
            assert!(has(&command), "docs/output.md has no row of quaff {command}");
        }
    }
}
