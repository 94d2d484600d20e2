//! The system call bpf(2) and its attributes, one structure for each command.

use crate::{Error, Result};
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub(super) const BPF_MAP_CREATE: i32 = 0;
pub(super) const BPF_MAP_UPDATE_ELEM: i32 = 2;
pub(super) const BPF_PROG_LOAD: i32 = 5;
pub(super) const BPF_PROG_RUN: i32 = 10;
pub(super) const BPF_PROG_GET_FD_BY_ID: i32 = 13;
pub(super) const BPF_MAP_GET_FD_BY_ID: i32 = 14;
pub(super) const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
pub(super) const BPF_LINK_CREATE: i32 = 28;
pub(super) const BPF_LINK_UPDATE: i32 = 29;
pub(super) const BPF_LINK_GET_FD_BY_ID: i32 = 30;
pub(super) const BPF_LINK_GET_NEXT_ID: i32 = 31;
pub(super) const BPF_LINK_DETACH: i32 = 34;
pub(super) const BPF_MAP_TYPE_ARRAY: u32 = 2;
pub(super) const BPF_MAP_TYPE_XSKMAP: u32 = 17;
pub(super) const BPF_MAP_TYPE_RINGBUF: u32 = 27;
pub(super) const BPF_F_MMAPABLE: u32 = 1 << 10;
pub(super) const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
pub(super) const BPF_PROG_TYPE_XDP: u32 = 6;
pub(super) const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;

/// BPF_MAP_CREATE.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct MapCreate {
    pub(super) map_type: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) map_flags: u32,
    pub(super) inner_map_fd: u32,
    pub(super) numa_node: u32,
    pub(super) map_name: [u8; 16],
}

/// BPF_PROG_LOAD.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ProgLoad {
    pub(super) prog_type: u32,
    pub(super) insn_cnt: u32,
    pub(super) insns: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log_buf: u64,
    pub(super) kern_version: u32,
    pub(super) prog_flags: u32,
    pub(super) prog_name: [u8; 16],
}

/// BPF_PROG_RUN (BPF_PROG_TEST_RUN).
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ProgRun {
    pub(super) prog_fd: u32,
    pub(super) retval: u32,
    pub(super) data_size_in: u32,
    pub(super) data_size_out: u32,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    pub(super) repeat: u32,
    pub(super) duration: u32,
    pub(super) ctx_size_in: u32,
    pub(super) ctx_size_out: u32,
    pub(super) ctx_in: u64,
    pub(super) ctx_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
    pub(super) batch_size: u32,
    pub(super) padding: u32,
}

/// BPF_MAP_UPDATE_ELEM.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct MapUpdate {
    pub(super) map_fd: u32,
    pub(super) padding: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

/// BPF_LINK_CREATE of a program on an interface.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LinkCreate {
    pub(super) prog_fd: u32,
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
}

/// BPF_LINK_UPDATE: gives a link another program.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LinkUpdate {
    pub(super) link_fd: u32,
    pub(super) new_prog_fd: u32,
    pub(super) flags: u32,
    pub(super) old_prog_fd: u32,
}

/// BPF_LINK_DETACH.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct LinkDetach {
    pub(super) link_fd: u32,
}

/// BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_LINK_GET_FD_BY_ID; BPF_LINK_GET_NEXT_ID, which sets `next_id`.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ById {
    pub(super) id: u32,
    pub(super) next_id: u32,
    pub(super) open_flags: u32,
}

/// BPF_OBJ_GET_INFO_BY_FD.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct InfoByFd {
    pub(super) bpf_fd: u32,
    pub(super) info_len: u32,
    pub(super) info: u64,
}

/// `struct xdp_md`, the context of a run.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct XdpMd {
    pub(super) data: u32,
    pub(super) data_end: u32,
    pub(super) data_meta: u32,
    pub(super) ingress_ifindex: u32,
    pub(super) rx_queue_index: u32,
    pub(super) egress_ifindex: u32,
}

/// Attributes of one command: plain data without implicit padding.
pub(super) trait Attr {}
impl Attr for MapCreate {}
impl Attr for ProgLoad {}
impl Attr for ProgRun {}
impl Attr for MapUpdate {}
impl Attr for LinkCreate {}
impl Attr for LinkUpdate {}
impl Attr for LinkDetach {}
impl Attr for ById {}
impl Attr for InfoByFd {}

/// bpf(2); `tried` names the operation in an error.
///
/// # Safety
/// Every address in `attr` must be valid for as many bytes as its size field says, for reading or
/// writing as the command does, until the call returns.
pub(super) unsafe fn bpf<A: Attr>(command: i32, attr: &mut A, tried: impl FnOnce() -> String) -> Result<i32> {
    // SAFETY: `attr` is a repr(C) structure of its own size; the caller vouches for the addresses in it.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr as *mut A, size_of::<A>()) };
    if result >= 0 {
        return Ok(result as i32);
    }
    let error = Error::last(tried());
    Err(match error.raw() {
        libc::EPERM => error.advise("run as root, or grant CAP_BPF and CAP_NET_ADMIN"),
        libc::ENOSYS => error.advise("this kernel does not support bpf(2)"),
        _ => error,
    })
}

/// As [`bpf`], for commands whose result is a new descriptor.
///
/// # Safety
/// As [`bpf`]; and `command` must be one that returns a descriptor which nothing else owns.
pub(super) unsafe fn bpf_fd<A: Attr>(
    command: i32,
    attr: &mut A,
    tried: impl FnOnce() -> String,
) -> Result<OwnedFd> {
    // SAFETY: the caller vouches for the addresses in `attr`, and that the result is a new descriptor.
    unsafe { bpf(command, attr, tried).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// A name in the kernel's format: at most 15 bytes, NUL-terminated.
pub(super) fn name(text: &str) -> [u8; 16] {
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().take(15).zip(text.bytes()) {
        *to = from;
    }
    out
}

/// The first `BYTES` of the kernel's description of a program or a link (`struct bpf_prog_info`, `struct
/// bpf_link_info`).
pub(super) fn read_info<const BYTES: usize>(
    fd: &OwnedFd,
    tried: impl FnOnce() -> String,
) -> Result<[u8; BYTES]> {
    let mut info = [0u8; BYTES];
    let mut attr = InfoByFd {
        bpf_fd: fd.as_raw_fd() as u32,
        info_len: info.len() as u32,
        info: info.as_mut_ptr() as u64,
    };
    // SAFETY: `info` outlives the call, which writes at most its length; all zero asks for no further arrays.
    unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attr, tried) }?;
    Ok(info)
}
