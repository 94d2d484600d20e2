//! AF_PACKET sockets (packet(7)): receive and send frames of one interface.
//!
//! | type | purpose |
//! |---|---|
//! | [`RxRing`] | TPACKET_V3 receive ring; [`Cursor`] parses its blocks |
//! | [`Fanout`] | several rings on one interface, among which the kernel spreads its packets |
//! | [`Receiver`] | one recvfrom(2) for each packet |
//! | [`CountingTap`] | counts packets without receiving them |
//! | [`TxSocket`], [`TxRing`] | send by sendmmsg(2), or by a transmit ring |
//!
//! Filter, ring and time stamps are set before a socket is bound, so no unwanted packet gets in.

mod adapter_clock;
mod block;
mod fanout;
mod receive;
mod ring;
pub(crate) mod socket;
mod sockets;
mod tap;
mod tx;
mod tx_ring;
mod tx_slots;

pub(crate) use adapter_clock::AdapterClock;
pub use block::{Cursor, Packet};
pub use fanout::{Fan, Fanout};
pub use receive::Receiver;
pub use ring::{RingPlan, RxRing, WaitOutcome};
pub use socket::{DownWatch, PacketStats, Qdisc, TimeSource, hold_promiscuous};
pub use sockets::{PacketSocket, packet_sockets};
pub use tap::CountingTap;
pub(crate) use tx::wait_until_sent;
pub use tx::{BATCH_FRAMES, TxCounts, TxSocket};
pub use tx_ring::TxRing;

/// One instruction of classic BPF (`struct sock_filter`, linux/filter.h).
pub type Insn = libc::sock_filter;

/// The program that rejects every packet.
pub(crate) const REJECT_ALL: Insn = ret(0);

/// The program that accepts every packet, truncated to `snaplen` bytes.
pub const fn accept(snaplen: u32) -> Insn {
    ret(snaplen)
}

const fn ret(k: u32) -> Insn {
    Insn { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k }
}
