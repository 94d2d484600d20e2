//! An arena: frames to send, contiguous in one allocation that never grows.
//!
//! A source appends frames, the sender walks over them, then the arena is cleared and filled again. The number of
//! arenas bounds the memory of a run, whatever the source.

/// Metadata of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameMeta {
    /// Capture time, ns; only differences between frames matter.
    pub time_ns: u64,
    /// Original length on the wire, bytes.
    pub wire_len: u32,
    /// Output interface, 0 or 1.
    pub out: u8,
}

/// A buffer of frames, in order.
#[derive(Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    items: Vec<Item>,
    /// True if these frames are the last ones of a pass through the source.
    pub(crate) ends_pass: bool,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    start: usize,
    len: usize,
    meta: FrameMeta,
}

impl Arena {
    /// Allocates room for `bytes` bytes of frames and `frames` frames.
    pub(crate) fn new(bytes: usize, frames: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), items: Vec::with_capacity(frames), ends_pass: false }
    }

    /// Appends a frame. Returns `false` without a change when there is no room.
    pub fn push(&mut self, frame: &[u8], meta: FrameMeta) -> bool {
        let has_room = self.bytes.capacity() - self.bytes.len() >= frame.len()
            && self.items.len() < self.items.capacity();
        if has_room {
            self.items.push(Item { start: self.bytes.len(), len: frame.len(), meta });
            self.bytes.extend_from_slice(frame);
        }
        has_room
    }

    /// Removes all frames and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.ends_pass = false;
    }

    /// Keeps the frames for which `keep` returns `true`; it may change them in place.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut [u8], &mut FrameMeta) -> bool) {
        let bytes = &mut self.bytes;
        self.items.retain_mut(|item| keep(&mut bytes[item.start..item.start + item.len], &mut item.meta));
    }

    /// Number of frames.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns `true` if the arena has no frame.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The frame at an index.
    ///
    /// # Panics
    /// If the index is out of range.
    pub(crate) fn frame(&self, at: usize) -> (&[u8], FrameMeta) {
        let Item { start, len, meta } = self.items[at];
        (&self.bytes[start..start + len], meta)
    }

    /// The frame at an index, to change in place; it cannot grow. Panics if the index is out of range.
    pub(crate) fn frame_mut(&mut self, at: usize) -> (&mut [u8], &mut FrameMeta) {
        let Item { start, len, meta } = &mut self.items[at];
        (&mut self.bytes[*start..*start + *len], meta)
    }

    /// All frames, in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (&[u8], FrameMeta)> {
        (0..self.len()).map(|at| self.frame(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_returns_frames_unchanged_and_rejects_them_when_full() {
        let meta = |time_ns| FrameMeta { time_ns, wire_len: 9, out: 1 };
        let mut arena = Arena::new(10, 3);
        assert!(arena.push(b"abcd", meta(1)) && arena.push(b"", meta(2)));
        assert!(!arena.push(b"1234567", meta(3)), "too many bytes");
        assert!(arena.push(b"ef", meta(3)));
        assert!(!arena.push(b"", meta(4)), "too many frames");
        arena.frame_mut(2).0.copy_from_slice(b"EF");
        let frames: Vec<_> = arena.frames().map(|(frame, meta)| (frame.to_vec(), meta.time_ns)).collect();
        assert_eq!(frames, [(b"abcd".to_vec(), 1), (vec![], 2), (b"EF".to_vec(), 3)]);
        assert_eq!((arena.len(), arena.bytes()), (3, 6));
        arena.retain(|frame, _| !frame.is_empty());
        assert_eq!((arena.len(), arena.frame(1).0), (2, &b"EF"[..]));
        arena.clear();
        assert!(arena.is_empty() && arena.push(b"0123456789", meta(5)));
    }
}
