//! The connections of a meter by address and port, within a limit.
//!
//! There is no timer: each new connection examines the next two in the table, and ends them if they have been idle long
//! enough. In a full table the longest-idle one of sixteen is evicted.

use super::direction::Direction;
use crate::key::Key;
use quaff_os::prefetch_value;
use quaff_wire::flow::FlowIndex;

/// Maximum number of connections: 64 MiB with the index.
const CONNECTIONS_MAX: u32 = 1 << 18;
/// Connections per block, which never moves.
const BLOCK: usize = 1 << 10;
/// Idle times after which a connection ends, ns: open, and closed.
const IDLE_NS: u64 = 900_000_000_000;
const CLOSED_NS: u64 = 10_000_000_000;
/// Connections that a new one examines: normally, and in a full table.
const LOOKS: usize = 2;
const LOOKS_FULL: usize = 16;

/// A connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Connection {
    pub(super) key: Key,
    /// Time of its latest packet, ns since 1970.
    pub(super) last_ns: u64,
    /// The directions of the lower and of the higher endpoint.
    pub(super) directions: [Direction; 2],
    /// Bytes declared lost in directions with data.
    pub(super) lost_bytes: u32,
    pub(super) is_used: bool,
    pub(super) is_reset: bool,
    /// True if it has fragments, truncated headers or packets out of time order: its evidence would mislead.
    pub(super) is_set_aside: bool,
    /// True after a SYN that may have begun another connection.
    pub(super) has_attempt: bool,
}

const _: () = assert!(size_of::<Connection>() <= 232);

/// The connections.
#[derive(Debug, Default)]
pub(super) struct Table {
    index: FlowIndex,
    blocks: Vec<Vec<Connection>>,
    free: Vec<u32>,
    cursor: u32,
    pub(super) secret: u64,
}

impl Connection {
    fn is_idle(&self, now_ns: u64) -> bool {
        let is_closed = self.is_reset || self.directions.iter().all(Direction::has_ended);
        let wait_ns = if is_closed { CLOSED_NS } else { IDLE_NS };
        now_ns.saturating_sub(self.last_ns) > wait_ns
    }
}

impl Table {
    /// Index of no connection.
    pub(super) const NONE: u32 = FlowIndex::NONE;

    /// Creates an empty table. `secret` keys its hash: random, and unknown to the senders of packets.
    pub(super) fn new(secret: u64) -> Self {
        Self { secret, ..Self::default() }
    }

    #[inline]
    pub(super) fn get(&self, place: u32) -> &Connection {
        &self.blocks[place as usize / BLOCK][place as usize % BLOCK]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: u32) -> &mut Connection {
        &mut self.blocks[place as usize / BLOCK][place as usize % BLOCK]
    }

    #[inline]
    fn hash(&self, key: &Key) -> u32 {
        key.hash(self.secret)
    }

    /// The connection with this key and hash; `likely` is the index that [`Self::prefetch`] returned. The key of an
    /// index that was freed since then matches no packet.
    #[inline]
    pub(super) fn find(&self, key: &Key, hash: u32, likely: u32) -> Option<u32> {
        if likely != Self::NONE && self.get(likely).key == *key {
            return Some(likely);
        }
        self.index.find(hash, |place| self.get(place).key == *key)
    }

    /// Prefetches the line of the index for this hash.
    #[inline]
    pub(super) fn prefetch_line(&self, hash: u32) {
        prefetch_value(self.index.line(hash));
    }

    /// Prefetches the connection that likely has this hash, and returns its index, or [`Self::NONE`].
    #[inline]
    pub(super) fn prefetch(&self, hash: u32) -> u32 {
        let place = self.index.first(hash);
        if place != Self::NONE {
            prefetch_value(self.get(place));
        }
        place
    }

    /// Number of indices ever used.
    pub(super) fn places(&self) -> u32 {
        let whole = self.blocks.len().saturating_sub(1) * BLOCK;
        (whole + self.blocks.last().map_or(0, Vec::len)) as u32
    }

    /// The next connections that have been idle long enough; in a full table the one to evict, and true.
    pub(super) fn leaving(&mut self, now_ns: u64) -> ([Option<u32>; LOOKS], bool) {
        let places = self.places();
        let mut leaving = [None; LOOKS];
        if places == 0 {
            return (leaving, false);
        }
        for slot in &mut leaving {
            let place = self.step(places);
            *slot = Some(place).filter(|place| self.get(*place).is_used && self.get(*place).is_idle(now_ns));
        }
        let has_room = places < CONNECTIONS_MAX || !self.free.is_empty();
        let is_full = !has_room && leaving.iter().all(Option::is_none);
        if is_full {
            let looked: [u32; LOOKS_FULL] = std::array::from_fn(|_| self.step(places));
            leaving[0] = looked.into_iter().min_by_key(|place| self.get(*place).last_ns);
        }
        self.prefetch_looks(places);
        // Both examinations may have hit the same connection.
        let [one, other] = leaving;
        ([one, other.filter(|_| other != one)], is_full)
    }

    /// Prefetches the next connections to examine, and the index lines for those that an earlier call prefetched; in a
    /// full table also the times of all that a packet may examine.
    fn prefetch_looks(&self, places: u32) {
        let mut place = self.cursor;
        for ahead in 0..2 * LOOKS {
            place = after(place, places);
            match ahead < LOOKS {
                true => self.prefetch_line(self.hash(&self.get(place).key)),
                false => prefetch_value(self.get(place)),
            }
        }
        if places == CONNECTIONS_MAX {
            for _ in 0..LOOKS_FULL {
                place = after(place, places);
                prefetch_value(&self.get(place).last_ns);
            }
        }
    }

    fn step(&mut self, places: u32) -> u32 {
        self.cursor = after(self.cursor, places);
        self.cursor
    }

    /// Adds a connection; there is room after [`Self::leaving`].
    pub(super) fn insert(&mut self, connection: Connection) -> u32 {
        let hash = connection.key.hash(self.secret);
        let place = match self.free.pop() {
            Some(place) => {
                *self.get_mut(place) = connection;
                place
            }
            None => self.push(connection),
        };
        self.index.insert(hash, place);
        place
    }

    fn push(&mut self, connection: Connection) -> u32 {
        let place = self.places();
        match self.blocks.last_mut().filter(|block| block.len() < BLOCK) {
            Some(block) => block.push(connection),
            None => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(connection);
                self.blocks.push(block);
            }
        }
        place
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, place: u32) {
        let hash = self.hash(&self.get(place).key);
        self.index.remove(hash, place);
        *self.get_mut(place) = Connection::default();
        self.free.push(place);
    }
}

/// The index after this one, cyclic.
fn after(place: u32, places: u32) -> u32 {
    if place + 1 < places { place + 1 } else { 0 }
}
