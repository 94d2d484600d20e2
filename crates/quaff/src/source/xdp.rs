//! Packets from an interface, past the stack, by AF_XDP (`--via xdp`): a socket for each receive queue, a lane for each
//! socket. `scripts/xdp-speed` compares its speed with that of AF_PACKET.
//!
//! ```text
//!   lane 0: attaches the program, opens the socket of queue 0, lane 1: that of queue 1, … the last one: starts it
//!   the first lane that ends: stops the program      the last one: compares the program's count with all sockets
//! ```
//!
//! The program takes the packets from the stack: the host does not receive them, and no other capture sees them. So an
//! interface with addresses is refused unless the plan says otherwise. What the interface sends is not seen.
//!
//! The kernel drops a packet when all chunks of a socket's memory are in use. It counts it, and the count is read when
//! chunks return to an empty fill ring, so the loss stands before the first packet that found one of them.
//!
//! Each second a lane looks at its interface: one that is down is waited for; a program that another one has detached
//! or replaced ends the lanes, because nothing counts what arrives from then on. It is never attached again. Receive
//! queues that are added have no lane: the program counts their packets where the driver runs it on them (veth does
//! not). Those of lanes cannot be taken away, the kernel refuses that.
//!
//! The recorder of a tap by XDP is a lane of the same kind: the program is the tap's and stays, and the frames are
//! copies in its ring.

mod receiver;

use super::live_link::{Links, LiveLink, OVER_MTU_BYTES};
use super::{Pull, Source, SourceTally};
use crate::batch::{BATCH_FRAMES, Frame};
use crate::gauge::LaneGauges;
use crate::plan::{InputPlan, Via};
use crate::tally::XdpTally;
use crate::{Error, Result};
use nix::libc;
use quaff_file::tally::Counts;
use quaff_os::bpf::XdpHook;
use quaff_os::clock::{epoch_offset_ns, sleep_until, steady_ns, wall_ns};
use quaff_os::ethtool::{self, Card};
use quaff_os::link_counters::{LinkCounters, LinkDrops};
use quaff_os::packet::{DownWatch, WaitOutcome, hold_promiscuous};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::xdp::{
    RX_FRAME_BYTES_MAX, TapCounters, TapRing, XdpCounts, XdpDrops, XdpMode, XdpRedirect, XdpRx, chunk_bytes,
};
use quaff_os::{Reason, Stop, Wakeup};
use quaff_wire::printable::quote;
use receiver::{Program, Receiver};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// Fewest and most chunks of a socket.
const CHUNKS: std::ops::RangeInclusive<usize> = 256..=1 << 20;
/// Pause of a lane that has read all frames, in which more come: cheaper than a wakeup for each.
const GATHER_NS: u64 = 100_000;
/// The clock was set if the offset of wall-clock time differs by more, ns. Less is an error of its reading.
const STEP_NS: u64 = 100_000;
/// The feature of a driver that takes VLAN tags off received frames.
const RX_VLAN: &str = "rx-vlan-hw-parse";

/// The lanes of one interface. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct XdpGroup(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    program: Option<Program>,
    promiscuous: Option<OwnedFd>,
    joined: usize,
    is_closed: bool,
    /// Lanes that have ended, and their sums.
    ended: usize,
    received: u64,
    drops: XdpDrops,
    mode: String,
    /// The time at which another program was found to have taken the place of ours, and what it did.
    displaced: Option<(u64, String)>,
    /// Receive queues beyond those with a lane, the most that were seen.
    added_queues: usize,
}

/// The settings that the lanes of an interface share.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub link: Link,
    /// Receive queues of the interface, and so its lanes.
    queues: usize,
    hook: Option<XdpHook>,
    /// The program is that of a tap.
    is_tap: bool,
    chunk_bytes: usize,
    chunk_count: usize,
    block_bytes: usize,
    promiscuous: bool,
}

impl Setup {
    /// Checks that the interface can be captured in this way, as the plan has it.
    pub(super) fn new(plan: &InputPlan, at: usize, link: &Link) -> Result<Self> {
        let (name, lanes) = (&link.name, plan.interfaces[at].cpus.len());
        if plan.via == Via::Tap {
            return Self::of_tap(plan, lanes, link);
        }
        if link.arphrd != libc::ARPHRD_ETHER {
            return Err(Error::Plan(format!(
                "{name} is no Ethernet interface: `via` xdp captures only those"
            )));
        }
        let queues = receive_queues(name);
        if lanes != queues {
            return Err(Error::Plan(format!(
                "{name} has {queues} receive queues, and `via` xdp needs a lane for each: set `lanes` to {queues}, or the \
                 queues to {lanes} with 'ethtool -L {} combined {lanes}'",
                quote(name)
            )));
        }
        let frame_bytes = (link.mtu + OVER_MTU_BYTES) as usize;
        let chunk_bytes = chunk_bytes(frame_bytes).ok_or_else(|| {
            Error::Plan(format!(
                "{name} has an MTU of {}: `via` xdp stores frames up to {RX_FRAME_BYTES_MAX} bytes, and cuts none: lower \
                 the MTU to {} or capture by `via` packet",
                link.mtu,
                RX_FRAME_BYTES_MAX - OVER_MTU_BYTES as usize
            ))
        })?;
        if link.kind != "veth" && takes_tags_off(name) {
            return Err(Error::Plan(format!(
                "{name} takes VLAN tags off frames, where XDP does not see them: keep them with 'ethtool -K {} rxvlan off', or \
                 capture by `via` packet",
                quote(name)
            )));
        }
        if !plan.take_from_host {
            refuse_addresses(link)?;
        }
        let wanted = plan.ring_bytes / chunk_bytes;
        let chunk_count = wanted.clamp(*CHUNKS.start(), *CHUNKS.end());
        Ok(Self {
            link: link.clone(),
            queues,
            hook: (plan.via == Via::XdpGeneric).then_some(XdpHook::Generic),
            is_tap: false,
            chunk_bytes,
            // A power of two.
            chunk_count: 1 << chunk_count.ilog2(),
            block_bytes: plan.block_bytes,
            promiscuous: plan.promiscuous,
        })
    }

    /// The tap has checked the port, and has made the memory: a ring for all receive queues.
    fn of_tap(plan: &InputPlan, lanes: usize, link: &Link) -> Result<Self> {
        if lanes != 1 {
            let name = &link.name;
            return Err(Error::Plan(format!("{name}: the ring of a tap has one reader: leave `lanes` at 1")));
        }
        Ok(Self {
            link: link.clone(),
            queues: 1,
            hook: None,
            is_tap: true,
            chunk_bytes: 0,
            chunk_count: 0,
            block_bytes: plan.block_bytes,
            promiscuous: plan.promiscuous,
        })
    }

    /// Warnings for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        if self.is_tap {
            return Vec::new();
        }
        let name = &self.link.name;
        let mut notes = vec![format!(
            "{name}: AF_XDP takes all received packets from this machine: its programs and other captures do not receive \
             them until the end, and packets that {name} sends are not captured"
        )];
        if self.link.kind == "veth" {
            notes.push(format!(
                "{name}: a VLAN interface on the other end of this veth hands its tags over beside the frames, where XDP \
                 does not see them: turn that off there with 'ethtool -K PEER txvlan off'"
            ));
        }
        notes
    }
}

/// The number of receive queues, as the kernel lists them.
fn receive_queues(name: &str) -> usize {
    let listed = std::fs::read_dir(Path::new("/sys/class/net").join(name).join("queues"));
    let listed = listed.map(|queues| {
        queues.flatten().filter(|queue| queue.file_name().as_encoded_bytes().starts_with(b"rx-")).count()
    });
    // sysfs may be that of another network namespace.
    ethtool::receive_queues(name).or(listed.ok()).filter(|queues| *queues > 0).unwrap_or(1)
}

fn takes_tags_off(name: &str) -> bool {
    Card::read(name).features.unwrap_or_default().get(RX_VLAN).is_some_and(|feature| feature.is_on)
}

/// Refuses an interface by which this machine is reached.
fn refuse_addresses(link: &Link) -> Result<()> {
    let is_routed = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    let addresses = Rtnl::open()?.addresses()?;
    let own = addresses.iter().find(|address| address.index == link.index && is_routed(&address.ip));
    own.map_or(Ok(()), |address| {
        Err(Error::Plan(format!(
            "{} has the address {}: `via` xdp takes its packets from this machine, which is not reached by it meanwhile; \
             give `take-from-host` if that is intended, or capture by `via` packet",
            link.name, address.ip
        )))
    })
}

impl XdpGroup {
    /// Opens the socket of the next lane, or the ring of a tap. Returns its receive queue.
    fn open(&self, setup: &Setup) -> Result<(Receiver, u32)> {
        let (mut state, link) = (self.state(), &setup.link);
        let queue = state.joined as u32;
        state.joined += 1;
        if setup.is_tap {
            // Looked up again: the program is younger than the tap's ports.
            let now = Rtnl::open()?.link(&link.name)?;
            state.program = Some(Program::Tap(TapCounters::open(&now)?));
            state.mode = "native, ring of a tap".into();
            return Ok((Receiver::Tap(TapRing::open(&now)?), queue));
        }
        if state.program.is_none() {
            // Looked up again: another program may have come meanwhile.
            let now = Rtnl::open()?.link(&link.name)?;
            let redirect = XdpRedirect::attach(&now, setup.queues as u32, setup.hook)?;
            state.program = Some(Program::Capture(redirect));
            state.promiscuous = setup.promiscuous.then(|| hold_promiscuous(link.index)).transpose()?;
        }
        let redirect = match &state.program {
            Some(Program::Capture(redirect)) => redirect,
            Some(Program::Tap(_)) | None => return Err(Error::Defect("a lane without a program".into())),
        };
        let is_native = redirect.hook() == XdpHook::Native;
        let (chunk_bytes, chunks) = (setup.chunk_bytes, setup.chunk_count as u32);
        let socket = XdpRx::open((link.index, &link.name, queue), chunk_bytes, chunks, is_native)?;
        redirect.set(queue, &socket)?;
        let hook = if is_native { "native" } else { "generic" };
        let copy = if socket.mode() == XdpMode::ZeroCopy { "zero-copy" } else { "copy" };
        state.mode = format!("{hook}, {copy}");
        Ok((Receiver::Socket(socket), queue))
    }

    fn start(&self, link: &Link) -> Result<()> {
        match &self.state().program {
            Some(Program::Capture(redirect)) => redirect.start(),
            Some(Program::Tap(counters)) => counters.start(link)?,
            None => {}
        }
        Ok(())
    }

    /// The action by which another program displaced ours, if it is not attached any more; the first that was found.
    fn displaced(&self, now: &Link) -> Option<String> {
        let mut state = self.state();
        if state.displaced.is_none() {
            let found = state.program.as_ref().and_then(|program| program.displaced(now));
            state.displaced = found.map(|words| (wall_ns(), words));
        }
        state.displaced.as_ref().map(|(_, words)| words.clone())
    }

    /// Notes how many receive queues the interface has now; returns the most without a lane so far.
    fn note_queues(&self, setup: &Setup) -> usize {
        let now = ethtool::receive_queues(&setup.link.name).unwrap_or(0);
        let mut state = self.state();
        state.added_queues = state.added_queues.max(now.saturating_sub(setup.queues));
        state.added_queues
    }

    /// Has all lanes receive nothing more. When this returns, what was counted is in their rings or lost.
    fn close(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_closed, true)
            && let Some(program) = &state.program
        {
            program.stop();
        }
    }

    /// A lane has ended, which received so many frames. Returns the sums of the interface if it is the last one.
    fn finish(&self, received: u64, drops: XdpDrops, setup: &Setup) -> Result<Option<XdpTally>> {
        let mut state = self.state();
        state.ended += 1;
        state.received += received;
        state.drops = add(state.drops, drops);
        if state.ended < setup.queues {
            return Ok(None);
        }
        let counts = state.program.as_ref().map(Program::counts).unwrap_or_default();
        let mut tally = account(counts, state.received, state.drops, &setup.link.name)?;
        (tally.mode, tally.queues) = (state.mode.clone(), setup.queues as u64);
        tally.added_queues = state.added_queues as u64;
        tally.displaced_ns = state.displaced.as_ref().map_or(0, |(time_ns, _)| *time_ns);
        // A program of our own goes before the report says that the capture has ended.
        (state.program, state.promiscuous) = (None, None);
        Ok(Some(tally))
    }

    /// Ignores poisoning: a lane that panicked ends the run.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(one: XdpDrops, other: XdpDrops) -> XdpDrops {
    XdpDrops {
        ring_full: one.ring_full + other.ring_full,
        fill_empty: one.fill_empty + other.fill_empty,
        other: one.other + other.other,
        starved: one.starved + other.starved,
        invalid: one.invalid + other.invalid,
    }
}

fn lost(drops: &XdpDrops) -> u64 {
    drops.ring_full + drops.fill_empty + drops.other
}

/// The fate of each frame that the program saw.
///
/// # Errors
/// There are more fates than frames, or the kernel found entries in a fill ring that are no chunks.
fn account(counts: XdpCounts, received: u64, drops: XdpDrops, interface: &str) -> Result<XdpTally> {
    let XdpCounts { seen, passed } = counts;
    let known = received + lost(&drops) + passed;
    let Some(unexplained) = seen.checked_sub(known).filter(|_| drops.invalid == 0) else {
        return Err(Error::Defect(format!(
            "the XDP program saw {seen} packets on {interface}; {received} were received, {passed} passed, and the sockets \
             count {drops:?}"
        )));
    };
    Ok(XdpTally {
        seen,
        received,
        ring_full: drops.ring_full,
        fill_empty: drops.fill_empty,
        dropped: drops.other + unexplained,
        unexplained,
        passed,
        starved: drops.starved,
        ..XdpTally::default()
    })
}

/// The parameters of [`Xdp::open`].
#[derive(Debug)]
pub(super) struct Opening {
    pub setup: Setup,
    pub group: XdpGroup,
    /// The number of the interface among those of the run.
    pub number: u16,
    /// Raised when the interface is removed and the run needs it, as `links` says.
    pub stop: Stop,
    pub links: Links,
    pub gauges: Arc<LaneGauges>,
}

/// A lane of an interface.
#[derive(Debug)]
pub(super) struct Xdp {
    receiver: Receiver,
    group: XdpGroup,
    setup: Setup,
    number: u16,
    live: LiveLink,
    wakeup: Wakeup,
    watch: DownWatch,
    queue: u32,
    /// From monotonic to wall-clock time, to be added with wrapping.
    offset_ns: u64,
    /// Frames that were read, and the drops that are in the counts so far.
    read: u64,
    counted: u64,
    /// Drops, each with the number of the frame that they precede.
    places: VecDeque<(u64, u64)>,
    /// Drops that were not reported to the lane yet.
    unreported: u64,
    polled_ns: u64,
    is_closed: bool,
    has_read: bool,
    was_starved: bool,
}

impl Xdp {
    /// Opens the socket: packets are captured from here on, or with the last lane of the interface. `wakeup` ends a
    /// wait.
    pub(super) fn open(opening: Opening, wakeup: Wakeup) -> Result<Self> {
        let Opening { setup, group, number, stop, links, gauges } = opening;
        let mut rtnl = Rtnl::open()?;
        let watch = DownWatch::open(setup.link.index, &setup.link.name)?;
        let (receiver, queue) = group.open(&setup)?;
        // With the last lane the capture begins.
        let is_last = queue as usize + 1 == setup.queues;
        let mut counters = is_last.then(|| LinkCounters::open(&setup.link, &mut rtnl)).transpose()?;
        if let Some(counters) = &mut counters {
            group.start(&setup.link)?;
            counters.restart_rx_dropped(&mut rtnl)?;
        }
        let mut live = LiveLink::new(setup.link.clone(), rtnl, counters, gauges, links, stop);
        live.tally.ring_blocks = (receiver.memory_bytes() / setup.block_bytes) as u64;
        Ok(Self {
            receiver,
            group,
            setup,
            number,
            live,
            wakeup,
            watch,
            queue,
            offset_ns: epoch_offset_ns(),
            read: 0,
            counted: 0,
            places: VecDeque::new(),
            unreported: 0,
            polled_ns: steady_ns(),
            is_closed: false,
            has_read: false,
            was_starved: false,
        })
    }

    /// Describes the next frames, up to the place of a loss; `false` without one.
    fn walk(&mut self, frames: &mut Vec<Frame>) -> Result<bool> {
        frames.clear();
        while let Some((_, drops)) = self.places.pop_front_if(|(before, _)| *before <= self.read) {
            self.unreported += drops;
        }
        let until = self.places.front().map_or(u64::MAX, |(before, _)| before - self.read);
        let most = until.min(u64::from(BATCH_FRAMES)) as usize;
        let (number, offset_ns) = (self.number, self.offset_ns);
        let (mut now_ns, mut wire_bytes) = (0, 0u64);
        self.receiver.read(most, |frame| {
            wire_bytes += u64::from(frame.len);
            let time_ns = match frame.steady_ns {
                Some(steady_ns) => steady_ns.wrapping_add(offset_ns),
                None => {
                    // One time for the batch.
                    now_ns = if now_ns == 0 { wall_ns() } else { now_ns };
                    now_ns
                }
            };
            frames.push(Frame {
                time_ns,
                start: frame.start,
                len: frame.len,
                wire_len: frame.len,
                keep: u32::MAX,
                interface: number,
                ..Frame::default()
            });
        })?;
        self.read += frames.len() as u64;
        let largest = self.live.frame_bytes_max();
        self.live.tally.oversize += frames.iter().filter(|frame| frame.len > largest).count() as u64;
        self.live.gauges.received.set(self.read);
        self.live.gauges.wire_bytes.set(self.live.gauges.wire_bytes.get() + wire_bytes);
        Ok(!frames.is_empty())
    }

    /// Notes how much memory is in use.
    fn note_level(&mut self) {
        let blocks = self.receiver.used_bytes().div_ceil(self.setup.block_bytes) as u64;
        if blocks > self.live.tally.ring_high_blocks {
            self.live.tally.ring_high_blocks = blocks;
            self.live.gauges.ring_high.set(blocks);
        }
    }

    /// Drops since the last call.
    fn new_drops(&mut self) -> Result<u64> {
        let all = lost(&self.receiver.drops()?);
        let new = all - self.counted;
        self.counted = all;
        self.live.tally.kernel_dropped = all;
        self.live.gauges.kernel_dropped.set(all);
        Ok(new)
    }

    /// Drops until now precede the frame that comes next.
    fn place_drops(&mut self) -> Result<()> {
        let drops = self.new_drops()?;
        if drops > 0 {
            self.live.tally.ring_freezes += 1;
            let before = self.read + u64::from(self.receiver.ready());
            self.places.push_back((before, drops));
        }
        Ok(())
    }

    fn poll_when_due(&mut self) -> Result<()> {
        if steady_ns().saturating_sub(self.polled_ns) < SECOND_NS {
            return Ok(());
        }
        self.place_drops()?;
        let offset_ns = epoch_offset_ns();
        if offset_ns.wrapping_sub(self.offset_ns).min(self.offset_ns.wrapping_sub(offset_ns)) > STEP_NS {
            self.offset_ns = offset_ns;
        }
        self.look_at_link();
        self.live.show_drops();
        self.polled_ns = steady_ns();
        Ok(())
    }

    /// The socket reports neither that the interface is down nor, without a wait, that it is gone.
    fn look_at_link(&mut self) {
        let LiveLink { rtnl, counters, .. } = &mut self.live;
        if let Some(counters) = counters {
            // An interface that is gone is found below.
            let _ = counters.read(rtnl);
        }
        if self.queue == 0 {
            self.live.gauges.added_queues.set(self.group.note_queues(&self.setup) as u64);
        }
        // Before the state, so that what is found between the two is cleared there.
        let went_down = self.watch.take_down();
        match self.live.rtnl.link(&self.setup.link.name) {
            Ok(link) if link.index != self.setup.link.index => self.gone(),
            Ok(link) => self.look_at(&link, went_down),
            Err(error) if error.raw() == libc::ENODEV => self.gone(),
            Err(_) => {}
        }
    }

    fn look_at(&mut self, now: &Link, went_down: bool) {
        self.live.link.mtu = now.mtu;
        if went_down || (!now.up && self.live.down_since_ns.is_none()) {
            self.live.count_down();
        }
        match now.up {
            true => self.live.note_up(),
            false => {
                self.watch.take_down();
                self.live.note_down();
            }
        }
        if let Some(words) = self.group.displaced(now) {
            self.end_displaced(words);
        }
    }

    /// Ends the lane, whose program another one has detached or replaced, and the run if it needs the interface.
    fn end_displaced(&mut self, words: String) {
        if self.is_closed {
            return;
        }
        let reason = Reason::Failed(format!("{}: {words}", self.setup.link.name));
        // Set once.
        let _ = self.live.gauges.displaced.set(words);
        self.live.lose(reason);
        let _ = self.close();
    }

    /// Ends the lane, and the run if it needs the interface.
    fn gone(&mut self) {
        if self.is_closed {
            return;
        }
        self.live.note_removed("was removed");
        let _ = self.close();
    }

    fn wait(&mut self, wait: Duration) -> Result<()> {
        if std::mem::take(&mut self.has_read) {
            sleep_until(steady_ns() + GATHER_NS);
            return Ok(());
        }
        match self.receiver.wait(&self.wakeup, wait)? {
            WaitOutcome::Gone(_) => self.gone(),
            WaitOutcome::Check | WaitOutcome::Down => {}
        }
        Ok(())
    }
}

impl Source for Xdp {
    fn pull(&mut self, frames: &mut Vec<Frame>, wait: Duration) -> Result<Pull> {
        self.poll_when_due()?;
        if !self.walk(frames)? {
            if !self.is_closed {
                self.wait(wait)?;
            }
            if !self.walk(frames)? {
                if !self.is_closed {
                    return Ok(Pull::Idle);
                }
                self.live.settle();
                self.unreported += self.new_drops()?;
                return Ok(Pull::End);
            }
        }
        self.has_read = true;
        self.note_level();
        Ok(Pull::Batch)
    }

    fn bytes(&self) -> &[u8] {
        self.receiver.bytes()
    }

    fn release(&mut self) {
        // While none is free, packets are dropped: what they are numbered after is known now, not later.
        let is_starved = self.receiver.is_starved();
        if is_starved || self.was_starved {
            // The counters are read again each second.
            let _ = self.place_drops();
        }
        // Packets may be dropped until the release.
        self.was_starved = is_starved;
        self.receiver.release();
    }

    fn is_nearly_full(&self) -> bool {
        self.receiver.is_nearly_full()
    }

    fn close(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_closed, true) {
            // For what has happened since the last look: it ends nothing any more, and is counted.
            self.look_at_link();
            self.group.close();
        }
        Ok(())
    }

    fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.unreported)
    }

    fn count(&self, counts: &mut Counts) {
        self.live.count(counts);
    }

    /// The program must have counted the frames that were read, those that the sockets dropped, and those that passed.
    fn finish(mut self: Box<Self>) -> Result<SourceTally> {
        self.new_drops()?;
        let drops = self.receiver.drops()?;
        let Self { mut live, group, setup, read, .. } = *self;
        let all = group.finish(read, drops, &setup)?;
        live.take_drops();
        if let Some(xdp) = &all {
            // Neither is in a counter of a socket.
            live.tally.kernel_dropped += xdp.unexplained + xdp.passed;
            if setup.link.kind == "veth" && !setup.is_tap {
                explain(&mut live.tally.link, xdp.lost());
            }
        }
        live.tally.xdp = all;
        let dropped = live.tally.kernel_dropped;
        Ok(live.finish(read + dropped))
    }
}

/// Takes the packets that sockets dropped off the counters of the driver, which has them as well: veth counts a
/// redirection that failed as a drop (`veth_xdp_rcv_one`).
fn explain(link: &mut LinkDrops, lost: u64) {
    let both = lost.min(link.rx_dropped_by_driver);
    link.rx_dropped_by_driver -= both;
    link.rx_dropped -= both;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_has_one_fate() {
        let drops = XdpDrops { ring_full: 1, fill_empty: 20, other: 3, starved: 7, invalid: 0 };
        let tally = account(XdpCounts { seen: 130, passed: 4 }, 100, drops, "eth0").expect("it adds up");
        assert_eq!((tally.dropped, tally.unexplained, tally.lost()), (5, 2, 26));
        assert_eq!(tally.seen, tally.accounted());
        let defect = account(XdpCounts { seen: 127, passed: 4 }, 100, drops, "eth0").expect_err("too few");
        assert!(
            defect.to_string().contains("saw 127 packets on eth0; 100 were received, 4 passed"),
            "{defect}"
        );
        let invalid = XdpDrops { invalid: 1, ..drops };
        assert!(account(XdpCounts { seen: 130, passed: 4 }, 100, invalid, "eth0").is_err());
    }

    #[test]
    fn a_failed_redirection_is_not_a_drop_before_the_program() {
        let mut link = LinkDrops { rx_dropped: 30, rx_dropped_by_driver: 25, ..LinkDrops::default() };
        explain(&mut link, 20);
        assert_eq!((link.rx_dropped, link.rx_dropped_by_driver), (10, 5));
        explain(&mut link, 20);
        assert_eq!((link.rx_dropped, link.rx_dropped_by_driver), (5, 0));
    }
}
