//! What comes to an interface, by its own counters, and what is lost behind it on the way to a socket.

use crate::Result;
use quaff_os::Try;
use quaff_os::rtnl::Rtnl;
use quaff_os::stats::LinkStats;
use std::fs;
use std::time::{Duration, Instant};

/// Drivers may bring their counters up to date only so often.
const PATIENCE: Duration = Duration::from_millis(2500);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
const SOFTNET: &str = "/proc/net/softnet_stat";

/// The counters as they were.
#[derive(Debug)]
pub(super) struct Arrivals {
    rtnl: Rtnl,
    index: u32,
    before: Arrived,
}

/// What they came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Frames that came to the interface, whether it had room for them or not.
    pub(super) frames: u64,
    /// Of these: those it had no room for, and those for which the kernel's queue had none.
    pub(super) dropped: u64,
}

impl Arrivals {
    /// From now on, at interface `index` of the calling thread's network namespace.
    pub(super) fn begin(index: u32) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let before = read(&mut rtnl, index)?;
        Ok(Self { rtnl, index, before })
    }

    /// Since then; waits a little for counters that come late, while there are fewer than `expected`.
    pub(super) fn finish(mut self, expected: u64) -> Result<Arrived> {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = read(&mut self.rtnl, self.index)?;
            let since = Arrived {
                frames: now.frames.saturating_sub(self.before.frames),
                dropped: now.dropped.saturating_sub(self.before.dropped),
            };
            if since.frames >= expected || Instant::now() > end {
                return Ok(since);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }
}

fn read(rtnl: &mut Rtnl, index: u32) -> Result<Arrived> {
    let LinkStats { rx_packets, rx_missed, rx_fifo, .. } = rtnl.stats(index)?;
    let no_room = rx_missed + rx_fifo;
    Ok(Arrived { frames: rx_packets + no_room, dropped: no_room + softnet_drops()? })
}

/// Frames for which the queue of a core had no room (`dropped`, the second word of each line, hexadecimal).
fn softnet_drops() -> Result<u64> {
    let text = fs::read_to_string(SOFTNET).trying(|| format!("read {SOFTNET}"))?;
    Ok(drops_in(&text))
}

fn drops_in(text: &str) -> u64 {
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_cores_are_summed() {
        assert_eq!(drops_in("0000272d 0000000a 00000000 0\n000034d9 00000001 00000103\n"), 11);
        assert_eq!(drops_in(""), 0);
        softnet_drops().expect("every Linux has it");
    }

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
