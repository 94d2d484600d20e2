//! The counters of one interface: read, compared, and added up as its driver counts. It never reads another interface.

use super::drivers::{self, Driver, Meaning, NicSum, RxDropped};
use super::drops::LinkDrops;
use crate::Result;
use crate::ethtool;
use crate::rtnl::{Link, LinkStats, Rtnl};
use std::collections::BTreeMap;
use std::time::Duration;

/// The counters of one interface since a moment.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) index: u32,
    pub(super) name: String,
    driver: &'static Driver,
    base: Reading,
    now: Reading,
    /// The driver had counters at the start and gives none now.
    is_unread: bool,
}

/// A counter of 32 bits, which wraps: its last value, and the rise since the start.
#[derive(Debug, Default)]
pub(super) struct Wrapping {
    last: u32,
    pub(super) sum: u64,
}

impl Wrapping {
    pub(super) fn add(&mut self, now: u32) {
        self.sum += u64::from(now.wrapping_sub(self.last));
        self.last = now;
    }

    /// Starts again at the last value.
    pub(super) fn restart(&mut self) {
        self.sum = 0;
    }
}

/// All counters of an interface at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) stats: LinkStats,
    /// The drop counters of the driver; those of equal names are added up.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Meter {
    /// Starts at the present values.
    pub(super) fn open(link: &Link, rtnl: &mut Rtnl) -> Result<Self> {
        let driver = drivers::of(ethtool::driver(&link.name).ok().flatten().as_deref());
        // First, because it makes some drivers (ixgbe, mlx5e) refresh what route netlink answers.
        let counters = counters(driver, &link.name);
        let base = Reading { stats: rtnl.stats(link.index)?, counters };
        let (index, name) = (link.index, link.name.clone());
        Ok(Self { index, name, driver, now: base.clone(), base, is_unread: false })
    }

    /// An interface whose counters rose from 0 to `now`.
    #[cfg(test)]
    pub(super) fn replayed(name: &str, driver: &'static Driver, now: Reading) -> Self {
        Self { index: 0, name: name.into(), driver, base: Reading::default(), now, is_unread: false }
    }

    /// The time until a drop is in the counters.
    pub(super) fn refresh(&self) -> Duration {
        self.driver.refresh
    }

    /// Starts again at the values of the last reading.
    pub(super) fn restart(&mut self) {
        self.base = self.now.clone();
    }

    pub(super) fn restart_rx_dropped(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.base.stats.rx_dropped = rtnl.stats(self.index)?.rx_dropped;
        self.now.stats.rx_dropped = self.base.stats.rx_dropped;
        Ok(())
    }

    /// Reads the counters of route netlink.
    pub(super) fn read(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.now.stats = rtnl.stats(self.index)?;
        Ok(())
    }

    /// Reads all counters. Those of the driver keep their last values if it gives none.
    pub(super) fn read_all(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        let counters = counters(self.driver, &self.name);
        self.read(rtnl)?;
        self.is_unread = counters.is_empty() && !self.base.counters.is_empty();
        if !self.is_unread {
            self.now.counters = counters;
        }
        Ok(())
    }

    /// The rise since the start.
    pub(super) fn drops(&self) -> LinkDrops {
        LinkDrops { is_unread: self.is_unread, ..drops(self.driver, &self.base, &self.now) }
    }

    /// The values since the interface was created.
    pub(super) fn totals(&self) -> LinkDrops {
        drops(self.driver, &Reading::default(), &self.now)
    }

    /// Packets received since the start.
    pub(super) fn received(&self) -> u64 {
        self.now.stats.rx_packets.saturating_sub(self.base.stats.rx_packets)
    }

    /// The kernel adds the counters of the interfaces below to those of this one.
    pub(super) fn includes_lower(&self) -> bool {
        self.driver.rx_dropped == RxDropped::Lower
    }

    /// All that the driver itself adds to `rx_dropped` is in [`LinkDrops::rx_dropped_by_driver`].
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.driver.rx_dropped, RxDropped::Listed | RxDropped::ListedWithXdp)
    }
}

/// The drop counters of a driver; none if they cannot be read.
fn counters(driver: &Driver, name: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (counter, value) in ethtool::counters::read(name).unwrap_or_default() {
        if driver.meaning(&counter).is_some() {
            *found.entry(counter).or_default() += value;
        }
    }
    found
}

/// The rise between two readings.
pub(super) fn drops(driver: &Driver, base: &Reading, now: &Reading) -> LinkDrops {
    let rise = |of: fn(&LinkStats) -> u64| of(&now.stats).saturating_sub(of(&base.stats));
    let [missed, fifo, over] =
        [rise(|stats| stats.rx_missed), rise(|stats| stats.rx_fifo), rise(|stats| stats.rx_over)];
    let mut found = LinkDrops {
        nic_dropped: match driver.nic_sum {
            NicSum::MissedAndFifo => missed + fifo.max(over),
            NicSum::Largest => missed.max(fifo).max(over),
        },
        rx_dropped: rise(|stats| stats.rx_dropped),
        tx_dropped: rise(|stats| stats.tx_dropped),
        ..LinkDrops::default()
    };
    // Groups of counters may be parts of each other: the largest is the least that they can mean.
    let (mut doubtful, mut xdp) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, u64>::new());
    for (name, value) in &now.counters {
        let rise = value.saturating_sub(base.counters.get(name).copied().unwrap_or(0));
        if rise == 0 {
            continue;
        }
        match driver.meaning(name) {
            Some(Meaning::Dropped) => found.nic_dropped += rise,
            Some(Meaning::Port) => found.port_dropped += rise,
            Some(Meaning::Doubtful) => *doubtful.entry(drivers::group(name)).or_default() += rise,
            Some(Meaning::Xdp) => *xdp.entry(drivers::group(name)).or_default() += rise,
            Some(Meaning::InRxDropped) => {
                found.rx_dropped_by_driver += rise;
                continue;
            }
            Some(Meaning::Included) | None => continue,
        }
        found.driver_counters.insert(name.clone(), rise);
    }
    found.xdp_dropped = xdp.into_values().max().unwrap_or(0);
    if driver.rx_dropped == RxDropped::ListedWithXdp {
        found.rx_dropped = found.rx_dropped.saturating_sub(found.xdp_dropped);
        found.rx_dropped_by_driver = found.rx_dropped_by_driver.saturating_sub(found.xdp_dropped);
    }
    // Read a moment before rx_dropped, and so never more by right.
    found.rx_dropped_by_driver = found.rx_dropped_by_driver.min(found.rx_dropped);
    let beyond = doubtful.into_values().max().unwrap_or(0).saturating_sub(found.nic_dropped);
    found.driver_dropped = beyond + found.port_dropped;
    found
}
