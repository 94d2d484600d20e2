//! AF_PACKET: what arrives on an interface, as the kernel hands it over.
//!
//! [`RxRing`] is a TPACKET_V3 receive ring; [`block`] reads the blocks in it. The order of set-up
//! is fixed by the type: filter, ring and time stamps are all in place before the socket is bound,
//! so no packet can slip in that the plan did not ask for. [`CountingTap`] counts what others capture,
//! [`TxSocket`] sends, and [`TxRing`] does by a ring in shared memory. [`Receiver`] is the slow way in: a system call
//! for each packet. [`RxSlots`] is for whoever cannot wait for a block to be full.

pub mod block;
mod promiscuous;
mod receive;
mod ring;
mod rx_slots;
mod slots;
pub(crate) mod socket;
mod tap;
mod tx;
mod tx_ring;

pub use promiscuous::Promiscuous;
pub use receive::Receiver;
pub use ring::{RingPlan, RxRing, Wake};
pub use rx_slots::{Arrival, RxSlots};
pub use socket::{KernelDrops, TimeSource};
pub use tap::{CountingTap, has_listener};
pub use tx::{BATCH_FRAMES, Qdisc, TxSocket};
pub use tx_ring::TxRing;

/// One instruction of classic BPF (`struct sock_filter`, linux/filter.h).
pub type Insn = libc::sock_filter;

/// The program that lets nothing in.
pub const REJECT_ALL: Insn = ret(0);

/// The program that accepts everything, cut to `snaplen` bytes.
pub const fn accept(snaplen: u32) -> Insn {
    ret(snaplen)
}

const fn ret(k: u32) -> Insn {
    Insn { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k }
}
