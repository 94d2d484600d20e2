//! A batch: bytes borrowed from a source, and a list of frame descriptors.
//!
//! Stages edit descriptors, never bytes: filtering shortens the list, decapsulation moves `start`,
//! slicing lowers `keep`. A packet that a stage reassembles from its fragments is in the lane's own memory,
//! the *scratch*.

use quaff_wire::pcapng::PacketOptions;
use quaff_wire::{INBOUND, OUTBOUND, Record};

/// Maximum number of frames in a batch, whose descriptors fit the first-level cache; a part of a file that threads have
/// looked at is a batch of its own, with all its frames.
pub const BATCH_FRAMES: u32 = 512;

/// One frame of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// ns since 1970.
    pub time_ns: u64,
    /// Offset in the batch's bytes or in the scratch.
    pub start: u32,
    /// Bytes present, without the VLAN tag that the kernel removed.
    pub len: u32,
    /// Bytes on the wire, without that tag.
    pub wire_len: u32,
    /// Bytes to store, including that tag; `u32::MAX` is no limit.
    pub keep: u32,
    /// TPID of the removed VLAN tag; 0 without one.
    pub tpid: u16,
    /// TCI of that tag.
    pub tci: u16,
    /// [`Frame::OUTGOING`], [`Frame::HARDWARE_TIME`], [`Frame::SCRATCH`]; the upper byte is
    /// [`Frame::member`].
    pub flags: u16,
    /// Number of its interface in [`quaff_file::Interfaces`].
    pub interface: u16,
}

const _: () = assert!(size_of::<Frame>() == 32);

/// The memory that holds the frames of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory<'a> {
    /// The bytes of the source.
    pub bytes: &'a [u8],
    /// The lane's own memory, for frames with [`Frame::SCRATCH`].
    pub scratch: &'a [u8],
    /// The options of frames with [`Frame::OPTIONS`], which only files have.
    pub options: &'a [PacketOptions],
    /// The `epb_packetid` of each of the last frames of the batch, 0 for none; empty where no stage sets them.
    pub ids: &'a [u64],
}

/// A batch that passes the stages.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// The source's bytes.
    pub bytes: &'a [u8],
    /// Packets reassembled by stages; valid as long as the batch.
    pub scratch: &'a mut Vec<u8>,
    pub frames: &'a mut Vec<Frame>,
    /// The `epb_packetid` of each frame, set by the last stage that drops or adds none; empty without one.
    pub ids: &'a mut Vec<u64>,
    /// The present time on the clock of the frames, ns since 1970.
    pub now_ns: u64,
    /// True for the last batch: stages must release the frames that they hold back.
    pub is_last: bool,
}

impl Batch<'_> {
    /// The bytes of its frames.
    pub(crate) fn memory(&self) -> Memory<'_> {
        Memory { bytes: self.bytes, scratch: self.scratch, options: &[], ids: &[] }
    }
}

impl<'a> Memory<'a> {
    /// The bytes of a frame.
    #[inline]
    pub fn of(&self, frame: &Frame) -> &'a [u8] {
        let from = if frame.flags & Frame::SCRATCH == 0 { self.bytes } else { self.scratch };
        &from[frame.start as usize..][..frame.len as usize]
    }
}

impl Frame {
    /// The frame was sent by this machine.
    pub(crate) const OUTGOING: u16 = 1;
    /// The time stamp is from the adapter or the switch.
    pub const HARDWARE_TIME: u16 = 2;
    /// The frame is in the scratch.
    pub(crate) const SCRATCH: u16 = 4;
    /// The direction of the frame is unknown.
    pub(crate) const NO_DIRECTION: u16 = 8;
    /// The frame has options: `tci` is their index in the batch, `tpid` is 0. Valid until the frame is copied into the
    /// scratch.
    pub(crate) const OPTIONS: u16 = 16;
    /// The upper byte of the flags.
    const MEMBER_SHIFT: u32 = 8;

    /// The member of a bundle to which it is assigned; 0 without a bundle.
    #[inline]
    pub(crate) fn member(&self) -> usize {
        (self.flags >> Self::MEMBER_SHIFT).into()
    }

    /// Assigns the frame to a member.
    #[inline]
    pub(crate) fn set_member(&mut self, member: u8) {
        self.flags = self.flags & 0xff | u16::from(member) << Self::MEMBER_SHIFT;
    }

    /// The options of the frame, if it has some.
    #[inline]
    pub(crate) fn options<'a>(&self, memory: Memory<'a>) -> Option<&'a PacketOptions> {
        let has_some = self.flags & (Self::OPTIONS | Self::SCRATCH) == Self::OPTIONS && self.tpid == 0;
        if has_some { memory.options.get(usize::from(self.tci)) } else { None }
    }

    /// The frame as a record of a file.
    #[inline]
    pub(crate) fn record<'a>(&self, memory: Memory<'a>, dropped: u64) -> Record<'a> {
        Record {
            time_ns: self.time_ns,
            bytes: memory.of(self),
            len: self.wire_len,
            tag: (self.tpid != 0).then_some((self.tpid, self.tci)),
            direction: self.direction(),
            dropped,
            snaplen: if self.keep == u32::MAX { 0 } else { self.keep },
        }
    }

    #[inline]
    fn direction(&self) -> u32 {
        match self.flags & (Self::OUTGOING | Self::NO_DIRECTION) {
            0 => INBOUND,
            Self::OUTGOING => OUTBOUND,
            _ => 0,
        }
    }
}
