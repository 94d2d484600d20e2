//! What one side knows of the frames of some time, and how both sides together make a [`Tally`]: what was sent, less
//! what was received, is lost. The sums are checked here.

use super::delay_variation::Range;
use super::report::Tally;

/// A second, and how many of them are kept beyond what was planned, should somebody set the clock.
pub(super) const SECOND_NS: u64 = 1_000_000_000;
const SECONDS_MORE: u64 = 3600;

/// What the sender knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Due, and not sent: the interface could not.
    pub(super) refused: u64,
    /// Due, and not sent: the sender was held up.
    pub(super) left_out: u64,
}

impl Sent {
    #[inline]
    pub(super) fn take(&mut self, bytes: u32, sent_ns: u64) {
        if self.frames == 0 {
            self.first_ns = sent_ns;
        }
        self.frames += 1;
        self.bytes += u64::from(bytes);
        self.last_ns = sent_ns;
    }
}

/// What the meter knows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Got {
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) delay: Range,
    /// When the first and the last arrived; both 0 before that.
    pub(super) arrived_ns: [u64; 2],
    /// When the first and the last lost one were sent; both 0 as long as none is known.
    pub(super) lost_ns: [u64; 2],
}

impl Got {
    #[inline]
    pub(super) fn take(&mut self, bytes: u32, arrived_ns: u64, delay_ns: i64, is_late: bool) {
        self.frames += 1;
        self.bytes += u64::from(bytes);
        self.reordered += u64::from(is_late);
        self.delay.take(delay_ns);
        widen(&mut self.arrived_ns, arrived_ns);
    }

    /// One that was sent then is lost.
    pub(super) fn lose(&mut self, sent_ns: u64) {
        widen(&mut self.lost_ns, sent_ns);
    }
}

fn widen(range: &mut [u64; 2], time_ns: u64) {
    if range[1] == 0 {
        *range = [time_ns; 2];
    }
    *range = [range[0].min(time_ns), range[1].max(time_ns)];
}

/// Which second of a trial that began at `base_ns` a time is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds {
    base_ns: u64,
    /// The last one that is kept; what comes later is counted there.
    last: u64,
}

impl Seconds {
    pub(super) fn new(base_ns: u64, planned_s: f64) -> Self {
        Self { base_ns, last: planned_s as u64 + SECONDS_MORE }
    }

    #[inline]
    pub(super) fn of(&self, sent_ns: u64) -> usize {
        (sent_ns.saturating_sub(self.base_ns) / SECOND_NS).min(self.last) as usize
    }

    /// Shares frames at even distances out among the seconds that they are in: (second, frames).
    pub(super) fn split(
        &self,
        first_ns: u64,
        interval_ns: f64,
        frames: u64,
        mut share: impl FnMut(usize, u64),
    ) {
        let mut done = 0;
        while done < frames {
            let time_ns = |frame: u64| first_ns.saturating_add((frame as f64 * interval_ns) as u64);
            let second = self.of(time_ns(done));
            let left_ns = self.start_ns(second + 1).saturating_sub(time_ns(done));
            let is_last = interval_ns <= 0.0 || second as u64 == self.last;
            let within = if is_last { frames } else { (left_ns as f64 / interval_ns).ceil().max(1.0) as u64 };
            let many = within.min(frames - done);
            share(second, many);
            done += many;
        }
    }

    /// When a second begins.
    pub(super) fn start_ns(&self, second: usize) -> u64 {
        self.base_ns + second as u64 * SECOND_NS
    }
}

/// The place of a second, which may be the first one there.
#[inline]
pub(super) fn at<T: Default + Clone>(list: &mut Vec<T>, index: usize) -> &mut T {
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

/// Puts both sides together, place by place; the shorter side has nothing there.
///
/// # Errors
/// In words, when more came than was sent: somebody else sends the same.
pub(super) fn join(sent: &[Sent], got: &[Got]) -> Result<Vec<Tally>, String> {
    let count = sent.len().max(got.len());
    let (none_sent, none_got) = (Sent::default(), Got::default());
    (0..count).map(|at| tally(sent.get(at).unwrap_or(&none_sent), got.get(at).unwrap_or(&none_got))).collect()
}

fn tally(sent: &Sent, got: &Got) -> Result<Tally, String> {
    let lost = sent.frames.checked_sub(got.frames);
    let Some(lost) = lost.filter(|_| got.bytes <= sent.bytes) else {
        return Err(format!("{} frames were sent and {} received", sent.frames, got.frames));
    };
    // Times of lost frames are reckoned from those of others; none is outside the time in which all were sent.
    let lost_ns = match (lost, got.lost_ns) {
        (0, _) => [0; 2],
        (_, [_, 0]) => [sent.first_ns, sent.last_ns],
        (_, known) => known.map(|time_ns| time_ns.clamp(sent.first_ns, sent.last_ns)),
    };
    Ok(Tally {
        sent: sent.frames,
        sent_bytes: sent.bytes,
        received: got.frames,
        received_bytes: got.bytes,
        lost,
        refused: sent.refused,
        left_out: sent.left_out,
        duplicates: got.duplicates,
        reordered: got.reordered,
        first_ns: sent.first_ns,
        last_ns: sent.last_ns,
        first_lost_ns: lost_ns[0],
        last_lost_ns: lost_ns[1],
        arrived_ns: got.arrived_ns,
        delay_ns: got.delay.figures(),
    })
}

/// All phases together, from both sides.
pub(super) fn total(sent: &[Sent], got: &[Got]) -> (Sent, Got) {
    let mut all = (Sent::default(), Got::default());
    for one in sent {
        if all.0.frames == 0 {
            all.0.first_ns = one.first_ns;
        }
        all.0.frames += one.frames;
        all.0.bytes += one.bytes;
        all.0.last_ns = all.0.last_ns.max(one.last_ns);
        all.0.refused += one.refused;
        all.0.left_out += one.left_out;
    }
    for one in got {
        all.1.frames += one.frames;
        all.1.bytes += one.bytes;
        all.1.duplicates += one.duplicates;
        all.1.reordered += one.reordered;
        all.1.delay.add(&one.delay);
        for (range, other) in [(&mut all.1.arrived_ns, one.arrived_ns), (&mut all.1.lost_ns, one.lost_ns)] {
            if other[1] > 0 {
                widen(range, other[0]);
                widen(range, other[1]);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(times: &[u64]) -> Sent {
        let mut sent = Sent::default();
        times.iter().for_each(|time_ns| sent.take(100, *time_ns));
        sent
    }

    fn got(delays: &[i64]) -> Got {
        let mut got = Got::default();
        delays.iter().for_each(|delay_ns| got.take(100, 1000 + *delay_ns as u64, *delay_ns, false));
        got
    }

    #[test]
    fn what_was_sent_is_received_or_lost() {
        let mut some = got(&[5, 7]);
        some.lose(20);
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
        assert!(join(&[sent(&[1])], &[got(&[1, 2])]).is_err());
        assert!(join(&[], &[got(&[1])]).is_err());
    }

    #[test]
    fn times_of_loss_are_within_those_of_sending() {
        let lost = |times: &[u64]| {
            let mut got = Got::default();
            times.iter().for_each(|time_ns| got.lose(*time_ns));
            let tally = join(&[sent(&[10, 20, 30])], &[got]).unwrap().remove(0);
            [tally.first_lost_ns, tally.last_lost_ns]
        };
        assert_eq!(lost(&[]), [10, 30]);
        assert_eq!(lost(&[7, 25]), [10, 25]);
        assert_eq!(lost(&[u64::MAX, 1]), [10, 30]);
        let none = join(&[sent(&[10])], &[Got { lost_ns: [9, 9], ..got(&[1]) }]).unwrap().remove(0);
        assert_eq!([none.first_lost_ns, none.last_lost_ns], [0, 0]);
    }

    #[test]
    fn phases_add_up() {
        let mut late = got(&[3, 40]);
        late.lose(500);
        let refused = Sent { refused: 5, left_out: 2, ..Sent::default() };
        let (sent, got) =
            total(&[sent(&[]), sent(&[10, 20]), sent(&[30]), refused], &[got(&[]), late, got(&[8])]);
        assert_eq!((sent.frames, sent.first_ns, sent.last_ns), (3, 10, 30));
        assert_eq!((sent.refused, sent.left_out), (5, 2));
        assert_eq!((got.frames, got.arrived_ns, got.lost_ns), (3, [1003, 1040], [500, 500]));
        assert_eq!(got.delay.figures(), Some([3.0, 17.0, 40.0]));
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
