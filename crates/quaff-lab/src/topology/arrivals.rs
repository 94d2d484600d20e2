//! Counts frames that arrive at an interface, and frames lost between it and a socket.

use crate::Result;
use quaff_os::link_counters::{LinkCounters, LinkDrops, Tap};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::softnet::SoftnetMeter;
use std::time::{Duration, Instant};

/// Time limit for late counters: some drivers update them only every few seconds.
const PATIENCE: Duration = Duration::from_millis(2500);
const POLL: Duration = Duration::from_millis(20);

/// The counters at the start.
#[derive(Debug)]
pub(super) struct Arrivals {
    rtnl: Rtnl,
    counters: LinkCounters,
    softnet: SoftnetMeter,
}

/// The increase of the counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Frames that reached the interface, including dropped ones.
    pub(super) frames: u64,
    /// Frames of these that were dropped before every packet socket: by the interface, below it, or by the kernel's
    /// backlog.
    pub(super) dropped: u64,
}

impl Arrivals {
    /// Starts at an interface of the calling thread's network namespace.
    pub(super) fn begin(link: &Link) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let counters = LinkCounters::open(link, &mut rtnl)?;
        Ok(Self { rtnl, counters, softnet: SoftnetMeter::open()? })
    }

    /// Returns the increase since the start; waits for late counters while fewer than `expected` frames are counted.
    pub(super) fn finish(mut self, expected: u64) -> Result<Arrived> {
        let end = Instant::now() + PATIENCE;
        let counted = |counters: &LinkCounters| counters.received() + counters.nic_dropped();
        loop {
            self.counters.read(&mut self.rtnl)?;
            if counted(&self.counters) >= expected || Instant::now() > end {
                break;
            }
            std::thread::sleep(POLL);
        }
        self.counters.settle(&mut self.rtnl);
        let drops = self.counters.drops();
        let backlog = self.softnet.read()?.of(drops.cores.as_ref()).dropped;
        Ok(Arrived { frames: counted(&self.counters), dropped: before_sockets(&drops, backlog) })
    }
}

/// The frames that no packet socket can have received. The rest of `rx_dropped` may be frames that the stack dropped
/// later, because no protocol handles them.
fn before_sockets(drops: &LinkDrops, backlog: u64) -> u64 {
    let tap = Tap { link: drops, other_protocols: drops.rx_dropped, hidden: 0 };
    drops.nic_dropped + tap.may_lack(backlog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::rtnl;

    #[test]
    fn arrivals_at_an_interface_are_counted() {
        let arrivals = Arrivals::begin(&rtnl::link("lo").expect("lo")).expect("counters");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..3 {
            socket.send_to(b"one frame", socket.local_addr().expect("bound")).expect("sent");
        }
        assert!(arrivals.finish(3).expect("counters").frames >= 3);
    }

    #[test]
    fn drops_of_the_stack_are_not_those_of_the_receiver() {
        let drops =
            LinkDrops { nic_dropped: 2, rx_dropped: 50, rx_dropped_by_driver: 5, ..LinkDrops::default() };
        assert_eq!((before_sockets(&drops, 0), before_sockets(&drops, 40)), (2 + 5, 2 + 5 + 40));
        // Backlog drops that no interface accounts for.
        assert_eq!(before_sockets(&drops, 60), 2 + 50 + 15);
    }
}
