//! The tally of a time span: the sender counts sent frames, the meter arrivals; after joining both, the rest is lost.

use quaff_wire::add_each;

/// Count, minimum, maximum and sum of values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) count: u64,
    min: i64,
    pub(super) max: i64,
    sum: i128,
}

impl Default for Range {
    fn default() -> Self {
        Self { count: 0, min: i64::MAX, max: i64::MIN, sum: 0 }
    }
}

impl Range {
    #[inline]
    pub(super) fn take(&mut self, value: i64) {
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += i128::from(value);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Minimum, mean and maximum; `None` without values.
    pub(super) fn figures(&self) -> Option<[f64; 3]> {
        let mean = self.sum as f64 / self.count as f64;
        (self.count > 0).then_some([self.min as f64, mean, self.max as f64])
    }

    /// Mean and maximum; 0 without values.
    pub(super) fn mean_max(&self) -> [f64; 2] {
        self.figures().map_or([0.0; 2], |[_, mean, max]| [mean, max])
    }
}

pub(super) const SECOND_NS: u64 = 1_000_000_000;
/// Seconds that are kept beyond the planned ones, in case a clock is set during a trial.
const SECONDS_MORE: u64 = 3600;

/// Frames sent in a time span, and their fate. `sent = received + lost`. Times are ns since 1970, 0 if there is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally {
    /// Frames that the kernel accepted.
    pub(crate) sent: u64,
    /// Bytes of these, without FCS.
    pub(crate) sent_bytes: u64,
    /// Frames that arrived, without duplicates.
    pub(crate) received: u64,
    /// Bytes of these, without FCS.
    pub(crate) received_bytes: u64,
    pub(crate) lost: u64,
    /// Frames that were due while the interface was down or had no carrier; not in `sent`.
    pub(crate) refused: u64,
    /// Frames that were due and omitted because the sender was held up; not in `sent`.
    pub(crate) left_out: u64,
    /// Duplicate arrivals (RFC 5560).
    pub(crate) duplicates: u64,
    /// Frames that arrived after a later-sent one (RFC 4737).
    pub(crate) reordered: u64,
    /// Send times of the first and the last frame.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Send times of the first and the last lost frame.
    pub(crate) first_lost_ns: u64,
    pub(crate) last_lost_ns: u64,
    /// Arrival times of the first and the last frame.
    pub(crate) arrived_ns: [u64; 2],
    /// Minimum, mean and maximum one-way delay; `None` if no frame arrived.
    pub(crate) delay_ns: Option<[f64; 3]>,
}

/// The meter's tally of a time span.
#[derive(Debug, Clone, Default)]
pub(super) struct Received {
    pub(super) tally: Tally,
    pub(super) delay: Range,
}

impl Tally {
    #[inline]
    pub(super) fn send(&mut self, bytes: u32, sent_ns: u64) {
        self.sent += 1;
        self.sent_bytes += u64::from(bytes);
        widen(&mut self.first_ns, &mut self.last_ns, [sent_ns; 2]);
    }

    /// Adds the send time of a lost frame; the number of lost frames follows from the other counts.
    pub(super) fn lose(&mut self, sent_ns: u64) {
        widen(&mut self.first_lost_ns, &mut self.last_lost_ns, [sent_ns; 2]);
    }

    /// Adds the counts and times of another tally, without delays, which are the meter's.
    pub(super) fn add(&mut self, other: &Self) {
        add_each!(self, other;
            sent, sent_bytes, received, received_bytes, refused, left_out, duplicates, reordered
        );
        let [first, last] = &mut self.arrived_ns;
        widen(first, last, other.arrived_ns);
        widen(&mut self.first_ns, &mut self.last_ns, [other.first_ns, other.last_ns]);
        widen(&mut self.first_lost_ns, &mut self.last_lost_ns, [other.first_lost_ns, other.last_lost_ns]);
    }

    /// Completes a tally that has both sides.
    fn settle(mut self) -> Result<Self, String> {
        let lost = self.sent.checked_sub(self.received);
        let Some(lost) = lost.filter(|_| self.received_bytes <= self.sent_bytes) else {
            return Err(format!("{} frames were sent and {} received", self.sent, self.received));
        };
        // Send times of lost frames are interpolated; they are limited to the time of sending.
        let lost_ns = match (lost, self.last_lost_ns) {
            (0, _) => [0; 2],
            (_, 0) => [self.first_ns, self.last_ns],
            (_, last) => [self.first_lost_ns, last].map(|time_ns| time_ns.clamp(self.first_ns, self.last_ns)),
        };
        [self.first_lost_ns, self.last_lost_ns] = lost_ns;
        self.lost = lost;
        Ok(self)
    }
}

impl Received {
    #[inline]
    pub(super) fn take(&mut self, bytes: u32, arrived_ns: u64, delay_ns: i64, is_late: bool) {
        self.tally.received += 1;
        self.tally.received_bytes += u64::from(bytes);
        self.tally.reordered += u64::from(is_late);
        let [first, last] = &mut self.tally.arrived_ns;
        widen(first, last, [arrived_ns; 2]);
        self.delay.take(delay_ns);
    }
}

/// Extends a range of times; 0 means no time.
#[inline]
fn widen(first: &mut u64, last: &mut u64, [from, to]: [u64; 2]) {
    if to > 0 {
        *first = if *last == 0 { from } else { from.min(*first) };
        *last = to.max(*last);
    }
}

/// Maps times to the seconds of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds {
    begun_ns: u64,
    /// The last second that is kept; later times are counted there.
    last: u64,
}

impl Seconds {
    pub(super) fn new(begun_ns: u64, planned_s: f64) -> Self {
        Self { begun_ns, last: planned_s as u64 + SECONDS_MORE }
    }

    /// Index of the second that contains a time.
    #[inline]
    pub(super) fn of(&self, sent_ns: u64) -> usize {
        (sent_ns.saturating_sub(self.begun_ns) / SECOND_NS).min(self.last) as usize
    }

    /// Distributes evenly spaced frames among their seconds: calls `share` with (second, frames).
    pub(super) fn split(
        &self,
        first_ns: u64,
        interval_ns: f64,
        frames: u64,
        mut share: impl FnMut(usize, u64),
    ) {
        let mut done = 0;
        while done < frames {
            let time_ns = first_ns.saturating_add((done as f64 * interval_ns) as u64);
            let second = self.of(time_ns);
            let left_ns = self.start_ns(second + 1).saturating_sub(time_ns);
            let is_last = interval_ns <= 0.0 || second as u64 == self.last;
            let within = if is_last { frames } else { (left_ns as f64 / interval_ns).ceil().max(1.0) as u64 };
            let many = within.min(frames - done);
            share(second, many);
            done += many;
        }
    }

    /// Start time of a second.
    pub(super) fn start_ns(&self, second: usize) -> u64 {
        self.begun_ns + second as u64 * SECOND_NS
    }
}

/// The entry at an index, created if missing.
#[inline]
pub(super) fn at<T: Default + Clone>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

/// Joins both sides entry by entry; missing entries are empty.
///
/// # Errors
/// A description, if more frames arrived than were sent: another program sends the same streams.
pub(super) fn join(sent: &[Tally], received: &[Received]) -> Result<Vec<Tally>, String> {
    let one = |at: usize| {
        let mut tally = sent.get(at).cloned().unwrap_or_default();
        if let Some(received) = received.get(at) {
            tally.add(&received.tally);
            tally.delay_ns = received.delay.figures();
        }
        tally.settle()
    };
    (0..sent.len().max(received.len())).map(one).collect()
}

/// The sum of the sender's tallies of all phases.
pub(super) fn all_sent(phases: &[Tally]) -> Tally {
    phases.iter().fold(Tally::default(), |mut all, one| {
        all.add(one);
        all
    })
}

/// The sum of the meter's tallies of all phases.
pub(super) fn all_received(phases: &[Received]) -> Received {
    phases.iter().fold(Received::default(), |mut all, one| {
        all.tally.add(&one.tally);
        all.delay.add(&one.delay);
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(times: &[u64]) -> Tally {
        let mut sent = Tally::default();
        times.iter().for_each(|time_ns| sent.send(100, *time_ns));
        sent
    }

    fn received(delays: &[i64]) -> Received {
        let mut received = Received::default();
        delays.iter().for_each(|delay_ns| received.take(100, 1000 + *delay_ns as u64, *delay_ns, false));
        received
    }

    #[test]
    fn each_sent_frame_is_received_or_lost() {
        let mut some = received(&[5, 7]);
        some.tally.lose(20);
        let tallies = join(&[sent(&[10, 20, 30]), sent(&[])], &[some]).unwrap();
        let expected = Tally {
            sent: 3,
            sent_bytes: 300,
            received: 2,
            received_bytes: 200,
            lost: 1,
            first_ns: 10,
            last_ns: 30,
            first_lost_ns: 20,
            last_lost_ns: 20,
            arrived_ns: [1005, 1007],
            delay_ns: Some([5.0, 6.0, 7.0]),
            ..Tally::default()
        };
        assert_eq!(tallies, [expected, Tally::default()]);
    }

    #[test]
    fn more_than_was_sent_is_an_error() {
        assert!(join(&[sent(&[1])], &[received(&[1, 2])]).is_err());
        assert!(join(&[], &[received(&[1])]).is_err());
    }

    #[test]
    fn times_of_loss_are_within_those_of_sending() {
        let join = |sent: Tally, received: Received, times: &[u64]| {
            let mut received = received;
            times.iter().for_each(|time_ns| received.tally.lose(*time_ns));
            let tally = join(&[sent], &[received]).unwrap().remove(0);
            [tally.first_lost_ns, tally.last_lost_ns]
        };
        let lost = |times: &[u64]| join(sent(&[10, 20, 30]), received(&[]), times);
        assert_eq!(lost(&[]), [10, 30]);
        assert_eq!(lost(&[7, 25]), [10, 25]);
        assert_eq!(lost(&[u64::MAX, 1]), [10, 30]);
        assert_eq!(join(sent(&[10]), received(&[1]), &[9]), [0, 0]);
    }

    #[test]
    fn phases_add_up() {
        let mut late = received(&[3, 40]);
        late.tally.lose(500);
        let refused = Tally { refused: 5, left_out: 2, ..Tally::default() };
        let sent = all_sent(&[sent(&[]), sent(&[10, 20]), sent(&[30]), refused]);
        assert_eq!((sent.sent, sent.first_ns, sent.last_ns), (3, 10, 30));
        assert_eq!((sent.refused, sent.left_out), (5, 2));
        let Received { tally, delay } = all_received(&[received(&[]), late, received(&[8])]);
        assert_eq!((tally.received, tally.arrived_ns), (3, [1003, 1040]));
        assert_eq!((tally.first_lost_ns, tally.last_lost_ns), (500, 500));
        assert_eq!(delay.figures(), Some([3.0, 17.0, 40.0]));
    }

    #[test]
    fn frames_are_shared_out_among_seconds() {
        let seconds = Seconds::new(1000, 5.0);
        let split = |first_ns: u64, interval_ns: f64, frames: u64| {
            let mut shares = Vec::new();
            seconds
                .split(1000 + first_ns, interval_ns, frames, |second, frames| shares.push((second, frames)));
            shares
        };
        assert_eq!(split(500_000_000, 1e8, 12), [(0, 5), (1, 7)]);
        assert_eq!(split(500_000_000, 1e8, 16), [(0, 5), (1, 10), (2, 1)]);
        assert_eq!(split(0, 3e9, 3), [(0, 1), (3, 1), (6, 1)]);
        assert_eq!(split(7, 0.0, 9), [(0, 9)]);
        assert_eq!(split(u64::MAX / 2, 1e8, 1 << 40), [(3605, 1 << 40)]);
        assert_eq!(split(0, 1e8, 0), []);
    }

    #[test]
    fn a_clock_that_was_set_makes_no_endless_list() {
        let seconds = Seconds::new(1000, 5.0);
        assert_eq!(
            [0, 1000, 1000 + SECOND_NS - 1, 1000 + SECOND_NS].map(|time| seconds.of(time)),
            [0, 0, 0, 1]
        );
        assert_eq!(seconds.of(u64::MAX), 3605);
        assert_eq!(seconds.start_ns(1), 1000 + SECOND_NS);
        let mut list = vec![0u8];
        *at(&mut list, 3) = 7;
        assert_eq!(list, [0, 0, 0, 7]);
    }
}
