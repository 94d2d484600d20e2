//! The protocols of a hierarchy, and the path of a frame through them. It reads no packet.

use std::fmt;

/// The protocols with their names, in the order of their numbers from 1.
macro_rules! protocols {
    ($($protocol:ident $name:literal)*) => {
        /// A protocol of a frame. `Display` writes its name, which is Wireshark's where it has the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Protocol {
            /// No protocol; its number fills the end of a path.
            None,
            $($protocol),*
        }

        impl Protocol {
            const ALL: &'static [Self] = &[Self::None, $(Self::$protocol),*];
            const NAMES: &'static [&'static str] = &["", $($name),*];
        }
    };
}

protocols! {
    // Links.
    Ethernet "eth" Sll "sll" Raw "raw" Null "null" Ppp "ppp" Hdlc "chdlc" FrameRelay "fr" Pflog "pflog" Enc "enc"
    Slip "slip" Fddi "fddi" TokenRing "tr" Atm "atm" OtherLink "link"
    // Between link and network.
    Vlan "vlan" ServiceVlan "ieee8021ad" Mpls "mpls" Pppoe "pppoes" PppoeDiscovery "pppoed" Llc "llc"
    Backbone "ieee8021ah" FabricPath "cfp"
    // Beside IP.
    Arp "arp" Lldp "lldp" Stp "stp" Cdp "cdp" Slow "slow" Eapol "eapol" Ptp "ptp" Cfm "cfm" Macsec "macsec"
    Loopback "loop"
    // Network and transport.
    Ip "ip" Ipv6 "ipv6" Tcp "tcp" Udp "udp" Icmp "icmp" Icmpv6 "icmpv6" Igmp "igmp" Sctp "sctp" Gre "gre" Esp "esp"
    Ah "ah" Ospf "ospf" Pim "pim" Vrrp "vrrp" Eigrp "eigrp" Dccp "dccp" UdpLite "udplite"
    // Tunnels.
    Erspan "erspan" Vxlan "vxlan" Geneve "geneve" Gtp "gtp" L2tp "l2tp" Tzsp "tzsp"
    // Applications.
    Tls "tls" Http "http" Ssh "ssh" Dns "dns" Mdns "mdns" Llmnr "llmnr" Dhcp "dhcp" Dhcpv6 "dhcpv6" Ntp "ntp"
    Nbns "nbns" Nbdgm "nbdgm" Snmp "snmp" Ssdp "ssdp" Quic "quic" Isakmp "isakmp" UdpEncap "udpencap" Syslog "syslog" Rip "rip"
    Radius "radius" Stun "stun" Sip "sip" Tftp "tftp" Wireguard "wg" Ftp "ftp" FtpData "ftp-data" Telnet "telnet"
    Smtp "smtp" Pop "pop" Imap "imap" Bgp "bgp" Ldap "ldap" Smb "smb" Rtsp "rtsp" Rdp "rdp" Mysql "mysql"
    Postgres "pgsql" Mqtt "mqtt" Amqp "amqp" Redis "resp" Modbus "mbtcp" Kerberos "kerberos"
    // Bytes of none of these.
    Data "data"
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

/// Most protocols of a path; a frame with more of them ends there.
const PROTOCOLS_MAX: usize = 16;

/// The protocols of a frame, outermost first. Paths sort as the rows of a tree do: each before those that continue it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProtocolPath(u128);

impl ProtocolPath {
    /// The path of these protocols.
    pub(super) const fn of(protocols: &[Protocol]) -> Self {
        let (mut path, mut at) = (Self(0), 0);
        while at < protocols.len() {
            path = path.with(protocols[at]);
            at += 1;
        }
        path
    }

    /// The number of protocols.
    pub const fn len(self) -> usize {
        PROTOCOLS_MAX - self.0.trailing_zeros() as usize / 8
    }

    /// True without a protocol.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The path with one more protocol; the same if it is full.
    #[inline]
    #[must_use]
    pub(super) const fn with(self, protocol: Protocol) -> Self {
        let len = self.len();
        if len == PROTOCOLS_MAX { self } else { Self(self.0 | (protocol as u128) << (120 - 8 * len)) }
    }

    /// The first `len` protocols.
    #[must_use]
    pub fn first(self, len: usize) -> Self {
        match len {
            0 => Self(0),
            PROTOCOLS_MAX.. => self,
            len => Self(self.0 & (u128::MAX << (128 - 8 * len))),
        }
    }

    /// The protocols, outermost first.
    pub fn protocols(self) -> impl Iterator<Item = Protocol> {
        let numbers = self.0.to_be_bytes().into_iter().take_while(|number| *number != 0);
        numbers.map(|number| Protocol::ALL.get(usize::from(number)).copied().unwrap_or(Protocol::Data))
    }

    /// The innermost protocol.
    pub fn last(self) -> Option<Protocol> {
        self.protocols().last()
    }
}

impl fmt::Display for ProtocolPath {
    /// For example `eth:ip:tcp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, protocol) in self.protocols().enumerate() {
            write!(f, "{}{protocol}", if number == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for ProtocolPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_names_and_prefixes_and_sort_as_a_tree() {
        let tcp = ProtocolPath::of(&[Protocol::Ethernet, Protocol::Ip, Protocol::Tcp]);
        assert_eq!((tcp.to_string().as_str(), tcp.len(), tcp.last()), ("eth:ip:tcp", 3, Some(Protocol::Tcp)));
        let prefixes = [0, 1, 2, 3, 16].map(|len| tcp.first(len).to_string());
        assert_eq!(prefixes, ["", "eth", "eth:ip", "eth:ip:tcp", "eth:ip:tcp"]);
        let tls = tcp.with(Protocol::Tls);
        let udp = tcp.first(2).with(Protocol::Udp);
        let mut all = [udp, tls, tcp, tcp.first(1), ProtocolPath::default()];
        all.sort();
        assert_eq!(all, [ProtocolPath::default(), tcp.first(1), tcp, tls, udp]);
        assert!(ProtocolPath::default().is_empty() && ProtocolPath::default().protocols().next().is_none());
    }

    #[test]
    fn a_full_path_stays_as_it_is() {
        let full = ProtocolPath::of(&[Protocol::Data; PROTOCOLS_MAX]);
        assert_eq!((full.len(), full.with(Protocol::Tcp)), (PROTOCOLS_MAX, full));
        assert_eq!(Protocol::ALL.len(), Protocol::NAMES.len());
        assert!(
            Protocol::ALL.len() <= 256 && Protocol::ALL.iter().enumerate().all(|(at, of)| *of as usize == at)
        );
    }
}
