//! Frames to send, one behind the other in one piece of memory.
//!
//! Whoever makes frames appends them, whoever sends them walks over them, and then the arena is
//! cleared and filled again: memory is bounded by the arenas there are, whatever the source.

/// What is known of a frame besides its bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meta {
    /// When it was captured, ns; only differences count.
    pub time_ns: u64,
    /// Bytes that it had on the wire, where it was seen.
    pub wire_len: u32,
    /// Which of the two interfaces it leaves by, 0 or 1.
    pub out: u8,
}

/// Frames, in order.
#[derive(Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    items: Vec<Item>,
    ends_pass: bool,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    start: usize,
    len: usize,
    meta: Meta,
}

impl Arena {
    /// Room for so many bytes of frames, and so many frames. It never grows.
    pub fn new(bytes: usize, frames: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), items: Vec::with_capacity(frames), ends_pass: false }
    }

    /// Appends a frame; `false` when there is no room for it, and nothing has changed.
    pub fn push(&mut self, frame: &[u8], meta: Meta) -> bool {
        let has_room = self.bytes.capacity() - self.bytes.len() >= frame.len()
            && self.items.len() < self.items.capacity();
        if has_room {
            self.items.push(Item { start: self.bytes.len(), len: frame.len(), meta });
            self.bytes.extend_from_slice(frame);
        }
        has_room
    }

    /// Forgets all frames and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.ends_pass = false;
    }

    /// Whether the source begins anew behind these frames.
    pub fn ends_pass(&self) -> bool {
        self.ends_pass
    }

    /// Says that the source begins anew behind these frames.
    pub fn set_ends_pass(&mut self) {
        self.ends_pass = true;
    }

    /// Keeps only the frames that `keep` wants, which may change them in place.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut [u8], &mut Meta) -> bool) {
        let bytes = &mut self.bytes;
        self.items.retain_mut(|item| keep(&mut bytes[item.start..item.start + item.len], &mut item.meta));
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of all frames.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The frame at a place.
    ///
    /// # Panics
    /// When there is none.
    pub fn frame(&self, at: usize) -> (&[u8], Meta) {
        let Item { start, len, meta } = self.items[at];
        (&self.bytes[start..start + len], meta)
    }

    /// The frame at a place, to be changed where it is; it cannot grow.
    ///
    /// # Panics
    /// When there is none.
    pub fn frame_mut(&mut self, at: usize) -> (&mut [u8], &mut Meta) {
        let Item { start, len, meta } = &mut self.items[at];
        (&mut self.bytes[*start..*start + *len], meta)
    }

    /// All frames, in order.
    pub fn frames(&self) -> impl Iterator<Item = (&[u8], Meta)> {
        (0..self.len()).map(|at| self.frame(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went_in_until_it_is_full() {
        let meta = |time_ns| Meta { time_ns, wire_len: 9, out: 1 };
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
