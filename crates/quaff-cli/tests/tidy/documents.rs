//! The documents describe the tree as it is: paths, crates, tests and decisions that they name exist, and crates keep
//! to what the map denies them.

use crate::source::{Source, crates, files, production, read, root};
use crate::{all_rust, at_most};
use std::collections::{BTreeMap, BTreeSet};
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

/// The rows of a table in a document, cell by cell.
fn rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = document.lines().filter(|line| line.starts_with("| "));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
}

/// The texts in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The row of each crate in the table of crates: its name, and the cell of what is never in it.
fn crates_of_the_map(map: &str) -> Vec<(String, String)> {
    let is_row = |cells: &Vec<&str>| cells.len() == 3 && cells[0].starts_with("`quaff");
    let cells = rows(map).filter(is_row);
    cells.flat_map(|row| quoted(row[0]).map(move |name| (name.to_owned(), row[2].to_owned()))).collect()
}

/// Names of tests in backticks that no test has. A test's name has four words or more.
fn missing_tests(text: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let is_name = |word: &&str| {
        let is_small = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        is_small && word.matches('_').count() >= 3
    };
    quoted(text).filter(is_name).filter(|word| !tests.contains(*word)).map(str::to_owned).collect()
}

/// The names of all tests.
fn tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, text) in all_rust() {
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                names.insert(name.split('(').next().unwrap_or_default().to_owned());
            }
            is_test = line == "#[test]" || is_test && (line.starts_with("#[") || line.starts_with("//"));
        }
    }
    names
}

/// Uses of what a crate's cell denies: `I/O`, `a clock`, `sockets`. `but in` exempts the module in backticks after it;
/// another `but` is not checked.
fn denied(source: &Source, never: &str) -> Vec<String> {
    const SOCKETS: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "socket("];
    const IO: &[&str] = &["std::fs", "std::process", "File::", "TcpStream", "TcpListener", "UdpSocket"];
    const CLOCK: &[&str] = &["Instant::now", "SystemTime", "clock::"];
    let mut found = Vec::new();
    for clause in never.split("; ").flat_map(|clause| clause.split(", ")) {
        let (what, exempt) = clause.split_once(" but ").unwrap_or((clause, ""));
        let module = quoted(exempt).next();
        if !exempt.is_empty() && (module.is_none() || module == source.module.first().map(String::as_str)) {
            continue;
        }
        for (word, uses) in [("sockets", SOCKETS), ("I/O", IO), ("a clock", CLOCK)] {
            let lines = source.production.lines().enumerate().filter(|_| what.contains(word));
            let of_line = |(number, line): (usize, &str)| {
                let used = uses.iter().find(|used| line.contains(**used))?;
                Some(format!("{}:{}: {used}, but {} never has {word}", source.path, number + 1, source.krate))
            };
            found.extend(lines.filter_map(of_line));
        }
    }
    found
}

/// Differences between the pages of decisions, by number, and the rows of their index. `pages`: number, file and
/// title of each.
fn misplaced_decisions(index: &str, pages: &BTreeMap<u32, (String, String)>) -> Vec<String> {
    let number = |cell: &str| cell.trim_start_matches('[').get(..4)?.parse::<u32>().ok();
    let listed: BTreeMap<u32, Vec<&str>> =
        rows(index).filter_map(|cells| Some((number(cells[0])?, cells))).collect();
    let mut faults = Vec::new();
    for number in 1..=pages.keys().max().copied().unwrap_or_default() {
        let row = listed.get(&number).map(|cells| cells.join(" | "));
        let wanted = pages
            .get(&number)
            .map(|(file, title)| format!("[{number:04}]({file}) | {title}"))
            .unwrap_or_else(|| format!("{number:04} | withdrawn: "));
        match row {
            Some(row) if row == wanted => {}
            Some(row)
                if !pages.contains_key(&number)
                    && row.len() > wanted.len() + 5
                    && row.starts_with(&wanted) => {}
            row => faults.push(format!("decision {number:04}: {row:?}, and not {wanted:?}")),
        }
    }
    faults
}

#[test]
fn the_map_has_a_row_for_each_crate() {
    let rows: BTreeSet<String> =
        crates_of_the_map(&read("ARCHITECTURE.md")).into_iter().map(|row| row.0).collect();
    let there: BTreeSet<String> = crates().into_iter().collect();
    assert_eq!(rows, there);
}

#[test]
fn the_map_fits_its_pages() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 160, "{lines} lines; what holds within a module belongs into its head");
}

#[test]
fn crates_keep_to_what_the_map_denies_them() {
    let map: BTreeMap<String, String> = crates_of_the_map(&read("ARCHITECTURE.md")).into_iter().collect();
    let denied = |source: &Source| denied(source, map.get(&source.krate).map_or("", String::as_str));
    at_most(0, &production().iter().flat_map(denied).collect::<Vec<_>>());
}

#[test]
fn tests_that_documents_name_exist() {
    let tests = tests();
    for page in ["ARCHITECTURE.md", "docs/security.md", "docs/extending.md"] {
        at_most(0, &missing_tests(&read(page), &tests));
    }
}

#[test]
fn the_index_of_decisions_is_that_of_the_pages() {
    let numbered = |path: String| {
        let file = path.rsplit_once('/')?.1.to_owned();
        let number = file.get(..4)?.parse().ok()?;
        let heading = read(&path).lines().next()?.to_owned();
        let title = heading.strip_prefix(&format!("# {number:04} "))?.to_owned();
        Some((number, (file, title)))
    };
    let paths = files("docs/decisions", &[".md"]);
    let pages: BTreeMap<_, _> = paths.iter().cloned().filter_map(numbered).collect();
    assert_eq!(pages.len(), paths.len() - 1, "each page but the index begins with `# NUMBER title`");
    at_most(0, &misplaced_decisions(&read("docs/decisions/README.md"), &pages));
}

#[test]
fn the_changelog_has_the_version_below_what_is_unreleased() {
    let manifest = read("Cargo.toml");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let changelog = read("CHANGELOG.md");
    let mut parts = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    assert_eq!(parts.next(), Some("Unreleased"));
    assert_eq!(parts.next().and_then(|part| part.split(' ').next()), version);
}

#[test]
fn claims_of_documents_are_seen() {
    let map = "| `quaff-wire` | bytes | I/O, a clock, `unsafe` |\n| `quaff-flow` | x | I/O and a clock but in `collector` |\n";
    let rows = crates_of_the_map(map);
    assert_eq!(rows.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["quaff-wire", "quaff-flow"]);
    let source = |module: &str| Source {
        path: "a.rs".to_owned(),
        krate: "a".to_owned(),
        module: vec![module.to_owned()],
        text: String::new(),
        code: String::new(),
        production: "use std::net::IpAddr;\nlet x = Instant::now();\nFile::open();\n".to_owned(),
        test_lines: 0,
    };
    assert_eq!(denied(&source("b"), &rows[0].1).len(), 2);
    assert_eq!(
        (denied(&source("collector"), &rows[1].1).len(), denied(&source("b"), &rows[1].1).len()),
        (0, 2)
    );
    assert_eq!(denied(&source("b"), "I/O; a clock but for budgets").len(), 1);

    let tests = BTreeSet::from(["a_b_c_d".to_owned()]);
    assert_eq!(missing_tests("`a_b_c_d`, `x_y_z_gone`, `a_field`, `Type_a_b_c`", &tests), ["x_y_z_gone"]);

    let page = |title: &str| ("x.md".to_owned(), title.to_owned());
    let pages = BTreeMap::from([(1, page("one")), (3, page("three"))]);
    let index = "| [0001](x.md) | one |\n| 0002 | withdrawn: no need |\n| [0003](x.md) | three |\n";
    assert!(misplaced_decisions(index, &pages).is_empty());
    assert_eq!(misplaced_decisions(&index.replace("one", "two"), &pages).len(), 1);
    assert_eq!(misplaced_decisions("", &pages).len(), 3);
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
