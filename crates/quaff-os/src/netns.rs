//! Named network namespaces as `ip netns` (ip-netns(8)) manages them: a bind mount below `/run/netns`
//! keeps a namespace alive under a name.
//!
//! A namespace is a property of a thread, not of a process. [`Netns::run`] runs code in one on a separate
//! thread, [`Netns::command`] runs a command; the caller's thread never changes its namespace. A netlink or
//! packet socket stays in the namespace in which it was opened. `/proc/sys/net` shows the namespace of the
//! reading thread.

use crate::{Error, Result, Try, spawn_in};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::statfs::{NSFS_MAGIC, fstatfs};
use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of names of `ip netns`.
const DIR: &str = "/run/netns";
/// The namespace of the calling thread, before it has a name.
const MINE: &str = "/proc/thread-self/ns/net";
/// Advice for EPERM and EACCES.
const NEEDS_ROOT: &str = "network namespaces need CAP_SYS_ADMIN: run as root";

/// A named network namespace, held open by a descriptor.
///
/// Dropping it closes the descriptor; [`Netns::delete`] removes the name.
#[derive(Debug)]
pub struct Netns {
    /// The name below `/run/netns`.
    pub name: String,
    fd: OwnedFd,
}

impl Netns {
    /// Creates a namespace with a name. The calling thread does not enter it.
    ///
    /// # Errors
    /// `EEXIST` when the name is taken; `EPERM` without CAP_SYS_ADMIN.
    pub fn create(name: &str) -> Result<Self> {
        let path = path_of(name)?;
        let tried = || format!("create the network namespace {name}");
        prepare_dir().map_err(|error| error.advise(NEEDS_ROOT))?;
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(&path)
            .trying(tried)
            .map_err(|error| advise_create(error, name))?;
        let made = std::thread::scope(|scope| {
            let thread = spawn_in(scope, "netns", || {
                unshare(CloneFlags::CLONE_NEWNET)?;
                mount(Some(MINE), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            })?;
            let made = thread.join().unwrap_or(Err(nix::Error::UnknownErrno));
            made.trying(tried).map_err(|error| advise_create(error, name))
        });
        if let Err(error) = made {
            // This call created the file: remove it again.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Self::open(name)
    }

    /// Opens a namespace by its name.
    ///
    /// # Errors
    /// `ENOENT` when there is none of that name; `EINVAL` when there is only a file without a mount, as
    /// after an unclean shutdown.
    pub fn open(name: &str) -> Result<Self> {
        let path = path_of(name)?;
        let tried = || format!("open the network namespace {name}");
        let file = File::open(&path).trying(tried)?;
        if fstatfs(&file).trying(tried)?.filesystem_type() != NSFS_MAGIC {
            return Err(Error::new(tried(), io::Error::from_raw_os_error(libc::EINVAL))
                .advise(format!("nothing is mounted there; 'ip netns delete {name}' removes it")));
        }
        Ok(Self { name: name.to_owned(), fd: file.into() })
    }

    /// The names of all namespaces, sorted; of a directory that cannot be read, none.
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(DIR).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Moves the calling thread into this namespace permanently.
    fn enter(&self) -> Result<()> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .trying(|| format!("enter the network namespace {}", self.name))
            .map_err(|error| error.advise(NEEDS_ROOT))
    }

    /// Runs `work` in this namespace on a temporary thread, and returns its result.
    ///
    /// A panic in `work` is resumed in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = spawn_in(scope, "netns", || self.enter().map(|()| work()))?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A command that runs in this namespace as `ip netns exec` does: in the network namespace, and in a new
    /// mount namespace with `/sys` remounted, so that `/sys/class/net` lists the interfaces there. The caller's
    /// mounts do not change.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        command_in(self, &mut command)?;
        Ok(command)
    }

    /// Removes a name. The namespace itself ends with its last process, socket or descriptor.
    ///
    /// # Errors
    /// `ENOENT` when there is none of that name.
    pub fn delete(name: &str) -> Result<()> {
        let path = path_of(name)?;
        let tried = || format!("delete the network namespace {name}");
        match umount2(&path, MntFlags::MNT_DETACH) {
            // EINVAL: a file without a mount, left by a run that was killed between the two.
            Ok(()) | Err(nix::Error::EINVAL) => {}
            Err(errno) => return Err(errno).trying(tried),
        }
        fs::remove_file(&path).trying(tried)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn command_in(netns: &Netns, command: &mut Command) -> Result<()> {
    let fd = netns
        .fd
        .try_clone()
        .trying(|| format!("duplicate the descriptor of the network namespace {}", netns.name))?;
    let source = CString::new(netns.name.as_str())
        .trying(|| format!("use {:?} as the source of a mount", netns.name))?;
    let enter = move || {
        // SAFETY: system calls on a descriptor and on strings that this closure owns.
        unsafe {
            errno(libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET))?;
            errno(libc::unshare(libc::CLONE_NEWNS))?;
            let (none, slave) = (std::ptr::null(), libc::MS_SLAVE | libc::MS_REC);
            errno(libc::mount(c"".as_ptr(), c"/".as_ptr(), none, slave, none.cast()))?;
            let mut flags = 0;
            if libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH) < 0 {
                // It cannot be unmounted, so mount over it; read-only if the existing mount is read-only.
                let mut stat: libc::statvfs = std::mem::zeroed();
                if libc::statvfs(c"/sys".as_ptr(), &mut stat) == 0 && stat.f_flag & libc::ST_RDONLY != 0 {
                    flags = libc::MS_RDONLY;
                }
            }
            errno(libc::mount(source.as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), flags, none.cast()))
        }
    };
    // SAFETY: `enter` runs between fork and exec and only makes system calls: it does not allocate, takes
    // no lock, and owns everything that it refers to.
    unsafe { command.pre_exec(enter) };
    Ok(())
}

fn errno(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn path_of(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) || name.len() > 255 {
        return Err(Error::new(
            format!("use {name:?} as the name of a network namespace"),
            io::Error::from_raw_os_error(libc::EINVAL),
        )
        .advise("use 1 to 255 bytes without a slash, not beginning with a dot"));
    }
    Ok(Path::new(DIR).join(name))
}

fn advise_create(error: Error, name: &str) -> Error {
    match error.raw() {
        libc::EEXIST => error.advise(format!("delete it with 'ip netns delete {name}', or use another name")),
        libc::EPERM | libc::EACCES => error.advise(NEEDS_ROOT),
        _ => error,
    }
}

/// Makes `/run/netns` a shared mount, as `ip netns add` does: removing a name also removes it from the mount
/// namespaces of running commands, which would keep the namespace alive otherwise.
fn prepare_dir() -> Result<()> {
    let tried = || format!("prepare {DIR}");
    DirBuilder::new().recursive(true).mode(0o755).create(DIR).trying(tried)?;
    let dir = File::open(DIR).trying(tried)?;
    let _lock = Flock::lock(dir, FlockArg::LockExclusive).map_err(|(_, errno)| errno).trying(tried)?;
    let share = || mount(None::<&str>, DIR, None::<&str>, MsFlags::MS_SHARED | MsFlags::MS_REC, None::<&str>);
    match share() {
        // Not a mount point yet: bind-mount it on itself.
        Err(nix::Error::EINVAL) => {
            mount(Some(DIR), DIR, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
                .trying(tried)?;
            share().trying(tried)
        }
        done => done.trying(tried),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnl::{LinkChange, Rtnl, VethEnd, VethPlan};

    fn all_links() -> Result<Vec<crate::rtnl::Link>> {
        Rtnl::open()?.links()
    }

    /// A namespace that is deleted at the end of the test; `None` where the machine permits none.
    struct Scratch(Netns);

    impl Scratch {
        fn new(test: &str) -> Option<Self> {
            let name = format!("quaff-os-{}-{test}", std::process::id());
            match Netns::create(&name) {
                Ok(netns) => Some(Self(netns)),
                Err(error) if crate::testing::is_refusal(&error) => {
                    crate::testing::skip(test, &error.to_string());
                    None
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            Netns::delete(&self.0.name).expect("it is there");
        }
    }

    #[test]
    fn a_thread_and_a_command_see_only_their_namespace() {
        let Some(scratch) = Scratch::new("netns-inside") else { return };
        let before = all_links().expect("links here");
        let inside: Vec<_> = scratch.0.run(|| all_links().expect("links")).expect("entered");
        assert_eq!(inside.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
        assert_eq!(all_links().expect("links here"), before, "the caller's thread has not moved");

        let mut command = scratch.0.command("ls").expect("a command");
        let output = command.arg("/sys/class/net").output().expect("ls runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "lo", "{output:?}");
        assert!(Path::new("/sys/class/net/lo").exists(), "/sys here is still mounted");
    }

    #[test]
    fn a_name_is_taken_once_and_removed() {
        let Some(scratch) = Scratch::new("netns-once") else { return };
        let name = scratch.0.name.clone();
        assert_eq!(Netns::create(&name).expect_err("taken").raw(), libc::EEXIST);
        assert!(Path::new(DIR).join(&name).exists() && Netns::names().contains(&name));
        drop(scratch);
        assert!(!Path::new(DIR).join(&name).exists());
        assert_eq!(Netns::open(&name).expect_err("gone").raw(), libc::ENOENT);
        assert_eq!(Netns::delete(&name).expect_err("gone").raw(), libc::ENOENT);
    }

    #[test]
    fn a_file_without_a_namespace_is_not_one() {
        let Some(_permitted) = Scratch::new("netns-plain-beside") else { return };
        let name = format!("quaff-os-{}-netns-plain", std::process::id());
        File::create_new(Path::new(DIR).join(&name)).expect("a file");
        let opened = Netns::open(&name).expect_err("no namespace");
        Netns::delete(&name).expect("deleted all the same");
        assert_eq!(opened.raw(), libc::EINVAL, "{opened}");
    }

    #[test]
    fn names_that_would_leave_the_directory_are_refused() {
        for name in ["", ".", "..", "../x", "a/b", "a\0b", &"x".repeat(256)] {
            assert_eq!(Netns::create(name).expect_err("refused").raw(), libc::EINVAL, "{name:?}");
            assert_eq!(Netns::delete(name).expect_err("refused").raw(), libc::EINVAL, "{name:?}");
        }
    }

    #[test]
    fn a_veth_pair_connects_two_namespaces() {
        let Some(left) = Scratch::new("veth-left") else { return };
        let Some(right) = Scratch::new("veth-right") else { return };
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
        let ends = [
            VethEnd { name: "left0", netns: left.0.as_fd(), mac: macs[0] },
            VethEnd { name: "right0", netns: right.0.as_fd(), mac: macs[1] },
        ];
        let mut here = Rtnl::open().expect("a socket");
        here.create_veth(&VethPlan { ends, mtu: 3000, queues: 2 }).expect("made");
        let again = here.create_veth(&VethPlan { ends, mtu: 3000, queues: 2 }).expect_err("taken");
        assert_eq!(again.raw(), libc::EEXIST, "{again}");

        let mut rtnl = left.0.run(Rtnl::open).expect("entered").expect("a socket");
        let link = rtnl.link("left0").expect("it is there");
        assert_eq!((link.mac, link.mtu, link.up, link.arphrd), (macs[0], 3000, false, libc::ARPHRD_ETHER));
        rtnl.change(link.index, LinkChange::Up(true)).expect("on");
        rtnl.change(link.index, LinkChange::Address("198.18.0.1".parse().expect("an address"), 24))
            .expect("added");
        let refused =
            rtnl.change(link.index, LinkChange::Address("198.18.0.3".parse().expect("an address"), 33));
        let refused = refused.expect_err("no such prefix").to_string();
        assert!(refused.contains("kernel message"), "{refused}");
        rtnl.change(link.index, LinkChange::Neighbour("198.18.0.2".parse().expect("an address"), macs[1]))
            .expect("added");
        let link = rtnl.link("left0").expect("it is there");
        assert_eq!((link.up, link.running), (true, false));
        rtnl.change(link.index, LinkChange::Up(false)).expect("off");
        assert!(!rtnl.link("left0").expect("it is there").up);
        rtnl.change(link.index, LinkChange::Delete).expect("deleted");
        let mut rtnl = right.0.run(Rtnl::open).expect("entered").expect("a socket");
        assert_eq!(rtnl.link("right0").expect_err("gone with its peer").raw(), libc::ENODEV);
    }
}
