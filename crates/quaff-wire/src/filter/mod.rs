//! tcpdump filters as libpcap compiles them (classic BPF): run on a frame, and moved so that the
//! kernel decides about what is inside a tunnel.
//!
//! A [`Program`] is verified once and then run per frame. It decides as `tcpdump -r` would on a file
//! with that frame in it. Where that differs from the kernel's arithmetic (an indirect load that
//! wraps, a shift by 32 or more), [`moved`] writes programs that decide as tcpdump all the same.
//! Nothing here compiles expressions: that is libpcap's work, in `quaff-os`.

mod asm;
mod guard;
mod insn;
mod moved;
mod program;
mod run;

pub use guard::{Layout, Layouts};
pub use insn::Insn;
pub use moved::{INSNS_MAX, Moved, Moving, NotMovable, moved};
pub use program::{Program, Refused};
pub use run::{Ancillary, Subject};
