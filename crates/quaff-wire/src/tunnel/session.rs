//! Fields of a tunnel's header: session, time, direction.

use super::TunnelKind;
use std::fmt;
use std::net::IpAddr;

/// The tunnel of a frame: its kind, its sender, and the number in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    pub kind: TunnelKind,
    /// Source address of the carrying IP packet; `None` for MPLS over Ethernet.
    pub source: Option<IpAddr>,
    /// ERSPAN session, GRE key, NVGRE VSID, VNI, GTP TEID, L2TPv3 session, MPLS label; `None` if the header has no such
    /// number.
    pub id: Option<u32>,
}

impl fmt::Display for Session {
    /// For example `erspan 10.0.0.1 session 5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        if let Some(source) = self.source {
            write!(f, " {source}")?;
        }
        match self.id {
            Some(id) => write!(f, " {} {id}", self.kind.id_name()),
            None => Ok(()),
        }
    }
}

/// The direction of a mirrored frame through the port (the D bit of ERSPAN type III).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the switch.
    Ingress,
    /// Out of the switch.
    Egress,
}

/// Unit of an ERSPAN type III timestamp, ns, from its Gra field or the byte of a marker packet; `None` if only the
/// switch knows it.
pub(super) fn tick_ns(granularity: u8) -> Option<u32> {
    match granularity {
        0 => Some(100_000),
        1 => Some(100),
        2 => Some(1), // IEEE 1588
        _ => None,
    }
}

/// The upper bits of the timestamp in an ERSPAN type III platform subheader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upper {
    /// Platforms 3 and 7: the upper 32 bits of the same counter.
    Ticks(u32),
    /// Platforms 5 and 6: UTC seconds; the timestamp is their fraction.
    Seconds(u32),
}

/// The hardware timestamp of ERSPAN type III.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErspanTime {
    /// A wrapping counter; its origin is unknown without `upper` or a marker packet.
    pub timestamp: u32,
    /// Its unit, ns; `None` if only the switch knows it.
    pub tick_ns: Option<u32>,
    /// Upper bits, if a platform subheader has them.
    pub upper: Option<Upper>,
}
