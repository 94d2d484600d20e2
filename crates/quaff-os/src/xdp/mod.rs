//! AF_XDP sockets that send (Documentation/networking/af_xdp.rst).
//!
//! [`XdpTx`] is one socket on one queue of an interface, with memory of its own (UMEM). Where the
//! driver can, it sends frames from where they lie (zero-copy); elsewhere the kernel copies them.
//! Nothing is received, and no XDP program is attached. [`xdp_features`] asks what a driver can do.

mod features;
mod ring;
mod socket;
mod tx;
mod umem;

pub use features::{XdpFeatures, xdp_features};
pub use tx::{FRAME_BYTES_MAX, XdpMode, XdpTx};
