//! Lengths, public items and their doc lines, `unsafe`.

use crate::source::{Source, is_word, item_end};

/// The most lines of a file, tests included.
const FILE_LINES: usize = 800;
/// The most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;
/// The most columns of a comment.
const COMMENT_COLUMNS: usize = 120;

/// Files that are too long.
pub(crate) fn long_files(files: &[(String, String)]) -> Vec<String> {
    let lines = files.iter().map(|(path, text)| (path, text.lines().count()));
    lines
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect()
}

/// Functions that are too long in one file's code, with their line.
pub(crate) fn long_functions(path: &str, code: &str) -> Vec<String> {
    let mut long = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(is_word) || !code[at + 3..].starts_with(is_word) {
            continue;
        }
        let lines = code[at..item_end(code, at)].lines().count();
        if lines > FUNCTION_LINES {
            let name: String = code[at + 3..].chars().take_while(|c| is_word(*c)).collect();
            long.push(format!("{path}:{}: {name} has {lines} lines", 1 + code[..at].matches('\n').count()));
        }
    }
    long
}

/// The public items of a file that have a name of their own: line number, kind and name.
///
/// Fields, variants and methods of traits are part of an item; `pub use` is another name for one.
pub(crate) fn public_items(source: &Source) -> Vec<(usize, String, String)> {
    let mut items = Vec::new();
    for (number, line) in source.production.lines().enumerate() {
        let Some(item) = line.trim_start().strip_prefix("pub ") else { continue };
        let words = item.split(|c: char| !is_word(c)).filter(|word| !word.is_empty());
        let mut words = words.skip_while(|word| ["async", "unsafe", "extern"].contains(word)).peekable();
        let mut kind = words.next().unwrap_or_default();
        if kind == "const" && words.peek() == Some(&"fn") || kind == "static" && words.peek() == Some(&"mut")
        {
            kind = words.next().unwrap_or_default();
        }
        if ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"].contains(&kind) {
            items.push((number, kind.to_owned(), words.next().unwrap_or_default().to_owned()));
        }
    }
    items
}

/// Public items of a file without a doc line, and files that do not say what they are.
pub(crate) fn undocumented(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut bare = Vec::new();
    if !lines.first().is_some_and(|line| line.starts_with("//!")) {
        bare.push(format!("{}:1: no //! head", source.path));
    }
    for (number, kind, name) in public_items(source) {
        let mut above = lines[..number].iter().rev().map(|line| line.trim());
        // An attribute of several lines ends in `)]`; its inner lines are neither blank nor code that ends an item.
        let is_attribute = |line: &&str| {
            line.starts_with('#')
                || line.ends_with(")]")
                || line.ends_with(',')
                || line.ends_with(['"', '\\'])
        };
        let documented = above.find(|line| !is_attribute(line)).is_some_and(|line| line.starts_with("///"));
        if !documented && kind != "mod" {
            bare.push(format!("{}:{}: {kind} {name} has no doc line", source.path, number + 1));
        }
    }
    bare
}

/// Examples in doc comments that would be compiled: `scripts/test` runs no doc tests, so a fence names its language.
pub(crate) fn doc_tests(path: &str, text: &str) -> Vec<String> {
    let fence = |line: &str| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        doc.trim().strip_prefix("```").map(str::to_owned)
    };
    let fences = text.lines().enumerate().filter_map(|(number, line)| Some((number, fence(line)?)));
    let opening = fences.step_by(2).filter(|(_, language)| language.is_empty() || language == "rust");
    opening.map(|(number, _)| format!("{path}:{}: a doc test", number + 1)).collect()
}

/// Comments that are too long to read beside the code. Tables, links and code in them cannot be broken.
pub(crate) fn wide_comments(path: &str, text: &str) -> Vec<String> {
    let is_wide = |line: &str| {
        let comment = line.trim_start();
        let words = comment.trim_start_matches(['/', '!', ' ']);
        let is_broken = words.starts_with('|') || words.contains("://");
        comment.starts_with("//") && !is_broken && line.chars().count() > COMMENT_COLUMNS
    };
    let wide = text.lines().enumerate().filter(|(_, line)| is_wide(line));
    wide.map(|(number, _)| format!("{path}:{}: a comment of over {COMMENT_COLUMNS} columns", number + 1))
        .collect()
}

/// Threads that are started past `quaff_os::spawn`, which panics at no limit.
pub(crate) fn own_threads(source: &Source) -> Vec<String> {
    const STARTS: [&str; 5] =
        ["thread::spawn(", "scope.spawn(", "thread::Builder", ".spawn_scoped(", "Builder::new().name("];
    if source.path == "crates/quaff-os/src/thread.rs" {
        return Vec::new();
    }
    let lines = source.production.lines().enumerate();
    let found = lines.filter(|(_, line)| STARTS.iter().any(|start| line.contains(start)));
    found.map(|(number, line)| format!("{}:{}: {}", source.path, number + 1, line.trim())).collect()
}

/// Text that reaches the terminal past `show.rs` of quaff-cli, which makes it harmless. A stream may be looked at, and
/// what takes packets, records or a script for a shell is named here.
pub(crate) fn unshown_text(source: &Source) -> Vec<String> {
    const NOT_TEXT: [&str; 4] =
        ["cmd/completions.rs", "cmd/flows/sinks.rs", "cmd/generate/mod.rs", "cmd/replay/to_file.rs"];
    let is_exempt =
        source.path.ends_with("/show.rs") || NOT_TEXT.iter().any(|end| source.path.ends_with(end));
    if source.krate != "quaff-cli" || is_exempt {
        return Vec::new();
    }
    let writes = |line: &str| {
        let ends = ["io::stdout()", "io::stderr()"].into_iter().filter_map(|name| line.split_once(name));
        ends.map(|(_, after)| after)
            .any(|after| ![".is_terminal()", ".as_fd()"].iter().any(|look| after.starts_with(look)))
            || line.contains("println!")
            || line.contains("print!")
    };
    let lines = source.production.lines().enumerate().filter(|(_, line)| writes(line));
    lines.map(|(number, _)| format!("{}:{}: writes past show.rs", source.path, number + 1)).collect()
}

/// `unsafe` in production code of a crate that has none.
pub(crate) fn unsafe_code(source: &Source) -> Vec<String> {
    let is_unsafe = |line: &str| line.split(|c: char| !is_word(c)).any(|word| word == "unsafe");
    let lines = source.code.lines().enumerate().filter(|(_, line)| is_unsafe(line));
    lines.map(|(number, _)| format!("{}:{}: unsafe", source.path, number + 1)).collect()
}

/// Blocks and impls of unsafe code without a `SAFETY:` in the comment above them.
pub(crate) fn unargued(source: &Source) -> Vec<String> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut bare = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let mut keywords = line.split("unsafe ").skip(1);
        if !keywords.any(|rest| rest.starts_with('{') || rest.starts_with("impl")) {
            continue;
        }
        let argued = lines[..=number].iter().rev().take(12).any(|line| line.contains("SAFETY:"));
        if !argued {
            bare.push(format!("{}:{}: no SAFETY comment", source.path, number + 1));
        }
    }
    bare
}

#[test]
fn shapes_are_seen() {
    assert_eq!(doc_tests("a.rs", "//! ```text\n//! ```\n/// ```\n/// x\n/// ```"), ["a.rs:3: a doc test"]);
    let wide = format!("    // {0}\n    // | {0}\n{0}\n", "x".repeat(COMMENT_COLUMNS));
    assert_eq!(wide_comments("a.rs", &wide), ["a.rs:1: a comment of over 120 columns"]);
    let body = "    x;\n".repeat(FUNCTION_LINES);
    let code = format!("fn short() -> [u8; 2] {{\n}}\nfn long() {{\n{body}}}\n");
    assert_eq!(long_functions("a.rs", &code), ["a.rs:3: long has 72 lines"]);
    let text = "//! Head.\n/// Doc.\n#[derive(A)]\npub struct A {\n    pub field: u8,\n}\npub const fn b() {}\npub(crate) fn c() {}\n";
    let source = Source {
        path: "a.rs".to_owned(),
        krate: "a".to_owned(),
        module: vec![],
        text: text.to_owned(),
        code: text.to_owned(),
        production: text.to_owned(),
        test_lines: 0,
    };
    let text = "io::stdout().is_terminal();\nlet out = std::io::stderr().lock();\nprintln!();\n".to_owned();
    let source_of = |krate: &str, path: &str| Source {
        krate: krate.to_owned(),
        path: path.to_owned(),
        production: text.clone(),
        ..source.clone()
    };
    assert_eq!(
        unshown_text(&source_of("quaff-cli", "a.rs")),
        ["a.rs:2: writes past show.rs", "a.rs:3: writes past show.rs"]
    );
    assert_eq!(unshown_text(&source_of("quaff-cli", "src/show.rs")), [""; 0]);
    assert_eq!(undocumented(&source), ["a.rs:7: fn b has no doc line"]);
    assert_eq!(public_items(&source).len(), 2);
}
