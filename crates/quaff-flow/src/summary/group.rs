//! The groups of flows: by host, port, application and others, with their texts.

use crate::record::{Application, EndReason, FlowRecord, InitiatorRule, RecordKey};
use quaff_wire::flow::{Protocol, is_icmp};
use quaff_wire::net::{TCP, UDP};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IANA protocol number.
const SCTP: u8 = 132;
/// The name of the group of records that do not have the property.
const NOT_RECORDED: &str = "not recorded";

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
    SourcePort,
    /// IP version.
    Version,
    Tos,
    /// Flags of TCP in the packets of both directions.
    Flags,
    /// Type and code of ICMP.
    Icmp,
    Interface,
    InnerVlan,
    /// Top label of MPLS.
    Mpls,
    /// VNI, TEID, key or session of the tunnel that was removed.
    Tunnel,
    /// The reason for the end of the record.
    End,
    /// The rule that chose the source.
    Rule,
    /// Protocols that the client offers (ALPN).
    Alpn,
    /// The record continues another one.
    Continued,
    /// The net of the source, or of the destination, with so many bits: of IPv4 up to 32, and 64 of IPv6; of IPv6
    /// from 33 on, and whole addresses of IPv4.
    SourceNet(u8),
    DestinationNet(u8),
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
    /// All properties that are no combination.
    pub const SINGLE: [Self; 22] = [
        Self::Flow,
        Self::Host,
        Self::Source,
        Self::Destination,
        Self::Port,
        Self::Application,
        Self::Server,
        Self::Protocol,
        Self::Vlan,
        Self::SourcePort,
        Self::Version,
        Self::Tos,
        Self::Flags,
        Self::Icmp,
        Self::Interface,
        Self::InnerVlan,
        Self::Mpls,
        Self::Tunnel,
        Self::End,
        Self::Rule,
        Self::Alpn,
        Self::Continued,
    ];

    /// Several properties together, or a net, named as they were given; `None` if one of them is already several (a
    /// flow, or both of its hosts), or is there twice. The combination lives as long as the process, so it is made once
    /// for an argument.
    pub fn several(name: &str, all: Vec<Self>) -> Option<Self> {
        let is_one = |by: &Self| !matches!(by, Self::Flow | Self::Host | Self::Several(_));
        let is_new = |(at, by): (usize, &Self)| !all[..at].contains(by);
        let has_name = all.len() > 1 || all.iter().any(|by| by.is_net());
        let is_fine = has_name && all.iter().all(is_one) && all.iter().enumerate().all(is_new);
        is_fine.then(|| Self::Several(Box::leak(Box::new(Combination { name: name.to_owned(), all }))))
    }

    /// Returns whether it is this property, or has it among others.
    pub fn has(self, by: Self) -> bool {
        self.parts().contains(&by)
    }

    /// Returns whether its groups are nets.
    pub fn is_net(self) -> bool {
        matches!(self, Self::SourceNet(_) | Self::DestinationNet(_))
    }

    /// Returns the property of records from which its groups follow.
    pub(super) fn recorded(self) -> Self {
        match self {
            Self::SourceNet(_) => Self::Source,
            Self::DestinationNet(_) => Self::Destination,
            other => other,
        }
    }

    /// Returns the properties of a combination, or this one.
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::Several(of) => &of.all,
            one => std::slice::from_ref(one),
        }
    }

    /// A flow in words, as the rows of [`By::Flow`] have it: `tcp 10.0.0.1:4711 → 10.0.0.2:80 vlan 5`.
    pub fn flow_name(key: &RecordKey) -> String {
        Group::Flow(*key).to_string()
    }

    /// Returns whether its groups are those of the destination: what it received is what the source has sent.
    pub(super) fn is_of_destination(self) -> bool {
        match self {
            Self::Destination | Self::DestinationNet(_) | Self::Port => true,
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
    /// The first address, and the number of bits.
    Net(IpAddr, u8),
    /// Protocol and port.
    Port(u8, u16),
    /// Protocol and application.
    Application(u8, Option<&'static str>),
    Server(Option<String>),
    Protocol(u8),
    Vlan(u16),
    Version(u8),
    Tos(u8),
    Flags(u8),
    /// Protocol, and type << 8 | code; 0 of other protocols.
    Icmp(u8, u16),
    Interface(u16),
    InnerVlan(u16),
    Mpls(u32),
    Tunnel(u32),
    End(EndReason),
    Rule(InitiatorRule),
    Alpn(Option<String>),
    Continued(bool),
    Several(Box<[Self]>),
    /// The records do not have the property.
    NotRecorded,
}

impl Group {
    /// The group of a record, which does not have the properties `lacking`; for [`By::Host`] that of its source.
    pub(super) fn new(by: By, record: &FlowRecord, lacking: &[By]) -> Self {
        if lacking.contains(&by.recorded()) {
            return Self::NotRecorded;
        }
        let key = &record.key;
        let application = record.extras.as_deref().and_then(|extras| extras.application.as_ref());
        match by {
            // Fields that are not in the text are of the first packet, and may differ between the records of a flow.
            By::Flow => Self::Flow(RecordKey { mpls_label: 0, interface: 0, tos: 0, ..*key }),
            By::Host | By::Source => Self::Address(key.source),
            By::Destination => Self::Address(key.destination),
            By::Port => Self::Port(key.protocol, key.destination_port),
            By::SourcePort => Self::Port(key.protocol, key.source_port),
            By::Application => Self::application(application, key.protocol),
            By::Server => Self::Server(application.and_then(|application| application.server_name.clone())),
            By::Alpn => Self::Alpn(application.and_then(|application| application.alpn.clone())),
            By::Protocol => Self::Protocol(key.protocol),
            By::Version => Self::Version(key.ip_version()),
            By::Vlan => Self::Vlan(key.vlan),
            By::InnerVlan => Self::InnerVlan(key.inner_vlan),
            // As stored records have it.
            By::Tos if record.forward.packets > 0 => Self::Tos(record.forward.tos),
            By::Tos => Self::Tos(key.tos),
            By::Flags => Self::Flags(record.forward.tcp_flags | record.reverse.tcp_flags),
            By::Icmp if is_icmp(key.protocol) => Self::Icmp(key.protocol, key.icmp_type_code),
            By::Icmp => Self::Icmp(0, 0),
            By::Interface => Self::Interface(key.interface),
            By::Mpls => Self::Mpls(key.mpls_label),
            By::Tunnel => Self::Tunnel(key.tunnel),
            By::End => Self::End(record.end_reason),
            By::Rule => Self::Rule(record.initiator),
            By::Continued => Self::Continued(record.is_continued),
            By::SourceNet(bits) => Self::net(key.source, bits),
            By::DestinationNet(bits) => Self::net(key.destination, bits),
            By::Several(of) => {
                Self::Several(of.all.iter().map(|by| Self::new(*by, record, lacking)).collect())
            }
        }
    }

    /// An application; without one TCP and UDP are unknown, and other protocols have their name.
    fn application(application: Option<&Application>, protocol: u8) -> Self {
        match application.filter(|application| !application.name.is_empty()) {
            Some(application) => Self::Application(0, Some(application.name)),
            None if matches!(protocol, TCP | UDP) => Self::Application(0, None),
            None => Self::Application(protocol, None),
        }
    }

    fn net(address: IpAddr, bits: u8) -> Self {
        let [of_ipv4, of_ipv6] = net_bits(bits);
        match address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(of_ipv4)).unwrap_or(0);
                Self::Net(IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & mask)), of_ipv4)
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(of_ipv6)).unwrap_or(0);
                Self::Net(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask)), of_ipv6)
            }
        }
    }

    /// The groups of a combination.
    pub(super) fn parts(&self) -> &[Self] {
        match self {
            Self::Several(groups) => groups,
            _ => &[],
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flow(key) => flow(f, key),
            Self::Address(address) => write!(f, "{address}"),
            Self::Net(address, bits) => write!(f, "{address}/{bits}"),
            Self::Port(protocol @ (TCP | UDP | SCTP), port) => write!(f, "{} {port}", Protocol(*protocol)),
            Self::Application(_, Some(name)) => f.write_str(name),
            Self::Application(0, None) => f.write_str("unknown"),
            Self::Port(protocol, _) | Self::Application(protocol, None) | Self::Protocol(protocol) => {
                write!(f, "{}", Protocol(*protocol))
            }
            Self::Server(Some(text)) | Self::Alpn(Some(text)) => f.write_str(text),
            Self::Server(None) => f.write_str("without a name"),
            Self::Alpn(None) => f.write_str("without ALPN"),
            Self::Version(version) => write!(f, "ipv{version}"),
            Self::Tos(tos) => write!(f, "tos {tos}"),
            Self::Flags(flags) => f.write_str(&flag_letters(*flags)),
            Self::Icmp(0, _) => f.write_str("no icmp"),
            Self::Icmp(protocol, code) => {
                write!(f, "{} type {}.{}", Protocol(*protocol), code >> 8, code & 0xff)
            }
            Self::End(reason) => f.write_str(end_words(*reason)),
            Self::Rule(rule) => f.write_str(rule_words(*rule)),
            Self::Continued(is_continued) => f.write_str(if *is_continued { "continued" } else { "first" }),
            Self::Interface(number) => write!(f, "interface {number}"),
            Self::Vlan(id) => numbered(f, "vlan", (*id).into(), "untagged"),
            Self::InnerVlan(id) => numbered(f, "inner vlan", (*id).into(), "one tag or none"),
            Self::Mpls(label) => numbered(f, "mpls", *label, "no mpls"),
            Self::Tunnel(id) => numbered(f, "tunnel", *id, "no tunnel"),
            Self::Several(groups) => groups.iter().enumerate().try_for_each(|(at, group)| {
                f.write_str(if at == 0 { "" } else { ", " })?;
                write!(f, "{group}")
            }),
            Self::NotRecorded => f.write_str(NOT_RECORDED),
        }
    }
}

/// The bits of nets of IPv4 and of IPv6, for the number of a property.
fn net_bits(bits: u8) -> [u8; 2] {
    if bits <= 32 { [bits, 64] } else { [32, bits.min(128)] }
}

/// A number after its name; 0 is the absence of it.
fn numbered(f: &mut fmt::Formatter<'_>, name: &str, number: u32, none: &str) -> fmt::Result {
    if number == 0 { f.write_str(none) } else { write!(f, "{name} {number}") }
}

/// Flags of TCP by the letters of nfdump and `--where`, the lowest bit last.
fn flag_letters(flags: u8) -> String {
    let letters = "CEUAPRSF".chars().enumerate().filter(|(at, _)| flags & (0x80 >> at) != 0);
    let letters: String = letters.map(|(_, letter)| letter).collect();
    if letters.is_empty() { "no flags".to_owned() } else { letters }
}

fn end_words(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Idle => "idle",
        EndReason::Active => "active",
        EndReason::EndOfFlow => "end of flow",
        EndReason::Forced => "forced",
        EndReason::LackOfResources => "lack of resources",
    }
}

fn rule_words(rule: InitiatorRule) -> &'static str {
    match rule {
        InitiatorRule::Sender => "sender",
        InitiatorRule::Syn => "SYN",
        InitiatorRule::SynAck => "SYN-ACK",
        InitiatorRule::Icmp => "ICMP",
        InitiatorRule::Ports => "ports",
        InitiatorRule::First => "first packet",
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
