//! The look of threads at parts of a file: the evidence of its packets, as far as that needs no other packet. Packets
//! with stamps or with recorded drops end it.

use super::beside::Part;
use super::interfaces::Interfaces;
use crate::read::{Look, Seen};
use quaff_stream::{ProofBatch, ProofReader};
use quaff_wire::decode::{Decoder, Format, Frame, Item, Step};
use quaff_wire::linktype;
use quaff_wire::probe::{self, Classified, ProbeHeader};
use std::marker::PhantomData;
use std::sync::Arc;

/// The evidence of a part.
#[derive(Default)]
pub(super) struct SeenEvidence<P> {
    pub(super) evidence: ProofBatch,
    /// Packets in a row of an interface of the section.
    pub(super) runs: Vec<(u32, u64)>,
    pub(super) packets: u64,
    /// The counts beside the evidence.
    pub(super) part: P,
    format: Option<Format>,
}

/// The look of one thread.
pub(super) struct EvidenceLook<P> {
    pub(super) interfaces: Arc<Interfaces>,
    pub(super) reader: ProofReader,
    pub(super) beside: PhantomData<P>,
}

/// The kind of a frame.
#[inline]
pub(super) fn classify(frame: &Frame<'_>) -> Classified<ProbeHeader> {
    match frame.linktype == linktype::ETHERNET.linktype {
        true => probe::classify(frame.data, frame.wire_len as usize),
        false => Classified::Foreign,
    }
}

/// The time of a frame. In pcapng a time of 0 means that the packet has none, as in a Simple Packet Block.
#[inline]
pub(super) fn time_of(frame: &Frame<'_>, format: Option<Format>) -> Option<u64> {
    (frame.time_ns > 0 || format != Some(Format::Pcapng)).then_some(frame.time_ns)
}

impl<P: Part> SeenEvidence<P> {
    fn count(&mut self, frame: &Frame<'_>) {
        let interface = frame.interface;
        self.packets += 1;
        match self.runs.last_mut() {
            Some((last, packets)) if *last == interface => *packets += 1,
            _ => self.runs.push((interface, 1)),
        }
        self.part.packet(frame, time_of(frame, self.format));
    }
}

impl<P: Part> EvidenceLook<P> {
    /// Takes a frame; `false` if it is not only evidence.
    #[inline(always)]
    fn take(&mut self, frame: &Frame<'_>, seen: &mut SeenEvidence<P>) -> bool {
        if frame.dropcount > 0 || !matches!(classify(frame), Classified::Foreign) {
            return false;
        }
        seen.count(frame);
        let interface = self.interfaces.number(frame.interface);
        // A batch may become longer than those for another meter.
        self.reader.packet(frame.data, frame.wire_len, frame.linktype, frame.time_ns, interface);
        true
    }

    /// Takes frames from the front of `rest`, and leaves the rest there.
    fn take_all(&mut self, decoder: &mut Decoder, rest: &mut &[u8], seen: &mut SeenEvidence<P>) {
        loop {
            let (before, offset, corrected) = (*rest, decoder.offset(), *decoder.corrections());
            let is_taken = match decoder.usual_frame(rest) {
                Some(frame) => self.take(&frame, seen),
                None => match decoder.next(rest) {
                    Ok(Step::Item(Item::Frame(frame))) => self.take(&frame, seen),
                    _ => false,
                },
            };
            if !is_taken {
                *rest = before;
                decoder.move_to(offset);
                *decoder.corrections() = corrected;
                return;
            }
        }
    }
}

impl<P: Part> Look for EvidenceLook<P> {
    fn look(&mut self, decoder: &mut Decoder, _: &[u8], rest: &mut &[u8], seen: &mut Option<Seen>) {
        let mut found = match seen.take().map(Seen::downcast::<SeenEvidence<P>>) {
            Some(Ok(found)) => found,
            _ => Box::default(),
        };
        found.evidence.clear();
        found.runs.clear();
        found.part.clear();
        (found.packets, found.format) = (0, decoder.format());
        std::mem::swap(self.reader.batch(), &mut found.evidence);
        self.take_all(decoder, rest, &mut found);
        std::mem::swap(self.reader.batch(), &mut found.evidence);
        *seen = Some(found);
    }
}
