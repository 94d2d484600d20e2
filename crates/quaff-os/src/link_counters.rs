//! Packets that an interface lost below its packet sockets, or did not send, by the counters of the card, of its
//! driver, of the interfaces below it and of the kernel.
//!
//! The fields of route netlink (`rx_missed`, `rx_fifo`, `rx_over`, `rx_dropped`) mean something else in each driver,
//! and some losses are only in `ethtool -S`. [`drivers`] knows which counter is a part of which, so that no packet is
//! counted twice. The backlogs of the cores are not of one interface: [`crate::softnet`] reads them, and [`account`]
//! compares. This module never decides what a loss means for a capture.

mod account;
mod drivers;
mod drops;
mod lower;
mod meter;

pub use account::{BeforeTap, Tap};
pub use drops::{LinkDrops, LowerDrops};
pub use lower::interfaces_below;

use crate::Result;
use crate::nic::serving_cores;
use crate::rtnl::{Link, QdiscDrops, Rtnl};
use lower::Lower;
use meter::{Meter, Wrapping};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Readings before the first one that counts, of drivers that answer with old values (mlx5e).
const PRIMINGS: usize = 2;
/// Longest pause before each of these readings: drivers that refresh once a second are not waited for.
const PRIME_PAUSE_MAX: Duration = Duration::from_millis(20);
/// Most readings at the end, until two in a row are equal.
const READINGS_MAX: usize = 4;

/// The counters of one interface, and of those below it, since a moment.
#[derive(Debug)]
pub struct LinkCounters {
    own: Meter,
    /// Drops of its queueing disciplines and filters (tc).
    disciplines: Wrapping,
    lower: Vec<Lower>,
    /// The interface and those below it, of which the cores are read again at the end; `None` if some are in another
    /// network namespace.
    links: Option<Vec<Link>>,
    cores: Option<BTreeSet<usize>>,
}

impl LinkCounters {
    /// Starts at the present values. `rtnl` must be of the calling thread's network namespace, here and in
    /// [`settle`](Self::settle).
    pub fn open(link: &Link, rtnl: &mut Rtnl) -> Result<Self> {
        let all = rtnl.links().unwrap_or_default();
        let (below, has_others) = interfaces_below(link, &all);
        // One that was removed meanwhile is skipped.
        let lower = below.iter().filter_map(|link| Lower::open(link, rtnl).ok()).collect();
        let links = [link].into_iter().chain(below).cloned().collect();
        let is_known = !has_others && !all.is_empty();
        let own = Meter::open(link, rtnl)?;
        let (links, disciplines) = (is_known.then_some(links), Wrapping::default());
        let mut counters = Self { own, disciplines, lower, links, cores: None };
        counters.prime(rtnl);
        counters.cores = counters.read_cores();
        Ok(counters)
    }

    /// Reads again what was old at the first reading, and starts there.
    fn prime(&mut self, rtnl: &mut Rtnl) {
        self.read_below(rtnl);
        let refresh = self.refresh();
        if !refresh.is_zero() {
            for _ in 0..PRIMINGS {
                std::thread::sleep(refresh.min(PRIME_PAUSE_MAX));
                self.read_all(rtnl);
            }
        }
        self.own.restart();
        self.disciplines.restart();
        self.lower.iter_mut().for_each(Lower::restart);
    }

    fn refresh(&self) -> Duration {
        self.lower.iter().map(Lower::refresh).fold(self.own.refresh(), Duration::max)
    }

    /// Counts `rx_dropped` from here on. Without a packet socket the kernel drops frames that no protocol handles; with
    /// one, the socket receives them first.
    pub fn restart_rx_dropped(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.own.restart_rx_dropped(rtnl)
    }

    /// Reads the interface's counters of route netlink, which costs little.
    ///
    /// # Errors
    /// `ENODEV` when the interface was removed.
    pub fn read(&mut self, rtnl: &mut Rtnl) -> Result<()> {
        self.own.read(rtnl)
    }

    /// Reads all counters until two readings have the same drops, because many drivers refresh them only now and then.
    /// Takes at most a few of the driver's intervals, which are a second at the longest. Keeps the last values if the
    /// interface is gone.
    pub fn settle(&mut self, rtnl: &mut Rtnl) {
        let refresh = self.refresh();
        settle(refresh, || self.read_all(rtnl), std::thread::sleep);
        self.cores = match (self.cores.take(), self.read_cores()) {
            (Some(before), Some(now)) => Some(&before | &now),
            _ => None,
        };
    }

    /// Reads all counters and returns the drops; `None` if the interface is gone. First its own: those below, which a
    /// bond adds up, rise meanwhile.
    fn read_all(&mut self, rtnl: &mut Rtnl) -> Option<LinkDrops> {
        self.own.read_all(rtnl).ok()?;
        self.read_below(rtnl);
        Some(self.drops())
    }

    /// Reads the counters of the interfaces below, and of all their queueing disciplines.
    fn read_below(&mut self, rtnl: &mut Rtnl) {
        let disciplines = rtnl.qdisc_drops().unwrap_or_default();
        self.lower.iter_mut().for_each(|lower| lower.read_all(rtnl, &disciplines));
        if let Some(QdiscDrops { queue, filters }) = disciplines.get(&self.own.index) {
            self.disciplines.add(queue.wrapping_add(*filters));
        }
    }

    fn read_cores(&self) -> Option<BTreeSet<usize>> {
        serving_cores(Path::new("/"), self.links.as_ref()?)
    }

    /// The rise since the start.
    pub fn drops(&self) -> LinkDrops {
        let own = self.own.drops();
        let includes_lower = self.own.includes_lower();
        let lower: Vec<_> = self.lower.iter().map(|lower| lower.drops(includes_lower)).collect();
        let of_lower: u64 = lower.iter().map(|lower| lower.rx_dropped).sum();
        let lower: Vec<_> = lower.into_iter().filter(|lower| !lower.counters.is_empty()).collect();
        let counters = lower.iter().flat_map(|lower| {
            lower.counters.iter().map(move |(name, rise)| (format!("{} {name}", lower.interface), *rise))
        });
        LinkDrops {
            rx_dropped: if includes_lower { own.rx_dropped.saturating_sub(of_lower) } else { own.rx_dropped },
            lower_counters: counters.collect(),
            lower,
            cores: self.cores.clone(),
            qdisc_dropped: self.disciplines.sum,
            ..own
        }
    }

    /// [`LinkDrops::nic_dropped`] alone, which costs less than [`drops`](Self::drops).
    pub fn nic_dropped(&self) -> u64 {
        self.own.drops().nic_dropped
    }

    /// Packets that the interface received since the start.
    pub fn received(&self) -> u64 {
        self.own.received()
    }
}

/// The drops of an interface since it was created, without those of interfaces below it.
pub fn totals(link: &Link, rtnl: &mut Rtnl) -> Result<LinkDrops> {
    Ok(Meter::open(link, rtnl)?.totals())
}

/// Reads until two readings in a row are equal.
fn settle<T: PartialEq>(
    refresh: Duration,
    mut read: impl FnMut() -> Option<T>,
    mut pause: impl FnMut(Duration),
) {
    let Some(mut last) = read() else { return };
    if refresh.is_zero() {
        return;
    }
    for _ in 1..READINGS_MAX {
        pause(refresh);
        let Some(now) = read() else { return };
        if now == last {
            return;
        }
        last = now;
    }
}

#[cfg(test)]
mod tests;
