//! tcpdump filters (`-f`) as compiled by libpcap (classic BPF): run on frames, and relocated so that the kernel decides
//! about frames inside tunnels (`--inner`).
//!
//! A [`Program`] is verified once and then run per frame. It decides as `tcpdump -r` would on a file with that frame.
//! Where that differs from the kernel's arithmetic (an indirect load that wraps, a shift by 32 or more), programs by
//! [`relocate`] still decide as tcpdump does. Expressions are compiled by libpcap, in `quaff-os`.

mod asm;
mod by_addresses;
mod insn;
mod layout_match;
mod program;
mod relocate;
mod run;
mod with_tag;

pub use by_addresses::by_addresses;
pub use insn::Insn;
pub use layout_match::TunnelLayout;
pub use program::{Program, ProgramError};
pub use relocate::{NotRelocatable, Relocated, Relocation, relocate};
pub use run::Subject;
pub use with_tag::{WithTag, reads_tag, with_tag};
