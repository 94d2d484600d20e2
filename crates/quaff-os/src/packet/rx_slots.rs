//! A TPACKET_V2 receive ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst): a slot for each frame.
//!
//! ```text
//!   kernel writes →  [ ours ][ ours ][ free ][ free ]
//!   we read       →    ^ next
//! ```
//!
//! A frame is there for us as soon as the kernel has written it, where [`RxRing`](super::RxRing) has it wait for
//! its block to be full or its time to be up. For that each frame costs a whole slot. Frames are copied out one
//! by one, in order.

use super::{KernelDrops, TimeSource, accept, socket};
use crate::mem::page_bytes;
use crate::shared::Shared;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// `struct tpacket2_hdr`, followed at 32 by `struct sockaddr_ll`: where the words are that we read.
mod field {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
    pub(super) const SNAPLEN: usize = 8;
    /// Two of 16 bits: `tp_mac`, `tp_net`.
    pub(super) const MAC: usize = 12;
    pub(super) const SEC: usize = 16;
    pub(super) const NSEC: usize = 20;
    /// Two of 16 bits: `tp_vlan_tci`, `tp_vlan_tpid`.
    pub(super) const VLAN: usize = 24;
    /// `sll_hatype` (16 bits), `sll_pkttype`, `sll_halen`.
    pub(super) const PKTTYPE: usize = 32 + 8;
}

/// What a slot needs beside the frame: header, address, and the alignment of what follows the link header.
const HEAD_BYTES: usize = 128;
/// Bytes of one piece of the ring's memory, which the kernel wants in one go.
const BLOCK_BYTES: usize = 1 << 16;
const ETH_P_8021Q: u16 = 0x8100;

/// A frame that was taken out of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it came by the ring's clock, ns since 1970.
    pub time_ns: u64,
    /// Bytes on the wire (without the tag in `vlan`); a slot that was too small holds less.
    pub len: u32,
    /// The VLAN tag that the kernel took out of the frame: TPID and full TCI.
    pub vlan: Option<(u16, u16)>,
    /// `sll_pkttype`: PACKET_OUTGOING (4) for what others send from the interface.
    pub pkttype: u8,
}

/// A receive ring of slots on one interface.
#[derive(Debug)]
pub struct RxSlots {
    // Before the socket, so that the memory is unmapped first.
    memory: Shared,
    fd: OwnedFd,
    name: String,
    slot_bytes: usize,
    slot_count: usize,
    next: usize,
}

impl RxSlots {
    /// Makes a ring of at least `ring_bytes`, with slots for frames up to `frame_bytes_max`: from the return on,
    /// all that passes the interface arrives, in promiscuous mode, stamped by the clock of `time_source`.
    ///
    /// # Errors
    /// What the kernel refuses: `ENOMEM` for a ring that is too large, `EPERM` without CAP_NET_RAW.
    pub fn open(
        ifindex: u32,
        name: &str,
        time_source: TimeSource,
        frame_bytes_max: usize,
        ring_bytes: usize,
    ) -> Result<Self> {
        let slot_bytes = (HEAD_BYTES + frame_bytes_max).next_power_of_two();
        let block_bytes = slot_bytes.max(BLOCK_BYTES).max(page_bytes());
        let ring_bytes = ring_bytes.max(1).next_multiple_of(block_bytes);
        let slot_count = ring_bytes / slot_bytes;
        let fd = socket::open()?;
        socket::attach_filter(&fd, &[accept(u32::MAX)])?;
        socket::set_time_source(&fd, name, time_source)?;
        socket::set_rx_slots(
            &fd,
            &libc::tpacket_req {
                tp_block_size: block_bytes as u32,
                tp_block_nr: (ring_bytes / block_bytes) as u32,
                tp_frame_size: slot_bytes as u32,
                tp_frame_nr: slot_count as u32,
            },
        )?;
        let memory = Shared::map(&fd, ring_bytes, 0, "a receive ring")?;
        socket::set_promiscuous(&fd, ifindex)?;
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { memory, fd, name: name.to_owned(), slot_bytes, slot_count, next: 0 })
    }

    /// Takes the oldest frame out: its bytes are in `frame` then, and its slot is free. `None` when there is none.
    #[inline]
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Option<Arrival> {
        let start = self.next * self.slot_bytes;
        // Written by the kernel on any core: Acquire, so that what it wrote before is seen after.
        let status = self.memory.word(start + field::STATUS).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let word = |at: usize| self.memory.word(start + at).load(Ordering::Relaxed);
        let [mac, _] = halves(word(field::MAC));
        let [_, pkttype] = halves(word(field::PKTTYPE));
        let arrival = Arrival {
            time_ns: u64::from(word(field::SEC)) * 1_000_000_000 + u64::from(word(field::NSEC)),
            len: word(field::LEN),
            vlan: (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
                let [tci, tpid] = halves(word(field::VLAN));
                (if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { ETH_P_8021Q }, tci)
            }),
            pkttype: pkttype.to_ne_bytes()[0],
        };
        // What lies outside the slot is not read, whatever the header says.
        let at = usize::from(mac).min(self.slot_bytes);
        let present = (word(field::SNAPLEN) as usize).min(self.slot_bytes - at);
        frame.clear();
        self.memory.read(start + at, present, frame);
        // Written by us, read by the kernel: Release, so that our reads are over before it writes there again.
        let status = self.memory.word(start + field::STATUS);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slot_count;
        Some(arrival)
    }

    /// Waits until one of `rings` has a frame, or `wait` has passed; wakes some 10 to 100 µs late.
    ///
    /// # Errors
    /// `ENETDOWN` when an interface went down.
    pub fn wait(rings: &[&Self], wait: Duration) -> Result<()> {
        let mut fds: Vec<_> =
            rings.iter().map(|ring| PollFd::new(ring.fd.as_fd(), PollFlags::POLLIN)).collect();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(Error::new("wait for frames", errno)),
        }
        for (ring, fd) in rings.iter().zip(&fds) {
            if fd.revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
                match socket::take_error(&ring.fd)? {
                    0 => {}
                    errno => {
                        let tried = format!("receive from {}", ring.name);
                        return Err(Error::new(tried, io::Error::from_raw_os_error(errno)));
                    }
                }
            }
        }
        Ok(())
    }

    /// What the kernel counted since it was last asked; drops are frames for which no slot was free.
    pub fn statistics(&self) -> Result<KernelDrops> {
        socket::statistics(&self.fd)
    }
}

/// A word's two fields of 16 bits, in the order of memory.
fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: usize = 256;

    /// A ring of two slots in memory of our own, for a test that plays the kernel.
    fn ring() -> RxSlots {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").expect("a descriptor"));
        let memory = Shared::anonymous(4096);
        RxSlots { memory, fd, name: "test".into(), slot_bytes: SLOT_BYTES, slot_count: 2, next: 0 }
    }

    /// tpacket_rcv(), as far as a slot is concerned.
    fn write(ring: &mut RxSlots, slot: usize, status: u32, (mac, snaplen): (u16, u32), frame: &[u8]) {
        let start = slot * SLOT_BYTES;
        let header = [
            status.to_ne_bytes(),
            (frame.len() as u32).to_ne_bytes(),
            snaplen.to_ne_bytes(),
            [0; 4],
            5u32.to_ne_bytes(),
            7u32.to_ne_bytes(),
        ];
        ring.memory.write(start, &header.concat());
        ring.memory.write(start + field::MAC, &mac.to_ne_bytes());
        ring.memory.write(start + field::VLAN, &0xb064u16.to_ne_bytes());
        ring.memory.write(start + field::VLAN + 2, &0x88a8u16.to_ne_bytes());
        ring.memory.write(start + field::PKTTYPE + 2, &[4]);
        ring.memory.write(start + 66, frame);
    }

    #[test]
    fn frames_are_taken_in_order_and_slots_given_back() {
        let (mut ring, mut frame) = (ring(), vec![9; 9]);
        assert_eq!(ring.take(&mut frame), None);
        let tagged = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        write(&mut ring, 0, tagged, (66, 60), &[1; 60]);
        write(&mut ring, 1, libc::TP_STATUS_USER, (66, 61), &[2; 61]);
        let first = ring.take(&mut frame).expect("a frame");
        let arrival = Arrival { time_ns: 5_000_000_007, len: 60, vlan: Some((0x88a8, 0xb064)), pkttype: 4 };
        assert_eq!((first, &frame), (arrival, &vec![1; 60]));
        let second = ring.take(&mut frame).expect("a frame");
        assert_eq!((second.len, second.vlan, &frame), (61, None, &vec![2; 61]));
        assert_eq!(ring.take(&mut frame), None, "the first slot is the kernel's again");
    }

    #[test]
    fn a_header_that_lies_reads_nothing_outside_its_slot() {
        let (mut ring, mut frame) = (ring(), Vec::new());
        write(&mut ring, 0, libc::TP_STATUS_USER, (66, u32::MAX), &[1; 60]);
        write(&mut ring, 1, libc::TP_STATUS_USER, (u16::MAX, 60), &[1; 60]);
        ring.take(&mut frame).expect("a frame");
        assert_eq!(frame.len(), SLOT_BYTES - 66);
        ring.take(&mut frame).expect("a frame");
        assert!(frame.is_empty());
    }
}
