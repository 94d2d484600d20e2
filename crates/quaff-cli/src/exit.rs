//! Exit status of the commands.

use std::process::ExitCode;

/// The exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done, and nothing was lost.
    Done,
    /// 1: done with loss, or with a difference.
    Loss,
    /// 2: failed.
    Failed,
    /// The exit status of a command that was run for the user.
    Child(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::from(0),
            Exit::Loss => Self::from(1),
            Exit::Failed => Self::from(2),
            Exit::Child(code) => Self::from(code),
        }
    }
}
