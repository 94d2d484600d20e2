//! Programs that tests make: only `quaff_testkit` writes them (ETXTBSY, see `quaff-testkit/src/program.rs`).
//!
//! Looks at lines, not at types: a file that is made executable within four lines of its writing, a copy of a program,
//! a script.

/// Writes programs for the tests, and installs one for users.
const ALLOWED: [&str; 2] = ["quaff-testkit/src/program.rs", "quaff-cli/src/cmd/extcap/install.rs"];

/// Lines that make an executable file without `write_program` or `copy_program`.
pub(crate) fn made_programs(path: &str, text: &str) -> Vec<String> {
    if ALLOWED.iter().any(|allowed| path.ends_with(allowed)) || path.contains("/tests/tidy/") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let copies_a_program = line.contains("fs::copy(")
            && ["QUAFF,", "CARGO_BIN_EXE", "current_exe", "\"/bin/", "\"/usr/bin/"]
                .iter()
                .any(|name| line.contains(name));
        let writes_a_script = ["fs::write(", "File::create("].iter().any(|call| line.contains(call))
            && lines[number..].iter().take(3).any(|line| line.contains("\"#!"));
        let opens_executable =
            line.contains(".mode(0o") && line.contains("OpenOptions") && is_executable(line);
        let before = &lines[number.saturating_sub(4)..=number];
        if copies_a_program || writes_a_script || opens_executable || is_made_executable(before) {
            faults.push(format!("{path}:{}: a program, use quaff_testkit::write_program", number + 1));
        }
    }
    faults
}

/// Returns true if the last line sets a mode for programs on what a line before it writes.
fn is_made_executable(lines: &[&str]) -> bool {
    let [before @ .., last] = lines else { return false };
    let Some((_, rest)) = last.split_once("set_permissions(") else { return false };
    let path = &arguments(rest)[0];
    let writes = |line: &&str| {
        let calls = ["fs::write(", "File::create(", "fs::copy("].into_iter();
        calls.filter_map(|call| line.split_once(call)).any(|(_, rest)| arguments(rest).contains(path))
    };
    is_executable(last) && before.iter().any(writes)
}

/// The first two arguments of a call, without `&` and blanks.
fn arguments(rest: &str) -> Vec<String> {
    let (mut depth, mut found) = (0, vec![String::new()]);
    for c in rest.chars() {
        match c {
            ')' if depth == 0 => break,
            ',' if depth == 0 => {
                found.push(String::new());
                continue;
            }
            '&' | ' ' | '\n' => continue,
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        found.last_mut().expect("one").push(c);
    }
    found.truncate(2);
    found
}

/// Returns true if an octal number of the line has a bit for executing.
fn is_executable(line: &str) -> bool {
    line.split("0o").skip(1).any(|rest| {
        let digits: Vec<u32> = rest.chars().map_while(|c| c.to_digit(8)).collect();
        digits.iter().rev().take(3).any(|digit| digit & 1 == 1)
    })
}

#[test]
fn programs_are_found() {
    let found = |text: &str| made_programs("a.rs", text).len();
    let body = |lines: &str| format!("fn a() {{\n{lines}\n}}\n");
    assert_eq!(
        found(&body("fs::write(&path, text);\nset_permissions(&path, Permissions::from_mode(0o755));")),
        1
    );
    assert_eq!(
        found(&body(
            "fs::write(dir.join(\"a\"), text);\nset_permissions(dir.join(\"a\"), from_mode(0o700));"
        )),
        1
    );
    assert_eq!(
        found(&body("fs::write(&path, text);\nset_permissions(&path, Permissions::from_mode(0o644));")),
        0
    );
    assert_eq!(
        found(&body("fs::create_dir(&path);\nset_permissions(&path, Permissions::from_mode(0o755));")),
        0
    );
    assert_eq!(found(&body("std::fs::copy(QUAFF, place.at(\"quaff\"));")), 1);
    assert_eq!(found(&body("fs::write(&path, \"#!/bin/sh\\nexit\\n\");")), 1);
    assert_eq!(found(&body("OpenOptions::new().mode(0o755).open(path);")), 1);
}
