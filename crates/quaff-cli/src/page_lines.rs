//! The command lines on the pages for users parse: those that a user types in the indented blocks of `docs/*.md` and of
//! the README. `tests/house/figures` runs the examples that have printed output; the others need an interface, root or
//! an hour, and are only parsed here.

use std::ffi::OsString;
use std::path::Path;

/// Beginnings of lines without `$` that a user types.
const TYPED: [&str; 4] = ["quaff ", "sudo quaff ", "ssh ", "tcpdump "];

/// A line of a shell, while it is split.
#[derive(Default)]
struct Shell {
    commands: Vec<Vec<String>>,
    word: Option<String>,
    /// The next word is the file of a redirection.
    is_file: bool,
}

impl Shell {
    /// The words of each command of a line, without redirections and comments.
    fn split(line: &str) -> Vec<Vec<String>> {
        let mut shell = Self { commands: vec![Vec::new()], ..Self::default() };
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            match c {
                '\'' | '"' => {
                    let quoted: String = chars.by_ref().take_while(|other| *other != c).collect();
                    shell.word.get_or_insert_default().push_str(&quoted);
                }
                '\\' => shell.word.get_or_insert_default().extend(chars.next()),
                '#' if shell.word.is_none() => break,
                '|' | ';' | '&' | '(' | ')' => {
                    shell.end_word();
                    shell.commands.push(Vec::new());
                }
                '<' | '>' => {
                    let is_descriptor = |word: &String| word.chars().all(|c| c.is_ascii_digit());
                    shell.word = shell.word.take().filter(|word| !is_descriptor(word));
                    shell.end_word();
                    shell.is_file = true;
                }
                c if c.is_whitespace() => shell.end_word(),
                c => shell.word.get_or_insert_default().push(c),
            }
        }
        shell.end_word();
        shell.commands
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.is_file)
            && let Some(command) = self.commands.last_mut()
        {
            command.push(word);
        }
    }
}

/// The lines of a page that a user types, with their numbers.
fn typed(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let (line, continues) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        let last = found.last_mut().filter(|_| is_open);
        is_open = continues;
        if let Some((_, last)) = last {
            last.push_str(line);
            continue;
        }
        let block = line.strip_prefix("    ");
        let is_typed = |line: &&str| TYPED.iter().any(|start| line.starts_with(start));
        let line = block.and_then(|line| line.strip_prefix("$ ")).or(block.filter(is_typed));
        is_open &= line.is_some();
        found.extend(line.map(|line| (at + 1, line.to_owned())));
    }
    found
}

/// The word with a file or folder of `dir` in the place of one that it names: inputs must be there.
fn existing(word: &str, dir: &Path) -> OsString {
    let is_flag = word.starts_with('-');
    match () {
        () if !is_flag && [".pcap", ".ipfix"].iter().any(|suffix| word.contains(suffix)) => {
            dir.join("file").into()
        }
        () if word.starts_with('/') => dir.into(),
        () => word.into(),
    }
}

/// The pages, and their texts.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs").read_dir().expect("docs");
    let paths = docs.filter_map(|entry| Some(entry.ok()?.path())).chain([root.join("README.md")]);
    let pages = paths.filter(|path| path.extension().is_some_and(|suffix| suffix == "md"));
    let text = |path: &Path| std::fs::read_to_string(path).expect("a page");
    pages
        .map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text(&path)))
        .collect()
}

#[test]
fn each_command_line_of_a_page_parses() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("file"), "").expect("a file");
    let (mut faults, mut count) = (Vec::new(), 0);
    for (page, text) in pages() {
        for (number, line) in typed(&text) {
            for words in Shell::split(&line) {
                // After sudo, ssh, or a command that runs another one.
                for at in (0..words.len()).filter(|at| words[*at] == "quaff") {
                    let line: Vec<_> =
                        words[at + 1..].iter().map(|word| existing(word, dir.path())).collect();
                    count += 1;
                    if let Err(error) = crate::read(&line) {
                        faults.push(format!("{page}, line {number}: {}: {error:#}", words.join(" ")));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 200, "{count}");
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    let split = |line: &str| Shell::split(line).iter().map(|words| words.join("+")).collect::<Vec<_>>();
    assert_eq!(split("quaff a 'b c' \"d|e\"f g\\ h   # x"), ["quaff+a+b c+d|ef+g h"]);
    assert_eq!(split("quaff a > b 2>c <d e | jq -r '.f'; g &"), ["quaff+a+e", "jq+-r+.f", "g", ""]);
    let text =
        "    $ quaff a \\\n        b\n    quaff: no\n      quaff no\n    quaff c\n\nquaff no\n    $ d\\";
    let found = typed(text);
    let lines: Vec<_> =
        found.iter().map(|(at, line)| (*at, line.split_whitespace().collect::<Vec<_>>())).collect();
    assert_eq!(lines, [(1, vec!["quaff", "a", "b"]), (5, vec!["quaff", "c"]), (8, vec!["d"])]);
    // A line that is wrong is found.
    assert!(crate::read(&["capture", "--no-such-flag"].map(OsString::from)).is_err());
}
