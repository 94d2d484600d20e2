//! The address of a collector as the user writes it: `udp://HOST:PORT`, `tcp://…`, `tls://…`, or `HOST:PORT`.

/// The transport of a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
    Tls,
}

/// A collector's address, not yet resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectorUrl {
    pub transport: Transport,
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

/// Ports of IPFIX, and of IPFIX over TLS (RFC 7011, 11.5).
const PORT: u16 = 4739;
const PORT_TLS: u16 = 4740;

impl std::str::FromStr for CollectorUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("udp", text));
        let transport = match scheme {
            "udp" => Transport::Udp,
            "tcp" => Transport::Tcp,
            "tls" => Transport::Tls,
            "sctp" => return Err(format!("{text}: quaff has no SCTP; use tcp:// or udp://")),
            _ => return Err(format!("{text}: unknown transport {scheme:?}; use udp://, tcp:// or tls://")),
        };
        let default = if transport == Transport::Tls { PORT_TLS } else { PORT };
        let (host, port) =
            split_port(rest).ok_or_else(|| format!("{text}: write HOST:PORT or [IPv6]:PORT"))?;
        let port = match port {
            None => default,
            Some(port) => port.parse().map_err(|_| format!("{text}: {port:?} is not a port (1 to 65535)"))?,
        };
        if host.is_empty() || port == 0 {
            return Err(format!("{text}: write HOST:PORT or [IPv6]:PORT"));
        }
        Ok(Self { transport, host: host.to_owned(), port })
    }
}

impl std::fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// Splits off the port; an IPv6 address without brackets has none.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_each_form() {
        for (text, shown) in [
            ("udp://collector:2055", "udp://collector:2055"),
            ("10.0.0.1:9995", "udp://10.0.0.1:9995"),
            ("tcp://[::1]:4739", "tcp://[::1]:4739"),
            ("tls://flows.example", "tls://flows.example:4740"),
            ("::1", "udp://[::1]:4739"),
        ] {
            assert_eq!(text.parse::<CollectorUrl>().map(|url| url.to_string()), Ok(shown.to_owned()));
        }
        for wrong in ["", "udp://", "sctp://h:1", "http://h:1", "h:0", "h:port", "[::1", "[::1]1"] {
            assert!(wrong.parse::<CollectorUrl>().is_err(), "{wrong}");
        }
    }
}
