//! A SYN or SYN-ACK that may begin another connection, until the next segment of its handshake decides.

use crate::event::{Segment, Sender};
use quaff_wire::net::agreement::{ACK, Numbers, Opening, SYN};

/// An [`Opening`], with what else a connection needs to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) sender: Sender,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) window: u16,
    pub(crate) window_scale: Option<u8>,
    pub(crate) time_ns: u64,
    /// Its number is far from the place of its sender, who would not continue there by chance.
    pub(crate) is_far: bool,
}

impl Attempt {
    /// The SYN or SYN-ACK of `sender`.
    pub(crate) fn of(sender: Sender, segment: &Segment, is_far: bool) -> Self {
        let Segment { flags, sequence, acknowledgment, window, window_scale, time_ns, .. } = *segment;
        let flags = flags & (SYN | ACK);
        Self { sender, flags, sequence, acknowledgment, window, window_scale, time_ns, is_far }
    }

    /// The segment without payload.
    pub(crate) fn segment(&self) -> Segment<'static> {
        let Self { flags, sequence, acknowledgment, window, window_scale, time_ns, .. } = *self;
        Segment { flags, sequence, acknowledgment, window, window_scale, time_ns, ..Segment::default() }
    }

    /// True for the next segment of its handshake.
    #[inline]
    pub(crate) fn is_taken_by(&self, sender: Sender, next: &Numbers) -> bool {
        let Self { flags, sequence, acknowledgment, is_far, .. } = *self;
        let opening = Opening { numbers: Numbers { flags, sequence, acknowledgment }, is_far };
        opening.is_taken_by(sender == self.sender, next)
    }
}
