//! AF_XDP sockets for sending (Documentation/networking/af_xdp.rst).
//!
//! [`XdpTx`] is one socket on one queue of an interface, with its own memory (UMEM). The driver sends frames
//! in place where it supports that (zero-copy); otherwise the kernel copies them. Receives nothing and attaches
//! no XDP program. [`xdp_features`] reads the features of a driver.

mod features;
mod ring;
mod socket;
mod tx;
mod umem;

pub use features::{XdpFeatures, xdp_features};
pub use tx::{FRAME_BYTES_MAX, XdpMode, XdpTx};
