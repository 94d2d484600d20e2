//! Link types: the first header of a packet, as the kernel, libpcap and capture files number it.

/// A link type, by both of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkType {
    /// LINKTYPE_* of capture files (tcpdump.org/linktypes).
    pub linktype: u16,
    /// DLT_* of libpcap on Linux.
    pub dlt: i32,
}

/// Ethernet.
pub const ETHERNET: LinkType = LinkType { linktype: 1, dlt: 1 };
/// A bare IPv4 or IPv6 packet.
pub const RAW: LinkType = LinkType { linktype: 101, dlt: 12 };
/// IEEE 802.11 after a radiotap header.
pub const RADIOTAP: LinkType = LinkType { linktype: 127, dlt: 127 };

/// The link type of the kernel's ARPHRD_* (linux/if_arp.h); `None` for those that quaff cannot
/// describe.
pub fn of_arphrd(arphrd: u16) -> Option<LinkType> {
    match arphrd {
        1 | 772 => Some(ETHERNET),                        // ETHER, LOOPBACK
        512 | 519 | 65534 | 768 | 769 | 776 => Some(RAW), // PPP, RAWIP, NONE, TUNNEL, TUNNEL6, SIT
        803 => Some(RADIOTAP),                            // IEEE80211_RADIOTAP
        _ => None,
    }
}
