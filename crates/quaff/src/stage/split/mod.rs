//! The assignment of frames to the members of a split: each to a member of a bundle, so that all frames of a
//! conversation go to the same member. The same file is split the same way, in whatever pieces it is read.
//!
//! A frame is marked with its member ([`Frame::set_member`]) and not changed otherwise. Fragments that arrive before
//! the first one of their datagram are held back and passed directly before it; those that follow frames of later times
//! at their member are counted.
//!
//! | module | task |
//! |---|---|
//! | [`balance`] | counts frames, peaks and conversations of each member |
//! | [`held`] | holds fragments back |
//! | [`recent`] | remembers recent keys in bounded memory |
//! | [`rendezvous`] | the member that owns a conversation |

mod balance;
mod held;
mod recent;
mod rendezvous;

pub(crate) use balance::{Balance, Conversation, PEAK_WINDOWS_NS, Peak, Share};
pub(crate) use rendezvous::{MEMBERS_MAX, Rendezvous, WEIGHTS_MAX};

use super::Stage;
use crate::batch::{Batch, Frame};
use crate::tally::LaneTally;
use held::Held;
use quaff_file::Interfaces;
use quaff_os::Stop;
use quaff_wire::flow::{FlowKey, mix};
use quaff_wire::net::DatagramId;
use quaff_wire::split::{Completeness, FrameFlow, SplitFields, frame_flow};
use quaff_wire::tunnel::TunnelKinds;
use recent::Recent;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Minimum time for which a datagram is remembered after its last fragment, ns; the maximum is twice that. A fast
/// sender reuses the IDs of datagrams within seconds.
const DATAGRAM_NS: u64 = 2_000_000_000;
/// Minimum number of datagrams that are remembered.
const DATAGRAMS: usize = 1 << 14;
/// MAC addresses of conversations are remembered until the memory limit.
const MACS_NS: u64 = u64::MAX / 4;
/// Minimum number of conversations whose MAC addresses are remembered.
const CONVERSATIONS: usize = 1 << 18;

/// The criteria for the assignment of frames.
#[derive(Debug, Clone)]
pub struct Sorting {
    pub by: SplitFields,
    /// Tunnels whose inner frames are used.
    pub kinds: TunnelKinds,
    /// Maximum depth of nested tunnels.
    pub depth: u8,
    /// Differs between bundles in sequence, so that they assign differently.
    pub seed: u64,
}

/// The availability of a member of a bundle. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence {
    /// Raised when it has ended.
    pub stop: Stop,
    /// Set by the member's writer while it is temporarily unavailable, read by the lanes. Relaxed: it publishes no
    /// other data.
    is_away: Arc<AtomicBool>,
}

impl Presence {
    /// Sets whether it is temporarily unavailable.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Returns whether it accepts frames.
    pub(crate) fn is_here(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed) && !self.stop.raised()
    }
}

/// The state that the lanes of a run share.
#[derive(Debug)]
pub(crate) struct Knowledge {
    datagrams: Mutex<Recent<FlowKey>>,
    macs: Mutex<Recent<u64>>,
    balance: Mutex<Balance>,
}

impl Knowledge {
    /// The initial state for `members` members.
    pub(crate) fn new(members: usize) -> Self {
        Self {
            datagrams: Mutex::new(Recent::new(DATAGRAM_NS, DATAGRAMS)),
            macs: Mutex::new(Recent::new(MACS_NS, CONVERSATIONS)),
            balance: Mutex::new(Balance::new(members)),
        }
    }

    /// The counts of the members so far.
    pub(crate) fn balance(&self) -> MutexGuard<'_, Balance> {
        lock(&self.balance)
    }
}

/// Locks a mutex. A panic of another thread leaves the contents consistent, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The split stage of a lane.
pub(crate) struct Split {
    sorting: Sorting,
    bundle: Rendezvous,
    members: Vec<Presence>,
    knowledge: Arc<Knowledge>,
    interfaces: Interfaces,
    /// Link types of the interfaces, by number.
    linktypes: Vec<u16>,
    held: Held,
    /// Time of the latest frame assigned to each member, ns since 1970.
    latest_ns: Vec<u64>,
    /// Held fragments of the batch that follow a frame of a later time at their member.
    delayed: u64,
    /// The frames of the batch before the assignment.
    arrived: Vec<Frame>,
    assigned: Vec<Assigned>,
}

/// The counts of one assigned frame.
#[derive(Debug)]
struct Assigned {
    member: usize,
    conversation: u64,
    key: FlowKey,
    time_ns: u64,
    bytes: u32,
}

impl Split {
    /// A stage for the frames of these interfaces.
    pub(crate) fn new(
        sorting: Sorting,
        bundle: Rendezvous,
        members: Vec<Presence>,
        knowledge: Arc<Knowledge>,
        interfaces: Interfaces,
    ) -> Self {
        let count = members.len();
        Self {
            sorting,
            bundle,
            members,
            knowledge,
            interfaces,
            linktypes: Vec::new(),
            held: Held::default(),
            latest_ns: vec![0; count],
            delayed: 0,
            arrived: Vec::new(),
            assigned: Vec::new(),
        }
    }

    /// Updates which members are available.
    fn update_members(&mut self) {
        for (number, member) in self.members.iter().enumerate() {
            self.bundle.set_here(number, member.is_here());
        }
    }

    fn linktype(&mut self, interface: u16) -> u16 {
        let at = usize::from(interface);
        while self.linktypes.len() <= at {
            let found = self.interfaces.get(self.linktypes.len() as u16);
            self.linktypes.push(found.map_or(1, |interface| interface.linktype));
        }
        self.linktypes[at]
    }

    /// Determines the conversation of a frame: assigns it and the fragments that were held back for it, or holds it
    /// back.
    fn take(&mut self, frame: Frame, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        let linktype = self.linktype(frame.interface);
        let bytes = batch.memory().of(&frame);
        let sorting = &self.sorting;
        let found = frame_flow(bytes, frame.wire_len, linktype, sorting.by, (sorting.kinds, sorting.depth));
        let key = match found.what {
            Completeness::Whole => found.key,
            Completeness::Quoted(datagram) => self.first_of(number(&datagram), &frame).unwrap_or(found.key),
            Completeness::First(datagram) => {
                let datagram = number(&datagram);
                lock(&self.knowledge.datagrams).insert(datagram, found.key, frame.time_ns);
                while let Some((early, bytes, late)) = self.held.take(datagram) {
                    self.release((early, &bytes), FrameFlow { key: found.key, ..late }, batch, tally);
                }
                found.key
            }
            Completeness::Later(datagram) => {
                let datagram = number(&datagram);
                match self.first_of(datagram, &frame) {
                    Some(key) => key,
                    None => return self.held.add(datagram, frame, bytes, found),
                }
            }
        };
        self.pass(frame, FrameFlow { key, ..found }, batch, tally);
    }

    /// The conversation of a datagram whose first fragment was seen.
    fn first_of(&self, datagram: u64, frame: &Frame) -> Option<FlowKey> {
        lock(&self.knowledge.datagrams).get(datagram, frame.time_ns)
    }

    /// Assigns fragments that have timed out by their own fields.
    fn expire(&mut self, now_ns: u64, is_last: bool, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        while let Some((datagram, frame, bytes, found)) = self.held.take_expired(now_ns, is_last) {
            // Another lane may have received the first fragment meanwhile.
            let key = self.first_of(datagram, &frame).unwrap_or(found.key);
            self.release((frame, &bytes), FrameFlow { key, ..found }, batch, tally);
        }
    }

    /// Assigns a fragment that was held back, whose frame is `bytes`.
    fn release(
        &mut self,
        (frame, bytes): (Frame, &[u8]),
        found: FrameFlow,
        batch: &mut Batch<'_>,
        tally: &mut LaneTally,
    ) {
        let frame = copy_in(frame, bytes, batch);
        let before_ns = self.pass(frame, found, batch, tally);
        self.delayed += u64::from(before_ns > frame.time_ns);
    }

    /// Assigns a frame to its member. Returns the time of the member's frame before it, or 0.
    #[inline]
    fn pass(
        &mut self,
        mut frame: Frame,
        found: FrameFlow,
        batch: &mut Batch<'_>,
        tally: &mut LaneTally,
    ) -> u64 {
        let conversation = found.key.hash(self.sorting.seed);
        let hash = match found.key {
            FlowKey::Addresses(_) | FlowKey::Ports { .. } if self.sorting.by.macs => {
                mix(conversation, self.macs(conversation, &found, frame.time_ns))
            }
            _ => conversation,
        };
        let Some(member) = self.bundle.member(hash) else {
            // No member is left.
            tally.after_count += 1;
            return 0;
        };
        frame.set_member(member as u8);
        let tag_bytes = if frame.tpid == 0 { 0 } else { 4 };
        let bytes = frame.wire_len + tag_bytes;
        self.assigned.push(Assigned { member, conversation, key: found.key, time_ns: frame.time_ns, bytes });
        batch.frames.push(frame);
        std::mem::replace(&mut self.latest_ns[member], frame.time_ns)
    }

    /// The hash of the MAC addresses of a conversation: those of its first frame, because the opposite direction may
    /// use another router.
    fn macs(&self, conversation: u64, found: &FrameFlow, time_ns: u64) -> u64 {
        let mut macs = lock(&self.knowledge.macs);
        macs.get(conversation, time_ns).unwrap_or_else(|| {
            let own = found.macs.map_or(0, |own| FlowKey::Macs(own).hash(self.sorting.seed));
            macs.insert(conversation, own, time_ns);
            own
        })
    }
}

impl Split {
    /// Counts the assigned frames of a whole batch, because the lanes share one lock.
    fn count(&mut self) {
        let mut balance = self.knowledge.balance();
        balance.delayed += std::mem::take(&mut self.delayed);
        for frame in self.assigned.drain(..) {
            balance.count(frame.member, frame.conversation, &frame.key, frame.time_ns, frame.bytes);
        }
    }
}

/// Copies a held frame to the batch's memory.
fn copy_in(frame: Frame, bytes: &[u8], batch: &mut Batch<'_>) -> Frame {
    let start = batch.scratch.len() as u32;
    batch.scratch.extend_from_slice(bytes);
    Frame { start, flags: frame.flags | Frame::SCRATCH, ..frame }
}

fn number(datagram: &DatagramId) -> u64 {
    let word = |sum, ip: &IpAddr| match ip {
        IpAddr::V4(ip) => mix(sum, u64::from(ip.to_bits())),
        IpAddr::V6(ip) => mix(mix(sum, (ip.to_bits() >> 64) as u64), ip.to_bits() as u64),
    };
    datagram.addresses.iter().fold(mix(u64::from(datagram.id), u64::from(datagram.protocol)), word)
}

impl Stage for Split {
    fn pass(&mut self, batch: &mut Batch<'_>, tally: &mut LaneTally) {
        self.update_members();
        let mut arrived = std::mem::take(&mut self.arrived);
        std::mem::swap(batch.frames, &mut arrived);
        batch.frames.clear();
        for frame in &arrived {
            if !self.held.is_empty() {
                self.expire(frame.time_ns, false, batch, tally);
            }
            self.take(*frame, batch, tally);
        }
        // Frames set the time themselves, so the result does not depend on the batches.
        if arrived.is_empty() || batch.is_last {
            self.expire(batch.now_ns, batch.is_last, batch, tally);
        }
        self.arrived = arrived;
        self.count();
    }

    fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests;
