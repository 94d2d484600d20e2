//! The numbers that one sender gives its packets, in the order of a capture: received ones, and missing ones.
//!
//! A number is missing if higher ones arrived: all from the first to the highest are expected, and each received number
//! counts once (RFC 3550, appendix A.3). A late one takes its place, however late it is, so reordering proves nothing.
//!
//! Missing numbers are declared lost after 16 more consecutive ones and 100 ms, if the sender's numbers behave like a
//! counter: half of the steps are by one, and at most an eighth arrived late. Two counters with one identity, or a
//! counter shared with others, do not behave like that. A leap of more than 64 is a loss only if there was time for as
//! many packets; otherwise the sender has restarted, as after a backward leap.

use super::report::NumberReport;

/// Numbers whose copies are recognised.
const RECENT: i64 = 64;
/// Maximum lateness of a packet in numbers while some are missing.
const LATE_MAX: i64 = 4096;
/// Consecutive numbers after a gap before it counts, and the time that must pass, ns.
const CONFIRM: u16 = 16;
const CONFIRM_NS: u64 = 100_000_000;
/// Leaps up to this are losses; longer ones if the mean packet interval, divided by `HURRY`, allows them.
const NEAR: i64 = 64;
const HURRY: u64 = 8;

/// The properties of a kind of counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Bits of a number.
    pub(super) bits: u32,
    /// Minimum number of consecutive numbers for a counter.
    pub(super) steps_min: u32,
    /// Required share of steps by one, in sixteenths.
    pub(super) steady: u64,
    /// Largest leap that may be a loss.
    pub(super) leap_max: i64,
}

/// Missing numbers declared lost at a time; negative if they arrived after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) time_ns: u64,
    pub(super) lost: i64,
}

/// The state of one counter, for one run of numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counter {
    /// The first number, and the highest so far, unwrapped.
    base: u64,
    top: u64,
    /// Bit n: the number n below `top` arrived.
    recent: u64,
    /// Distinct received numbers; those that followed the highest directly; those below it.
    came: u64,
    steps: u32,
    late: u32,
    copies: u32,
    /// Numbers declared lost.
    declared: u32,
    /// The number after the last one that was far from all others.
    stray: Option<u32>,
    /// Consecutive numbers since the latest gap.
    quiet: u16,
    /// True after a restart.
    is_again: bool,
    first_ns: u64,
    top_ns: u64,
    /// Times before and after the missing numbers that are not yet declared; 0 without any.
    before_ns: u64,
    gap_ns: u64,
    /// Time of the last declaration.
    declared_ns: u64,
}

impl Rules {
    /// The distance to a number from another one.
    fn ahead(&self, number: u32, from: u64) -> i64 {
        let unused = 32 - self.bits;
        let distance = number.wrapping_sub(from as u32) << unused;
        i64::from(distance as i32 >> unused)
    }
}

impl Counter {
    fn begin(&mut self, number: u32, time_ns: u64, is_again: bool) {
        // Leaves room for numbers below it.
        let base = (1 << 33) + u64::from(number);
        *self = Self {
            base,
            top: base,
            recent: 1,
            came: 1,
            is_again,
            first_ns: time_ns,
            top_ns: time_ns,
            ..Self::default()
        };
    }

    /// True if the number before this one arrived last.
    pub(super) fn is_before(&self, number: u32, rules: &Rules) -> bool {
        self.came > 0 && rules.ahead(number, self.top) == 1
    }

    /// Processes the next number.
    pub(super) fn take(
        &mut self,
        number: u32,
        time_ns: u64,
        rules: &Rules,
        totals: &mut NumberReport,
    ) -> Option<Change> {
        if self.came == 0 {
            self.begin(number, time_ns, false);
            return None;
        }
        let distance = rules.ahead(number, self.top);
        if distance == 1 && self.gap_ns == 0 {
            // No undeclared number is missing.
            self.forward(1, time_ns);
            return None;
        }
        match distance {
            1.. if self.is_plausible(distance, time_ns, rules) => {
                self.forward(distance, time_ns);
                self.declare(time_ns, rules, totals)
            }
            -63..=0 if self.recent >> -distance & 1 != 0 => {
                self.copies = self.copies.saturating_add(1);
                None
            }
            // Numbers before the first one have no place.
            ..=0 if -distance < RECENT && self.top.saturating_add_signed(distance) < self.base => None,
            ..=0 if -distance < RECENT => {
                self.recent |= 1 << -distance;
                self.fill(totals)
            }
            ..=0 if distance >= -LATE_MAX && self.missing() > 0 => self.fill(totals),
            _ => self.leap(number, time_ns, rules, totals),
        }
    }

    /// True if `distance` packets may have passed since the latest one.
    fn is_plausible(&self, distance: i64, time_ns: u64, rules: &Rules) -> bool {
        if distance <= NEAR {
            return true;
        }
        let mean_ns = self.top_ns.saturating_sub(self.first_ns) / self.came.max(1);
        let elapsed_ns = time_ns.saturating_sub(self.top_ns);
        let needed_ns = mean_ns.saturating_mul(distance.unsigned_abs());
        distance <= rules.leap_max && elapsed_ns.saturating_mul(HURRY) >= needed_ns
    }

    #[inline]
    fn forward(&mut self, distance: i64, time_ns: u64) {
        if distance == 1 {
            self.steps = self.steps.saturating_add(1);
            self.quiet = self.quiet.saturating_add(1);
        } else {
            if self.gap_ns == 0 {
                self.before_ns = self.top_ns;
            }
            (self.gap_ns, self.quiet) = (time_ns.max(1), 0);
        }
        self.recent = self.recent.checked_shl(distance as u32).unwrap_or(0) | 1;
        self.top += distance.unsigned_abs();
        (self.came, self.top_ns) = (self.came + 1, time_ns);
    }

    /// Processes a missing number that arrived late.
    fn fill(&mut self, totals: &mut NumberReport) -> Option<Change> {
        self.late = self.late.saturating_add(1);
        self.came += 1;
        if self.missing() >= u64::from(self.declared) {
            return None;
        }
        self.declared -= 1;
        totals.lost -= 1;
        Some(Change { time_ns: self.declared_ns, lost: -1 })
    }

    /// Number of missing packets.
    fn missing(&self) -> u64 {
        (self.top - self.base + 1).saturating_sub(self.came)
    }

    /// True if the numbers behave like a counter of this sender alone.
    fn is_counter(&self, rules: &Rules) -> bool {
        let is_steady = u64::from(self.steps) * 16 >= self.came * rules.steady;
        self.steps >= rules.steps_min && is_steady && u64::from(self.late) * 8 <= self.came
    }

    /// True if the numbers are evidence so far.
    pub(super) fn has_evidence(&self, rules: &Rules) -> bool {
        self.came > 0 && self.is_counter(rules)
    }

    /// Declares missing numbers lost if enough numbers have followed them.
    fn declare(&mut self, time_ns: u64, rules: &Rules, totals: &mut NumberReport) -> Option<Change> {
        let is_quiet = self.quiet >= CONFIRM && time_ns.saturating_sub(self.gap_ns) >= CONFIRM_NS;
        if self.gap_ns == 0 || !is_quiet || !self.is_counter(rules) {
            return None;
        }
        self.lose(totals)
    }

    fn lose(&mut self, totals: &mut NumberReport) -> Option<Change> {
        let lost = self.missing().saturating_sub(self.declared.into());
        let (before_ns, gap_ns) = (self.before_ns, std::mem::take(&mut self.gap_ns));
        if lost == 0 {
            return None;
        }
        self.declared = self.declared.saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
        self.declared_ns = gap_ns;
        totals.lost += lost;
        totals.first_loss_ns = Some(totals.first_loss_ns.map_or(before_ns, |first| first.min(before_ns)));
        totals.last_loss_ns = totals.last_loss_ns.max(Some(gap_ns));
        Some(Change { time_ns: gap_ns, lost: lost as i64 })
    }

    /// Processes a number far from all others: the second consecutive one is a restart.
    #[cold]
    fn leap(
        &mut self,
        number: u32,
        time_ns: u64,
        rules: &Rules,
        totals: &mut NumberReport,
    ) -> Option<Change> {
        if self.stray != Some(number) {
            let mask = u32::MAX >> (32 - rules.bits);
            self.stray = Some(number.wrapping_add(1) & mask);
            return None;
        }
        let change = self.finish(rules, totals);
        self.begin(number, time_ns, true);
        change
    }

    /// Ends the run. Losses of a sender without a counter are revoked.
    pub(super) fn finish(&mut self, rules: &Rules, totals: &mut NumberReport) -> Option<Change> {
        let is_counter = self.is_counter(rules);
        let mut change = None;
        if is_counter && self.quiet >= CONFIRM && self.gap_ns != 0 {
            change = self.lose(totals);
        }
        if !is_counter {
            totals.set_aside += u64::from(self.steps >= rules.steps_min);
            totals.lost -= u64::from(self.declared);
            let lost = -i64::from(self.declared);
            return (lost != 0).then_some(Change { time_ns: self.declared_ns, lost });
        }
        totals.sources += u64::from(!self.is_again);
        totals.restarts += u64::from(self.is_again);
        totals.packets += self.came;
        totals.copies += u64::from(self.copies);
        totals.late += u64::from(self.late);
        totals.undecided += self.missing().saturating_sub(self.declared.into());
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const WORD: Rules = Rules { bits: 32, steps_min: 16, steady: 8, leap_max: 1 << 20 };
    const HALF: Rules = Rules { bits: 16, leap_max: 3000, ..WORD };

    /// The sums of these numbers, `step_ns` apart; each declared loss is in the changes.
    fn totals(rules: &Rules, numbers: impl IntoIterator<Item = u32>, step_ns: u64) -> NumberReport {
        let (mut counter, mut totals, mut changes) = (Counter::default(), NumberReport::default(), 0);
        for (at, number) in (0..).zip(numbers) {
            let change = counter.take(number, 1 + at * step_ns, rules, &mut totals);
            changes += change.map_or(0, |change| change.lost);
        }
        changes += counter.finish(rules, &mut totals).map_or(0, |change| change.lost);
        assert_eq!(changes, totals.lost as i64);
        totals
    }

    #[test]
    fn missing_numbers_are_counted_across_the_wrap() {
        for (rules, first) in [(HALF, 65_500), (WORD, u32::MAX - 30)] {
            let mask = u32::MAX >> (32 - rules.bits);
            let numbers = (0..500u32).filter(|n| !(20..25).contains(n) && *n != 300);
            let found = totals(&rules, numbers.map(|n| first.wrapping_add(n) & mask), MS);
            assert_eq!((found.sources, found.lost, found.packets, found.undecided), (1, 6, 494, 0));
            assert_eq!((found.first_loss_ns, found.last_loss_ns), (Some(1 + 19 * MS), Some(1 + 295 * MS)));
        }
    }

    #[test]
    fn order_and_copies_are_no_loss() {
        let swapped = (0..400u32).map(|n| {
            if n % 32 == 7 {
                n + 3
            } else if n % 32 == 10 {
                n - 3
            } else {
                n
            }
        });
        let found = totals(&HALF, swapped, MS);
        assert_eq!((found.sources, found.lost, found.packets), (1, 0, 400), "{found:?}");
        let twice = totals(&HALF, (0..400).flat_map(|n| [n, n]), MS);
        assert_eq!((twice.lost, twice.copies, twice.packets), (0, 400, 400));
        // Numbers from another queue arrive 300 numbers and 300 ms late: the declared loss is revoked.
        let late = (0..2000).filter(|n| !(500..560).contains(n));
        let late =
            late.flat_map(|n| if n == 900 { (500..560).chain(900..901) } else { (n..n + 1).chain(0..0) });
        let found = totals(&WORD, late, MS);
        assert_eq!((found.lost, found.late, found.packets), (0, 60, 2000));
    }

    #[test]
    fn a_counter_that_begins_anew_has_lost_nothing() {
        for second in [0, 7, 100, 480, 530, 563, 700, 3000, 50_000] {
            let found = totals(&HALF, (0..500).chain(second..second + 500), MS);
            // Up to 64 ahead a restart cannot be distinguished from a loss.
            let expected = if (500..=563).contains(&second) { u64::from(second) - 500 } else { 0 };
            assert_eq!(found.lost, expected, "{second}: {found:?}");
        }
    }

    #[test]
    fn a_long_gap_is_a_loss_if_there_was_time() {
        let mut counter = Counter::default();
        let mut all = NumberReport::default();
        for number in (0..500).chain(1500..2000) {
            counter.take(number, u64::from(number) * MS, &WORD, &mut all);
        }
        counter.finish(&WORD, &mut all);
        assert_eq!((all.lost, all.packets, all.restarts), (1000, 1000, 0));
    }

    #[test]
    fn two_counters_under_one_name_prove_nothing() {
        for apart in [1, 3, 50, 80, 200, 5000, 30_000] {
            for burst in [1, 2, 30, 100] {
                let both = (0..1000 / burst).flat_map(|at| {
                    let from = 100 + at * burst;
                    (from..from + burst).chain(from + apart..from + apart + burst)
                });
                let found = totals(&HALF, both.map(|number| number & 0xffff), MS);
                assert_eq!(found.lost, 0, "{apart} apart in bursts of {burst}: {found:?}");
            }
        }
    }

    #[test]
    fn strides_noise_and_constants_are_no_counters() {
        let strided = totals(&WORD, (0..1000).map(|n| n * 2), MS);
        assert_eq!((strided.sources, strided.lost), (0, 0));
        assert_eq!(totals(&WORD, [5; 1000], MS).sources, 0);
        let mut state = 1u32;
        let noise = (0..5000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 16
        });
        assert_eq!((totals(&HALF, noise, MS).sources, totals(&HALF, 0..10, MS).sources), (0, 0));
    }

    #[test]
    fn one_wrong_number_is_no_loss() {
        let wrong = (0..300).map(|n| if n == 150 { 190 } else { n });
        let found = totals(&HALF, wrong, MS);
        assert!(found.lost <= 1, "{found:?}");
        // The file ends soon after it.
        assert_eq!(totals(&HALF, (0..150).chain([190]).chain(151..155), MS).lost, 0);
    }
}
