//! Arrows: between crates as ARCHITECTURE.md draws them, between the files of a crate without circles.

use crate::graph::{Graph, graph};
use crate::source::{self, Source, is_word};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Circles of files that name each other's items, and of top-level modules whose files do; the way around each, with
/// the names that cause it.
pub(crate) fn circles(sources: &[Source]) -> Vec<String> {
    let mut circles = Vec::new();
    for krate in source::crates() {
        let files: Vec<&Source> = sources.iter().filter(|source| source.krate == krate).collect();
        let graph = graph(&files);
        let of_files = circles_of(&graph);
        let of_rooms = circles_of(&tops(&graph)).into_iter().map(|circle| format!("{circle} (modules)"));
        circles.extend(of_files.into_iter().chain(of_rooms).map(|circle| format!("{krate}: {circle}")));
    }
    circles
}

/// The arrows between top-level modules, the root left out.
fn tops(graph: &Graph) -> Graph {
    let mut tops = Graph::new();
    for (from, arrows) in graph.iter().filter(|(from, _)| !from.is_empty()) {
        let top = tops.entry(from[..1].to_vec()).or_default();
        for (to, names) in arrows.iter().filter(|(to, _)| !to.is_empty() && to[0] != from[0]) {
            top.entry(to[..1].to_vec()).or_default().extend(names.iter().cloned());
        }
    }
    tops
}

/// Of every group of nodes that reach each other, the shortest way around.
fn circles_of(graph: &Graph) -> Vec<String> {
    let name = |module: &[String]| if module.is_empty() { "lib".to_owned() } else { module.join("/") };
    let arrows: Arrows =
        graph.iter().map(|(from, to)| (name(from), to.keys().map(|to| name(to)).collect())).collect();
    let causes: BTreeMap<(String, String), String> = graph
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |(to, names)| (from, to, names)))
        .map(|(from, to, names)| ((name(from), name(to)), Vec::from_iter(names.iter().cloned()).join(", ")))
        .collect();
    let mut left = closed(&arrows);
    let mut circles = Vec::new();
    while let Some((first, reached)) = left.pop_first() {
        if !reached.contains(&first) {
            continue;
        }
        let others = left.extract_if(.., |other, to| to.contains(&first) && reached.contains(other));
        let group: Vec<String> =
            std::iter::once(first.clone()).chain(others.map(|(other, _)| other)).collect();
        let ways = group.iter().map(|from| way_around(from, &arrows));
        let way = ways.min_by_key(Vec::len).expect("a group has a member");
        let mut circle = way[0].clone();
        for pair in way.windows(2) {
            circle += &format!(" –({})→ {}", causes[&(pair[0].clone(), pair[1].clone())], pair[1]);
        }
        if group.len() + 1 > way.len() {
            circle += &format!("; {} in all: {}", group.len(), group.join(" "));
        }
        circles.push(circle);
    }
    circles
}

/// A shortest way from a node of a circle back to it, both ends included.
fn way_around(start: &String, arrows: &Arrows) -> Vec<String> {
    let mut open = VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        let at = way.last().expect("a way has a begin");
        if at == start && way.len() > 1 {
            return way;
        }
        for to in arrows.get(at).into_iter().flatten().filter(|to| seen.insert((*to).clone())) {
            open.push_back(way.iter().chain([to]).cloned().collect());
        }
    }
    Vec::new()
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
}

#[test]
fn circles_are_found_and_explained() {
    let file = |module: &str, text: &str| Source {
        path: String::new(),
        krate: "quaff-os".to_owned(),
        module: module.split_whitespace().map(str::to_owned).collect(),
        text: text.to_owned(),
        code: text.to_owned(),
        production: text.to_owned(),
        test_lines: 0,
    };
    // A re-export leads to the file behind it, and is no arrow itself.
    let files = [
        file("", "mod a; mod b; mod c; pub use c::{Thing, deep::{Other, self}};"),
        file("a", "use super::b; fn go() { b::x::run() }"),
        file("b x", "pub fn run(t: crate::Thing) {}"),
        file("b", "mod x; pub(crate) use x::run as start;"),
        file("c", "use crate::a::{self as first, go as begin}; pub struct Thing;"),
    ];
    assert_eq!(
        circles(&files),
        [
            "quaff-os: a –(run)→ b/x –(Thing)→ c –(go)→ a",
            "quaff-os: a –(run)→ b –(Thing)→ c –(go)→ a (modules)"
        ]
    );
    assert_eq!(circles(&files[..4]), [""; 0]);

    // A parent that uses what its child defines, re-exported or not, and a child that uses its parent.
    let child = file("a one", "use super::{Base, two::Two}; pub struct One; mod inner { use super::One; }");
    let parent = |text: &str| [file("a", text), child.clone(), file("a two", "pub struct Two;")];
    assert_eq!(circles(&parent("mod one; pub use one::One; pub struct Base;")), [""; 0]);
    let around = ["quaff-os: a –(One)→ a/one –(Base)→ a"];
    assert_eq!(circles(&parent("mod one; pub use one::One; pub struct Base; fn f(o: One) {}")), around);
    assert_eq!(circles(&parent("mod one; pub struct Base; fn f() { one::One::new(); }")), around);
    assert_eq!(
        circles(&parent("mod one; pub struct Base; fn f(s: S) { s.one.One; std::one::f() }")),
        [""; 0]
    );
    // Through globs, macros and names that are both a module and an item.
    let files = [
        file("", "mod a; mod b;"),
        file("a", "pub(crate) use two::*; pub use two::two; mod two;"),
        file("a two", "macro_rules! made { () => {} } pub use made; pub fn two() { crate::b::f() }"),
        file("b", "use super::a::two; pub fn f() { crate::a::made!(); two(); }"),
    ];
    let around = "a/two –(f)→ b –(made, two)→ a/two";
    assert_eq!(circles(&files)[0], format!("quaff-os: {around}"));
}
