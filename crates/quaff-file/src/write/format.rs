//! The file formats of packets, and their extensions.

use crate::read::Compression;

/// The format of a capture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// pcapng: several interfaces, ns, direction, and the drop counters.
    #[default]
    Pcapng,
    /// pcap with timestamps in ns.
    Pcap,
    /// pcap with timestamps in µs, for old readers.
    PcapUs,
}

impl Format {
    /// Returns the extension of file names, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::Pcap | Self::PcapUs => "pcap",
        }
    }

    /// Returns the extension of file names, with that of a compression.
    pub(crate) fn extension_with(self, compression: Option<Compression>) -> &'static str {
        match (self, compression) {
            (_, None) => self.extension(),
            (Self::Pcapng, Some(Compression::Zstd)) => "pcapng.zst",
            (Self::Pcapng, Some(Compression::Lz4)) => "pcapng.lz4",
            (Self::Pcapng, Some(Compression::Gzip)) => "pcapng.gz",
            (_, Some(Compression::Zstd)) => "pcap.zst",
            (_, Some(Compression::Lz4)) => "pcap.lz4",
            (_, Some(Compression::Gzip)) => "pcap.gz",
        }
    }
}
