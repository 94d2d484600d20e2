//! The only thing that flows: bytes that are borrowed from a source, and a list of descriptors.
//!
//! Stages edit descriptors, never bytes: filtering shortens the list, slicing lowers `keep`.

use quaff_wire::record::{INBOUND, OUTBOUND, Record};

/// Frames in a batch at the most: their descriptors stay in the first-level cache.
pub const BATCH_FRAMES: u32 = 512;

/// One frame of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// ns since 1970.
    pub time_ns: u64,
    /// Where it begins in the batch's bytes.
    pub start: u32,
    /// Bytes present, without the VLAN tag that the kernel took out.
    pub len: u32,
    /// Bytes on the wire, without that tag.
    pub wire_len: u32,
    /// Store no more than this many bytes, that tag included; `u32::MAX` is no limit.
    pub keep: u32,
    /// The tag: TPID, 0 when there is none.
    pub tpid: u16,
    /// The tag: TCI.
    pub tci: u16,
    /// [`Frame::OUTGOING`], [`Frame::HARDWARE_TIME`].
    pub flags: u32,
}

const _: () = assert!(size_of::<Frame>() == 32);

impl Frame {
    /// The frame was sent by this machine.
    pub const OUTGOING: u32 = 1;
    /// The time is the adapter's.
    pub const HARDWARE_TIME: u32 = 2;

    /// The frame as it goes into a file.
    #[inline]
    pub fn record<'a>(&self, bytes: &'a [u8], dropped: u64) -> Record<'a> {
        Record {
            time_ns: self.time_ns,
            bytes: &bytes[self.start as usize..][..self.len as usize],
            len: self.wire_len,
            tag: (self.tpid != 0).then_some((self.tpid, self.tci)),
            direction: if self.flags & Self::OUTGOING != 0 { OUTBOUND } else { INBOUND },
            dropped,
            snaplen: if self.keep == u32::MAX { 0 } else { self.keep },
        }
    }
}
