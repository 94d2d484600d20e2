//! Packets of flows that a script has requested, as pcapng files: from the start of the flow, as far as memory holds
//! them.

use crate::Packet;
use crate::flow::Flow;
use quaff_wire::Record;
use quaff_wire::pcapng::{self, Interface, Section};
use std::net::SocketAddr;

/// Maximum bytes of a flow's first packets that are kept until a script requests them.
const KEPT_FLOW_BYTES: usize = 256 << 10;
/// The same for all flows together.
const KEPT_BYTES: usize = 64 << 20;
/// Bytes of a piece that is passed on.
const PIECE_BYTES: usize = 64 << 10;
/// Maximum bytes of pieces that are not yet taken.
const PENDING_BYTES: usize = 64 << 20;

/// The next bytes of a pcapng file with the packets of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPiece {
    /// Number of the flow, in the order of first packets.
    pub number: u64,
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub bytes: Vec<u8>,
    pub is_first: bool,
    pub is_last: bool,
}

/// The kept packets of a flow.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    bytes: Vec<u8>,
    linktype: Option<u16>,
    is_saved: bool,
    is_begun: bool,
    /// Packets in `bytes`.
    packets: u64,
    /// True if packets were dropped.
    is_full: bool,
}

/// The pieces of a run.
#[derive(Debug, Default)]
pub(crate) struct Saves {
    /// Bytes kept for all flows.
    kept_bytes: usize,
    pending: Vec<SavedPiece>,
    pending_bytes: usize,
    /// Packets of requested flows that were dropped for lack of memory.
    pub(crate) packets_dropped: u64,
    pub(crate) packets: u64,
    pub(crate) flows: u64,
}

impl Saves {
    /// Keeps a packet of a flow.
    pub(crate) fn keep(&mut self, kept: &mut Kept, flow: &Flow, packet: &Packet) {
        self.look(kept, flow);
        let has_room = kept.is_saved || kept.bytes.len() < KEPT_FLOW_BYTES && self.kept_bytes < KEPT_BYTES;
        let is_other_link = kept.linktype.is_some_and(|linktype| linktype != packet.linktype);
        // A hole would look like a loss: a flow whose first packets did not fit is saved up to there.
        if kept.is_full || is_other_link || !has_room {
            kept.is_full |= !is_other_link;
            self.packets_dropped += u64::from(kept.is_saved);
            return;
        }
        let before = kept.bytes.len();
        if kept.linktype.is_none() {
            kept.linktype = Some(packet.linktype);
            pcapng::shb(&mut kept.bytes, &Section::default());
            let interface = Interface { linktype: packet.linktype, ..Interface::default() };
            pcapng::idb(&mut kept.bytes, &interface);
        }
        let Packet { bytes, wire_bytes, tag, time_ns, .. } = *packet;
        let record = Record { time_ns, bytes, len: wire_bytes, tag, ..Record::default() };
        let begin = kept.bytes.len();
        kept.bytes.resize(begin + pcapng::epb_bytes(record.captured()), 0);
        let written = pcapng::epb(&mut kept.bytes[begin..], 0, &record);
        kept.bytes.truncate(begin + written);
        kept.packets += 1;
        self.kept_bytes += kept.bytes.len() - before;
        if kept.is_saved && kept.bytes.len() >= PIECE_BYTES {
            self.pass_on(kept, flow, false);
        }
    }

    /// Checks whether a script has requested the flow's packets.
    fn look(&mut self, kept: &mut Kept, flow: &Flow) {
        if flow.is_saved.get() && !kept.is_saved {
            kept.is_saved = true;
            self.flows += 1;
            self.packets_dropped += u64::from(kept.is_full);
        }
    }

    /// Ends the flow.
    pub(crate) fn end(&mut self, kept: &mut Kept, flow: &Flow) {
        self.look(kept, flow);
        if kept.is_saved {
            self.pass_on(kept, flow, true);
        }
        self.kept_bytes -= kept.bytes.len();
        kept.bytes = Vec::new();
    }

    fn pass_on(&mut self, kept: &mut Kept, flow: &Flow, is_last: bool) {
        let bytes = std::mem::take(&mut kept.bytes);
        self.kept_bytes -= bytes.len();
        let packets = std::mem::take(&mut kept.packets);
        if self.pending_bytes > PENDING_BYTES {
            self.packets_dropped += packets;
            return;
        }
        self.packets += packets;
        self.pending_bytes += bytes.len();
        let Flow { number, client, server, .. } = *flow;
        let is_first = !std::mem::replace(&mut kept.is_begun, true);
        self.pending.push(SavedPiece { number, client, server, bytes, is_first, is_last });
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    pub(crate) fn take(&mut self) -> Vec<SavedPiece> {
        self.pending_bytes = 0;
        std::mem::take(&mut self.pending)
    }
}

/// True if a text contains `word` as a separate word.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}
