//! Words and phrases that the project retired, and how many of each are left.
//!
//! A count may only fall. Decisions (`docs/decisions/`) and the changelog are records of their day and are not read.

use crate::source::{files, read};
use std::collections::BTreeMap;

/// A retired word or phrase, the forms it takes, and the most that may be left.
pub(crate) struct Retired {
    forms: &'static [&'static str],
    most: usize,
}

const fn retired(forms: &'static [&'static str], most: usize) -> Retired {
    Retired { forms, most }
}

/// Metaphors that were names, and phrases that a reader has to decode; the better word follows.
pub(crate) const RETIRED: &[Retired] = &[
    retired(&["told"], 0),               // reported, knows; but for a verdict of verify
    retired(&["nobody", "somebody"], 0), // no program, the user
    retired(&["onlooker", "onlookers", "who looks on"], 0), // live copy
    retired(&["slab", "slabs"], 0),      // buffer
    retired(&["shelf", "shelves"], 0),   // retention
    retired(&["keeper"], 0),             // file opener
    retired(&["teacher"], 0),            // ARP responder
    retired(&["bell"], 0),               // wakeup
    retired(&["booth"], 0),              // case runner
    retired(&["rig"], 0),                // test context
    retired(&["bring home", "come home", "comes home", "came home", "went home"], 0), // recycle
    retired(&["close door"], 0),         // stop receiving
    retired(&["goes on", "go on", "went on"], 0), // continue
    retired(&["put back", "puts back"], 0), // restore
    retired(&["give up", "gives up", "given up", "gave up"], 0), // abandon
    retired(&["says so", "say so", "said so"], 0), // reports it
    retired(&["is said", "are said"], 0), // is reported
    retired(&["what becomes of", "what became of"], 0), // fate
    retired(&["come to its end", "comes to its end"], 0), // end
];

/// Doc comments that open with a question word.
pub(crate) const QUESTIONS: usize = 0;

/// Names of the place where the project was written.
const WORKPLACE: &[&str] = &[concat!("/wo", "rk/"), concat!("fa", "rm"), concat!(".lib", "rary")];

/// What people read: sources, help, documents, presets.
fn texts() -> Vec<(String, String)> {
    let ends = [".rs", ".md", ".snap", ".toml", ".css", ".html", ".py", ".sh"];
    let paths = ["crates", "docs", "fuzz", "examples"].into_iter().flat_map(|dir| files(dir, &ends));
    let paths =
        paths.chain(["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "Makefile"].map(str::to_owned));
    let record = |path: &String| path.contains("docs/decisions/") || path.contains("/tests/tidy/");
    paths.filter(|path| !record(path)).map(|path| (path.clone(), read(&path))).collect()
}

/// The words of a line: lower case, identifiers taken apart at `_` and at capitals.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for c in line.chars() {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphanumeric()) && !words.ends_with(' ') {
            words.push(' ');
        }
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        }
        before = c;
    }
    words.push(' ');
    words
}

/// Retired words of which there are more than their number: the word, the count, and the files with most of them.
pub(crate) fn come_back() -> Vec<String> {
    let mut found: Vec<BTreeMap<String, usize>> = RETIRED.iter().map(|_| BTreeMap::new()).collect();
    for (path, text) in texts() {
        let words = text.lines().map(words).collect::<String>().replace("  ", " ");
        // A verdict of `quaff verify`, whose words are fixed.
        let words = words.replace(" cannot be told ", " ");
        for (retired, found) in RETIRED.iter().zip(&mut found) {
            let count: usize =
                retired.forms.iter().map(|form| words.matches(&format!(" {form} ")).count()).sum();
            if count > 0 {
                found.insert(path.clone(), count);
            }
        }
    }
    let mut faults = Vec::new();
    for (retired, found) in RETIRED.iter().zip(found) {
        let count: usize = found.values().sum();
        if count > retired.most {
            let mut places: Vec<_> = found.into_iter().collect();
            places.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let places: Vec<_> =
                places.iter().take(8).map(|(path, count)| format!("{path} {count}")).collect();
            faults.push(format!(
                "{:?}: {count}, allowed {}: {}",
                retired.forms,
                retired.most,
                places.join(", ")
            ));
        }
    }
    faults
}

/// Doc comments whose first word is a question word, `path:line: text`.
pub(crate) fn questions() -> Vec<String> {
    const WORDS: [&str; 7] = ["What", "How", "Whether", "Where", "When", "Who", "Which"];
    let doc = |line: &str| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(|text| text.trim().to_owned())
    };
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut before = None;
        for (number, line) in text.lines().enumerate() {
            let line = doc(line);
            let opens = before.as_deref().is_none_or(str::is_empty);
            let first = line.as_deref().and_then(|line| line.split(|c: char| !c.is_alphanumeric()).next());
            if opens && first.is_some_and(|first| WORDS.contains(&first)) {
                found.push(format!("{path}:{}: {}", number + 1, line.as_deref().unwrap_or_default()));
            }
            before = line;
        }
    }
    found
}

/// Tests whose names open with a question word, `path:line: name`: a name states the behaviour.
pub(crate) fn question_names() -> Vec<String> {
    const WORDS: [&str; 7] = ["what", "how", "whether", "where", "when", "who", "which"];
    let mut found = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_test = false;
        for (number, line) in text.lines().map(str::trim_start).enumerate() {
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                let first = name.split('_').next().unwrap_or_default();
                let is_question = WORDS.contains(&first) && name.starts_with(&format!("{first}_"));
                found.extend(is_question.then(|| format!("{path}:{}: {name}", number + 1)));
            }
            is_test = line == "#[test]" || is_test && line.starts_with("#[");
        }
    }
    found
}

/// Conflict markers of git, in what people read and in records.
pub(crate) fn conflicts() -> Vec<String> {
    let records = files("docs/decisions", &[".md"]).into_iter().chain(["CHANGELOG.md".to_owned()]);
    let records = records.map(|path| (path.clone(), read(&path)));
    let is_marker = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    let lines_of = |(path, text): (String, String)| -> Vec<_> {
        let lines = text.lines().enumerate().filter(|(_, line)| is_marker(line));
        lines.map(|(number, line)| format!("{path}:{}: {line}", number + 1)).collect()
    };
    texts().into_iter().chain(records).flat_map(lines_of).collect()
}

/// Lines that name the place where the project was written.
pub(crate) fn workplace() -> Vec<String> {
    let mut all = texts();
    all.extend(
        files("scripts", &[""])
            .into_iter()
            .chain(files(".ci", &[""]))
            .map(|path| (path.clone(), read(&path))),
    );
    let mut found = Vec::new();
    for (path, text) in all {
        for (number, line) in text.lines().enumerate() {
            let names = |name: &&&str| match name.contains(['/', '.']) {
                true => line.contains(**name),
                false => words(line).contains(&format!(" {name} ")),
            };
            found.extend(WORKPLACE.iter().filter(names).map(|name| format!("{path}:{}: {name}", number + 1)));
        }
    }
    found
}

#[test]
fn identifiers_and_phrases_are_taken_apart() {
    assert_eq!(words("fn put_back(SlabPool) — it's"), " fn put back slab pool it s ");
}
