//! Compares packets with those of the last millisecond, to count, mark or drop duplicates of mirrors
//! (`--duplicates`).
//!
//! A duplicate has the bytes of an earlier packet from its IP header on, payload included, but for TTL and header
//! checksum, and was captured at another place: interface, VLAN, MAC addresses or TTL differ. An equal packet from the
//! same place is a retransmission, a loop, or one that only looks the same: it is counted, and never marked or dropped.
//! Headers alone never decide: what is not IP, or was not captured whole, is not compared.

mod recent;
#[cfg(test)]
mod tests;

pub(crate) use recent::RecentPackets;

use super::Stage;
use crate::batch::{Batch, Frame, Memory};
use crate::links::Links;
use crate::plan::Duplicates;
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_file::tally::{Counts, Sightings};
use quaff_wire::flow::{FlowPacket, mix};
use recent::{Fate, Seen, Sighting};
use std::hash::Hasher;
use std::sync::Arc;

/// Low bits of a packet's number that are the lane's own count.
const COUNT_BITS: u32 = 48;
/// The VLAN in the TCI of a tag.
const VLAN_MASK: u16 = 0xfff;
/// Bytes of the IP header in which a router changes something.
const HEADER_BYTES: usize = 20;

/// The stage of one lane.
pub(crate) struct Compare {
    action: Duplicates,
    recent: Arc<RecentPackets>,
    links: Links,
    /// The last number given, before it is mixed.
    last_id: u64,
    sightings: Sightings,
    removed: u64,
    is_over: bool,
}

impl Compare {
    /// A stage for lane number `lane`, which shares `recent` with all lanes of the run.
    pub(crate) fn new(
        lane: usize,
        action: Duplicates,
        interfaces: Interfaces,
        recent: Arc<RecentPackets>,
    ) -> Self {
        let (last_id, links) = ((lane as u64) << COUNT_BITS, Links::new(interfaces));
        let sightings = Sightings::default();
        Self { action, recent, links, last_id, sightings, removed: 0, is_over: false }
    }

    /// Compares a packet; `None` if it cannot be compared.
    fn see(&mut self, frame: &Frame, memory: Memory<'_>) -> Option<Seen> {
        let linktype = self.links.of(frame.interface).linktype;
        let Some(sighting) = read(frame, memory, linktype, &self.recent) else {
            self.sightings.not_compared += 1;
            return None;
        };
        self.last_id += 1;
        let seen = self.recent.see(&sighting, self.recent.id(self.last_id));
        self.sightings.compared += 1;
        match seen.fate {
            Fate::First => {}
            Fate::Elsewhere => self.sightings.elsewhere += 1,
            Fate::SamePlace => self.sightings.same_place += 1,
            Fate::Unchecked => self.sightings.unchecked += 1,
        }
        Some(seen)
    }
}

/// The contents and the place of a packet; `None` if it is not IP, or not whole.
fn read(frame: &Frame, memory: Memory<'_>, linktype: u16, recent: &RecentPackets) -> Option<Sighting> {
    let bytes = memory.of(frame);
    let packet = FlowPacket::read(bytes, frame.wire_len, linktype).ok()?;
    let (link, datagram) = bytes.split_at_checked(packet.ip_offset as usize)?;
    let datagram = datagram.get(..packet.ip_bytes as usize)?;
    let key = contents(datagram, recent.hasher())?;
    let place = place(frame, link, packet.ttl, recent.secret());
    Some(Sighting { key, place, time_ns: frame.time_ns })
}

/// A hash of an IP packet without what each router changes: TTL and header checksum (RFC 791), or hop limit (RFC 8200).
fn contents(datagram: &[u8], mut hasher: impl Hasher) -> Option<u64> {
    let (header, rest) = datagram.split_first_chunk::<HEADER_BYTES>()?;
    let mut header = *header;
    match header[0] >> 4 {
        4 => {
            header[8] = 0;
            header[10..12].fill(0);
        }
        _ => header[7] = 0,
    }
    hasher.write_usize(datagram.len());
    hasher.write(&header);
    hasher.write(rest);
    Some(hasher.finish())
}

/// A hash of the interface, the link header (MAC addresses, tags and labels), a tag that the kernel removed, and TTL.
fn place(frame: &Frame, link: &[u8], ttl: u8, secret: u64) -> u32 {
    let vlan = if frame.tpid == 0 { 0 } else { 1 << 15 | frame.tci & VLAN_MASK };
    let marks = u64::from(ttl) << 32 | u64::from(vlan) << 16 | u64::from(frame.interface);
    let word = |part: &[u8]| part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    link.chunks(8).fold(mix(secret, marks), |sum, part| mix(sum, word(part))) as u32
}

impl Stage for Compare {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let memory = Memory { bytes: batch.bytes, scratch: batch.scratch, options: &[], ids: &[] };
        batch.ids.clear();
        match self.action {
            Duplicates::Count => {
                for frame in batch.frames.iter() {
                    self.see(frame, memory);
                }
            }
            Duplicates::Mark => {
                let id = |frame| self.see(frame, memory).map_or(0, |seen| seen.id);
                batch.ids.extend(batch.frames.iter().map(id));
            }
            Duplicates::Remove => {
                let before = batch.frames.len();
                let is_kept = |seen: Option<Seen>| seen.is_none_or(|seen| seen.fate != Fate::Elsewhere);
                batch.frames.retain(|frame| is_kept(self.see(frame, memory)));
                let removed = (before - batch.frames.len()) as u64;
                tally.duplicates += removed;
                self.removed += removed;
            }
        }
        self.is_over |= batch.is_last;
    }

    /// Adds the comparison to the lane's counters.
    fn count(&self, counts: &mut Counts) {
        if self.is_over {
            (counts.sightings, counts.duplicates_removed) = (Some(self.sightings), self.removed);
        }
    }

    fn sum_up(&mut self, tally: &mut LaneTally) {
        tally.sightings = Some(self.sightings);
    }
}
