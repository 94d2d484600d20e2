//! A BPF link: an XDP program on an interface while a descriptor is open, so that it never outlives its process.

use super::Program;
use super::sys::{self, ById, LinkCreate, LinkDetach, LinkUpdate, read_info};
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

/// Detaches the link of a loaded program of any process, or gives the link another program, as 'bpftool link detach'
/// and managers of XDP programs do. The owner of the link receives no notice. Needs CAP_SYS_ADMIN.
///
/// # Errors
/// ENOENT when no link has the program.
pub fn take_over(program_id: u32, by: Option<&Program>) -> Result<()> {
    let link = link_of(program_id)?;
    let link_fd = link.as_raw_fd() as u32;
    let tried = || format!("take the link of the BPF program with ID {program_id}");
    let done = match by {
        Some(program) => {
            let new_prog_fd = program.as_fd().as_raw_fd() as u32;
            let mut attr = LinkUpdate { link_fd, new_prog_fd, ..LinkUpdate::default() };
            // SAFETY: these attributes hold no addresses.
            unsafe { sys::bpf(sys::BPF_LINK_UPDATE, &mut attr, tried) }
        }
        None => {
            let mut attr = LinkDetach { link_fd };
            // SAFETY: these attributes hold no addresses.
            unsafe { sys::bpf(sys::BPF_LINK_DETACH, &mut attr, tried) }
        }
    };
    done.map(drop)
}

/// The link that has a program.
fn link_of(program_id: u32) -> Result<OwnedFd> {
    /// Bytes of `struct bpf_link_info` up to `prog_id`, its third word.
    const PROGRAM: std::ops::Range<usize> = 8..12;
    let tried = || format!("find the link of the BPF program with ID {program_id}");
    let mut id = 0;
    loop {
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: these attributes hold no addresses; the call sets one of them.
        unsafe { sys::bpf(sys::BPF_LINK_GET_NEXT_ID, &mut attr, tried) }?;
        id = attr.next_id;
        let mut attr = ById { id, ..ById::default() };
        // SAFETY: these attributes hold no addresses, and the command returns a new descriptor.
        let opened = unsafe { sys::bpf_fd(sys::BPF_LINK_GET_FD_BY_ID, &mut attr, tried) };
        let fd = match opened {
            // Closed meanwhile.
            Err(error) if error.raw() == libc::ENOENT => continue,
            opened => opened?,
        };
        let info: [u8; PROGRAM.end] = read_info(&fd, tried)?;
        if info[PROGRAM] == program_id.to_ne_bytes() {
            return Ok(fd);
        }
    }
}
