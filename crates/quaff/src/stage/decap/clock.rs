//! The time stamps of a switch in ERSPAN III: 32-bit ticks without an epoch.
//!
//! The first packet of a session sets the clock: its ticks correspond to its capture time. Later ticks count from
//! there; the capture time only determines how often they wrapped. A marker packet, with ticks and UTC, sets the
//! clock exactly.

/// The clock of one session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    anchor: Option<Anchor>,
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    ticks: u32,
    time_ns: u64,
    tick_ns: u32,
}

impl Clock {
    /// Sets the clock: `ticks` correspond to `time_ns`.
    pub(super) fn set(&mut self, ticks: u32, tick_ns: u32, time_ns: u64) {
        self.anchor = Some(Anchor { ticks, time_ns, tick_ns });
    }

    /// The time of a packet with `ticks` that was captured at `seen_ns`.
    pub(super) fn time_ns(&mut self, ticks: u32, tick_ns: u32, seen_ns: u64) -> u64 {
        let anchor = match self.anchor {
            Some(anchor) if anchor.tick_ns == tick_ns => anchor,
            _ => {
                self.set(ticks, tick_ns, seen_ns);
                return seen_ns;
            }
        };
        let (tick_ns, round) = (i128::from(tick_ns), 1i128 << 32);
        let since = i128::from(ticks.wrapping_sub(anchor.ticks));
        let expected = (i128::from(seen_ns) - i128::from(anchor.time_ns)) / tick_ns.max(1);
        let rounds = (expected - since + round / 2).div_euclid(round);
        let time_ns = i128::from(anchor.time_ns) + (since + rounds * round) * tick_ns;
        u64::try_from(time_ns).unwrap_or(seen_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_count_and_the_capture_time_determines_the_wrap() {
        let mut clock = Clock::default();
        let start_ns = 1_790_000_000_000_000_000;
        assert_eq!(clock.time_ns(u32::MAX - 10, 100, start_ns), start_ns);
        // 50 ticks later, after a wrap, captured 3 ms late.
        assert_eq!(clock.time_ns(39, 100, start_ns + 3_005_000), start_ns + 5_000);
        // Sent before the first, captured after it.
        assert_eq!(clock.time_ns(u32::MAX - 20, 100, start_ns + 2_000), start_ns - 1_000);
        // One wrap takes 429.5 s: no packets for three wraps.
        let rounds_ns = 3 * (1u64 << 32) * 100;
        assert_eq!(clock.time_ns(39, 100, start_ns + rounds_ns + 9_000), start_ns + rounds_ns + 5_000);
        // Another granularity sets the clock anew.
        assert_eq!(clock.time_ns(39, 100_000, start_ns + 77), start_ns + 77);
    }
}
