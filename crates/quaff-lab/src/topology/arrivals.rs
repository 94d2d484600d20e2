//! Frames that arrive at an interface, by its counters, and frames lost between it and a socket.

use crate::Result;
use quaff_os::link_counters::LinkCounters;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::softnet::SoftnetMeter;
use std::time::{Duration, Instant};

/// Time limit for counters, which some drivers update only every few seconds.
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
    /// Of these, frames dropped by the interface or by the kernel's backlog.
    pub(super) dropped: u64,
}

impl Arrivals {
    /// Starts at an interface of the calling thread's network namespace.
    pub(super) fn begin(link: &Link) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let counters = LinkCounters::open(link, &mut rtnl)?;
        Ok(Self { rtnl, counters, softnet: SoftnetMeter::open()? })
    }

    /// The increase since the start; waits for late counters while fewer than `expected` frames are counted.
    pub(super) fn finish(mut self, expected: u64) -> Result<Arrived> {
        let end = Instant::now() + PATIENCE;
        loop {
            self.counters.read(&mut self.rtnl)?;
            let nic_dropped = self.counters.drops().nic_dropped;
            let since = Arrived {
                frames: self.counters.received() + nic_dropped,
                dropped: nic_dropped + self.softnet.read()?.dropped,
            };
            if since.frames >= expected || Instant::now() > end {
                return Ok(since);
            }
            std::thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_os::rtnl;

    #[test]
    fn what_comes_to_an_interface_is_counted() {
        let arrivals = Arrivals::begin(&rtnl::link("lo").expect("lo")).expect("counters");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..3 {
            socket.send_to(b"one frame", socket.local_addr().expect("bound")).expect("sent");
        }
        assert!(arrivals.finish(3).expect("counters").frames >= 3);
    }
}
