//! Paths that the documents name exist.

use crate::source::{crates, files, read, root};
use std::path::Path;

/// The documents that describe the tree as it is.
fn documents() -> Vec<String> {
    let named = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(str::to_owned).into_iter();
    named.chain(files("docs", &[".md"])).collect()
}

/// `document:line: path` of each path of ours that does not exist.
pub(crate) fn missing_paths() -> Vec<String> {
    let crates = crates();
    let mut missing = Vec::new();
    // A decision is a record of its day: only its links are followed.
    for document in documents() {
        let is_record = document.contains("/decisions/");
        let dir = Path::new(&document).parent().expect("a folder").to_path_buf();
        let mut folder = String::new();
        for (number, line) in read(&document).lines().enumerate() {
            let mut wrong: Vec<String> = links(line).into_iter().filter(|link| !exists(&dir, link)).collect();
            if !is_record {
                wrong.extend(missing_in(line, &mut folder, &crates));
            }
            missing.extend(wrong.into_iter().map(|path| format!("{document}:{}: {path}", number + 1)));
        }
    }
    missing
}

/// The targets of Markdown links to files.
fn links(line: &str) -> Vec<String> {
    let targets = line.split("](").skip(1).filter_map(|after| after.split([')', '#', ' ']).next());
    let is_file = |target: &&str| !target.is_empty() && !target.contains("://");
    targets.filter(is_file).map(str::to_owned).collect()
}

/// Paths in backticks that do not exist. A bare file name continues the folder that the document named last.
fn missing_in(line: &str, folder: &mut String, crates: &[String]) -> Vec<String> {
    let mut missing = Vec::new();
    for token in line.split('`').skip(1).step_by(2) {
        for path in expanded(token) {
            let Some(places) = places(&path, folder, crates) else { continue };
            match places.iter().find(|place| exists(Path::new(""), place)) {
                Some(place) if root().join(place).is_dir() => {
                    *folder = place.trim_end_matches('/').to_owned()
                }
                Some(place) => {
                    *folder = place.rsplit_once('/').map_or(String::new(), |(dir, _)| dir.to_owned())
                }
                None => missing.push(path),
            }
        }
    }
    missing
}

/// Where a path of ours may lie, from the root; `None` for what is not a path of ours.
fn places(path: &str, folder: &str, crates: &[String]) -> Option<Vec<String>> {
    let is_path = path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./*".contains(c));
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let is_rust = path.ends_with(".rs") && path.len() > 3 && !path.starts_with('/');
    // `tunnel/NAME.rs` is to be written by the reader.
    let is_template = path.contains("NAME");
    if !is_path || is_template || first.is_empty() || !(is_rust || path.contains('/')) {
        return None;
    }
    let krate =
        if crates.iter().any(|name| name == first) { first.to_owned() } else { format!("quaff-{first}") };
    if crates.contains(&krate) && rest.split('/').next().is_some_and(|next| !next.is_empty()) {
        return Some(vec![
            format!("crates/{krate}/{rest}"),
            format!("crates/{krate}/src/{rest}"),
            path.to_owned(),
        ]);
    }
    if ["crates", "docs", "scripts", "fuzz", "examples", ".ci"].contains(&first) {
        return Some(vec![path.to_owned()]);
    }
    is_rust.then(|| vec![format!("{folder}/{path}"), path.to_owned()])
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(token: &str) -> Vec<String> {
    let Some((before, rest)) = token.split_once('{') else { return vec![token.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![token.to_owned()] };
    inside.split(',').flat_map(|one| expanded(&format!("{before}{}{after}", one.trim()))).collect()
}

/// Whether a path below `dir` exists; a `*` in its last part stands for anything.
fn exists(dir: &Path, path: &str) -> bool {
    let whole = root().join(dir).join(path);
    let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((start, end)) = name.split_once('*') else { return whole.exists() };
    let entries = std::fs::read_dir(whole.parent().expect("a folder")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|found| {
        let found = found.to_string_lossy();
        found.starts_with(start) && found.ends_with(end)
    })
}

#[test]
fn paths_in_a_line_are_found() {
    let crates = crates();
    let missing = |line| missing_in(line, &mut String::new(), &crates);
    assert_eq!(
        missing("`quaff-wire/src/{lib,gone}.rs`, `/sys/fs/x.rs`, `a.pcap`"),
        ["quaff-wire/src/gone.rs"]
    );
    assert_eq!(missing("`quaff-wire/src/pcapng/`: `encode.rs`, `gone.rs`"), ["gone.rs"]);
    assert_eq!(missing("`docs/*.md` and `docs/*.gone`"), ["docs/*.gone"]);
    assert_eq!(links("see [a](docs/a.md#b) and [c](https://d/e)"), ["docs/a.md"]);
}
