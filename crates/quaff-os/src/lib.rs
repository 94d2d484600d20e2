//! The interface to Linux: packet rings, sockets, BPF, io_uring, namespaces, CPUs.
//!
//! This crate holds **all** `unsafe` code of quaff, behind safe types that keep the kernel's rules. It
//! never interprets packets: that is the task of `quaff-wire`. Names follow the kernel's (block, frame,
//! tci, tpid), so that its documentation applies here.

mod ancestors;
pub mod bpf;
pub mod clock;
pub mod cpu;
pub mod disk;
mod error;
pub mod ethtool;
mod filling;
pub mod filter;
mod gauge;
mod interrupt;
pub mod link_counters;
mod mem;
mod netns;
pub mod nic;
pub mod packet;
mod pipe;
pub mod privilege;
pub mod probe;
pub mod process;
pub mod rtnl;
pub mod sandbox;
mod shared_memory;
mod signal;
pub mod socket;
pub mod softnet;
mod stop;
mod terminal;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thread;
mod wakeup;
pub mod xdp;

pub use ancestors::{ProcessStat, ancestors};
pub use error::{Error, Result, Try};
pub use filling::{Cursor, Filling};
pub use gauge::Gauge;
pub use interrupt::Interrupt;
pub use mem::{Buffer, HUGE_BYTES, prefer_huge_pages, prefetch, prefetch_value};
pub use netns::Netns;
pub use nix::errno::Errno;
pub use pipe::queued_bytes;
pub use signal::{Signal, SignalInfo, Signals, is_ignored, survive_file_limit};
pub use stop::{Reason, Stop};
pub use terminal::{enter_raw_mode, leave_raw_mode, stderr_columns, terminal_columns, was_stdout_closed};
pub use thread::{spawn, spawn_in};
pub use wakeup::Wakeup;
