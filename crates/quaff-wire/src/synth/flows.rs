//! Selects the flow of each frame, from the number of concurrent flows and the rate of new ones.
//!
//! Flows are sent in turn, one frame each. Each has a slot, which the next flow takes when it ends. The number of a
//! flow is that of its 5-tuple.

/// Number and lifetime of flows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flows {
    /// Number of concurrent flows.
    pub concurrent: u64,
    /// Rate of new flows.
    pub new: New,
}

/// The moment at which a flow replaces another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum New {
    Never,
    /// This number of new flows per second, evenly; the oldest ones end.
    PerSecond(f64),
    /// A new flow with every frame.
    EachFrame,
}

impl Default for Flows {
    fn default() -> Self {
        Self { concurrent: 1, new: New::Never }
    }
}

impl Flows {
    /// The flow of frame `number`, which is due `due_ns` after the first.
    pub(super) fn of_frame(&self, number: u64, due_ns: u64) -> u64 {
        match self.new {
            New::EachFrame => number,
            New::Never => number % self.concurrent,
            New::PerSecond(rate) => {
                let slot = number % self.concurrent;
                // Slots are renewed in turn: slot 0 by the first new flow, and so on.
                let renewed = (births(rate, due_ns) + self.concurrent - 1 - slot) / self.concurrent;
                slot + renewed * self.concurrent
            }
        }
    }

    /// Number of flows in the first `frames` frames, the last of which was due at `due_ns`.
    pub fn begun(&self, frames: u64, due_ns: u64) -> u64 {
        match self.new {
            New::EachFrame => frames,
            New::Never => frames.min(self.concurrent),
            New::PerSecond(rate) => (self.concurrent + births(rate, due_ns)).min(frames),
        }
    }
}

/// Computed in integers: a rate of 1000 has exactly one new flow per ms.
fn births(rate: f64, due_ns: u64) -> u64 {
    const PARTS: f64 = 1e6;
    let scaled = u128::from(due_ns) * (rate * PARTS).round() as u128;
    u64::try_from(scaled / (PARTS as u128 * 1_000_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn unique(flows: Flows, frames: u64, pps: u64) -> (usize, usize) {
        let of = |n: u64| flows.of_frame(n, n * 1_000_000_000 / pps);
        let all: HashSet<_> = (0..frames).map(of).collect();
        let window = frames - flows.concurrent..frames;
        let last: HashSet<_> = window.map(of).collect();
        (all.len(), last.len())
    }

    #[test]
    fn flows_take_turns() {
        let flows = Flows { concurrent: 100, new: New::Never };
        assert_eq!(unique(flows, 1000, 1000), (100, 100));
        assert_eq!(flows.begun(1000, 0), 100);
        assert_eq!(unique(Flows { concurrent: 1, new: New::EachFrame }, 1000, 1000).0, 1000);
    }

    #[test]
    fn new_flows_come_at_their_rate() {
        for (concurrent, rate, pps) in
            [(10, 100.0, 1000), (2, 1000.0, 1000), (1, 1000.0, 1000), (500, 7.0, 1000)]
        {
            let flows = Flows { concurrent, new: New::PerSecond(rate) };
            let (all, last) = unique(flows, 10_000, pps);
            let expected = concurrent as f64 + rate * 10.0;
            assert!((all as f64 - expected).abs() <= concurrent as f64 + 1.0, "{flows:?}: {all}");
            assert_eq!(last as u64, concurrent, "so many at a time");
            let begun = flows.begun(10_000, 9_999_000_000);
            assert!(begun.abs_diff(all as u64) <= concurrent + 1, "{begun} begun, {all} seen");
        }
    }
}
