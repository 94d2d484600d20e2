//! A BPF link: an XDP program on an interface while a descriptor is open, so that it never outlives its process.

use super::Program;
use super::sys::{self, LinkCreate};
use crate::Result;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// `BPF_XDP` (linux/bpf.h).
const BPF_XDP: u32 = 37;
/// linux/if_link.h.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The place in the kernel at which an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpHook {
    /// In the driver, before the kernel makes an skb.
    Native,
    /// In the stack, on skbs: slower, with any driver.
    Generic,
}

/// A program on an interface. Dropping it detaches the program, and so does the end of the process.
#[derive(Debug)]
pub struct XdpLink {
    _fd: OwnedFd,
}

impl XdpLink {
    /// Attaches a program to an interface, which must have none.
    ///
    /// # Errors
    /// EBUSY or EEXIST when it has one; EOPNOTSUPP when its driver runs no XDP programs.
    pub fn attach(program: &Program, ifindex: u32, name: &str, hook: XdpHook) -> Result<Self> {
        let mut attr = LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type: BPF_XDP,
            flags: match hook {
                XdpHook::Native => XDP_FLAGS_DRV_MODE,
                XdpHook::Generic => XDP_FLAGS_SKB_MODE,
            },
        };
        // SAFETY: these attributes hold no addresses, and BPF_LINK_CREATE returns a new descriptor.
        let fd = unsafe {
            sys::bpf_fd(sys::BPF_LINK_CREATE, &mut attr, || format!("attach an XDP program to {name}"))
        }?;
        Ok(Self { _fd: fd })
    }
}
