//! What the tests of this crate and of the ones above share: a test that cannot run here is
//! skipped with a word, and counted.

use std::io::Write;

/// Says that `test` was skipped and why, on stderr and in the file that `QUAFF_SKIP_LOG` names.
///
/// The line is `SKIP test: reason`; whoever runs the tests counts the lines of that file.
#[allow(clippy::print_stderr, reason = "a skipped test has no other way to be heard")]
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("QUAFF_SKIP_LOG") {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = opened.and_then(|mut log| writeln!(log, "{line}")) {
            panic!("cannot write to QUAFF_SKIP_LOG {}: {error}", path.display());
        }
    }
}
