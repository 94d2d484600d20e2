//! A map of AF_XDP sockets (BPF_MAP_TYPE_XSKMAP), which an XDP program redirects frames to by receive queue.

use super::sys::{self, MapCreate, MapUpdate};
use crate::Result;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Sockets by receive queue. A closed socket leaves the map by itself.
#[derive(Debug)]
pub struct SocketMap {
    fd: OwnedFd,
}

impl SocketMap {
    /// Creates a map for queues 0 to `queues` - 1.
    pub fn new(name: &str, queues: u32) -> Result<Self> {
        let mut attr = MapCreate {
            map_type: sys::BPF_MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
            map_name: sys::name(name),
            ..MapCreate::default()
        };
        // SAFETY: these attributes hold no addresses, and BPF_MAP_CREATE returns a new descriptor.
        let fd = unsafe { sys::bpf_fd(sys::BPF_MAP_CREATE, &mut attr, || "create a map of sockets".into()) }?;
        Ok(Self { fd })
    }

    /// Sets the socket of a queue.
    ///
    /// # Errors
    /// E2BIG when the map has no such queue.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        let value = socket.as_raw_fd();
        let mut attr = MapUpdate {
            map_fd: self.fd.as_raw_fd() as u32,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            ..MapUpdate::default()
        };
        let tried = || format!("put the socket of queue {queue} into a map");
        // SAFETY: key and value outlive the call, which only reads them; the map has 4 bytes for each.
        unsafe { sys::bpf(sys::BPF_MAP_UPDATE_ELEM, &mut attr, tried) }.map(|_| ())
    }

    pub(super) fn raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}
