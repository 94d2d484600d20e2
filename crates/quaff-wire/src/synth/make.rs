//! Generates frames, one after the other.

use super::encapsulation::Outer;
use super::fragments;
use super::packet::{self, Layout, Payload, Transport};
use super::recipe::FRAGMENT_UNIT;
use super::tcp_conversation::{self, TcpConversations};
use super::{Damage, HARMS, PacketKind, Pool, Recipe, RecipeError, Rng, SizeSource, Sizes};
use crate::net::tcp::SYN;
use crate::probe::{HEADER_BYTES, MAGIC, ProbeHeader};
use std::collections::VecDeque;

/// Minimum length to which frames without FCS are padded (IEEE 802.3), unless their size was requested.
const PADDED_BYTES: usize = 60;
/// Length of the IPv6 fragment header (RFC 8200, section 4.5).
const FRAGMENT_HEADER_BYTES: usize = 8;

/// Counts of generated frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Made {
    pub frames: u64,
    /// Bytes of the frames, including tunnels, without FCS.
    pub bytes: u64,
    /// Frames with a probe header.
    pub stamped: u64,
    /// Number of flows.
    pub flows: u64,
    /// Damaged frames, in the order of [`HARMS`].
    pub damaged: [u64; HARMS.len()],
}

/// A source of generated frames.
#[derive(Debug, Clone)]
pub struct Synth {
    recipe: Recipe,
    sizes: SizeSource,
    pool: Pool,
    /// The headers before the IP header, per direction.
    links: [Vec<u8>; 2],
    header_bytes: usize,
    limits: (u32, u32),
    outer: Option<Outer>,
    conversations: Option<TcpConversations>,
    /// True if every frame carries a probe header, so that the last one can be marked.
    all_probes: bool,
    random: Random,
    /// Number of datagrams, and due time of the last one.
    datagrams: u64,
    due_ns: u64,
    made: Made,
    /// Pending fragments of a datagram, and their flow.
    fragments: VecDeque<Vec<u8>>,
    fragment_of: (u64, bool),
    packet: Vec<u8>,
    frame: Vec<u8>,
}

/// An independent random sequence for each purpose.
#[derive(Debug, Clone)]
struct Random {
    sizes: Rng,
    content: Rng,
    damage: Rng,
}

/// The plan of the next datagram.
#[derive(Debug, Clone, Copy)]
struct Next {
    flow: u64,
    is_back: bool,
    transport: Transport,
    payload_bytes: usize,
    segment: Option<tcp_conversation::Segment>,
}

impl Synth {
    /// Validates a recipe and prepares the source.
    pub fn new(recipe: Recipe) -> Result<Self, RecipeError> {
        recipe.check()?;
        let fork = |purpose| Rng::fork(recipe.seed, purpose);
        let is_v4 = recipe.is_v4();
        let conversations = match recipe.kind {
            PacketKind::TcpConversation { segments } => {
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
            conversations,
            all_probes: recipe.all_carry_probes(),
            random: Random { sizes: fork(1), content: fork(2), damage: fork(3) },
            datagrams: 0,
            due_ns: 0,
            made: Made::default(),
            fragments: VecDeque::new(),
            fragment_of: (0, false),
            packet: Vec::new(),
            frame: Vec::new(),
            recipe,
        })
    }

    /// The counts of generated frames.
    pub fn made(&self) -> Made {
        let begun = match &self.conversations {
            Some(conversations) => conversations.begun(),
            None => self.recipe.flows.begun(self.datagrams, self.due_ns),
        };
        Made { flows: begun.min(self.recipe.tuples.count()), ..self.made }
    }

    /// Number of frames generated so far.
    pub fn frames(&self) -> u64 {
        self.made.frames
    }

    /// A frame of the recipe that is as long as its longest one.
    pub fn longest(&self) -> Result<Vec<u8>, RecipeError> {
        let sizes = Sizes::only(self.recipe.sizes.bounds().1);
        // Of a conversation, only the segments with data have the size.
        let recipe =
            Recipe { sizes, kind: PacketKind::Udp, damage: Damage::default(), ..self.recipe.clone() };
        Ok(Self::new(recipe)?.make(0).to_vec())
    }

    /// The frame generated last.
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Generates the next frame, which is due `due_ns` after the first.
    pub fn make(&mut self, due_ns: u64) -> &[u8] {
        self.frame.clear();
        let layout = match self.fragments.pop_front() {
            Some(fragment) => self.wrap(&fragment),
            None => self.datagram(due_ns),
        };
        self.harm(&layout);
        self.made.frames += 1;
        self.made.bytes += self.frame.len() as u64;
        &self.frame
    }

    /// Generates a new datagram, or its first fragment.
    fn datagram(&mut self, due_ns: u64) -> Layout {
        let (min, max) = self.limits;
        let size = self.sizes.next(&mut self.random.sizes).clamp(min, max) as usize;
        let next = self.next(size, due_ns);
        let fragment = self.fragment_of(&next);
        let layout = match fragment {
            None => self.whole(size, &next, due_ns),
            Some(fragment_bytes) => {
                self.cut_up(&next, fragment_bytes);
                let first = self.fragments.pop_front().unwrap_or_default();
                self.wrap(&first)
            }
        };
        self.datagrams += 1;
        if let (Some(conversations), Some(segment)) = (&mut self.conversations, &next.segment) {
            conversations.sent(segment, next.payload_bytes);
        }
        self.due_ns = due_ns;
        layout
    }

    /// Plans the next datagram for a frame of `size` bytes.
    fn next(&self, size: usize, due_ns: u64) -> Next {
        let room = size - self.header_bytes;
        if let Some(conversations) = &self.conversations {
            let segment = conversations.segment();
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
            // Initial sequence numbers vary, as those of real hosts do.
            PacketKind::TcpSyn | PacketKind::TcpConversation { .. } => {
                Transport::Tcp { seq: number.wrapping_mul(0x9e37_79b1) as u32, ack: 0, flags: SYN }
            }
        };
        // A SYN has no data; its frame is padded.
        let payload_bytes = if self.recipe.kind == PacketKind::TcpSyn { 0 } else { room };
        Next { flow, is_back: false, transport, payload_bytes, segment: None }
    }

    /// Payload length of fragments, if the datagram must be fragmented.
    fn fragment_of(&self, next: &Next) -> Option<usize> {
        let bytes = self.recipe.fragment? as usize;
        let datagram = next.transport.header_bytes() + next.payload_bytes;
        (datagram > bytes).then_some(bytes / FRAGMENT_UNIT * FRAGMENT_UNIT)
    }

    /// Generates a frame with an unfragmented datagram.
    fn whole(&mut self, size: usize, next: &Next, due_ns: u64) -> Layout {
        let link = &self.links[usize::from(next.is_back)];
        let datagram = self.header_bytes + next.payload_bytes;
        // Segments without data are as small as a frame can be.
        let padded = if next.segment.is_some() { datagram.max(PADDED_BYTES) } else { datagram.max(size) };
        if let Some(outer) = &mut self.outer {
            outer.push(&mut self.frame, padded, next.flow);
        }
        let start = self.frame.len();
        self.frame.extend(link);
        let probe = self.probe_header(next, due_ns);
        self.made.stamped += u64::from(probe.is_some());
        let mut frame = std::mem::take(&mut self.frame);
        let layout = self.push(&mut frame, next, probe, None);
        frame.resize(start + padded, 0);
        self.frame = frame;
        layout
    }

    /// Appends the IP packet.
    fn push(
        &mut self,
        out: &mut Vec<u8>,
        next: &Next,
        probe: Option<[u8; HEADER_BYTES]>,
        id: Option<u16>,
    ) -> Layout {
        let tuple = self.recipe.tuples.at(next.flow);
        let tuple = if next.is_back { tuple.reversed() } else { tuple };
        let skip = if probe.is_some() { HEADER_BYTES } else { 0 };
        let mut slice = self.pool.take(next.payload_bytes, skip, &mut self.random.content);
        // No other payload may start like a probe header.
        if probe.is_none()
            && self.recipe.may_carry_probes()
            && self.pool.bytes(slice).starts_with(&MAGIC.to_be_bytes())
        {
            slice = slice.next();
        }
        let payload = Payload { probe, pool: &self.pool, slice };
        packet::push(out, &tuple, next.transport, &payload, id)
    }

    /// The probe header, if it fits.
    fn probe_header(&self, next: &Next, due_ns: u64) -> Option<[u8; HEADER_BYTES]> {
        let stream = self.recipe.stream?;
        if self.recipe.kind != PacketKind::Udp || next.payload_bytes < HEADER_BYTES {
            return None;
        }
        let count = self.recipe.count.filter(|_| self.all_probes);
        let seq = self.made.stamped;
        let probe = ProbeHeader {
            stream,
            seq,
            intended_ns: self.recipe.start_ns.wrapping_add(due_ns),
            late_ns: 0,
            last: count.is_some_and(|count| seq + 1 == count),
            bounded: count.is_some(),
        };
        Some(probe.encode())
    }

    /// Splits the datagram into fragments.
    fn cut_up(&mut self, next: &Next, fragment_bytes: usize) {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        let id = self.datagrams;
        self.push(&mut packet, next, None, Some(id as u16));
        self.fragments = if self.recipe.is_v4() {
            fragments::ipv4_fragments(&packet, fragment_bytes).into()
        } else {
            fragments::ipv6_fragments(&packet, id as u32, fragment_bytes).into()
        };
        self.fragment_of = (next.flow, next.is_back);
        self.packet = packet;
    }

    /// Generates a frame with a fragment.
    fn wrap(&mut self, fragment: &[u8]) -> Layout {
        let (flow, is_back) = self.fragment_of;
        let link = &self.links[usize::from(is_back)];
        let bytes = (link.len() + fragment.len()).max(PADDED_BYTES);
        if let Some(outer) = &mut self.outer {
            outer.push(&mut self.frame, bytes, flow);
        }
        let start = self.frame.len();
        self.frame.extend(link);
        let ip = self.frame.len();
        self.frame.extend(fragment);
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
