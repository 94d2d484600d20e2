//! Which file of a crate names items of which other file: by `use`, by a path in the code, past re-exports.
//!
//! A name leads to the file that defines it. A parent's `mod` and its re-export of a child are no arrow; a parent's use
//! of what it re-exports is one. A module that is imported is no arrow either, what is then taken from it is.

use crate::source::{Source, is_word};
use std::collections::{BTreeMap, BTreeSet};

/// Arrows between files, by the paths of their modules, with the names that cause each.
pub(crate) type Graph = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;
type Module = Vec<String>;

/// How many re-exports a name is followed through.
const HOPS: usize = 8;

/// One `use`, flattened: the path and the name that it binds, `*` for a glob.
#[derive(Debug)]
struct Use {
    path: Vec<String>,
    name: String,
    is_export: bool,
}

/// The names of one file's production code.
#[derive(Debug, Default)]
struct File {
    /// Items at the top level, macros included.
    items: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths of two or more names outside of `use`.
    paths: Vec<Vec<String>>,
    /// Identifiers outside of `use` that may be items: no fields, no variables, no methods.
    words: BTreeSet<String>,
}

/// What a path leads to: a module, or an item, by its name, of a module.
enum Target {
    Module(Module),
    Item(Module, String),
}

/// The files of one crate, by the paths of their modules.
struct Crate(BTreeMap<Module, File>);

/// Which file of a crate names items of which other.
pub(crate) fn graph(files: &[&Source]) -> Graph {
    let mut modules = BTreeMap::new();
    for file in files {
        modules.entry(file.module.clone()).or_insert_with(|| File::read(&file.production));
    }
    let modules = Crate(modules);
    modules.0.iter().map(|(module, file)| (module.clone(), modules.arrows(module, file))).collect()
}

impl Crate {
    fn arrows(&self, from: &Module, file: &File) -> BTreeMap<Module, BTreeSet<String>> {
        let mut arrows: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        let uses = file.uses.iter().map(|item| (&item.path, item.is_export, &item.name));
        let paths = file.paths.iter().map(|path| (path, false, &path[0]));
        // Names that only a glob can bring.
        let is_glob = file.uses.iter().any(|item| item.name == "*");
        let words: Vec<Vec<String>> =
            file.words.iter().filter(|_| is_glob).map(|word| vec![word.clone()]).collect();
        let words = words.iter().filter(|word| !file.binds(&word[0])).map(|word| (word, false, &word[0]));
        for (path, is_export, bound) in uses.chain(paths).chain(words) {
            let Some(Target::Item(to, name)) = self.resolve(from, path, 0) else { continue };
            let is_passed_on = is_export && to.starts_with(from) && !file.words.contains(bound);
            if to != *from && !is_passed_on {
                arrows.entry(to).or_default().insert(name);
            }
        }
        arrows
    }

    /// Follows a path that stands in the module `from`; `None` for what is not of this crate.
    fn resolve(&self, from: &Module, path: &[String], hops: usize) -> Option<Target> {
        let (mut at, mut rest) = match path[0].as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            _ => (from.clone(), path),
        };
        let is_local = rest.len() == path.len() && path[0] != "super";
        while let Some(("super", after)) = rest.split_first().map(|(name, after)| (name.as_str(), after)) {
            at.pop();
            rest = after;
        }
        let start = at.len();
        while let Some((name, after)) = rest.split_first().filter(|(name, _)| *name != "self") {
            let child: Module = at.iter().chain([name]).cloned().collect();
            let file = self.0.get(&at)?;
            let is_other = after.is_empty() && file.binds(name);
            if self.0.contains_key(&child) && !is_other {
                (at, rest) = (child, after);
                continue;
            }
            if file.items.contains(name) {
                return Some(Target::Item(at, name.clone()));
            }
            if let Some(item) = file.uses.iter().find(|item| item.name == *name).filter(|_| hops < HOPS) {
                let stem = item
                    .path
                    .iter()
                    .take(item.path.len() - usize::from(item.is_module() && !after.is_empty()));
                let path: Vec<String> = stem.chain(after).cloned().collect();
                return self.resolve(&at, &path, hops + 1);
            }
            if let Some(target) = self.by_glob(&at, rest, hops) {
                return Some(target);
            }
            return (!is_local || at.len() > start).then(|| Target::Item(at, name.clone()));
        }
        Some(Target::Module(at))
    }

    /// Follows a path whose first name only a glob of the module `at` can bring.
    fn by_glob(&self, at: &Module, path: &[String], hops: usize) -> Option<Target> {
        let globs = self.0[at].uses.iter().filter(|item| item.name == "*" && hops < HOPS);
        globs.filter_map(|item| self.resolve(at, &item.path, hops + 1)).find_map(|target| match target {
            Target::Module(to) if self.0.get(&to)?.binds(&path[0]) => self.resolve(&to, path, hops + 1),
            _ => None,
        })
    }
}

impl Use {
    /// It names a module only, as `use a::{self}` does.
    fn is_module(&self) -> bool {
        self.path.last().is_some_and(|name| name == "self")
    }
}

impl File {
    fn read(code: &str) -> Self {
        let tokens = tokens(code);
        let (mut file, mut at, mut depth) = (Self::default(), 0, 0);
        let mut inline: Vec<usize> = Vec::new(); // depths of the inline modules around `at`
        while at < tokens.len() {
            let (before, next) = (at.checked_sub(1).map_or("", |at| tokens[at]), tokens.get(at + 1));
            let next = next.copied().unwrap_or("");
            match tokens[at] {
                "pub" if next == "(" => {
                    at += tokens[at..].iter().position(|token| *token == ")").unwrap_or(0);
                }
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inline.pop_if(|opened| *opened == depth);
                }
                "use" if next != "<" => {
                    let is_export = matches!(before, "pub" | ")");
                    at = file.read_use(&tokens, at + 1, is_export, inline.len());
                    continue;
                }
                "mod" if tokens.get(at + 2) == Some(&"{") => inline.push(depth),
                "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn"
                    if depth == inline.len() =>
                {
                    file.items.insert(if next == "mut" { tokens[at + 2] } else { next }.to_owned());
                }
                "macro_rules" => file.items.extend(tokens.get(at + 2).map(|&name| name.to_owned())),
                name if name.starts_with(is_word) && !matches!(before, "." | "::" | "'" | "mod") => {
                    let path = path(&tokens[at..], inline.len());
                    // A name in small letters is a function where it is called; others are fields and variables.
                    if name.starts_with(char::is_uppercase) || matches!(next, "(" | "::" | "!") {
                        file.words.insert(name.to_owned());
                    }
                    file.paths.extend(path.filter(|path| path.len() > 1));
                }
                _ => {}
            }
            at += 1;
        }
        file
    }

    /// Reads the tree of a `use` that begins at `at`, in so many inline modules; returns the place after its `;`.
    fn read_use(&mut self, tokens: &[&str], mut at: usize, is_export: bool, inline: usize) -> usize {
        let (mut stems, mut path): (Vec<Vec<String>>, Vec<String>) = (Vec::new(), Vec::new());
        let mut alias = None;
        let mut supers = inline;
        while at < tokens.len() {
            match tokens[at] {
                "{" => stems.push(path.clone()),
                end @ ("," | "}" | ";") => {
                    let stem = stems.last().cloned().unwrap_or_default();
                    if path.len() > stem.len() {
                        self.bind(std::mem::take(&mut path), alias.take(), is_export);
                    }
                    match end {
                        ";" => return at + 1,
                        // A `,` follows, which begins at the stem around, or the end.
                        "}" => drop((stems.pop(), std::mem::take(&mut path))),
                        _ => path = stem,
                    }
                }
                "::" => {}
                "as" => {
                    at += 1;
                    alias = Some(tokens[at].to_owned());
                }
                "super" if supers > 0 => supers -= 1,
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
        at
    }

    fn bind(&mut self, mut path: Vec<String>, alias: Option<String>, is_export: bool) {
        let name = alias.or(path.iter().rfind(|name| *name != "self").cloned()).unwrap_or_default();
        if name == "*" {
            *path.last_mut().expect("a name") = "self".to_owned();
        }
        if !path.is_empty() {
            self.uses.push(Use { path, name, is_export });
        }
    }

    /// Whether the file itself defines or imports an item of this name.
    fn binds(&self, name: &String) -> bool {
        self.items.contains(name) || self.uses.iter().any(|item| item.name == *name)
    }
}

/// The path that begins with the first token, seen from the file: `super` of an inline module is dropped.
fn path(tokens: &[&str], inline: usize) -> Option<Vec<String>> {
    let mut path = vec![tokens[0].to_owned()];
    let pairs =
        tokens[1..].chunks_exact(2).take_while(|pair| pair[0] == "::" && pair[1].starts_with(is_word));
    path.extend(pairs.map(|pair| pair[1].to_owned()));
    let supers = path.iter().take_while(|name| *name == "super").count();
    path.drain(..supers.min(inline));
    (!path.is_empty()).then_some(path)
}

/// Identifiers, `::`, and every other character that is no space by itself.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}
