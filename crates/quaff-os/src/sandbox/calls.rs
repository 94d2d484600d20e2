//! The system calls that stay possible, as seccomp filters for all threads (seccomp(2)).
//!
//! A refused call fails, and the audit log has it; the process continues. A recorder must not end because a new C
//! library makes a call that no list has yet, and what an intruder does next is on the recording.
//!
//! | call | result |
//! |---|---|
//! | unknown to the list | ENOSYS, for which libraries have a fallback |
//! | a new process | EPERM |
//! | an intruder's | EPERM, by a signal that counts it; the kernel ends a process that blocks the signal meanwhile |
//!
//! Operations of an io_uring pass no filter: its opcodes are restricted where it is made (`disk`), before any filter,
//! and no new one can be.

use super::Limits;
use crate::disk::{FileAccess, REGISTER_IOWQ_AFF};
use crate::{Error, Result};
use libc::{c_long, sock_filter, sock_fprog};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The stage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It parses files already; it still locks memory, sets priorities, and settles the rings of its writers.
    Starting,
    /// Packets flow.
    Running,
}

/// The calls that a process needs beyond those that every process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    access: FileAccess,
    binds: bool,
    connects: bool,
    sends_datagrams: bool,
    sends_frames: bool,
    makes_folders: bool,
    draws: bool,
    loads_programs: bool,
}

impl Needs {
    pub(super) fn of(limits: &Limits) -> Self {
        Self {
            access: limits.access,
            binds: limits.binds,
            connects: !limits.connect.is_empty(),
            sends_datagrams: limits.sends_datagrams,
            sends_frames: limits.sends_frames,
            makes_folders: !limits.make_folders.is_empty(),
            draws: limits.draws,
            loads_programs: limits.loads_programs,
        }
    }

    /// Calls of [`INTRUDERS`] and of [`INTRUDERS_OLD`] that this process makes itself.
    fn own(self) -> Vec<c_long> {
        let mut own = Vec::new();
        if self.connects {
            own.push(libc::SYS_connect);
        }
        if self.sends_frames {
            own.push(libc::SYS_sendmmsg);
        }
        if self.makes_folders {
            own.push(libc::SYS_mkdirat);
            #[cfg(target_arch = "x86_64")]
            own.push(libc::SYS_mkdir);
        }
        if self.loads_programs {
            own.push(libc::SYS_bpf);
        }
        own
    }

    /// The options that it sets on its sockets, by level.
    fn socket_options(self) -> BTreeMap<i32, Vec<i32>> {
        // The end of a capture is a filter that rejects everything.
        let mut options = BTreeMap::from([(libc::SOL_SOCKET, vec![libc::SO_ATTACH_FILTER])]);
        if self.binds {
            options.insert(libc::SOL_PACKET, vec![libc::PACKET_ADD_MEMBERSHIP]);
        }
        if self.connects {
            options.entry(libc::SOL_SOCKET).or_default().push(libc::SO_KEEPALIVE);
            let ends = [libc::TCP_USER_TIMEOUT, libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL];
            options.insert(libc::IPPROTO_TCP, ends.to_vec());
        }
        if self.sends_datagrams {
            options.insert(libc::IPPROTO_IP, vec![libc::IP_MTU_DISCOVER]);
            options.insert(libc::IPPROTO_IPV6, vec![libc::IPV6_MTU_DISCOVER]);
            options.insert(libc::IPPROTO_UDP, vec![libc::UDP_SEGMENT]);
        }
        options
    }
}

/// Allowed with any arguments. Landlock restricts the paths; a descriptor was permitted when it was opened.
const ALLOWED: &[c_long] = &[
    // Open descriptors.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_flock,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    CACHESTAT,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_io_uring_enter,
    // Paths.
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_getcwd,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Open sockets: packets, their counters, route netlink.
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_shutdown,
    // Memory and threads.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_brk,
    libc::SYS_munlock,
    libc::SYS_futex,
    // Threads; processes have a filter of their own. No filter can see the flags of clone3(2): where it fails, glibc
    // uses clone(2).
    libc::SYS_clone,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_getpriority,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    // Signals, and children that were started before.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Time, numbers about this process and this machine.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// cachestat(2); the libc crate has it for some architectures only.
const CACHESTAT: c_long = 451;

/// The older calls of x86-64, which glibc still makes.
#[cfg(target_arch = "x86_64")]
const ALLOWED_OLD: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[c_long] = &[];

/// Allowed in addition while a process starts: locked memory, the cores of rings that are made, and the last filter.
const ALLOWED_AT_START: &[c_long] = &[
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_setpriority,
    libc::SYS_io_uring_register,
    libc::SYS_seccomp,
];

/// Calls that nothing here makes, and an intruder might.
const INTRUDERS: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_socketpair,
    libc::SYS_connect,
    // The address in their messages is in memory, where no filter sees it.
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_memfd_create,
    libc::SYS_capset,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_setgid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_keyctl,
    libc::SYS_add_key,
];

/// The older ones of x86-64.
#[cfg(target_arch = "x86_64")]
const INTRUDERS_OLD: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_symlink,
];
#[cfg(not(target_arch = "x86_64"))]
const INTRUDERS_OLD: &[c_long] = &[];

/// Old calls that make a process.
#[cfg(target_arch = "x86_64")]
const PROCESSES: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const PROCESSES: &[c_long] = &[];

/// Requests of ioctl(2): the kind of a terminal and its size, bytes in a pipe or that a peer has not acknowledged,
/// non-blocking mode, and the counters and clock of a network card.
const IOCTLS: [u64; 9] = [
    0x5401,      // TCGETS
    0x802c_542a, // TCGETS2
    0x5411,      // TIOCOUTQ
    0x5413,      // TIOCGWINSZ
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x8946,      // SIOCETHTOOL
    0x89b0,      // SIOCSHWTSTAMP
    0x89b1,      // SIOCGHWTSTAMP
];

/// Requests that set the modes of a terminal.
const IOCTLS_TO_DRAW: [u64; 2] = [
    0x5402,      // TCSETS
    0x402c_542b, // TCSETS2
];

/// Commands of fcntl(2) that make the kernel send signals: the owner of a descriptor can be any process, the signal any
/// signal, and a process of root needs no CAP_KILL for it. Leases and directory notifications signal the caller.
const SIGNALLING: [u64; 5] = [
    8,    // F_SETOWN
    10,   // F_SETSIG
    15,   // F_SETOWN_EX
    1024, // F_SETLEASE
    1026, // F_NOTIFY
];

/// `NETLINK_ROUTE` (linux/netlink.h).
const NETLINK_ROUTE: u64 = 0;
/// `SOCK_TYPE_MASK` (linux/net.h): the rest of the type are flags.
const SOCK_TYPE_MASK: u64 = 0xf;

/// The rules of each call; without rules any arguments match.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are refused with some arguments.
fn conditional(needs: Needs) -> Result<Rules> {
    let code = |argument| has_bits(argument, libc::PROT_EXEC as u64);
    let requests = IOCTLS.iter().chain(IOCTLS_TO_DRAW.iter().filter(|_| needs.draws));
    let others: Vec<_> = requests.map(|request| is_not(1, *request)).collect::<Result<_>>()?;
    let conditional = [
        (libc::SYS_mmap, vec![vec![code(2)?]]),
        (libc::SYS_mprotect, vec![vec![code(2)?]]),
        // Another thread of this process: Interrupt, abort(3).
        (libc::SYS_tgkill, vec![vec![is_not(0, u64::from(std::process::id()))?]]),
        (libc::SYS_prctl, vec![vec![is_not(0, libc::PR_SET_NAME as u64)?]]),
        (
            libc::SYS_fcntl,
            SIGNALLING.iter().map(|command| Ok(vec![is(1, *command)?])).collect::<Result<_>>()?,
        ),
        // The core and the priority of the calling thread, not of another process of the same user.
        (libc::SYS_sched_setaffinity, vec![vec![is_not(0, 0)?]]),
        (libc::SYS_sched_setscheduler, vec![vec![is_not(0, 0)?]]),
        (libc::SYS_setpriority, vec![vec![is_not(0, libc::PRIO_PROCESS as u64)?], vec![is_not(1, 0)?]]),
        // To the peer of the socket, or on its interface: an address would be that of any other.
        (libc::SYS_sendto, vec![vec![is_not_null(4)?]]),
        // Limits are read, not set.
        (libc::SYS_prlimit64, vec![vec![is_not_null(2)?]]),
        (libc::SYS_ioctl, vec![others]),
        (libc::SYS_socket, of_new_sockets(needs)?),
    ];
    conditional.into_iter().map(|(call, chains)| Ok((call, rules(chains)?))).collect()
}

/// Sockets are those of route netlink, to read the counters of a card, which any socket can, and with `connects` those
/// of TCP. Both have protocol 0.
fn of_new_sockets(needs: Needs) -> Result<Vec<Vec<SeccompCondition>>> {
    let is_no_netlink = || is_not(0, libc::AF_NETLINK as u64);
    let mut chains = vec![vec![is_not(2, NETLINK_ROUTE)?]];
    if !needs.connects {
        chains.push(vec![is_no_netlink()?]);
        return Ok(chains);
    }
    chains.push(vec![is_no_netlink()?, is_not(0, libc::AF_INET as u64)?, is_not(0, libc::AF_INET6 as u64)?]);
    for kind in (0..=SOCK_TYPE_MASK).filter(|kind| *kind != libc::SOCK_STREAM as u64) {
        chains.push(vec![is_no_netlink()?, has(1, SOCK_TYPE_MASK, kind)?]);
    }
    Ok(chains)
}

/// Without `binds`, no socket is bound. With it, a socket can be bound to an interface (`struct sockaddr_ll`, of which
/// a filter sees only the length), and a packet socket can make that promiscuous. Filters can be replaced in both
/// cases.
fn of_sockets(needs: Needs) -> Result<Rules> {
    let bind = match needs.binds {
        false => Vec::new(),
        true => vec![vec![is_not(2, size_of::<libc::sockaddr_ll>() as u64)?]],
    };
    let all = needs.socket_options();
    let other_level: Result<Vec<_>> = all.keys().map(|level| is_not(1, *level as u64)).collect();
    let mut options = vec![other_level?];
    for (level, names) in &all {
        let others = names.iter().map(|name| is_not(2, *name as u64));
        options.push(std::iter::once(is(1, *level as u64)).chain(others).collect::<Result<_>>()?);
    }
    Ok(Rules::from([(libc::SYS_bind, rules(bind)?), (libc::SYS_setsockopt, rules(options)?)]))
}

/// The group and the mode of a file can be set to those of `access`, and to no others.
fn of_access(access: FileAccess) -> Result<Rules> {
    let group =
        |group: u32| Ok(vec![vec![is_not(1, u64::from(u32::MAX))?], vec![is_not(2, u64::from(group))?]]);
    let mode = |mode: u32| Ok(vec![vec![is_not(1, u64::from(mode))?]]);
    let group = access.group.map(group).transpose()?.unwrap_or_default();
    let mode = access.mode.map(mode).transpose()?.unwrap_or_default();
    Ok(Rules::from([(libc::SYS_fchown, rules(group)?), (libc::SYS_fchmod, rules(mode)?)]))
}

/// The calls of an intruder, in a process with these needs.
fn intruders(phase: Phase, needs: Needs) -> Result<Rules> {
    let late = if phase == Phase::Running { ALLOWED_AT_START } else { &[] };
    let mut all = conditional(needs)?;
    let other_register = vec![vec![is_not(1, REGISTER_IOWQ_AFF.into())?]];
    all.insert(libc::SYS_io_uring_register, rules(other_register)?);
    all.extend(of_access(needs.access)?);
    all.extend(of_sockets(needs)?);
    let own = needs.own();
    let others = INTRUDERS.iter().chain(INTRUDERS_OLD).chain(late).filter(|call| !own.contains(call));
    all.extend(others.map(|call| (*call, Vec::new())));
    Ok(all)
}

/// All calls that are on a list.
fn known() -> Result<Rules> {
    let lists = [ALLOWED, ALLOWED_OLD, ALLOWED_AT_START, INTRUDERS, INTRUDERS_OLD, PROCESSES].concat();
    let lists = [lists, vec![libc::SYS_clone3]].concat();
    let none = Needs::default();
    let conditional = [conditional(none)?, of_access(none.access)?, of_sockets(none)?];
    let conditional = conditional.into_iter().flat_map(Rules::into_keys);
    Ok(lists.into_iter().chain(conditional).map(|call| (call, Vec::new())).collect())
}

/// Calls that make a process, not a thread.
fn processes() -> Result<Rules> {
    let mut all: Rules = PROCESSES.iter().map(|call| (*call, Vec::new())).collect();
    let no_thread = without_bits(0, libc::CLONE_THREAD as u64)?;
    all.insert(libc::SYS_clone, rules(vec![vec![no_thread]])?);
    Ok(all)
}

fn rules(chains: Vec<Vec<SeccompCondition>>) -> Result<Vec<SeccompRule>> {
    chains.into_iter().map(|conditions| SeccompRule::new(conditions).map_err(defect)).collect()
}

fn is_not(argument: u8, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value).map_err(defect)
}

fn is(argument: u8, value: u64) -> Result<SeccompCondition> {
    has(argument, u64::from(u32::MAX), value)
}

fn is_not_null(argument: u8) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0).map_err(defect)
}

fn has_bits(argument: u8, bits: u64) -> Result<SeccompCondition> {
    has(argument, bits, bits)
}

fn without_bits(argument: u8, bits: u64) -> Result<SeccompCondition> {
    has(argument, bits, 0)
}

/// The bits of `mask` are `value`.
fn has(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
        .map_err(defect)
}

fn defect(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new("compile a filter of system calls", io::Error::other(error))
}

/// A program that does `matching` for the calls that match `rules`, and `other` for all others.
fn program(rules: Rules, matching: SeccompAction, other: SeccompAction) -> Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().map_err(defect)?;
    let filter = SeccompFilter::new(rules, other, matching, architecture).map_err(defect)?;
    filter.try_into().map_err(|error: seccompiler::BackendError| defect(error))
}

/// The programs of a phase. The kernel runs all of them for a call and takes the strictest result.
fn programs(phase: Phase, needs: Needs) -> Result<[BpfProgram; 3]> {
    let fails = |errno: i32| SeccompAction::Errno(errno as u32);
    Ok([
        program(known()?, SeccompAction::Allow, fails(libc::ENOSYS))?,
        program(processes()?, fails(libc::EPERM), SeccompAction::Allow)?,
        program(intruders(phase, needs)?, SeccompAction::Trap, SeccompAction::Allow)?,
    ])
}

/// Restricts all threads to the calls of `phase` and to `needs`, for good.
pub(super) fn restrict(phase: Phase, needs: Needs) -> Result<()> {
    let programs = programs(phase, needs)?;
    // Each start of a thread tries clone3(2) first, which need not be in the audit log.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = program(clone3, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)?;
    listen()?;
    install(&clone3, 0)?;
    // Refused calls go to the audit log.
    programs.iter().try_for_each(|program| install(program, libc::SECCOMP_FILTER_FLAG_LOG))
}

/// Installs a program in all threads.
fn install(program: &BpfProgram, flags: libc::c_ulong) -> Result<()> {
    let tried = "restrict system calls";
    let len = u16::try_from(program.len()).map_err(|_| Error::new(tried, io::ErrorKind::OutOfMemory))?;
    let filter = program.as_ptr().cast::<sock_filter>().cast_mut();
    let program = sock_fprog { len, filter };
    // Without SPEC_ALLOW kernels before 5.16 slow down all loads of the process.
    let flags = flags | libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel copies a program of `len` instructions, which have the layout of `struct sock_filter` and
    // outlive the call.
    match unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    } {
        0 => Ok(()),
        -1 => Err(Error::last(tried)),
        thread => {
            Err(Error::new(tried, io::Error::other(format!("thread {thread} has a filter of its own"))))
        }
    }
}

/// Makes the kernel refuse any further filter (EINVAL).
#[cfg(test)]
pub(super) fn refuse_filters() -> Result<()> {
    let seccomp = Rules::from([(libc::SYS_seccomp, Vec::new())]);
    install(&program(seccomp, SeccompAction::Errno(libc::EINVAL as u32), SeccompAction::Allow)?, 0)
}

/// The number of refused calls: added to by the handler in any thread, read at the end. Relaxed: a count.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// The first one, or -1. Written once by the handler, read at the end. Relaxed: a number by itself.
static FIRST_REFUSED: AtomicI64 = AtomicI64::new(-1);

/// The number of refused calls, and the system call number of the first one.
pub(super) fn refused() -> (u64, i64) {
    (REFUSED.load(Ordering::Relaxed), FIRST_REFUSED.load(Ordering::Relaxed))
}

/// Installs the handler of SIGSYS, which the kernel sends to a thread instead of a refused call.
fn listen() -> Result<()> {
    // SAFETY: sigaction is plain data; all zero is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = refuse as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler uses atomics and its own context only.
    match unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(Error::last("install a signal handler")),
    }
}

/// `si_code` of a SIGSYS by a filter (asm-generic/siginfo.h). A process can send no signal with this code to another
/// one.
const SYS_SECCOMP: i32 = 1;

/// Has the refused call return an errno. A SIGSYS that a process has sent belongs to no call: it changes nothing and is
/// not counted.
extern "C" fn refuse(_signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a handler with SA_SIGINFO a siginfo_t that lives until the handler returns.
    if unsafe { (*info).si_code } != SYS_SECCOMP {
        return;
    }
    // SAFETY: the kernel passes a handler with SA_SIGINFO the context of the thread, a ucontext_t that lives until
    // the handler returns, and that nothing else refers to.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // The kernel leaves the registers as they were at the call.
    #[cfg(target_arch = "x86_64")]
    let (call, result) = {
        let result = &mut context.uc_mcontext.gregs[libc::REG_RAX as usize];
        (*result, result)
    };
    #[cfg(target_arch = "aarch64")]
    let (call, result) = (context.uc_mcontext.regs[8] as i64, &mut context.uc_mcontext.regs[0]);
    *result = -i64::from(libc::EPERM) as _;
    REFUSED.fetch_add(1, Ordering::Relaxed);
    let _ = FIRST_REFUSED.compare_exchange(-1, call, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_contradicts_another() {
        let allowed = [ALLOWED, ALLOWED_OLD].concat();
        let all_needs = Needs {
            binds: true,
            connects: true,
            sends_datagrams: true,
            sends_frames: true,
            makes_folders: true,
            draws: true,
            loads_programs: true,
            ..Needs::default()
        };
        for (phase, needs) in [Phase::Starting, Phase::Running]
            .into_iter()
            .flat_map(|phase| [Needs::default(), all_needs].map(|needs| (phase, needs)))
        {
            let refused = intruders(phase, needs).unwrap();
            let both: Vec<_> = allowed.iter().filter(|call| refused.contains_key(call)).collect();
            assert!(both.is_empty(), "{both:?}");
            let is_refused = |call: &&c_long| refused.get(call).is_some_and(Vec::is_empty);
            let late = ALLOWED_AT_START.iter().filter(is_refused).count();
            assert_eq!(late, if phase == Phase::Running { ALLOWED_AT_START.len() } else { 0 });
            let own = [libc::SYS_connect, libc::SYS_mkdirat, libc::SYS_bpf, libc::SYS_sendmmsg];
            assert!(own.iter().all(|call| refused.contains_key(call) != (needs == all_needs)));
            // In pthread_create(3) signals are blocked, so nothing there may be refused by one.
            assert!([libc::SYS_clone, libc::SYS_rseq].iter().all(|call| !refused.contains_key(call)));
            for program in programs(phase, needs).unwrap() {
                assert!(program.len() < libc::BPF_MAXINSNS as usize, "{} instructions", program.len());
            }
        }
    }
}
