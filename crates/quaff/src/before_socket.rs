//! Packets that the kernel dropped before they reached a capture socket, and the reasons not to call a capture lossless.
//!
//! Two counters of the kernel know of them, and each counts other packets as well:
//!
//! * `rx_dropped` of the interface: the driver or a core's backlog (`net.core.netdev_max_backlog`) had no room. It also
//!   counts frames that no protocol of the stack handles, *after* the packet sockets have received them. Those are
//!   among the frames that the lane saw with another protocol than IP and ARP, so at most that many are subtracted.
//! * `dropped` of `/proc/net/softnet_stat`: only the backlogs, but of all interfaces of the machine.
//!
//! None of them is in the sums of the ledger. This module never reads an interface.

use crate::plan::SNAPLEN_MAX;
use crate::tally::{BeforeSocket, LaneTally};
use quaff_os::softnet::SoftnetMeter;

impl BeforeSocket {
    /// Compares the counters. `softnet` is `None` for files, and where `/proc/net/softnet_stat` cannot be read.
    pub(crate) fn new(lanes: &[LaneTally], softnet: Option<SoftnetMeter>) -> Self {
        let rise = softnet.and_then(|mut softnet| softnet.read().ok()).unwrap_or_default();
        Self::of(lanes, rise.dropped)
    }

    fn of(lanes: &[LaneTally], softnet_dropped: u64) -> Self {
        let mut found = Self { softnet_dropped, ..Self::default() };
        // The kernel counts each drop of a backlog in rx_dropped of the frame's interface as well.
        let mut unexplained = softnet_dropped;
        found.reasons.extend(lanes.iter().filter_map(cut_reason));
        for lane in lanes {
            let in_backlog = lane.rx_dropped.min(unexplained);
            let dropped = lane.rx_dropped.saturating_sub(lane.other_protocols).max(in_backlog);
            unexplained -= in_backlog;
            found.rx_dropped += dropped;
            if dropped > 0 {
                let (name, hint) = (&lane.interface, hint(lane, in_backlog));
                found.reasons.push(format!(
                    "the kernel dropped {dropped} packets on {name} before the capture socket (rx_dropped){hint}"
                ));
            }
        }
        if unexplained > 0 {
            found.reasons.push(format!(
                "the kernel dropped {unexplained} packets of other interfaces of this machine before any socket \
                 (softnet_stat): they need not be of this capture"
            ));
        }
        found
    }
}

/// Packets that are not whole in the output though no snaplen asked for it.
fn cut_reason(lane: &LaneTally) -> Option<String> {
    let LaneTally { truncated, interface, .. } = lane;
    (*truncated > 0).then(|| {
        format!(
            "{truncated} packets of {interface} are cut: longer than {SNAPLEN_MAX} bytes or than a block of the \
             kernel's ring"
        )
    })
}

/// The cause, as far as it is known.
fn hint(lane: &LaneTally, in_backlog: u64) -> &'static str {
    match (in_backlog, lane.filtered) {
        (1.., _) => {
            ": raise net.core.netdev_max_backlog, or spread the interface's interrupts over more cores"
        }
        (0, 0) => "",
        // The filter hides their protocols from the lane.
        (0, _) => {
            ", unless they are frames that the filter kept out and that no protocol of this machine handles"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(rx_dropped: u64, other_protocols: u64) -> LaneTally {
        LaneTally { interface: "eth0".into(), rx_dropped, other_protocols, ..LaneTally::default() }
    }

    #[test]
    fn drops_after_the_socket_do_not_count() {
        assert_eq!(BeforeSocket::of(&[lane(100, 100)], 0), BeforeSocket::default());
        assert_eq!(BeforeSocket::of(&[lane(0, 100)], 0), BeforeSocket::default());
    }

    #[test]
    fn drops_before_the_socket_are_reported_with_their_number() {
        let found = BeforeSocket::of(&[lane(150, 100), lane(0, 0)], 50);
        assert_eq!((found.rx_dropped, found.softnet_dropped), (50, 50));
        let words = "the kernel dropped 50 packets on eth0 before the capture socket (rx_dropped)";
        assert!(found.reasons.len() == 1 && found.reasons[0].starts_with(words), "{found:?}");
        // More frames of other protocols than the stack dropped: the backlog's own count is the better one.
        assert_eq!(BeforeSocket::of(&[lane(50, 100)], 50).rx_dropped, 50);
        // A driver that had no room.
        assert_eq!(BeforeSocket::of(&[lane(7, 0)], 0).rx_dropped, 7);
    }

    #[test]
    fn cut_packets_are_a_reason() {
        let cut = LaneTally { truncated: 3, ..lane(0, 0) };
        let found = BeforeSocket::of(&[cut, lane(0, 0)], 0);
        assert!(found.reasons.len() == 1 && found.reasons[0].starts_with("3 packets of eth0 are cut"), "{found:?}");
    }

    #[test]
    fn drops_of_other_interfaces_are_reported_as_such() {
        let found = BeforeSocket::of(&[lane(3, 0)], 10);
        assert_eq!((found.rx_dropped, found.softnet_dropped, found.reasons.len()), (3, 10, 2));
        assert!(found.reasons[1].contains("7 packets of other interfaces"), "{found:?}");
    }
}
