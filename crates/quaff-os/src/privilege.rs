//! The capabilities of this process at its start, as `scripts/install` granted them: raised where a command needs them,
//! dropped where it does not.
//!
//! `make install` marks the program file as permitted to have some (capabilities(7), `=p`). They take effect only by
//! [`settle`], so a program that lacks one in its bounding set still starts. A command that only reads files needs
//! none. This is for the first thread, before there is another: capabilities belong to threads, which inherit them.

use crate::{Error, Result};

/// The capabilities of the installed program: packet sockets; buffers that are locked in memory; priority of a lane.
pub const FILE_CAPABILITIES: &str = "cap_net_raw,cap_ipc_lock,cap_sys_nice";

/// The capabilities that a command needs, of those that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None: it reads files, whose origin is unknown.
    Nothing,
    /// Locked memory and priority, but no socket.
    Memory,
    /// All of them.
    Everything,
}

/// CAP_IPC_LOCK and CAP_SYS_NICE (linux/capability.h), in the first of two [`Sets`].
const MEMORY: u32 = 1 << 14 | 1 << 23;

/// `_LINUX_CAPABILITY_VERSION_3` (linux/capability.h): 64 bits in two parts.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`; pid 0 is the calling thread.
#[repr(C)]
#[derive(Debug)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`: 32 of the capabilities.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Makes the needed ones of the permitted capabilities effective, and drops the others for good.
///
/// Root keeps all: it would lose the right to read the files of users.
pub fn settle(need: Need) -> Result<()> {
    let now = get()?;
    let kept = if nix::unistd::getuid().is_root() { [u32::MAX; 2] } else { need.mask() };
    let settled = [settled(now[0], kept[0]), settled(now[1], kept[1])];
    if settled == now { Ok(()) } else { set(&settled) }
}

fn settled(now: Sets, kept: u32) -> Sets {
    let permitted = now.permitted & kept;
    Sets { effective: permitted, permitted, inheritable: now.inheritable & kept }
}

impl Need {
    fn mask(self) -> [u32; 2] {
        match self {
            Self::Nothing => [0; 2],
            Self::Memory => [MEMORY, 0],
            Self::Everything => [u32::MAX; 2],
        }
    }
}

fn get() -> Result<[Sets; 2]> {
    let (mut header, mut sets) = (Header { version: VERSION, pid: 0 }, [Sets::default(); 2]);
    // SAFETY: of this version the kernel writes two sets; both live until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    if done == 0 { Ok(sets) } else { Err(Error::last("read the capabilities of this process")) }
}

fn set(sets: &[Sets; 2]) -> Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    // SAFETY: of this version the kernel reads two sets; both live until the call returns.
    let done = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(Error::last("change the capabilities of this process")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_capabilities_take_effect_and_the_others_go() {
        let file = Sets { effective: 0, permitted: 1 << 13 | MEMORY, inheritable: 0 };
        let of = |need: Need| settled(file, need.mask()[0]);
        assert_eq!(of(Need::Everything), Sets { effective: file.permitted, ..file });
        assert_eq!(of(Need::Memory), Sets { effective: MEMORY, permitted: MEMORY, inheritable: 0 });
        assert_eq!(of(Need::Nothing), Sets::default());
    }

    /// Capabilities belong to a thread: the tests beside this one keep theirs.
    #[test]
    fn permitted_capabilities_take_effect_and_do_not_come_back() {
        let test = || {
            let before = get().unwrap();
            set(&before.map(|sets| Sets { effective: 0, ..sets })).unwrap();
            settle(Need::Everything).unwrap();
            assert!(get().unwrap().iter().all(|sets| sets.effective == sets.permitted));
            set(&[Sets::default(); 2]).unwrap();
            settle(Need::Everything).unwrap();
            assert_eq!(get().unwrap(), [Sets::default(); 2]);
        };
        std::thread::spawn(test).join().unwrap();
    }
}
