//! The time base of NetFlow's 32-bit times, and the time that a message is made at. Nothing here reads a clock.

/// The time base of 32-bit times, ms since the start of a device. Whole seconds since 1970, so that the start that a
/// collector computes from the header of NetFlow v9 is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uptime {
    pub(crate) boot_ms: u64,
}

impl Uptime {
    /// Moved bases lie this long before the flow for which they were moved, so that older ones fit too.
    const MARGIN_MS: u64 = 86_400_000;

    pub(crate) fn new(boot_ns: u64) -> Self {
        Self { boot_ms: boot_ns / 1_000_000_000 * 1_000 }
    }

    /// Returns `true` if both times of a flow can be written.
    pub(crate) fn holds(self, first_ns: u64, last_ns: u64) -> bool {
        let (first_ms, last_ms) = (first_ns / 1_000_000, last_ns / 1_000_000);
        first_ms >= self.boot_ms && last_ms.saturating_sub(self.boot_ms) <= u64::from(u32::MAX)
    }

    /// A base for a flow that this one does not hold: earlier ones when it is old, later ones after 49.7 days.
    pub(crate) fn moved_to(first_ns: u64) -> Self {
        Self { boot_ms: (first_ns / 1_000_000).saturating_sub(Self::MARGIN_MS) / 1_000 * 1_000 }
    }

    /// A time of a flow, ms since the start; the largest number for one that does not fit.
    pub(crate) fn since(self, ns: u64) -> u32 {
        u32::try_from((ns / 1_000_000).saturating_sub(self.boot_ms)).unwrap_or(u32::MAX)
    }

    /// The time of a header, ms since 1970, within what the base can express.
    pub(crate) fn header_ms(self, now_ns: u64) -> u64 {
        (now_ns / 1_000_000).clamp(self.boot_ms, self.boot_ms + u64::from(u32::MAX))
    }

    /// The same in whole seconds, rounded up: a collector takes a flow that ends after its message for one of the time
    /// before the 32 bits wrapped.
    pub(crate) fn header_seconds(self, now_ns: u64) -> u64 {
        let last = (self.boot_ms + u64::from(u32::MAX)) / 1_000;
        self.header_ms(now_ns).div_ceil(1_000).min(last)
    }
}

/// The time that a message is made at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) now_ns: u64,
    pub(crate) uptime: Uptime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_base_moves_both_ways() {
        let base = Uptime::new(10_000_000_000_000);
        let first_ns = 5_000_000_000_000;
        assert!(!base.holds(first_ns, first_ns + 1));
        assert!(Uptime::moved_to(first_ns).holds(first_ns, first_ns + 1));
        let late_ns = 10_000_000_000_000 + (1 << 32) * 1_000_000;
        assert!(!base.holds(late_ns, late_ns));
        assert!(Uptime::moved_to(late_ns).holds(late_ns, late_ns));
    }
}
