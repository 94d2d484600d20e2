//! The application of a packet: by the first bytes of its payload, otherwise by the port of a service. A port is a
//! custom and no proof; a packet without payload has no application.

use super::layer::Layer;

/// Methods of HTTP (RFC 9110, section 9) and the begin of a response, as a message starts with them.
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
pub(super) fn of_tcp(ports: [u16; 2], payload: &[u8]) -> Option<Layer> {
    match payload {
        [] => None,
        // A record of TLS: its type, and a version (RFC 8446, section 5.1).
        [0x14..=0x17, 3, 0..=4, ..] => Some(Layer::Tls),
        [b'S', b'S', b'H', b'-', ..] => Some(Layer::Ssh),
        [b'C' | b'D' | b'G' | b'H' | b'O' | b'P' | b'T', ..]
            if HTTP.iter().any(|start| payload.starts_with(start)) =>
        {
            Some(Layer::Http)
        }
        _ => by_port(ports, tcp_service),
    }
}

/// The application of a datagram of UDP.
#[inline]
pub(super) fn of_udp(ports: [u16; 2], payload: &[u8]) -> Option<Layer> {
    if payload.is_empty() { None } else { by_port(ports, udp_service) }
}

/// The service of the lower port, or of the other one.
#[inline]
fn by_port([one, other]: [u16; 2], service: impl Fn(u16) -> Option<Layer>) -> Option<Layer> {
    service(one.min(other)).or_else(|| service(one.max(other)))
}

/// Ports of services over TCP (IANA).
fn tcp_service(port: u16) -> Option<Layer> {
    Some(match port {
        20 => Layer::FtpData,
        21 => Layer::Ftp,
        22 => Layer::Ssh,
        23 => Layer::Telnet,
        25 | 587 => Layer::Smtp,
        53 => Layer::Dns,
        80 | 8080 => Layer::Http,
        88 => Layer::Kerberos,
        110 => Layer::Pop,
        143 => Layer::Imap,
        179 => Layer::Bgp,
        389 => Layer::Ldap,
        443 | 465 | 636 | 853 | 989 | 990 | 993 | 995 | 8443 | 8883 => Layer::Tls,
        445 => Layer::Smb,
        502 => Layer::Modbus,
        554 => Layer::Rtsp,
        1883 => Layer::Mqtt,
        3306 => Layer::Mysql,
        3389 => Layer::Rdp,
        5060 => Layer::Sip,
        5432 => Layer::Postgres,
        5672 => Layer::Amqp,
        6379 => Layer::Redis,
        _ => return None,
    })
}

/// Ports of services over UDP (IANA).
fn udp_service(port: u16) -> Option<Layer> {
    Some(match port {
        53 => Layer::Dns,
        67 | 68 => Layer::Dhcp,
        69 => Layer::Tftp,
        88 => Layer::Kerberos,
        123 => Layer::Ntp,
        137 => Layer::Nbns,
        138 => Layer::Nbdgm,
        161 | 162 => Layer::Snmp,
        443 => Layer::Quic,
        500 => Layer::Isakmp,
        514 => Layer::Syslog,
        520 => Layer::Rip,
        546 | 547 => Layer::Dhcpv6,
        // Messages of tunnels that carry no frame, or none that is read.
        1701 => Layer::L2tp,
        1812 | 1813 => Layer::Radius,
        1900 => Layer::Ssdp,
        2123 | 2152 => Layer::Gtp,
        3478 => Layer::Stun,
        4789 | 4790 => Layer::Vxlan,
        5060 => Layer::Sip,
        5353 => Layer::Mdns,
        5355 => Layer::Llmnr,
        6081 => Layer::Geneve,
        51820 => Layer::Wireguard,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_stronger_than_a_port() {
        assert_eq!(of_tcp([40_000, 80], b"\x16\x03\x01\x02\x00"), Some(Layer::Tls));
        assert_eq!(of_tcp([443, 40_000], b"GET / HTTP/1.1\r\n"), Some(Layer::Http));
        assert_eq!(of_tcp([443, 40_000], b"GETTER"), Some(Layer::Tls));
        assert_eq!(of_tcp([2222, 40_000], b"SSH-2.0-x\r\n"), Some(Layer::Ssh));
        assert_eq!(of_tcp([2222, 40_000], b"x"), None);
        assert_eq!([of_tcp([443, 40_000], b""), of_udp([53, 40_000], b"")], [None; 2]);
    }

    #[test]
    fn of_two_services_the_lower_port_decides() {
        assert_eq!(of_udp([5353, 53], b"x"), Some(Layer::Dns));
        assert_eq!(of_udp([5353, 9], b"x"), Some(Layer::Mdns));
        assert_eq!(of_tcp([9, 5432], b"x"), Some(Layer::Postgres));
    }
}
