//! The words that name a connection: two ends as quaff and other programs print them, or a number of `streams list`.

use quaff_stream::tracker::{Ends, sorted};
use std::net::{IpAddr, SocketAddr};

/// A protocol with streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// The connection or the UDP conversation to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Those between two ends; of both protocols, if none is named.
    Ends {
        ends: Ends,
        protocol: Option<Protocol>,
    },
    Number {
        number: u64,
        protocol: Protocol,
    },
}

/// Words between two ends.
const ARROWS: [&str; 9] = ["->", ">", "<->", "<>", "<", "<-", "=>", "-", "and"];
/// Words after two ends, each before a number: a connection is two ends whatever the VLAN or the tunnel.
const PLACES: [&str; 3] = ["inner", "vlan", "tunnel"];
const EXAMPLE: &str = "a number of 'quaff streams list', such as 12 or u3, or two ends, such as \
                       'tcp 10.0.0.1:4711 10.0.0.2:80'";

impl Target {
    /// Reads `12`, `u3`, `udp 3`, `tcp 10.0.0.1:4711 → 10.0.0.2:80 vlan 5`, `10.0.0.1.4711 > 10.0.0.2.80`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.replace(['→', '←', '↔', ',', '\u{a0}'], " ");
        let words = text.split_whitespace().filter(|word| !ARROWS.contains(word));
        let words: Vec<&str> = words.collect();
        let (protocol, rest) = match words.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case("tcp") => (Some(Protocol::Tcp), rest),
            Some((first, rest)) if first.eq_ignore_ascii_case("udp") => (Some(Protocol::Udp), rest),
            // A line of tcpdump.
            Some((&("IP" | "IP6"), rest)) => (None, rest),
            Some((&first, rest)) if is_other_protocol(first, rest) => {
                return Err(format!("'{first}' has no streams: TCP and UDP have"));
            }
            _ => (None, &words[..]),
        };
        match rest {
            [word] => number(word, protocol).ok_or_else(|| format!("'{word}' is not {EXAMPLE}")),
            [one, other, places @ ..] if are_places(places) => {
                Ok(Self::Ends { ends: sorted([end(one)?, end(other)?]), protocol })
            }
            _ => Err(EXAMPLE.into()),
        }
    }
}

/// True for the first word of a flow of another protocol, such as `icmp 10.0.0.1 → 10.0.0.2 type 8.0`.
fn is_other_protocol(first: &str, rest: &[&str]) -> bool {
    rest.len() > 1 && first.chars().next().is_some_and(char::is_alphabetic) && end(first).is_err()
}

/// `12`, `#12`, `u3`.
fn number(word: &str, protocol: Option<Protocol>) -> Option<Target> {
    let digits = word.trim_start_matches('#');
    let (own, digits) = match digits.strip_prefix(['u', 'U']) {
        Some(digits) => (Protocol::Udp, digits),
        None => (protocol.unwrap_or(Protocol::Tcp), digits),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0)?;
    (protocol.is_none_or(|named| named == own)).then_some(Target::Number { number, protocol: own })
}

/// True for `vlan 5 inner vlan 6 tunnel 9`.
fn are_places(words: &[&str]) -> bool {
    words.iter().all(|word| PLACES.contains(word) || word.parse::<u32>().is_ok())
}

/// An address with a port: `10.0.0.1:80`, `[fd00::1]:80`, or with a dot before the port as tcpdump prints it.
fn end(word: &str) -> Result<SocketAddr, String> {
    let dotted = |word: &str| {
        let (address, port) = word.trim_end_matches(':').rsplit_once('.')?;
        Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port.parse().ok()?))
    };
    let read = word.parse::<SocketAddr>().ok().or_else(|| dotted(word));
    read.ok_or_else(|| format!("'{word}' is no address with a port, such as 10.0.0.1:80 or [fd00::1]:80"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_quaff_and_others_print_them() {
        let expected = Target::read("10.0.0.1:4711 10.0.0.2:80").unwrap();
        let tcp = Target::read("tcp 10.0.0.1:4711 10.0.0.2:80").unwrap();
        assert!(matches!(expected, Target::Ends { protocol: None, .. }));
        for text in [
            "10.0.0.2:80 10.0.0.1:4711",
            "10.0.0.1:4711,10.0.0.2:80",
            "10.0.0.1:4711 > 10.0.0.2:80",
            "10.0.0.1:4711→10.0.0.2:80",
            "10.0.0.1:4711 <-> 10.0.0.2:80",
            "10.0.0.1:4711 -> 10.0.0.2:80",
            "IP 10.0.0.1.4711 > 10.0.0.2.80:",
        ] {
            assert_eq!(Target::read(text), Ok(expected), "{text}");
        }
        for text in [
            "tcp 10.0.0.1:4711 → 10.0.0.2:80 vlan 5 inner vlan 6 tunnel 9",
            "TCP  10.0.0.2:80  10.0.0.1:4711",
        ] {
            assert_eq!(Target::read(text), Ok(tcp), "{text}");
        }
        let of_six = Target::read("udp [fd00::1]:1 → [fd00::2]:53").unwrap();
        assert_eq!(Target::read("udp fd00::2.53 > fd00::1.1"), Ok(of_six));
    }

    #[test]
    fn a_number_is_that_of_the_list() {
        let of = |number, protocol| Ok(Target::Number { number, protocol });
        assert_eq!(Target::read("12"), of(12, Protocol::Tcp));
        assert_eq!(Target::read("tcp 12"), of(12, Protocol::Tcp));
        for text in ["u3", "udp 3", "udp u3", "#u3"] {
            assert_eq!(Target::read(text), of(3, Protocol::Udp), "{text}");
        }
        for wrong in ["0", "u0", "-1", "tcp u3", "u", "12x", "#"] {
            assert!(Target::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_without_a_stream_are_refused_with_the_reason() {
        for (wrong, reason) in [
            ("", "such as"),
            ("10.0.0.1:1", "is not a number"),
            ("icmp 10.0.0.1 → 10.0.0.2 type 8.0", "'icmp' has no streams"),
            ("protocol 47 10.0.0.1 → 10.0.0.2", "'protocol' has no streams"),
            ("10.0.0.1 10.0.0.2:80", "'10.0.0.1' is no address with a port"),
            ("tcp a:1 b:2", "'a:1' is no address"),
            ("a:1 b:2", "'a:1'"),
            ("10.0.0.1:1 10.0.0.2:2 10.0.0.3:3", "two ends"),
        ] {
            let error = Target::read(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
