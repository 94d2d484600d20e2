//! Reads the sources of the workspace: which files are production code, and their text without comments and strings.
//!
//! No parser of Rust: a lexer that knows comments, strings and braces. `cargo fmt --check` keeps the layout regular.

use std::path::{Path, PathBuf};

/// One Rust file of `crates/*/src`, production code or not.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    /// Name of the folder below `crates/`.
    pub(crate) krate: String,
    /// Path of the module in its crate; empty for `lib.rs` and `main.rs`.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
    /// `text` without comments and without the contents of strings, at the same lines.
    pub(crate) code: String,
    /// `code` without what is compiled for tests only.
    pub(crate) production: String,
    /// Lines of `code` that `production` lacks.
    pub(crate) test_lines: usize,
}

/// The folder with the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace")
}

/// Files below `dir` that end in one of `ends`, as paths from the root, sorted; build folders are left out.
pub(crate) fn files(dir: &str, ends: &[&str]) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.join(dir)];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                let is_built = ["target", "corpus", "artifacts", ".git", "node_modules"].contains(&&*name);
                if !is_built {
                    open.push(path);
                }
            } else if ends.iter().any(|end| name.ends_with(end)) {
                found.push(path.strip_prefix(&root).expect("below the root").display().to_string());
            }
        }
    }
    found.sort();
    found
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of the folders below `crates/`.
pub(crate) fn crates() -> Vec<String> {
    let manifests = files("crates", &["Cargo.toml"]);
    let folder = |path: String| path.split('/').nth(1).map(str::to_owned);
    manifests.into_iter().filter(|path| path.matches('/').count() == 2).filter_map(folder).collect()
}

/// The production files of all crates. Test gear, a crate or a module whose name begins with `test`, is left out.
pub(crate) fn production() -> Vec<Source> {
    let all: Vec<Source> = files("crates", &[".rs"]).into_iter().filter_map(Source::open).collect();
    let for_tests: Vec<String> = all.iter().flat_map(Source::test_files).collect();
    let is_test = |source: &Source| for_tests.iter().any(|file| source.path.starts_with(file));
    let is_gear = |source: &Source| {
        source.krate.contains("test") || source.module.first().is_some_and(|top| top.starts_with("test"))
    };
    all.into_iter().filter(|source| !is_test(source) && !is_gear(source)).collect()
}

impl Source {
    fn open(path: String) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        let ["crates", krate, "src", inside @ ..] = parts.as_slice() else { return None };
        let mut module: Vec<String> =
            inside.iter().map(|part| part.trim_end_matches(".rs").to_owned()).collect();
        if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            module.pop();
        }
        let krate = (*krate).to_owned();
        let text = read(&path);
        let code = code_of(&text);
        let (production, test_lines) = without_tests(&code);
        Some(Self { path, krate, module, text, code, production, test_lines })
    }

    /// Beginnings of the paths of the modules that this file declares for tests only.
    fn test_files(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let is_root = ["mod", "lib", "main"].iter().any(|name| stem.ends_with(&format!("/{name}")));
        let dir = if is_root { stem.rsplit_once('/').expect("a folder").0 } else { stem };
        let declared = self.code.split("#[cfg(test)]").skip(1).filter_map(|after| {
            let item = after.trim_start().split_once(';')?.0;
            let name = item.rsplit_once("mod ")?.1;
            name.chars().all(is_word).then(|| name.to_owned())
        });
        declared.flat_map(|name| [format!("{dir}/{name}.rs"), format!("{dir}/{name}/")]).collect()
    }

    /// Lines that are not for tests only, comments and blank lines included.
    pub(crate) fn production_lines(&self) -> usize {
        self.text.lines().count() - self.test_lines
    }
}

/// Whether `c` can stand in an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rust without comments and without what stands in strings and characters; each line keeps its number.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
            continue;
        }
        code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    code
}

/// The end of the comment, string or character that begins at `at`; `at` itself where none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let follows_word = at > 0 && is_word(chars[at - 1]);
    match (chars[at], next(1)) {
        ('/', '/') => (at..chars.len()).find(|at| chars[*at] == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment(chars, at),
        ('"', _) => string(chars, at),
        ('r', '"' | '#') if !follows_word => raw_string(chars, at),
        ('b' | 'c', 'r') if !follows_word && matches!(next(2), '"' | '#') => raw_string(chars, at + 1),
        ('\'', '\\') => {
            (at + 3..chars.len()).find(|at| chars[*at] == '\'').map_or(chars.len(), |end| end + 1)
        }
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn block_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string(chars: &[char], start: usize) -> usize {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return start + 1; // r#keyword
    }
    let closes = |at: &usize| {
        chars[*at] == '"' && chars[*at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes
    };
    (open + 1..chars.len()).find(closes).map_or(chars.len(), |end| end + 1 + hashes)
}

/// The end of the item that begins at `start`: after its `;`, or after the brace that closes its body.
pub(crate) fn item_end(code: &str, start: usize) -> usize {
    let (mut nested, mut braces) = (0, 0);
    for (at, c) in code[start..].char_indices() {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested -= 1,
            '{' => braces += 1,
            '}' if braces == 1 && nested == 0 => return start + at + 1,
            '}' => braces -= 1,
            ';' if braces == 0 && nested == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Code without the items that are for tests only, their lines left blank, and the number of those lines.
fn without_tests(code: &str) -> (String, usize) {
    const MARK: &str = "#[cfg(test)]";
    let (mut kept, mut lines) = (String::with_capacity(code.len()), 0);
    let mut at = 0;
    while let Some(found) = code[at..].find(MARK).map(|found| at + found) {
        let end = item_end(code, found + MARK.len());
        kept.push_str(&code[at..found]);
        kept.extend(code[found..end].chars().filter(|c| *c == '\n'));
        lines += code[found..end].lines().count();
        at = end;
    }
    kept.push_str(&code[at..]);
    (kept, lines)
}

#[test]
fn the_lexer_knows_comments_strings_and_tests() {
    let text = "a /* x /* y */ z */ b // c\nd \"e // \\\" f\" g r#\"h \" i\"# 'j' '\\'' <'k> l";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(&code_of(text)), "a b d g <'k> l");
    let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn b() -> [u8; 3] { c }\n}\nfn d() {}\n";
    let (kept, lines) = without_tests(&code_of(text));
    assert_eq!(
        (words(&kept).as_str(), kept.lines().count(), lines),
        ("fn a() {} fn d() {}", text.lines().count(), 5)
    );
}
