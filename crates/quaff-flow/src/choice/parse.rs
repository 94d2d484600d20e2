//! The text of an expression, to a tree.
//!
//! ```text
//!   any   = all { ("or" | "||") all }
//!   all   = one { ("and" | "&&") one }
//!   one   = ("not" | "!") one | "(" any ")" | test
//!   test  = [protocol] [src|dst] (host|ip ADDRESS | net NET | port N[-N]) | protocol | in if N | number relation N | …
//! ```

use super::test::{Ends, Net, Number, Relation, Test};
use super::tree::Node;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Longest expression, bytes, and parentheses or negations inside each other.
const TEXT_BYTES_MAX: usize = 16 << 10;
const DEPTH_MAX: usize = 64;

/// Protocols by their words (IANA).
const PROTOCOLS: [(&str, u8); 9] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("sctp", 132),
];
const VERSIONS: [(&str, u8); 8] =
    [("ip", 4), ("ip4", 4), ("ipv4", 4), ("inet", 4), ("inet4", 4), ("ip6", 6), ("ipv6", 6), ("inet6", 6)];
const NUMBERS: [(&str, Number); 6] = [
    ("packets", Number::Packets),
    ("bytes", Number::Bytes),
    ("duration", Number::Duration),
    ("pps", Number::PacketRate),
    ("bps", Number::BitRate),
    ("bpp", Number::BytesPerPacket),
];
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("<", Relation::Less),
    (">", Relation::Greater),
    ("=", Relation::Equal),
];
/// Flags of TCP by their letters (RFC 9293, RFC 3168), as nfdump has them.
const FLAGS: [(char, u8); 8] =
    [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32), ('E', 64), ('C', 128)];
const TESTS: &str = "host, net, port, src, dst, proto, tcp, udp, icmp, ip, ip6, vlan, tos, in if, flags, bytes, \
                     packets, duration, pps, bps, bpp, application or server";

type Result<T> = std::result::Result<T, String>;

/// The tree of an expression.
pub(super) fn tree(text: &str) -> Result<Node> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("an expression has at most {} KiB", TEXT_BYTES_MAX >> 10));
    }
    let mut parser = Parser { words: words(text), at: 0, depth: 0 };
    let tree = parser.any()?;
    match parser.next() {
        None => Ok(tree),
        Some(word) => Err(format!("'{word}' does not continue the expression: 'and', 'or' or its end")),
    }
}

/// The words, parentheses and signs of a text.
fn words(text: &str) -> Vec<&str> {
    const SIGNS: [&str; 11] = ["&&", "||", "<=", ">=", "==", "<", ">", "=", "(", ")", "!"];
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).map(|sign| sign.len());
        let is_end = |c: char| c.is_whitespace() || "()!<>=&|".contains(c);
        let end = sign.unwrap_or_else(|| {
            let first = rest.chars().next().map_or(1, char::len_utf8);
            rest[first..].find(is_end).map_or(rest.len(), |at| first + at)
        });
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    /// Takes the next word if it is one of these.
    fn takes(&mut self, words: &[&str]) -> bool {
        let is_it = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, what: &str) -> Result<&'a str> {
        let before = self.at.checked_sub(1).and_then(|at| self.words.get(at)).copied();
        self.next().ok_or_else(|| match before {
            Some(before) => format!("after '{before}' comes {what}"),
            None => format!("the expression is empty: it begins with {what}"),
        })
    }

    fn any(&mut self) -> Result<Node> {
        self.list(&["or", "||"], Self::all, Node::Any)
    }

    fn all(&mut self) -> Result<Node> {
        self.list(&["and", "&&"], Self::one, Node::All)
    }

    /// One part, or several with these words between them.
    fn list(
        &mut self,
        between: &[&str],
        part: fn(&mut Self) -> Result<Node>,
        joined: fn(Vec<Node>) -> Node,
    ) -> Result<Node> {
        let mut nodes = vec![part(self)?];
        while self.takes(between) {
            nodes.push(part(self)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { joined(nodes) })
    }

    fn one(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("parentheses and negations are at most {DEPTH_MAX} deep"));
        }
        let node = if self.takes(&["not", "!"]) {
            Node::Not(Box::new(self.one()?))
        } else if self.takes(&["("]) {
            let node = self.any()?;
            if !self.takes(&[")"]) {
                return Err("a ')' is missing".to_owned());
            }
            node
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Node> {
        let word = self.expect(TESTS)?;
        if let Some((_, protocol)) = PROTOCOLS.iter().find(|(name, _)| *name == word) {
            return self.narrowed(Test::Protocol(*protocol));
        }
        // `ip ADDRESS` is nfdump's, `ip` alone is tcpdump's.
        let is_address = self.peek().is_some_and(|next| address(next).is_ok());
        if let Some((_, version)) = VERSIONS.iter().find(|(name, _)| *name == word)
            && !(word == "ip" && is_address)
        {
            return self.narrowed(Test::Version(*version));
        }
        if let Some((_, number)) = NUMBERS.iter().find(|(name, _)| *name == word) {
            return self.number(*number).map(Node::Test);
        }
        let test = match word {
            "src" => return self.of_ends(Ends::Source),
            "dst" => return self.of_ends(Ends::Destination),
            "host" | "ip" | "net" | "port" | "portrange" => return self.end(word, Ends::Either),
            "proto" => Test::Protocol(self.protocol()?),
            "vlan" => Test::Vlan(self.whole("the id of a VLAN")?),
            "tos" => Test::Tos(self.whole("a type of service, from 0 to 255")?),
            "in" => {
                self.interface()?;
                Test::Interface(self.whole("the number of an interface, from 0 to 65535")?)
            }
            "out" => {
                self.interface()?;
                return Err(
                    "records have no output interface: 'in if N' tests the input interface".to_owned()
                );
            }
            "flags" => Test::Flags(flags(self.expect("flags of TCP, such as S or SA")?)?),
            "application" => Test::Application(self.expect("an application, such as tls or dns")?.to_owned()),
            "server" => {
                let name = self.expect("a server, such as example.com or *.example.com")?;
                Test::Server(name.to_ascii_lowercase())
            }
            other => match address(other) {
                Ok(net) => Test::Net(Ends::Either, net),
                Err(_) => return Err(format!("'{other}' is none of {TESTS}")),
            },
        };
        Ok(Node::Test(test))
    }

    /// `tcp`, or `tcp port 443`: a test, and one of ends after it.
    fn narrowed(&mut self, test: Test) -> Result<Node> {
        let Some(word @ ("src" | "dst" | "host" | "net" | "port" | "portrange")) = self.peek() else {
            return Ok(Node::Test(test));
        };
        self.at += 1;
        let more = match word {
            "src" => self.of_ends(Ends::Source)?,
            "dst" => self.of_ends(Ends::Destination)?,
            word => self.end(word, Ends::Either)?,
        };
        Ok(Node::All(vec![Node::Test(test), more]))
    }

    /// The words after `src` or `dst`.
    fn of_ends(&mut self, ends: Ends) -> Result<Node> {
        let word = self.expect("host, net, port or an address")?;
        match address(word) {
            Ok(net) => Ok(Node::Test(Test::Net(ends, net))),
            Err(_) => self.end(word, ends),
        }
    }

    /// The words after `host`, `net` or `port`.
    fn end(&mut self, word: &str, ends: Ends) -> Result<Node> {
        let test = match word {
            "host" | "ip" | "net" => Test::Net(ends, address(self.expect("an address")?)?),
            "port" | "portrange" => Test::Port(ends, self.ports()?),
            other => return Err(format!("'{other}' is none of host, net, port, and no address")),
        };
        Ok(Node::Test(test))
    }

    /// `443`, `6000-6063`, or `> 1023`.
    fn ports(&mut self) -> Result<RangeInclusive<u16>> {
        if let Some(relation) = self.relation() {
            let port: u16 = self.whole("a port")?;
            return Ok(match relation {
                Relation::Less if port == 0 => RangeInclusive::new(1, 0),
                Relation::Less => 0..=port - 1,
                Relation::LessOrEqual => 0..=port,
                Relation::Equal => port..=port,
                Relation::GreaterOrEqual => port..=u16::MAX,
                Relation::Greater if port == u16::MAX => RangeInclusive::new(1, 0),
                Relation::Greater => port + 1..=u16::MAX,
            });
        }
        let text = self.expect("a port, such as 443 or 6000-6063")?;
        let wrong = || format!("'{text}' is no port from 0 to 65535, such as 443 or 6000-6063");
        let port = |text: &str| text.parse::<u16>().map_err(|_| wrong());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (port(first)?, port(last)?);
        if first > last { Err(wrong()) } else { Ok(first..=last) }
    }

    fn relation(&mut self) -> Option<Relation> {
        let word = self.peek()?;
        let (_, relation) = RELATIONS.iter().find(|(sign, _)| *sign == word)?;
        self.at += 1;
        Some(*relation)
    }

    /// A relation and a number with an optional k, M or G; of a duration, ms or a number with its unit.
    fn number(&mut self, number: Number) -> Result<Test> {
        let relation = self.relation().unwrap_or(Relation::Equal);
        let text = self.expect("a number, such as > 1M")?;
        let value = if number == Number::Duration { milliseconds(text) } else { scaled(text) };
        let value = value.ok_or_else(|| format!("'{text}' is no number such as 1000, 64k, 3M or 2G"))?;
        Ok(Test::Number(number, relation, value))
    }

    /// The word after `in` or `out`.
    fn interface(&mut self) -> Result<()> {
        match self.expect("if and the number of an interface, as in 'in if 3'")? {
            "if" => Ok(()),
            other => Err(format!("'{other}' is not if, as in 'in if 3'")),
        }
    }

    fn protocol(&mut self) -> Result<u8> {
        let word = self.expect("a protocol, such as tcp or 47")?;
        let known = PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, protocol)| *protocol);
        known
            .or_else(|| word.parse().ok())
            .ok_or_else(|| format!("'{word}' is no protocol, such as tcp or 47"))
    }

    fn whole<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let word = self.expect(what)?;
        word.parse().map_err(|_| format!("'{word}' is not {what}"))
    }
}

/// An address, or the addresses of `10.0.0.0/8`.
fn address(text: &str) -> Result<Net> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let wrong = || format!("'{text}' is no address, such as 192.0.2.1, 2001:db8::1 or 10.0.0.0/8");
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
    if bits > most { Err(wrong()) } else { Ok(Net { address, bits }) }
}

fn flags(text: &str) -> Result<u8> {
    let flag = |letter: char| {
        let known = FLAGS.iter().find(|(name, _)| *name == letter.to_ascii_uppercase());
        known
            .map(|(_, flag)| *flag)
            .ok_or_else(|| format!("'{text}' is no list of flags: S, A, F, R, P, U, E, C"))
    };
    text.chars().try_fold(0, |all, letter| Ok(all | flag(letter)?))
}

/// `1000`, `64k`, `3M`, `2G`.
fn scaled(text: &str) -> Option<u64> {
    let (digits, scale) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1_000),
        'm' | 'M' => (&text[..text.len() - 1], 1_000_000),
        'g' | 'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

/// `250`, `250ms`, `10s`, `5m`, `2h`.
fn milliseconds(text: &str) -> Option<u64> {
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    let (digits, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale))).unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(scale)
}
