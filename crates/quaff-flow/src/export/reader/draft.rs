//! A record whose values come field by field, in any order.

use super::super::element::{DataType, Element, Unit, Value};
use super::super::encode::NTP_OFFSET_S;
use super::bytes::{Bytes, Result, number};
use super::layout::{Layout, Part};
use crate::record::{Application, Direction, EndReason, Extras, FlowRecord, InitiatorRule, RecordKey};
use quaff_wire::flow::is_icmp;
use std::net::{IpAddr, Ipv4Addr};

/// The values of a record so far.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    key: Key,
    /// Forward and reverse, whose times are set at the end.
    directions: [Direction; 2],
    begins: [Option<Moment>; 2],
    ends: [Option<Moment>; 2],
    init_ms: Option<u64>,
    duration_ns: u64,
    end_reason: Option<u64>,
    rule: u64,
    is_continued: bool,
    application: &'a str,
    server: Option<&'a str>,
    alpn: Option<&'a str>,
}

/// The key, whose addresses may be missing.
#[derive(Debug, Default)]
struct Key {
    ends: [Option<IpAddr>; 2],
    ports: [u16; 2],
    protocol: u8,
    icmp: u16,
    vlan: u16,
    inner_vlan: u16,
    mpls_label: u32,
    interface: u16,
    tos: u8,
    tunnel: u32,
}

/// A time.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// ns since 1970.
    At(u64),
    /// ms since the start of the device.
    Up(u64),
}

/// Lowers a number to the largest of its field.
fn narrow<T: TryFrom<u64>>(number: u64, largest: T) -> T {
    number.try_into().unwrap_or(largest)
}

impl<'a> Draft<'a> {
    /// Takes a field.
    pub(super) fn put(&mut self, part: &Part, value: &Bytes<'a>) -> Result<()> {
        let Part::Value { element, is_reverse } = part else { return Ok(()) };
        match element.kind {
            DataType::Text => self.put_text(element, value),
            DataType::IpV4 | DataType::IpV6 => {
                self.put_address(element, value);
                Ok(())
            }
            _ => {
                self.put_number(element, usize::from(*is_reverse), number(value.rest));
                Ok(())
            }
        }
    }

    /// Takes an address. Of fields of both families one is empty.
    fn put_address(&mut self, element: &Element, value: &Bytes<'_>) {
        let address = match (<[u8; 4]>::try_from(value.rest), <[u8; 16]>::try_from(value.rest)) {
            (Ok(bytes), _) => IpAddr::from(bytes),
            (_, Ok(bytes)) => IpAddr::from(bytes),
            _ => return,
        };
        let end = match element.value {
            Value::Source => &mut self.key.ends[0],
            Value::Destination => &mut self.key.ends[1],
            _ => return,
        };
        if end.is_none() || !address.is_unspecified() {
            *end = Some(address);
        }
    }

    fn put_text(&mut self, element: &Element, value: &Bytes<'a>) -> Result<()> {
        let text = std::str::from_utf8(value.rest);
        let text = text.map_err(|_| value.error(format!("{} is no text of UTF-8", element.name)))?;
        // A field of fixed length is padded with zeros.
        let text = text.trim_end_matches('\0');
        match element.value {
            _ if text.is_empty() => {}
            Value::Application => self.application = text,
            Value::ServerName(_) => self.server = Some(text),
            Value::Alpn => self.alpn = Some(text),
            _ => {}
        }
        Ok(())
    }

    /// Takes a number of the forward (0) or the reverse direction (1).
    fn put_number(&mut self, element: &Element, side: usize, number: u64) {
        let (key, direction) = (&mut self.key, &mut self.directions[side]);
        match element.value {
            Value::Bytes => direction.bytes = number,
            Value::Packets => direction.packets = number,
            Value::TcpFlags => direction.tcp_flags = (number & 0xff) as u8,
            Value::MinTtl => direction.ttl_min = narrow(number, u8::MAX),
            Value::MaxTtl => direction.ttl_max = narrow(number, u8::MAX),
            Value::ServiceClass => {
                direction.tos = narrow(number, u8::MAX);
                key.tos = if side == 0 { direction.tos } else { key.tos };
            }
            Value::Start => self.begins[side] = Some(Moment::new(element, number)),
            Value::End => self.ends[side] = Some(Moment::new(element, number)),
            Value::Duration => {
                let unit_ns = if element.unit == Unit::Milli { 1_000_000 } else { 1_000 };
                self.duration_ns = number.saturating_mul(unit_ns);
            }
            Value::InitTime => self.init_ms = Some(number),
            Value::SourcePort => key.ports[0] = narrow(number, u16::MAX),
            Value::DestinationPort => key.ports[1] = narrow(number, u16::MAX),
            Value::Protocol => key.protocol = narrow(number, u8::MAX),
            // Of fields of both families one is empty.
            Value::IcmpTypeCode if number > 0 => key.icmp = narrow(number, u16::MAX),
            Value::IcmpType => key.icmp |= (number.min(0xff) << 8) as u16,
            Value::IcmpCode => key.icmp |= number.min(0xff) as u16,
            Value::Vlan => key.vlan = narrow(number, u16::MAX),
            Value::InnerVlan => key.inner_vlan = narrow(number, u16::MAX),
            Value::MplsLabel => key.mpls_label = narrow(number >> 4, u32::MAX),
            Value::Input => key.interface = narrow(number, u16::MAX),
            Value::Tunnel => key.tunnel = narrow(number, u32::MAX),
            Value::EndReason => self.end_reason = Some(number),
            Value::InitiatorRule => self.rule = number,
            // 1 is true, 2 is false (RFC 7011, 6.1.5).
            Value::Continued => self.is_continued = number == 1,
            _ => {}
        }
    }

    /// The record, or the reason why it is none.
    pub(super) fn finish(self, layout: &Layout) -> std::result::Result<FlowRecord, String> {
        let extras = self.extras()?;
        let times = self.times();
        let (end_reason, initiator) = (end_reason(self.end_reason)?, initiator(self.rule)?);
        let [mut forward, mut reverse] = self.directions;
        for (direction, times) in [&mut forward, &mut reverse].into_iter().zip(times) {
            // A direction without packets has no times.
            (direction.first_ns, direction.last_ns) = if direction.packets > 0 { times } else { (0, 0) };
        }
        let key = self.key.record_key(layout.has_icmp);
        let is_continued = self.is_continued;
        Ok(FlowRecord { key, forward, reverse, initiator, end_reason, is_continued, extras })
    }

    /// First and last packet of each direction; those of the record where the reverse one has none of its own.
    fn times(&self) -> [(u64, u64); 2] {
        let ns = |moment: Option<Moment>| moment.map(|moment| moment.ns(self.init_ms.unwrap_or(0)));
        let last = ns(self.ends[0]).unwrap_or(0);
        let first = ns(self.begins[0]).unwrap_or(last.saturating_sub(self.duration_ns));
        let reverse_first = ns(self.begins[1]).unwrap_or(first);
        let reverse_last = ns(self.ends[1]).unwrap_or(last);
        [(first, last.max(first)), (reverse_first, reverse_last.max(reverse_first))]
    }

    fn extras(&self) -> std::result::Result<Option<Box<Extras>>, String> {
        let known = match self.application {
            "" => None,
            name => Some(
                Application::of_name(name, self.key.protocol)
                    .ok_or_else(|| format!("the application {name:?} is none that this quaff knows"))?,
            ),
        };
        if known.is_none() && self.server.is_none() && self.alpn.is_none() {
            return Ok(None);
        }
        let [server_name, alpn] = [self.server, self.alpn].map(|text| text.map(str::to_owned));
        let application = Application { server_name, alpn, ..known.unwrap_or_default() };
        Ok(Some(Box::new(Extras { application: Some(application), ..Extras::default() })))
    }
}

impl Key {
    fn record_key(self, has_icmp: bool) -> RecordKey {
        let [source, destination] = self.ends;
        let none = match source.or(destination) {
            Some(IpAddr::V6(_)) => IpAddr::from([0_u16; 8]),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let (mut ports, mut icmp_type_code) = (self.ports, self.icmp);
        if is_icmp(self.protocol) {
            if !has_icmp {
                icmp_type_code = ports[1];
            }
            ports = [0; 2];
        }
        RecordKey {
            source: source.unwrap_or(none),
            destination: destination.unwrap_or(none),
            source_port: ports[0],
            destination_port: ports[1],
            protocol: self.protocol,
            icmp_type_code,
            vlan: self.vlan,
            inner_vlan: self.inner_vlan,
            mpls_label: self.mpls_label,
            interface: self.interface,
            tos: self.tos,
            tunnel: self.tunnel,
        }
    }
}

impl Moment {
    fn new(element: &Element, number: u64) -> Self {
        match element.kind {
            DataType::Seconds => Self::At(number.saturating_mul(1_000_000_000)),
            DataType::Millis => Self::At(number.saturating_mul(1_000_000)),
            DataType::Micros => Self::At(of_ntp(number, 1_000_000)),
            DataType::Nanos => Self::At(of_ntp(number, 1_000_000_000)),
            _ => Self::Up(number),
        }
    }

    fn ns(self, init_ms: u64) -> u64 {
        match self {
            Self::At(ns) => ns,
            Self::Up(ms) => init_ms.saturating_add(ms).saturating_mul(1_000_000),
        }
    }
}

/// A time of NTP, whose seconds begin in 1900 and have 32 bits, in ns since 1970: until 2106.
fn of_ntp(number: u64, units_per_s: u64) -> u64 {
    let seconds = ((number >> 32) as u32).wrapping_sub(NTP_OFFSET_S as u32);
    let units = ((number & 0xffff_ffff) * units_per_s) >> 32;
    u64::from(seconds) * 1_000_000_000 + units * (1_000_000_000 / units_per_s)
}

/// The reason for the end of a record; without one it is unknown, and counts as that of the meter's end.
fn end_reason(number: Option<u64>) -> std::result::Result<EndReason, String> {
    let Some(number) = number else { return Ok(EndReason::Forced) };
    EndReason::numbered(number).ok_or_else(|| format!("{number} is no flowEndReason"))
}

fn initiator(number: u64) -> std::result::Result<InitiatorRule, String> {
    InitiatorRule::numbered(number).ok_or_else(|| format!("{number} is no quaffInitiatorRule"))
}
