//! The blocks of a page: indented or fenced lines, with the commands in them and what they print.

use std::path::Path;

/// First words of lines that a user types.
const TYPED: [&str; 12] =
    ["$", "#", "quaff", "make", "sudo", "wait", "ssh", "tshark", "tcpdump", "cargo", "mkdir", "export"];

/// A block of a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// The number of its first line.
    pub(crate) line: usize,
    /// The paragraph before it, as one line.
    pub(crate) before: String,
    pub(crate) lines: Vec<String>,
}

/// A command of a block, and what the page says that it prints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) command: String,
    pub(crate) printed: Vec<String>,
}

pub(crate) fn text(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages for users.
pub(crate) fn pages() -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names = docs.read_dir().expect("docs").filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut pages: Vec<_> =
        names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}")).collect();
    pages.push("README.md".into());
    pages.sort();
    pages
}

pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut before) = (Vec::new(), String::new());
    let mut at = 0;
    while at < lines.len() {
        let start = at;
        if lines[at].starts_with("```") {
            at += 1 + lines[at + 1..].iter().position(|line| line.starts_with("```")).expect("a fence ends");
            found.push(block(start + 1, &mut before, &lines[start + 1..at]));
        } else if lines[at].starts_with("    ") && (at == 0 || lines[at - 1].is_empty()) {
            let is_of = |line: &&str| line.is_empty() || line.starts_with("    ");
            at += lines[at..].iter().take_while(|line| is_of(line)).count();
            let end =
                start + lines[start..at].iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
            found.push(block(start, &mut before, &lines[start..end]));
            continue;
        } else if lines[at].is_empty() {
            let next =
                lines.get(at + 1).is_some_and(|line| line.starts_with("    ") || line.starts_with("```"));
            if !next {
                before.clear();
            }
        } else {
            before = format!("{before} {}", lines[at]).trim().to_owned();
        }
        at += 1;
    }
    found
}

fn block(start: usize, before: &mut String, lines: &[&str]) -> Block {
    let lines = lines.iter().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned()).collect();
    Block { line: start + 1, before: std::mem::take(before), lines }
}

impl Block {
    /// The commands after `$`, each with the lines that follow it.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut is_continued = false;
        for line in &self.lines {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (None, Some(step)) if is_continued => step.command += &format!("\n{line}"),
                (Some(command), _) => steps.push(Step { command: command.to_owned(), printed: Vec::new() }),
                (None, Some(step)) => step.printed.push(line.clone()),
                (None, None) => {}
            }
            is_continued = line.ends_with('\\');
        }
        // An empty line between two commands is not printed by the first.
        for step in &mut steps {
            let last = step.printed.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
            step.printed.truncate(last);
        }
        steps
    }

    pub(crate) fn is_example(&self) -> bool {
        self.steps().iter().any(|step| !step.printed.is_empty())
    }

    /// Nothing in it is printed by a program.
    pub(crate) fn is_typed(&self) -> bool {
        let mut is_continued = false;
        self.lines.iter().all(|line| {
            let first = line.split_whitespace().next().unwrap_or("$");
            let is_typed =
                std::mem::replace(&mut is_continued, line.ends_with('\\')) || TYPED.contains(&first);
            is_typed && !self.is_example()
        })
    }

    pub(crate) fn has_figures(&self) -> bool {
        self.lines.iter().any(|line| line.contains(|c: char| c.is_ascii_digit()))
    }

    /// The command in the paragraph before, which sends while the block's command captures.
    pub(crate) fn sender(&self) -> Option<String> {
        let quoted = self.before.split('`').skip(1).step_by(2);
        let is_sender = |words: &&str| {
            ["quaff generate", "quaff replay"].iter().any(|start| words.starts_with(start))
                && !words.contains(" -w ")
        };
        quoted.filter(is_sender).last().map(str::to_owned)
    }
}
