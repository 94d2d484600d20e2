//! bpf(2): array maps shared with user space, programs, and runs on live frames.
//!
//! Programs are written with [`asm`]; this module loads and runs them and never interprets them. Attributes
//! follow `union bpf_attr` in linux/bpf.h (6.18); the kernel accepts shorter ones.

pub mod asm;
mod map;
mod prog;
mod sys;

pub use map::ArrayMap;
pub use prog::{LiveRun, Program};

/// Number of `long bpf_clone_redirect(struct sk_buff *, u32 ifindex, u64 flags)`: sends a copy from another
/// interface.
pub const HELPER_CLONE_REDIRECT: i32 = 13;
/// Return value of a tc program: the frame continues (`TC_ACT_OK`, linux/pkt_cls.h).
pub const TC_ACT_OK: i32 = 0;
/// Number of the helper `u64 bpf_ktime_get_ns(void)`: CLOCK_MONOTONIC, ns.
pub const HELPER_KTIME_GET_NS: i32 = 5;
/// Number of `long bpf_redirect(u32 ifindex, u64 flags)`: returns XDP_REDIRECT, for an XDP program to return.
pub const HELPER_REDIRECT: i32 = 23;
/// Number of `long bpf_xdp_adjust_tail(struct xdp_buff *, int delta)`: 0, or an error.
pub const HELPER_XDP_ADJUST_TAIL: i32 = 65;
/// Number of `long bpf_xdp_store_bytes(struct xdp_buff *, u32 offset, void *buf, u32 len)`: 0, or an
/// error (Linux 5.18).
pub const HELPER_XDP_STORE_BYTES: i32 = 190;
/// Return value of an XDP program: drop the frame.
pub const XDP_DROP: i32 = 1;
/// Return value of an XDP program: pass the frame to the stack.
pub const XDP_PASS: i32 = 2;
/// Offset of `data` in `struct xdp_md`: the start of the frame, 32 bits.
pub const XDP_MD_DATA: usize = 0;
/// Offset of `data_end` in `struct xdp_md`: the end of the frame, 32 bits.
pub const XDP_MD_DATA_END: usize = 4;
