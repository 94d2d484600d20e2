//! Sends frames from an interface by a transmit ring (TPACKET_V2, PACKET_TX_RING): frames are laid into
//! memory that the kernel sends them from, and one call sends all that lie there.
//!
//! On a network card the driver reads a frame where it lies. A virtual device that hands it on to a
//! receiver has the kernel copy it first, which makes this the slowest way there.

use super::slots::{FRAME_START, Slots};
use super::{Qdisc, socket};
use crate::clock::{sleep_until, steady_ns};
use crate::mem::page_bytes;
use crate::shared::Shared;
use crate::stats::TxCounts;
use crate::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The ring has at least so many bytes: half of it was too little for 10 Gb/s.
const RING_BYTES: usize = 1 << 20;
/// And at least so many slots, however long the frames are.
const SLOTS_MIN: usize = 32;
/// Bytes of one piece of the ring's memory, which the kernel wants in one go.
const BLOCK_BYTES: usize = 1 << 16;
/// What the driver does not give back for so long counts as not sent, ns.
const PATIENCE_NS: u64 = 100_000_000;
/// Between two looks at what it has given back, ns.
const LOOK_NS: u64 = 100_000;

/// A packet socket with a transmit ring.
#[derive(Debug)]
pub struct TxRing {
    // Before the socket, so that the memory is unmapped first.
    slots: Slots,
    fd: OwnedFd,
    name: String,
    /// What was wrong when frames had been taken already: for the next call to say.
    failed: Option<Error>,
}

impl TxRing {
    /// Makes a ring for one interface, with slots for frames up to `frame_bytes_max`.
    pub fn open(ifindex: u32, name: &str, frame_bytes_max: usize, qdisc: Qdisc) -> Result<Self> {
        let fd = socket::open()?;
        let slot_bytes = (FRAME_START + frame_bytes_max).next_power_of_two().max(2048);
        let block_bytes = slot_bytes.max(BLOCK_BYTES).max(page_bytes());
        let ring_bytes = RING_BYTES.max(SLOTS_MIN * slot_bytes).next_multiple_of(block_bytes);
        let slot_count = ring_bytes / slot_bytes;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (ring_bytes / block_bytes) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slot_count as u32,
        };
        socket::set_tx_ring(&fd, &request)?;
        socket::set_qdisc(&fd, qdisc)?;
        let memory = Shared::map(&fd, ring_bytes, 0, "a transmit ring")?;
        socket::bind_to_send(&fd, ifindex, name)?;
        Ok(Self {
            slots: Slots::new(memory, slot_bytes, slot_count),
            fd,
            name: name.to_owned(),
            failed: None,
        })
    }

    /// Queues frames, link header first, as long as there is room, and has the kernel send them;
    /// says how many were taken. None of them counts as sent before the kernel has said so, in
    /// [`TxRing::counts`], where it is also told how often it had no room further down.
    ///
    /// # Errors
    /// EMSGSIZE when the first frame is longer than a slot. ENETDOWN and the like, at the latest one
    /// call after the frames were taken that met it.
    pub fn send<'a>(&mut self, mut frames: impl Iterator<Item = &'a [u8]>) -> Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.slots.has_room() {
            self.push_on()?;
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
        match self.push_on() {
            Err(error) if taken > 0 => self.failed = Some(error),
            pushed => pushed?,
        }
        Ok(taken)
    }

    /// Waits until the kernel has sent all that was queued, or has sent nothing for 0.1 s:
    /// [`TxRing::counts`] tells. Frames that are still there when the ring is closed are lost.
    ///
    /// # Errors
    /// ENETDOWN and the like.
    pub fn flush(&mut self) -> Result<()> {
        let mut pending = self.slots.counts().pending;
        let mut moved_ns = steady_ns();
        while pending > 0 {
            self.push_on()?;
            let (before, now_ns) = (pending, steady_ns());
            pending = self.slots.counts().pending;
            if pending < before {
                moved_ns = now_ns;
            } else if now_ns > moved_ns + PATIENCE_NS {
                break;
            } else {
                sleep_until(now_ns + LOOK_NS);
            }
        }
        Ok(())
    }

    /// What became of the frames so far.
    pub fn counts(&self) -> TxCounts {
        self.slots.counts()
    }

    /// Has the kernel send what is queued, without waiting, and takes back what it is done with.
    fn push_on(&mut self) -> Result<()> {
        loop {
            // SAFETY: no data and no address are given; the kernel looks at the ring.
            let sent = unsafe {
                let (none, flags) = (std::ptr::null(), libc::MSG_DONTWAIT);
                libc::sendto(self.fd.as_raw_fd(), none, 0, flags, std::ptr::null(), 0)
            };
            let error = (sent < 0).then(io::Error::last_os_error);
            self.slots.reap();
            let Some(error) = error else { return Ok(()) };
            if self.slots.take_out_refused() {
                continue;
            }
            return match error.raw_os_error() {
                // The socket's share of memory is in use, or the driver's queue is full: the frames
                // stay queued, and go on when there is room.
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
