//! Times of packets, which some packets lack: their span and order, and the distances at which a packet is a copy of
//! another one, or an answer that the file has before its request.

/// Most time between a packet and its copy, which a mirror port or a second tap has seen, ns: that of `quaff verify`.
pub(super) const COPY_NS: u64 = 1_000_000;
/// Most time by which an answer may be in the file before its request, ns.
pub(super) const EARLY_NS: u64 = 100_000_000;

/// True for two times that are at most `most_ns` apart.
pub(super) fn are_within(one_ns: Option<u64>, other_ns: Option<u64>, most_ns: u64) -> bool {
    one_ns.zip(other_ns).is_some_and(|(one_ns, other_ns)| one_ns.abs_diff(other_ns) <= most_ns)
}

/// True unless an answer is too far from its request: packets without a time are judged by their numbers alone.
pub(super) fn may_be_early(answer_ns: Option<u64>, request_ns: Option<u64>) -> bool {
    answer_ns.is_none() || request_ns.is_none() || are_within(answer_ns, request_ns, EARLY_NS)
}

/// The time from a request to its answer, ns; `None` if one of them has no time, or the answer the earlier one.
pub(super) fn between(request_ns: Option<u64>, answer_ns: Option<u64>) -> Option<u64> {
    request_ns.zip(answer_ns).and_then(|(request_ns, answer_ns)| answer_ns.checked_sub(request_ns))
}

/// True for a time less than `wait_ns` before the end of the capture.
pub(super) fn is_near_end(time_ns: Option<u64>, end_ns: Option<u64>, wait_ns: u64) -> bool {
    time_ns.zip(end_ns).is_some_and(|(time_ns, end_ns)| time_ns.saturating_add(wait_ns) > end_ns)
}

/// The times of packets that follow one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// Packets without a time.
    pub(super) untimed: u64,
    /// Packets that are earlier than the packet before them.
    pub(super) backward: u64,
    known: Option<Known>,
}

/// The times of packets that have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// Of the first and of the last packet.
    first_ns: u64,
    last_ns: u64,
    earliest_ns: u64,
    latest_ns: u64,
}

impl Times {
    /// Adds the time of the next packet.
    #[inline]
    pub(super) fn add(&mut self, time_ns: Option<u64>) {
        let Some(time_ns) = time_ns else {
            self.untimed += 1;
            return;
        };
        let at = Known { first_ns: time_ns, last_ns: time_ns, earliest_ns: time_ns, latest_ns: time_ns };
        self.follow(at);
    }

    /// Adds the times of the packets that follow.
    pub(super) fn absorb(&mut self, later: &Self) {
        self.untimed += later.untimed;
        self.backward += later.backward;
        if let Some(later) = later.known {
            self.follow(later);
        }
    }

    #[inline]
    fn follow(&mut self, later: Known) {
        let Some(known) = &mut self.known else {
            self.known = Some(later);
            return;
        };
        self.backward += u64::from(later.first_ns < known.last_ns);
        known.last_ns = later.last_ns;
        known.earliest_ns = known.earliest_ns.min(later.earliest_ns);
        known.latest_ns = known.latest_ns.max(later.latest_ns);
    }

    /// The earliest and the latest time, ns.
    pub(super) fn span(&self) -> Option<[u64; 2]> {
        self.known.map(|known| [known.earliest_ns, known.latest_ns])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_size_have_the_same_times() {
        let all = [None, Some(7), Some(0), Some(9), None, Some(8), Some(8), Some(3)];
        for size in 1..=all.len() {
            let mut times = Times::default();
            for part in all.chunks(size) {
                let mut later = Times::default();
                part.iter().for_each(|time_ns| later.add(*time_ns));
                times.absorb(&later);
            }
            assert_eq!((times.untimed, times.backward, times.span()), (2, 3, Some([0, 9])), "{size}");
        }
        assert_eq!(Times::default().span(), None);
    }

    #[test]
    fn times_that_are_missing_are_near_to_none() {
        assert!(are_within(Some(5), Some(8), 3) && !are_within(Some(5), Some(9), 3));
        assert!(!are_within(None, Some(0), 3) && !are_within(None, None, 3));
        assert!(may_be_early(None, Some(5)) && may_be_early(Some(EARLY_NS), Some(0)));
        assert!(!may_be_early(Some(EARLY_NS + 1), Some(0)));
        assert_eq!(
            [between(Some(5), Some(8)), between(Some(8), Some(5)), between(None, Some(8))],
            [Some(3), None, None]
        );
        assert!(
            is_near_end(Some(5), Some(8), 4)
                && !is_near_end(Some(5), Some(8), 3)
                && !is_near_end(None, Some(8), 9)
        );
    }
}
