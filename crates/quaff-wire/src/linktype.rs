//! Link types: the type of a packet's first header, in the numbering of the kernel, libpcap and capture files.

/// A link type in both numberings.
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
/// LINKTYPE_IPV4, LINKTYPE_IPV6.
const IPV4: u16 = 228;
const IPV6: u16 = 229;
/// IEEE 802.11 with a radiotap header.
pub const RADIOTAP: LinkType = LinkType { linktype: 127, dlt: 127 };

/// The name of a LINKTYPE_ number; `None` for rare ones.
pub fn name(linktype: u16) -> Option<&'static str> {
    Some(match linktype {
        0 => "BSD loopback",
        1 => "Ethernet",
        6 => "Token Ring",
        8 => "SLIP",
        9 => "PPP",
        10 => "FDDI",
        11 | 100 => "RFC 1483 ATM",
        12 | 14 | 101 => "raw IP",
        13 | 109 => "OpenBSD enc",
        50 => "PPP in HDLC",
        51 => "PPPoE",
        102 => "SLIP (BSD/OS)",
        103 => "PPP (BSD/OS)",
        104 => "Cisco HDLC",
        105 => "IEEE 802.11",
        107 => "Frame Relay",
        108 => "OpenBSD loopback",
        113 => "Linux cooked",
        117 => "OpenBSD pflog",
        119 => "Prism and IEEE 802.11",
        127 => "radiotap and IEEE 802.11",
        163 => "AVS and IEEE 802.11",
        166 => "PPP (pppd)",
        187 => "Bluetooth HCI",
        189 | 220 => "USB (Linux)",
        192 => "PPI",
        195 | 230 => "IEEE 802.15.4",
        201 => "Bluetooth HCI with direction",
        204 => "PPP with direction",
        205 => "Cisco HDLC with direction",
        206 => "Frame Relay with direction",
        219 => "MPLS",
        227 => "CAN",
        228 => "raw IPv4",
        229 => "raw IPv6",
        239 => "NFLOG",
        249 => "USB (Windows)",
        276 => "Linux cooked v2",
        _ => return None,
    })
}

/// The link type (LINKTYPE_*) under which the packets of an interface of link type `linktype` are written, if its file
/// has the byte order of the network (`is_big_endian`).
///
/// The numbers of bare IP that some platforms write become the one that all read. An address family in the byte order
/// of the file (LINKTYPE_NULL) is one in network byte order (LINKTYPE_LOOP) if that is the file's.
pub(crate) fn to_write(linktype: u16, is_big_endian: bool) -> u16 {
    match linktype {
        11 => 100,
        12 | 14 => RAW.linktype,
        13 => 109,
        0 if is_big_endian => 108,
        linktype => linktype,
    }
}

/// True for link types (LINKTYPE_*) of packets that start with an IP header.
pub fn is_bare_ip(linktype: u16) -> bool {
    [RAW.linktype, IPV4, IPV6].contains(&linktype)
}

/// The link type of a kernel ARPHRD_* value (linux/if_arp.h); `None` for unsupported ones.
pub fn of_arphrd(arphrd: u16) -> Option<LinkType> {
    match arphrd {
        1 | 772 => Some(ETHERNET),                        // ETHER, LOOPBACK
        512 | 519 | 65534 | 768 | 769 | 776 => Some(RAW), // PPP, RAWIP, NONE, TUNNEL, TUNNEL6, SIT
        803 => Some(RADIOTAP),                            // IEEE80211_RADIOTAP
        _ => None,
    }
}
