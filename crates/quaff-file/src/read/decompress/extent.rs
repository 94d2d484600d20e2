//! The header of a frame of zstd. It decompresses nothing, and checks nothing that the decompressor checks.

/// RFC 8878 §3.1.1 and §3.1.2.
const ZSTD_MAGIC: u64 = 0xFD2F_B528;
const ZSTD_SKIPPABLE: std::ops::RangeInclusive<u64> = 0x184D_2A50..=0x184D_2A5F;
const ZSTD_RESERVED: u64 = 1 << 3;
const ZSTD_SINGLE_SEGMENT: u64 = 1 << 5;
const ZSTD_BLOCK_BYTES_MAX: u64 = 128 << 10;

/// The reason for which a header is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unknown {
    /// More bytes are needed.
    Partial,
    /// It is damaged, or none.
    Unfit,
}

/// The header of a frame of zstd.
struct ZstdHeader {
    window: u64,
    /// Bytes of its contents.
    size: Option<u64>,
}

impl ZstdHeader {
    /// Bytes of a block at most.
    fn block_bytes_max(&self) -> u64 {
        self.window.min(ZSTD_BLOCK_BYTES_MAX)
    }
}

/// Returns the memory for the frame of zstd at the front of `bytes`, as the logarithm of a window for which it is
/// enough: 17 or more. `Unfit` is another kind of frame, or none.
pub(super) fn zstd_memory_log(bytes: &[u8]) -> Result<u32, Unknown> {
    let header = zstd_header(&mut Walk { bytes, at: 0 })?.ok_or(Unknown::Unfit)?;
    // As ZSTD_decodingBufferSize_internal has it: two blocks beside the window, or the contents.
    let around = 2 * header.block_bytes_max();
    let needed = header.size.unwrap_or(u64::MAX).min(header.window + around);
    let window = needed.saturating_sub(2 * ZSTD_BLOCK_BYTES_MAX).max(ZSTD_BLOCK_BYTES_MAX);
    Ok(window.next_power_of_two().ilog2())
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
    Ok(Some(ZstdHeader { window, size }))
}

/// RFC 8878 §3.1.1.1.2.
fn zstd_window(descriptor: u64) -> u64 {
    let base = 1 << (10 + (descriptor >> 3));
    base + base / 8 * (descriptor & 7)
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
}
