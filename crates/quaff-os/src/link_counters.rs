//! Packets that an interface lost below its packet sockets, by the counters of the card, of its driver and of the kernel.
//!
//! The fields of route netlink (`rx_missed`, `rx_fifo`, `rx_over`, `rx_dropped`) mean something else in each driver, and
//! some losses are only in `ethtool -S`. [`drivers`] knows which counter is a part of which, so that no packet is counted
//! twice. The backlogs of the cores are not of one interface: [`crate::softnet`] reads them. This module never decides
//! what a loss means for a capture.

mod drivers;

use crate::Result;
use crate::ethtool;
use crate::rtnl::{Link, LinkStats, Rtnl};
use drivers::{Driver, Meaning, NicSum};
use std::collections::BTreeMap;
use std::time::Duration;

/// Readings before the first one that counts, of drivers that answer with old values (mlx5e).
const PRIMINGS: usize = 2;
/// The pause after each of them; it does not wait for drivers that refresh once a second.
const PRIME_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Readings at the end until two of them must agree.
const READINGS_MAX: usize = 4;

/// The counters of one interface since a moment.
#[derive(Debug)]
pub struct LinkCounters {
    index: u32,
    name: String,
    driver: &'static Driver,
    base: Reading,
    now: Reading,
}

/// The rise of the counters of dropped packets. No packet is in both of the first two fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkDrops {
    /// Dropped by the interface or its driver, without a doubt.
    pub nic_dropped: u64,
    /// `rx_dropped`: dropped below the sockets, or by the stack above them.
    pub rx_dropped: u64,
    /// Rise of other drop counters beyond `nic_dropped`. Some kernels have it in `rx_dropped` as well. They may count
    /// packets that were not for this interface, or events that dropped no packet.
    pub doubtful: u64,
    /// The drop counters of `ethtool -S` that rose and are in no counter of route netlink, by name.
    pub counters: BTreeMap<String, u64>,
}

/// All counters of an interface at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Reading {
    stats: LinkStats,
    /// The drop counters of the driver; those of equal names are added up.
    counters: BTreeMap<String, u64>,
}

impl LinkCounters {
    /// Starts at the present values. `rtnl` must be of the calling thread's network namespace, here and in
    /// [`settle`](Self::settle).
    pub fn open(link: &Link, rtnl: &mut Rtnl) -> Result<Self> {
        let driver = drivers::of(ethtool::driver(&link.name).ok().flatten().as_deref());
        let mut base = Reading::take(driver, link.index, &link.name, rtnl)?;
        if !driver.refresh.is_zero() {
            for _ in 0..PRIMINGS {
                std::thread::sleep(driver.refresh.min(PRIME_PAUSE_MAX));
                base = Reading::take(driver, link.index, &link.name, rtnl)?;
            }
        }
        Ok(Self { index: link.index, name: link.name.clone(), driver, now: base.clone(), base })
    }

    /// `rx_dropped` counts from here on. Without a packet socket the kernel drops frames that no protocol handles; with
    /// one, the socket receives them first.
    pub fn restart_rx_dropped(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.base.stats.rx_dropped = rtnl.stats(self.index)?.rx_dropped;
        self.now.stats.rx_dropped = self.base.stats.rx_dropped;
        Ok(())
    }

    /// Reads the counters of route netlink, which costs little.
    ///
    /// # Errors
    /// `ENODEV` when the interface was removed.
    pub fn read(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.now.stats = rtnl.stats(self.index)?;
        Ok(())
    }

    /// Reads all counters until two readings have the same drops, because many drivers refresh them only now and then.
    /// Takes at most a few of the driver's intervals, which are a second at the longest. Keeps the last values if the
    /// interface is gone.
    pub fn settle(&mut self, rtnl: &mut Rtnl) {
        let Self { driver, index, ref name, .. } = *self;
        let read = || Reading::take(driver, index, name, rtnl).ok();
        if let Some(now) = settled(driver, &self.base, read, std::thread::sleep) {
            self.now = now;
        }
    }

    /// The rise since the start.
    pub fn drops(&self) -> LinkDrops {
        drops(self.driver, &self.base, &self.now)
    }

    /// Packets that the interface received since the start.
    pub fn received(&self) -> u64 {
        self.now.stats.rx_packets.saturating_sub(self.base.stats.rx_packets)
    }
}

impl Reading {
    fn take(driver: &Driver, index: u32, name: &str, rtnl: &mut Rtnl) -> Result<Self> {
        let mut counters = BTreeMap::new();
        // First, because it makes some drivers (ixgbe, mlx5e) refresh what route netlink answers.
        for (counter, value) in ethtool::counters::read(name).unwrap_or_default() {
            if driver.meaning(&counter).is_some() {
                *counters.entry(counter).or_default() += value;
            }
        }
        Ok(Self { stats: rtnl.stats(index)?, counters })
    }
}

/// Reads until two readings in a row have the same drops; returns the last one.
fn settled(
    driver: &Driver,
    base: &Reading,
    mut read: impl FnMut() -> Option<Reading>,
    mut pause: impl FnMut(Duration),
) -> Option<Reading> {
    let mut last = read()?;
    for _ in 1..READINGS_MAX {
        if driver.refresh.is_zero() {
            break;
        }
        pause(driver.refresh);
        let Some(now) = read() else { break };
        let is_settled = drops(driver, base, &now) == drops(driver, base, &last);
        last = now;
        if is_settled {
            break;
        }
    }
    Some(last)
}

fn drops(driver: &Driver, base: &Reading, now: &Reading) -> LinkDrops {
    let rise = |of: fn(&LinkStats) -> u64| of(&now.stats).saturating_sub(of(&base.stats));
    let [missed, fifo, over] =
        [rise(|stats| stats.rx_missed), rise(|stats| stats.rx_fifo), rise(|stats| stats.rx_over)];
    let mut found = LinkDrops {
        nic_dropped: match driver.nic_sum {
            NicSum::MissedAndFifo => missed + fifo.max(over),
            NicSum::Largest => missed.max(fifo).max(over),
        },
        rx_dropped: rise(|stats| stats.rx_dropped),
        ..LinkDrops::default()
    };
    let mut most = 0;
    for (name, value) in &now.counters {
        let rise = value.saturating_sub(base.counters.get(name).copied().unwrap_or(0));
        match driver.meaning(name) {
            Some(Meaning::Dropped) => found.nic_dropped += rise,
            // Parts of each other, perhaps: the largest is the least that they can mean.
            Some(Meaning::Doubtful) => most = most.max(rise),
            Some(Meaning::Included) | None => continue,
        }
        if rise > 0 {
            found.counters.insert(name.clone(), rise);
        }
    }
    found.doubtful = most.saturating_sub(found.nic_dropped);
    found
}

#[cfg(test)]
mod tests;
