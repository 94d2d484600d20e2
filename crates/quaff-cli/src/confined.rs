//! The sandbox of commands that read files without the engine. What they read is parsed by a process that has given its
//! rights away. It decides nothing about runs of the engine, which confine themselves.

use crate::show;
use quaff_os::sandbox::{Limits, Phase, Sandbox};
use std::path::{Path, PathBuf};

/// Restricts the process to reading `read` and to files in the folders of the files `written`.
pub(crate) fn to_files(read: Vec<PathBuf>, written: &[&Path]) -> quaff_os::Result<Sandbox> {
    let write = written.iter().map(|path| folder(path)).collect();
    to(&Limits { read, write, ..Limits::default() })
}

/// Restricts the process to `limits`. What the kernel lacks is a message.
pub(crate) fn to(limits: &Limits) -> quaff_os::Result<Sandbox> {
    let mut sandbox = Sandbox::confine(limits)?;
    sandbox.restrict_calls(Phase::Running);
    if sandbox.landlock_abi == 0 || !sandbox.seccomp {
        sandbox.notes.iter().for_each(|note| show::message(note));
    }
    Ok(sandbox)
}

/// The folder of a file that is made or opened later.
pub(crate) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
