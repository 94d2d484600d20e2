//! The packets of a capture file, counted block by block, without the readers and writers of quaff.

/// The packets of a file, and the drops that are recorded in front of them (`epb_dropcount`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    pub(crate) count: u64,
    pub(crate) dropped: u64,
}

/// Counts the packets of a file. It must be whole: pcapng or pcap, little endian.
#[track_caller]
pub(crate) fn packets_in(path: &str) -> Packets {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    match bytes.first_chunk() {
        // A folder's file of pcap may have no packet, and then no header.
        None if bytes.is_empty() => Packets::default(),
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => {
            let mut packets = Packets::default();
            in_pcapng(path, &bytes, |block| {
                packets.count += 1;
                packets.dropped += option64(block, DROP_COUNT).unwrap_or(0);
            });
            packets
        }
        Some([0x4d, 0x3c, 0xb2, 0xa1] | [0xd4, 0xc3, 0xb2, 0xa1]) => in_pcap(path, &bytes),
        start => panic!("{path} begins with {start:02x?}"),
    }
}

/// A packet of a pcapng file of one section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) interface: usize,
    /// ns since 1970.
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
    /// `epb_packetid`.
    pub(crate) id: Option<u64>,
}

/// The packets of a pcapng file of quaff.
#[track_caller]
pub(crate) fn packets_of(path: &str) -> Vec<Packet> {
    const PACKET_ID: u16 = 5;
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let packet = |block: &[u8]| Packet {
        interface: u32_at(block, 8),
        time_ns: (u32_at(block, 12) as u64) << 32 | u32_at(block, 16) as u64,
        bytes: block[28..28 + u32_at(block, 20)].to_vec(),
        id: option64(block, PACKET_ID),
    };
    let mut packets = Vec::new();
    in_pcapng(path, &bytes, |block| packets.push(packet(block)));
    packets
}

/// The sum over all files.
#[track_caller]
pub(crate) fn packets_in_all(paths: &[String]) -> Packets {
    paths.iter().map(|path| packets_in(path)).fold(Packets::default(), |sum, of| Packets {
        count: sum.count + of.count,
        dropped: sum.dropped + of.dropped,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn in_pcap(path: &str, bytes: &[u8]) -> Packets {
    let (mut at, mut count) = (24, 0);
    while at < bytes.len() {
        at += 16 + u32_at(bytes, at + 8);
        count += 1;
    }
    assert_eq!(at, bytes.len(), "{path} ends within a record");
    Packets { count, dropped: 0 }
}

/// `epb_dropcount`.
const DROP_COUNT: u16 = 4;

/// Passes on the Enhanced Packet Blocks, without their last length.
#[track_caller]
fn in_pcapng(path: &str, bytes: &[u8], mut each: impl FnMut(&[u8])) {
    const ENHANCED_PACKET: usize = 6;
    let mut at = 0;
    while at < bytes.len() {
        let (kind, len) = (u32_at(bytes, at), u32_at(bytes, at + 4));
        assert!(len >= 12 && at + len <= bytes.len(), "{path} ends within a block at {at}");
        assert_eq!(u32_at(bytes, at + len - 4), len, "{path}: the lengths of a block at {at} differ");
        if kind == ENHANCED_PACKET {
            each(&bytes[at..at + len - 4]);
        }
        at += len;
    }
}

/// An option of 64 bits of a block.
fn option64(block: &[u8], code: u16) -> Option<u64> {
    let mut at = 28 + u32_at(block, 20).next_multiple_of(4);
    while at + 4 <= block.len() {
        let len = usize::from(u16::from_le_bytes([block[at + 2], block[at + 3]]));
        if block[at..at + 2] == code.to_le_bytes() {
            return Some(u64::from_le_bytes(block[at + 4..at + 12].try_into().unwrap()));
        }
        at += 4 + len.next_multiple_of(4);
    }
    None
}
