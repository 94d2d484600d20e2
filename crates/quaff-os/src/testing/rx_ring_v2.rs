//! A TPACKET_V2 receive ring (linux/if_packet.h, Documentation/networking/packet_mmap.rst): one slot per frame.
//!
//! ```text
//!   [ user ][ user ][ free ][ free ]
//!     ^ next
//! ```
//!
//! A frame can be read as soon as the kernel has written it, whereas [`RxRing`](crate::packet::RxRing) delays it until
//! its block is full or times out. In return each frame occupies a whole slot. Frames are copied out in order.

use crate::packet::{AdapterClock, PacketStats, TimeSource, accept, socket};
use crate::shared_memory::SharedMemory;
use crate::{Error, Result};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Offsets in `struct tpacket2_hdr`, followed at 32 by `struct sockaddr_ll`.
mod field {
    pub(super) const STATUS: usize = 0;
    pub(super) const LEN: usize = 4;
    pub(super) const SNAPLEN: usize = 8;
    /// `tp_mac` and `tp_net`, 16 bits each.
    pub(super) const MAC: usize = 12;
    pub(super) const SEC: usize = 16;
    pub(super) const NSEC: usize = 20;
    /// `tp_vlan_tci` and `tp_vlan_tpid`, 16 bits each.
    pub(super) const VLAN: usize = 24;
    /// `sll_hatype` (16 bits), `sll_pkttype`, `sll_halen`.
    pub(super) const PKTTYPE: usize = 32 + 8;
}

/// Bytes of a slot in front of the frame: header, address, and alignment of the network header.
const HEAD_BYTES: usize = 128;
const ETH_P_8021Q: u16 = 0x8100;

/// The header of a frame that was read from the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time stamp by the ring's clock, ns since 1970.
    pub time_ns: u64,
    /// Bytes on the wire, without the tag in `vlan`; the captured frame may be shorter.
    pub len: u32,
    /// The VLAN tag that the kernel removed from the frame: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// `sll_pkttype`; PACKET_OUTGOING (4) for frames that this host sends.
    pub pkttype: u8,
}

/// A receive ring of slots on one interface.
#[derive(Debug)]
pub struct RxRingV2 {
    // Before the socket, so that the memory is unmapped first.
    memory: SharedMemory,
    fd: OwnedFd,
    /// The adapter's time stamps, if they were requested.
    _clock: Option<AdapterClock>,
    name: String,
    slot_bytes: usize,
    slot_count: usize,
    next: usize,
}

impl RxRingV2 {
    /// Creates a ring of at least `ring_bytes` with slots for frames up to `frame_bytes_max`, and binds it to the
    /// interface in promiscuous mode.
    ///
    /// # Errors
    /// `ENOMEM` for a ring that is too large, `EPERM` without CAP_NET_RAW.
    pub fn open(
        ifindex: u32,
        name: &str,
        time_source: TimeSource,
        frame_bytes_max: usize,
        ring_bytes: usize,
    ) -> Result<Self> {
        let slot_bytes = (HEAD_BYTES + frame_bytes_max).next_power_of_two();
        let fd = socket::open()?;
        socket::attach_filter(&fd, &[accept(u32::MAX)])?;
        let clock = socket::set_time_source(&fd, name, time_source)?;
        let (memory, slot_count) =
            socket::make_slots(&fd, libc::PACKET_RX_RING, slot_bytes, ring_bytes, "a receive ring")?;
        socket::set_promiscuous(&fd, ifindex)?;
        socket::bind(&fd, ifindex, name)?;
        Ok(Self { memory, fd, _clock: clock, name: name.to_owned(), slot_bytes, slot_count, next: 0 })
    }

    /// Copies the oldest frame to `frame` and frees its slot; `None` when there is none.
    #[inline]
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Option<Arrival> {
        let start = self.next * self.slot_bytes;
        // Written by the kernel on any core. Acquire: the frame that it wrote before is visible afterwards.
        let status = self.memory.word(start + field::STATUS).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // Written by the kernel before the status. Relaxed: the Acquire above orders them.
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
        // Never reads outside the slot, whatever the header contains.
        let at = usize::from(mac).min(self.slot_bytes);
        let present = (word(field::SNAPLEN) as usize).min(self.slot_bytes - at);
        frame.clear();
        self.memory.read(start + at, present, frame);
        // Written here, read by the kernel. Release: all reads are complete before it writes there again.
        let status = self.memory.word(start + field::STATUS);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slot_count;
        Some(arrival)
    }

    /// Waits until one of `rings` has a frame, for at most `wait`; wakes about 10 to 100 µs late.
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

    /// Packets and drops since the last call; a drop is a frame for which no slot was free.
    pub fn statistics(&self) -> Result<PacketStats> {
        socket::statistics(&self.fd)
    }
}

/// The two 16-bit fields of a word, in memory order.
fn halves(word: u32) -> [u16; 2] {
    let [a, b, c, d] = word.to_ne_bytes();
    [u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d])]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT_BYTES: usize = 256;

    /// A ring of two slots in anonymous memory, for a test that acts as the kernel.
    fn ring() -> RxRingV2 {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").expect("a descriptor"));
        let memory = SharedMemory::anonymous(4096);
        RxRingV2 {
            memory,
            fd,
            _clock: None,
            name: "test".into(),
            slot_bytes: SLOT_BYTES,
            slot_count: 2,
            next: 0,
        }
    }

    /// Writes a slot as tpacket_rcv() does.
    fn write(ring: &mut RxRingV2, slot: usize, status: u32, (mac, snaplen): (u16, u32), frame: &[u8]) {
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
    fn frames_are_read_in_order_and_slots_freed() {
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
        assert_eq!(ring.take(&mut frame), None, "the first slot belongs to the kernel again");
    }

    #[test]
    fn a_wrong_header_reads_nothing_outside_its_slot() {
        let (mut ring, mut frame) = (ring(), Vec::new());
        write(&mut ring, 0, libc::TP_STATUS_USER, (66, u32::MAX), &[1; 60]);
        write(&mut ring, 1, libc::TP_STATUS_USER, (u16::MAX, 60), &[1; 60]);
        ring.take(&mut frame).expect("a frame");
        assert_eq!(frame.len(), SLOT_BYTES - 66);
        ring.take(&mut frame).expect("a frame");
        assert!(frame.is_empty());
    }
}
