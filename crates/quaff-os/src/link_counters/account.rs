//! The comparison of an interface's drops with those of the cores' backlogs. It never reads a counter.
//!
//! The kernel counts a drop of a backlog twice: in `softnet_stat` of the core, and in `rx_dropped` of the frame's
//! interface.

use super::{LinkDrops, LowerDrops};

/// A packet socket: the drops of its interface, and the frames that may be in `rx_dropped` though it received them.
#[derive(Debug, Clone, Copy)]
pub struct Tap<'a> {
    pub link: &'a LinkDrops,
    /// Received frames of protocols that the stack may not handle: it drops them after the socket.
    pub other_protocols: u64,
    /// Frames of protocols that are not known, because a filter hid them.
    pub hidden: u64,
}

/// Packets of `rx_dropped` that were dropped before the socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeforeTap {
    /// The upper bound.
    pub dropped: u64,
    /// The lower bound.
    pub sure: u64,
    /// The part that backlogs dropped.
    pub in_backlog: u64,
}

impl Tap<'_> {
    /// The part of `rx_dropped` that was dropped before the socket. `backlog`: drops of backlogs that no interface
    /// explains; those of this one are subtracted.
    pub fn before_tap(&self, backlog: &mut u64) -> BeforeTap {
        let LinkDrops { rx_dropped, rx_dropped_by_driver, .. } = *self.link;
        let in_backlog = take(backlog, rx_dropped.saturating_sub(rx_dropped_by_driver));
        let dropped = rx_dropped.saturating_sub(self.other_protocols).max(rx_dropped_by_driver + in_backlog);
        let sure = rx_dropped.saturating_sub(self.other_protocols).saturating_sub(self.hidden);
        BeforeTap { dropped, sure: sure.max(rx_dropped_by_driver), in_backlog }
    }

    /// All packets that the socket may lack, without those of `nic_dropped`: dropped before it, below its interface,
    /// and by backlogs (`backlog` of them) for interfaces that are not known.
    pub fn may_lack(&self, mut backlog: u64) -> u64 {
        let before = self.before_tap(&mut backlog);
        let lower: u64 = self.link.lower.iter().map(|lower| lower.may_be_above(&mut backlog)).sum();
        let driver = self.link.driver_dropped_beyond(before.dropped);
        before.dropped + driver + self.link.xdp_dropped + lower + backlog
    }
}

impl LowerDrops {
    /// The packets that may have been for the interface above. `backlog` as for [`Tap::before_tap`].
    pub fn may_be_above(&self, backlog: &mut u64) -> u64 {
        let in_backlog = take(backlog, self.rx_dropped.saturating_sub(self.rx_dropped_by_driver));
        let rx_dropped = match self.is_listed {
            true => self.rx_dropped_by_driver + in_backlog,
            false => self.rx_dropped,
        };
        self.dropped + rx_dropped
    }
}

/// Subtracts up to `most` from `from`; returns the number subtracted.
fn take(from: &mut u64, most: u64) -> u64 {
    let taken = most.min(*from);
    *from -= taken;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_of_a_backlog_is_of_one_interface() {
        let link = LinkDrops { rx_dropped: 30, rx_dropped_by_driver: 10, ..LinkDrops::default() };
        let tap = Tap { link: &link, other_protocols: 0, hidden: 100 };
        let mut backlog = 25;
        let before = tap.before_tap(&mut backlog);
        assert_eq!((before, backlog), (BeforeTap { dropped: 30, sure: 10, in_backlog: 20 }, 5));
        assert_eq!(tap.may_lack(25), 35);
        // Frames that nothing handled may be all but what the driver and the backlog dropped.
        let tap = Tap { other_protocols: 30, ..tap };
        assert_eq!(tap.before_tap(&mut 4), BeforeTap { dropped: 14, sure: 10, in_backlog: 4 });
    }

    #[test]
    fn frames_that_nothing_handled_below_are_not_for_the_interface_above() {
        let lower = LowerDrops { rx_dropped: 12, is_listed: true, ..LowerDrops::default() };
        assert_eq!(lower.may_be_above(&mut 0), 0);
        let mut backlog = 10;
        assert_eq!((lower.may_be_above(&mut backlog), backlog), (10, 0));
        let unlisted = LowerDrops { is_listed: false, dropped: 3, ..lower };
        let mut backlog = 20;
        assert_eq!((unlisted.may_be_above(&mut backlog), backlog), (15, 8));
    }
}
