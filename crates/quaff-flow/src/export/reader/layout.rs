//! Templates: the fields of a record, with the elements that they have, and the properties that the records lack.

use super::super::element::{self, DataType, Element, NTOP, PRIVATE, REVERSE, REVERSE_BIT, VARIABLE, Value};
use super::bytes::{Bytes, Result};
use crate::summary::By;
use std::sync::Arc;

/// Maximum fields of one template.
const FIELDS_MAX: u16 = 1024;

/// The records of one template.
#[derive(Debug)]
pub(super) struct Layout {
    parts: Vec<(Part, u16)>,
    pub(super) is_options: bool,
    /// Minimum bytes of a record; at least one for each field.
    pub(super) bytes_min: usize,
    /// Properties that the records do not have.
    pub(super) lacking: Arc<[By]>,
    /// The reason why records cannot be summed.
    pub(super) refusal: Option<String>,
    /// A record has both directions.
    pub(super) is_biflow: bool,
    /// Type and code of ICMP have a field of their own; otherwise they are in the destination's port.
    pub(super) has_icmp: bool,
}

/// The meaning of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A value of a record, of the reverse direction if `is_reverse`.
    Value { element: &'static Element, is_reverse: bool },
    /// A field of options: enterprise and number.
    Counter(u32, u16),
    /// An element that no record needs.
    Skipped,
}

impl Part {
    /// The meaning of a number in a template of records.
    fn of(pen: u32, id: u16) -> Self {
        let found = match pen {
            REVERSE => element::by_number(0, id).map(|element| (element, true)),
            PRIVATE => {
                element::by_number(pen, id & !REVERSE_BIT).map(|element| (element, id & REVERSE_BIT != 0))
            }
            0 | NTOP => element::by_number(pen, id).map(|element| (element, element.of_reverse)),
            _ => None,
        };
        found.map_or(Self::Skipped, |(element, is_reverse)| Self::Value { element, is_reverse })
    }

    fn value(&self) -> Option<(Value, bool)> {
        match self {
            Self::Value { element, is_reverse } => Some((element.value, *is_reverse)),
            _ => None,
        }
    }

    /// The preference among several fields with one value: finer times, and counts since the record before.
    fn rank(&self) -> u8 {
        let Self::Value { element, .. } = self else { return 0 };
        match element.kind {
            DataType::Nanos => 5,
            DataType::Micros => 4,
            DataType::Millis => 3,
            DataType::Seconds => 2,
            _ if matches!((element.pen, element.id), (0, 85 | 86)) => 0,
            _ => 1,
        }
    }
}

/// Returns whether an element may have this length. Integers may be shorter than their type (RFC 7011, 6.2).
fn fits(element: &Element, bytes: u16) -> bool {
    match element.kind {
        DataType::U8 | DataType::U16 | DataType::U32 | DataType::U64 => (1..=8).contains(&bytes),
        DataType::Boolean => bytes == 1,
        DataType::Text => true,
        DataType::Octets => element.bytes == VARIABLE || bytes == element.bytes,
        _ => bytes == element.bytes,
    }
}

impl Layout {
    /// Reads the fields of a template, whose number and count precede them.
    pub(super) fn read(set: &mut Bytes<'_>, count: u16, is_options: bool) -> Result<Self> {
        let start = *set;
        if is_options {
            // How many of the fields are the scope.
            set.u16("a number of scopes")?;
        }
        if count > FIELDS_MAX {
            return Err(start.error(format!("a template of {count} fields, more than {FIELDS_MAX}")));
        }
        let (mut parts, mut bytes_min) = (Vec::new(), 0);
        for _ in 0..count {
            let place = *set;
            let (id, bytes) = (set.u16("an element")?, set.u16("the length of a field")?);
            let pen = if id & 0x8000 == 0 { 0 } else { set.u32("an enterprise")? };
            let id = id & 0x7fff;
            let part = if is_options { Part::Counter(pen, id) } else { Part::of(pen, id) };
            if bytes == 0 {
                return Err(place.error("a field with a length of 0"));
            }
            if let Part::Value { element, .. } = part
                && !fits(element, bytes)
            {
                return Err(place.error(format!("{} with a length of {bytes}", element.name)));
            }
            parts.push((part, bytes));
            bytes_min += if bytes == VARIABLE { 1 } else { usize::from(bytes) };
        }
        let parts = best(parts);
        let all: Vec<_> = parts.iter().filter_map(|(part, _)| part.value()).collect();
        let has = |value: Value| all.contains(&(value, false));
        let refusal = if is_options { None } else { refusal(&all) };
        Ok(Self {
            is_options,
            bytes_min,
            lacking: lacking(&all).into(),
            refusal,
            is_biflow: all.contains(&(Value::Packets, true)),
            has_icmp: has(Value::IcmpTypeCode) || has(Value::IcmpType),
            parts,
        })
    }

    pub(super) fn fields(&self) -> usize {
        self.parts.len()
    }

    /// Passes each field of a record.
    pub(super) fn each<'a>(
        &self,
        set: &mut Bytes<'a>,
        mut take: impl FnMut(&Part, Bytes<'a>) -> Result<()>,
    ) -> Result<()> {
        for (part, bytes) in &self.parts {
            let length = if *bytes == VARIABLE { variable(set)? } else { usize::from(*bytes) };
            take(part, set.take(length, "a field")?)?;
        }
        Ok(())
    }
}

/// The length of a variable field (RFC 7011, 7).
fn variable(set: &mut Bytes<'_>) -> Result<usize> {
    let short = set.take(1, "the length of a field")?.rest[0];
    Ok(if short < 255 { short.into() } else { set.u16("the length of a field")?.into() })
}

/// Returns whether both address families have an element for a value.
fn is_of_family(value: Option<(Value, bool)>) -> bool {
    let ends = matches!(value, Some((Value::Source | Value::Destination, _)));
    ends || matches!(value, Some((Value::IcmpTypeCode | Value::IcmpType | Value::IcmpCode, _)))
}

/// Skips all fields but the best of those with the same value.
fn best(mut parts: Vec<(Part, u16)>) -> Vec<(Part, u16)> {
    let ranked: Vec<_> = parts.iter().map(|(part, _)| (part.value(), part.rank())).collect();
    for (at, (part, _)) in parts.iter_mut().enumerate() {
        let (value, rank) = ranked[at];
        let is_better = |other: usize| {
            let (of, by) = ranked[other];
            of == value && (by > rank || by == rank && other < at)
        };
        // Of those of both address families one is empty in each record.
        if value.is_some() && !is_of_family(value) && (0..ranked.len()).any(is_better) {
            *part = Part::Skipped;
        }
    }
    parts
}

/// The reason why records with these values cannot be summed.
fn refusal(all: &[(Value, bool)]) -> Option<String> {
    let has = |value: Value| all.iter().any(|(of, _)| *of == value);
    let missing =
        [(Value::Packets, "packetDeltaCount"), (Value::Bytes, "octetDeltaCount"), (Value::End, "flowEnd…")];
    let missing: Vec<_> =
        missing.into_iter().filter(|(value, _)| !has(*value)).map(|(_, name)| name).collect();
    (!missing.is_empty())
        .then(|| format!("records without {}: -T of the exporter has to name them", missing.join(", ")))
}

/// The properties that records with these values do not have.
fn lacking(all: &[(Value, bool)]) -> Vec<By> {
    let has = |value: Value| all.iter().any(|(of, _)| *of == value);
    let has_server = all.iter().any(|(of, _)| matches!(of, Value::ServerName(_)));
    let is_there = |by: By| match by {
        By::Source => has(Value::Source),
        By::Destination => has(Value::Destination),
        By::Host | By::Version => has(Value::Source) && has(Value::Destination),
        By::Port => has(Value::DestinationPort) && has(Value::Protocol),
        By::SourcePort => has(Value::SourcePort) && has(Value::Protocol),
        By::Protocol => has(Value::Protocol),
        By::Flow => {
            [Value::Source, Value::Destination, Value::SourcePort, Value::DestinationPort, Value::Protocol]
                .into_iter()
                .all(has)
        }
        By::Application => has(Value::Application),
        By::Server => has_server,
        By::Alpn => has(Value::Alpn),
        By::Vlan => has(Value::Vlan),
        By::InnerVlan => has(Value::InnerVlan),
        By::Tos => has(Value::ServiceClass),
        By::Flags => has(Value::TcpFlags),
        By::Icmp => has(Value::IcmpTypeCode) || has(Value::IcmpType) || has(Value::DestinationPort),
        By::Interface => has(Value::Input),
        By::Mpls => has(Value::MplsLabel),
        By::Tunnel => has(Value::Tunnel),
        By::End => has(Value::EndReason),
        By::Rule => has(Value::InitiatorRule),
        By::Continued => has(Value::Continued),
        By::SourceNet(_) | By::DestinationNet(_) | By::Several(_) => true,
    };
    By::SINGLE.into_iter().filter(|by| !is_there(*by)).collect()
}
