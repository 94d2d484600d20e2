//! Who of those that are wanted is here: programs looked for, versions asked.

use super::Tool;
use crate::{Error, Result};
use std::path::PathBuf;

/// A capturer that is installed.
#[derive(Debug, Clone)]
pub struct Present {
    /// Which.
    pub rival: Tool,
    /// Where its program is.
    pub program: PathBuf,
    /// What it says of its version.
    pub version: Option<String>,
}

/// Those that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// Those that are here, in the order asked for.
    pub present: Vec<Present>,
    /// Those that are not.
    pub absent: Vec<Tool>,
}

/// Finds those of `all` that have one of `names`, in the order of `names`. Of two of one name the later
/// counts, so that a user's own takes the place of one that we ship.
///
/// # Errors
/// [`Error::UnknownTool`]: a name that nobody has.
pub fn resolve<S: AsRef<str>>(names: &[S], all: &[Tool]) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    for name in names {
        let name = name.as_ref();
        let Some(rival) = all.iter().rfind(|rival| rival.name == name) else {
            let known = all.iter().filter(|rival| !rival.hidden).map(|rival| rival.name.clone()).collect();
            return Err(Error::UnknownTool { name: name.to_owned(), known });
        };
        let rival = rival.clone();
        match rival.find() {
            Some(program) => {
                let version = rival.version(&program);
                resolved.present.push(Present { rival, program, version });
            }
            None => resolved.absent.push(rival),
        }
    }
    Ok(resolved)
}
