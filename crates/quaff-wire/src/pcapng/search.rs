//! Searches for the next block after damage.
//!
//! A block is plausible if its type is in use, its two lengths are equal, and another block, or the end of the file,
//! follows it.

use super::decode::{Decoder, is_in_use};
use super::*;
use crate::item::{ByteOrder, Cursor, Find, UNIT_BYTES_MAX};

/// Type and length.
const HEAD_BYTES: usize = 8;

/// The result of examining the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Block,
    No,
    /// At least this many bytes are needed to decide.
    NeedMore(usize),
}

impl Decoder {
    /// Offset in `bytes` of a block that another one follows.
    pub(crate) fn find(&mut self, cursor: &Cursor, bytes: &[u8]) -> Find {
        if let Some(found) = self.find_claimed(cursor, bytes) {
            return found;
        }
        for at in 0..bytes.len() {
            // At an offset of three bytes one byte order resembles the other.
            let is_aligned = (cursor.offset + at as u64).is_multiple_of(4);
            let known = [self.order];
            let orders = match (self.is_order_lost, is_aligned) {
                (false, _) => &known[..],
                (true, true) => &[ByteOrder::Little, ByteOrder::Big],
                (true, false) => &[],
            };
            for &order in orders {
                match look(cursor, &bytes[at..], order, is_in_use) {
                    Look::Block => {
                        self.order = order;
                        self.is_order_lost = false;
                        return Find::At(at);
                    }
                    Look::NeedMore(needed) => return Find::NotBefore { at, needed },
                    Look::No => {}
                }
            }
        }
        Find::NotBefore { at: bytes.len(), needed: HEAD_BYTES }
    }

    /// The end that the damaged block declares is the best guess if a block starts there: then its contents, which may
    /// be a capture file, are not searched.
    fn find_claimed(&self, cursor: &Cursor, bytes: &[u8]) -> Option<Find> {
        if self.is_order_lost {
            return None;
        }
        let at = self.claimed_end.checked_sub(cursor.offset)? as usize;
        let look = bytes.get(at..).map_or(Look::NeedMore(0), |rest| look(cursor, rest, self.order, |_| true));
        match look {
            Look::Block => Some(Find::At(at)),
            Look::NeedMore(needed) if !cursor.no_more => {
                Some(Find::NotBefore { at: 0, needed: (at + needed).max(bytes.len() + 1) })
            }
            _ if cursor.no_more && at == bytes.len() => Some(Find::At(at)),
            _ => None,
        }
    }
}

/// Tests whether a block of a kind accepted by `is_kind` starts here, and another one follows it.
fn look(cursor: &Cursor, bytes: &[u8], order: ByteOrder, is_kind: impl Fn(u32) -> bool) -> Look {
    let short = |needed| if cursor.no_more { Look::No } else { Look::NeedMore(needed) };
    let Some(kind) = bytes.first_chunk::<4>() else { return short(HEAD_BYTES) };
    if !is_kind(order.u32(*kind)) {
        return Look::No;
    }
    let (order, length) = match length_of(bytes, order) {
        Some(Ok(found)) => found,
        Some(Err(())) => return Look::No,
        None => return short(BLOCK_BYTES_MIN as usize),
    };
    let Some((block, rest)) = bytes.split_at_checked(length as usize) else {
        return short(length as usize);
    };
    let trailer = block.last_chunk().map(|trailer| order.u32(*trailer));
    if trailer != Some(length) {
        return Look::No;
    }
    match length_of(rest, order) {
        Some(Ok(_)) => Look::Block,
        Some(Err(())) => Look::No,
        None if cursor.no_more => Look::Block,
        None => Look::NeedMore(length as usize + BLOCK_BYTES_MIN as usize),
    }
}

/// The byte order and length that the block at the front of `bytes` declares, in a section of byte order `order`;
/// `None` if there are too few bytes to decide.
fn length_of(bytes: &[u8], order: ByteOrder) -> Option<Result<(ByteOrder, u32), ()>> {
    let ([k0, k1, k2, k3, l0, l1, l2, l3, rest @ ..], _) =
        bytes.split_first_chunk::<{ BLOCK_BYTES_MIN as usize }>()?;
    let order = match order.u32([*k0, *k1, *k2, *k3]) {
        SHB => byte_order(*rest),
        _ => Ok(order),
    };
    let Ok(order) = order else { return Some(Err(())) };
    let length = order.u32([*l0, *l1, *l2, *l3]);
    let is_length = (BLOCK_BYTES_MIN..=UNIT_BYTES_MAX).contains(&length) && length.is_multiple_of(4);
    Some(if is_length { Ok((order, length)) } else { Err(()) })
}
