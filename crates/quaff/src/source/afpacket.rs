//! Packets from an interface, through the kernel's TPACKET_V3 ring.
//!
//! Loss in the kernel is read where it happened: the first block with TP_STATUS_LOSING after the last reading follows a
//! loss, and what was dropped until now belongs just before its first packet. The kernel keeps one number, so a further
//! loss before that block is reached, as when the lane is off its core twice within one ring, is counted there too.
//!
//! An interface may have several lanes ([`Group`]): each has a ring and a socket, and the last one that opens also
//! reads the counters of the interface.
//!
//! A loopback interface offers each packet twice, sent and received. The sent one is excluded, as by libpcap.

use super::group::Group;
use super::live_link::{Links, LiveLink};
use super::{Pull, Source, SourceTally};
use crate::batch::{BATCH_FRAMES, Frame};
use crate::gauge::LaneGauges;
use crate::plan::SNAPLEN_MAX;
use crate::{Error, Result};
use nix::libc;
use quaff_file::tally::Counts;
use quaff_os::clock::steady_ns;
use quaff_os::link_counters::LinkCounters;
use quaff_os::packet::{Cursor, Packet, RingPlan, RxRing, TimeSource, WaitOutcome};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::{Stop, Wakeup};
use std::sync::Arc;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// After receiving was stopped, time without a block after which packets in the ring are counted as lost. The kernel
/// hands over a block within two retire times, later where the machine has no time for its timer.
const DRAIN_NS: u64 = 2 * SECOND_NS;
/// Interval of looks at an interface that is down.
const DOWN_LOOK: Duration = Duration::from_millis(20);
/// PACKET_OUTGOING, linux/if_packet.h.
const PACKET_OUTGOING: u8 = 4;

/// A lane of a live interface.
#[derive(Debug)]
pub struct AfPacket {
    ring: RxRing,
    wakeup: Wakeup,
    live: LiveLink,
    group: Group,
    /// Bytes wanted of each packet.
    wanted_bytes: u32,
    /// The number of the lane's interface.
    number: u16,
    wants_adapter_time: bool,
    /// Position in the current block; `None` without one.
    cursor: Option<Cursor>,
    /// Kernel drops that were not reported to the lane yet.
    unreported: u64,
    /// Blocks that were finished when a loss was read, and wait. Their TP_STATUS_LOSING means that loss.
    known_blocks: u64,
    polled_ns: u64,
    /// Time at which the MTU was read after frames that are larger.
    mtu_read_ns: u64,
    /// The time at which receiving was stopped or, if that was later, the last block was taken.
    closing_ns: Option<u64>,
    packets: u64,
    walked: u64,
}

/// The parameters of [`AfPacket::open`].
#[derive(Debug)]
pub struct Opening<'a> {
    /// The interface.
    pub link: Link,
    pub ring: &'a RingPlan,
    /// True if the ring's filter drops packets, so that these have to be counted separately.
    pub is_filtered: bool,
    /// The lanes of the interface.
    pub group: Group,
    /// Its number among the interfaces of the run.
    pub number: u16,
    /// The snaplen asked for, to distinguish packets cut on request from those that the kernel had to cut;
    /// [`SNAPLEN_MAX`] and above ask for all.
    pub snaplen: u32,
    /// Raised when the interface is removed and the run needs it, as `links` says.
    pub stop: Stop,
    pub links: Links,
    pub gauges: Arc<LaneGauges>,
    /// See [`crate::tally::LaneTally::came_ns`].
    pub came_ns: u64,
}

impl AfPacket {
    /// Opens the ring: from here on packets are captured, or with the last lane of the interface. `wakeup` ends a wait.
    pub fn open(opening: Opening<'_>, wakeup: Wakeup) -> Result<Self> {
        let link = &opening.link;
        let mut rtnl = Rtnl::open()?;
        // Programs take a bound socket for a capture that has begun, so all memory is allocated before.
        let ring = RxRing::allocate(&link.name, opening.ring)?;
        let is_last = opening.group.is_last_next();
        let mut counters = is_last.then(|| LinkCounters::open(link, &mut rtnl)).transpose()?;
        opening.group.bind(&ring, link, &opening.ring.filter, opening.is_filtered)?;
        if let Some(counters) = &mut counters {
            counters.restart_rx_dropped(&mut rtnl)?;
        }
        Ok(Self::with(opening, (ring, rtnl, counters), wakeup))
    }

    /// A lane whose sockets are bound, with the counters of its interface; `None` for the lanes before the last one.
    pub(super) fn with(
        opening: Opening<'_>,
        (ring, rtnl, counters): (RxRing, Rtnl, Option<LinkCounters>),
        wakeup: Wakeup,
    ) -> Self {
        let Opening { link, group, number, snaplen, stop, links, gauges, came_ns, .. } = opening;
        let mut live = LiveLink::new(link, rtnl, counters, gauges, links, stop);
        (live.tally.ring_blocks, live.tally.came_ns) = (opening.ring.block_count as u64, came_ns);
        Self {
            ring,
            wakeup,
            live,
            group,
            wanted_bytes: wanted_bytes(snaplen),
            number,
            wants_adapter_time: opening.ring.time_source == TimeSource::Adapter,
            cursor: None,
            unreported: 0,
            known_blocks: 0,
            polled_ns: steady_ns(),
            mtu_read_ns: 0,
            closing_ns: None,
            packets: 0,
            walked: 0,
        }
    }

    /// PACKET_STATISTICS is 32 bits wide and clears on reading, so this runs at least each second.
    fn poll_counters(&mut self) -> Result<()> {
        self.poll_ring()?;
        self.group.poll()?;
        let LiveLink { link, rtnl, counters, down_since_ns, .. } = &mut self.live;
        let read = match counters {
            Some(counters) => counters.read(rtnl),
            None if down_since_ns.is_some() => rtnl.stats(link.index).map(drop),
            None => Ok(()),
        };
        match read {
            // When it was down before, the socket does not report its removal.
            Err(error) if error.raw() == libc::ENODEV => self.gone("was removed"),
            Ok(()) | Err(_) => {}
        }
        self.look_if_up();
        self.live.show_drops();
        self.polled_ns = steady_ns();
        Ok(())
    }

    /// The socket does not report that an interface is up again.
    fn look_if_up(&mut self) {
        let LiveLink { link, rtnl, down_since_ns, .. } = &mut self.live;
        if down_since_ns.is_some() && rtnl.link(&link.name).is_ok_and(|link| link.up) {
            self.live.note_up();
        }
    }

    /// While a block waits or is walked, drops happened after it: the block with TP_STATUS_LOSING reports each loss at
    /// its place, and the timer would report it too early. It only keeps the kernel's 32 bits from overflowing.
    fn poll_when_due(&mut self) -> Result<()> {
        let since_ns = steady_ns().saturating_sub(self.polled_ns);
        let is_due = since_ns >= SECOND_NS && (self.ring.block().is_none() || since_ns >= 30 * SECOND_NS);
        if is_due { self.poll_counters() } else { Ok(()) }
    }

    fn poll_ring(&mut self) -> Result<()> {
        let drops = self.ring.statistics()?;
        self.packets += drops.packets;
        self.unreported += drops.drops;
        self.live.tally.kernel_dropped += drops.drops;
        self.live.tally.ring_freezes += drops.freezes;
        self.live.gauges.kernel_dropped.set(self.live.tally.kernel_dropped);
        Ok(())
    }

    /// Makes the next finished block the current one; `false` without one.
    fn take_block(&mut self) -> Result<bool> {
        let Some(block) = self.ring.block() else { return Ok(false) };
        let cursor = Cursor::new(block);
        self.cursor = Some(cursor);
        self.closing_ns = self.closing_ns.map(|_| steady_ns());
        // Packets from before it went down may reach us after that.
        let is_up_again = self.live.down_since_ns.is_some_and(|since_ns| cursor.last_ns > since_ns);
        let waiting = self.ring.ready_blocks() as u64;
        if self.known_blocks > 0 {
            self.known_blocks -= 1;
        } else if cursor.is_losing {
            self.known_blocks = waiting - 1;
            self.poll_ring()?;
        }
        self.live.tally.ring_high_blocks = self.live.tally.ring_high_blocks.max(waiting);
        self.live.gauges.ring_high.set(self.live.tally.ring_high_blocks);
        if is_up_again {
            self.live.note_up();
        }
        Ok(true)
    }

    /// Describes the next frames of the current block; `false` at its end.
    fn walk(&mut self, frames: &mut Vec<Frame>) -> bool {
        let (Some(cursor), Some(block)) = (&mut self.cursor, self.ring.block()) else { return false };
        let (largest, number) = (self.live.frame_bytes_max(), self.number);
        let wanted_bytes = self.wanted_bytes;
        let (mut wire_bytes, mut unusual) = (0u64, Unusual::default());
        // Not pushed one by one: no packet asks for room, and the places of the batch before are taken as they are.
        frames.resize(cursor.left.min(BATCH_FRAMES) as usize, Frame::default());
        let mut places = frames.iter_mut();
        cursor.walk(block, BATCH_FRAMES, |packet| {
            let Some(place) = places.next() else { return };
            *place = describe(&packet, number);
            wire_bytes += u64::from(packet.len);
            let is_truncated = packet.snaplen < packet.len.min(wanted_bytes);
            let (is_oversize, is_other) = (packet.len > largest, is_other_protocol(&packet));
            if is_truncated || is_oversize || is_other {
                unusual.count(is_truncated, is_oversize, is_other);
            }
        });
        let unused = places.len();
        frames.truncate(frames.len() - unused);
        self.walked += frames.len() as u64;
        self.live.tally.truncated += unusual.truncated;
        if unusual.oversize > 0 {
            unusual.oversize = self.oversize_now(frames, unusual.oversize);
        }
        self.live.tally.oversize += unusual.oversize;
        self.live.tally.other_protocols += unusual.other_protocols;
        if self.wants_adapter_time {
            let without = |frame: &&Frame| frame.flags & Frame::HARDWARE_TIME == 0;
            self.live.tally.without_adapter_time += frames.iter().filter(without).count() as u64;
        }
        self.live.gauges.received.set(self.walked);
        self.live.gauges.wire_bytes.set(self.live.gauges.wire_bytes.get() + wire_bytes);
        !frames.is_empty()
    }

    /// The number of frames that are larger than the MTU as it is now; `counted` are larger than it was. It is read
    /// once a second at most.
    #[cold]
    #[inline(never)]
    fn oversize_now(&mut self, frames: &[Frame], counted: u64) -> u64 {
        let now_ns = steady_ns();
        if now_ns.saturating_sub(self.mtu_read_ns) < SECOND_NS {
            return counted;
        }
        self.mtu_read_ns = now_ns;
        self.live.renew_mtu();
        let largest = self.live.frame_bytes_max();
        frames.iter().filter(|frame| frame.wire_len > largest).count() as u64
    }

    fn wait(&mut self, wait: Duration) -> Result<()> {
        if self.live.down_since_ns.is_some() {
            self.look_if_up();
        }
        let wait = if self.live.down_since_ns.is_some() { wait.min(DOWN_LOOK) } else { wait };
        match self.ring.wait(&self.wakeup, wait)? {
            WaitOutcome::Check => Ok(()),
            WaitOutcome::Down => self.note_down(),
            WaitOutcome::Gone(errno) => {
                let is_there = self.live.rtnl.stats(self.live.link.index).is_ok();
                let errno = std::io::Error::from_raw_os_error(errno);
                let why =
                    if is_there { format!("cannot be read: {errno}") } else { "was removed".to_owned() };
                self.gone(&why);
                Ok(())
            }
        }
    }

    fn note_down(&mut self) -> Result<()> {
        if self.live.rtnl.stats(self.live.link.index).is_err() {
            self.gone("was removed");
            return Ok(());
        }
        self.live.count_down();
        self.live.note_down();
        Ok(())
    }

    /// Ends the lane, and the run if it needs the interface. One that is removed while the run ends changes nothing.
    fn gone(&mut self, why: &str) {
        if self.closing_ns.is_some() {
            return;
        }
        self.live.note_removed(why);
        // Nothing can arrive any more; receiving is stopped all the same, so that the counts are final.
        let _ = self.close();
    }

    /// After receiving was stopped: returns whether all packets that the kernel had accepted were walked, or are waited
    /// for no longer.
    fn is_drained(&mut self, closed_ns: u64) -> Result<bool> {
        self.poll_counters()?;
        Ok(self.unread() == 0 || steady_ns().saturating_sub(closed_ns) > DRAIN_NS)
    }

    /// Packets that the kernel has accepted and not handed over.
    fn unread(&self) -> u64 {
        self.packets.saturating_sub(self.walked + self.live.tally.kernel_dropped)
    }

    /// Counts the packets that the kernel did not hand over in time as dropped by it.
    fn abandon_unread(&mut self) {
        self.live.tally.ring_unread = self.unread();
        self.unreported += self.live.tally.ring_unread;
        self.live.tally.kernel_dropped += self.live.tally.ring_unread;
        self.live.gauges.kernel_dropped.set(self.live.tally.kernel_dropped);
    }
}

impl Source for AfPacket {
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        self.poll_when_due()?;
        loop {
            if self.walk(frames) {
                return Ok(Pull::Batch);
            }
            frames.clear();
            if self.cursor.take().is_some() {
                self.ring.release();
            }
            if self.take_block()? {
                continue;
            }
            let Some(closed_ns) = self.closing_ns else {
                self.wait(wait)?;
                if self.ring.block().is_none() {
                    return Ok(Pull::Idle);
                }
                continue;
            };
            if self.is_drained(closed_ns)? {
                // A thread that was not on a core for long may be late without having looked.
                if self.ring.block().is_some() {
                    continue;
                }
                self.abandon_unread();
                self.live.settle();
                return Ok(Pull::End);
            }
            self.wait(Duration::from_millis(5))?;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.ring.block().unwrap_or_default()
    }

    fn release(&mut self) {
        if self.cursor.is_some_and(|cursor| cursor.left == 0) {
            self.cursor = None;
            self.ring.release();
        }
    }

    fn is_nearly_full(&self) -> bool {
        self.ring.is_nearly_full()
    }

    fn close(&mut self) -> Result<()> {
        if self.closing_ns.is_none() {
            self.group.close(&self.ring)?;
            self.closing_ns = Some(steady_ns());
        }
        Ok(())
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.unreported)
    }

    fn count(&self, counts: &mut Counts) {
        self.live.count(counts);
    }

    /// The kernel must have counted exactly the packets that were walked and those that it dropped.
    fn finish(self: Box<Self>) -> Result<SourceTally> {
        let Self { mut live, group, packets, walked, .. } = *self;
        let accounted = walked + live.tally.kernel_dropped;
        if packets != accounted {
            return Err(Error::Defect(format!(
                "the kernel counted {packets} packets on {}, we saw {walked} and it dropped {}",
                live.link.name, live.tally.kernel_dropped
            )));
        }
        live.tally.filtered = group.finish(packets, live.tally.downs, &live.link.name)?;
        live.take_drops();
        let filtered = live.tally.filtered;
        Ok(live.finish(filtered + accounted))
    }
}

/// The bytes of a packet that a snaplen asks for. The largest snaplen asks for all, though the kernel's filter cuts
/// there.
fn wanted_bytes(snaplen: u32) -> u32 {
    if snaplen < SNAPLEN_MAX { snaplen } else { u32::MAX }
}

/// Counts of packets that are rare, apart from the common ones' work.
#[derive(Debug, Default)]
struct Unusual {
    truncated: u64,
    oversize: u64,
    other_protocols: u64,
}

impl Unusual {
    #[cold]
    #[inline(never)]
    fn count(&mut self, is_truncated: bool, is_oversize: bool, is_other_protocol: bool) {
        self.truncated += u64::from(is_truncated);
        self.oversize += u64::from(is_oversize);
        self.other_protocols += u64::from(is_other_protocol);
    }
}

/// True for a frame that came in with another protocol than IPv4, ARP and IPv6, which every stack handles.
#[inline]
fn is_other_protocol(packet: &Packet) -> bool {
    let is_handled =
        matches!(i32::from(packet.protocol), libc::ETH_P_IP | libc::ETH_P_ARP | libc::ETH_P_IPV6);
    !is_handled && packet.pkttype != PACKET_OUTGOING
}

#[inline(always)]
fn describe(packet: &Packet, interface: u16) -> Frame {
    let (tpid, tci) = packet.vlan.unwrap_or_default();
    let outgoing = if packet.pkttype == PACKET_OUTGOING { Frame::OUTGOING } else { 0 };
    let hardware = if packet.hardware_time { Frame::HARDWARE_TIME } else { 0 };
    Frame {
        time_ns: u64::from(packet.sec) * SECOND_NS + u64::from(packet.nsec),
        start: packet.start,
        len: packet.snaplen,
        wire_len: packet.len,
        keep: u32::MAX,
        tpid,
        tci,
        flags: outgoing | hardware,
        interface,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_smaller_snaplen_asks_for_a_part() {
        assert_eq!((wanted_bytes(100), wanted_bytes(SNAPLEN_MAX - 1)), (100, SNAPLEN_MAX - 1));
        // Frames of BIG TCP are longer than the largest snaplen.
        assert_eq!((wanted_bytes(SNAPLEN_MAX), wanted_bytes(u32::MAX)), (u32::MAX, u32::MAX));
    }
}
