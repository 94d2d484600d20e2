//! TCP flows that are not reassembled, and UDP flows: identified by their endpoints, ended by time, and those of TCP by
//! what both ends acknowledge ([`Connection`]).
//!
//! Time is packet time. The table is bounded: if it is full, the flow that would expire first ends early.

use quaff_stream::tracker::Ends;
use quaff_wire::net::agreement::{Connection, Numbers};
use quaff_wire::net::{TCP, initiator};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Maximum number of concurrent flows.
const FLOWS_MAX: usize = 1 << 18;
/// Idle times after which a flow ends, ns: UDP (RFC 4787 requires 2 minutes of NATs), TCP (RFC 5382), and closed TCP,
/// whose ports may then be reused.
const UDP_IDLE_NS: u64 = 120_000_000_000;
const TCP_IDLE_NS: u64 = 124 * 60 * 1_000_000_000;
const CLOSED_NS: u64 = 60_000_000_000;

/// Minimum number of stale timers before they are removed.
const STALE_MIN: usize = 1024;

/// Protocol and endpoints, the lower one first.
pub(crate) type FlowKey = (u8, Ends);

/// The table; `T` is the caller's value for a flow.
pub(crate) struct FlowTable<T> {
    index: HashMap<FlowKey, u32>,
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    /// Timers of flows, with index and number. Each flow has a valid one, at its expiry time or earlier.
    due: BinaryHeap<Reverse<(u64, u32, u64)>>,
    added: u64,
}

struct Entry<T> {
    key: FlowKey,
    number: u64,
    last_ns: u64,
    /// Time of its valid timer.
    timer_ns: u64,
    /// Its high end is the higher endpoint.
    connection: Connection,
    value: T,
}

/// A flow before its first packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Begin {
    connection: Connection,
    /// The sender of its SYN, true for the higher endpoint, if that came in the flow before.
    client: Option<bool>,
}

impl Begin {
    /// The client and the server of a flow whose first packet is from the first of `ends`.
    pub(crate) fn client_and_server(&self, key: &FlowKey, ends: Ends, packet: &Numbers) -> Ends {
        let flags = if key.0 == TCP { packet.flags } else { 0 };
        let (_, is_sender) = initiator(flags, ends.map(|end| end.port()));
        let is_of_second = match self.client {
            Some(is_high) => key.1[usize::from(is_high)] != ends[0],
            None => !is_sender,
        };
        if is_of_second { [ends[1], ends[0]] } else { ends }
    }
}

impl<T> Entry<T> {
    fn due_ns(&self) -> u64 {
        let wait_ns = match self.key.0 {
            TCP if self.connection.is_closed() => CLOSED_NS,
            TCP => TCP_IDLE_NS,
            _ => UDP_IDLE_NS,
        };
        self.last_ns.saturating_add(wait_ns)
    }

    /// False for the timer of another flow, or one that an earlier one replaced.
    fn has_timer(&self, number: u64, timer_ns: u64) -> bool {
        self.number == number && self.timer_ns == timer_ns
    }

    /// True if one endpoint is both.
    fn has_one_end(&self) -> bool {
        self.key.1[0] == self.key.1[1]
    }
}

impl<T> FlowTable<T> {
    pub(crate) fn new() -> Self {
        Self { index: HashMap::new(), slots: Vec::new(), free: Vec::new(), due: BinaryHeap::new(), added: 0 }
    }

    /// Removes and returns a flow that has expired at `now_ns`.
    pub(crate) fn take_over(&mut self, now_ns: u64) -> Option<T> {
        while let Some(Reverse((due_ns, place, number))) = self.due.peek().copied() {
            if due_ns >= now_ns {
                return None;
            }
            self.due.pop();
            let entry = self.slots[place as usize].as_mut();
            let Some(entry) = entry.filter(|entry| entry.has_timer(number, due_ns)) else { continue };
            entry.timer_ns = entry.due_ns();
            if entry.timer_ns < now_ns {
                return self.remove(place);
            }
            self.due.push(Reverse((entry.timer_ns, place, number)));
        }
        None
    }

    /// The index of the flow of a packet, or the begin of another one between its endpoints. `is_high`: the higher
    /// endpoint sent the packet.
    pub(crate) fn find(&self, key: &FlowKey, is_high: bool, packet: &Numbers) -> Result<u32, Begin> {
        let place = *self.index.get(key).ok_or_else(Begin::default)?;
        let entry = self.slots[place as usize].as_ref().ok_or_else(Begin::default)?;
        if key.0 == TCP && entry.connection.is_another(is_high, packet, entry.has_one_end()) {
            let (connection, client) = entry.connection.another(packet);
            return Err(Begin { connection, client });
        }
        Ok(place)
    }

    /// Updates a flow with a packet.
    pub(crate) fn touch(&mut self, place: u32, is_high: bool, packet: &Numbers, now_ns: u64) {
        let Some(entry) = self.slots[place as usize].as_mut() else { return };
        entry.last_ns = now_ns;
        if entry.key.0 != TCP {
            return;
        }
        entry.connection.add(is_high, packet, entry.has_one_end());
        if entry.due_ns() < entry.timer_ns {
            entry.timer_ns = entry.due_ns();
            self.due.push(Reverse((entry.timer_ns, place, entry.number)));
            self.forget_stale();
        }
    }

    /// Removes the flow that makes room for a new one with this key: one between the same endpoints, or in a full table
    /// the one that would expire first.
    pub(crate) fn take_for(&mut self, key: &FlowKey) -> Option<T> {
        if let Some(place) = self.index.get(key) {
            return self.remove(*place);
        }
        while self.index.len() >= FLOWS_MAX {
            let Reverse((due_ns, place, number)) = self.due.pop()?;
            if self.slots[place as usize].as_ref().is_some_and(|entry| entry.has_timer(number, due_ns)) {
                return self.remove(place);
            }
        }
        None
    }

    /// Adds a flow whose key is not in the table.
    pub(crate) fn insert(&mut self, key: FlowKey, begin: Begin, now_ns: u64, value: T) -> u32 {
        self.added += 1;
        let Begin { connection, .. } = begin;
        let mut entry = Entry { key, number: self.added, last_ns: now_ns, timer_ns: 0, connection, value };
        entry.timer_ns = entry.due_ns();
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.due.push(Reverse((entry.timer_ns, place, self.added)));
        self.index.insert(key, place);
        self.slots[place as usize] = Some(entry);
        self.forget_stale();
        place
    }

    /// Removes timers that are not valid once they are the majority: a closed TCP flow is removed a minute later, but
    /// its first timer is two hours ahead.
    fn forget_stale(&mut self) {
        if self.due.len() > 4 * self.index.len() + STALE_MIN {
            let slots = &self.slots;
            self.due.retain(|Reverse((due_ns, place, number))| {
                slots[*place as usize].as_ref().is_some_and(|entry| entry.has_timer(*number, *due_ns))
            });
        }
    }

    pub(crate) fn get(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.as_mut().map(|entry| &mut entry.value)
    }

    /// Returns all flows in the order of their first packets, and empties the table.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let mut entries: Vec<_> = self.slots.drain(..).flatten().collect();
        entries.sort_by_key(|entry| entry.number);
        self.index.clear();
        self.free.clear();
        self.due.clear();
        entries.into_iter().map(|entry| entry.value).collect()
    }

    fn remove(&mut self, place: u32) -> Option<T> {
        let entry = self.slots[place as usize].take()?;
        self.index.remove(&entry.key);
        self.free.push(place);
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::net::agreement::{ACK, FIN, RST, SYN};

    const S: u64 = 1_000_000_000;

    fn key(protocol: u8, port: u16) -> FlowKey {
        (protocol, [([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into()])
    }

    #[test]
    fn the_client_is_the_receiver_of_an_answer_that_comes_first() {
        let client = |protocol, port, flags| {
            let key = key(protocol, port);
            let from_server = [key.1[1], key.1[0]];
            let packet = Numbers { flags, ..Numbers::default() };
            Begin::default().client_and_server(&key, from_server, &packet)[0].port()
        };
        assert_eq!(
            [client(6, 4711, SYN | ACK), client(6, 40_000, ACK), client(17, 40_000, 0)],
            [4711, 40_000, 40_000]
        );
        assert_eq!([client(6, 4711, ACK), client(6, 40_000, SYN), client(17, 4711, 0)], [80; 3]);
    }

    #[test]
    fn flows_end_by_time_and_after_both_ends() {
        let mut table = FlowTable::new();
        let udp = table.insert(key(17, 1), Begin::default(), 0, "udp");
        let tcp = table.insert(key(6, 2), Begin::default(), 0, "tcp");
        let packet = |flags| Numbers { flags, ..Numbers::default() };
        table.touch(udp, false, &packet(0), 100 * S);
        assert_eq!(table.take_over(200 * S), None);
        assert_eq!(table.take_over(221 * S), Some("udp"));
        table.touch(tcp, false, &packet(FIN | ACK), 300 * S);
        assert_eq!(table.take_over(361 * S), None, "one direction lives");
        table.touch(tcp, true, &packet(FIN | ACK), 362 * S);
        table.touch(tcp, false, &packet(ACK), 362 * S);
        assert_eq!(table.find(&key(6, 2), false, &packet(ACK)), Ok(tcp), "late packets are its own");
        assert_eq!(table.find(&key(6, 2), false, &packet(SYN)), Err(Begin::default()));
        assert_eq!((table.take_over(400 * S), table.take_over(423 * S)), (None, Some("tcp")));
        assert!(table.index.is_empty() && table.take_over(u64::MAX).is_none());
    }

    #[test]
    fn connections_that_have_left_need_no_memory() {
        let mut table = FlowTable::new();
        // One per second for two hours, each closed at once.
        for number in 0..7200u64 {
            let key = (6, [(u32::to_be_bytes(number as u32), 1).into(), ([255, 255, 255, 255], 80).into()]);
            while table.take_over(number * S).is_some() {}
            let place = table.insert(key, Begin::default(), number * S, number);
            table.touch(place, false, &Numbers { flags: RST, ..Numbers::default() }, number * S);
        }
        assert!(table.index.len() < 70, "{}", table.index.len());
        assert!(
            table.due.len() <= 4 * 70 + STALE_MIN,
            "{} times of {} flows",
            table.due.len(),
            table.index.len()
        );
        assert_eq!(
            table.take_over(7199 * S + CLOSED_NS).map(|_| ()),
            Some(()),
            "the times of the others are left"
        );
    }

    #[test]
    fn a_reset_ends_a_flow_unless_its_sender_continues() {
        for (is_refuted, expected) in [(false, Some("tcp")), (true, None)] {
            let mut table = FlowTable::new();
            let tcp = table.insert(key(6, 1), Begin::default(), 0, "tcp");
            table.touch(tcp, true, &Numbers { flags: RST, ..Numbers::default() }, 10 * S);
            table.touch(tcp, is_refuted, &Numbers { flags: ACK, ..Numbers::default() }, 11 * S);
            assert_eq!(table.take_over(80 * S), expected);
        }
    }

    /// Resets that the next packet refutes, for an hour.
    #[test]
    fn a_connection_that_is_reset_again_and_again_has_few_timers() {
        let mut table = FlowTable::new();
        let place = table.insert(key(6, 1), Begin::default(), 0, ());
        for second in 0..3600 {
            for flags in [RST, ACK] {
                table.touch(place, false, &Numbers { flags, ..Numbers::default() }, second * S);
                assert_eq!(table.take_over(second * S), None);
            }
            table.forget_stale();
        }
        assert!(table.due.len() < 65, "{}", table.due.len());
        assert_eq!((table.take_over(3600 * S + CLOSED_NS), table.take_over(4 * 3600 * S)), (None, Some(())));
    }

    #[test]
    fn a_full_table_ends_the_flow_that_would_end_first() {
        let mut table = FlowTable::new();
        for number in 0..FLOWS_MAX as u32 + 10 {
            let key = (17, [(number.to_be_bytes(), 1).into(), ([255, 255, 255, 255], 80).into()]);
            let left = table.take_for(&key);
            assert_eq!(left, number.checked_sub(FLOWS_MAX as u32));
            table.insert(key, Begin::default(), u64::from(number), number);
        }
        assert_eq!(table.index.len(), FLOWS_MAX);
        assert_eq!(table.drain().len(), FLOWS_MAX);
    }
}
