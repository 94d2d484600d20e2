//! AF_XDP sockets (Documentation/networking/af_xdp.rst).
//!
//! | type | purpose |
//! |---|---|
//! | [`XdpTx`] | sends from one queue of an interface; attaches no XDP program |
//! | [`XdpRx`] | receives from one queue |
//! | [`XdpRedirect`] | the XDP program of an interface that counts frames and redirects them to sockets |
//! | [`XdpTap`] | the XDP program of a tap, which sends each frame by another interface and copies it to a ring |
//! | [`TapRing`], [`TapCounters`] | that ring, and the counts of the program, for the recorder |
//!
//! Each socket has its own memory (UMEM). The driver uses it in place where it supports that (zero-copy); otherwise the
//! kernel copies frames. [`takes_redirected`] reads a feature of a driver.

mod features;
mod redirect;
mod ring;
mod rx;
mod socket;
mod tap;
mod tx;
mod umem;

pub use features::takes_redirected;
pub use redirect::{XdpCounts, XdpRedirect};
pub use rx::{RX_FRAME_BYTES_MAX, XdpDrops, XdpFrame, XdpRx, chunk_bytes};
pub use tap::{TapCounters, TapRing, XdpTap, forwards_by_xdp};
pub use tx::{FRAME_BYTES_MAX, XdpMode, XdpTx};
