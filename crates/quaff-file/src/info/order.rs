//! The times of packets in the order of a file: the first and the last, steps backwards, and the longest gaps.
//!
//! Parts of a file are counted side by side and joined. This module never reads files.

use serde::Serialize;

/// Number of gaps kept.
pub(super) const GAPS_MAX: usize = 5;

/// A time without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The latest time of a packet before it, ns since 1970.
    pub from_ns: u64,
    /// Time of the packet that ends it, ns since 1970.
    pub to_ns: u64,
    /// Number of that packet in the file, from 1.
    pub packet: u64,
}

impl Gap {
    /// Its length, ns.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// The times of packets, in the order of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    /// Number of packets with a time.
    pub(super) timed: u64,
    /// Time of the first packet, and of the last one.
    first_ns: u64,
    last_ns: u64,
    pub(super) earliest_ns: u64,
    pub(super) latest_ns: u64,
    /// Number of packets that are earlier than the packet before them.
    pub(super) backward: u64,
    /// The most by which a packet is earlier than the latest one before it.
    pub(super) late_max_ns: u64,
    gaps: LongestGaps,
}

/// The longest gaps, the longest first; the earlier one first among equals.
#[derive(Debug, Clone, Default)]
struct LongestGaps {
    list: Vec<Gap>,
    /// Only longer ones are noted.
    floor_ns: u64,
}

impl Order {
    /// Counts a part of a file, and notes only gaps that are longer than `floor_ns`.
    pub(super) fn of_part(floor_ns: u64) -> Self {
        Self { gaps: LongestGaps { list: Vec::new(), floor_ns }, ..Self::default() }
    }

    /// Takes the time of packet number `packet`.
    #[inline]
    pub(super) fn take(&mut self, time_ns: u64, packet: u64) {
        if self.timed == 0 {
            (self.first_ns, self.earliest_ns, self.latest_ns) = (time_ns, time_ns, time_ns);
        } else {
            self.backward += u64::from(time_ns < self.last_ns);
            if time_ns > self.latest_ns {
                if time_ns - self.latest_ns > self.gaps.floor_ns {
                    self.gaps.note(Gap { from_ns: self.latest_ns, to_ns: time_ns, packet });
                }
                self.latest_ns = time_ns;
            } else {
                self.late_max_ns = self.late_max_ns.max(self.latest_ns - time_ns);
                self.earliest_ns = self.earliest_ns.min(time_ns);
            }
        }
        self.last_ns = time_ns;
        self.timed += 1;
    }

    /// Returns whether [`Order::absorb`] gives what counting in one go would have given. The gaps of a part may be
    /// filled by packets before it, and shorter ones that the part did not note take their place.
    pub(super) fn can_absorb(&self, later: &Self) -> bool {
        let is_filled = |gap: &Gap| gap.from_ns < self.latest_ns;
        self.timed == 0 || !later.gaps.is_full() || !later.gaps.list.iter().any(is_filled)
    }

    /// Takes what was counted in the part that follows; `packets` is the number of packets before it.
    pub(super) fn absorb(&mut self, later: &Self, packets: u64) {
        if later.timed == 0 {
            return;
        }
        let latest_ns = self.latest_ns;
        if self.timed == 0 {
            (self.first_ns, self.earliest_ns, self.latest_ns) =
                (later.first_ns, later.earliest_ns, later.latest_ns);
        } else {
            self.backward += u64::from(later.first_ns < self.last_ns);
            self.late_max_ns = self.late_max_ns.max(latest_ns.saturating_sub(later.earliest_ns));
            self.earliest_ns = self.earliest_ns.min(later.earliest_ns);
            self.latest_ns = latest_ns.max(later.latest_ns);
            self.gaps.note_longer(Gap { from_ns: latest_ns, to_ns: later.first_ns, packet: packets + 1 });
        }
        for gap in &later.gaps.list {
            let from_ns = if self.timed == 0 { gap.from_ns } else { gap.from_ns.max(latest_ns) };
            self.gaps.note_longer(Gap { from_ns, packet: gap.packet + packets, ..*gap });
        }
        self.backward += later.backward;
        self.late_max_ns = self.late_max_ns.max(later.late_max_ns);
        self.last_ns = later.last_ns;
        self.timed += later.timed;
    }

    /// The length that a gap must exceed to be among the longest.
    pub(super) fn floor_ns(&self) -> u64 {
        self.gaps.floor_ns
    }

    pub(super) fn gaps(self) -> Vec<Gap> {
        self.gaps.list
    }
}

impl LongestGaps {
    fn is_full(&self) -> bool {
        self.list.len() == GAPS_MAX
    }

    /// Notes a gap if it is one, and long enough.
    fn note_longer(&mut self, gap: Gap) {
        if gap.to_ns.saturating_sub(gap.from_ns) > self.floor_ns {
            self.note(gap);
        }
    }

    #[cold]
    fn note(&mut self, gap: Gap) {
        let at = self.list.partition_point(|longer| longer.ns() >= gap.ns());
        self.list.insert(at, gap);
        self.list.truncate(GAPS_MAX);
        if let Some(shortest) = self.list.last().filter(|_| self.list.len() == GAPS_MAX) {
            self.floor_ns = self.floor_ns.max(shortest.ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(times: &[u64]) -> Order {
        let mut order = Order::default();
        (1..).zip(times).for_each(|(packet, time_ns)| order.take(*time_ns, packet));
        order
    }

    /// Everything that a report needs, from a list of times.
    fn naive(times: &[u64]) -> (u64, u64, Vec<Gap>) {
        let backward = times.windows(2).filter(|pair| pair[1] < pair[0]).count() as u64;
        let (mut late_max_ns, mut gaps) = (0, Vec::new());
        for (at, &time_ns) in times.iter().enumerate().skip(1) {
            let latest_ns = *times[..at].iter().max().expect("one before it");
            late_max_ns = late_max_ns.max(latest_ns.saturating_sub(time_ns));
            if time_ns > latest_ns {
                gaps.push(Gap { from_ns: latest_ns, to_ns: time_ns, packet: at as u64 + 1 });
            }
        }
        gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.ns()), gap.packet));
        gaps.truncate(GAPS_MAX);
        (backward, late_max_ns, gaps)
    }

    fn shown(order: Order) -> (u64, u64, Vec<Gap>) {
        (order.backward, order.late_max_ns, order.gaps.list)
    }

    proptest! {
        #[test]
        fn parts_that_can_be_joined_are_as_counted_in_one_go(
            steps in prop::collection::vec(-30i64..40, 0..120), cuts in prop::collection::vec(1usize..40, 0..6),
        ) {
            let mut now = 1000u64;
            let times: Vec<u64> = steps.iter().map(|step| {
                now = now.saturating_add_signed(*step);
                now
            }).collect();
            prop_assert_eq!(shown(counted(&times)), naive(&times));
            let (mut whole, mut at) = (Order::default(), 0);
            for cut in cuts.into_iter().chain([times.len()]) {
                let end = (at + cut).min(times.len());
                let mut part = Order::of_part(whole.floor_ns());
                (1..).zip(&times[at..end]).for_each(|(packet, time_ns)| part.take(*time_ns, packet));
                if whole.can_absorb(&part) {
                    whole.absorb(&part, at as u64);
                } else {
                    (at as u64 + 1..).zip(&times[at..end]).for_each(|(packet, time_ns)| whole.take(*time_ns, packet));
                }
                at = end;
            }
            prop_assert_eq!((whole.timed, at), (times.len() as u64, times.len()));
            if let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) {
                prop_assert_eq!((whole.earliest_ns, whole.latest_ns), (*first, *last));
            }
            prop_assert_eq!(shown(whole), naive(&times));
        }
    }

    #[test]
    fn parts_in_order_can_always_be_joined() {
        let whole = counted(&[1, 2, 3]);
        let part = counted(&(0..50).map(|i| 3 + i * i).collect::<Vec<_>>());
        assert!(part.gaps.is_full() && whole.can_absorb(&part));
        assert!(!counted(&[1, 2, 2000]).can_absorb(&part));
    }
}
