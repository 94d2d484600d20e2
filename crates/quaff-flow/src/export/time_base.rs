//! The time base of NetFlow's 32-bit times, and the time at which a message is encoded. Nothing here reads a clock.

/// The time base of 32-bit times, which are ms since the start of a device. It is in whole seconds since 1970, so that
/// the start that a collector computes from a header of NetFlow v9 is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Uptime {
    pub(crate) boot_ms: u64,
}

impl Uptime {
    /// A base is moved to this time before a flow, so that older flows fit, too.
    const MARGIN_MS: u64 = 86_400_000;

    pub(crate) fn new(boot_ns: u64) -> Self {
        Self { boot_ms: boot_ns / 1_000_000_000 * 1_000 }
    }

    /// Returns `true` if a header can name the time of a flow that ended then: it has seconds of 32 bits, up to 2106.
    pub(crate) fn takes(last_ns: u64) -> bool {
        last_ns / 1_000_000_000 <= u64::from(u32::MAX)
    }

    /// True if both times of a flow fit this base.
    pub(crate) fn holds(self, first_ns: u64, last_ns: u64) -> bool {
        let (first_ms, last_ms) = (first_ns / 1_000_000, last_ns / 1_000_000);
        first_ms >= self.boot_ms && last_ms.saturating_sub(self.boot_ms) <= u64::from(u32::MAX)
    }

    /// A base for a flow that does not fit the current one, because the flow is too old or more than 49.7 days after
    /// the base.
    pub(crate) fn moved_to(first_ns: u64) -> Self {
        Self { boot_ms: (first_ns / 1_000_000).saturating_sub(Self::MARGIN_MS) / 1_000 * 1_000 }
    }

    /// A time of a flow, ms since the base; the largest number if it does not fit.
    pub(crate) fn since(self, ns: u64) -> u32 {
        u32::try_from((ns / 1_000_000).saturating_sub(self.boot_ms)).unwrap_or(u32::MAX)
    }

    /// The time for a header, ms since 1970, limited to what the base can express.
    pub(crate) fn header_ms(self, now_ns: u64) -> u64 {
        (now_ns / 1_000_000).clamp(self.boot_ms, self.boot_ms + u64::from(u32::MAX))
    }

    /// The time for a header in whole seconds, rounded up: if a flow ends after the time of its message, a collector
    /// assumes that the 32 bits have wrapped.
    pub(crate) fn header_seconds(self, now_ns: u64) -> u64 {
        let last = (self.boot_ms + u64::from(u32::MAX)) / 1_000;
        self.header_ms(now_ns).div_ceil(1_000).min(last)
    }
}

/// The time at which a message is encoded, and its base.
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
        let end_ns = u64::from(u32::MAX) * 1_000_000_000 + 999_999_999;
        assert!(Uptime::takes(end_ns) && !Uptime::takes(end_ns + 1));
    }
}
