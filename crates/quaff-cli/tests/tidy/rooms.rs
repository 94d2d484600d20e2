//! Arrows: between crates as ARCHITECTURE.md draws them, between the modules of a crate without circles.

use crate::source::{self, Source, is_word};
use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The crates that each crate may use: those that ARCHITECTURE.md lets one reach along its arrows.
///
/// A drawing is an indented block of lines such as `cli → bench → lab, quaff      any → wire, os`. Names go with
/// or without `quaff-`; `any` is every crate but those it points to.
pub(crate) fn drawn(document: &str, crates: &[String]) -> Arrows {
    let mut arrows: Arrows = crates.iter().map(|name| (name.clone(), BTreeSet::new())).collect();
    let named = |word: &str| {
        let word = word.trim().trim_matches(['{', '}']).trim();
        let whole = if word.starts_with("quaff") { word.to_owned() } else { format!("quaff-{word}") };
        let is_name = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        is_name.then_some(whole)
    };
    for chain in document.lines().filter(|line| line.starts_with("    ")).flat_map(|line| line.split("   ")) {
        let hops: Vec<Vec<&str>> = chain.split('→').map(|hop| hop.trim().split(',').collect()).collect();
        for pair in hops.windows(2) {
            let to: Vec<String> = pair[1].iter().filter_map(|word| named(word)).collect();
            for from in &pair[0] {
                let any = crates.iter().filter(|name| !to.contains(name)).cloned().collect();
                let from = if from.trim() == "any" { any } else { Vec::from_iter(named(from)) };
                for from in from {
                    arrows.entry(from).or_default().extend(to.iter().cloned());
                }
            }
        }
    }
    closed(&arrows)
}

/// What can be reached from each, in any number of steps.
fn closed(arrows: &Arrows) -> Arrows {
    let reach = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(to) = open.pop().and_then(|at| arrows.get(at)) {
            open.extend(to.iter().filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    arrows.keys().map(|from| (from.clone(), reach(from))).collect()
}

/// The crates of ours in one section of a manifest.
fn dependencies(manifest: &str, section: &str, crates: &[String]) -> Vec<String> {
    let after = manifest.split_once(&format!("\n[{section}]\n")).map_or("", |(_, after)| after);
    let lines = after.lines().take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split(|c: char| !is_word(c) && c != '-').next().map(str::to_owned);
    lines.filter_map(name).filter(|name| crates.contains(name)).collect()
}

/// Dependencies between crates that the drawing does not have.
pub(crate) fn undrawn() -> Vec<String> {
    let crates = source::crates();
    let drawn = drawn(&source::read("ARCHITECTURE.md"), &crates);
    let mut wrong = Vec::new();
    for from in &crates {
        let manifest = source::read(&format!("crates/{from}/Cargo.toml"));
        for to in dependencies(&manifest, "dependencies", &crates) {
            if to.contains("testkit") {
                wrong.push(format!("{from}: {to} is for [dev-dependencies] only"));
            } else if !drawn[from].contains(&to) && !from.contains("testkit") {
                wrong.push(format!("{from} → {to} is not in ARCHITECTURE.md"));
            }
        }
    }
    wrong.extend(
        drawn.iter().filter(|(from, to)| to.contains(*from)).map(|(from, _)| format!("{from} → {from}")),
    );
    wrong
}

/// The groups of top-level modules that import each other in a circle, `crate: a b c`.
pub(crate) fn circles(sources: &[Source]) -> Vec<String> {
    let mut circles = Vec::new();
    for krate in source::crates() {
        let files: Vec<&Source> = sources.iter().filter(|source| source.krate == krate).collect();
        let mut left = closed(&imports(&files));
        while let Some((name, reached)) = left.pop_first() {
            if reached.contains(&name) {
                let mut group = vec![name.clone()];
                group.extend(
                    left.extract_if(.., |other, to| to.contains(&name) && reached.contains(other))
                        .map(|(other, _)| other),
                );
                circles.push(format!("{krate}: {}", group.join(" ")));
            }
        }
    }
    circles
}

/// Which top-level module of a crate uses which others.
fn imports(files: &[&Source]) -> Arrows {
    let mut arrows: Arrows = files
        .iter()
        .filter_map(|file| file.module.first())
        .map(|top| (top.clone(), BTreeSet::new()))
        .collect();
    let root: String =
        files.iter().filter(|file| file.module.is_empty()).map(|file| file.production.as_str()).collect();
    let exported = exports(&root, &arrows);
    for file in files {
        let Some(top) = file.module.first() else { continue };
        let mut names = after(&file.production, "crate::");
        names.extend(after(&file.production, &"super::".repeat(file.module.len())));
        for name in names {
            let to = if arrows.contains_key(&name) { Some(&name) } else { exported.get(&name) };
            if let Some(to) = to.filter(|to| *to != top).cloned() {
                arrows.get_mut(top).expect("a module").insert(to);
            }
        }
    }
    arrows
}

/// The names that `lib.rs` re-exports, and the modules that they come from.
fn exports(root: &str, modules: &Arrows) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for line in root.split(';').filter_map(|item| item.rsplit_once("use ").map(|(_, path)| path)) {
        let path = line.trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, names)) = path.split_once("::").filter(|(module, _)| modules.contains_key(*module))
        else {
            continue;
        };
        let names = names.split(|c: char| !is_word(c)).filter(|name| !name.is_empty());
        exported.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    exported
}

/// The first name of each path that follows `prefix`, those in braces included.
fn after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| is_word(c) || c == ':') {
            continue;
        }
        let path = &code[at + prefix.len()..];
        match path.strip_prefix('{') {
            Some(group) => names.extend(of_group(group)),
            None => names.push(path.chars().take_while(|c| is_word(*c)).collect()),
        }
    }
    names
}

/// The first names of the paths of a group, up to the brace that closes it.
fn of_group(group: &str) -> Vec<String> {
    let (mut depth, mut names, mut name) = (0, Vec::new(), Some(String::new()));
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.extend(name.replace(String::new())),
            c if is_word(c) && depth == 0 => name.iter_mut().for_each(|name| name.push(c)),
            ':' if depth == 0 => names.extend(name.take()),
            _ => {}
        }
    }
    names.extend(name);
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn a_drawing_is_read_and_so_are_imports() {
    let crates = ["quaff", "quaff-cli", "quaff-lab", "quaff-os", "quaff-wire"].map(str::to_owned);
    let document = "text\n\n    cli → bench → lab → {os}    cli → quaff, wire\n    any → os\n";
    let drawn = drawn(document, &crates);
    let reached = |from: &str| drawn[from].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(reached("quaff-cli"), ["quaff", "quaff-bench", "quaff-lab", "quaff-os", "quaff-wire"]);
    assert_eq!((reached("quaff-lab"), reached("quaff-os")), (vec!["quaff-os"], vec![]));
    assert_eq!(
        dependencies(
            "[package]\n\n[dependencies]\nserde = 1\nquaff.workspace = true\n[dev-dependencies]\nquaff-os = 1\n",
            "dependencies",
            &crates
        ),
        ["quaff"]
    );

    let code = "use crate::a::x;\nuse crate::{\n    b::{c, d},\n    e,\n    F,\n};\nfn f() { crate::g::h(); mycrate::i(); }";
    assert_eq!(after(code, "crate::"), ["a", "b", "e", "F", "g"]);
    let file = |module: &str, text: &str| Source {
        path: String::new(),
        krate: "quaff-os".to_owned(),
        module: module.split_whitespace().map(str::to_owned).collect(),
        text: text.to_owned(),
        code: text.to_owned(),
        production: text.to_owned(),
        test_lines: 0,
    };
    let files = [
        file("", "pub use c::Thing;"),
        file("a", "use super::b;"),
        file("b x", "crate::Thing"),
        file("c", "use crate::a;"),
    ];
    assert_eq!(circles(&files), ["quaff-os: a b c"]);
    assert_eq!(circles(&files[..3]), [""; 0]);
}
