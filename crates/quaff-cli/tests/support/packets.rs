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
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => in_pcapng(path, &bytes),
        Some([0x4d, 0x3c, 0xb2, 0xa1] | [0xd4, 0xc3, 0xb2, 0xa1]) => in_pcap(path, &bytes),
        start => panic!("{path} begins with {start:02x?}"),
    }
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

fn in_pcapng(path: &str, bytes: &[u8]) -> Packets {
    const ENHANCED_PACKET: usize = 6;
    let (mut at, mut packets) = (0, Packets::default());
    while at < bytes.len() {
        let (kind, len) = (u32_at(bytes, at), u32_at(bytes, at + 4));
        assert!(len >= 12 && at + len <= bytes.len(), "{path} ends within a block at {at}");
        assert_eq!(u32_at(bytes, at + len - 4), len, "{path}: the lengths of a block at {at} differ");
        if kind == ENHANCED_PACKET {
            packets.count += 1;
            packets.dropped += dropped(&bytes[at..at + len - 4]);
        }
        at += len;
    }
    packets
}

/// `epb_dropcount` of a block, 0 without.
fn dropped(block: &[u8]) -> u64 {
    const DROP_COUNT: [u8; 2] = [4, 0];
    let mut at = 28 + u32_at(block, 20).next_multiple_of(4);
    while at + 4 <= block.len() {
        let len = usize::from(u16::from_le_bytes([block[at + 2], block[at + 3]]));
        if block[at..at + 2] == DROP_COUNT {
            return u64::from_le_bytes(block[at + 4..at + 12].try_into().unwrap());
        }
        at += 4 + len.next_multiple_of(4);
    }
    0
}
