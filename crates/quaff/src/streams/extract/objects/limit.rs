//! Limits of decoded bytes: no small body fills the disk, and no number of them does.
//!
//! gzip makes up to 1,032 bytes of one, brotli and zstd far more; text becomes three to twenty times as long.

/// Bytes of a decoded object.
const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// Decoded bytes for each encoded one, in an object with more than [`OBJECT_BYTES_FREE`].
const OBJECT_RATIO_MAX: u64 = 250;
const OBJECT_BYTES_FREE: u64 = 16 << 20;
/// Decoded bytes for each encoded one, in all objects together beyond [`RUN_BYTES_FREE`].
const RUN_RATIO_MAX: u64 = 20;
const RUN_BYTES_FREE: u64 = 4 << 30;

/// The bytes of all objects that were decoded.
#[derive(Debug, Default)]
pub(super) struct Limit {
    encoded_bytes: u64,
    decoded_bytes: u64,
}

impl Limit {
    /// The number of bytes that may be decoded of a body.
    pub(super) fn room(&mut self, encoded_bytes: u64) -> u64 {
        self.encoded_bytes += encoded_bytes;
        let of_object = encoded_bytes.saturating_mul(OBJECT_RATIO_MAX).max(OBJECT_BYTES_FREE);
        let of_run = self.encoded_bytes.saturating_mul(RUN_RATIO_MAX).saturating_add(RUN_BYTES_FREE);
        of_object.min(OBJECT_BYTES_MAX).min(of_run.saturating_sub(self.decoded_bytes))
    }

    /// Notes the bytes that were decoded of it.
    pub(super) fn note(&mut self, decoded_bytes: u64) {
        self.decoded_bytes += decoded_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_a_length_and_a_ratio() {
        let room = |encoded| Limit::default().room(encoded);
        assert_eq!([room(0), room(1000), room(60_000)], [16 << 20; 3]);
        assert_eq!([room(1 << 20), room(4 << 20), room(u64::MAX)], [250 << 20, 1000 << 20, 1 << 30]);
    }

    #[test]
    fn many_small_bombs_have_a_limit_together() {
        let (mut limit, mut decoded) = (Limit::default(), 0);
        for _ in 0..100_000 {
            let room = limit.room(1000);
            limit.note(room);
            decoded += room;
        }
        assert_eq!(decoded, (4 << 30) + 100_000 * 1000 * 20);
        // Later ones have what their own bytes permit.
        assert_eq!(limit.room(1_000_000), 20_000_000);
    }
}
