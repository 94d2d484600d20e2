//! Reads the headers of packets: the half of a meter's work that needs no flow.
//!
//! A meter reads the headers of the packets that it takes. Other threads can do it ahead, each for a part of the
//! packets; the meter then takes the parts in order. Beyond headers it looks into few packets: fragments, and all of
//! them for extras. Those must still be there when it takes the part.

use crate::headers::{Headers, add_tag};
use crate::key::Keys;
use crate::ledger::{Count, Ignored};
use crate::packet::{Clock, Instant, Packet};
use crate::plan::MeterPlan;
use crate::sampling::Sampler;
use crate::wheel::NONE;
use quaff_wire::flow::{FlowPacket, NoFlow};

/// Reads headers for one meter.
#[derive(Debug, Clone)]
pub struct HeaderReader {
    keys: Keys,
    sampler: Sampler,
    idle_ns: u64,
    /// The clock for packets without a time of the whole input.
    pub(crate) clock: Clock,
    /// The meter computes extras, from the contents of each packet.
    has_extras: bool,
}

/// Packets whose headers were read, in order.
#[derive(Debug, Default)]
pub struct HeaderBatch {
    pub(crate) headers: Vec<Headers>,
    pub(crate) seen: Count,
    pub(crate) ignored: Ignored,
    /// The moment of the last packet.
    pub(crate) end: Instant,
    /// The last moments of eras that end in the batch, with the number of headers before each.
    pub(crate) turns: Vec<(usize, Instant)>,
    /// Packets that the meter looks into, by their numbers in the part.
    kept: Vec<u32>,
    /// The earliest time of a part, ns since 1970, and whether its times go back by no more than the idle timeout.
    first_ns: u64,
    is_even: bool,
}

impl HeaderReader {
    pub(crate) fn new(plan: &MeterPlan, keys: Keys) -> Self {
        let (sampler, clock) = (Sampler::new(plan.sampling), Clock::new(plan.idle_ns));
        Self { keys, sampler, idle_ns: plan.idle_ns, clock, has_extras: plan.extras.is_any() }
    }

    /// Begins a part of the packets.
    pub fn begin(&mut self, batch: &mut HeaderBatch) {
        self.clock = Clock::new(self.idle_ns);
        batch.clear();
        (batch.first_ns, batch.end, batch.is_even) = (u64::MAX, Instant::default(), true);
    }

    /// Reads the headers of the next packets of a part, the first of which has the number `first` there.
    pub fn read_ahead(&mut self, packets: &[Packet<'_>], first: u32, batch: &mut HeaderBatch) {
        for packet in packets {
            batch.first_ns = batch.first_ns.min(packet.time_ns);
        }
        self.read_all::<true>(packets, first, batch);
        batch.is_even &= batch.turns.is_empty();
    }

    /// Reads the headers of packets, which the meter has beside the batch.
    pub(crate) fn read(&mut self, packets: &[Packet<'_>], batch: &mut HeaderBatch) {
        self.read_all::<false>(packets, 0, batch);
    }

    #[inline(always)]
    fn read_all<const APART: bool>(&mut self, packets: &[Packet<'_>], first: u32, batch: &mut HeaderBatch) {
        for (number, packet) in (first..).zip(packets) {
            let now = packet.now.unwrap_or_else(|| self.clock.see(packet.time_ns));
            if now.era != batch.end.era {
                batch.turns.push((batch.headers.len(), batch.end));
            }
            batch.end = now;
            if !self.sampler.picks() {
                batch.ignored.not_sampled.add(packet.wire_bytes.into());
                batch.seen.add(packet.wire_bytes.into());
                continue;
            }
            match FlowPacket::plain(packet.bytes, packet.linktype) {
                Some(mut read) => self.add::<APART>(&mut read, packet, number, batch),
                None => self.read_other::<APART>(packet, number, batch),
            }
        }
    }

    /// Adds a packet, with its parsed headers, to the batch.
    #[inline(always)]
    fn add<const APART: bool>(
        &self,
        read: &mut FlowPacket,
        packet: &Packet<'_>,
        number: u32,
        batch: &mut HeaderBatch,
    ) {
        add_tag(read, packet);
        let mut headers = Headers::new(&self.keys, read, packet, (batch.end, APART), number);
        if APART {
            headers.number = match headers.is_fragment || self.has_extras {
                true => batch.keep(number),
                false => NONE,
            };
        }
        batch.seen.add(headers.ip_bytes.into());
        batch.headers.push(headers);
    }

    /// Reads the headers of a packet that is not plain IPv4.
    #[inline(never)]
    fn read_other<const APART: bool>(&self, packet: &Packet<'_>, number: u32, batch: &mut HeaderBatch) {
        match FlowPacket::plain_ipv6(packet.bytes, packet.linktype) {
            Some(mut read) => self.add::<APART>(&mut read, packet, number, batch),
            None => self.walk::<APART>(packet, number, batch),
        }
    }

    /// Reads the headers of a packet that is not plain, and adds it to the batch or counts it as ignored.
    #[inline(never)]
    fn walk<const APART: bool>(&self, packet: &Packet<'_>, number: u32, batch: &mut HeaderBatch) {
        // Not copied: a copy costs as much as the rest of this function.
        let mut read = FlowPacket::walk(packet.bytes, packet.wire_bytes, packet.linktype);
        let ignored = match &mut read {
            Ok(read) => return self.add::<APART>(read, packet, number, batch),
            Err(NoFlow::NotIp) => &mut batch.ignored.not_ip,
            Err(NoFlow::Truncated) => &mut batch.ignored.truncated,
        };
        ignored.add(packet.wire_bytes.into());
        batch.seen.add(packet.wire_bytes.into());
    }
}

impl HeaderBatch {
    /// An empty batch with room for the headers of this number of packets.
    pub(crate) fn with_capacity(packets: usize) -> Self {
        let (headers, turns) = (Vec::with_capacity(packets), Vec::with_capacity(packets));
        Self { headers, turns, ..Self::default() }
    }

    /// The packets that [`Meter::take_read`](crate::meter::Meter::take_read) needs, by their numbers in the part.
    pub fn kept(&self) -> &[u32] {
        &self.kept
    }

    /// Removes all packets, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.turns.clear();
        self.kept.clear();
        (self.seen, self.ignored) = (Count::default(), Ignored::default());
    }

    /// Puts the part on the clock of the input; `false` if an era begins in it.
    pub(crate) fn set_clock(&mut self, clock: &mut Clock) -> bool {
        match self.is_even.then(|| clock.pass(self.first_ns, self.end.ns)).flatten() {
            Some(now) => {
                // Times of the part are the latest ones so far in the part.
                let on_clock = |of: Instant| Instant { era: now.era, ns: of.ns.max(now.ns) };
                self.headers.iter_mut().for_each(|headers| headers.now = on_clock(headers.now));
                self.end = on_clock(self.end);
                true
            }
            None => false,
        }
    }

    fn keep(&mut self, number: u32) -> u32 {
        self.kept.push(number);
        self.kept.len() as u32 - 1
    }
}
