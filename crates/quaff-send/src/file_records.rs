//! Encodes frames as records of a capture file, in any format. It opens and writes no file.

use quaff_file::write::Format;
use quaff_wire::Record;
use quaff_wire::linktype::ETHERNET;
use quaff_wire::pcap::{self, Resolution};
use quaff_wire::pcapng::{self, Interface, Section};

/// The encoded bytes that are not yet written.
pub(crate) struct FileRecords {
    format: Format,
    pub(crate) bytes: Vec<u8>,
}

impl FileRecords {
    /// Starts with the file header. `room` is the expected number of bytes between two writes.
    pub(crate) fn new(format: Format, room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room);
        match format {
            Format::Pcap => bytes.extend(pcap::file_header(Resolution::Nanoseconds, 0, ETHERNET.linktype)),
            Format::PcapUs => bytes.extend(pcap::file_header(Resolution::Microseconds, 0, ETHERNET.linktype)),
            Format::Pcapng => {
                let userappl = concat!("quaff ", env!("CARGO_PKG_VERSION")).to_owned();
                pcapng::shb(&mut bytes, &Section { userappl, ..Section::default() });
                pcapng::idb(&mut bytes, &Interface { linktype: ETHERNET.linktype, ..Interface::default() });
            }
        }
        Self { format, bytes }
    }

    /// Appends a frame whose original length was `len`.
    pub(crate) fn push(&mut self, time_ns: u64, frame: &[u8], len: u32) {
        let record = Record { time_ns, bytes: frame, len, ..Record::default() };
        let at = self.bytes.len();
        let bytes = match self.format {
            Format::Pcapng => pcapng::epb_bytes(frame.len()),
            Format::Pcap | Format::PcapUs => pcap::record_bytes(frame.len()),
        };
        self.bytes.resize(at + bytes, 0);
        let room = &mut self.bytes[at..];
        let used = match self.format {
            Format::Pcapng => pcapng::epb(room, 0, &record),
            Format::Pcap => pcap::record(room, Resolution::Nanoseconds, &record),
            Format::PcapUs => pcap::record(room, Resolution::Microseconds, &record),
        };
        self.bytes.truncate(at + used);
    }
}
