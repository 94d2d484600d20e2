//! The switch's own time, where ERSPAN III has it: ticks of 32 bits that say nothing of the day.
//!
//! The first packet of a session sets the clock: its ticks are our time. From then on the ticks
//! count, and which of their rounds it is, our time tells. A marker packet, which carries ticks and
//! UTC, sets the clock better.

/// One session's clock.
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
    /// Sets it: at so many ticks it was so late.
    pub(super) fn set(&mut self, ticks: u32, tick_ns: u32, time_ns: u64) {
        self.anchor = Some(Anchor { ticks, time_ns, tick_ns });
    }

    /// The time of a packet with so many ticks, that we saw at `seen_ns`.
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
    fn ticks_count_and_our_time_tells_the_round() {
        let mut clock = Clock::default();
        let start_ns = 1_790_000_000_000_000_000;
        assert_eq!(clock.time_ns(u32::MAX - 10, 100, start_ns), start_ns);
        // 50 ticks later, over the end, seen 3 ms late.
        assert_eq!(clock.time_ns(39, 100, start_ns + 3_005_000), start_ns + 5_000);
        // Sent before the first, seen after it.
        assert_eq!(clock.time_ns(u32::MAX - 20, 100, start_ns + 2_000), start_ns - 1_000);
        // A round is 429.5 s: three rounds of silence.
        let rounds_ns = 3 * (1u64 << 32) * 100;
        assert_eq!(clock.time_ns(39, 100, start_ns + rounds_ns + 9_000), start_ns + rounds_ns + 5_000);
        // Another granularity is another clock.
        assert_eq!(clock.time_ns(39, 100_000, start_ns + 77), start_ns + 77);
    }
}
