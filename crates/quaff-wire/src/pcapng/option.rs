//! The options of a pcapng block (section 3.5 of the draft): code, length, padded value.

use super::OPT_ENDOFOPT;
use crate::item::{ByteOrder, Reason};

/// Iterates over the options of a block; ends at `opt_endofopt` or at the end of the block.
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
    }

    /// The bytes after the end of the options; empty after an error.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), Reason>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let code = self.order.take_u16(&mut self.bytes)?;
        let length = self.order.take_u16(&mut self.bytes)?;
        if code == OPT_ENDOFOPT {
            return None;
        }
        let rest = std::mem::take(&mut self.bytes);
        let Some(value) = rest.get(..usize::from(length)) else {
            return Some(Err(Reason::Option { code, bytes: length }));
        };
        self.bytes = rest.get(value.len().next_multiple_of(4)..).unwrap_or_default();
        Some(Ok((code, value)))
    }
}

/// The value of an option of fixed length.
#[inline]
pub(super) fn exactly<const BYTES: usize>(code: u16, value: &[u8]) -> Result<[u8; BYTES], Reason> {
    value.try_into().map_err(|_| Reason::Option { code, bytes: value.len() as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn options_are_read_up_to_their_end(
            written in prop::collection::vec((1u16.., prop::collection::vec(any::<u8>(), 0..20)), 0..8),
            rest in prop::collection::vec(any::<u8>(), 0..20), big in any::<bool>(),
        ) {
            let word = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
            let mut bytes = Vec::new();
            for (code, value) in &written {
                bytes.extend([word(*code), word(value.len() as u16)].concat());
                bytes.extend(value);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes.extend([0; 4]);
            bytes.extend(rest);
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let read: Result<Vec<_>, _> = Options::new(&bytes, order).collect();
            let written: Vec<_> = written.iter().map(|(code, value)| (*code, &value[..])).collect();
            prop_assert_eq!(read, Ok(written));
        }

        #[test]
        fn noise_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), big in any::<bool>()) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            // A truncated value is an error that ends the iteration.
            let found: Vec<_> = Options::new(&bytes, order).collect();
            prop_assert!(found.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
