//! The page: its tasks, and the commands of each.

use std::path::Path;

/// The text of `docs/daily.md`.
pub(crate) fn text() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/daily.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The titles of the tasks, without their numbers, which count from 1.
pub(crate) fn titles() -> Vec<String> {
    let text = text();
    let heads = text.lines().filter_map(|line| line.strip_prefix("## "));
    heads
        .enumerate()
        .map(|(at, head)| {
            let number = format!("{}. ", at + 1);
            head.strip_prefix(&number).unwrap_or_else(|| panic!("'{head}' is not {number}")).to_owned()
        })
        .collect()
}

/// The commands of a task: of the usual tool, then of quaff.
#[track_caller]
pub(crate) fn pairs(title: &str) -> Vec<[String; 2]> {
    let text = text();
    let is_of = |section: &&str| {
        section.lines().next().is_some_and(|head| head.split_once(". ").is_some_and(|(_, of)| of == title))
    };
    let section = text.split("\n## ").find(is_of).unwrap_or_else(|| panic!("no task '{title}'"));
    let commands: Vec<_> = section.lines().filter_map(|line| line.strip_prefix("    $ ")).collect();
    assert_eq!(commands.len() % 2, 0, "{title}: {commands:?}");
    let pairs = commands.chunks(2).map(|pair| [pair[0].to_owned(), pair[1].to_owned()]);
    let pairs: Vec<_> = pairs.collect();
    let is_ours = |line: &String| line.contains("quaff ");
    assert!(pairs.iter().all(|[old, new]| !is_ours(old) && is_ours(new)), "{title}: {pairs:?}");
    pairs
}

/// The anchor of a heading, as GitHub makes it.
pub(crate) fn anchor(number: usize, title: &str) -> String {
    let head = format!("{number}. {title}").to_lowercase().replace(' ', "-");
    head.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect()
}
