//! Captures of several protocols, from the folder of captures: every so many of them, since each takes runs of several
//! programs.

use quaff_testkit::skip;
use std::path::PathBuf;

/// About `count` captures of at most `bytes_max` bytes each, in the order of their names, and those of `more` that are
/// there.
pub(crate) fn captures(count: usize, bytes_max: u64, more: &[&str]) -> Vec<PathBuf> {
    let folder = quaff_testkit::captures();
    let entries = std::fs::read_dir(folder.join("protocols")).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "pcap" || end == "pcapng"));
    files.retain(|path| path.metadata().is_ok_and(|found| found.len() <= bytes_max));
    files.sort();
    let each = files.len().div_ceil(count).max(1);
    let more = more.iter().map(|name| folder.join(name)).filter(|path| path.is_file());
    files.into_iter().step_by(each).chain(more).collect()
}

/// The names of captures, and the one that a test made. Without the first ones that is a skip.
pub(crate) fn with_made(test: &str, captures: &[PathBuf], made: String) -> Vec<String> {
    if captures.is_empty() {
        skip(test, "there are no captures; QUAFF_CAPTURES says where to look");
    }
    captures.iter().map(|path| path.display().to_string()).chain([made]).collect()
}
