//! Fields of a tunnel's header: session, time, direction.

use super::TunnelKind;
use std::fmt;
use std::net::IpAddr;

/// The tunnel that a frame came through: its kind, its sender, and the number in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// The kind of the tunnel.
    pub kind: TunnelKind,
    /// The source address of the IP packet that carried it; `None` for MPLS on Ethernet.
    pub source: Option<IpAddr>,
    /// ERSPAN session, GRE key, NVGRE VSID, VNI, GTP TEID, L2TPv3 session, MPLS label; `None`
    /// where the header has no such number.
    pub id: Option<u32>,
}

impl fmt::Display for Session {
    /// For instance `erspan 10.0.0.1 session 5`.
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

/// The unit of an ERSPAN type III timestamp (the Gra field).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// 100 µs.
    Us100,
    /// 100 ns.
    Ns100,
    /// IEEE 1588: ns.
    Ieee1588,
    /// As the switch is configured; the header does not say.
    Custom,
}

impl Granularity {
    /// From the two bits of the field, or the byte of a marker packet.
    pub(super) fn of(field: u8) -> Self {
        match field {
            0 => Self::Us100,
            1 => Self::Ns100,
            2 => Self::Ieee1588,
            _ => Self::Custom,
        }
    }

    /// The unit in ns; `None` when only the switch knows.
    pub fn tick_ns(self) -> Option<u32> {
        match self {
            Self::Us100 => Some(100_000),
            Self::Ns100 => Some(100),
            Self::Ieee1588 => Some(1),
            Self::Custom => None,
        }
    }
}

/// The upper bits of the timestamp in the platform subheader of ERSPAN type III.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Upper {
    /// Platforms 3 and 7: the upper 32 bits of the same counter.
    Ticks(u32),
    /// Platforms 5 and 6: UTC seconds, whose fraction the timestamp is.
    Seconds(u32),
}

/// The hardware time of ERSPAN type III.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErspanTime {
    /// A counter that wraps; its zero is unknown without `upper` or a marker packet.
    pub timestamp: u32,
    /// Its unit.
    pub granularity: Granularity,
    /// More of it, where a platform subheader has more.
    pub upper: Option<Upper>,
}
