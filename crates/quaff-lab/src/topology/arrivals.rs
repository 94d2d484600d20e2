//! Frames that arrive at an interface, by its counters, and frames lost between it and a socket.

use crate::Result;
use quaff_os::rtnl::LinkStats;
use quaff_os::rtnl::Rtnl;
use quaff_os::softnet::SoftnetMeter;
use std::time::{Duration, Instant};

/// Time limit for counters, which some drivers update only every few seconds.
const PATIENCE: Duration = Duration::from_millis(2500);
const POLL: Duration = Duration::from_millis(20);

/// The counters at the start.
#[derive(Debug)]
pub(super) struct Arrivals {
    rtnl: Rtnl,
    index: u32,
    before: Arrived,
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
    /// Starts at interface `index` of the calling thread's network namespace.
    pub(super) fn begin(index: u32) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let before = read(&mut rtnl, index)?;
        Ok(Self { rtnl, index, before, softnet: SoftnetMeter::open()? })
    }

    /// The increase since the start; waits for late counters while fewer than `expected` frames are counted.
    pub(super) fn finish(mut self, expected: u64) -> Result<Arrived> {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = read(&mut self.rtnl, self.index)?;
            let since = Arrived {
                frames: now.frames.saturating_sub(self.before.frames),
                dropped: now.dropped.saturating_sub(self.before.dropped) + self.softnet.read()?.dropped,
            };
            if since.frames >= expected || Instant::now() > end {
                return Ok(since);
            }
            std::thread::sleep(POLL);
        }
    }
}

fn read(rtnl: &mut Rtnl, index: u32) -> Result<Arrived> {
    let LinkStats { rx_packets, rx_missed, rx_fifo, .. } = rtnl.stats(index)?;
    let no_room = rx_missed + rx_fifo;
    Ok(Arrived { frames: rx_packets + no_room, dropped: no_room })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_to_an_interface_is_counted() {
        let arrivals = Arrivals::begin(1).expect("lo");
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..3 {
            socket.send_to(b"one frame", socket.local_addr().expect("bound")).expect("sent");
        }
        assert!(arrivals.finish(3).expect("counters").frames >= 3);
    }
}
