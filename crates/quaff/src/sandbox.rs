//! The sandbox of a run: the rights that its plan needs after the start, the user that it becomes, and the moments at
//! which all other rights are dropped. The mechanisms are those of `quaff_os::sandbox`.
//!
//! ```text
//!   interfaces: outputs open, lanes open │ after_sockets │ writers open                   │ close │ "capturing"
//!   files:      outputs open             │ before_files  │ files are parsed, writers open │ close │
//!                                          with rings
//! ```
//!
//! Writers start with no privileges, because the kernel's workers of an io_uring keep those of the thread that
//! started them.

use crate::plan::{InputPlan, SandboxPlan, WritePlan};
use crate::{Error, Result};
use quaff_file::read::finished;
use quaff_file::write::Output;
use quaff_os::disk::FileAccess;
use quaff_os::packet::TimeSource;
use quaff_os::sandbox::{Limits, Phase, Sandbox, User};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The rights of a run and of its files.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rights<'a> {
    /// `None` keeps all rights.
    pub(crate) sandbox: Option<&'a SandboxPlan>,
    /// The owner of new files, unless the sandbox names a user; `None` is the user of this process.
    pub(crate) owner: Option<&'a User>,
    pub(crate) access: FileAccess,
}

impl<'a> Rights<'a> {
    /// The rights of a run that writes as in `write`.
    pub(crate) fn of(sandbox: Option<&'a SandboxPlan>, write: &'a WritePlan) -> Self {
        Self { sandbox, owner: write.owner.as_ref(), access: write.access }
    }

    /// The user who makes the files of a run.
    fn user(&self) -> Result<Option<User>> {
        let named = self.sandbox.and_then(|plan| plan.user.as_deref()).map(User::find).transpose()?;
        let owner = named.or(self.owner.cloned());
        let Some(group) = self.access.group else { return Ok(owner) };
        let owner = owner.map(|user| user.with_group(group));
        // Without the right to become a member of the group, the user must be one already, or an error follows.
        Ok(owner.or_else(|| User::current_with_group(group)))
    }
}

/// The folders of files that are opened after the start.
pub(crate) fn folders_of(outputs: &[Output]) -> Vec<PathBuf> {
    let folder = |output: &Output| match output {
        Output::File(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            Some(folder.unwrap_or(Path::new(".")).to_owned())
        }
        _ => None,
    };
    outputs.iter().filter_map(folder).collect()
}

/// The sandbox while a run starts; without a plan it does nothing.
pub(crate) struct Seal {
    limits: Option<Limits>,
    /// The owner of new files; `None` is the user of this process.
    owner: Option<User>,
    /// Files are parsed before all writers are open.
    is_early: bool,
    sandbox: Option<Sandbox>,
}

impl Seal {
    /// A sandbox in which a run from `input` works that needs `limits` beyond its inputs.
    pub(crate) fn new(rights: &Rights<'_>, input: &InputPlan, limits: Limits) -> Result<Self> {
        let owner = rights.user()?;
        let limits = rights.sandbox.map(|_| Limits {
            user: owner.clone(),
            access: rights.access,
            read: inputs(input),
            changes_card: input.read.is_none() && input.time_source == TimeSource::Adapter,
            binds: input.hotplug.is_some(),
            ..limits
        });
        Ok(Self { limits, owner, is_early: input.read.is_some(), sandbox: None })
    }

    /// Opens outputs so that their files belong to the user of the plan: with that user's rights, if the sandbox names
    /// the user.
    pub(crate) fn as_user<T>(&self, open: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(user) = &self.owner else { return open() };
        let rights = user.use_files()?;
        let opened = open();
        drop(rights);
        opened.map_err(|error| of_user(error, user))
    }

    /// Before input files are opened: drops privileges, paths and system calls in all threads. `rings` makes the rings
    /// of the writers in between: their workers have no privileges, and an intruder can make none.
    pub(crate) fn before_files(&mut self, rings: impl FnOnce()) -> Result<()> {
        if !self.is_early {
            return Ok(());
        }
        self.sandbox = self.limits.as_ref().map(Sandbox::confine).transpose()?;
        rings();
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.restrict_calls(Phase::Starting);
        }
        Ok(())
    }

    /// After the lanes of interfaces have opened their sockets: drops privileges and paths in all threads.
    pub(crate) fn after_sockets(&mut self) -> Result<()> {
        if let Some(limits) = self.limits.as_ref().filter(|_| !self.is_early) {
            self.sandbox = Some(Sandbox::confine(limits)?);
        }
        Ok(())
    }

    /// After the writers have started: restricts system calls to those of a running process. Returns the restrictions
    /// in force.
    pub(crate) fn close(self) -> Option<Sandbox> {
        let mut sandbox = self.sandbox?;
        // A kernel that refused the first filters refuses these.
        if sandbox.seccomp || !self.is_early {
            sandbox.restrict_calls(Phase::Running);
        }
        Some(sandbox)
    }
}

/// The files that a run opens for reading.
fn inputs(input: &InputPlan) -> Vec<PathBuf> {
    let is_path = |path: &&PathBuf| path.as_os_str() != "-";
    let read: Vec<_> = input.read.iter().flat_map(|read| &read.files).filter(is_path).cloned().collect();
    // A file of a rotation may be completed meanwhile.
    let renamed: Vec<_> = read.iter().filter_map(|path| finished(path)).collect();
    [read, renamed].concat()
}

/// Names the user who has no permission.
fn of_user(error: Error, user: &User) -> Error {
    let is_denied = |errno: &std::io::Error| errno.kind() == ErrorKind::PermissionDenied;
    match &error {
        Error::File(quaff_file::Error::Path { errno, .. }) if is_denied(errno) => {
            Error::Plan(format!("{error} for the user {}", user.name))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_of(input: &InputPlan, write: Vec<PathBuf>) -> Limits {
        let plan = SandboxPlan::default();
        let rights = Rights { sandbox: Some(&plan), ..Rights::default() };
        let seal = Seal::new(&rights, input, Limits { write, ..Limits::default() }).unwrap();
        seal.limits.unwrap()
    }

    #[test]
    fn only_folders_stay_writable_and_only_inputs_readable() {
        let input = InputPlan::files(["/in/a.pcap".into(), "-".into()]);
        let limits = limits_of(&input, vec!["/data".into()]);
        assert_eq!((limits.write, limits.read), (vec!["/data".into()], vec!["/in/a.pcap".into()]));
        assert_eq!((limits.user, limits.changes_card), (None, false));
        let later = [Output::File("/ledger/file".into()), Output::File("here".into()), Output::Stdout];
        assert_eq!(folders_of(&later), [PathBuf::from("/ledger"), ".".into()]);
    }

    #[test]
    fn adapter_time_keeps_the_right_to_restore_the_adapter() {
        let input = InputPlan { time_source: TimeSource::Adapter, ..InputPlan::live(["eth0".to_owned()]) };
        assert!(limits_of(&input, Vec::new()).changes_card);
        let plan = SandboxPlan { user: Some("no-such-user".into()) };
        let rights = Rights { sandbox: Some(&plan), ..Rights::default() };
        assert!(Seal::new(&rights, &input, Limits::default()).is_err());
    }
}
