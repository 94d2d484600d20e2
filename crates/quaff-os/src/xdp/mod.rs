//! AF_XDP sockets for sending (Documentation/networking/af_xdp.rst).
//!
//! [`XdpTx`] is one socket on one queue of an interface, with its own memory (UMEM). The driver sends frames
//! in place where it supports that (zero-copy); otherwise the kernel copies them. Receives nothing and attaches
//! no XDP program. [`takes_redirected`] reads a feature of a driver.

mod features;
mod ring;
mod socket;
mod tx;
mod umem;

pub use features::takes_redirected;
pub use tx::{FRAME_BYTES_MAX, XdpMode, XdpTx};
