//! The interface to Linux: packet rings, sockets, BPF, io_uring, namespaces, CPUs.
//!
//! This crate holds **all** `unsafe` code of quaff, behind safe types that keep the kernel's rules. It
//! never interprets packets: that is the task of `quaff-wire`. Names follow the kernel's (block, frame,
//! tci, tpid), so that its documentation applies here.

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod disk;
pub mod error;
pub mod ethtool;
pub mod filter;
pub mod gauge;
pub mod interrupt;
pub mod link_counters;
pub mod machine;
pub mod mem;
pub mod netns;
pub mod packet;
pub mod pipe;
pub mod probe;
pub mod process;
pub mod rtnl;
mod shared_memory;
pub mod signal;
pub mod stop;
pub mod terminal;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod topology;
pub mod wakeup;
pub mod xdp;

pub use error::{Error, Result, Try};
pub use nix::errno::Errno;
