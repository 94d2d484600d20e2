//! Payloads of frames: slices of a byte pool with known checksums.
//!
//! All content is one pool, filled once. A frame takes a slice of it, whose checksum sum is the difference of two
//! precomputed sums. A frame therefore costs one copy, and random content costs no more than zeros.

use super::rng::Rng;
use crate::checksum;

/// Maximum size of the pool, bytes; of a longer file only the start is sent.
pub const POOL_BYTES_MAX: usize = 1 << 20;
/// Length of random content before it repeats, bytes; slices start anywhere in it.
const RANDOM_BYTES: usize = 1 << 16;
/// Maximum length of a slice, bytes.
const PIECE_BYTES_MAX: usize = 1 << 16;

/// The content of payloads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Content {
    /// Byte i is i mod 256, from the start of each payload.
    #[default]
    Counting,
    /// 0x00.
    Zeros,
    /// 0xff.
    Ones,
    /// Random bytes.
    Random,
    /// These bytes, repeated; each frame continues where the previous one ended.
    Bytes(Vec<u8>),
}

/// Prepared content.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    /// The pool, followed by its start again, so that every slice is contiguous.
    bytes: Vec<u8>,
    /// Sum of the bytes before each position, with high and low bytes by position.
    sums: Vec<u64>,
    period: usize,
    next: Next,
    at: usize,
}

/// Offset of the next frame's slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Beginning,
    After,
    Anywhere,
}

impl Pool {
    /// Prepares content; `seed` is for random content. An empty file counts as zeros.
    pub(super) fn new(content: &Content, seed: u64) -> Self {
        let (mut bytes, next) = match content {
            Content::Counting => ((0..=255).collect(), Next::Beginning),
            Content::Zeros => (vec![0], Next::Beginning),
            Content::Ones => (vec![0xff], Next::Beginning),
            Content::Random => {
                let mut rng = Rng::new(seed);
                let bytes = (0..RANDOM_BYTES / 8).flat_map(|_| rng.bits().to_le_bytes()).collect();
                (bytes, Next::Anywhere)
            }
            Content::Bytes(bytes) if bytes.is_empty() => (vec![0], Next::Beginning),
            Content::Bytes(bytes) => (bytes[..bytes.len().min(POOL_BYTES_MAX)].to_vec(), Next::After),
        };
        let period = bytes.len();
        bytes.extend_from_within(..);
        while bytes.len() < period + PIECE_BYTES_MAX {
            bytes.extend_from_within(..bytes.len().min(period + PIECE_BYTES_MAX - bytes.len()));
        }
        bytes.truncate(period + PIECE_BYTES_MAX);
        let mut sums = Vec::with_capacity(bytes.len() + 1);
        let mut sum = 0u64;
        sums.push(sum);
        for (at, byte) in bytes.iter().enumerate() {
            sum += u64::from(*byte) << if at % 2 == 0 { 8 } else { 0 };
            sums.push(sum);
        }
        Self { bytes, sums, period, next, at: 0 }
    }

    /// Takes the slice for the next payload of `len` bytes (below 64 KiB), whose first `skip` bytes (an even number)
    /// come from elsewhere.
    pub(super) fn take(&mut self, len: usize, skip: usize, rng: &mut Rng) -> PayloadSlice {
        let len = len.min(PIECE_BYTES_MAX);
        let skip = skip.min(len);
        let start = match self.next {
            // Positions in the payload and in the pool agree.
            Next::Beginning => skip % self.period,
            Next::Anywhere => rng.below(self.period as u64) as usize,
            Next::After => self.at,
        };
        if self.next == Next::After {
            self.at = (self.at + len - skip) % self.period;
        }
        PayloadSlice { start, len: len - skip }
    }

    /// The bytes of a slice.
    pub(super) fn bytes(&self, slice: PayloadSlice) -> &[u8] {
        &self.bytes[slice.start..slice.start + slice.len]
    }

    /// Its sum for a checksum, if it starts at an even position.
    pub(super) fn sum(&self, slice: PayloadSlice) -> u16 {
        let sum = checksum::fold(self.sums[slice.start + slice.len] - self.sums[slice.start]);
        // RFC 1071, section 2 (B): at an odd position high and low bytes are swapped.
        if slice.start.is_multiple_of(2) { sum } else { sum.swap_bytes() }
    }
}

/// A slice of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PayloadSlice {
    start: usize,
    len: usize,
}

impl PayloadSlice {
    /// The slice one byte later in the pool.
    pub(super) fn next(self) -> Self {
        // Slices that are moved are shorter than the maximum, so this stays inside the pool.
        Self { start: self.start + 1, len: self.len }
    }

    /// Length of the slice, bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;
    use proptest::prelude::*;

    fn contents() -> impl Strategy<Value = Content> {
        prop_oneof![
            Just(Content::Counting),
            Just(Content::Zeros),
            Just(Content::Ones),
            Just(Content::Random),
            prop::collection::vec(any::<u8>(), 0..700).prop_map(Content::Bytes),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn sums_taken_ahead_are_those_of_the_bytes(
            content in contents(), seed in any::<u64>(),
            wanted in prop::collection::vec((0usize..3000, 0usize..12), 1..20),
        ) {
            let mut pool = Pool::new(&content, seed);
            let mut rng = Rng::new(seed);
            for (len, half) in wanted {
                let slice = pool.take(len, half * 2, &mut rng);
                prop_assert_eq!(slice.len(), len.saturating_sub(half * 2));
                prop_assert_eq!(pool.sum(slice) % 0xffff, checksum::sum(pool.bytes(slice)) % 0xffff);
                let later = slice.next();
                prop_assert_eq!(pool.sum(later) % 0xffff, checksum::sum(pool.bytes(later)) % 0xffff);
            }
        }
    }

    #[test]
    fn counting_goes_by_the_place_in_the_payload() {
        let mut pool = Pool::new(&Content::Counting, 0);
        let slice = pool.take(300, 22, &mut Rng::new(0));
        assert_eq!(pool.bytes(slice), (22..300).map(|i| i as u8).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_continues_where_it_was_and_begins_again() {
        let mut pool = Pool::new(&Content::Bytes(b"abcdefg".to_vec()), 0);
        let mut rng = Rng::new(0);
        let sent: Vec<u8> = [3, 0, 5, 9].into_iter().fold(Vec::new(), |mut sent, len| {
            let slice = pool.take(len, 0, &mut rng);
            sent.extend(pool.bytes(slice));
            sent
        });
        assert_eq!(sent, b"abcdefgabcdefgabc");
    }
}
