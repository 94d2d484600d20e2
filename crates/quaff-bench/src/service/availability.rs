//! Availability (ITU-T Y.1563 §9, Y.1564 §8.5): the service becomes unavailable with the first of ten consecutive
//! seconds in which more than half of the frames were lost, and available with the first of ten consecutive seconds
//! without that.

/// Consecutive seconds that change the state (Y.1564).
const SECONDS: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Availability {
    /// One entry per second, oldest first.
    pub(super) available: Vec<bool>,
    /// Seconds in which more than half of the frames were lost.
    pub(super) severely_errored_s: u64,
}

impl Availability {
    /// Evaluates frames sent and lost in each second. A second in which nothing was sent keeps the state of those
    /// around it.
    pub(super) fn of(seconds: &[(u64, u64)]) -> Self {
        let mut available = vec![true; seconds.len()];
        let (mut state, mut severely_errored_s) = (true, 0);
        // Consecutive seconds that contradict the state.
        let mut against: Vec<usize> = Vec::new();
        for (at, (sent, lost)) in seconds.iter().enumerate() {
            available[at] = state;
            let is_errored = *lost * 2 > *sent;
            severely_errored_s += u64::from(is_errored);
            if *sent == 0 {
                continue;
            }
            if is_errored == state {
                against.push(at);
            } else {
                against.clear();
            }
            if against.len() == SECONDS {
                state = !state;
                available[against[0]..=at].fill(state);
                against.clear();
            }
        }
        Self { available, severely_errored_s }
    }

    /// Number of unavailable seconds.
    pub(super) fn unavailable_s(&self) -> u64 {
        self.available.iter().filter(|available| !**available).count() as u64
    }

    /// Share of available seconds, 0 to 1; `None` for an empty measurement.
    pub(super) fn ratio(&self) -> Option<f64> {
        let all = self.available.len();
        (all > 0).then(|| 1.0 - self.unavailable_s() as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x`: all frames lost, `/`: half, `.`: none, `0`: nothing sent.
    fn of(picture: &str) -> String {
        let second = |kind: char| match kind {
            'x' => (100, 100),
            '/' => (100, 50),
            '0' => (0, 0),
            _ => (100, 0),
        };
        let seconds: Vec<_> = picture.chars().map(second).collect();
        let found = Availability::of(&seconds);
        assert_eq!(found.unavailable_s() as usize, found.available.iter().filter(|is| !**is).count());
        found.available.iter().map(|available| if *available { 'a' } else { 'u' }).collect()
    }

    #[test]
    fn nine_errored_seconds_are_not_enough_and_ten_count_from_the_first() {
        assert_eq!(of("...xxxxxxxxx..."), "aaaaaaaaaaaaaaa");
        assert_eq!(of("...xxxxxxxxxx..."), "aaauuuuuuuuuuuuu");
        assert_eq!(of("xxxxxxxxxx"), "uuuuuuuuuu");
        assert_eq!(of("xxxxxxxxx"), "aaaaaaaaa");
    }

    #[test]
    fn ten_good_seconds_end_it_from_the_first() {
        // Twelve seconds of outage, then ten good ones.
        assert_eq!(of("..xxxxxxxxxxxx.........."), "aauuuuuuuuuuuuaaaaaaaaaa");
        // Nine good seconds do not end it.
        assert_eq!(of("xxxxxxxxxx.........x.........."), "uuuuuuuuuuuuuuuuuuuuaaaaaaaaaa");
        assert_eq!(of("xxxxxxxxxx........."), "uuuuuuuuuuuuuuuuuuu");
    }

    #[test]
    fn half_is_not_more_than_half() {
        assert_eq!(of("//////////"), "aaaaaaaaaa");
        let found = Availability::of(&[(100, 51), (100, 50), (1, 1)]);
        assert_eq!(found.severely_errored_s, 2);
        assert_eq!(found.ratio(), Some(1.0));
        assert_eq!(Availability::of(&[]).ratio(), None);
    }

    #[test]
    fn a_second_without_frames_says_nothing() {
        assert_eq!(of("xxxxx0xxxxx"), "uuuuuuuuuuu");
        assert_eq!(of("xxxx0xxxxx."), "aaaaaaaaaaa");
        assert_eq!(of("xxxxxxxxxx0....."), "uuuuuuuuuuuuuuuu");
        assert_eq!(Availability::of(&[(0, 0), (0, 0)]).severely_errored_s, 0);
    }

    #[test]
    fn the_share_is_that_of_seconds() {
        let seconds: Vec<(u64, u64)> =
            (0..60).map(|s| if (20..32).contains(&s) { (10, 10) } else { (10, 0) }).collect();
        let found = Availability::of(&seconds);
        assert_eq!(found.unavailable_s(), 12);
        assert!((found.ratio().expect("a share") - 0.8).abs() < 1e-12);
    }
}
