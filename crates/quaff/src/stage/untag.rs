//! Removes all VLAN tags of frames.

use super::Stage;
use crate::batch::{Batch, Frame};
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_wire::linktype::ETHERNET;
use quaff_wire::net;

/// The stage that removes tags: those that the kernel has removed from the bytes already, and those still in the bytes.
#[derive(Debug)]
pub(crate) struct Untag {
    interfaces: Interfaces,
    /// Link types of interfaces, by number, once a frame of them has occurred.
    linktypes: Vec<Option<u16>>,
}

impl Untag {
    pub(crate) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, linktypes: Vec::new() }
    }

    fn linktype(&mut self, interface: u16) -> u16 {
        let at = usize::from(interface);
        if let Some(linktype) = self.linktypes.get(at).copied().flatten() {
            return linktype;
        }
        let found = self.interfaces.get(interface);
        let linktype = found.map_or(ETHERNET.linktype, |interface| interface.linktype);
        self.linktypes.resize(self.linktypes.len().max(at + 1), None);
        self.linktypes[at] = Some(linktype);
        linktype
    }

    /// Returns whether the frame had a tag.
    fn untag(&mut self, frame: &mut Frame, batch: &mut Batch<'_>) -> bool {
        let tags = net::tags_range(batch.memory().of(frame), self.linktype(frame.interface));
        let is_tagged = frame.tpid != 0 || !tags.is_empty();
        if frame.tpid != 0 {
            (frame.tpid, frame.tci) = (0, 0);
        }
        if !tags.is_empty() {
            let (start, from, end) =
                (batch.scratch.len(), frame.start as usize, (frame.start + frame.len) as usize);
            for part in [from..from + tags.start, from + tags.end..end] {
                match frame.flags & Frame::SCRATCH {
                    0 => batch.scratch.extend_from_slice(&batch.bytes[part]),
                    _ => batch.scratch.extend_from_within(part),
                }
            }
            frame.start = start as u32;
            frame.len -= tags.len() as u32;
            frame.wire_len -= tags.len() as u32;
            frame.flags |= Frame::SCRATCH;
        }
        is_tagged
    }
}

impl Stage for Untag {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let mut frames = std::mem::take(batch.frames);
        for frame in &mut frames {
            tally.untagged += u64::from(self.untag(frame, batch));
        }
        *batch.frames = frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::pass_one;
    use quaff_testpackets as build;
    use quaff_wire::pcapng::Interface;

    #[test]
    fn all_tags_are_removed() {
        let bare = build::ethernet(&[], 0x0800, b"some payload");
        let cooked =
            |ethertype: &[u8]| [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], ethertype, b"payload"].concat();
        for (interface, tpid, before, after, tagged) in [
            (0, 0, bare.clone(), bare.clone(), 0),
            (0, 0x8100, bare.clone(), bare.clone(), 1),
            (0, 0, build::ethernet(&[(0x8100, 5)], 0x0800, b"some payload"), bare.clone(), 1),
            (
                0,
                0x88a8,
                build::ethernet(&[(0x88a8, 5), (0x8100, 6)], 0x0800, b"some payload"),
                bare.clone(),
                1,
            ),
            (1, 0, cooked(&[0x81, 0, 0, 5, 8, 0]), cooked(&[8, 0]), 1),
            (
                2,
                0,
                build::ethernet(&[(0x8100, 5)], 0x0800, b"x"),
                build::ethernet(&[(0x8100, 5)], 0x0800, b"x"),
                0,
            ),
            // Cut inside its tag.
            (
                0,
                0,
                bare[..12].iter().copied().chain([0x81, 0, 0]).collect(),
                [&bare[..12], &[0x81, 0, 0]].concat(),
                0,
            ),
        ] {
            let of = |linktype| Interface { linktype, ..Interface::default() };
            let mut stage = Untag::new(Interfaces::new([1, 113, 127].map(of).into()));
            let frame = Frame { interface, tpid, tci: tpid & 1, ..Frame::default() };
            let (frames, tally) = pass_one(&mut stage, &[frame], &before);
            let (found, bytes) = &frames[0];
            assert_eq!(
                (&bytes[..], found.wire_len as usize, tally.untagged),
                (&after[..], after.len(), tagged)
            );
            assert_eq!((found.tpid, found.tci), (0, 0));
        }
    }
}
