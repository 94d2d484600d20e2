//! The sandbox of a process that handles packets and files of strangers: no capability, no new privileges, no paths
//! but those of its plan (Landlock), no system calls but those that it uses (seccomp).
//!
//! All of it holds for every thread. Credentials and Landlock belong to a thread, and only seccomp has a call for all
//! of them (TSYNC), so [`threads`] makes each thread restrict itself. Threads that start later inherit everything.
//!
//! This module never decides what a program needs: that is in [`Limits`].

mod calls;
mod capabilities;
mod limits;
mod paths;
mod threads;
mod user;

pub use calls::Phase;
pub(crate) use capabilities::clear_ambient;
pub use limits::Limits;
pub(crate) use user::become_owner_of_files;
pub use user::{FileRights, User, group_id};

use crate::{Result, Try};
use calls::Needs;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};
use serde::Serialize;
use std::path::{Path, PathBuf};
use threads::Order;

/// The restrictions that are in force in all threads of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sandbox {
    /// The capabilities that were kept, by their names.
    pub capabilities: Vec<&'static str>,
    /// The version of Landlock's rules; 0 where the kernel has none.
    pub landlock_abi: u32,
    /// System calls are restricted.
    pub seccomp: bool,
    /// System calls that were refused.
    pub refused_calls: u64,
    /// Warnings for the user: what the kernel lacks, and what was kept.
    #[serde(skip)]
    pub notes: Vec<String>,
    #[serde(skip)]
    needs: Needs,
}

impl Sandbox {
    /// Restricts all threads: they become the user, lose their capabilities for good, and reach no paths but those of
    /// `limits`. System calls are not restricted yet.
    ///
    /// # Errors
    /// The kernel refused, or a thread did not answer. Some threads may be restricted then: the process must end.
    pub fn confine(limits: &Limits) -> Result<Self> {
        let mut sandbox = Self { landlock_abi: paths::abi(), needs: Needs::of(limits), ..Self::default() };
        let ruleset = match sandbox.landlock_abi {
            0 => None,
            _ => paths::ruleset(limits)?,
        };
        if ruleset.is_none() {
            sandbox.landlock_abi = 0;
            sandbox.notes.push(
                "the sandbox restricts no paths: this kernel has no Landlock, or it is not enabled".into(),
            );
        }
        let keep = sandbox.capabilities_for(limits);
        threads::in_all(Order::PREPARE)?;
        if let Some(user) = &limits.user {
            user.become_for_good()?;
        }
        threads::in_all(Order::confine(keep, ruleset.as_ref()))?;
        // No core file and no debugger shows packets, and /proc/PID/{mem,fd,environ} are for root only.
        nix::sys::prctl::set_dumpable(false).trying(|| "forbid core files")?;
        threads::check(keep)?;
        Ok(sandbox)
    }

    /// Restricts the system calls of all threads to those of `phase`; a later phase restricts them further.
    pub fn restrict_calls(&mut self, phase: Phase) {
        match calls::restrict(phase, self.needs) {
            Ok(()) => self.seccomp = true,
            // The filters of the earlier phase remain.
            Err(error) if self.seccomp => {
                self.notes.push(format!("the sandbox permits the system calls of a start for good: {error}"));
            }
            Err(error) => self.notes.push(format!("the sandbox restricts no system calls: {error}")),
        }
    }

    /// Reads the number of refused system calls. Returns a warning if there are any.
    pub fn count_refused(&mut self) -> Option<String> {
        let (count, first) = calls::refused();
        self.refused_calls = count;
        (count > 0).then(|| {
            format!(
                "the sandbox refused {count} system calls, number {first} first; if nothing attacks this process, \
                 please report it and use `no-sandbox` meanwhile"
            )
        })
    }

    /// Returns the capabilities that `limits` need, and records them.
    fn capabilities_for(&mut self, limits: &Limits) -> u64 {
        let mut wanted = Vec::new();
        if limits.changes_card || limits.loads_programs {
            wanted.push(capabilities::NET_ADMIN);
        }
        if limits.loads_programs {
            wanted.extend([capabilities::BPF, capabilities::PERFMON]);
        }
        let denied = if overrides(limits) { denied_paths(limits) } else { Denied::default() };
        if let Some(path) = denied.write {
            wanted.push(capabilities::DAC_OVERRIDE);
            self.note_kept(capabilities::DAC_OVERRIDE, path);
        } else if let Some(path) = denied.read {
            wanted.push(capabilities::DAC_READ_SEARCH);
            self.note_kept(capabilities::DAC_READ_SEARCH, path);
        }
        let permitted = capabilities::get().map_or(0, |sets| sets.permitted);
        wanted.retain(|capability| permitted & capability.bit() != 0);
        self.capabilities = wanted.iter().map(|capability| capability.name).collect();
        wanted.iter().map(|capability| capability.bit()).sum()
    }

    fn note_kept(&mut self, kept: capabilities::Capability, path: &Path) {
        self.notes.push(format!(
            "{} is kept, because {} belongs to another user; `user` with the name of that user makes it unnecessary",
            kept.name,
            path.display()
        ));
    }
}

/// The first paths that this process can use only with its capabilities.
#[derive(Debug, Default)]
struct Denied<'a> {
    read: Option<&'a Path>,
    write: Option<&'a Path>,
}

/// Returns whether root's right to use the files of others is kept, because no other user was requested.
fn overrides(limits: &Limits) -> bool {
    limits.user.as_ref().is_none_or(|user| user.is_caller || user.is_current())
}

/// Tries the paths of `limits` without capabilities as their user, in the calling thread.
fn denied_paths(limits: &Limits) -> Denied<'_> {
    fn first(paths: &[PathBuf], wanted: AccessFlags) -> Option<&Path> {
        // access(2) would count the permitted capabilities of root.
        let access = |path: &Path| faccessat(AT_FDCWD, path, wanted, AtFlags::AT_EACCESS);
        paths.iter().map(PathBuf::as_path).find(|path| access(path) == Err(nix::Error::EACCES))
    }
    let rights = limits.user.as_ref().map(User::use_own_files).transpose();
    let (Ok(_rights), Some(_suspended)) = (rights, capabilities::Suspended::now()) else {
        return Denied::default();
    };
    let all = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    Denied { read: first(&limits.read, AccessFlags::R_OK), write: first(&limits.write, all) }
}

#[cfg(test)]
mod tests;
