//! The plan of a meter: keys, timeouts, limits, sampling, and the extras to compute. Plain data.

/// The plan of the meter of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterPlan {
    pub key: KeyPlan,
    /// A record has both directions (RFC 5103); otherwise each direction is a flow of its own.
    pub is_biflow: bool,
    /// Maximum duration of a piece of a flow, ns.
    pub active_ns: u64,
    /// A flow ends after this time without packets, ns.
    pub idle_ns: u64,
    /// A closed TCP flow ends after this time without packets, ns, so that late packets still belong to it.
    pub linger_ns: u64,
    /// Maximum flows in the table.
    pub flows_max: u32,
    /// Maximum bytes of memory of the table and the fragments; lowers `flows_max` if that needs more. At most an eighth
    /// of it is for fragments.
    pub bytes_max: u64,
    pub sampling: Sampling,
    pub extras: ExtrasPlan,
}

impl Default for MeterPlan {
    fn default() -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        Self {
            key: KeyPlan::default(),
            is_biflow: true,
            active_ns: 120 * SECOND_NS,
            idle_ns: 30 * SECOND_NS,
            linger_ns: 2 * SECOND_NS,
            flows_max: 1 << 20,
            bytes_max: 1 << 30,
            sampling: Sampling::All,
            extras: ExtrasPlan::default(),
        }
    }
}

/// Fields in the key besides addresses, ports and protocol. A field that is not in the key has the value of the first
/// packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlan {
    pub vlan: bool,
    pub mpls: bool,
    pub interface: bool,
    pub tos: bool,
    pub tunnel: bool,
}

impl Default for KeyPlan {
    /// The 5-tuple, the VLAN and the tunnel.
    fn default() -> Self {
        Self { vlan: true, mpls: false, interface: false, tos: false, tunnel: true }
    }
}

/// Selection of the packets that are metered (RFC 5475); each meter selects for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    All,
    /// Systematic, count-based: the first of every `interval` packets (selectorAlgorithm 1).
    Systematic {
        interval: u32,
    },
    /// Uniform probabilistic: each packet with probability 1 / `interval`, by `seed` (selectorAlgorithm 4).
    Random {
        interval: u32,
        seed: u64,
    },
}

impl Sampling {
    /// Packets of the input per metered packet, on average (samplingInterval, samplingPacketInterval).
    pub fn interval(&self) -> u32 {
        match self {
            Self::All => 1,
            Self::Systematic { interval } | Self::Random { interval, .. } => (*interval).max(1),
        }
    }
}

/// Extras to compute; none by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtrasPlan {
    pub macs: bool,
    /// Round-trip times of the handshake, retransmissions, reordering, losses before the meter, window.
    pub tcp: bool,
    /// Times from TCP data to its ACK.
    pub ack_times: bool,
    /// Packet sizes, gaps, payload bytes.
    pub statistics: bool,
    /// Number of first bytes of payload to keep per direction.
    pub payload_bytes: u16,
    /// Application, server name and offered protocols, from the first 2,048 bytes of payload per direction, and from
    /// the first Initial packets of QUIC.
    pub application: bool,
    /// Addresses in DNS answers among these bytes, with their names; only with `application`.
    pub addresses: bool,
}

impl ExtrasPlan {
    /// True if any extra is enabled.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }
}
