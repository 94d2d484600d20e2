//! The sandbox of a run: the rights that its plan needs after the start, the user that it becomes, and the moments at
//! which everything else goes. The mechanisms are those of `quaff_os::sandbox`.
//!
//! ```text
//!   interfaces: outputs open, lanes open │ after_sockets │ writers open                   │ close │ "capturing"
//!   files:      outputs open             │ before_files  │ files are parsed, writers open │ close │
//! ```
//!
//! Writers start with no privileges, because the kernel's workers of an io_uring keep those of the thread that
//! started them.

use crate::plan::{InputPlan, SandboxPlan, WritePlan};
use crate::{Error, Result};
use quaff_file::write::Output;
use quaff_os::packet::TimeSource;
use quaff_os::sandbox::{Limits, Phase, Sandbox, User};
use std::io::ErrorKind;
use std::path::PathBuf;

/// The sandbox while a run starts; without a plan it does nothing.
pub(crate) struct Seal {
    limits: Option<Limits>,
    /// To whom new files belong; `None`: to the user of this process.
    owner: Option<User>,
    /// Files are parsed before all writers are open.
    is_early: bool,
    sandbox: Option<Sandbox>,
}

impl Seal {
    /// A sandbox in which a run from `input` to `outputs`, written as in `write`, works.
    pub(crate) fn new<'a>(
        plan: Option<&SandboxPlan>,
        input: &InputPlan,
        write: &WritePlan,
        outputs: impl IntoIterator<Item = &'a Output>,
    ) -> Result<Self> {
        let owner = owner(plan, write)?;
        let limits = plan.map(|_| limits(owner.clone(), input, write, outputs));
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

    /// Before input files are opened: drops privileges, paths and system calls in all threads.
    pub(crate) fn before_files(&mut self) -> Result<()> {
        if let Some(limits) = self.limits.as_ref().filter(|_| self.is_early) {
            let mut sandbox = Sandbox::confine(limits)?;
            sandbox.restrict_calls(Phase::Starting);
            self.sandbox = Some(sandbox);
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

/// The user who makes the files of a run.
fn owner(plan: Option<&SandboxPlan>, write: &WritePlan) -> Result<Option<User>> {
    let named = plan.and_then(|plan| plan.user.as_deref()).map(User::find).transpose()?;
    let Some(group) = write.access.group else { return Ok(named.or(write.owner.clone())) };
    let owner = named.or(write.owner.clone()).map(|user| user.with_group(group));
    // Without the right to become a member of the group, the user is one, or an error follows.
    Ok(owner.or_else(|| User::current_with_group(group)))
}

fn limits<'a>(
    user: Option<User>,
    input: &InputPlan,
    write: &WritePlan,
    outputs: impl IntoIterator<Item = &'a Output>,
) -> Limits {
    let is_path = |path: &&PathBuf| path.as_os_str() != "-";
    let read = input.read.iter().flat_map(|read| &read.files).filter(is_path).cloned();
    Limits {
        user,
        access: write.access,
        read: read.collect(),
        // Files are opened there later; other outputs are open.
        write: outputs.into_iter().flat_map(Output::folders).map(|dir| dir.dir.clone()).collect(),
        make_folders: Vec::new(),
        connect: Vec::new(),
        changes_card: input.read.is_none() && input.time_source == TimeSource::Adapter,
        binds: input.hotplug.is_some(),
    }
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
    use quaff_file::write::DirPlan;

    #[test]
    fn only_folders_stay_writable_and_only_inputs_readable() {
        let dir = DirPlan { dir: "/data".into(), name: "q".into(), ..DirPlan::default() };
        let outputs = [Output::Dir(dir), Output::File("/tmp/file".into()), Output::Stdout];
        let input = InputPlan::files(["/in/a.pcap".into(), "-".into()]);
        let limits = limits(None, &input, &WritePlan::with_buffer(None, 0, true), &outputs);
        assert_eq!(limits.write, [PathBuf::from("/data")]);
        assert_eq!(limits.read, [PathBuf::from("/in/a.pcap")]);
        assert_eq!((limits.user, limits.changes_card), (None, false));
    }

    #[test]
    fn adapter_time_keeps_the_right_to_restore_the_adapter() {
        let input = InputPlan { time_source: TimeSource::Adapter, ..InputPlan::live(["eth0".to_owned()]) };
        let write = WritePlan::with_buffer(None, 0, true);
        assert!(limits(None, &input, &write, []).changes_card);
        let plan = SandboxPlan { user: Some("no-such-user".into()) };
        assert!(Seal::new(Some(&plan), &input, &write, []).is_err());
    }
}
