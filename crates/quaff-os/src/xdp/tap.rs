//! The XDP program of a tap: it sends each frame of a port by another one, and while a recorder reads, copies it to a
//! ring first. The path of a frame depends on no process: a ring that is full, or that nothing reads, costs copies and
//! no frame. It never looks at the contents of a frame.
//!
//! [`XdpTap`] is the side of the process that sets the ports up. [`TapCounters`] and [`TapRing`] are the recorder's,
//! which finds both by the program on the interface.

use super::redirect::{XdpCounts, wait_for_programs};
use super::rx::{XdpDrops, XdpFrame, wait_for_frames};
use crate::bpf::{
    Alu, ArrayMap, Asm, Helper, Jmp, Label, Program, Reg, RingMap, RingReader, Size, program_maps,
    program_name,
};
use crate::packet::WaitOutcome;
use crate::rtnl::Link;
use crate::wakeup::Wakeup;
use crate::{Error, Result};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Words of a cache line: each core counts in its own.
const LINE_WORDS: usize = 8;
/// Cores with a line of their own, a power of two; cores of higher numbers share lines.
const CORES: usize = 64;
/// The word that the program reads: not 0 while a recorder reads. Its line is only read.
const IS_OPEN: usize = 0;
/// Offsets in the line of a core, words: frames sent by the other port; of those, while a recorder reads; of those,
/// without room in the ring; and longer than a record.
const FORWARDED: usize = 0;
const SEEN: usize = 1;
const FULL: usize = 2;
const TOO_LONG: usize = 3;
/// The start of a record: the time, CLOCK_MONOTONIC ns, and the length of the frame.
const STAMP_BYTES: usize = 16;
/// Bytes of a frame in the smaller records, which are 128 and 512 bytes with their headers.
const SMALL: [usize; 2] = [128 - 24, 512 - 24];
/// Free room in the ring below which a frame may find no room, bytes.
const STARVED_BYTES: usize = 16 << 10;

/// A loaded program. It stays attached when this is dropped.
#[derive(Debug)]
pub struct XdpTap {
    pub program: Program,
    counters: ArrayMap,
}

impl XdpTap {
    /// Loads the program that sends frames by interface `to`, and copies those of up to `frame_bytes` to a ring of
    /// `ring_bytes`, a power of two.
    ///
    /// # Errors
    /// ENOMEM when the machine does not have the memory of the ring.
    pub fn load(to: u32, frame_bytes: usize, ring_bytes: usize) -> Result<Self> {
        let counters = ArrayMap::new("quaff_tap", (1 + CORES) * LINE_WORDS)?;
        let ring = RingMap::new("quaff_tap_ring", ring_bytes)?;
        let program = Program::load_xdp(&name(to), program(&counters, &ring, to, frame_bytes))?;
        Ok(Self { program, counters })
    }

    /// Frames that it has forwarded.
    pub fn forwarded(&self) -> u64 {
        sum(&self.counters, FORWARDED)
    }
}

/// Returns whether the XDP program of an interface is that of a tap which sends its frames by interface `to`. Needs
/// CAP_SYS_ADMIN where the interface has a program.
pub fn forwards_by_xdp(link: &Link, to: u32) -> bool {
    link.xdp_program.and_then(|id| program_name(id).ok()).is_some_and(|found| found == name(to))
}

/// The name of the program: at most 15 bytes.
fn name(to: u32) -> String {
    format!("qtap_{to}")
}

fn sum(counters: &ArrayMap, of: usize) -> u64 {
    (1..=CORES).map(|line| counters.load(line * LINE_WORDS + of)).sum()
}

/// The counts of the program on an interface, for its recorder.
#[derive(Debug)]
pub struct TapCounters {
    counters: ArrayMap,
}

impl TapCounters {
    /// Finds the program of an interface.
    ///
    /// # Errors
    /// ENOENT when it is not that of a tap.
    pub fn open(link: &Link) -> Result<Self> {
        Ok(Self { counters: ArrayMap::open(maps(link)?[0])? })
    }

    /// Copies frames from here on.
    ///
    /// # Errors
    /// EBUSY when a recorder has begun before: its counts would be in those of the next.
    pub fn start(&self, link: &Link) -> Result<()> {
        if sum(&self.counters, SEEN) > 0 || self.counters.load(IS_OPEN) != 0 {
            let tried = format!("record the tap of {}", link.name);
            return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EBUSY)).advise(
                "it has had a recorder: start it again by 'quaff tap', which does not cut the line",
            ));
        }
        self.counters.store(IS_OPEN, 1);
        Ok(())
    }

    /// Copies nothing more. When this returns, every frame that was counted is in the ring or lost.
    pub fn stop(&self) {
        self.counters.store(IS_OPEN, 0);
        wait_for_programs();
    }

    /// Frames since the start.
    pub fn counts(&self) -> XdpCounts {
        XdpCounts { seen: sum(&self.counters, SEEN), passed: 0 }
    }

    fn drops(&self) -> XdpDrops {
        let of = |word| sum(&self.counters, word);
        XdpDrops { ring_full: of(FULL), other: of(TOO_LONG), ..XdpDrops::default() }
    }
}

/// The ring of the program on an interface.
#[derive(Debug)]
pub struct TapRing {
    ring: RingReader,
    counters: TapCounters,
}

impl TapRing {
    /// Finds the program of an interface.
    ///
    /// # Errors
    /// ENOENT when it is not that of a tap.
    pub fn open(link: &Link) -> Result<Self> {
        Ok(Self { ring: RingReader::open(maps(link)?[1])?, counters: TapCounters::open(link)? })
    }

    /// The size of the ring, bytes.
    pub fn ring_bytes(&self) -> usize {
        self.ring.ring_bytes()
    }

    /// As [`RingReader::bytes`].
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.ring.bytes()
    }

    /// Describes the next frames, at most `most`, and returns their number. They stay until [`TapRing::release`].
    ///
    /// # Errors
    /// EFAULT when a record is not one of the program.
    #[inline]
    pub fn read(&mut self, most: usize, mut take: impl FnMut(XdpFrame)) -> Result<usize> {
        for count in 0..most {
            let Some(record) = self.ring.read() else { return Ok(count) };
            let stamp =
                self.ring.bytes().get(record.start..).and_then(|rest| rest.first_chunk::<STAMP_BYTES>());
            let word = |at: usize| {
                let bytes = stamp.and_then(|stamp| stamp[at..].first_chunk());
                bytes.map_or(u64::MAX, |bytes| u64::from_ne_bytes(*bytes))
            };
            let (steady_ns, len) = (word(0), word(8));
            if len > record.len.saturating_sub(STAMP_BYTES) as u64 {
                let tried = format!("read the record of {} bytes at {} of a tap", record.len, record.start);
                return Err(Error::new(tried, io::Error::from_raw_os_error(libc::EFAULT)));
            }
            let start = (record.start + STAMP_BYTES) as u32;
            take(XdpFrame { start, len: len as u32, steady_ns: Some(steady_ns) });
        }
        Ok(most)
    }

    /// Returns the room of all frames that were read.
    #[inline]
    pub fn release(&mut self) {
        self.ring.release();
    }

    /// The number of frames that wait.
    pub fn ready(&self) -> u32 {
        self.ring.ready() as u32
    }

    /// Bytes in use.
    #[inline]
    pub fn used_bytes(&self) -> usize {
        self.ring.used_bytes()
    }

    /// Returns whether a frame may have no room.
    #[inline]
    pub fn is_starved(&self) -> bool {
        self.ring_bytes() - self.used_bytes() < STARVED_BYTES
    }

    /// As [`super::XdpRx::wait`].
    pub fn wait(&self, wakeup: &Wakeup, wait: Duration) -> Result<WaitOutcome> {
        wait_for_frames(self.ring.as_fd(), wakeup, wait)
    }

    /// The frames that have no copy.
    pub fn drops(&self) -> XdpDrops {
        self.counters.drops()
    }
}

/// The maps of the program of an interface: counters and ring.
fn maps(link: &Link) -> Result<[u32; 2]> {
    let refused = || {
        let tried = format!("find the program of a tap on {}", link.name);
        Error::new(tried, io::Error::from_raw_os_error(libc::ENOENT))
            .advise("'quaff tap A B --forward xdp' attaches it, and records")
    };
    let id = link.xdp_program.ok_or_else(refused)?;
    if !program_name(id)?.starts_with(&name(0)[..5]) {
        return Err(refused());
    }
    program_maps(id)?.try_into().map_err(|_| refused())
}

/// The program, as in the module's description.
fn program(counters: &ArrayMap, ring: &RingMap, to: u32, frame_bytes: usize) -> Asm {
    use Reg::{R0, R1, R2, R6, R7, R8};
    let mut asm = Asm::default();
    let (forward, full) = (asm.label(), asm.label());
    asm.mov64(R6, R1);
    // R7: the line of this core, after the first.
    asm.call(Helper::GetSmpProcessorId);
    asm.alu64(Alu::And, R0, CORES as i32 - 1);
    asm.alu64(Alu::Lsh, R0, (LINE_WORDS * 8).trailing_zeros() as i32);
    asm.ld_map_value(R7, counters, 0);
    asm.mov64(R1, R7);
    asm.alu64(Alu::Add, R7, R0);
    count(&mut asm, FORWARDED);
    asm.ldx_mem(Size::Dw, R1, R1, IS_OPEN * 8);
    asm.jmp(Jmp::Jeq, R1, 0, forward);
    count(&mut asm, SEEN);
    asm.mov64(R1, R6);
    asm.call(Helper::XdpGetBuffLen);
    asm.mov64(R8, R0);
    for bytes in SMALL.into_iter().chain([frame_bytes]) {
        let longer = asm.label();
        asm.jmp(Jmp::Jgt, R8, bytes as i32, longer);
        copy(&mut asm, ring, bytes, full);
        asm.ja(forward);
        asm.place(longer);
    }
    count(&mut asm, TOO_LONG);
    asm.ja(forward);
    asm.place(full);
    count(&mut asm, FULL);
    asm.place(forward);
    asm.mov64(R1, to as i32);
    asm.mov64(R2, 0);
    asm.call(Helper::Redirect);
    asm.exit();
    asm
}

/// `line[of] += 1`, which changes R2.
fn count(asm: &mut Asm, of: usize) {
    asm.mov64(Reg::R2, 1);
    asm.atomic_fetch_add64(Reg::R7, (LINE_WORDS + of) * 8, Reg::R2);
}

/// Copies the frame of R8 bytes to a record for up to `bytes`; jumps to `full` if there is no room for it.
fn copy(asm: &mut Asm, ring: &RingMap, bytes: usize, full: Label) {
    use Reg::{R0, R1, R2, R3, R4, R6, R8, R9};
    let (failed, done) = (asm.label(), asm.label());
    asm.ld_ring(R1, ring);
    asm.mov64(R2, (STAMP_BYTES + bytes) as i32);
    asm.mov64(R3, 0);
    asm.call(Helper::RingbufReserve);
    asm.jmp(Jmp::Jeq, R0, 0, full);
    asm.mov64(R9, R0);
    // No frame is empty, which the verifier cannot know.
    asm.jmp(Jmp::Jlt, R8, 1, failed);
    asm.call(Helper::KtimeGetNs);
    asm.st_mem(Size::Dw, R9, R0, 0);
    asm.st_mem(Size::Dw, R9, R8, 8);
    asm.mov64(R1, R6);
    asm.mov64(R2, 0);
    asm.mov64(R3, R9);
    asm.alu64(Alu::Add, R3, STAMP_BYTES as i32);
    asm.mov64(R4, R8);
    asm.call(Helper::XdpLoadBytes);
    asm.jmp(Jmp::Jne, R0, 0, failed);
    asm.mov64(R1, R9);
    asm.mov64(R2, 0);
    asm.call(Helper::RingbufSubmit);
    asm.ja(done);
    asm.place(failed);
    asm.mov64(R1, R9);
    asm.mov64(R2, 0);
    asm.call(Helper::RingbufDiscard);
    asm.ja(full);
    asm.place(done);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_accepts_the_program_for_any_mtu() {
        for frame_bytes in [90, 1522, 3022, 9022] {
            match XdpTap::load(1, frame_bytes, 1 << 16) {
                Err(error) if crate::testing::is_refusal(&error) => {
                    crate::testing::skip("the_verifier_accepts_the_program_for_any_mtu", &error.to_string());
                }
                loaded => assert_eq!(loaded.expect("a valid program").forwarded(), 0),
            }
        }
    }

    #[test]
    fn the_name_has_the_other_port_and_fits_the_kernel() {
        assert_eq!(name(u32::MAX).len(), 15);
    }
}
