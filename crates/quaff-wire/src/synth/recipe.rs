//! What to make, as plain data, and what of it cannot be.

use super::packet::{self, IPV4_BYTES, IPV6_BYTES};
use super::{Content, Damage, Encapsulation, Flows, Harm, LinkHeaders, New, Sizes, Tuples};
use crate::probe::HEADER_BYTES;
use std::net::{IpAddr, Ipv4Addr};

/// The largest frame that is made, before a tunnel is put around it.
pub const FRAME_BYTES_MAX: u32 = 65_000;
/// Conversations are kept in memory, 24 bytes each.
const TALKS_MAX: u64 = 1 << 22;
/// Pieces of a datagram are a multiple of that (RFC 791).
pub(super) const PIECE_UNIT: usize = 8;

/// What frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// UDP.
    Udp,
    /// TCP: the first segment of a connection that never comes about.
    TcpSyn,
    /// TCP: whole conversations, with so many segments of data.
    TcpTalk {
        /// From client and server in turn.
        segments: u32,
    },
    /// ICMP or ICMPv6 echo requests.
    Icmp,
}

/// What to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Sizes of frames, without a tunnel around them.
    pub sizes: Sizes,
    /// No frame is smaller or larger, bytes; nor smaller than its headers.
    pub size_limits: (u32, u32),
    /// What they carry.
    pub content: Content,
    /// What is before the IP header.
    pub link: LinkHeaders,
    /// What is around it all.
    pub tunnel: Option<Encapsulation>,
    /// Addresses and ports.
    pub tuples: Tuples,
    /// Flows at a time.
    pub flows: Flows,
    /// The protocol.
    pub kind: PacketKind,
    /// IP packets with more bytes than that behind the IP header are sent in pieces.
    pub fragment: Option<u32>,
    /// Damage.
    pub damage: Damage,
    /// UDP frames to the stamp's port carry stamps of this stream.
    pub stream: Option<u16>,
    /// From which random numbers come.
    pub seed: u64,
    /// When the first frame is due, ns since 1970; for stamps.
    pub start_ns: u64,
    /// Frames in all, where that is known.
    pub count: Option<u64>,
}

/// Why a recipe cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecipeError {
    #[error("source and destination addresses are of different families")]
    Families,
    #[error("{wanted} flows at a time are wanted, but the ranges have only {there} 5-tuples; widen them")]
    FewTuples { wanted: u64, there: u64 },
    #[error("flows at a time are 1 at least")]
    NoFlows,
    #[error("so many new flows per second cannot be: {0}")]
    NewFlows(String),
    #[error("conversations begin when others end; a rate of new flows cannot be kept with them")]
    TalksAreNew,
    #[error("at most {TALKS_MAX} conversations at a time, not {0}")]
    ManyTalks(u64),
    #[error(
        "pieces of {0} bytes are too small; {PIECE_UNIT} is the least, and they are cut to a multiple of it"
    )]
    SmallPieces(u32),
    #[error("IPv6 headers have no checksum that could be damaged")]
    NoHeaderChecksum,
    #[error("an MPLS label has 20 bits, not {0}")]
    Label(u32),
}

impl Recipe {
    /// Bytes of a frame with nothing behind its headers.
    pub fn header_bytes(&self) -> u32 {
        let link = self.link.header(self.is_v4(), false).len();
        (link + self.ip_bytes() + self.transport_bytes()) as u32
    }

    /// Bytes of the smallest frame that has room for a stamp.
    pub(crate) fn stamped_bytes(&self) -> u32 {
        self.header_bytes() + HEADER_BYTES as u32
    }

    /// Bytes of the smallest and the largest frame.
    pub fn frame_bytes(&self) -> (u32, u32) {
        let min = self.size_limits.0.max(self.header_bytes()).min(FRAME_BYTES_MAX);
        (min, self.size_limits.1.clamp(min, FRAME_BYTES_MAX))
    }

    /// Whether frames are of a kind that carries stamps, when there is room.
    pub(crate) fn may_be_stamped(&self) -> bool {
        self.kind == PacketKind::Udp && self.stream.is_some()
    }

    /// Every frame will carry a stamp, whatever sizes are drawn.
    pub fn are_all_stamped(&self) -> bool {
        let (min, max) = self.frame_bytes();
        let (smallest, largest) = self.sizes.bounds();
        let behind_ip = largest.clamp(min, max) - (self.header_bytes() - self.transport_bytes() as u32);
        let may_fragment = self.fragment.is_some_and(|bytes| behind_ip > bytes);
        self.may_be_stamped() && smallest.clamp(min, max) >= self.stamped_bytes() && !may_fragment
    }

    /// Frames are all alike but for addresses, ports, checksums and stamps: IPv4 with UDP or a SYN, of
    /// one size, with the same content in each, not damaged; and flows take turns by counting up.
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
            PacketKind::Udp => packet::UDP_BYTES,
            PacketKind::TcpSyn | PacketKind::TcpTalk { .. } => packet::TCP_BYTES,
            PacketKind::Icmp => packet::ICMP_BYTES,
        }
    }

    pub(super) fn check(&self) -> Result<(), RecipeError> {
        let (wanted, there) = (self.flows.concurrent, self.tuples.count());
        let is_talk = matches!(self.kind, PacketKind::TcpTalk { .. });
        match self.flows.new {
            New::PerSecond(rate) if !(rate > 0.0 && rate <= 1e9) => {
                return Err(RecipeError::NewFlows(rate.to_string()));
            }
            New::PerSecond(_) | New::EachFrame if is_talk => return Err(RecipeError::TalksAreNew),
            _ => {}
        }
        if let Some(label) = self.link.labels.iter().find(|label| **label >= 1 << 20) {
            return Err(RecipeError::Label(*label));
        }
        match self.fragment {
            Some(bytes) if (bytes as usize) < PIECE_UNIT => Err(RecipeError::SmallPieces(bytes)),
            _ if !self.tuples.are_of_one_family() => Err(RecipeError::Families),
            _ if wanted == 0 => Err(RecipeError::NoFlows),
            _ if wanted > there => Err(RecipeError::FewTuples { wanted, there }),
            _ if is_talk && wanted > TALKS_MAX => Err(RecipeError::ManyTalks(wanted)),
            _ if !self.is_v4() && self.damage.share(Harm::IpChecksum) > 0.0 => {
                Err(RecipeError::NoHeaderChecksum)
            }
            _ => Ok(()),
        }
    }

    /// Both ends of a tunnel: the first addresses, or those of the benchmark's network (RFC 2544).
    pub(super) fn tunnel_ends(&self) -> [Ipv4Addr; 2] {
        let end = |address, other| match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => other,
        };
        let [one, two] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
        [end(self.tuples.src.first, one), end(self.tuples.dst.first, two)]
    }
}
