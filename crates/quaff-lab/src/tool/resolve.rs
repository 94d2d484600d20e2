//! Finds the programs and versions of selected tools.

use super::Tool;
use crate::{Error, Result};
use std::path::PathBuf;

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
