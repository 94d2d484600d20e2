//! The Internet checksum (RFC 1071) as a sum that can be computed in parts.
//!
//! A sum here is the folded one's complement sum of big-endian 16-bit words, *before* it is complemented. [`add`]
//! combines sums of parts that start at even offsets. This module knows no headers: callers select the bytes.

/// Bytes per loop iteration; a multiple of every vector register's size.
const STEP: usize = 64;

/// The one's complement sum of `bytes`; an odd last byte is the high half of its word.
///
/// Words are summed in native byte order, 32 bits at a time, and the result is swapped once (RFC 1071 section 2 B and
/// C), so that the compiler can use vector registers.
pub fn sum(bytes: &[u8]) -> u16 {
    let mut lanes = [0u64; STEP / 8];
    let mut steps = bytes.chunks_exact(STEP);
    for step in &mut steps {
        for part in step.chunks_exact(STEP / 2) {
            for (lane, word) in lanes.iter_mut().zip(part.chunks_exact(4)) {
                *lane += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            }
        }
    }
    let mut total: u64 = lanes.iter().sum();
    let mut pairs = steps.remainder().chunks_exact(2);
    for pair in &mut pairs {
        total += u64::from(u16::from_ne_bytes([pair[0], pair[1]]));
    }
    if let [odd] = pairs.remainder() {
        total += u64::from(u16::from_ne_bytes([*odd, 0]));
    }
    u16::from_be(fold(total))
}

/// The sum of two parts, the second of which starts at an even offset.
pub fn add(a: u16, b: u16) -> u16 {
    fold(u64::from(a) + u64::from(b))
}

/// Removes a part `b` from a sum (RFC 1624: adds its complement).
pub(crate) fn subtract(a: u16, b: u16) -> u16 {
    add(a, !b)
}

/// Folds carries until 16 bits are left.
pub(crate) fn fold(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 1, literally.
    fn plain(bytes: &[u8]) -> u16 {
        fold(bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum())
    }

    #[test]
    fn example_of_rfc_1071_section_3() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0xab]), 0xab00);
    }

    proptest! {
        #[test]
        fn same_as_word_by_word(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
            prop_assert_eq!(sum(&bytes), plain(&bytes));
        }

        #[test]
        fn pieces_add_up(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0usize..150) {
            let (a, b) = bytes.split_at((cut * 2).min(bytes.len() & !1));
            prop_assert_eq!(add(sum(a), sum(b)), sum(&bytes));
        }

        #[test]
        fn an_added_word_can_be_subtracted(a in any::<u16>(), b in any::<u16>()) {
            // Zero has two representations in one's complement.
            prop_assert_eq!(subtract(add(a, b), b) % 0xffff, a % 0xffff);
        }
    }
}
