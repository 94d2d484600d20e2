//! Finds the programs and versions of selected tools.

use super::Tool;
use crate::child_process::{ChildProcess, Finished};
use crate::{Error, ProcessMark, Result};
use std::env;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Directories of administration tools, which may be missing in PATH.
const ROOT_DIRS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// Maximum length of a version, characters.
const VERSION_CHARS_MAX: usize = 40;
/// Time limit of the version query: some tools would start capturing instead.
pub(super) const VERSION_MAX: Duration = Duration::from_secs(5);

/// A capturer that is installed.
#[derive(Debug, Clone)]
pub struct Present {
    pub rival: Tool,
    pub program: PathBuf,
    pub version: Option<String>,
}

/// The selected tools.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// Installed ones, in the order of selection.
    pub present: Vec<Present>,
    pub absent: Vec<Tool>,
}

/// Selects tools of `all` by `names`, in that order. The last one with a name counts, so that a user's tool replaces a
/// built-in one.
///
/// # Errors
/// [`Error::UnknownTool`]: an unknown name.
pub fn resolve<S: AsRef<str>>(names: &[S], all: &[Tool]) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    for name in names {
        let name = name.as_ref();
        let Some(rival) = all.iter().rfind(|rival| rival.name == name) else {
            let known = all.iter().filter(|rival| !rival.hidden).map(|rival| rival.name.clone()).collect();
            return Err(Error::UnknownTool { name: name.to_owned(), known });
        };
        match rival.present() {
            Some(present) => resolved.present.push(present),
            None => resolved.absent.push(rival.clone()),
        }
    }
    Ok(resolved)
}

impl Tool {
    /// Finds the program and queries its version; `None` if it is not installed.
    pub fn present(&self) -> Option<Present> {
        let program = self.find()?;
        let version = self.version(&program);
        Some(Present { rival: self.clone(), program, version })
    }

    /// The path of the program; `None` if it is not installed.
    pub(super) fn find(&self) -> Option<PathBuf> {
        if self.program.components().count() > 1 {
            return self.program.is_file().then(|| self.program.clone());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let dirs: Vec<_> = env::split_paths(&path).chain(ROOT_DIRS.iter().map(PathBuf::from)).collect();
        dirs.iter().map(|dir| dir.join(&self.program)).find(|file| file.is_file())
    }

    /// The version that the tool prints; `None` without one within the time limit.
    pub(super) fn version(&self, program: &Path) -> Option<String> {
        let (asked, args) = self.version.split_first()?;
        let mut command =
            Command::new(if asked == "{program}" { program.as_os_str() } else { asked.as_ref() });
        let mark = ProcessMark::put_on(command.args(args));
        // Ctrl-C must reach this process only.
        command.process_group(0);
        let finished = ChildProcess::start(command).and_then(|running| running.finish(VERSION_MAX));
        mark.kill_all();
        let Finished { stdout, stderr, .. } = finished.ok()?;
        let output = String::from_utf8_lossy(&stdout).into_owned() + &stderr;
        version_in(&output).map(str::to_owned)
    }
}

/// The first word that starts with a number and contains a dot.
pub(super) fn version_in(text: &str) -> Option<&str> {
    text.split_whitespace()
        .map(|word| word.trim_end_matches(['.', ',']))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .filter(|word| word.len() <= VERSION_CHARS_MAX)
}
