//! The interfaces below one: the ports of a bridge or a bond, the card of a VLAN, of a macvlan or of a tunnel.
//!
//! A packet that one of them drops might have come to the interface above, or to another one. Filters of tc(8) that
//! drop what an interface receives do so after its own packet sockets, and before the interfaces above. What a drop
//! means is not decided here.

use super::drops::{LinkDrops, LowerDrops};
use super::meter::{Meter, Wrapping};
use crate::Result;
use crate::rtnl::{Link, LowerLink, QdiscDrops, Rtnl};
use std::collections::BTreeMap;
use std::time::Duration;

/// The interfaces of `links` below `link`, at any depth, and `true` if there are others, in another network namespace.
pub fn interfaces_below<'a>(link: &Link, links: &'a [Link]) -> (Vec<&'a Link>, bool) {
    let is_directly_below = |upper: &Link, lower: &Link| {
        lower.index != upper.index
            && (lower.master == Some(upper.index) || upper.lower == Some(LowerLink::Here(lower.index)))
    };
    let mut found: Vec<&Link> = links.iter().filter(|lower| is_directly_below(link, lower)).collect();
    let mut at = 0;
    while let Some(&upper) = found.get(at) {
        for lower in links.iter().filter(|lower| is_directly_below(upper, lower)) {
            if lower.index != link.index && found.iter().all(|known| known.index != lower.index) {
                found.push(lower);
            }
        }
        at += 1;
    }
    let is_elsewhere = |link: &Link| link.lower == Some(LowerLink::Elsewhere);
    let has_others = is_elsewhere(link) || found.iter().any(|link| is_elsewhere(link));
    (found, has_others)
}

/// The counters of an interface below.
#[derive(Debug)]
pub(super) struct Lower {
    meter: Meter,
    /// Drops of its filters (tc).
    filters: Wrapping,
}

impl Lower {
    pub(super) fn open(link: &Link, rtnl: &mut Rtnl) -> Result<Self> {
        Ok(Self { meter: Meter::open(link, rtnl)?, filters: Wrapping::default() })
    }

    #[cfg(test)]
    pub(super) fn replayed(meter: Meter) -> Self {
        Self { meter, filters: Wrapping::default() }
    }

    pub(super) fn refresh(&self) -> Duration {
        self.meter.refresh()
    }

    /// Starts again at the last values.
    pub(super) fn restart(&mut self) {
        self.meter.restart();
        self.filters.restart();
    }

    /// Reads all counters; an interface that is gone keeps its last values.
    pub(super) fn read_all(&mut self, rtnl: &mut Rtnl, disciplines: &BTreeMap<u32, QdiscDrops>) {
        let _ = self.meter.read_all(rtnl);
        if let Some(drops) = disciplines.get(&self.meter.index) {
            self.filters.add(drops.filters);
        }
    }

    pub(super) fn drops(&self, is_in_upper: bool) -> LowerDrops {
        let own = self.meter.drops();
        let nic_dropped = if is_in_upper { 0 } else { own.nic_dropped };
        let counters = self.counters(&own, nic_dropped);
        LowerDrops {
            interface: self.meter.name.clone(),
            dropped: nic_dropped
                + own.xdp_dropped
                + self.filters.sum
                + own.driver_dropped_beyond(own.rx_dropped),
            rx_dropped: own.rx_dropped,
            rx_dropped_by_driver: own.rx_dropped_by_driver,
            is_listed: self.meter.is_listed(),
            counters,
        }
    }

    fn counters(&self, own: &LinkDrops, nic_dropped: u64) -> BTreeMap<String, u64> {
        let named =
            [("nic_dropped", nic_dropped), ("rx_dropped", own.rx_dropped), ("tc filters", self.filters.sum)];
        let named =
            named.into_iter().filter(|(_, rise)| *rise > 0).map(|(name, rise)| (name.to_owned(), rise));
        named.chain(own.driver_counters.clone()).collect()
    }
}
