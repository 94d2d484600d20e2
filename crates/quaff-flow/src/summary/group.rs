//! The groups of flows: by host, port, application and others, with their texts.

use crate::record::{FlowRecord, RecordKey};
use quaff_wire::flow::{Protocol, is_icmp};
use quaff_wire::net::{TCP, UDP};
use std::fmt;
use std::net::IpAddr;

/// IANA protocol number.
const SCTP: u8 = 132;

/// The property by which flows are summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// Addresses, ports, protocol, type of ICMP, VLAN and tunnel.
    Flow,
    /// Both ends: a flow counts for each.
    Host,
    Source,
    Destination,
    /// The destination port, which is that of the service.
    Port,
    Application,
    /// The name that a client requested: TLS, DNS, HTTP.
    Server,
    Protocol,
    Vlan,
    /// Several properties: each combination is a group.
    Several(&'static Combination),
}

/// Several properties.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Combination {
    name: String,
    all: Vec<By>,
}

impl By {
    /// Several properties together, named as they were given; `None` if one of them is already several: a flow, or both
    /// of its hosts. The combination lives as long as the process, so it is made once for an argument.
    pub fn several(name: &str, all: Vec<Self>) -> Option<Self> {
        let is_one = |by: &Self| !matches!(by, Self::Flow | Self::Host | Self::Several(_));
        let is_fine = all.len() > 1 && all.iter().all(is_one);
        is_fine.then(|| Self::Several(Box::leak(Box::new(Combination { name: name.to_owned(), all }))))
    }

    /// Returns whether it is this property, or has it among others.
    pub fn has(self, by: Self) -> bool {
        self == by || matches!(self, Self::Several(of) if of.all.contains(&by))
    }

    /// Returns whether its groups are those of the destination: what it received is what the source has sent.
    pub(super) fn is_of_destination(self) -> bool {
        match self {
            Self::Destination | Self::Port => true,
            Self::Several(of) => of.all.iter().all(|by| by.is_of_destination()),
            _ => false,
        }
    }
}

impl Combination {
    /// The name as it was given, such as `source+port`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Group {
    Flow(RecordKey),
    Address(IpAddr),
    /// Protocol and port.
    Port(u8, u16),
    /// Protocol and application.
    Application(u8, Option<&'static str>),
    Server(Option<String>),
    Protocol(u8),
    Vlan(u16),
    Several(Box<[Self]>),
}

impl Group {
    /// The group of a record; for [`By::Host`] that of its source.
    pub(super) fn new(by: By, record: &FlowRecord) -> Self {
        let key = &record.key;
        let application = record.extras.as_deref().and_then(|extras| extras.application.as_ref());
        match by {
            // Fields that are not in the text are of the first packet, and may differ between the records of a flow.
            By::Flow => Self::Flow(RecordKey { mpls_label: 0, interface: 0, tos: 0, ..*key }),
            By::Host | By::Source => Self::Address(key.source),
            By::Destination => Self::Address(key.destination),
            By::Port => Self::Port(key.protocol, key.destination_port),
            By::Application => match application {
                Some(application) => Self::Application(0, Some(application.name)),
                None if matches!(key.protocol, TCP | UDP) => Self::Application(0, None),
                None => Self::Application(key.protocol, None),
            },
            By::Server => Self::Server(application.and_then(|application| application.server_name.clone())),
            By::Protocol => Self::Protocol(key.protocol),
            By::Vlan => Self::Vlan(key.vlan),
            By::Several(of) => Self::Several(of.all.iter().map(|by| Self::new(*by, record)).collect()),
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(key) => flow(f, key),
            Self::Address(address) => write!(f, "{address}"),
            Self::Port(protocol @ (TCP | UDP | SCTP), port) => write!(f, "{} {port}", Protocol(*protocol)),
            Self::Application(_, Some(name)) => f.write_str(name),
            Self::Application(0, None) => f.write_str("unknown"),
            Self::Port(protocol, _) | Self::Application(protocol, None) | Self::Protocol(protocol) => {
                write!(f, "{}", Protocol(*protocol))
            }
            Self::Server(Some(name)) => f.write_str(name),
            Self::Server(None) => f.write_str("without a name"),
            Self::Vlan(0) => f.write_str("untagged"),
            Self::Vlan(id) => write!(f, "vlan {id}"),
            Self::Several(groups) => groups.iter().enumerate().try_for_each(|(at, group)| {
                f.write_str(if at == 0 { "" } else { ", " })?;
                write!(f, "{group}")
            }),
        }
    }
}

/// Writes, for example, `tcp 10.0.0.1:4711 → 10.0.0.2:80 vlan 5`.
fn flow(f: &mut fmt::Formatter<'_>, key: &RecordKey) -> fmt::Result {
    let has_ports = matches!(key.protocol, TCP | UDP | SCTP);
    let end = |f: &mut fmt::Formatter<'_>, address: IpAddr, port: u16| match (has_ports, address) {
        (false, address) => write!(f, "{address}"),
        (true, IpAddr::V4(address)) => write!(f, "{address}:{port}"),
        (true, IpAddr::V6(address)) => write!(f, "[{address}]:{port}"),
    };
    write!(f, "{} ", Protocol(key.protocol))?;
    end(f, key.source, key.source_port)?;
    f.write_str(" → ")?;
    end(f, key.destination, key.destination_port)?;
    if is_icmp(key.protocol) {
        write!(f, " type {}.{}", key.icmp_type_code >> 8, key.icmp_type_code & 0xff)?;
    }
    let inner_vlan = key.inner_vlan.into();
    for (name, id) in [("vlan", key.vlan.into()), ("inner vlan", inner_vlan), ("tunnel", key.tunnel)] {
        if id > 0 {
            write!(f, " {name} {id}")?;
        }
    }
    Ok(())
}
