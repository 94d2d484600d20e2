//! Gives each frame to a member of a bundle, so that what belongs together stays together.
//!
//! A frame is marked with its member ([`Frame::set_member`]) and not otherwise changed. Fragments whose
//! datagram's first one has not come yet are held back; when it comes, they go just in front of it.
//!
//! | room | what it does |
//! |---|---|
//! | [`balance`] | what each member got, when, and in which conversations |
//! | [`held`] | fragments that wait |
//! | [`recent`] | what was seen lately, in bounded memory |

mod balance;
mod held;
mod recent;

pub use balance::{Balance, Conversation, PEAK_WINDOWS_NS, Peak, Share};

use super::Stage;
use crate::batch::{Batch, Frame};
use crate::tally::Removed;
use held::Held;
use quaff_file::interfaces::Interfaces;
use quaff_os::stop::Stop;
use quaff_wire::flow::{FlowKey, mix};
use quaff_wire::split::{Completeness, DatagramId, FrameFlow, Rendezvous, SplitFields, frame_flow};
use quaff_wire::tunnel::TunnelKinds;
use recent::Recent;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a datagram is remembered after its last fragment, ns: at least this, at most twice.
/// Numbers of datagrams come round; with a fast sender within seconds.
const DATAGRAM_NS: u64 = 2_000_000_000;
/// Datagrams that are remembered at least.
const DATAGRAMS: usize = 1 << 14;
/// The MAC addresses of a conversation are remembered as long as there is room.
const MACS_NS: u64 = u64::MAX / 4;
/// Conversations whose MAC addresses are remembered at least.
const CONVERSATIONS: usize = 1 << 18;

/// How frames are sorted.
#[derive(Debug, Clone)]
pub struct Sorting {
    /// By what.
    pub by: SplitFields,
    /// The tunnels that are looked into.
    pub kinds: TunnelKinds,
    /// How many in each other.
    pub depth: u8,
    /// So that bundles behind one another sort differently.
    pub seed: u64,
}

/// Whether a member of a bundle is there. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct Presence {
    /// Raised when it is gone for good.
    pub stop: Stop,
    /// Set while it is away, and may come back. Nothing is published through it: Relaxed.
    is_away: Arc<AtomicBool>,
}

impl Presence {
    /// Notes whether it is away.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// Whether it takes frames.
    pub fn is_here(&self) -> bool {
        !self.is_away.load(Ordering::Relaxed) && !self.stop.raised()
    }
}

/// What the lanes of one run know together.
#[derive(Debug)]
pub struct Knowledge {
    datagrams: Mutex<Recent<FlowKey>>,
    macs: Mutex<Recent<u64>>,
    balance: Mutex<Balance>,
}

impl Knowledge {
    /// Nothing yet, of a bundle of so many members.
    pub fn new(members: usize) -> Self {
        Self {
            datagrams: Mutex::new(Recent::new(DATAGRAM_NS, DATAGRAMS)),
            macs: Mutex::new(Recent::new(MACS_NS, CONVERSATIONS)),
            balance: Mutex::new(Balance::new(members)),
        }
    }

    /// What each member got so far.
    pub fn balance(&self) -> MutexGuard<'_, Balance> {
        open(&self.balance)
    }
}

/// What is in it is whole between any two statements, so a panic elsewhere has not broken it.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts the frames of a lane.
pub struct Split {
    sorting: Sorting,
    bundle: Rendezvous,
    members: Vec<Presence>,
    knowledge: Arc<Knowledge>,
    interfaces: Interfaces,
    /// Link types of the interfaces, by number.
    linktypes: Vec<u16>,
    held: Held,
    /// The batch as it came, and as it went.
    came: Vec<Frame>,
    given: Vec<Given>,
}

/// A frame that was given to a member.
#[derive(Debug)]
struct Given {
    member: usize,
    conversation: u64,
    key: FlowKey,
    time_ns: u64,
    bytes: u32,
}

impl Split {
    /// A stage for the frames of these interfaces.
    pub fn new(
        sorting: Sorting,
        bundle: Rendezvous,
        members: Vec<Presence>,
        knowledge: Arc<Knowledge>,
        interfaces: Interfaces,
    ) -> Self {
        Self {
            sorting,
            bundle,
            members,
            knowledge,
            interfaces,
            linktypes: Vec::new(),
            held: Held::default(),
            came: Vec::new(),
            given: Vec::new(),
        }
    }

    /// Looks who is there.
    fn look(&mut self) {
        for (number, member) in self.members.iter().enumerate() {
            let is_here = member.is_here();
            if is_here != self.bundle.is_here(number) {
                self.bundle.set_here(number, is_here);
            }
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

    /// Finds out where a frame belongs. It goes on in `batch`, with those that waited for it, or waits.
    fn take(&mut self, frame: Frame, batch: &mut Batch<'_>, removed: &mut Removed) {
        let linktype = self.linktype(frame.interface);
        let bytes = batch.memory().of(&frame);
        let sorting = &self.sorting;
        let found = frame_flow(bytes, frame.wire_len, linktype, sorting.by, (sorting.kinds, sorting.depth));
        let key = match found.what {
            Completeness::Whole => found.key,
            Completeness::Quoted(datagram) => self.first_of(number(&datagram), &frame).unwrap_or(found.key),
            Completeness::First(datagram) => {
                let datagram = number(&datagram);
                open(&self.knowledge.datagrams).insert(datagram, found.key, frame.time_ns);
                while let Some((early, bytes, late)) = self.held.take(datagram) {
                    let early = lay(early, &bytes, batch);
                    self.pass(early, FrameFlow { key: found.key, ..late }, batch, removed);
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
        self.pass(frame, FrameFlow { key, ..found }, batch, removed);
    }

    /// The conversation of a datagram whose first fragment was seen.
    fn first_of(&self, datagram: u64, frame: &Frame) -> Option<FlowKey> {
        open(&self.knowledge.datagrams).get(datagram, frame.time_ns)
    }

    /// Fragments that have waited long enough go by what they say themselves.
    fn expire(&mut self, now_ns: u64, is_last: bool, batch: &mut Batch<'_>, removed: &mut Removed) {
        while let Some((datagram, frame, bytes, found)) = self.held.take_expired(now_ns, is_last) {
            // Another lane may have seen the first one meanwhile.
            let key = self.first_of(datagram, &frame).unwrap_or(found.key);
            let frame = lay(frame, &bytes, batch);
            self.pass(frame, FrameFlow { key, ..found }, batch, removed);
        }
    }

    /// Gives a frame to its member.
    #[inline]
    fn pass(&mut self, mut frame: Frame, found: FrameFlow, batch: &mut Batch<'_>, removed: &mut Removed) {
        let conversation = found.key.hash(self.sorting.seed);
        let hash = match found.key {
            FlowKey::Addresses(_) | FlowKey::Ports { .. } if self.sorting.by.macs => {
                mix(conversation, self.macs(conversation, &found, frame.time_ns))
            }
            _ => conversation,
        };
        let Some(member) = self.bundle.member(hash) else {
            // Nobody is left to take it.
            removed.after_count += 1;
            return;
        };
        frame.set_member(member as u8);
        let tag_bytes = if frame.tpid == 0 { 0 } else { 4 };
        let bytes = frame.wire_len + tag_bytes;
        self.given.push(Given { member, conversation, key: found.key, time_ns: frame.time_ns, bytes });
        batch.frames.push(frame);
    }

    /// The MAC addresses that count for a conversation: those of its first frame, since the way back
    /// may go through another router.
    fn macs(&self, conversation: u64, found: &FrameFlow, time_ns: u64) -> u64 {
        let mut macs = open(&self.knowledge.macs);
        macs.get(conversation, time_ns).unwrap_or_else(|| {
            let own = found.macs.map_or(0, |own| FlowKey::Macs(own).hash(self.sorting.seed));
            macs.insert(conversation, own, time_ns);
            own
        })
    }
}

impl Split {
    /// Counts what was given, of the whole batch at once: lanes wait for each other here.
    fn count(&mut self) {
        let mut balance = self.knowledge.balance();
        for given in self.given.drain(..) {
            balance.count(given.member, given.conversation, &given.key, given.time_ns, given.bytes);
        }
    }
}

/// Puts a frame that was held into the batch's memory.
fn lay(frame: Frame, bytes: &[u8], batch: &mut Batch<'_>) -> Frame {
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
    fn pass(&mut self, batch: &mut Batch<'_>, removed: &mut Removed) {
        self.look();
        let mut came = std::mem::take(&mut self.came);
        std::mem::swap(batch.frames, &mut came);
        batch.frames.clear();
        for frame in &came {
            if !self.held.is_empty() {
                self.expire(frame.time_ns, false, batch, removed);
            }
            self.take(*frame, batch, removed);
        }
        // Where something came, its own times say how late it is, whatever the pieces that it came in.
        if came.is_empty() || batch.is_last {
            self.expire(batch.now_ns, batch.is_last, batch, removed);
        }
        self.came = came;
        self.count();
    }

    fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests;
