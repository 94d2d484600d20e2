//! The verdict of a run: lossless, lossy or unknown, by the ledger and by the counters below the capture sockets.
//!
//! Some counters of the kernel and of drivers count other packets as well:
//!
//! * `rx_dropped` of the interface: the driver or a core's backlog (`net.core.netdev_max_backlog`) had no room. It also
//!   counts frames that no protocol of the stack handles, *after* the packet sockets have received them. Those are
//!   among the frames that the lane saw with another protocol than IP and ARP, and among those that a filter hid. What
//!   exceeds both is lost; less may be.
//! * `dropped` of `/proc/net/softnet_stat`: only the backlogs, but of all interfaces of the machine, among them those
//!   below a bridge, a bond or a VLAN that is captured.
//! * counters of `ethtool -S` that quaff does not know, or that other functions of the card share.
//!
//! None of them is in the sums of the ledger. A counter that moved and may be of this capture makes the verdict unknown.
//! This module never reads an interface.

use crate::plan::SNAPLEN_MAX;
use crate::tally::{BelowTap, LaneTally, Reasons, Verdict};
use quaff_os::softnet::{SoftnetMeter, SoftnetRise};

impl Verdict {
    /// `is_counted_lost`: a sum of the ledger has lost packets. After a failure the sums may be incomplete.
    pub(crate) fn new(is_counted_lost: bool, reasons: &Reasons, is_failed: bool) -> Self {
        match is_counted_lost || !reasons.lossy.is_empty() {
            true => Self::Lossy,
            false if is_failed || !reasons.unknown.is_empty() => Self::Unknown,
            false => Self::Lossless,
        }
    }
}

/// Compares the counters. `softnet` is `None` for files, and where `/proc/net/softnet_stat` cannot be read.
pub(crate) fn judge(lanes: &[LaneTally], softnet: Option<SoftnetMeter>) -> (BelowTap, Reasons) {
    of(lanes, softnet.and_then(|mut softnet| softnet.read().ok()).unwrap_or_default())
}

fn of(lanes: &[LaneTally], softnet: SoftnetRise) -> (BelowTap, Reasons) {
    let SoftnetRise { dropped: softnet_dropped, squeezed: softnet_squeezed, .. } = softnet;
    let mut found = BelowTap { softnet_dropped, softnet_squeezed, ..BelowTap::default() };
    let mut reasons = Reasons { lossy: lanes.iter().filter_map(cut).collect(), unknown: Vec::new() };
    // The kernel counts each drop of a backlog in rx_dropped of the frame's interface as well.
    let mut unexplained = softnet_dropped;
    for lane in lanes {
        let in_backlog = lane.rx_dropped.min(unexplained);
        unexplained -= in_backlog;
        let dropped = lane.rx_dropped.saturating_sub(lane.other_protocols).max(in_backlog);
        let sure = lane.rx_dropped.saturating_sub(lane.other_protocols).saturating_sub(lane.filtered);
        found.rx_dropped += dropped;
        if dropped > 0 {
            let places = if sure > 0 { &mut reasons.lossy } else { &mut reasons.unknown };
            places.push(rx_dropped(lane, dropped, sure, in_backlog > 0));
        }
        let doubtful = lane.driver_dropped.saturating_sub(dropped);
        found.driver_dropped += doubtful;
        if doubtful > 0 {
            reasons.unknown.push(driver(lane, doubtful));
        }
    }
    if unexplained > 0 {
        reasons.unknown.push(format!(
            "the kernel dropped {unexplained} packets of other interfaces of this machine before any socket \
             (softnet_stat): they need not be of this capture"
        ));
    }
    (found, reasons)
}

/// Packets that are not whole in the output though no snaplen asked for it.
fn cut(lane: &LaneTally) -> Option<String> {
    let LaneTally { truncated, interface, .. } = lane;
    (*truncated > 0).then(|| {
        format!(
            "{truncated} packets of {interface} are cut: longer than {SNAPLEN_MAX} bytes or than a block of the \
             kernel's ring"
        )
    })
}

/// `sure`: so many of `dropped` are no frames that the stack drops after the socket.
fn rx_dropped(lane: &LaneTally, dropped: u64, sure: u64, is_in_backlog: bool) -> String {
    let mut text = format!(
        "the kernel dropped {dropped} packets on {} before the capture socket (rx_dropped)",
        lane.interface
    );
    if is_in_backlog {
        text += ": raise net.core.netdev_max_backlog, or spread the interface's interrupts over more cores";
    }
    if sure < dropped {
        let doubtful = dropped - sure;
        text += &format!("; {doubtful} of them may be frames that no protocol of this machine handles");
    }
    text
}

/// The counters of the driver that nothing else explains, with their numbers.
fn driver(lane: &LaneTally, doubtful: u64) -> String {
    let counters: Vec<_> =
        lane.driver_counters.iter().map(|(name, rise)| format!("{name} by {rise}")).collect();
    format!(
        "drop counters of {}'s driver rose by {doubtful} beyond those of the kernel (ethtool -S: {}): they need not \
         be of this capture",
        lane.interface,
        counters.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Lossless, Lossy, Unknown};

    fn lane(rx_dropped: u64, other_protocols: u64, filtered: u64) -> LaneTally {
        let interface = "eth0".into();
        LaneTally { interface, rx_dropped, other_protocols, filtered, ..LaneTally::default() }
    }

    /// The verdict of lanes without loss in the sums, with the numbers, and the reasons.
    fn judged(lanes: &[LaneTally], dropped: u64) -> (Verdict, BelowTap, Vec<String>) {
        let (found, reasons) = of(lanes, SoftnetRise { dropped, ..SoftnetRise::default() });
        let verdict = Verdict::new(false, &reasons, false);
        (verdict, found, [reasons.lossy, reasons.unknown].concat())
    }

    #[test]
    fn drops_after_the_socket_do_not_count() {
        for lane in [lane(100, 100, 0), lane(0, 100, 0), lane(0, 0, 100)] {
            assert_eq!(judged(&[lane], 0), (Lossless, BelowTap::default(), vec![]));
        }
    }

    #[test]
    fn drops_before_the_socket_are_lossy_with_their_number() {
        let (verdict, found, reasons) = judged(&[lane(150, 100, 0), lane(0, 0, 0)], 50);
        assert_eq!((verdict, found.rx_dropped, found.softnet_dropped), (Lossy, 50, 50));
        let words = "the kernel dropped 50 packets on eth0 before the capture socket (rx_dropped): raise";
        assert!(reasons.len() == 1 && reasons[0].starts_with(words), "{reasons:?}");
        // A driver that had no room, and a filter that hid fewer frames than were dropped.
        for (lane, dropped) in [(lane(7, 0, 0), 7), (lane(100, 0, 60), 100)] {
            let (verdict, found, _) = judged(&[lane], 0);
            assert_eq!((verdict, found.rx_dropped), (Lossy, dropped));
        }
    }

    #[test]
    fn drops_that_frames_without_a_handler_may_explain_are_unknown() {
        // A filter hid the protocols of 100 frames.
        let (verdict, found, reasons) = judged(&[lane(80, 0, 100)], 0);
        assert_eq!((verdict, found.rx_dropped), (Unknown, 80));
        assert!(
            reasons[0].contains("80 packets on eth0") && reasons[0].contains("no protocol"),
            "{reasons:?}"
        );
        // A backlog dropped 50, but the frames of other protocols could be the 50 of rx_dropped.
        let (verdict, found, _) = judged(&[lane(50, 100, 0)], 50);
        assert_eq!((verdict, found.rx_dropped), (Unknown, 50));
    }

    #[test]
    fn drops_of_other_interfaces_are_unknown() {
        let (verdict, found, reasons) = judged(&[lane(0, 0, 0)], 10);
        assert_eq!((verdict, found.rx_dropped, found.softnet_dropped), (Unknown, 0, 10));
        assert!(reasons[0].contains("10 packets of other interfaces"), "{reasons:?}");
        // Some are of this one: then it is lossy, and both are reported.
        let (verdict, _, reasons) = judged(&[lane(3, 0, 0)], 10);
        assert!(
            verdict == Lossy && reasons.len() == 2 && reasons[1].contains("7 packets of other"),
            "{reasons:?}"
        );
    }

    #[test]
    fn counters_of_a_driver_are_unknown_with_their_names() {
        let of_driver = |rx_dropped, other_protocols| LaneTally {
            driver_dropped: 40,
            driver_counters: [("rx_chip_discards".to_owned(), 40)].into(),
            ..lane(rx_dropped, other_protocols, 0)
        };
        let (verdict, found, reasons) = judged(&[of_driver(0, 0)], 0);
        assert_eq!((verdict, found.driver_dropped), (Unknown, 40));
        assert!(reasons[0].contains("rx_chip_discards by 40"), "{reasons:?}");
        // rx_dropped has them as well: they are lost.
        let (verdict, found, reasons) = judged(&[of_driver(40, 0)], 0);
        assert_eq!((verdict, found.driver_dropped, reasons.len()), (Lossy, 0, 1), "{reasons:?}");
        // What rx_dropped has are frames of other protocols.
        assert_eq!(judged(&[of_driver(40, 40)], 0).0, Unknown);
    }

    #[test]
    fn cut_packets_are_lossy() {
        let cut = LaneTally { truncated: 3, ..lane(0, 0, 0) };
        let (verdict, _, reasons) = judged(&[cut, lane(0, 0, 0)], 0);
        assert_eq!((verdict, reasons.len()), (Lossy, 1));
        assert!(reasons[0].starts_with("3 packets of eth0 are cut"), "{reasons:?}");
    }

    #[test]
    fn a_counted_loss_is_lossy_and_a_failure_alone_is_unknown() {
        let none = Reasons::default();
        assert_eq!(Verdict::new(false, &none, false), Lossless);
        assert_eq!(Verdict::new(true, &none, true), Lossy);
        assert_eq!(Verdict::new(false, &none, true), Unknown);
    }
}
