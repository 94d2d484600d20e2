//! Sends frames by a transmit ring (TPACKET_V2, PACKET_TX_RING): frames are written to memory shared with the
//! kernel, and one call sends all of them.
//!
//! The driver of a network card reads a frame in place. For a virtual device that passes it to a local
//! receiver the kernel copies it first, so this is the slowest backend there.

use super::tx_slots::{FRAME_START, TxSlots};
use super::{Qdisc, TxCounts, socket, wait_until_sent};
use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Minimum size of the ring; half of it was too small for 10 Gb/s.
const RING_BYTES: usize = 1 << 20;
/// Minimum number of slots.
const SLOTS_MIN: usize = 32;
/// A packet socket with a transmit ring.
#[derive(Debug)]
pub struct TxRing {
    // Before the socket, so that the memory is unmapped first.
    slots: TxSlots,
    fd: OwnedFd,
    name: String,
    /// An error after frames were accepted: the next call returns it.
    failed: Option<Error>,
}

impl TxRing {
    /// Creates a ring for one interface, with slots for frames up to `frame_bytes_max`.
    pub fn open(ifindex: u32, name: &str, frame_bytes_max: usize, qdisc: Qdisc) -> Result<Self> {
        let fd = socket::open()?;
        let slot_bytes = (FRAME_START + frame_bytes_max).next_power_of_two().max(2048);
        let bytes = RING_BYTES.max(SLOTS_MIN * slot_bytes);
        let (memory, slot_count) =
            socket::make_slots(&fd, libc::PACKET_TX_RING, slot_bytes, bytes, "a transmit ring")?;
        socket::set_qdisc(&fd, qdisc)?;
        socket::bind_to_send(&fd, ifindex, name)?;
        Ok(Self {
            slots: TxSlots::new(memory, slot_bytes, slot_count),
            fd,
            name: name.to_owned(),
            failed: None,
        })
    }

    /// Queues frames, beginning with the link header, while slots are free, and makes the kernel send them;
    /// returns how many were queued. [`TxRing::counts`] has those that the kernel has completed.
    ///
    /// # Errors
    /// EMSGSIZE when the first frame is longer than a slot. ENETDOWN and other errors of send(2), at the latest
    /// one call after the frames that they concern.
    pub fn send<'a>(&mut self, mut frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.slots.has_room() {
            self.send_queued()?;
        }
        let mut taken = 0;
        while self.slots.has_room() {
            let Some(frame) = frames.next() else { break };
            if frame.len() > self.slots.frame_bytes_max() {
                if taken == 0 {
                    return Err(self.error(io::Error::from_raw_os_error(libc::EMSGSIZE)));
                }
                break;
            }
            self.slots.push(frame);
            taken += 1;
        }
        match self.send_queued() {
            Err(error) if taken > 0 => self.failed = Some(error),
            pushed => pushed?,
        }
        Ok(taken)
    }

    /// Waits until the kernel has sent all queued frames, or none for 0.1 s; see [`TxRing::counts`]. Frames that
    /// are still queued when the ring is closed are lost.
    ///
    /// # Errors
    /// ENETDOWN and other errors of send(2).
    pub fn flush(&mut self) -> Result<()> {
        let pending = self.slots.counts().pending;
        wait_until_sent(self, pending, |ring| {
            ring.send_queued()?;
            Ok(ring.slots.counts().pending)
        })
    }

    /// The fate of the frames so far.
    pub fn counts(&self) -> TxCounts {
        self.slots.counts()
    }

    /// Makes the kernel send the queued frames, without waiting, and frees completed slots.
    fn send_queued(&mut self) -> Result<()> {
        loop {
            // SAFETY: the call passes no data and no address; the kernel reads the ring.
            let sent = unsafe {
                let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
                libc::sendto(self.fd.as_raw_fd(), none, 0, flags, std::ptr::null(), 0)
            };
            let error = (sent < 0).then(io::Error::last_os_error);
            self.slots.reap();
            let Some(error) = error else { return Ok(()) };
            if self.slots.remove_refused() {
                continue;
            }
            return match error.raw_os_error() {
                // The socket's memory is used up or the driver's queue is full: the frames stay queued until
                // there is room.
                Some(libc::EAGAIN | libc::ENOBUFS) => {
                    self.slots.add_retry();
                    Ok(())
                }
                Some(libc::EINTR) => Ok(()),
                _ => Err(self.error(error)),
            };
        }
    }

    fn error(&self, errno: io::Error) -> Error {
        Error::new(format!("send from {} by a transmit ring", self.name), errno)
    }
}
