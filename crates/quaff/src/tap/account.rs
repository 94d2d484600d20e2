//! The account of each direction of a tap.
//!
//! ```text
//!   received = recorded + lost                  by the capture
//!   received = forwarded + forward_dropped      by the redirect, and the counters of the other port
//! ```
//!
//! Pure sums of counters that were read elsewhere.

use serde::Serialize;

/// The counts of a capture, of the frames that a port received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    pub received: u64,
    pub recorded: u64,
    pub lost: u64,
}

/// The counts of the kernel, of the same direction since the tap began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// Frames that the redirect passed on: before and after the other counters were read.
    pub(super) redirected: [u64; 2],
    /// Frames that the other port sent.
    pub(super) sent: u64,
    /// Frames that its driver and its queueing discipline dropped.
    pub(super) dropped: u64,
}

/// The account of one direction, in frames.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Direction {
    pub from: String,
    pub to: String,
    /// Received by the port, and offered to the capture.
    pub received: u64,
    /// In the files.
    pub recorded: u64,
    pub lost: u64,
    /// Of those received: sent by the other port; `None` where the kernel does not forward.
    pub forwarded: Option<u64>,
    /// Of those received: not sent.
    pub forward_dropped: Option<u64>,
    /// Forwarded beside those received: before the capture had begun, and after it had ended.
    pub unrecorded: Option<u64>,
    /// Not sent, and in no counter of the other port or its discipline; a part of `forward_dropped`.
    pub unexplained: u64,
    /// Sent by the other port, and not received by this one: frames of this host.
    pub host_sent: u64,
}

impl Direction {
    /// The account where the kernel does not forward.
    pub fn without_forwarding([from, to]: [&str; 2], recorded: &Recorded) -> Self {
        let Recorded { received, recorded, lost } = *recorded;
        let (from, to) = (from.to_owned(), to.to_owned());
        Self { from, to, received, recorded, lost, ..Self::default() }
    }

    /// Every frame that was received left by the other port, and no other frame did.
    pub fn is_clean(&self) -> bool {
        self.forward_dropped.unwrap_or(0) == 0 && self.host_sent == 0
    }
}

/// The account of the frames from one port to another.
pub(super) fn direction(names: [&str; 2], recorded: &Recorded, passed: &Passed) -> Direction {
    let Passed { redirected: [least, most], sent, dropped } = *passed;
    // Under traffic the counters are not of one moment.
    let left = sent + dropped;
    let redirected = left.clamp(least, most);
    let unexplained = redirected - left.min(redirected);
    let all_forwarded = redirected - (dropped + unexplained).min(redirected);
    let unrecorded = redirected.saturating_sub(recorded.received).min(all_forwarded);
    let forwarded = (all_forwarded - unrecorded).min(recorded.received);
    Direction {
        forwarded: Some(forwarded),
        forward_dropped: Some(recorded.received - forwarded),
        unrecorded: Some(unrecorded),
        unexplained: unexplained + recorded.received.saturating_sub(redirected),
        host_sent: left - left.min(redirected),
        ..Direction::without_forwarding(names, recorded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(received: u64, redirected: [u64; 2], sent: u64, dropped: u64) -> Direction {
        let recorded = Recorded { received, recorded: received, lost: 0 };
        let direction = direction(["a", "b"], &recorded, &Passed { redirected, sent, dropped });
        let sum = direction.forwarded.unwrap() + direction.forward_dropped.unwrap();
        assert_eq!(sum, received, "{direction:?}");
        direction
    }

    fn parts(of: &Direction) -> [u64; 5] {
        let [forwarded, dropped, unrecorded] =
            [of.forwarded, of.forward_dropped, of.unrecorded].map(Option::unwrap);
        [forwarded, dropped, unrecorded, of.unexplained, of.host_sent]
    }

    #[test]
    fn each_difference_has_its_place() {
        let clean = of(100, [100, 100], 100, 0);
        assert_eq!((parts(&clean), clean.is_clean()), ([100, 0, 0, 0, 0], true));
        assert_eq!(parts(&of(100, [100, 100], 97, 3)), [97, 3, 0, 0, 0], "dropped by the other port");
        assert_eq!(parts(&of(100, [100, 100], 97, 0)), [97, 3, 0, 3, 0], "gone without a counter");
        assert_eq!(parts(&of(100, [104, 104], 104, 0)), [100, 0, 4, 0, 0], "before or after the capture");
        assert_eq!(parts(&of(100, [90, 90], 90, 0)), [90, 10, 0, 10, 0], "recorded and not redirected");
        let host = of(100, [100, 100], 102, 0);
        assert_eq!((parts(&host), host.is_clean()), ([100, 0, 0, 0, 2], false));
    }

    #[test]
    fn counters_that_are_read_one_after_the_other_agree_within_their_time() {
        assert_eq!(parts(&of(100, [105, 115], 110, 0)), [100, 0, 10, 0, 0]);
        assert_eq!(parts(&of(100, [105, 115], 104, 0)), [99, 1, 5, 1, 0]);
        assert_eq!(parts(&of(100, [105, 115], 117, 0)), [100, 0, 15, 0, 2]);
    }
}
