//! The first and the last blocks of a file: who captured, on what, and the ledger so far.
//!
//! Counters in Interface Statistics Blocks run from the start of the capture. Each pcapng file
//! begins with one per interface (where it stood) and ends with one (where it stands), so each file
//! proves itself: the difference in `isb_usrdeliv` is the number of packets in it.

use crate::pack::statistics;
use crate::plan::Format;
use crate::tally::Counts;
use quaff_wire::pcap::encode::{Resolution, file_header};
use quaff_wire::pcapng::encode::{Interface, Section, idb, isb, padding, padding_bytes, shb};

/// What every file of a capture says about it.
#[derive(Debug, Clone)]
pub struct Heading {
    /// The format.
    pub format: Format,
    /// The section.
    pub section: Section,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// When the capture began, ns since 1970.
    pub start_ns: u64,
    /// The alignment of writes; 1 is none.
    pub align: usize,
}

impl Heading {
    /// The bytes that a file begins with.
    pub fn first(&self, counts: &[Counts]) -> Vec<u8> {
        let mut out = Vec::new();
        match self.format {
            Format::Pcapng => {
                shb(&mut out, &self.section);
                for interface in &self.interfaces {
                    idb(&mut out, interface);
                }
                self.put_statistics(&mut out, counts);
            }
            Format::Pcap => self.put_pcap(&mut out, Resolution::Nanoseconds),
            Format::PcapUs => self.put_pcap(&mut out, Resolution::Microseconds),
        }
        out
    }

    /// The bytes that a file ends with. `lost` has, per lane, packets that were packed and then
    /// could not be written.
    pub fn last(&self, counts: &[Counts], lost: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        if self.format == Format::Pcapng {
            let counts: Vec<_> =
                counts.iter().zip(lost).map(|(counts, lost)| with_loss(counts, *lost)).collect();
            self.put_statistics(&mut out, &counts);
        }
        out
    }

    fn put_pcap(&self, out: &mut Vec<u8>, resolution: Resolution) {
        let interface = self.interfaces.first();
        let (snaplen, linktype) =
            interface.map_or((0, 1), |interface| (interface.snaplen, interface.linktype));
        out.extend(file_header(resolution, snaplen, linktype));
    }

    fn put_statistics(&self, out: &mut Vec<u8>, counts: &[Counts]) {
        for (interface, counts) in counts.iter().enumerate() {
            // What has not been counted yet stands where the capture began.
            let time_ns = if counts.time_ns == 0 { self.start_ns } else { counts.time_ns };
            let counts = Counts { time_ns, ..*counts };
            isb(out, &statistics(interface as u32, self.start_ns, &counts));
        }
        let gap = padding_bytes(out.len(), self.align);
        if gap > 0 {
            let from = out.len();
            out.resize(from + gap, 0);
            padding(&mut out[from..]);
        }
    }
}

fn with_loss(counts: &Counts, lost: u64) -> Counts {
    Counts { packed: counts.packed - lost, lost: counts.lost + lost, ..*counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_statistics_are_of_the_start_and_not_of_1970() {
        let heading = Heading {
            format: Format::Pcapng,
            section: Section::default(),
            interfaces: vec![Interface::default()],
            start_ns: 1_790_000_000_123_456_789,
            align: 1,
        };
        let statistics_of = |counts| heading.last(&[counts], &[0]);
        let at_start = Counts { time_ns: heading.start_ns, ..Counts::default() };
        assert_eq!(statistics_of(Counts::default()), statistics_of(at_start));
        let later = Counts { time_ns: heading.start_ns + 1, ..Counts::default() };
        assert_ne!(statistics_of(later), statistics_of(at_start));
    }
}
