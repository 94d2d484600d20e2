//! Talking to Linux: rings, sockets, BPF, io_uring, namespaces, CPUs.
//!
//! This crate holds **all** the `unsafe` of quaff. It hands out safe types that keep the kernel's
//! rules, and it does not know what a packet means: that is `quaff-wire`'s business.
//! Words follow the kernel's (block, frame, tci, tpid), so that its documentation stays valid here.

pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod disk;
pub mod error;
pub mod ethtool;
pub mod filter;
pub mod gauge;
pub mod interrupt;
pub mod machine;
pub mod mem;
pub mod netns;
pub mod packet;
pub mod pipe;
pub mod probe;
pub mod process;
pub mod rtnl;
mod shared;
pub mod signal;
pub mod stats;
pub mod stop;
pub mod terminal;
pub mod testing;
pub mod topology;
pub mod wakeup;
pub mod xdp;

pub use error::{Error, Result, Try};
pub use nix::errno::Errno;
