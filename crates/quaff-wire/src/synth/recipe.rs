//! The description of synthetic traffic as plain data, and its errors.

use super::{Content, Damage, Encapsulation, Flows, Harm, LinkHeaders, New, Sizes, Tuples};
use crate::net::ipv6::IPV6_BYTES;
use crate::net::tcp::TCP_BYTES;
use crate::net::{IPV4_BYTES, UDP_BYTES, icmp};
use crate::probe::HEADER_BYTES;
use std::net::{IpAddr, Ipv4Addr};

/// Largest generated frame without a tunnel, bytes.
pub(super) const FRAME_BYTES_MAX: u32 = 65_000;
/// Maximum number of conversations: each takes 24 bytes of memory.
const CONVERSATIONS_MAX: u64 = 1 << 22;
/// Fragment payloads are a multiple of this (RFC 791).
pub(super) const FRAGMENT_UNIT: usize = 8;

/// The protocol of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    Udp,
    /// TCP: only the SYN of each connection.
    TcpSyn,
    /// TCP: complete conversations.
    TcpConversation {
        /// Number of data segments per conversation, from client and server in turn.
        segments: u32,
    },
    /// ICMP or ICMPv6 echo requests.
    Icmp,
}

/// A description of synthetic traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Sizes of frames, excluding a tunnel.
    pub sizes: Sizes,
    /// Limits of the frame size, bytes; never smaller than the headers.
    pub size_limits: (u32, u32),
    pub content: Content,
    /// The headers before the IP header.
    pub link: LinkHeaders,
    /// A tunnel for each frame.
    pub tunnel: Option<Encapsulation>,
    pub tuples: Tuples,
    /// Number and lifetime of flows.
    pub flows: Flows,
    pub kind: PacketKind,
    /// Maximum number of bytes after the IP header; larger packets are fragmented.
    pub fragment: Option<u32>,
    pub damage: Damage,
    /// Stream id of the probe headers in UDP frames to the probe port; `None`: no probe headers.
    pub stream: Option<u16>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Due time of the first frame, ns since 1970, for probe headers.
    pub start_ns: u64,
    /// Number of frames, if known.
    pub count: Option<u64>,
}

/// Why a recipe is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecipeError {
    #[error("source and destination addresses are of different families")]
    Families,
    #[error("{wanted} flows at a time are wanted, but the ranges have only {there} 5-tuples; widen them")]
    FewTuples { wanted: u64, there: u64 },
    #[error("`flows` must be at least 1")]
    NoFlows,
    #[error("so many new flows per second cannot be: {0}")]
    NewFlows(String),
    #[error("conversations begin when others end; a rate of new flows cannot be kept with them")]
    ConversationsBegin,
    #[error("at most {CONVERSATIONS_MAX} conversations at a time, not {0}")]
    ManyConversations(u64),
    #[error(
        "`fragment` {0} is too small; {FRAGMENT_UNIT} is the least, and fragments are cut to a multiple of it"
    )]
    SmallFragments(u32),
    #[error("IPv6 headers have no checksum that could be damaged")]
    NoHeaderChecksum,
    #[error("a label of `mpls` has 20 bits, not {0}")]
    Label(u32),
}

impl Recipe {
    /// Length of a frame's headers, bytes.
    pub fn header_bytes(&self) -> u32 {
        let link = self.link.header(self.is_v4(), false).len();
        (link + self.ip_bytes() + self.transport_bytes()) as u32
    }

    /// Smallest frame that can carry a probe header, bytes.
    pub(crate) fn probe_frame_bytes(&self) -> u32 {
        self.header_bytes() + HEADER_BYTES as u32
    }

    /// Smallest and largest frame, bytes.
    pub(super) fn frame_bytes(&self) -> (u32, u32) {
        let min = self.size_limits.0.max(self.header_bytes()).min(FRAME_BYTES_MAX);
        (min, self.size_limits.1.clamp(min, FRAME_BYTES_MAX))
    }

    /// True if frames of this kind carry probe headers where they fit.
    pub(crate) fn may_carry_probes(&self) -> bool {
        self.kind == PacketKind::Udp && self.stream.is_some()
    }

    /// True if every frame carries a probe header, whatever sizes are drawn.
    pub fn all_carry_probes(&self) -> bool {
        let (min, max) = self.frame_bytes();
        let (smallest, largest) = self.sizes.bounds();
        let ip_payload = largest.clamp(min, max) - (self.header_bytes() - self.transport_bytes() as u32);
        let may_fragment = self.fragment.is_some_and(|bytes| ip_payload > bytes);
        self.may_carry_probes() && smallest.clamp(min, max) >= self.probe_frame_bytes() && !may_fragment
    }

    /// True if frames differ only in addresses, ports, checksums and probe headers: IPv4 with UDP or a SYN, of one
    /// size, with the same content, undamaged, with flows in numeric turn.
    pub fn differs_only_by_flow(&self) -> bool {
        self.sizes.single().is_some()
            && matches!(self.kind, PacketKind::Udp | PacketKind::TcpSyn)
            && matches!(self.content, Content::Counting | Content::Zeros | Content::Ones)
            && !matches!(self.flows.new, New::PerSecond(_))
            && (self.is_v4() && self.link.labels.is_empty() && self.tunnel.is_none())
            && (self.fragment.is_none() && self.damage.is_none())
    }

    pub(super) fn is_v4(&self) -> bool {
        self.tuples.src.first.is_ipv4()
    }

    pub(super) fn ip_bytes(&self) -> usize {
        if self.is_v4() { IPV4_BYTES } else { IPV6_BYTES }
    }

    pub(super) fn transport_bytes(&self) -> usize {
        match self.kind {
            PacketKind::Udp => UDP_BYTES,
            PacketKind::TcpSyn | PacketKind::TcpConversation { .. } => TCP_BYTES,
            PacketKind::Icmp => icmp::HEADER_BYTES,
        }
    }

    pub(super) fn check(&self) -> Result<(), RecipeError> {
        let (wanted, there) = (self.flows.concurrent, self.tuples.count());
        let is_talk = matches!(self.kind, PacketKind::TcpConversation { .. });
        match self.flows.new {
            New::PerSecond(rate) if !(rate > 0.0 && rate <= 1e9) => {
                return Err(RecipeError::NewFlows(rate.to_string()));
            }
            New::PerSecond(_) | New::EachFrame if is_talk => return Err(RecipeError::ConversationsBegin),
            _ => {}
        }
        if let Some(label) = self.link.labels.iter().find(|label| **label >= 1 << 20) {
            return Err(RecipeError::Label(*label));
        }
        match self.fragment {
            Some(bytes) if (bytes as usize) < FRAGMENT_UNIT => Err(RecipeError::SmallFragments(bytes)),
            _ if !self.tuples.are_of_one_family() => Err(RecipeError::Families),
            _ if wanted == 0 => Err(RecipeError::NoFlows),
            _ if wanted > there => Err(RecipeError::FewTuples { wanted, there }),
            _ if is_talk && wanted > CONVERSATIONS_MAX => Err(RecipeError::ManyConversations(wanted)),
            _ if !self.is_v4() && self.damage.share(Harm::IpChecksum) > 0.0 => {
                Err(RecipeError::NoHeaderChecksum)
            }
            _ => Ok(()),
        }
    }

    /// Endpoints of a tunnel: the first addresses, or those of the benchmark network (RFC 2544).
    pub(super) fn tunnel_ends(&self) -> [Ipv4Addr; 2] {
        let end = |address, other| match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => other,
        };
        let [one, two] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
        [end(self.tuples.src.first, one), end(self.tuples.dst.first, two)]
    }
}
