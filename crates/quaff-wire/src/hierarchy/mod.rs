//! The protocols of a frame, outermost first, as rows of a protocol hierarchy: link, network, transport, tunnels with
//! the frames in them, and the application of a packet by the first bytes of its payload or by its port.
//!
//! | module | task |
//! |---|---|
//! | `protocol` | the protocols, with Wireshark's names, and the path of a frame |
//! | `walk` | the path of any frame |
//! | `services` | applications by content and by port |
//!
//! Each packet is read by itself: nothing is reassembled, so later fragments and later segments of a message are what
//! their own bytes and ports say. Names are those of Wireshark where it has the protocol. Nothing here allocates.

mod protocol;
mod services;
mod walk;

pub use protocol::{Protocol, ProtocolPath};
pub use walk::{path, usual_path};
