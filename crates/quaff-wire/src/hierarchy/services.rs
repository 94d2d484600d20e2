//! The application of a packet: by the first bytes of its payload, otherwise by the port of a service. A port is a
//! custom and no proof; a packet without payload has no application.

use super::protocol::Protocol;

/// Methods of HTTP (RFC 9110, section 9) and of the start line of a response, as a message starts with them.
const HTTP: [&[u8]; 10] = [
    b"HTTP/1.",
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PATCH ",
    b"TRACE ",
];

/// The application of a segment of TCP.
#[inline]
pub(super) fn of_tcp(ports: [u16; 2], payload: &[u8]) -> Option<Protocol> {
    match payload {
        [] => None,
        // A record of TLS: its type, and a version (RFC 8446, section 5.1).
        [0x14..=0x17, 3, 0..=4, ..] => Some(Protocol::Tls),
        [b'S', b'S', b'H', b'-', ..] => Some(Protocol::Ssh),
        [b'C' | b'D' | b'G' | b'H' | b'O' | b'P' | b'T', ..]
            if HTTP.iter().any(|start| payload.starts_with(start)) =>
        {
            Some(Protocol::Http)
        }
        _ => by_port(ports, tcp_service),
    }
}

/// The application of a datagram of UDP.
#[inline]
pub(super) fn of_udp(ports: [u16; 2], payload: &[u8]) -> Option<Protocol> {
    if payload.is_empty() { None } else { by_port(ports, udp_service) }
}

/// The service of the lower port, or of the other one.
#[inline]
fn by_port([one, other]: [u16; 2], service: impl Fn(u16) -> Option<Protocol>) -> Option<Protocol> {
    service(one.min(other)).or_else(|| service(one.max(other)))
}

/// Ports of services over TCP (IANA).
fn tcp_service(port: u16) -> Option<Protocol> {
    Some(match port {
        20 => Protocol::FtpData,
        21 => Protocol::Ftp,
        22 => Protocol::Ssh,
        23 => Protocol::Telnet,
        25 | 587 => Protocol::Smtp,
        53 => Protocol::Dns,
        80 | 8080 => Protocol::Http,
        88 => Protocol::Kerberos,
        110 => Protocol::Pop,
        143 => Protocol::Imap,
        179 => Protocol::Bgp,
        389 => Protocol::Ldap,
        443 | 465 | 636 | 853 | 989 | 990 | 993 | 995 | 8443 | 8883 => Protocol::Tls,
        445 => Protocol::Smb,
        502 => Protocol::Modbus,
        554 => Protocol::Rtsp,
        1883 => Protocol::Mqtt,
        3306 => Protocol::Mysql,
        3389 => Protocol::Rdp,
        5060 => Protocol::Sip,
        5432 => Protocol::Postgres,
        5672 => Protocol::Amqp,
        6379 => Protocol::Redis,
        _ => return None,
    })
}

/// Ports of services over UDP (IANA), and those of tunnels for messages that carry no frame, or none that is read.
fn udp_service(port: u16) -> Option<Protocol> {
    Some(match port {
        53 => Protocol::Dns,
        67 | 68 => Protocol::Dhcp,
        69 => Protocol::Tftp,
        88 => Protocol::Kerberos,
        123 => Protocol::Ntp,
        137 => Protocol::Nbns,
        138 => Protocol::Nbdgm,
        161 | 162 => Protocol::Snmp,
        443 => Protocol::Quic,
        500 => Protocol::Isakmp,
        514 => Protocol::Syslog,
        520 => Protocol::Rip,
        546 | 547 => Protocol::Dhcpv6,
        1701 => Protocol::L2tp,
        1812 | 1813 => Protocol::Radius,
        1900 => Protocol::Ssdp,
        2123 | 2152 => Protocol::Gtp,
        3478 => Protocol::Stun,
        4500 => Protocol::UdpEncap,
        4754 => Protocol::Gre,
        4789 | 4790 | 8472 => Protocol::Vxlan,
        5060 => Protocol::Sip,
        5353 => Protocol::Mdns,
        5355 => Protocol::Llmnr,
        6081 => Protocol::Geneve,
        6635 => Protocol::Mpls,
        37008 => Protocol::Tzsp,
        51820 => Protocol::Wireguard,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_stronger_than_a_port() {
        assert_eq!(of_tcp([40_000, 80], b"\x16\x03\x01\x02\x00"), Some(Protocol::Tls));
        assert_eq!(of_tcp([443, 40_000], b"GET / HTTP/1.1\r\n"), Some(Protocol::Http));
        assert_eq!(of_tcp([443, 40_000], b"GETTER"), Some(Protocol::Tls));
        assert_eq!(of_tcp([2222, 40_000], b"SSH-2.0-x\r\n"), Some(Protocol::Ssh));
        assert_eq!(of_tcp([2222, 40_000], b"x"), None);
        assert_eq!([of_tcp([443, 40_000], b""), of_udp([53, 40_000], b"")], [None; 2]);
    }

    #[test]
    fn of_two_services_the_lower_port_decides() {
        assert_eq!(of_udp([5353, 53], b"x"), Some(Protocol::Dns));
        assert_eq!(of_udp([5353, 9], b"x"), Some(Protocol::Mdns));
        assert_eq!(of_tcp([9, 5432], b"x"), Some(Protocol::Postgres));
    }
}
