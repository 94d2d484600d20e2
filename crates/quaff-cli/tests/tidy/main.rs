//! Keeps the house in order: what ARCHITECTURE.md, CONTRIBUTING.md and the list of words claim is checked against the
//! tree.
//!
//! Reads files only. A number in [`ratchet`] and in `words.rs` is the most that is allowed: it may only be lowered.

mod documents;
mod flags;
mod graph;
mod programs;
mod rooms;
mod shape;
mod source;
mod words;

use source::{code_of, files, production, read};

/// Counts that may only fall; 0 is the aim.
mod ratchet {
    /// Circles of names between the files of a crate, and between its top-level modules.
    pub(crate) const CIRCLES: usize = 0;
    /// Functions over 70 lines, tests included.
    pub(crate) const LONG_FUNCTIONS: usize = 0;
    /// Public items without a doc line.
    pub(crate) const UNDOCUMENTED: usize = 0;
    /// Paths in documents that do not exist.
    pub(crate) const MISSING_PATHS: usize = 0;
    /// Public items per 1,000 lines of production code; the aim is 14.
    pub(crate) const PUBLIC_PER_1000: f64 = 14.2;
}

/// Asserts that at most `allowed` faults were found, and lists them.
#[track_caller]
fn at_most(allowed: usize, faults: &[String]) {
    let list = faults.join("\n  ");
    assert!(faults.len() <= allowed, "{} found, {allowed} allowed:\n  {list}", faults.len());
}

/// All Rust of the project: path and text.
fn all_rust() -> Vec<(String, String)> {
    let paths = ["crates", "fuzz", "examples"].into_iter().flat_map(|dir| files(dir, &[".rs"]));
    paths.map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn crates_use_each_other_as_the_drawing_shows() {
    at_most(0, &rooms::undrawn());
}

#[test]
fn files_of_a_crate_name_each_other_without_circles() {
    at_most(ratchet::CIRCLES, &rooms::circles(&production()));
}

#[test]
fn files_and_functions_fit_their_limits() {
    let all = all_rust();
    at_most(0, &shape::long_files(&all));
    at_most(0, &all.iter().flat_map(|(path, text)| shape::doc_tests(path, text)).collect::<Vec<_>>());
    at_most(0, &all.iter().flat_map(|(path, text)| shape::wide_comments(path, text)).collect::<Vec<_>>());
    let long: Vec<String> =
        all.iter().flat_map(|(path, text)| shape::long_functions(path, &code_of(text))).collect();
    at_most(ratchet::LONG_FUNCTIONS, &long);
}

#[test]
fn tests_write_programs_by_another_process() {
    let all = all_rust();
    at_most(0, &all.iter().flat_map(|(path, text)| programs::made_programs(path, text)).collect::<Vec<_>>());
}

#[test]
fn unsafe_code_is_in_one_crate_and_argued() {
    let (os, others): (Vec<_>, Vec<_>) =
        production().into_iter().partition(|source| source.krate == "quaff-os");
    at_most(0, &others.iter().flat_map(shape::unsafe_code).collect::<Vec<_>>());
    at_most(0, &os.iter().flat_map(shape::unargued).collect::<Vec<_>>());
    let roots = others.iter().filter(|source| source.module.is_empty());
    let lax = roots.filter(|root| !root.text.contains("#![forbid(unsafe_code)]"));
    at_most(0, &lax.map(|root| format!("{} does not forbid unsafe code", root.path)).collect::<Vec<_>>());
}

/// `std::thread::spawn` panics where a limit of threads is reached.
#[test]
fn threads_start_through_one_file() {
    at_most(0, &production().iter().flat_map(shape::own_threads).collect::<Vec<_>>());
}

#[test]
fn text_reaches_the_terminal_through_one_file() {
    at_most(0, &production().iter().flat_map(shape::unshown_text).collect::<Vec<_>>());
}

#[test]
fn public_items_are_few_and_documented() {
    let sources = production();
    at_most(ratchet::UNDOCUMENTED, &sources.iter().flat_map(shape::undocumented).collect::<Vec<_>>());
    let items: usize = sources.iter().map(|source| shape::public_items(source).len()).sum();
    let lines: usize = sources.iter().map(source::Source::production_lines).sum();
    let per_1000 = items as f64 * 1000.0 / lines as f64;
    let allowed = ratchet::PUBLIC_PER_1000;
    assert!(
        per_1000 <= allowed,
        "{items} public items in {lines} lines: {per_1000:.1} per 1,000, {allowed} allowed"
    );
}

#[test]
fn a_flag_is_declared_once() {
    let sources: Vec<_> = production().into_iter().filter(|source| source.krate == "quaff-cli").collect();
    at_most(0, &flags::repeated(&sources));
}

#[test]
fn paths_named_in_documents_exist() {
    at_most(ratchet::MISSING_PATHS, &documents::missing_paths());
}

#[test]
fn retired_words_do_not_come_back() {
    at_most(0, &words::come_back());
    at_most(words::QUESTIONS, &words::questions());
    at_most(words::QUESTIONS, &words::question_names());
}

#[test]
fn the_workplace_has_no_name() {
    at_most(0, &words::workplace());
}

#[test]
fn no_merge_is_half_done() {
    at_most(0, &words::conflicts());
}
