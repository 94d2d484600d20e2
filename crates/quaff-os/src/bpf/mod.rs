//! bpf(2): array maps shared with user space, programs, and runs on live frames.
//!
//! Programs are written with [`Asm`]; this module loads and runs them and never interprets them. Attributes
//! follow `union bpf_attr` in linux/bpf.h (6.18); the kernel accepts shorter ones.

mod asm;
mod by_id;
mod link;
mod map;
mod prog;
mod ring_buffer;
mod socket_map;
mod sys;

pub use asm::{Alu, Asm, Helper, Jmp, Label, Operand, Reg, Size, Verdict};
pub(crate) use by_id::{program_maps, program_name};
pub use link::{XdpHook, XdpLink, take_over};
pub use map::ArrayMap;
pub use prog::{LiveRun, Program};
pub use ring_buffer::{Record, RingMap, RingReader};
pub use socket_map::SocketMap;
