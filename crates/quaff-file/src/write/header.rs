//! The first and the last blocks of a file: section header, interfaces, names, and counters.
//!
//! Counters in Interface Statistics Blocks run from the start of the capture. Each pcapng file begins and
//! ends with one per interface, so each file proves itself: the difference in `isb_usrdeliv` is the number
//! of packets in it. Those of an interface with several lanes are the sums of its lanes.

use crate::interfaces::Interfaces;
use crate::read::Compression;
use crate::tally::{Counts, SessionCounts, statistics};
use crate::write::compress::stored;
use crate::write::format::Format;
use quaff_wire::pcap::{Resolution, file_header, set_fcs_len};
use quaff_wire::pcapng::{Section, idb, isb, padding, padding_bytes, shb};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The description of a capture, written to each of its files.
#[derive(Debug, Clone)]
pub struct Heading {
    pub format: Format,
    pub section: Section,
    /// All interfaces of the run; lanes may add some while it runs.
    pub interfaces: Interfaces,
    /// Number of lanes; their interfaces come first.
    pub lanes: usize,
    /// Number of interfaces that each file describes, even without packets.
    pub known: usize,
    /// Start of the capture, ns since 1970.
    pub start_ns: u64,
    /// Alignment of writes in bytes; 1 is none.
    pub align: usize,
    /// The compression of the files: blocks outside of chunks are stored frames.
    pub compression: Option<Compression>,
    /// Lanes whose packets are in another folder: their counters are left out.
    pub absent: BTreeSet<usize>,
}

/// The parts of the run's descriptions that a file has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Described {
    /// Number of interfaces.
    pub(super) interfaces: usize,
    /// Number of blocks of names. Those found later follow at the end of the file.
    pub(super) names: usize,
}

impl Heading {
    /// Returns the first bytes of a file, and what is described there. Interfaces and names that a lane has found are
    /// included once a chunk follows them, so that the contents of a file do not depend on how far ahead the lane is.
    pub(super) fn first(&self, counts: &[Counts]) -> (Vec<u8>, Described) {
        let mut out = Vec::new();
        let mut known = self.interfaces.since(0);
        known.truncate(self.interfaces_before(counts));
        let names = self.names_before(counts);
        match self.format {
            Format::Pcapng => {
                shb(&mut out, &self.section);
                known.iter().for_each(|interface| idb(&mut out, interface));
                out.extend(self.interfaces.names(0..names));
                self.put_statistics(&mut out, counts, known.len());
                self.put_new(&mut out, counts, self.known_interfaces()..known.len());
            }
            Format::Pcap => self.put_pcap(&mut out, Resolution::Nanoseconds),
            Format::PcapUs => self.put_pcap(&mut out, Resolution::Microseconds),
        }
        (self.complete(out), Described { interfaces: known.len(), names })
    }

    /// The number of blocks of names that were found before the packets that these counts include.
    pub(super) fn names_before(&self, counts: &[Counts]) -> usize {
        let (first, _) = self.interfaces.names_found();
        counts.iter().map(|counts| counts.names).fold(first, usize::max)
    }

    /// Returns the length of the names of these numbers in a file, bytes.
    pub(super) fn names_bytes(&self, numbers: Range<usize>) -> u64 {
        match self.format {
            Format::Pcapng => self.interfaces.names_bytes(numbers) as u64,
            Format::Pcap | Format::PcapUs => 0,
        }
    }

    /// As [`Self::first`] for the first file of a run, whose counters begin at zero, even if it begins after counts
    /// have come.
    pub(super) fn first_of_run(&self) -> (Vec<u8>, Described) {
        self.first(&vec![Counts::default(); self.lanes])
    }

    /// Returns whether a file can begin: it describes an interface, which in some runs is that of the first packet.
    pub(super) fn is_ready(&self) -> bool {
        !self.interfaces.waits_for_packets() || self.interfaces.count() > 0
    }

    /// Makes a file without packets possible: the interface that waits for the first packet is described now.
    pub(super) fn make_ready(&self) {
        if !self.is_ready() {
            self.interfaces.declare(0);
        }
    }

    /// The same heading for bytes that need no alignment: the last ones of a file.
    pub(super) fn unaligned(&self) -> Self {
        Self { align: 1, ..self.clone() }
    }

    /// Returns descriptions of the interfaces `new`, and the number described after them.
    pub(super) fn more(&self, new: Range<usize>) -> (Vec<u8>, usize) {
        let first = new.start;
        let mut found = self.interfaces.since(first);
        found.truncate(new.len());
        let mut out = Vec::new();
        if self.format == Format::Pcapng && !found.is_empty() {
            found.iter().for_each(|interface| idb(&mut out, interface));
            self.put_new(&mut out, &[], first..first + found.len());
        }
        (self.complete(out), first + found.len())
    }

    /// Returns the last bytes of a file: names found since it began, and counters.
    pub(super) fn last(&self, counts: &[Counts], written: &[Counts], described: Described) -> Vec<u8> {
        let mut out = Vec::new();
        if self.format == Format::Pcapng {
            out.extend(self.interfaces.names(described.names..self.names_before(counts)));
        }
        out.extend(self.counters(counts, written, described.interfaces));
        self.complete(out)
    }

    /// Returns counters, which may be anywhere in a stream. `counts` are the lanes' newest counts, `written` those of
    /// their last chunks in the file; packets packed in between are lost. Only sessions and spare lanes with an
    /// interface below `described` are included.
    pub(super) fn counters(&self, counts: &[Counts], written: &[Counts], described: usize) -> Vec<u8> {
        let mut out = Vec::new();
        if self.format == Format::Pcapng {
            let counts: Vec<_> = counts
                .iter()
                .zip(written)
                .map(|(counts, written)| with_loss(counts, written, described))
                .collect();
            self.put_statistics(&mut out, &counts, described);
        }
        out
    }

    /// Returns the interfaces that a file surely describes if these are the counts of its last chunks. Such a file ends
    /// early, and without further names.
    pub(super) fn described_before(&self, written: &[Counts]) -> Described {
        Described { interfaces: self.interfaces_before(written), names: usize::MAX }
    }

    /// Returns the number of interfaces that chunks with these counts refer to, or that each file describes.
    fn interfaces_before(&self, counts: &[Counts]) -> usize {
        self.counted(counts).max(self.known)
    }

    /// Returns the number of interfaces that a file has to describe for these counts: sessions and spare lanes may have
    /// drops and no packets.
    pub(super) fn counted(&self, counts: &[Counts]) -> usize {
        let spares = counts.iter().enumerate().skip(self.known_lanes());
        let spares = spares.filter_map(|(lane, counts)| self.number(lane, counts));
        let sessions = counts.iter().filter_map(|counts| counts.sessions.last());
        let all = sessions.map(|session| session.interface).chain(spares);
        all.max().map_or(0, |last| usize::from(last) + 1)
    }

    fn put_pcap(&self, out: &mut Vec<u8>, resolution: Resolution) {
        let declared = self.interfaces.since(0);
        let (snaplen, linktype) =
            declared.first().map_or((0, 1), |interface| (interface.snaplen, interface.linktype));
        let linktype = self.interfaces.only_linktype(linktype);
        let mut header = file_header(resolution, snaplen, linktype);
        if let Some(fcs_len) = declared.first().and_then(|interface| interface.fcs_len) {
            set_fcs_len(&mut header, fcs_len);
        }
        out.extend(header);
    }

    /// The interface of a lane; that of a spare one from its first packet or drop on.
    fn number(&self, lane: usize, counts: &Counts) -> Option<u16> {
        let Counts { packed, nic_dropped, kernel_dropped, lost, .. } = *counts;
        let is_counted = lane < self.known_lanes() || packed + nic_dropped + kernel_dropped + lost > 0;
        self.interfaces.of_lane(lane).filter(|_| is_counted)
    }

    /// Returns the number of lanes whose interfaces come first.
    fn known_lanes(&self) -> usize {
        self.interfaces.first_spare().map_or(self.lanes, |first| first.min(self.lanes))
    }

    /// Returns the number of interfaces of those lanes.
    fn known_interfaces(&self) -> usize {
        let numbers = (0..self.known_lanes()).filter_map(|lane| self.interfaces.of_lane(lane));
        numbers.max().map_or(0, |last| usize::from(last) + 1)
    }

    fn put_statistics(&self, out: &mut Vec<u8>, counts: &[Counts], described: usize) {
        let present = counts.iter().enumerate().filter(|(lane, _)| !self.absent.contains(lane));
        let mut of_interfaces = BTreeMap::<u16, Counts>::new();
        for (lane, counts) in present {
            let is_described = |number: &u16| lane < self.known_lanes() || usize::from(*number) < described;
            let Some(interface) = self.number(lane, counts).filter(is_described) else { continue };
            match of_interfaces.entry(interface) {
                Entry::Vacant(first) => drop(first.insert(counts.clone())),
                Entry::Occupied(mut lanes) => lanes.get_mut().add_lane(counts),
            }
        }
        for (interface, counts) in of_interfaces {
            // Counters without a time are of the start of the capture.
            let time_ns = if counts.time_ns == 0 { self.start_ns } else { counts.time_ns };
            let counts = Counts { time_ns, ..counts };
            for statistics in statistics(interface.into(), self.start_ns, &counts) {
                isb(out, &statistics);
            }
        }
    }

    /// Writes zero counters for the sessions that no lane has counted yet.
    fn put_new(&self, out: &mut Vec<u8>, counts: &[Counts], interfaces: Range<usize>) {
        for interface in interfaces {
            let is_counted = |(lane, counts): (usize, &Counts)| {
                let of_session =
                    counts.sessions.binary_search_by_key(&interface, |session| session.interface.into());
                of_session.is_ok()
                    || self.number(lane, counts).is_some_and(|own| usize::from(own) == interface)
            };
            if !counts.iter().enumerate().any(is_counted) {
                let none = Counts { time_ns: self.start_ns, ..Counts::default() };
                statistics(interface as u32, self.start_ns, &none).for_each(|none| isb(out, &none));
            }
        }
    }

    /// Compresses blocks and fills them up to the alignment; pcap cannot be filled up.
    fn complete(&self, mut blocks: Vec<u8>) -> Vec<u8> {
        if blocks.is_empty() {
            return blocks;
        }
        if let Some(compression) = self.compression {
            return stored(compression, &blocks, self.align);
        }
        let gap = if self.format == Format::Pcapng { padding_bytes(blocks.len(), self.align) } else { 0 };
        if gap > 0 {
            let from = blocks.len();
            blocks.resize(from + gap, 0);
            padding(&mut blocks[from..]);
        }
        blocks
    }
}

fn with_loss(counts: &Counts, written: &Counts, described: usize) -> Counts {
    let known = counts.sessions.iter().filter(|session| usize::from(session.interface) < described);
    let written_of = |session: &SessionCounts| {
        let at = written.sessions.binary_search_by_key(&session.interface, |session| session.interface);
        let of = at.map_or_else(|_| SessionCounts::default(), |at| written.sessions[at]);
        SessionCounts { packed: of.packed, dropped: of.dropped, ..*session }
    };
    Counts {
        packed: written.packed,
        lost: counts.lost + (counts.packed - written.packed),
        sessions: known.map(written_of).collect(),
        ..counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcapng::Interface;

    #[test]
    fn a_file_waits_for_its_first_interface() {
        let heading = Heading {
            format: Format::Pcap,
            section: Section::default(),
            interfaces: Interfaces::by_first_packet(vec![
                Interface { linktype: 1, ..Interface::default() },
                Interface { linktype: 101, ..Interface::default() },
            ]),
            lanes: 1,
            known: 1,
            start_ns: 1,
            align: 1,
            compression: None,
            absent: BTreeSet::new(),
        };
        assert!(!heading.is_ready());
        heading.interfaces.declare(1);
        heading.make_ready();
        assert_eq!((heading.is_ready(), heading.interfaces.count()), (true, 1));
        let (first, described) = heading.first(&[Counts::default()]);
        assert_eq!((&first[20..22], described.interfaces), (&[101, 0][..], 1));
    }

    #[test]
    fn a_spare_lane_counts_from_its_first_packet_or_drop() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let heading = Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: Interfaces::new(vec![named("eth0")]).with_spare_lanes(1),
            lanes: 3,
            known: 1,
            start_ns: 1,
            align: 1,
            compression: None,
            absent: BTreeSet::new(),
        };
        let none = Counts::default;
        let lost = [none(), none(), Counts { lost: 3, ..none() }];
        assert_eq!(heading.counted(&lost), 0, "it has no interface");
        heading.interfaces.assign(2, named("veth0"));
        assert_eq!((heading.counted(&[none(), none(), none()]), heading.counted(&lost)), (0, 2));
        let packed = [none(), none(), Counts { packed: 1, ..none() }];
        assert_eq!((heading.counted(&packed), heading.first(&lost).1.interfaces), (2, 2));
        let bytes = |interfaces| heading.counters(&lost, &[none(), none(), none()], interfaces).len();
        assert!(bytes(2) > bytes(1), "its drops are counted in a file that describes it, and in no other");
        assert_eq!(bytes(1), heading.counters(&[none()], &[none()], 1).len());
    }

    #[test]
    fn lanes_of_one_interface_have_one_block_with_their_sums() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let heading = |of_lanes: Vec<u16>, absent: &[usize]| Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: Interfaces::new(vec![named("eth0")]).with_lanes(of_lanes.clone()),
            lanes: of_lanes.len(),
            known: 1,
            start_ns: 1,
            align: 1,
            compression: None,
            absent: absent.iter().copied().collect(),
        };
        let lane =
            |packed, time_ns, nic_dropped| Counts { packed, time_ns, nic_dropped, ..Counts::default() };
        let lanes = [lane(10, 5, 0), lane(20, 7, 3)];
        let sum = [lane(30, 7, 3)];
        let shared = heading(vec![0, 0], &[]);
        assert_eq!(shared.counters(&lanes, &lanes, 1), heading(vec![0], &[]).counters(&sum, &sum, 1));
        assert_eq!(shared.first(&[Counts::default(), Counts::default()]).1.interfaces, 1);
        // A folder has the counters of its own lanes.
        let (second, alone) = (heading(vec![0, 0], &[0]), [lanes[1].clone()]);
        assert_eq!(second.counters(&lanes, &lanes, 1), heading(vec![0], &[]).counters(&alone, &alone, 1));
    }

    #[test]
    fn the_first_statistics_are_of_the_start_and_not_of_1970() {
        let heading = Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: Interfaces::new(vec![Interface::default()]),
            lanes: 1,
            known: 1,
            start_ns: 1_790_000_000_123_456_789,
            align: 1,
            compression: None,
            absent: BTreeSet::new(),
        };
        let statistics_of = |counts: Counts| {
            let counts = [counts];
            heading.last(&counts, &counts, Described { interfaces: 1, names: 0 })
        };
        let at_start = Counts { time_ns: heading.start_ns, ..Counts::default() };
        assert_eq!(statistics_of(Counts::default()), statistics_of(at_start.clone()));
        let later = Counts { time_ns: heading.start_ns + 1, ..Counts::default() };
        assert_ne!(statistics_of(later), statistics_of(at_start));
    }
}
