//! The AF_XDP socket: each socket option is one function (linux/if_xdp.h).

use super::ring::Layout;
use super::umem::Umem;
use crate::shared::Shared;
use crate::{Error, Result};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames that one call sends when the kernel copies, 32 before.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

pub(super) fn open() -> Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = Error::last("open an AF_XDP socket");
        return Err(match error.raw() {
            libc::EPERM => error.advise("CAP_NET_RAW is missing: run as root"),
            libc::EAFNOSUPPORT => error.advise("this kernel was built without AF_XDP"),
            _ => error,
        });
    }
    // SAFETY: the descriptor was just returned and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// XDP_UMEM_REG: the kernel pins the pages, and keeps them until the socket is gone.
pub(super) fn register(fd: &OwnedFd, umem: &Umem) -> Result<()> {
    let memory = umem.memory();
    let request = libc::xdp_umem_reg {
        addr: memory.as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: umem.chunk_bytes() as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set(fd, libc::XDP_UMEM_REG, &request, "register memory with an AF_XDP socket").map_err(
        |error| match error.raw() {
            libc::ENOBUFS => error.advise("raise 'ulimit -l' or give CAP_IPC_LOCK"),
            _ => error,
        },
    )
}

/// Makes the ring of descriptors to send and that of addresses done with; the fill ring, for which
/// there is no use, has to be there too.
pub(super) fn make_rings(
    fd: &OwnedFd,
    tx_count: u32,
    completion_count: u32,
) -> Result<(Shared, Layout, Shared, Layout)> {
    set(fd, libc::XDP_UMEM_FILL_RING, &2u32, "make the fill ring of an AF_XDP socket")?;
    set(
        fd,
        libc::XDP_UMEM_COMPLETION_RING,
        &completion_count,
        "make the completion ring of an AF_XDP socket",
    )?;
    set(fd, libc::XDP_TX_RING, &tx_count, "make the transmit ring of an AF_XDP socket")?;
    // SAFETY: xdp_mmap_offsets is plain data; all zero is a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets, "ask where an AF_XDP socket's rings are")?;
    let tx = layout(&offsets.tx, tx_count);
    let completion = layout(&offsets.cr, completion_count);
    let map = |layout: &Layout, entry_bytes: usize, offset: u64, what: &str| {
        Shared::map(fd, layout.entries + layout.count as usize * entry_bytes, offset as i64, what)
    };
    let tx_memory = map(&tx, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_TX_RING as u64, "a transmit ring")?;
    let completion_memory =
        map(&completion, size_of::<u64>(), libc::XDP_UMEM_PGOFF_COMPLETION_RING, "a completion ring")?;
    Ok((tx_memory, tx, completion_memory, completion))
}

fn layout(offset: &libc::xdp_ring_offset, count: u32) -> Layout {
    Layout {
        producer: offset.producer as usize,
        consumer: offset.consumer as usize,
        flags: offset.flags as usize,
        entries: offset.desc as usize,
        count,
    }
}

/// Binds to a queue of an interface; `flags` are `XDP_ZEROCOPY` or `XDP_COPY`.
pub(super) fn bind(fd: &OwnedFd, ifindex: u32, name: &str, queue: u32, flags: u16) -> Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let bytes = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of a valid sockaddr_xdp.
    match unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), bytes) } {
        0 => Ok(()),
        _ => {
            let error = Error::last(format!("bind an AF_XDP socket to queue {queue} of {name}"));
            Err(match error.raw() {
                libc::EBUSY => error.advise("another program has that queue"),
                _ => error,
            })
        }
    }
}

/// Lets the socket have so many bytes of frames with the driver, as far as the kernel permits; only
/// frames that it copies count.
pub(super) fn set_send_buffer(fd: &OwnedFd, bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    if set_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes, "").is_err() {
        // Without CAP_NET_ADMIN there is an upper bound, and with less room frames only wait more often.
        let _ = set_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes, "");
    }
}

/// Has one call send up to `frames` frames when the kernel copies. Older kernels send 32.
pub(super) fn set_budget(fd: &OwnedFd, frames: u32) {
    let _ = set(fd, XDP_MAX_TX_SKB_BUDGET, &frames, "");
}

/// Descriptors that the kernel has thrown away (`xdp_statistics.tx_invalid_descs`).
pub(super) fn invalid(fd: &OwnedFd) -> Result<u64> {
    // SAFETY: xdp_statistics is plain data; all zero is a valid value.
    let mut stats: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_STATISTICS, &mut stats, "read the statistics of an AF_XDP socket")?;
    Ok(stats.tx_invalid_descs)
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T, tried: &str) -> Result<()> {
    set_at(fd, libc::SOL_XDP, option, value, tried)
}

fn set_at<T>(fd: &OwnedFd, level: i32, option: i32, value: &T, tried: &str) -> Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` bytes of `value`; each caller above passes the very type that
    // the option takes.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (value as *const T).cast(), bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}

fn get<T>(fd: &OwnedFd, option: i32, value: &mut T, tried: &str) -> Result<()> {
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let value = (value as *mut T).cast();
    // SAFETY: the kernel writes at most `bytes` bytes into `value`, whose type the option defines.
    match unsafe { libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, option, value, &mut bytes) } {
        0 => Ok(()),
        _ => Err(Error::last(tried)),
    }
}
