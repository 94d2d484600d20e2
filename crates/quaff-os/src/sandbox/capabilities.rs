//! The capability sets of the calling thread (capabilities(7)). It never grants one.

use std::io;

/// A capability: its number (linux/capability.h) and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capability {
    number: u32,
    pub(super) name: &'static str,
}

pub(super) const DAC_OVERRIDE: Capability = Capability { number: 1, name: "CAP_DAC_OVERRIDE" };
pub(super) const DAC_READ_SEARCH: Capability = Capability { number: 2, name: "CAP_DAC_READ_SEARCH" };
pub(super) const NET_ADMIN: Capability = Capability { number: 12, name: "CAP_NET_ADMIN" };
pub(super) const PERFMON: Capability = Capability { number: 38, name: "CAP_PERFMON" };
pub(super) const BPF: Capability = Capability { number: 39, name: "CAP_BPF" };

impl Capability {
    /// Its bit in a set.
    pub(super) fn bit(self) -> u64 {
        1 << self.number
    }
}

/// Three of the five sets, a bit for each number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sets {
    pub(super) effective: u64,
    pub(super) permitted: u64,
    pub(super) inheritable: u64,
}

/// `_LINUX_CAPABILITY_VERSION_3`: sets of 64 bits in two halves.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct`; `pid` 0 is the calling thread.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`: one half of the sets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Reads the sets of the calling thread. Async-signal-safe.
pub(super) fn get() -> io::Result<Sets> {
    let (mut header, mut halves) = (Header { version: VERSION, pid: 0 }, [Half::default(); 2]);
    // SAFETY: with this version the kernel reads a header and writes two halves, both local.
    match unsafe { libc::syscall(libc::SYS_capget, &raw mut header, halves.as_mut_ptr()) } {
        0 => Ok(Sets {
            effective: whole(halves, |half| half.effective),
            permitted: whole(halves, |half| half.permitted),
            inheritable: whole(halves, |half| half.inheritable),
        }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the sets of the calling thread. Async-signal-safe.
pub(super) fn set(sets: Sets) -> io::Result<()> {
    let half = |shift: u32| Half {
        effective: (sets.effective >> shift) as u32,
        permitted: (sets.permitted >> shift) as u32,
        inheritable: (sets.inheritable >> shift) as u32,
    };
    let (mut header, halves) = (Header { version: VERSION, pid: 0 }, [half(0), half(32)]);
    // SAFETY: with this version the kernel reads a header and two halves, both local.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, halves.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn whole(halves: [Half; 2], of: fn(&Half) -> u32) -> u64 {
    u64::from(of(&halves[0])) | u64::from(of(&halves[1])) << 32
}

/// Keeps only `keep` of the permitted capabilities, and no inheritable one. Async-signal-safe.
pub(super) fn keep_only(keep: u64) -> io::Result<()> {
    let keep = keep & get()?.permitted;
    set(Sets { effective: keep, permitted: keep, inheritable: 0 })
}

/// Empties the ambient set, and as much of the bounding set as CAP_SETPCAP permits. Async-signal-safe.
pub(super) fn drop_for_exec() {
    clear_ambient();
    for number in 0..64 {
        // SAFETY: takes numbers only. It fails for a number that the kernel does not know, and every higher one.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, number, 0, 0, 0) } < 0 {
            return;
        }
        // SAFETY: takes numbers only. Without CAP_SETPCAP it stays, where no execve(2) can use it.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
}

/// Empties the ambient set: a program that is executed gets no capability from it. Async-signal-safe.
pub(crate) fn clear_ambient() {
    // SAFETY: takes numbers only. It fails before Linux 4.3, which has no such set.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
}

/// Makes setresuid(2) keep the permitted capabilities of the calling thread, or not. Async-signal-safe.
pub(super) fn keep_across_setuid(is_kept: bool) {
    // SAFETY: takes numbers only. Where it is locked (SECBIT_KEEP_CAPS_LOCKED) fewer capabilities are left.
    unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, libc::c_ulong::from(is_kept), 0, 0, 0) };
}

/// The calling thread has no effective capability as long as this value exists.
#[derive(Debug)]
pub(super) struct Suspended {
    before: Sets,
    /// The sets are of one thread, in which this value must stay.
    _thread: std::marker::PhantomData<*const ()>,
}

impl Suspended {
    /// `None` if there is no capability to suspend.
    pub(super) fn now() -> Option<Self> {
        let before = get().ok().filter(|sets| sets.effective != 0)?;
        set(Sets { effective: 0, ..before }).ok()?;
        Some(Self { before, _thread: std::marker::PhantomData })
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // Permitted as before, so it cannot be refused.
        let _ = set(self.before);
    }
}
