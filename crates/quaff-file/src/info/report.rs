//! The summary of a file, and of several, as plain data. Times are ns since 1970.

use super::order::Gap;
use super::tally::{DropPlaces, InterfaceTally, Sizes};
use crate::read::SkippedBytes;
use crate::verify::Ledger;
use quaff_wire::decode::Interface;
use quaff_wire::linktype;
use serde::Serialize;

/// The summary of one file.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FileInfo {
    pub path: String,
    /// `pcap` or `pcapng`; `None` for a file that could not be read.
    pub format: Option<&'static str>,
    /// `gzip`, `zstd` or `lz4`.
    pub compression: Option<&'static str>,
    /// Size of the file; `None` for a pipe.
    pub file_bytes: Option<u64>,
    /// Bytes decoded.
    pub data_bytes: u64,
    /// SHA-256 of the file as it lies on the disk, in hexadecimal digits; `None` if it was not asked for.
    pub sha256: Option<String>,
    pub packets: u64,
    /// Bytes of packets in the file.
    pub captured_bytes: u64,
    /// Bytes that the packets had on the wire.
    pub wire_bytes: u64,
    /// Length on the wire of the shortest and of the longest packet.
    pub packet_bytes_min: Option<u32>,
    pub packet_bytes_max: Option<u32>,
    /// Time of the earliest and of the latest packet.
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    /// Time between them, s; `None` without packets that have times.
    pub seconds: Option<f64>,
    pub pps: Option<f64>,
    /// Bits on the wire per second.
    pub bps: Option<f64>,
    /// Packets without a time.
    pub untimed: u64,
    /// Packets that were captured shorter than they were on the wire, and the bytes that are missing.
    pub cut_packets: u64,
    pub cut_bytes: u64,
    /// Packets that are earlier than the packet before them.
    pub backward: u64,
    /// The most by which a packet is earlier than the latest one before it.
    pub late_max_ns: u64,
    /// The longest times without packets, the longest first.
    pub gaps: Vec<Gap>,
    /// Recorded drops; `None` if the file records none of its counters.
    pub drops: Option<Drops>,
    pub sections: u64,
    #[serde(flatten)]
    pub origin: Origin,
    pub interface_count: u64,
    /// The first 1,024 interfaces.
    pub interfaces: Vec<InterfaceInfo>,
    /// The first damage, after which nothing was read.
    pub broken: Option<Break>,
    /// Damaged bytes that were skipped.
    pub skipped: SkippedBytes,
    pub notes: Vec<String>,
    /// The reason why the file could not be read to its end.
    pub error: Option<String>,
    /// Nothing of it could be read.
    pub unreadable: bool,
}

/// The machine and the program that wrote a file, as its first section has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Origin {
    pub hardware: Option<String>,
    pub os: Option<String>,
    pub application: Option<String>,
    pub comment: Option<String>,
}

/// The damage that ends the reading of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Break {
    /// Offset of the damage; in the compressed file where that is damaged.
    pub offset: u64,
    pub reason: String,
}

/// The drops that a file records.
#[derive(Debug, Clone, Serialize)]
pub struct Drops {
    /// The sum of the next three.
    pub recorded: u64,
    /// Dropped by the interface (`isb_ifdrop`).
    pub interface: u64,
    /// Dropped by the operating system (`isb_osdrop`).
    pub kernel: u64,
    /// Lost between operating system and file.
    pub buffer: u64,
    /// The sum of the drop counts of packets (`epb_dropcount`).
    pub at_packets: u64,
    pub places: DropPlaces,
    /// Counters that disagree with each other or with the packets.
    pub contradictions: Vec<String>,
}

/// An interface of a section.
#[derive(Debug, Clone, Default, Serialize)]
pub struct InterfaceInfo {
    /// Number of its section, from 1; 0 in a pcap file.
    pub section: u64,
    /// Its number in the section.
    pub id: u32,
    pub name: Option<String>,
    pub description: Option<String>,
    pub linktype: u16,
    /// The name of the link type.
    pub link: Option<&'static str>,
    /// 0 is no limit.
    pub snaplen: u32,
    /// Resolution of times, as `if_tsresol` has it: 6 is µs, 9 is ns.
    pub tsresol: u8,
    pub mac: Option<String>,
    pub speed_bps: Option<u64>,
    pub filter: Option<String>,
    pub os: Option<String>,
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    pub cut_packets: u64,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    /// The sum of the drop counts of its packets (`epb_dropcount`).
    pub dropcount: u64,
    /// Number of blocks of counters; the counters of the last one follow.
    pub statistics: u64,
    pub ifrecv: Option<u64>,
    pub ifdrop: Option<u64>,
    pub filteraccept: Option<u64>,
    pub osdrop: Option<u64>,
    pub usrdeliv: Option<u64>,
}

/// The sums of several files.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Total {
    pub files: u64,
    /// Files with damage, or that could not be read.
    pub damaged: u64,
    /// Sizes of the files, without pipes.
    pub file_bytes: u64,
    pub packets: u64,
    pub captured_bytes: u64,
    pub wire_bytes: u64,
    pub first_ns: Option<u64>,
    pub last_ns: Option<u64>,
    pub seconds: Option<f64>,
    pub pps: Option<f64>,
    pub bps: Option<f64>,
    /// Packets that the files record as lost.
    pub drops: u64,
}

impl FileInfo {
    pub(super) fn count(&mut self, sizes: &Sizes) {
        (self.packets, self.captured_bytes, self.wire_bytes) =
            (sizes.packets, sizes.captured_bytes, sizes.wire_bytes);
        (self.cut_packets, self.cut_bytes) = (sizes.cut_packets, sizes.cut_bytes);
        let sized = |bytes| (sizes.packets > 0).then_some(bytes);
        (self.packet_bytes_min, self.packet_bytes_max) = (sized(sizes.min), sized(sizes.max));
    }

    /// Sets the times of the earliest and the latest packet; [`FileInfo::count`] comes before.
    pub(super) fn set_times(&mut self, first_ns: u64, last_ns: u64) {
        (self.first_ns, self.last_ns) = (Some(first_ns), Some(last_ns));
        (self.seconds, self.pps, self.bps) = rates(self.packets, self.wire_bytes, first_ns, last_ns);
    }

    /// The file has damage, or could not be read.
    pub fn is_damaged(&self) -> bool {
        self.error.is_some() || self.skipped.count > 0
    }

    /// Number of packets that the file records as lost.
    pub fn lost(&self) -> u64 {
        self.drops.as_ref().map_or(0, |drops| drops.recorded.max(drops.at_packets))
    }
}

impl Drops {
    pub(super) fn new(ledger: Ledger, places: DropPlaces) -> Self {
        Self {
            recorded: ledger.recorded_drops,
            interface: ledger.ifdrop,
            kernel: ledger.osdrop,
            buffer: ledger.undelivered,
            at_packets: ledger.epb_dropcount,
            places,
            contradictions: ledger.contradictions,
        }
    }
}

impl InterfaceInfo {
    pub(super) fn new(section: u64, interface: &Interface<'_>, text: fn(&[u8]) -> String) -> Self {
        let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        Self {
            section,
            id: interface.id,
            name: interface.name.map(text),
            description: interface.description.map(text),
            linktype: interface.linktype,
            link: linktype::name(interface.linktype),
            snaplen: interface.snaplen,
            tsresol: interface.tsresol,
            mac: interface.mac.map(mac),
            speed_bps: interface.speed_bps,
            filter: interface.filter.map(text),
            os: interface.os.map(text),
            ..Self::default()
        }
    }

    pub(super) fn count(&mut self, tally: &InterfaceTally) {
        let Sizes { packets, captured_bytes, wire_bytes, cut_packets, .. } = tally.sizes;
        (self.packets, self.captured_bytes) = (packets, captured_bytes);
        (self.wire_bytes, self.cut_packets) = (wire_bytes, cut_packets);
        (self.first_ns, self.last_ns) = tally.times().unzip();
        (self.dropcount, self.statistics) = (tally.counters.dropcount(), tally.statistics);
        if let Some(last) = tally.counters.last() {
            (self.ifrecv, self.ifdrop, self.filteraccept) = (last.ifrecv, last.ifdrop, last.filteraccept);
            (self.osdrop, self.usrdeliv) = (last.osdrop, last.usrdeliv);
        }
    }
}

impl Total {
    /// Adds up files.
    pub fn of(files: &[FileInfo]) -> Self {
        let sum = |of: fn(&FileInfo) -> u64| files.iter().map(of).fold(0, u64::saturating_add);
        let mut total = Self {
            files: files.len() as u64,
            damaged: files.iter().filter(|file| file.is_damaged()).count() as u64,
            file_bytes: sum(|file| file.file_bytes.unwrap_or(0)),
            packets: sum(|file| file.packets),
            captured_bytes: sum(|file| file.captured_bytes),
            wire_bytes: sum(|file| file.wire_bytes),
            first_ns: files.iter().filter_map(|file| file.first_ns).min(),
            last_ns: files.iter().filter_map(|file| file.last_ns).max(),
            drops: sum(FileInfo::lost),
            ..Self::default()
        };
        if let (Some(first_ns), Some(last_ns)) = (total.first_ns, total.last_ns) {
            (total.seconds, total.pps, total.bps) = rates(total.packets, total.wire_bytes, first_ns, last_ns);
        }
        total
    }
}

/// Returns the seconds between two times, and packets and bits per second; no rates if the times are equal.
fn rates(packets: u64, bytes: u64, first_ns: u64, last_ns: u64) -> (Option<f64>, Option<f64>, Option<f64>) {
    let seconds = (last_ns - first_ns) as f64 / 1e9;
    let rate = |count: f64| (seconds > 0.0).then(|| count / seconds);
    (Some(seconds), rate(packets as f64), rate(bytes as f64 * 8.0))
}
