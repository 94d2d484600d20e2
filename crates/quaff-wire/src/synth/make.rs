//! Makes one frame after the other.

use super::encapsulation::Outer;
use super::fragments;
use super::packet::{self, Layout, Payload, Transport};
use super::recipe::PIECE_UNIT;
use super::tcp_conversation::{self, TcpConversations};
use super::{HARMS, PacketKind, Pool, Recipe, RecipeError, Rng, SizeSource};
use crate::net::tcp::SYN;
use crate::probe::{HEADER_BYTES, MAGIC, ProbeHeader};
use std::collections::VecDeque;

/// A frame without FCS is padded to that (IEEE 802.3); sizes that were asked for are not.
const PADDED_BYTES: usize = 60;
/// The header that IPv6 has in each piece (RFC 8200, section 4.5).
const FRAGMENT_HEADER_BYTES: usize = 8;

/// What was made so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Made {
    /// Frames.
    pub frames: u64,
    /// Their bytes, tunnels around them included, FCS not.
    pub bytes: u64,
    /// Frames with a stamp.
    pub stamped: u64,
    /// Flows begun.
    pub flows: u64,
    /// Frames damaged, in the order of [`HARMS`].
    pub damaged: [u64; HARMS.len()],
}

/// A source of frames.
#[derive(Debug, Clone)]
pub struct Synth {
    recipe: Recipe,
    sizes: SizeSource,
    pool: Pool,
    /// Before the IP header, for each direction.
    links: [Vec<u8>; 2],
    header_bytes: usize,
    limits: (u32, u32),
    outer: Option<Outer>,
    talks: Option<TcpConversations>,
    /// Every frame will carry a stamp, so the last one can say that it is the last.
    all_stamped: bool,
    random: Random,
    /// Datagrams made, and when the last one was due.
    datagrams: u64,
    due_ns: u64,
    made: Made,
    /// Pieces of a datagram that are still to come, and their flow.
    pieces: VecDeque<Vec<u8>>,
    piece_of: (u64, bool),
    packet: Vec<u8>,
    frame: Vec<u8>,
}

/// A row of random numbers for each purpose.
#[derive(Debug, Clone)]
struct Random {
    sizes: Rng,
    content: Rng,
    damage: Rng,
}

/// What the next datagram is to be.
#[derive(Debug, Clone, Copy)]
struct Next {
    flow: u64,
    is_back: bool,
    transport: Transport,
    payload_bytes: usize,
    segment: Option<tcp_conversation::Segment>,
}

impl Synth {
    /// Checks a recipe and gets ready.
    pub fn new(recipe: Recipe) -> Result<Self, RecipeError> {
        recipe.check()?;
        let fork = |purpose| Rng::fork(recipe.seed, purpose);
        let is_v4 = recipe.is_v4();
        let talks = match recipe.kind {
            PacketKind::TcpTalk { segments } => {
                Some(TcpConversations::new(recipe.flows.concurrent as usize, segments, recipe.seed))
            }
            _ => None,
        };
        let outer = recipe.tunnel.map(|tunnel| Outer::new(tunnel, &recipe.link, recipe.tunnel_ends()));
        Ok(Self {
            sizes: recipe.sizes.source(),
            pool: Pool::new(&recipe.content, recipe.seed),
            links: [false, true].map(|is_back| recipe.link.header(is_v4, is_back)),
            header_bytes: recipe.header_bytes() as usize,
            limits: recipe.frame_bytes(),
            outer,
            talks,
            all_stamped: recipe.are_all_stamped(),
            random: Random { sizes: fork(1), content: fork(2), damage: fork(3) },
            datagrams: 0,
            due_ns: 0,
            made: Made::default(),
            pieces: VecDeque::new(),
            piece_of: (0, false),
            packet: Vec::new(),
            frame: Vec::new(),
            recipe,
        })
    }

    /// What was made so far.
    pub fn made(&self) -> Made {
        let begun = match &self.talks {
            Some(talks) => talks.begun(),
            None => self.recipe.flows.begun(self.datagrams, self.due_ns),
        };
        Made { flows: begun.min(self.recipe.tuples.count()), ..self.made }
    }

    /// Frames made so far.
    pub fn frames(&self) -> u64 {
        self.made.frames
    }

    /// What it makes.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The frame that was made last.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Makes the next frame, due so long after the first, ns.
    pub fn make(&mut self, due_ns: u64) -> &[u8] {
        self.frame.clear();
        let layout = match self.pieces.pop_front() {
            Some(piece) => self.wrap(&piece),
            None => self.datagram(due_ns),
        };
        self.harm(&layout);
        self.made.frames += 1;
        self.made.bytes += self.frame.len() as u64;
        &self.frame
    }

    /// A new datagram, or the first piece of it.
    fn datagram(&mut self, due_ns: u64) -> Layout {
        let (min, max) = self.limits;
        let size = self.sizes.next(&mut self.random.sizes).clamp(min, max) as usize;
        let next = self.next(size, due_ns);
        let fragment = self.fragment_of(&next);
        let layout = match fragment {
            None => self.whole(size, &next, due_ns),
            Some(piece_bytes) => {
                self.cut_up(&next, piece_bytes);
                let first = self.pieces.pop_front().unwrap_or_default();
                self.wrap(&first)
            }
        };
        self.datagrams += 1;
        if let (Some(talks), Some(segment)) = (&mut self.talks, &next.segment) {
            talks.sent(segment, next.payload_bytes);
        }
        self.due_ns = due_ns;
        layout
    }

    /// What the next datagram is to be, if its frame had `size` bytes.
    fn next(&self, size: usize, due_ns: u64) -> Next {
        let room = size - self.header_bytes;
        if let Some(talks) = &self.talks {
            let segment = talks.segment();
            let (flow, is_back, transport) = (segment.flow, segment.is_back, segment.transport);
            let payload_bytes = if segment.has_data { room.max(1) } else { 0 };
            return Next { flow, is_back, transport, payload_bytes, segment: Some(segment) };
        }
        let flow = self.recipe.flows.of_frame(self.datagrams, due_ns);
        let number = self.datagrams;
        let transport = match self.recipe.kind {
            PacketKind::Udp => Transport::Udp,
            PacketKind::Icmp => {
                let id = (number >> 16) as u16 ^ self.recipe.stream.unwrap_or(1);
                Transport::Icmp { id, seq: number as u16 }
            }
            // Each SYN begins elsewhere, as those of real hosts do.
            PacketKind::TcpSyn | PacketKind::TcpTalk { .. } => {
                Transport::Tcp { seq: number.wrapping_mul(0x9e37_79b1) as u32, ack: 0, flags: SYN }
            }
        };
        // A SYN has no data; its frame is padded.
        let payload_bytes = if self.recipe.kind == PacketKind::TcpSyn { 0 } else { room };
        Next { flow, is_back: false, transport, payload_bytes, segment: None }
    }

    /// Bytes of a piece, when the datagram has to be cut.
    fn fragment_of(&self, next: &Next) -> Option<usize> {
        let bytes = self.recipe.fragment? as usize;
        let datagram = next.transport.header_bytes() + next.payload_bytes;
        (datagram > bytes).then_some(bytes / PIECE_UNIT * PIECE_UNIT)
    }

    /// A frame with a whole datagram in it.
    fn whole(&mut self, size: usize, next: &Next, due_ns: u64) -> Layout {
        let link = &self.links[usize::from(next.is_back)];
        let datagram = self.header_bytes + next.payload_bytes;
        // Segments of a conversation without data are as small as a frame can be.
        let padded = if next.segment.is_some() { datagram.max(PADDED_BYTES) } else { datagram.max(size) };
        if let Some(outer) = &mut self.outer {
            outer.push(&mut self.frame, padded, next.flow);
        }
        let start = self.frame.len();
        self.frame.extend(link);
        let stamp = self.stamp(next, due_ns);
        self.made.stamped += u64::from(stamp.is_some());
        let mut frame = std::mem::take(&mut self.frame);
        let layout = self.push(&mut frame, next, stamp, None);
        frame.resize(start + padded, 0);
        self.frame = frame;
        layout
    }

    /// Appends the IP packet.
    fn push(
        &mut self,
        out: &mut Vec<u8>,
        next: &Next,
        stamp: Option<[u8; HEADER_BYTES]>,
        id: Option<u16>,
    ) -> Layout {
        let tuple = self.recipe.tuples.at(next.flow);
        let tuple = if next.is_back { tuple.reversed() } else { tuple };
        let skip = if stamp.is_some() { HEADER_BYTES } else { 0 };
        let mut piece = self.pool.take(next.payload_bytes, skip, &mut self.random.content);
        // Nobody shall take for a stamp what is none.
        if stamp.is_none()
            && self.recipe.may_be_stamped()
            && self.pool.bytes(piece).starts_with(&MAGIC.to_be_bytes())
        {
            piece = piece.moved();
        }
        let payload = Payload { stamp, pool: &self.pool, piece };
        packet::push(out, &tuple, next.transport, &payload, id)
    }

    /// The stamp, where there is room.
    fn stamp(&self, next: &Next, due_ns: u64) -> Option<[u8; HEADER_BYTES]> {
        let stream = self.recipe.stream?;
        if self.recipe.kind != PacketKind::Udp || next.payload_bytes < HEADER_BYTES {
            return None;
        }
        let count = self.recipe.count.filter(|_| self.all_stamped);
        let seq = self.made.stamped;
        let stamp = ProbeHeader {
            stream,
            seq,
            intended_ns: self.recipe.start_ns.wrapping_add(due_ns),
            late_ns: 0,
            last: count.is_some_and(|count| seq + 1 == count),
            bounded: count.is_some(),
        };
        Some(stamp.encode())
    }

    /// Cuts the datagram into pieces.
    fn cut_up(&mut self, next: &Next, piece_bytes: usize) {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        let id = self.datagrams;
        self.push(&mut packet, next, None, Some(id as u16));
        self.pieces = if self.recipe.is_v4() {
            fragments::ipv4_fragments(&packet, piece_bytes).into()
        } else {
            fragments::ipv6_fragments(&packet, id as u32, piece_bytes).into()
        };
        self.piece_of = (next.flow, next.is_back);
        self.packet = packet;
    }

    /// A frame around a piece.
    fn wrap(&mut self, piece: &[u8]) -> Layout {
        let (flow, is_back) = self.piece_of;
        let link = &self.links[usize::from(is_back)];
        let bytes = (link.len() + piece.len()).max(PADDED_BYTES);
        if let Some(outer) = &mut self.outer {
            outer.push(&mut self.frame, bytes, flow);
        }
        let start = self.frame.len();
        self.frame.extend(link);
        let ip = self.frame.len();
        self.frame.extend(piece);
        let end = self.frame.len();
        self.frame.resize(start + bytes, 0);
        let ip_bytes = self.recipe.ip_bytes() + if self.recipe.is_v4() { 0 } else { FRAGMENT_HEADER_BYTES };
        Layout { ip, transport: ip + ip_bytes, checksum: None, end }
    }

    fn harm(&mut self, layout: &Layout) {
        if self.recipe.damage.is_none() {
            return;
        }
        if let Some(harm) = self.recipe.damage.draw(&mut self.random.damage)
            && harm.apply(&mut self.frame, layout, &mut self.random.damage)
        {
            self.made.damaged[harm as usize] += 1;
        }
    }
}
