//! Next hops from the kernel's routing tables, cached for a while. Used by the threads of sinks, never by a lane.

use crate::export::NextHops;
use quaff_os::rtnl::Rtnl;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum destinations in each half of the cache.
const KNOWN_MAX: usize = 1 << 15;
/// Time after which the kernel is asked again: routes change.
const FRESH: Duration = Duration::from_secs(10);

/// The kernel's routing tables, in the network namespace of the thread that opened them.
pub struct KernelNextHops {
    cache: Mutex<Cache>,
}

impl KernelNextHops {
    /// Opens a socket of route netlink.
    pub fn open() -> quaff_os::Result<Self> {
        let mut rtnl = Rtnl::open()?;
        // If the question fails, the record has no next hop.
        let ask = move |destination| rtnl.next_hop(destination).ok().flatten();
        Ok(Self { cache: Mutex::new(Cache::new(Box::new(ask))) })
    }
}

impl NextHops for KernelNextHops {
    fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(destination, Instant::now())
    }
}

type Ask = Box<dyn FnMut(IpAddr) -> Option<IpAddr> + Send>;

/// Answers by destination, in two halves: the older one is forgotten when the younger one is full.
struct Cache {
    ask: Ask,
    younger: HashMap<IpAddr, (Option<IpAddr>, Instant)>,
    older: HashMap<IpAddr, (Option<IpAddr>, Instant)>,
}

impl Cache {
    fn new(ask: Ask) -> Self {
        Self { ask, younger: HashMap::new(), older: HashMap::new() }
    }

    fn get(&mut self, destination: IpAddr, now: Instant) -> Option<IpAddr> {
        let is_fresh = |(_, asked): &&(_, Instant)| now.saturating_duration_since(*asked) < FRESH;
        if let Some((hop, _)) = self.younger.get(&destination).filter(is_fresh) {
            return *hop;
        }
        let known = self.older.get(&destination).filter(is_fresh).copied();
        let (hop, asked) = known.unwrap_or_else(|| ((self.ask)(destination), now));
        if self.younger.len() >= KNOWN_MAX {
            self.older = std::mem::take(&mut self.younger);
        }
        self.younger.insert(destination, (hop, asked));
        hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A cache whose answers are the number of questions so far.
    fn counting() -> (Cache, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        // Relaxed: only one thread uses it.
        let ask = move |_| Some(Ipv4Addr::from_bits(count.fetch_add(1, Ordering::Relaxed) + 1).into());
        (Cache::new(Box::new(ask)), asked)
    }

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn an_answer_is_remembered_until_it_is_stale() {
        let (mut cache, _) = counting();
        let start = Instant::now();
        assert_eq!(cache.get(address(7), start), Some(address(1)));
        assert_eq!(cache.get(address(7), start + FRESH - Duration::from_nanos(1)), Some(address(1)));
        assert_eq!(cache.get(address(7), start + FRESH), Some(address(2)));
        assert_eq!(cache.get(address(8), start), Some(address(3)));
    }

    #[test]
    fn memory_is_bounded_and_destinations_in_use_stay() {
        let (mut cache, asked) = counting();
        let start = Instant::now();
        for number in 0..5 * KNOWN_MAX as u32 {
            cache.get(address(number), start);
            cache.get(address(0), start);
            assert!(cache.younger.len() <= KNOWN_MAX && cache.older.len() <= KNOWN_MAX);
        }
        assert_eq!(asked.load(Ordering::Relaxed), 5 * KNOWN_MAX as u32, "each destination once");
    }

    #[test]
    fn the_kernel_knows_its_own_address() {
        let hops = KernelNextHops::open().expect("a socket");
        assert_eq!(hops.next_hop(Ipv4Addr::LOCALHOST.into()), None);
    }
}
