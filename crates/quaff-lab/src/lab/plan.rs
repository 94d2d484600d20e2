//! The plan of a lab: its ends, their addresses and names, and what is between them.

use std::net::Ipv4Addr;

/// One end of a lab's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabEnd {
    /// The interface.
    pub name: &'static str,
    /// Its hardware address, locally administered.
    pub mac: [u8; 6],
    /// Its address in the benchmark network.
    pub ip: Ipv4Addr,
    /// Prefix length of its network.
    pub prefix_bits: u8,
}

/// The end in the sending namespace.
pub const TX: LabEnd = LabEnd::new("tx0", 1);
/// The end in the receiving namespace.
pub const RX: LabEnd = LabEnd::new("rx0", 2);
/// The end in the second sending namespace, for a [`Layout`] with two.
pub const FAR: LabEnd = LabEnd::new("tx1", 3);
/// The ports of the middle namespace, for a [`Layout`] that has one: towards [`TX`], and towards [`FAR`].
pub const MIDDLE_IFS: [&str; 2] = ["a0", "b0"];
/// The port of the middle namespace towards [`RX`], through which copies leave.
pub(crate) const MIRROR_IF: &str = "m0";
/// The two networks of [`Layout::Router`], each one half of the benchmark network (RFC 2544 appendix C.2.2): the
/// router's address, and an unassigned one for a host.
pub const ROUTED: [(Ipv4Addr, Ipv4Addr); 2] = [
    (Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)),
    (Ipv4Addr::new(198, 19, 1, 1), Ipv4Addr::new(198, 19, 1, 2)),
];
/// Prefix length of a lab's networks.
pub(super) const PREFIX_BITS: u8 = 24;
/// The default MTU, bytes: veth refuses a native XDP program if the peer's MTU is above about 3500.
const MTU_DEFAULT: u32 = 3000;
/// Minimum MTU, bytes: that of IPv4 (RFC 791).
pub(super) const MTU_MIN: u32 = 68;
/// Maximum MTU, bytes, common for jumbo frames.
pub const MTU_MAX: u32 = 9216;

impl LabEnd {
    pub(super) const fn new(name: &'static str, number: u8) -> Self {
        let mac = [0x02, 0x71, 0x75, 0, 0, number];
        Self { name, mac, ip: Ipv4Addr::new(198, 18, 0, number), prefix_bits: PREFIX_BITS }
    }
}

/// The lab to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabPlan {
    /// `None` chooses an unused name.
    pub name: Option<String>,
    /// MTU of both ends, bytes, [`MTU_MIN`] to [`MTU_MAX`].
    pub mtu: u32,
    /// Transmit and receive queues of each end; in a layout with a middle namespace, of the capturer's link.
    pub queues: u32,
    pub layout: Layout,
}

/// The connection between the senders and the receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// A sender and a receiver, joined by a link.
    #[default]
    Pair,
    /// Two senders joined by a bridge, which mirrors one of its ports to the receiver.
    Span,
    /// Two senders joined by a tap, which copies both directions to the receiver.
    Tap,
    /// Two ends joined by a bridge without a mirror: the receiving namespace is idle.
    Bridge,
    /// Two ends joined by a router, each in its own network ([`ROUTED`]).
    Router,
    /// Two ends whose links end at [`MIDDLE_IFS`] of the middle namespace. The caller forwards between them.
    Apart,
}

impl Default for LabPlan {
    fn default() -> Self {
        Self { name: None, mtu: MTU_DEFAULT, queues: 1, layout: Layout::Pair }
    }
}
