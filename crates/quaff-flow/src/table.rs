//! The table of a lane: records by key, with a hard limit, growing in small steps. [`FlowIndex`] finds them by one hash
//! for both directions.
//!
//! | module | task |
//! |---|---|
//! | [`pool`] | the records, in blocks that never move |
//! | [`hot`] | one record: key, links, state, two directions; 128 bytes |

mod hot;
mod pool;

pub(crate) use hot::{Counters, Hot, State};

use crate::key::{Keys, PacketKey};
use crate::wheel::NONE;
pub(crate) use pool::Pages;
use pool::Pool;
use quaff_os::prefetch_value;
use quaff_wire::flow::FlowIndex;

/// Bytes per flow: its record, and its share of the index when that is least full.
pub(crate) const FLOW_BYTES: u64 = 128 + 24;

/// Bytes of a meter without flows, and without its wheel: the first lines of the index, a batch.
pub(crate) const FIXED_BYTES: u64 = 64 << 10;

const _: () = assert!(NONE == FlowIndex::NONE);

/// The flows, by key.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) keys: Keys,
    index: FlowIndex,
    pub(crate) pool: Pool,
    pages: Pages,
}

impl Table {
    /// A table for at most `flows_max` flows.
    pub(crate) fn new(keys: Keys, flows_max: u32, pages: Pages) -> Self {
        Self { keys, index: FlowIndex::new(pages.of_index()), pool: Pool::new(flows_max, pages), pages }
    }

    /// Looks up `hash` in the first line of the index, which [`Self::prefetch_line`] has loaded: returns the first flow
    /// with its tag, which is nearly always that of the packet if it is known. Prefetches what is needed next: the
    /// record or the second line.
    #[inline]
    pub(crate) fn candidate(&self, hash: u32) -> u32 {
        let flow = self.index.first(hash);
        if flow != NONE {
            self.prefetch(flow);
        } else if let Some(line) = self.index.second_line(hash) {
            prefetch_value(line);
        }
        flow
    }

    /// Looks up `hash` in the second line, if [`Self::candidate`] found none.
    #[inline]
    pub(crate) fn second_candidate(&self, hash: u32) -> u32 {
        let flow = self.index.second(hash);
        self.prefetch(flow);
        flow
    }

    /// Finds the flow of a packet. `candidate` is tried first; the full key is always compared.
    #[inline]
    pub(crate) fn find(&self, of: &PacketKey, candidate: u32) -> Option<u32> {
        if candidate != NONE && self.is_flow(candidate, of) {
            return Some(candidate);
        }
        self.index.find(of.hash, |flow| self.is_flow(flow, of))
    }

    /// The record of the candidate, if it is the flow of the packet.
    #[inline]
    pub(crate) fn candidate_mut(&mut self, of: &PacketKey, candidate: u32) -> Option<&mut Hot> {
        let hot = self.pool.get_mut(candidate)?;
        let is_same = self.keys.same_network(hot.network, of.network) && self.keys.same(&hot.key, &of.key);
        is_same.then_some(hot)
    }

    #[inline]
    fn is_flow(&self, flow: u32, of: &PacketKey) -> bool {
        let is_same =
            |hot: &Hot| self.keys.same_network(hot.network, of.network) && self.keys.same(&hot.key, &of.key);
        self.pool.get(flow).is_some_and(is_same)
    }

    /// Adds a flow that is not in the table; `None` at its limit.
    pub(crate) fn insert(&mut self, of: &PacketKey) -> Option<u32> {
        let flow = self.pool.take(Hot::new(of.key, of.network))?;
        self.index.insert(of.hash, flow);
        Some(flow)
    }

    /// Removes a flow, which must not be in the wheel any more.
    pub(crate) fn remove(&mut self, flow: u32) {
        self.index.remove(self.hash(flow), flow);
        self.pool.free(flow);
    }

    fn hash(&self, flow: u32) -> u32 {
        let hot = self.pool.hot(flow);
        self.keys.hash(&hot.key, hot.network)
    }

    /// Number of flows in the table.
    pub(crate) fn flows(&self) -> u32 {
        self.pool.flows()
    }

    /// Prefetches the line of the index that [`Self::candidate`] will need.
    #[inline]
    pub(crate) fn prefetch_line(&self, hash: u32) {
        prefetch_value(self.index.line(hash));
    }

    /// Prefetches a record, if there is one with this number.
    #[inline]
    fn prefetch(&self, flow: u32) {
        if let Some(hot) = self.pool.get(flow) {
            prefetch_value(hot);
        }
    }

    /// Prefetches the line of the index that [`Self::remove`] will need.
    #[inline]
    pub(crate) fn prefetch_line_of(&self, flow: u32) {
        prefetch_value(self.index.line(self.hash(flow)));
    }

    /// Maximum lines of the index that one insertion needed.
    pub(crate) fn probes_max(&self) -> u32 {
        self.index.probes_max()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.index.memory_bytes() + self.pool.memory_bytes() + self.pages.spare_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::KeyPlan;
    use proptest::prelude::*;
    use quaff_wire::flow::FlowPacket;
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    pub(super) fn packet_key(keys: &Keys, number: u32) -> PacketKey {
        let packet = FlowPacket {
            addresses: [Ipv4Addr::from(number).into(), [10, 0, 0, 1].into()],
            ports: [number as u16, 80],
            protocol: 6,
            tos: 0,
            ttl: 64,
            tcp_flags: 0,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            ip_bytes: 40,
            fragment: None,
            ip_offset: 0,
            transport: 0,
            end: 0,
            room: u32::MAX,
        };
        keys.key(&packet, 0, 0)
    }

    proptest! {
        /// Inserts and removes few and many keys, and compares with a map. Some hashes are made equal.
        #[test]
        fn the_table_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u32..900), 1..3000), bits in prop::sample::select(vec![2u32, 6, 32])) {
            let mut table = Table::new(Keys::new(KeyPlan::default(), true, [5, 6]), 700, Pages::Small);
            let mut model = BTreeMap::new();
            // With a hash of few bits nearly all keys share lines and tags.
            let key = |table: &Table, number| {
                let of = packet_key(&table.keys, number);
                PacketKey { hash: of.hash >> (32 - bits), ..of }
            };
            for (is_insert, number) in steps {
                let of = key(&table, number);
                let found = table.find(&of, table.candidate(of.hash));
                prop_assert_eq!(found, model.get(&number).copied());
                match (found, is_insert) {
                    (None, true) => {
                        let flow = table.insert(&of);
                        prop_assert_eq!(flow.is_none(), model.len() == 700);
                        model.extend(flow.map(|flow| (number, flow)));
                    }
                    (Some(flow), false) => {
                        table.index.remove(of.hash, flow);
                        table.pool.free(flow);
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.flows() as usize, model.len());
            }
            for (number, flow) in &model {
                let of = key(&table, *number);
                prop_assert_eq!(table.find(&of, NONE), Some(*flow));
                prop_assert_eq!(table.find(&of, *model.values().next().unwrap()), Some(*flow), "a wrong candidate");
            }
        }
    }

    /// 300 keys that a known secret puts into one line of the index; another secret spreads them.
    #[test]
    fn keys_chosen_against_one_secret_cost_nothing_under_another() {
        let probes = |secret, numbers: &[u32]| {
            let mut table = Table::new(Keys::new(KeyPlan::default(), true, secret), 1000, Pages::Small);
            numbers.iter().for_each(|number| {
                let of = packet_key(&table.keys, *number);
                assert!(table.find(&of, table.candidate(of.hash)).is_none() && table.insert(&of).is_some());
            });
            table.probes_max()
        };
        let known = Keys::new(KeyPlan::default(), true, [0, 0]);
        let is_chosen = |number: &u32| packet_key(&known, *number).hash & 0xfff == 5;
        let chosen: Vec<u32> = (0..).filter(is_chosen).take(300).collect();
        assert!(probes([0, 0], &chosen) >= 40, "the attack works where the secret is known");
        assert!(probes([0x1234_5678, 0x9abc_def0], &chosen) <= 2);
    }

    #[test]
    fn a_full_table_keeps_its_memory() {
        let mut table = Table::new(Keys::new(KeyPlan::default(), true, [5, 6]), 100_000, Pages::Small);
        for number in 0..100_000 {
            let of = packet_key(&table.keys, number);
            assert!(table.insert(&of).is_some());
        }
        assert!(table.insert(&packet_key(&table.keys, 100_000)).is_none());
        let most = table.memory_bytes();
        assert!(most <= 100_000 * FLOW_BYTES + FIXED_BYTES, "{most} bytes");
        for number in 0..300_000 {
            let old = packet_key(&table.keys, number);
            let flow = table.find(&old, NONE).expect("the oldest");
            table.remove(flow);
            assert!(table.insert(&packet_key(&table.keys, number + 100_000)).is_some());
        }
        let bytes = table.memory_bytes();
        assert!(bytes <= 100_000 * FLOW_BYTES + FIXED_BYTES, "{bytes} bytes after {most}");
    }
}
