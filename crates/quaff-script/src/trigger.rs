//! The declarations of a script, made with `on`: an event and its options, filters that run before the script, and
//! the function to call.

use crate::{Compile, Packet, Test};
use mlua::{Error, Function, Result, Table, Value};
use regex_automata::meta::Regex;

/// The events of scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Packet,
    FlowStart,
    FlowEnd,
    Data,
    Line,
    Match,
    HttpRequest,
    HttpResponse,
    Dns,
    TlsHello,
    Evidence,
    Timer,
}

impl Event {
    const NAMES: [(&str, Self); 12] = [
        ("packet", Self::Packet),
        ("flow_start", Self::FlowStart),
        ("flow_end", Self::FlowEnd),
        ("data", Self::Data),
        ("line", Self::Line),
        ("match", Self::Match),
        ("http_request", Self::HttpRequest),
        ("http_response", Self::HttpResponse),
        ("dns", Self::Dns),
        ("tls_hello", Self::TlsHello),
        ("evidence", Self::Evidence),
        ("timer", Self::Timer),
    ];

    /// True for flow events.
    pub(crate) fn is_of_flows(self) -> bool {
        !matches!(self, Self::Packet | Self::Timer)
    }

    /// True for events that need TCP bytes in order.
    pub(crate) fn is_of_streams(self) -> bool {
        self.is_of_flows() && !matches!(self, Self::FlowStart | Self::FlowEnd)
    }

    /// True for application messages.
    pub(crate) fn is_of_applications(self) -> bool {
        matches!(self, Self::HttpRequest | Self::HttpResponse | Self::Dns | Self::TlsHello)
    }

    /// The options that the event supports.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Data => &["filter", "ports", "prefix", "regex"],
            Self::Match => &["filter", "ports", "regex"],
            Self::Timer => &["every"],
            _ => &["filter", "ports"],
        }
    }
}

/// A declaration of a script.
pub(crate) struct Trigger {
    pub(crate) event: Event,
    pub(crate) function: Function,
    /// The first line of the function.
    pub(crate) line: Option<u32>,
    pub(crate) filter: Option<Box<dyn Test>>,
    /// Source or destination port must be one of these; empty: all.
    pub(crate) ports: Vec<u16>,
    /// Required first bytes of a direction.
    pub(crate) prefix: Option<Vec<u8>>,
    /// For `data` in the first bytes of a direction, for `match` anywhere.
    pub(crate) regex: Option<Regex>,
    /// Interval of `timer`, ns.
    pub(crate) every_ns: u64,
}

/// Ports of DNS, mDNS (RFC 6762) and LLMNR (RFC 4795), used if a `dns` trigger has none.
const DNS_PORTS: [u16; 3] = [53, 5353, 5355];
/// Maximum size of a compiled regular expression, bytes.
const REGEX_BYTES: usize = 1 << 20;
/// Maximum length of a filter or a regular expression, bytes: compiling needs many times that.
const TEXT_BYTES: usize = 16 << 10;

impl Trigger {
    /// Parses the arguments of `on`.
    pub(crate) fn new(name: &str, options: &Table, function: Function, compile: &Compile) -> Result<Self> {
        let known = Event::NAMES.iter().find(|(known, _)| *known == name);
        let Some((_, event)) = known else {
            let names: Vec<_> = Event::NAMES.iter().map(|(name, _)| *name).collect();
            return refuse(&format!("no event {name:?}: try {}", names.join(", ")));
        };
        for pair in options.pairs::<String, Value>() {
            let (option, _) = pair?;
            if !event.options().contains(&option.as_str()) {
                return refuse(&format!(
                    "{name} has no option {option:?}: try {}",
                    event.options().join(", ")
                ));
            }
        }
        let filter = options.get::<Option<String>>("filter")?;
        if filter.as_ref().is_some_and(|text| text.len() > TEXT_BYTES) {
            return refuse(&format!("a filter has at most {} KiB", TEXT_BYTES >> 10));
        }
        let filter = filter.map(|text| compile(&text)).transpose().map_err(Error::RuntimeError)?;
        let regex = options.get::<Option<mlua::String>>("regex")?;
        let regex = regex.map(|text| compiled(&text.as_bytes())).transpose()?;
        if *event == Event::Match && regex.is_none() {
            return refuse("match needs a regex");
        }
        let prefix = options.get::<Option<mlua::String>>("prefix")?;
        let prefix = prefix.map(|text| text.as_bytes().to_vec());
        if prefix.as_ref().is_some_and(|prefix| prefix.len() > crate::stream::FIRST_BYTES) {
            return refuse(&format!("prefix has at most {} bytes", crate::stream::FIRST_BYTES));
        }
        let every_ns = match event {
            Event::Timer => interval(options.get("every")?)?,
            _ => 0,
        };
        let mut ports = ports(options.get("ports")?)?;
        if *event == Event::Dns && ports.is_empty() {
            ports = DNS_PORTS.to_vec();
        }
        let line = function.info().line_defined.and_then(|line| u32::try_from(line).ok());
        Ok(Self { event: *event, function, line, filter, ports, prefix, regex, every_ns })
    }

    /// True if the filters accept the packet, or the flow that starts with it.
    #[inline]
    pub(crate) fn wants(&mut self, packet: &Packet, ports: [u16; 2]) -> bool {
        (self.ports.is_empty() || ports.iter().any(|port| self.ports.contains(port)))
            && self.filter.as_mut().is_none_or(|filter| filter.wants(packet))
    }
}

fn refuse<T>(words: &str) -> Result<T> {
    Err(Error::RuntimeError(words.to_owned()))
}

/// Compiles a regular expression on bytes; matching takes linear time.
fn compiled(text: &[u8]) -> Result<Regex> {
    if text.len() > TEXT_BYTES {
        return refuse(&format!("a regex has at most {} KiB", TEXT_BYTES >> 10));
    }
    let text = std::str::from_utf8(text)
        .map_err(|_| Error::RuntimeError("a regex is UTF-8: write other bytes as \\xff".into()))?;
    let syntax = regex_automata::util::syntax::Config::new().utf8(false);
    let plan = Regex::config().utf8_empty(false).nfa_size_limit(Some(REGEX_BYTES));
    let regex = Regex::builder().syntax(syntax).configure(plan).build(text);
    regex.map_err(|error| {
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        Error::RuntimeError(format!("regex {text:?}: {why}"))
    })
}

fn ports(value: Value) -> Result<Vec<u16>> {
    let port = |value: Value| {
        let port = value.as_integer().and_then(|port| u16::try_from(port).ok());
        port.ok_or_else(|| Error::RuntimeError("ports are numbers from 0 to 65535".into()))
    };
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::Table(table) => table.sequence_values::<Value>().map(|value| port(value?)).collect(),
        other => Ok(vec![port(other)?]),
    }
}

/// Parses `10`, `"10s"`, `"500ms"`, `"5m"`, `"1h"` to ns.
fn interval(value: Value) -> Result<u64> {
    let wrong =
        || Error::RuntimeError("timer needs `every`: seconds, or a text such as 500ms, 10s, 5m, 1h".into());
    let seconds = match value {
        Value::Integer(seconds) => seconds as f64,
        Value::Number(seconds) => seconds,
        Value::String(text) => {
            let text = text.to_string_lossy();
            let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
            let unit = match &text[at..] {
                "ms" => 1e-3,
                "" | "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(wrong()),
            };
            text[..at].trim().parse::<f64>().map_err(|_| wrong())? * unit
        }
        _ => return Err(wrong()),
    };
    // A shorter interval would cause a call for each packet.
    if (1e-3..=1e9).contains(&seconds) { Ok((seconds * 1e9) as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_or_have_a_unit() {
        let lua = mlua::Lua::new();
        let text = |text: &str| interval(Value::String(lua.create_string(text).unwrap())).ok();
        assert_eq!(interval(Value::Integer(10)).ok(), Some(10_000_000_000));
        assert_eq!(
            (text("10s"), text("500ms"), text("2")),
            (Some(10_000_000_000), Some(500_000_000), Some(2_000_000_000))
        );
        assert_eq!((text("5m"), text("1h")), (Some(300_000_000_000), Some(3_600_000_000_000)));
        for wrong in ["", "s", "0", "-1s", "1d", "1e99", "nan"] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
