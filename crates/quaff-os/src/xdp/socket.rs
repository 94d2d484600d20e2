//! The AF_XDP socket: one function for each socket option (linux/if_xdp.h).

use super::ring::Layout;
use super::umem::Umem;
use crate::shared_memory::SharedMemory;
use crate::{Error, Result, packet};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `XDP_MAX_TX_SKB_BUDGET` (Linux 6.17): frames that one call sends in copy mode; 32 in older kernels.
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;

pub(super) fn open() -> Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = Error::last("open an AF_XDP socket");
        return Err(match error.raw() {
            libc::EPERM => error.advise("CAP_NET_RAW is missing: run as root"),
            libc::EAFNOSUPPORT => error.advise("this kernel was built without AF_XDP (CONFIG_XDP_SOCKETS)"),
            _ => error,
        });
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// XDP_UMEM_REG: the kernel pins the pages until the socket is closed.
pub(super) fn register(fd: &OwnedFd, umem: &Umem) -> Result<()> {
    register_memory(fd, umem.memory(), umem.chunk_bytes(), 0)
}

/// XDP_UMEM_REG of any memory: `headroom` bytes of each chunk stay free before what the kernel keeps free itself.
pub(super) fn register_memory(fd: &OwnedFd, memory: &[u8], chunk_bytes: usize, headroom: u32) -> Result<()> {
    let request = libc::xdp_umem_reg {
        addr: memory.as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: chunk_bytes as u32,
        headroom,
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

/// Creates the transmit ring and the completion ring, and the fill ring, which is mandatory although nothing is
/// received.
pub(super) fn make_rings(
    fd: &OwnedFd,
    tx_count: u32,
    completion_count: u32,
) -> Result<(SharedMemory, Layout, SharedMemory, Layout)> {
    set(fd, libc::XDP_UMEM_FILL_RING, &2u32, "create the fill ring of an AF_XDP socket")?;
    set(
        fd,
        libc::XDP_UMEM_COMPLETION_RING,
        &completion_count,
        "create the completion ring of an AF_XDP socket",
    )?;
    set(fd, libc::XDP_TX_RING, &tx_count, "create the transmit ring of an AF_XDP socket")?;
    // SAFETY: xdp_mmap_offsets is plain data; all zero is a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets, "read the ring offsets of an AF_XDP socket")?;
    let tx = layout(&offsets.tx, tx_count);
    let completion = layout(&offsets.cr, completion_count);
    let map = |layout: &Layout, entry_bytes: usize, offset: u64, what: &str| {
        SharedMemory::map(fd, layout.entries + layout.count as usize * entry_bytes, offset as i64, what)
    };
    let tx_memory = map(&tx, size_of::<libc::xdp_desc>(), libc::XDP_PGOFF_TX_RING as u64, "a transmit ring")?;
    let completion_memory =
        map(&completion, size_of::<u64>(), libc::XDP_UMEM_PGOFF_COMPLETION_RING, "a completion ring")?;
    Ok((tx_memory, tx, completion_memory, completion))
}

/// Creates the receive ring and the fill ring of `count` entries, and the completion ring, which is mandatory although
/// nothing is sent.
pub(super) fn make_receive_rings(
    fd: &OwnedFd,
    count: u32,
) -> Result<(SharedMemory, Layout, SharedMemory, Layout)> {
    set(fd, libc::XDP_UMEM_FILL_RING, &count, "create the fill ring of an AF_XDP socket")?;
    set(fd, libc::XDP_UMEM_COMPLETION_RING, &2u32, "create the completion ring of an AF_XDP socket")?;
    set(fd, libc::XDP_RX_RING, &count, "create the receive ring of an AF_XDP socket")?;
    // SAFETY: xdp_mmap_offsets is plain data; all zero is a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets, "read the ring offsets of an AF_XDP socket")?;
    let (rx, fill) = (layout(&offsets.rx, count), layout(&offsets.fr, count));
    let bytes = |layout: &Layout, entry_bytes: usize| layout.entries + layout.count as usize * entry_bytes;
    let rx_bytes = bytes(&rx, size_of::<libc::xdp_desc>());
    let rx_memory = SharedMemory::map(fd, rx_bytes, libc::XDP_PGOFF_RX_RING, "a receive ring")?;
    let fill_offset = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
    let fill_memory = SharedMemory::map(fd, bytes(&fill, size_of::<u64>()), fill_offset, "a fill ring")?;
    Ok((rx_memory, rx, fill_memory, fill))
}

/// XDP_STATISTICS: the counts since the socket was opened.
pub(super) fn statistics(fd: &OwnedFd) -> Result<libc::xdp_statistics> {
    // SAFETY: xdp_statistics is plain data; all zero is a valid value.
    let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_STATISTICS, &mut found, "read the statistics of an AF_XDP socket")?;
    Ok(found)
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
                libc::EBUSY => error.advise("another AF_XDP socket uses that queue"),
                _ => error,
            })
        }
    }
}

/// Sets the bytes of frames that may be queued at the driver, up to the kernel's limit; applies to copy mode.
pub(super) fn set_send_buffer(fd: &OwnedFd, bytes: usize) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    if packet::socket::set_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes, "").is_err() {
        // Without CAP_NET_ADMIN at most wmem_max; a smaller buffer only delays frames.
        let _ = packet::socket::set_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes, "");
    }
}

/// Sets the number of frames that one call sends in copy mode; older kernels ignore it.
pub(super) fn set_budget(fd: &OwnedFd, frames: u32) {
    let _ = set(fd, XDP_MAX_TX_SKB_BUDGET, &frames, "");
}

fn set<T>(fd: &OwnedFd, option: i32, value: &T, tried: &str) -> Result<()> {
    packet::socket::set_at(fd, libc::SOL_XDP, option, value, tried)
}

fn get<T>(fd: &OwnedFd, option: i32, value: &mut T, tried: &str) -> Result<()> {
    packet::socket::get(fd, libc::SOL_XDP, option, value, tried)
}
