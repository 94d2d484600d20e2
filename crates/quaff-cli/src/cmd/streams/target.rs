//! The words that name a connection: two ends as quaff and other programs print them, or a number of `streams list`.

use quaff::streams::StreamProtocol;
use quaff_stream::tracker::{Ends, sorted};
use std::net::{IpAddr, SocketAddr};

/// The connection or the UDP conversation to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Those between two ends; of TCP, if no protocol is named.
    Ends {
        ends: Ends,
        protocol: Option<StreamProtocol>,
    },
    Number {
        number: u64,
        protocol: StreamProtocol,
    },
}

/// Words between two ends.
const ARROWS: [&str; 9] = ["->", ">", "<->", "<>", "<", "<-", "=>", "-", "and"];
/// Words after two ends, each before a number: a connection is two ends whatever the VLAN or the tunnel.
const PLACES: [&str; 2] = ["vlan", "tunnel"];
const EXAMPLE: &str = "a number of 'quaff streams list', such as 12 or u3, or two ends, such as \
                       'tcp 10.0.0.1:4711 10.0.0.2:80'";

impl Target {
    /// Reads `12`, `u3`, `udp 3`, `tcp 10.0.0.1:4711 → 10.0.0.2:80 vlan 5`, `10.0.0.1.4711 > 10.0.0.2.80`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.replace(['→', '←', '↔'], " -> ").replace([',', '\u{a0}'], " ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = of_tcpdump(&words);
        let (protocol, rest) = match words.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case("tcp") => (Some(StreamProtocol::Tcp), rest),
            Some((first, rest)) if first.eq_ignore_ascii_case("udp") => (Some(StreamProtocol::Udp), rest),
            Some((&first, rest)) if is_other_protocol(first, rest) => {
                return Err(format!("'{first}' has no streams: TCP and UDP have"));
            }
            _ => (None, words),
        };
        match rest {
            [word] => number(word, protocol).ok_or_else(|| format!("'{word}' is not {EXAMPLE}")),
            [one, arrow, other, places @ ..] if ARROWS.contains(arrow) && are_places(places) => {
                Ok(Self::Ends { ends: sorted([end(one)?, end(other)?]), protocol })
            }
            [one, other, places @ ..] if are_places(places) => {
                Ok(Self::Ends { ends: sorted([end(one)?, end(other)?]), protocol })
            }
            _ => Err(EXAMPLE.into()),
        }
    }

    /// The protocol of the one that is followed.
    pub(super) fn protocol(self) -> StreamProtocol {
        match self {
            Self::Ends { protocol, .. } => protocol.unwrap_or(StreamProtocol::Tcp),
            Self::Number { protocol, .. } => protocol,
        }
    }
}

/// The ends in a line of tcpdump, `09:04:11.123456 IP 10.0.0.1.4711 > 10.0.0.2.80: Flags [S], …`; others as they are.
fn of_tcpdump<'a, 'w>(words: &'w [&'a str]) -> &'w [&'a str] {
    let start = words.iter().position(|word| matches!(*word, "IP" | "IP6")).map_or(0, |at| at + 1);
    let words = &words[start..];
    let end = words.iter().position(|word| word.ends_with(':'));
    end.map_or(words, |at| &words[..=at])
}

/// True for the first word of a flow of another protocol, such as `icmp 10.0.0.1 → 10.0.0.2 type 8.0`.
fn is_other_protocol(first: &str, rest: &[&str]) -> bool {
    rest.len() > 1 && first.chars().next().is_some_and(char::is_alphabetic) && end(first).is_err()
}

/// `12`, `#12`, `u3`.
fn number(word: &str, protocol: Option<StreamProtocol>) -> Option<Target> {
    let digits = word.strip_prefix('#').unwrap_or(word);
    let (own, digits) = match digits.strip_prefix(['u', 'U']) {
        Some(digits) => (StreamProtocol::Udp, digits),
        None => (protocol.unwrap_or(StreamProtocol::Tcp), digits),
    };
    // A sign is no digit, although numbers are parsed with one.
    let digits = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0)?;
    (protocol.is_none_or(|named| named == own)).then_some(Target::Number { number, protocol: own })
}

/// True for `vlan 5 inner vlan 6 tunnel 9`.
fn are_places(words: &[&str]) -> bool {
    match words {
        [] => true,
        ["inner", rest @ ..] => !rest.is_empty() && are_places(rest),
        [place, number, rest @ ..] => {
            PLACES.contains(place) && number.parse::<u32>().is_ok() && are_places(rest)
        }
        [_] => false,
    }
}

/// An address with a port: `10.0.0.1:80`, `[fd00::1]:80`, or with a dot before the port as tcpdump prints it.
pub(super) fn end(word: &str) -> Result<SocketAddr, String> {
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
            "09:04:11.123456 IP 10.0.0.1.4711 > 10.0.0.2.80: Flags [S], seq 7, win 64240, length 0",
            "2026-11-20 09:04:11.123456 IP 10.0.0.2.80 > 10.0.0.1.4711: Flags [.], ack 8, length 1448: HTTP",
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
        assert_eq!(Target::read("12"), of(12, StreamProtocol::Tcp));
        assert_eq!(Target::read("tcp 12"), of(12, StreamProtocol::Tcp));
        for text in ["u3", "udp 3", "udp u3", "#u3"] {
            assert_eq!(Target::read(text), of(3, StreamProtocol::Udp), "{text}");
        }
        for wrong in
            ["0", "u0", "-1", "+12", "u+3", "##12", "tcp u3", "u", "12x", "#", "->", "-> 12", "12 ->"]
        {
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
            ("5 5 5", "two ends"),
            ("10.0.0.1:1 10.0.0.2:2 5", "two ends"),
            ("10.0.0.1:1 10.0.0.2:2 vlan", "two ends"),
            ("10.0.0.1:1 10.0.0.2:2 vlan 5 inner", "two ends"),
            ("-> 10.0.0.1:1 10.0.0.2:2", "two ends"),
        ] {
            let error = Target::read(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
