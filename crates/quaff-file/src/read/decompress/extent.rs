//! The extent of a frame of zstd or lz4: its length, and the most that it holds, by its header and those of its blocks.
//! It decompresses nothing, and checks nothing that the decompressor checks.

/// RFC 8878 §3.1.1 and §3.1.2.
const ZSTD_MAGIC: u64 = 0xFD2F_B528;
const ZSTD_SKIPPABLE: std::ops::RangeInclusive<u64> = 0x184D_2A50..=0x184D_2A5F;
const ZSTD_RESERVED: u64 = 1 << 3;
const ZSTD_SINGLE_SEGMENT: u64 = 1 << 5;
const ZSTD_CHECKSUM: u64 = 1 << 2;
const ZSTD_BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Types of blocks.
const RAW: u64 = 0;
const RLE: u64 = 1;
const COMPRESSED: u64 = 2;

/// The lz4 frame format, version 1.6.
pub(super) const LZ4_MAGIC: u64 = 0x184D_2204;
pub(super) const LZ4_INDEPENDENT: u64 = 1 << 5;
pub(super) const LZ4_CONTENT_SIZE: u64 = 1 << 3;
pub(super) const LZ4_DICTIONARY: u64 = 1 << 0;
pub(super) const LZ4_BLOCK_CHECKSUM: u64 = 1 << 4;
pub(super) const LZ4_CONTENT_CHECKSUM: u64 = 1 << 2;
pub(super) const LZ4_STORED: u64 = 1 << 31;

/// A whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) struct Extent {
    /// Compressed bytes, those of the header included.
    pub(in crate::read) packed_bytes: usize,
    /// Decompressed bytes as the header has them, or else the most that its blocks may have.
    pub(in crate::read) plain_bytes: u64,
}

/// The reason for which there is no [`Extent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::read) enum Unknown {
    /// More bytes are needed.
    Partial,
    /// The frame needs more room, or is damaged, or no frame.
    Unfit,
}

/// The header of a frame of zstd.
struct ZstdHeader {
    window: u64,
    /// Bytes of its contents.
    size: Option<u64>,
    has_checksum: bool,
}

impl ZstdHeader {
    /// Bytes of a block at most.
    fn block_bytes_max(&self) -> u64 {
        self.window.min(ZSTD_BLOCK_BYTES_MAX)
    }
}

/// Returns the memory for the frame of zstd at the front of `bytes`, as the logarithm of a window for which it is
/// enough: 17 to 64, whatever the header claims. `Unfit` is another kind of frame, or none.
pub(super) fn zstd_memory_log(bytes: &[u8]) -> Result<u32, Unknown> {
    let header = zstd_header(&mut Walk { bytes, at: 0 })?.ok_or(Unknown::Unfit)?;
    // As ZSTD_decodingBufferSize_internal has it: two blocks beside the window, or the contents.
    let around = 2 * header.block_bytes_max();
    let needed = header.size.unwrap_or(u64::MAX).min(header.window.saturating_add(around));
    let window = needed.saturating_sub(2 * ZSTD_BLOCK_BYTES_MAX).max(ZSTD_BLOCK_BYTES_MAX);
    // Rounded up: the next power of two may be more than a u64 holds.
    Ok(u64::BITS - (window - 1).leading_zeros())
}

/// Reads a header, of a skippable frame the magic number only (`None`).
fn zstd_header(walk: &mut Walk<'_>) -> Result<Option<ZstdHeader>, Unknown> {
    let magic = walk.number(4)?;
    if ZSTD_SKIPPABLE.contains(&magic) {
        return Ok(None);
    }
    let flags = if magic == ZSTD_MAGIC { walk.number(1)? } else { return Err(Unknown::Unfit) };
    let is_single = flags & ZSTD_SINGLE_SEGMENT != 0;
    let window = if is_single { None } else { Some(zstd_window(walk.number(1)?)) };
    // The number of a dictionary.
    walk.skip([0, 1, 2, 4][(flags & 3) as usize])?;
    let size_bytes = match flags >> 6 {
        0 => u64::from(is_single),
        code => 1 << code,
    };
    let size = walk.number(size_bytes)? + if size_bytes == 2 { 256 } else { 0 };
    let size = (size_bytes > 0).then_some(size);
    if flags & ZSTD_RESERVED != 0 {
        return Err(Unknown::Unfit);
    }
    let window = window.or(size).unwrap_or_default();
    Ok(Some(ZstdHeader { window, size, has_checksum: flags & ZSTD_CHECKSUM != 0 }))
}

/// Returns the extent of the frame of zstd at the front of `bytes`, if `room` bytes are enough for its contents and its
/// window.
pub(super) fn zstd_extent(bytes: &[u8], room: u64) -> Result<Extent, Unknown> {
    let walk = &mut Walk { bytes, at: 0 };
    let Some(frame) = zstd_header(walk)? else {
        let bytes = walk.number(4)?;
        walk.skip(bytes)?;
        return Ok(Extent { packed_bytes: walk.at, plain_bytes: 0 });
    };
    // The decompressor's memory is the window, or the contents if they are shorter.
    if frame.size.unwrap_or(frame.window) > room {
        return Err(Unknown::Unfit);
    }
    let mut most = 0;
    loop {
        let header = walk.number(3)?;
        let bytes = header >> 3;
        let (packed, plain) = match header >> 1 & 3 {
            RAW => (bytes, bytes),
            RLE => (1, bytes),
            COMPRESSED => (bytes, frame.block_bytes_max()),
            _ => return Err(Unknown::Unfit),
        };
        walk.skip(packed)?;
        most += plain;
        if header & 1 != 0 {
            break;
        }
    }
    walk.skip(if frame.has_checksum { 4 } else { 0 })?;
    walk.fitting(frame.size, most, room)
}

/// RFC 8878 §3.1.1.1.2.
fn zstd_window(descriptor: u64) -> u64 {
    let base = 1 << (10 + (descriptor >> 3));
    base + base / 8 * (descriptor & 7)
}

/// As [`zstd_extent`], of a frame of lz4.
pub(super) fn lz4_extent(bytes: &[u8], room: u64) -> Result<Extent, Unknown> {
    let walk = &mut Walk { bytes, at: 0 };
    if walk.number(4)? != LZ4_MAGIC {
        return Err(Unknown::Unfit);
    }
    let (flags, code) = (walk.number(1)?, walk.number(1)?);
    let block_bytes_max = match code >> 4 {
        code @ 4..=7 => 1 << (8 + 2 * code),
        _ => return Err(Unknown::Unfit),
    };
    let has_size = flags & LZ4_CONTENT_SIZE != 0;
    let size = walk.number(if has_size { 8 } else { 0 })?;
    let size = has_size.then_some(size);
    // Its number, and the checksum of the header.
    walk.skip(if flags & LZ4_DICTIONARY != 0 { 5 } else { 1 })?;
    let checksum_bytes = if flags & LZ4_BLOCK_CHECKSUM != 0 { 4 } else { 0 };
    let mut most = 0;
    loop {
        let header = walk.number(4)?;
        if header == 0 {
            break;
        }
        let bytes = header & !LZ4_STORED;
        if bytes > block_bytes_max {
            return Err(Unknown::Unfit);
        }
        walk.skip(bytes + checksum_bytes)?;
        most += if header & LZ4_STORED != 0 { bytes } else { block_bytes_max };
    }
    walk.skip(if flags & LZ4_CONTENT_CHECKSUM != 0 { 4 } else { 0 })?;
    walk.fitting(size, most, room)
}

/// The bytes of a frame, and the place of the next one.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// Takes a number of up to eight bytes in little-endian order.
    fn number(&mut self, bytes: u64) -> Result<u64, Unknown> {
        let begin = self.at;
        self.skip(bytes)?;
        let digits = self.bytes[begin..self.at].iter().rev();
        Ok(digits.fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Unknown> {
        if bytes > (self.bytes.len() - self.at) as u64 {
            return Err(Unknown::Partial);
        }
        self.at += bytes as usize;
        Ok(())
    }

    /// The extent of a frame that ends here, if there is room. Blocks are often shorter than they may be, so twice the
    /// room is fine for the most that they may have: a frame that has more after all is continued in another room.
    fn fitting(&self, size: Option<u64>, most: u64, room: u64) -> Result<Extent, Unknown> {
        let has_room = size.map_or(most <= 2 * room, |size| size <= room);
        let extent = Extent { packed_bytes: self.at, plain_bytes: size.unwrap_or(most) };
        if has_room { Ok(extent) } else { Err(Unknown::Unfit) }
    }
}
