//! Keeps the frames that match an expression: all frames of a file, or the frames inside tunnels.
//!
//! Runs after decapsulation and before truncation, so it sees frames as the output file has them. Frames that the
//! kernel's filter has accepted are matched again, which costs less than marking them.

use super::Stage;
use crate::batch::{Batch, Frame, Memory};
use crate::filter::{FrameFilter, FrameProgram};
use crate::tally::LaneTally;
use quaff_file::Interfaces;
use quaff_wire::filter::Subject;
use quaff_wire::linktype::ETHERNET;

/// The filter stage.
#[derive(Debug)]
pub(crate) struct Filter {
    filter: FrameFilter,
    interfaces: Interfaces,
    /// One program for each link type that occurred; `None` where the expression does not compile.
    programs: Vec<(u16, Option<FrameProgram>)>,
    /// Index of the program of each interface, by number, once a frame of it has occurred.
    places: Vec<Option<usize>>,
}

impl Filter {
    /// A stage for the frames of these interfaces.
    pub(crate) fn new(filter: FrameFilter, interfaces: Interfaces) -> Self {
        Self { filter, interfaces, programs: Vec::new(), places: Vec::new() }
    }

    /// Selects the program for frames of an interface.
    #[cold]
    fn learn(&mut self, interface: u16) {
        let found = self.interfaces.get(interface);
        let linktype = found.map_or(ETHERNET.linktype, |interface| interface.linktype);
        let known = self.programs.iter().position(|(of, _)| *of == linktype);
        let place = known.unwrap_or_else(|| {
            self.programs.push((linktype, self.filter.program(linktype)));
            self.programs.len() - 1
        });
        let at = usize::from(interface);
        self.places.resize(self.places.len().max(at + 1), None);
        self.places[at] = Some(place);
    }

    #[inline]
    fn place(&self, interface: u16) -> Option<usize> {
        self.places.get(usize::from(interface)).copied().flatten()
    }

    #[inline]
    fn wants(&self, frame: &Frame, memory: Memory<'_>) -> bool {
        let found = self.place(frame.interface).and_then(|place| self.programs.get(place));
        let Some((_, Some(program))) = found else { return false };
        let tag = (frame.tpid != 0).then_some((frame.tpid, frame.tci));
        let subject = Subject { bytes: memory.of(frame), wire_len: frame.wire_len, tag };
        program.wants(&subject)
    }
}

impl Stage for Filter {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        for frame in batch.frames.iter() {
            if self.place(frame.interface).is_none() {
                self.learn(frame.interface);
            }
        }
        let memory = Memory { bytes: batch.bytes, scratch: batch.scratch, options: &[], ids: &[] };
        let before = batch.frames.len();
        batch.frames.retain(|frame| self.wants(frame, memory));
        tally.filtered += (before - batch.frames.len()) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_testpackets as build;
    use quaff_wire::pcapng::Interface;

    /// The frames (interface, tag, bytes) that an expression keeps, with its count and notes.
    fn kept(expression: &str, frames: &[(u16, u16, Vec<u8>)]) -> (Vec<usize>, u64, Vec<String>) {
        let of = |linktype| Interface { linktype, ..Interface::default() };
        let filter = FrameFilter::new(expression, "`filter`").expect("an expression");
        let mut stage = Filter::new(filter.clone(), Interfaces::new(vec![of(1), of(101), of(147)]));
        let bytes: Vec<u8> = frames.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
        let mut start = 0;
        let describe = |(at, (interface, tci, bytes)): (usize, &(u16, u16, Vec<u8>))| {
            let len = bytes.len() as u32;
            start += len;
            let tpid = if *tci == 0 { 0 } else { 0x8100 };
            let time_ns = at as u64;
            Frame {
                time_ns,
                start: start - len,
                len,
                wire_len: len,
                tpid,
                tci: *tci,
                interface: *interface,
                ..Frame::default()
            }
        };
        let mut list: Vec<_> = frames.iter().enumerate().map(describe).collect();
        let (mut scratch, mut tally) = (Vec::new(), LaneTally::default());
        let mut batch = Batch {
            bytes: &bytes,
            scratch: &mut scratch,
            frames: &mut list,
            ids: &mut Vec::new(),
            now_ns: 0,
            is_last: true,
        };
        stage.pass(&mut batch, &mut tally);
        (list.iter().map(|frame| frame.time_ns as usize).collect(), tally.filtered, filter.notes())
    }

    #[test]
    fn frames_are_matched_as_the_file_has_them() {
        let ip =
            build::ipv4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, &[], &build::udp(1, 53, &[0; 30]));
        let frame = build::ethernet(&[], 0x0800, &ip);
        let tagged = build::ethernet(&[(0x8100, 5)], 0x0800, &ip);
        let frames =
            [(0, 0, frame.clone()), (0, 5, frame.clone()), (0, 0, tagged), (1, 0, ip), (2, 0, vec![1; 60])];
        assert_eq!(kept("udp port 53", &frames).0, [0, 3]);
        assert_eq!(kept("vlan 5 and udp port 53", &frames).0, [1, 2]);
        assert_eq!(kept("vlan 6", &frames).0, [0; 0]);
        // A restored VLAN tag counts.
        assert_eq!(kept(&format!("len = {}", frame.len() + 4), &frames).0, [1, 2]);
    }

    #[test]
    fn frames_to_which_an_expression_does_not_apply_are_excluded_and_noted_once() {
        let frames = [(0, 0, vec![0xff; 60]), (1, 0, vec![0x45; 60]), (1, 0, vec![0x45; 60])];
        let (kept, filtered, notes) = kept("ether broadcast", &frames);
        assert_eq!((kept, filtered, notes.len()), (vec![0], 2, 1));
        assert!(notes[0].contains("`filter`") && notes[0].contains("bare IP packets"), "{notes:?}");
        assert!(FrameFilter::new("ip and and", "`filter`").is_err());
        assert!(FrameFilter::new("wlan addr1 2:0:0:0:0:1", "`filter`").is_ok());
        let loops = FrameFilter::new("ip6 protochain 6", "`filter`").unwrap_err().to_string();
        assert!(loops.contains("protochain"), "{loops}");
    }
}
