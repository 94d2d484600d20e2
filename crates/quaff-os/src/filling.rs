//! A buffer that is filled from its start, for a device that reads it: packets may go past the processor's caches.
//!
//! An ordinary store first reads the line that it changes into the cache, where it displaces another one. A
//! non-temporal store (MOVNTDQ) of a whole line only writes. Such stores are ordered by a fence alone (SFENCE), and
//! nothing may access their bytes before that. So a [`Filling`] only takes bytes at its end, and does not show them
//! before it is complete.

use crate::mem::{Buffer, prefetch_line};
use std::marker::PhantomData;

/// Bytes of a line of the cache on x86-64.
const LINE_BYTES: usize = 64;
/// Shorter packets have too few whole lines.
const PAST_CACHE_BYTES_MIN: usize = 256;

/// A buffer, and the number of bytes that were appended to it.
#[derive(Debug)]
pub struct Filling {
    /// Before the buffer, so that it is dropped first.
    fence: Fence,
    buffer: Buffer,
    len: usize,
    is_past_cache: bool,
}

/// The end of a filling while bytes are appended: apart from it, so that it stays in registers.
#[derive(Debug)]
pub struct Cursor<'a> {
    next: *mut u8,
    /// Bytes from `next` to the end of the buffer.
    room: usize,
    is_past_cache: bool,
    of: PhantomData<&'a mut Filling>,
}

/// Orders the non-temporal stores of this thread before all that follows its drop.
#[derive(Debug)]
struct Fence;

impl Filling {
    /// An empty filling. `is_past_cache`: the processor will not read the packets again, as before a write with
    /// O_DIRECT.
    pub fn new(buffer: Buffer, is_past_cache: bool) -> Self {
        Self { fence: Fence, buffer, len: 0, is_past_cache }
    }

    /// Bytes appended so far.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Bytes that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Lets `write` append bytes.
    ///
    /// # Panics
    /// They do not fit, here and in [`Filling::append_with`].
    #[inline(always)]
    pub fn append(&mut self, write: impl FnOnce(&mut Cursor<'_>)) {
        let room = self.room();
        // SAFETY: `len` is at most the length of the buffer, so the pointer stays in it or is its end.
        let next = unsafe { self.buffer.start_mut().add(self.len) };
        let mut cursor = Cursor { next, room, is_past_cache: self.is_past_cache, of: PhantomData };
        // After a panic of `write` there is no room: what it has appended is not given out again.
        self.len = self.buffer.len();
        write(&mut cursor);
        self.len -= cursor.room;
    }

    /// Appends `bytes` bytes that `write` sets, which have any value before.
    pub fn append_with(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) {
        self.append(|cursor| write(cursor.take(bytes)));
    }

    /// The buffer, and the bytes appended to it.
    pub fn finish(self) -> (Buffer, usize) {
        let Self { fence, buffer, len, .. } = self;
        drop(fence);
        (buffer, len)
    }
}

impl Cursor<'_> {
    /// Bytes that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.room
    }

    /// Appends the bytes of a packet.
    #[inline(always)]
    pub fn append_packet(&mut self, bytes: &[u8]) {
        let is_past_cache = self.is_past_cache && bytes.len() >= PAST_CACHE_BYTES_MIN;
        let out = self.take(bytes.len());
        match is_past_cache {
            // SAFETY: nothing shows these bytes again before the fence of the filling.
            true => unsafe { copy_past_cache(out, bytes) },
            false => out.copy_from_slice(bytes),
        }
    }

    /// Returns the next bytes, each of them once. They may have any value.
    #[inline(always)]
    pub fn take(&mut self, bytes: usize) -> &mut [u8] {
        if bytes > self.room {
            full(bytes, self.room);
        }
        // SAFETY: the range lies in the buffer (checked above), which the cursor borrows exclusively, and the next one
        // begins after it.
        let taken = unsafe { std::slice::from_raw_parts_mut(self.next, bytes) };
        // SAFETY: as above.
        self.next = unsafe { self.next.add(bytes) };
        self.room -= bytes;
        taken
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of every x86-64; a fence accesses no memory.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// A function of its own: inlined, it would cost the callers registers.
#[cold]
#[inline(never)]
fn full(bytes: usize, room: usize) -> ! {
    panic!("{bytes} bytes do not fit into {room}")
}

/// Copies `bytes` to `out`, its whole lines past the caches.
///
/// Its last bytes and what follows it, the head of the next packet, are ordinary stores, which need their lines in the
/// cache. Stores become visible in their order, so one that waits for memory delays all later ones: those lines are
/// fetched while the lines before them are copied.
///
/// # Safety
/// Nothing accesses `out` before a fence.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_past_cache(out: &mut [u8], bytes: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    let end = out.as_ptr_range().end;
    prefetch_line(end);
    prefetch_line(end.wrapping_add(LINE_BYTES));
    let before = out.as_ptr().align_offset(LINE_BYTES).min(bytes.len());
    let (head, rest) = bytes.split_at(before);
    let (out_head, out_rest) = out.split_at_mut(before);
    out_head.copy_from_slice(head);
    let (lines, tail) = rest.as_chunks::<LINE_BYTES>();
    let (out_lines, out_tail) = out_rest.as_chunks_mut::<LINE_BYTES>();
    for (out, line) in out_lines.iter_mut().zip(lines) {
        let (from, to) = (line.as_ptr().cast::<__m128i>(), out.as_mut_ptr().cast::<__m128i>());
        // SAFETY: both arrays have four times 16 bytes, `out` is aligned to a line, SSE2 is part of every x86-64, and
        // the caller lets nothing access the bytes before a fence.
        unsafe {
            let (first, second) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
            let (third, fourth) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
            _mm_stream_si128(to, first);
            _mm_stream_si128(to.add(1), second);
            _mm_stream_si128(to.add(2), third);
            _mm_stream_si128(to.add(3), fourth);
        }
    }
    out_tail.copy_from_slice(tail);
}

/// Copies `bytes` to `out`; the caches of other architectures are not bypassed.
///
/// # Safety
/// Always safe.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_past_cache(out: &mut [u8], bytes: &[u8]) {
    out.copy_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn appended_bytes_are_in_the_buffer_in_order(
            parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..2000), 0..3u8), 0..40),
            is_past_cache in any::<bool>(),
        ) {
            let bytes: Vec<u8> = parts.iter().flat_map(|(part, _)| part.iter().copied()).collect();
            let mut filling = Filling::new(Buffer::new(bytes.len() + 1).unwrap(), is_past_cache);
            let all = filling.room();
            for (part, way) in &parts {
                match way {
                    0 => filling.append(|cursor| cursor.take(part.len()).copy_from_slice(part)),
                    1 => filling.append(|cursor| cursor.append_packet(part)),
                    _ => filling.append_with(part.len(), |out| out.copy_from_slice(part)),
                }
            }
            prop_assert_eq!((filling.bytes(), filling.room()), (bytes.len(), all - bytes.len()));
            let (buffer, len) = filling.finish();
            prop_assert_eq!(&buffer[..len], &bytes);
            prop_assert!(buffer[len..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn another_thread_sees_what_went_past_the_caches() {
        let packet = [7; 1500];
        for _ in 0..200 {
            let mut filling = Filling::new(Buffer::new(64 << 10).unwrap(), true);
            while filling.room() >= packet.len() {
                filling.append(|cursor| cursor.append_packet(&packet));
            }
            let (buffer, len) = filling.finish();
            let seen = std::thread::spawn(move || buffer[..len].iter().filter(|byte| **byte == 7).count());
            assert_eq!(seen.join().unwrap(), len);
        }
    }

    #[test]
    #[should_panic(expected = "1 bytes do not fit into 0")]
    fn a_full_buffer_takes_no_more() {
        let mut filling = Filling::new(Buffer::new(4096).unwrap(), true);
        let all = vec![0; filling.room()];
        filling.append(|cursor| cursor.append_packet(&all));
        filling.append(|cursor| cursor.take(1).fill(0));
    }
}
