//! The two places that frames of an XDP program come from: the AF_XDP socket of a receive queue, and the ring of a tap.
//! It adds nothing to either.

use crate::Result;
use quaff_os::Wakeup;
use quaff_os::packet::WaitOutcome;
use quaff_os::rtnl::Link;
use quaff_os::xdp::{TapCounters, TapRing, XdpCounts, XdpDrops, XdpFrame, XdpRedirect, XdpRx};
use std::time::Duration;

/// The program of an interface.
#[derive(Debug)]
pub(super) enum Program {
    /// Ours, attached for this capture.
    Capture(XdpRedirect),
    /// That of a tap, which stays.
    Tap(TapCounters),
}

impl Program {
    pub(super) fn stop(&self) {
        match self {
            Self::Capture(redirect) => redirect.stop(),
            Self::Tap(counters) => counters.stop(),
        }
    }

    /// The deed of another program to ours; the tap looks after its own.
    pub(super) fn displaced(&self, now: &Link) -> Option<String> {
        match self {
            Self::Capture(redirect) => redirect.displaced(now),
            Self::Tap(_) => None,
        }
    }

    pub(super) fn counts(&self) -> XdpCounts {
        match self {
            Self::Capture(redirect) => redirect.counts(),
            Self::Tap(counters) => counters.counts(),
        }
    }
}

/// The frames of one lane.
#[derive(Debug)]
pub(super) enum Receiver {
    Socket(XdpRx),
    Tap(TapRing),
}

impl Receiver {
    #[inline]
    pub(super) fn read(&mut self, most: usize, take: impl FnMut(XdpFrame)) -> Result<usize> {
        Ok(match self {
            Self::Socket(socket) => socket.read(most, take)?,
            Self::Tap(ring) => ring.read(most, take)?,
        })
    }

    #[inline]
    pub(super) fn release(&mut self) {
        match self {
            Self::Socket(socket) => socket.release(),
            Self::Tap(ring) => ring.release(),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Socket(socket) => socket.bytes(),
            Self::Tap(ring) => ring.bytes(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Socket(socket) => socket.memory_bytes(),
            Self::Tap(ring) => ring.ring_bytes(),
        }
    }

    /// Bytes of memory that frames occupy.
    #[inline]
    pub(super) fn used_bytes(&self) -> usize {
        match self {
            Self::Socket(socket) => socket.used_bytes(),
            Self::Tap(ring) => ring.used_bytes(),
        }
    }

    /// The number of frames that wait.
    pub(super) fn ready(&mut self) -> u32 {
        match self {
            Self::Socket(socket) => socket.ready(),
            Self::Tap(ring) => ring.ready(),
        }
    }

    /// Returns whether there is no room for the next frame.
    #[inline]
    pub(super) fn is_starved(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.free_chunks() == 0,
            Self::Tap(ring) => ring.is_starved(),
        }
    }

    #[inline]
    pub(super) fn is_nearly_full(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_nearly_full(),
            Self::Tap(ring) => ring.used_bytes() > ring.ring_bytes() / 8 * 5,
        }
    }

    pub(super) fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<WaitOutcome> {
        Ok(match self {
            Self::Socket(socket) => socket.wait(wakeup, wait)?,
            Self::Tap(ring) => ring.wait(wakeup, wait)?,
        })
    }

    pub(super) fn drops(&self) -> Result<XdpDrops> {
        Ok(match self {
            Self::Socket(socket) => socket.drops()?,
            Self::Tap(ring) => ring.drops(),
        })
    }
}
