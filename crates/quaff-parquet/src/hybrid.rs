//! Parquet's RLE / bit-packing hybrid encoding, for dictionary indexes.
//!
//! Format: parquet-format, Encodings.md, "Run Length Encoding / Bit-Packing Hybrid".

/// Numbers per bit-packed group.
const GROUP: usize = 8;

/// Bits of an index into `entries` entries.
pub(crate) fn width(entries: usize) -> u32 {
    usize::BITS - entries.saturating_sub(1).leading_zeros()
}

/// Appends a run of one number.
pub(crate) fn repeat(number: u32, count: usize, width: u32, out: &mut Vec<u8>) {
    varint((count as u64) << 1, out);
    out.extend_from_slice(&number.to_le_bytes()[..width.div_ceil(8) as usize]);
}

/// Appends numbers of at most `width` bits: runs where eight or more are equal, otherwise bit-packed.
pub(crate) fn encode(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut packed, mut at) = (0, 0);
    while let Some(group) = numbers.get(at..at + GROUP) {
        let first = group[0];
        if group.iter().any(|number| *number != first) {
            at += GROUP;
            continue;
        }
        let run = numbers[at..].iter().take_while(|number| **number == first).count();
        pack(&numbers[packed..at], width, out);
        repeat(first, run, width, out);
        at += run;
        packed = at;
    }
    pack(&numbers[packed..], width, out);
}

/// Appends bit-packed numbers, the first in the lowest bits; pads the last group with zeros.
fn pack(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let padding = std::iter::repeat_n(&0, groups * GROUP - numbers.len());
    let (mut bits, mut held) = (0_u64, 0);
    for number in numbers.iter().chain(padding) {
        bits |= u64::from(*number) << held;
        held += width;
        if held >= 32 {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= 32;
            held -= 32;
        }
    }
    // A group is a whole number of bytes.
    out.extend_from_slice(&bits.to_le_bytes()[..held as usize / 8]);
}

/// Appends an unsigned LEB128 number.
fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An independent decoder that reads bit by bit.
    fn decode(bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let (mut found, mut at) = (Vec::new(), 0);
        while found.len() < count {
            let (mut header, mut shift) = (0_u64, 0);
            loop {
                header |= u64::from(bytes[at] & 0x7f) << shift;
                (shift, at) = (shift + 7, at + 1);
                if bytes[at - 1] < 0x80 {
                    break;
                }
            }
            let length = (header >> 1) as usize;
            if header & 1 == 0 {
                let value = bytes[at..at + width.div_ceil(8) as usize].iter().rev();
                let value = value.fold(0, |value, byte| value << 8 | u32::from(*byte));
                found.extend(std::iter::repeat_n(value, length));
                at += width.div_ceil(8) as usize;
            } else {
                let bit = |bit: usize| u32::from(bytes[at + bit / 8] >> (bit % 8) & 1);
                let number =
                    |n: usize| (0..width as usize).fold(0, |sum, i| sum | bit(n * width as usize + i) << i);
                found.extend((0..length * 8).map(number));
                at += length * width as usize;
            }
        }
        assert_eq!(at, bytes.len());
        found.truncate(count);
        found
    }

    #[test]
    fn a_place_needs_the_bits_of_the_last_one() {
        let found = [0, 1, 2, 3, 4, 5, 256, 257, 1 << 18].map(width);
        assert_eq!(found, [0, 0, 1, 2, 2, 3, 8, 9, 18]);
    }

    #[test]
    fn a_run_is_stored_once() {
        let mut out = Vec::new();
        encode(&[5; 100], 3, &mut out);
        assert_eq!(out, [200, 1, 5]);
        out.clear();
        encode(&[1, 2, 3, 0, 1, 2, 3, 0, 7], 3, &mut out);
        // The example of parquet-format: 0 to 7 bit-packed are 0x88c6fa.
        assert_eq!((out[0], out.len()), (5, 7));
        out.clear();
        encode(&[0, 1, 2, 3, 4, 5, 6, 7], 3, &mut out);
        assert_eq!(out, [3, 0x88, 0xc6, 0xfa]);
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(
            runs in prop::collection::vec((any::<u32>(), prop_oneof![3 => 1..4_usize, 1 => 5..40_usize]), 0..60),
            width in 0..=32_u32,
        ) {
            let mask = 1_u64.checked_shl(width).map_or(u32::MAX, |end| (end - 1) as u32);
            let numbers: Vec<_> =
                runs.iter().flat_map(|(number, count)| std::iter::repeat_n(number & mask, *count)).collect();
            let mut out = Vec::new();
            encode(&numbers, width, &mut out);
            prop_assert_eq!(decode(&out, width, numbers.len()), numbers);
        }
    }
}
