//! Programs that read a capture file to its end, as plain data: how each is started. Each runs as a [`Tool`] that keeps
//! no packets. Only a version query is run here.
//!
//! The built-in ones are in this crate (`readers/*.toml`):
//!
//! ```toml
//! name = "tcptrace"                         # the name in tables
//! install = "apt-get install tcptrace"      # printed when it is not installed
//! program = "tcptrace"                      # a path, or a name in PATH
//! version = ["{program}", "--version"]
//! args = ["-n", "{input}"]                  # {inputs}: an argument for each file; {dir}: the directory of the run
//! exits = [0, 1]                            # exit statuses of success; 0 alone without it
//! remark = "IPv4 only."                     # for the report
//! ```

use super::line::{filled, places_in};
use super::{Present, Tool};
use crate::{Error, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The built-in descriptions, in the order of tables.
const SHIPPED: [(&str, &str); 13] = [
    ("quaff-verify.toml", include_str!("../../readers/quaff-verify.toml")),
    ("tcptrace.toml", include_str!("../../readers/tcptrace.toml")),
    ("quaff-streams.toml", include_str!("../../readers/quaff-streams.toml")),
    ("tcpflow.toml", include_str!("../../readers/tcpflow.toml")),
    ("tshark.toml", include_str!("../../readers/tshark.toml")),
    ("zeek.toml", include_str!("../../readers/zeek.toml")),
    ("suricata.toml", include_str!("../../readers/suricata.toml")),
    ("quaff-capture.toml", include_str!("../../readers/quaff-capture.toml")),
    ("tcpdump.toml", include_str!("../../readers/tcpdump.toml")),
    ("quaff-merge.toml", include_str!("../../readers/quaff-merge.toml")),
    ("mergecap.toml", include_str!("../../readers/mergecap.toml")),
    ("quaff-info.toml", include_str!("../../readers/quaff-info.toml")),
    ("capinfos.toml", include_str!("../../readers/capinfos.toml")),
];
const INPUT: &str = "{input}";
/// An argument that stands for all files.
const INPUTS: &str = "{inputs}";

/// A program that reads a capture file to its end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReader {
    /// The name in tables.
    pub name: String,
    /// Installation command or hint; empty for quaff.
    #[serde(default)]
    pub install: String,
    /// A path, or a name in PATH. `{quaff}` is the quaff executable.
    pub program: PathBuf,
    /// A command that prints the version; placeholder `{program}`. Empty: the version is not queried.
    #[serde(default)]
    pub version: Vec<String>,
    /// Its arguments; placeholders `{input}`, `{inputs}` and `{dir}`.
    pub args: Vec<String>,
    /// Exit statuses that mean success.
    #[serde(default = "exits_default")]
    pub exits: Vec<i32>,
    /// A property that explains its results, for the report; empty without one.
    #[serde(default)]
    pub remark: String,
}

impl FileReader {
    /// Path and version if it is installed.
    pub fn present(&self) -> Option<Present> {
        self.tool(&[]).present()
    }

    /// Its command line as a tool that keeps no packets. One that reads a single file is given the first.
    pub fn tool(&self, inputs: &[&Path]) -> Tool {
        let names: Vec<String> = inputs.iter().map(|input| input.display().to_string()).collect();
        let fill = [(INPUT, names.first().cloned().unwrap_or_default())];
        let words = |arg: &String| match arg.as_str() {
            INPUTS => names.clone(),
            arg => vec![filled(arg, &fill)],
        };
        let args = self.args.iter().flat_map(words).collect();
        Tool::keeping_nothing(&self.name, &self.install, &self.program, &self.version, args)
    }
}

/// All built-in readers; `quaff` is the path of the executable.
pub fn shipped_readers(quaff: &Path) -> Vec<FileReader> {
    // A test parses each of them.
    SHIPPED.iter().filter_map(|(name, text)| parse(name, text, quaff).ok()).collect()
}

fn parse(name: &str, text: &str, quaff: &Path) -> Result<FileReader> {
    let mistake = |at: usize, what: &str| super::file::mistake(name, text, at, what);
    let mut reader: FileReader = toml::from_str(text)
        .map_err(|error| mistake(error.span().map_or(0, |span| span.start), error.message().trim()))?;
    let places: Vec<&str> = reader.args.iter().flat_map(|arg| places_in(arg)).collect();
    if let Some(place) = places.iter().find(|place| !matches!(**place, "input" | "inputs" | "dir")) {
        return Err(mistake(text.find(place).unwrap_or(0), &format!("{{{place}}} is unknown here")));
    }
    if reader.args.iter().any(|arg| arg.contains(INPUTS) && arg != INPUTS) {
        return Err(mistake(text.find(INPUTS).unwrap_or(0), "{inputs} is an argument of its own"));
    }
    if !places.contains(&"input") && !places.contains(&"inputs") {
        return Err(mistake(text.find("args").unwrap_or(0), "{input} is missing: it would read nothing"));
    }
    if reader.program == Path::new("{quaff}") {
        reader.program = quaff.to_owned();
    }
    Ok(reader)
}

/// The readers in `names`, in that order, each with its program if it is installed.
///
/// # Errors
/// [`Error::UnknownReader`]: an unknown name.
pub fn resolve_readers<S: AsRef<str>>(
    names: &[S],
    all: &[FileReader],
) -> Result<Vec<(FileReader, Option<Present>)>> {
    let find = |name: &S| {
        let name = name.as_ref();
        let known = || all.iter().map(|reader| reader.name.clone()).collect();
        let found = all.iter().find(|reader| reader.name == name);
        let reader = found.ok_or_else(|| Error::UnknownReader { name: name.to_owned(), known: known() })?;
        Ok((reader.clone(), reader.present()))
    };
    names.iter().map(find).collect()
}

fn exits_default() -> Vec<i32> {
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_reader_is_read_and_gets_its_file() {
        let all = shipped_readers(Path::new("/opt/quaff"));
        let files =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/readers")).expect("they are here");
        assert_eq!(all.len(), files.count());
        for reader in all {
            let tool = reader.tool(&[Path::new("/data/a.pcap")]);
            assert!(tool.args.iter().any(|arg| arg == "/data/a.pcap"), "{:?}", tool.args);
            assert!(tool.args.iter().all(|arg| arg.replace("{dir}", "").find(['{', '}']).is_none()));
            assert!(reader.exits.contains(&0) && !reader.exits.contains(&2), "{}", reader.name);
        }
    }

    #[test]
    fn a_reader_of_several_files_gets_all_and_any_other_the_first() {
        let all = shipped_readers(Path::new("/opt/quaff"));
        let args = |name: &str| {
            let reader = all.iter().find(|reader| reader.name == name).expect("shipped");
            reader.tool(&[Path::new("/a b.pcap"), Path::new("/c.pcap")]).args
        };
        assert_eq!(args("mergecap"), ["-w", "{dir}/merged.pcapng", "/a b.pcap", "/c.pcap"]);
        assert_eq!(args("capinfos"), ["/a b.pcap"]);
    }

    #[test]
    fn mistakes_and_unknown_names_are_reported() {
        const MINE: &str = "name = \"mine\"\nprogram = \"mine\"\nargs = [\"{input}\"]\n";
        let parse = |text: &str| parse("mine.toml", text, Path::new("q"));
        assert!(parse(MINE).is_ok());
        for (from, to, message) in [
            ("{input}", "x", "line 3, key `args`: {input} is missing"),
            ("{input}", "{input} {inptu}", "line 3, key `args`: {inptu} is unknown here"),
            ("{input}", "-r{inputs}", "line 3, key `args`: {inputs} is an argument of its own"),
            ("program", "programm", "line 2, key `programm`"),
        ] {
            let error = parse(&MINE.replacen(from, to, 1)).expect_err(to).to_string();
            assert!(error.contains(message), "{to}: {error}");
        }
        let all = shipped_readers(Path::new("q"));
        let error = resolve_readers(&["tcptrac"], &all).expect_err("unknown").to_string();
        assert!(error.contains("tcptrac") && error.contains("tcptrace, quaff streams"), "{error}");
    }
}
