//! The drops of queueing disciplines (linux/pkt_sched.h, linux/gen_stats.h). It never changes one.

use super::attribute::word;
use netlink_packet_core::{DecodeError, NlasIterator};
use std::collections::BTreeMap;

/// Bytes of `struct tcmsg`: family, padding, index, handle, parent, info.
const HEADER_BYTES: usize = 20;
/// `TCA_STATS2` and, in it, `TCA_STATS_QUEUE`.
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// Offset of `drops` in `struct gnet_stats_queue`.
const DROPS_OFFSET: usize = 8;
/// `TC_H_ROOT`.
const ROOT: u32 = 0xffff_ffff;
/// `TC_H_INGRESS`, which is `TC_H_CLSACT` too.
const FILTERS: u32 = 0xffff_fff1;

/// Frames that the queueing disciplines of an interface dropped. The kernel's counters have 32 bits and wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QdiscDrops {
    /// The root discipline, whose count includes those below it.
    pub(crate) queue: u32,
    /// The filters of `ingress`, or those of `clsact` in both directions.
    pub(crate) filters: u32,
}

/// One message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Qdisc {
    index: u32,
    parent: u32,
    drops: u32,
}

/// The drops by the index of their interface.
pub(super) fn drops_by_interface(qdiscs: Vec<Qdisc>) -> BTreeMap<u32, QdiscDrops> {
    let mut found: BTreeMap<u32, QdiscDrops> = BTreeMap::new();
    for Qdisc { index, parent, drops } in qdiscs {
        let of_interface = found.entry(index).or_default();
        match parent {
            ROOT => of_interface.queue = drops,
            FILTERS => of_interface.filters = drops,
            _ => {}
        }
    }
    found
}

impl Qdisc {
    /// It is `ingress` or `clsact`, and of that interface.
    pub(super) fn is_ingress_of(&self, index: u32) -> bool {
        (self.index, self.parent) == (index, FILTERS)
    }
}

/// Parses RTM_NEWQDISC.
pub(super) fn parse(payload: &[u8]) -> Result<Qdisc, DecodeError> {
    let (head, attributes) = payload
        .split_at_checked(HEADER_BYTES)
        .ok_or_else(|| DecodeError::buffer_too_small(payload.len(), HEADER_BYTES))?;
    let mut qdisc = Qdisc { index: word(head, 4), parent: word(head, 12), drops: 0 };
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute?;
        if attribute.kind() == TCA_STATS2 {
            let mut parts = NlasIterator::new(attribute.value()).flatten();
            let queue = parts.find(|part| part.kind() == TCA_STATS_QUEUE);
            let queue = queue.filter(|queue| queue.value().len() >= DROPS_OFFSET + 4);
            qdisc.drops = queue.map_or(0, |queue| word(queue.value(), DROPS_OFFSET));
        }
    }
    Ok(qdisc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtnl::Rtnl;

    #[test]
    fn a_message_cut_anywhere_never_panics() {
        let mut whole = vec![0u8; HEADER_BYTES];
        whole[4] = 9;
        whole[12..16].copy_from_slice(&ROOT.to_ne_bytes());
        whole.extend([28, 0, TCA_STATS2 as u8, 0x80, 24, 0, TCA_STATS_QUEUE as u8, 0]);
        for value in [1u32, 2, 33, 4, 5] {
            whole.extend(value.to_ne_bytes());
        }
        for end in 0..whole.len() {
            let _ = parse(&whole[..end]);
        }
        assert_eq!(parse(&whole).expect("whole"), Qdisc { index: 9, parent: ROOT, drops: 33 });
    }

    #[test]
    fn the_disciplines_of_this_machine_are_listed() {
        Rtnl::open().expect("a socket").qdisc_drops().expect("a dump");
    }
}
