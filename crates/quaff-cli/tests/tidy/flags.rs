//! Flags of the command line: each name is declared once, in the groups of `crates/quaff-cli/src/flags/` if several
//! commands have it.

use super::source::{Source, is_word};
use std::collections::BTreeMap;

/// Names that are declared more than once, with the number of their declarations and the reason. At most 12 names.
pub(crate) const SEVERAL_MEANINGS: [(&str, usize, &str); 12] = [
    ("by", 3, "fields of a split, one view, properties of a report: three types"),
    ("cpu", 4, "one core, cores, cores or 'auto', the two cores of a pipe"),
    (
        "dir",
        9,
        "the folders of a rotation, of members and streams, of a measurement, and those that are tried",
    ),
    ("format", 2, "a capture file; the rows of scripts"),
    ("from", 2, "a time; an end of a path"),
    ("json", 2, "the report; of flows also with a file, the old name of --jsonl"),
    ("name", 2, "the template of file names; a lab"),
    ("out", 3, "an interface, as in tcpreplay; a folder of results or of rows"),
    ("output", 2, "interfaces of a split; the goal of capturers under test"),
    ("rate", 3, "records per second; two earlier names, which are hidden"),
    ("to", 2, "a time; an end of a path"),
    ("vlan", 2, "tags of made frames; edits of replayed ones"),
];

/// Names that are declared more often than allowed, each with its places.
pub(crate) fn repeated(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources {
        for (line, name) in declared(&source.text, &source.code, &source.production) {
            places.entry(name).or_default().push(format!("{}:{line}", source.path));
        }
    }
    let allowed = |name: &str| SEVERAL_MEANINGS.iter().find(|(of, ..)| *of == name).map_or(1, |(_, n, _)| *n);
    let too_many = places.iter().filter(|(name, places)| places.len() > allowed(name));
    too_many.map(|(name, places)| format!("--{name} is declared by {}", places.join(", "))).collect()
}

/// The long names that `#[arg(…)]` declares in production code, with their lines.
fn declared(text: &str, code: &str, production: &str) -> Vec<(usize, String)> {
    // `code` has the characters of `text`, but for spaces in the place of comments and strings.
    let (text, code): (Vec<char>, Vec<char>) = (text.chars().collect(), code.chars().collect());
    let production: Vec<&str> = production.lines().collect();
    let mark: Vec<char> = "#[arg(".chars().collect();
    let starts = (0..code.len()).filter(|at| code[*at..].starts_with(&mark));
    let mut found = Vec::new();
    for start in starts {
        let line = code[..start].iter().filter(|c| **c == '\n').count();
        let is_production = production.get(line).is_some_and(|line| line.contains("#[arg("));
        let end = close(&code, start + mark.len());
        if is_production && let Some(name) = long(&text[start..end], &code[start..end], &code[end..]) {
            found.push((line + 1, name));
        }
    }
    found
}

/// The end of the parentheses that were opened before `start`.
fn close(code: &[char], start: usize) -> usize {
    let mut depth = 1;
    for (at, c) in code.iter().enumerate().skip(start) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// The long name in an attribute, or that of the field `after` it; `None` without one.
fn long(attribute: &[char], code: &[char], after: &[char]) -> Option<String> {
    let words: String = code.iter().collect();
    let at = words.match_indices("long").map(|(at, _)| at).find(|at| {
        let is_end = |c: Option<char>| c.is_none_or(|c| !is_word(c));
        is_end(words[..*at].chars().next_back()) && is_end(words[at + 4..].chars().next())
    })?;
    let rest: String = attribute[at + 4..].iter().collect();
    if let Some(value) = rest.trim_start().strip_prefix('=') {
        return value.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned);
    }
    // A field of a struct, or `Group { field: Type }` of `flags!`.
    let after: String = after.iter().collect::<String>().trim_start_matches([')', ']', '\n', ' ']).to_owned();
    let line = after.lines().find(|line| !line.trim().is_empty() && !line.trim().starts_with("#["))?;
    let field = line.split_once("{ ").map_or(line, |(_, field)| field);
    let name = field.split(':').next()?.rsplit(' ').next()?;
    Some(name.trim_start_matches("r#").replace('_', "-"))
}

#[test]
fn a_flag_that_is_declared_twice_is_found() {
    let of = |text: &str| {
        let code = super::source::code_of(text);
        declared(text, &code, &code).into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    let fields = "struct A {\n    /// The ring, \"µ\"\n    #[arg(short, long, value_name = \"a)b\")]\n    pub(super) ring_size: u8,\n    \
                  #[arg(\n        long = \"loop\",\n        value_parser = f(1)\n    )]\n    turns: u8,\n    #[arg(required = true)]\n    \
                  file: u8,\n}\n";
    assert_eq!(of(fields), ["ring-size", "loop"]);
    let groups = "flags! {\n    /// A limit\n    #[arg(long, value_parser = V::parser())]\n    LimitArg<V: FlagValue> { size_limit: Option<V> }\n}\n";
    assert_eq!(of(groups), ["size-limit"]);
    assert!(of("// #[arg(long)]\nlet long = 1;\n").is_empty());
}
