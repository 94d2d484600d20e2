//! A user whom this process becomes, and files that are opened with that user's rights before. It never looks at
//! passwords.

use super::capabilities;
use crate::{Error, Result, Try};
use nix::unistd::{Gid, Uid, getgrouplist, getgroups, setgroups, setresgid, setresuid};
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;

/// A user of this machine, with all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    /// The caller of sudo(8): files belong to this user, and root's right to use any folder is kept.
    pub(super) is_caller: bool,
}

impl User {
    /// Looks a user up by name.
    ///
    /// # Errors
    /// There is no such user, or the database cannot be read.
    pub fn find(name: &str) -> Result<Self> {
        let tried = || format!("find the user {name}");
        let found = nix::unistd::User::from_name(name).trying(tried)?;
        let found = found.ok_or_else(|| Error::new(tried(), io::Error::other("there is no such user")))?;
        let groups = match CString::new(name) {
            Ok(text) => getgrouplist(&text, found.gid).trying(tried)?,
            Err(_) => vec![found.gid],
        };
        Ok(Self { name: name.to_owned(), uid: found.uid, gid: found.gid, groups, is_caller: false })
    }

    /// The user who called sudo(8) to run this process as root, if root can change users here. Known by the variables
    /// that sudo sets; in a process of root no other user can have set them.
    pub fn caller_of_sudo() -> Option<Self> {
        let id = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let (uid, gid) = (Uid::from_raw(id("SUDO_UID")?), Gid::from_raw(id("SUDO_GID")?));
        if uid.is_root() || !Uid::effective().is_root() {
            return None;
        }
        // A user of another database may have no entry here.
        let known = nix::unistd::User::from_uid(uid).ok().flatten();
        let name = known.map_or_else(|| format!("with the ID {uid}"), |user| user.name);
        let groups = CString::new(name.as_str()).ok().and_then(|name| getgrouplist(&name, gid).ok());
        let caller = Self { name, uid, gid, groups: groups.unwrap_or_else(|| vec![gid]), is_caller: true };
        caller.use_files().is_ok().then_some(caller)
    }

    /// The user of this process, as a member of `group` too; `None` without the right to become that.
    pub fn current_with_group(group: u32) -> Option<Self> {
        let (uid, gid, group) = (Uid::effective(), Gid::effective(), Gid::from_raw(group));
        let groups = getgroups().ok()?.into_iter().chain([group]).collect();
        let name =
            nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name);
        let user = Self { name, uid, gid, groups, is_caller: false };
        user.use_files().is_ok().then_some(user)
    }

    /// The same user as a member of `group` too.
    #[must_use]
    pub fn with_group(mut self, group: u32) -> Self {
        self.groups.push(Gid::from_raw(group));
        self
    }

    /// Returns whether this is the user of this process.
    pub(super) fn is_current(&self) -> bool {
        self.uid == Uid::effective()
    }

    /// The calling thread makes files that belong to this user, and so do the threads that it starts, until the result
    /// is dropped. It uses files with this user's rights, or with root's if this user called sudo(8). Its other
    /// privileges stay.
    pub fn use_files(&self) -> Result<FileRights> {
        let before = capabilities::get().trying(|| "read the capabilities of a thread")?;
        let rights = self.use_own_files()?;
        if self.is_caller {
            // The change of the ID has cleared the capabilities on files.
            capabilities::set(before).trying(|| "set the capabilities of a thread")?;
        }
        Ok(rights)
    }

    /// The same, with this user's rights in any case.
    pub(super) fn use_own_files(&self) -> Result<FileRights> {
        let before = getgroups().trying(|| "read the groups of this process")?;
        let rights =
            FileRights { groups: before, uid: Uid::effective(), gid: Gid::effective(), _thread: PhantomData };
        let failed = || Error::last(format!("use the file rights of {}", self.name)).advise("run as root");
        if !set_thread_groups(&self.groups) || !set_file_ids(self.uid, self.gid) {
            return Err(failed());
        }
        Ok(rights)
    }

    /// All threads become this user: groups first, because a user without privileges cannot change them.
    pub(super) fn become_for_good(&self) -> Result<()> {
        let tried = || format!("become the user {}", self.name);
        let advise = |error: Error| error.advise("run as root, or grant CAP_SETUID and CAP_SETGID");
        // glibc has each thread make these calls.
        setgroups(&self.groups).trying(tried).map_err(advise)?;
        setresgid(self.gid, self.gid, self.gid).trying(tried).map_err(advise)?;
        setresuid(self.uid, self.uid, self.uid).trying(tried).map_err(advise)
    }
}

/// Looks a group up by name or number.
///
/// # Errors
/// There is no such group, or the database cannot be read.
pub fn group_id(name: &str) -> Result<u32> {
    let tried = || format!("find the group {name}");
    let found = nix::unistd::Group::from_name(name).trying(tried)?.map(|group| group.gid.as_raw());
    // The highest number means "no change" to system calls.
    let number = || name.parse().ok().filter(|gid| *gid != u32::MAX);
    found.or_else(number).ok_or_else(|| Error::new(tried(), io::Error::other("there is no such group")))
}

/// The rights of another user on files, in one thread.
#[derive(Debug)]
pub struct FileRights {
    groups: Vec<Gid>,
    uid: Uid,
    gid: Gid,
    /// They belong to the thread that requested them.
    _thread: PhantomData<*const ()>,
}

impl Drop for FileRights {
    fn drop(&mut self) {
        // The saved IDs of the thread are unchanged, so it cannot be refused.
        set_file_ids(self.uid, self.gid);
        set_thread_groups(&self.groups);
    }
}

/// Sets the supplementary groups of the calling thread alone; glibc's setgroups(3) is for all threads.
fn set_thread_groups(groups: &[Gid]) -> bool {
    let groups: Vec<libc::gid_t> = groups.iter().map(|gid| gid.as_raw()).collect();
    // SAFETY: the kernel reads as many numbers as the vector has.
    unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0 }
}

/// Sets the IDs with which the calling thread uses files (setfsuid(2)); returns whether they are set.
fn set_file_ids(uid: Uid, gid: Gid) -> bool {
    // SAFETY: the calls take numbers only. They return the ID before, so the second pair, which changes nothing because
    // no user has the ID -1, returns the ID that the first one has set.
    unsafe {
        libc::setfsgid(gid.as_raw());
        libc::setfsuid(uid.as_raw());
        libc::setfsgid(libc::gid_t::MAX) as libc::gid_t == gid.as_raw()
            && libc::setfsuid(libc::uid_t::MAX) as libc::uid_t == uid.as_raw()
    }
}

/// The IDs with which the calling thread uses files become its only ones, unless root only makes files with them. For a
/// child process between fork(2) and execve(2): async-signal-safe.
pub(crate) fn become_owner_of_files() -> io::Result<()> {
    // SAFETY: the calls take numbers only, and -1 only reads.
    let (uid, gid) = unsafe { (libc::setfsuid(libc::uid_t::MAX), libc::setfsgid(libc::gid_t::MAX)) };
    // SAFETY: take no arguments.
    let (euid, egid) = unsafe { (libc::geteuid(), libc::getegid()) };
    if (uid as libc::uid_t, gid as libc::gid_t) == (euid, egid) {
        return Ok(());
    }
    // Root makes files for the caller of sudo(8), but a command runs as root.
    if capabilities::get()?.effective & capabilities::DAC_OVERRIDE.bit() != 0 {
        return Ok(());
    }
    // SAFETY: raw system calls on numbers, for this one thread.
    let refused = unsafe {
        libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
            || libc::syscall(libc::SYS_setresuid, uid, uid, uid) < 0
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}
