//! Timestamps of a pcapng file: converts by `if_tsresol` and `if_tsoffset` to ns since 1970, exactly or rounded down.

use crate::item::Corrections;

const NS_PER_S: i128 = 1_000_000_000;

/// Converts the timestamps of one interface to ns.
///
/// `if_tsresol` is one byte: a negative power of 10, or of 2 if its highest bit is set; 6 (µs) if the option is absent.
/// `if_tsoffset` are seconds to add. Times outside 1970 to 2554 become the nearer limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeScale {
    unit: Unit,
    offset_ns: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A tick has this many ns.
    Ns(u64),
    /// This many ticks are a ns; `None` if no 64-bit count of ticks reaches one.
    PerNs(Option<u64>),
    /// 2 to the power of this number is the number of ticks per second.
    PerSecondLog2(u32),
}

impl Default for TimeScale {
    fn default() -> Self {
        Self::new(6, 0)
    }
}

impl TimeScale {
    /// Created from the values of the two options.
    pub(crate) fn new(tsresol: u8, tsoffset_s: i64) -> Self {
        let power = u32::from(tsresol & 0x7F);
        let unit = match (tsresol & 0x80 != 0, power) {
            (true, _) => Unit::PerSecondLog2(power),
            (false, 0..=9) => Unit::Ns(10u64.pow(9 - power)),
            (false, _) => Unit::PerNs(10u64.checked_pow(power - 9)),
        };
        Self { unit, offset_ns: i128::from(tsoffset_s) * NS_PER_S }
    }

    /// Converts a count of ticks to ns since 1970.
    #[inline]
    pub(crate) fn ns(&self, ticks: u64) -> u64 {
        match (self.unit, self.offset_ns) {
            (Unit::Ns(1), 0) => ticks,
            (Unit::Ns(1000), 0) => ticks.saturating_mul(1000),
            _ => self.ns_of_any(ticks),
        }
    }

    /// As [`Self::ns`], for the time of a packet: one outside 1970 to 2554 is counted.
    #[inline]
    pub(crate) fn packet_ns(&self, ticks: u64, corrected: &mut Corrections) -> u64 {
        match self.ns(ticks) {
            0 | u64::MAX => corrected.time_ns(self.exactly(ticks)),
            ns => ns,
        }
    }

    fn ns_of_any(&self, ticks: u64) -> u64 {
        self.exactly(ticks).clamp(0, i128::from(u64::MAX)) as u64
    }

    fn exactly(&self, ticks: u64) -> i128 {
        let ticks = i128::from(ticks);
        let ns = match self.unit {
            Unit::Ns(ns) => ticks * i128::from(ns),
            Unit::PerNs(ticks_per_ns) => ticks_per_ns.map_or(0, |per_ns| ticks / i128::from(per_ns)),
            Unit::PerSecondLog2(power) => (ticks * NS_PER_S) >> power,
        };
        ns + self.offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten() {
        assert_eq!(TimeScale::new(0, 0).ns(7), 7_000_000_000);
        assert_eq!(TimeScale::new(6, 0).ns(1_234_567), 1_234_567_000);
        assert_eq!(TimeScale::new(9, 0).ns(1_234_567), 1_234_567);
        assert_eq!(TimeScale::new(12, 0).ns(1_234_567), 1_234);
        assert_eq!(TimeScale::new(28, 0).ns(u64::MAX), 1);
        assert_eq!(TimeScale::new(127, 0).ns(u64::MAX), 0);
    }

    #[test]
    fn powers_of_two() {
        assert_eq!(TimeScale::new(0x80, 0).ns(3), 3_000_000_000);
        assert_eq!(TimeScale::new(0x80 | 32, 0).ns(1 << 31), 500_000_000);
        assert_eq!(TimeScale::new(0xFF, 0).ns(u64::MAX), 0);
    }

    #[test]
    fn times_outside_the_range_are_counted_and_no_others() {
        let mut counted = Corrections::default();
        let mut read = |tsresol, offset_s, ticks| {
            let ns = TimeScale::new(tsresol, offset_s).packet_ns(ticks, &mut counted);
            (ns, counted.early, counted.late)
        };
        assert_eq!(read(6, 0, 0), (0, 0, 0));
        assert_eq!(read(6, -10, 10_000_000), (0, 0, 0), "exactly 1970");
        assert_eq!(read(6, -10, 9_999_999), (1, 1, 0));
        assert_eq!(read(9, 0, u64::MAX - 1), (u64::MAX - 1, 1, 0));
        assert_eq!(read(0, 0, u64::MAX), (u64::MAX, 1, 1));
        assert_eq!(read(6, i64::MIN, u64::MAX), (1, 2, 1));
    }

    #[test]
    fn offsets_and_ends_of_time() {
        assert_eq!(TimeScale::new(9, 2).ns(5), 2_000_000_005);
        assert_eq!(TimeScale::new(9, -2).ns(5), 0);
        assert_eq!(TimeScale::new(0, 0).ns(u64::MAX), u64::MAX);
        assert_eq!(TimeScale::new(6, 0).ns(u64::MAX), u64::MAX);
        assert_eq!(TimeScale::new(0x80, i64::MAX).ns(u64::MAX), u64::MAX);
        assert_eq!(TimeScale::new(0x80, i64::MIN).ns(5), 0);
    }
}
