//! The method of receiving packets from interfaces, and the rule by which they are distributed over lanes.

use std::fmt;

/// The rule by which the packets of an interface are distributed over its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The kernel's flow hash of addresses and ports. Fragments have no ports, and may go to another lane.
    Hash,
    /// The receive queue of the adapter.
    Queue,
    /// The core that receives the packet.
    Cpu,
    /// The IP addresses: fragments, and both directions, are in one lane. For other packets, the MAC addresses.
    Addresses,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "hash",
            Self::Queue => "queue",
            Self::Cpu => "cpu",
            Self::Addresses => "addresses",
        })
    }
}

/// The method of receiving packets from interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Via {
    /// AF_PACKET: a copy of each packet, which the host receives as well.
    #[default]
    Packet,
    /// AF_XDP, in the driver where that runs XDP programs, else in the stack. The host does not receive the packets.
    Xdp,
    /// AF_XDP in the stack, whatever the driver.
    XdpGeneric,
    /// The ring of the XDP program of a tap, which the tap has attached.
    Tap,
}

impl Via {
    /// Returns whether an XDP program delivers the packets.
    pub(crate) fn is_xdp(self) -> bool {
        self != Self::Packet
    }
}
