//! The options of a pcapng block (section 3.5 of the draft): a code, a length, a padded value.

use super::OPT_ENDOFOPT;
use crate::item::{ByteOrder, Reason};

/// Goes over the options of one block; ends at `opt_endofopt` or at the end of the block.
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { bytes, order }
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

/// The value of an option that has a fixed length.
#[inline]
pub(super) fn exactly<const BYTES: usize>(code: u16, value: &[u8]) -> Result<[u8; BYTES], Reason> {
    value.try_into().map_err(|_| Reason::Option { code, bytes: value.len() as u16 })
}
