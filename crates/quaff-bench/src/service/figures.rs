//! Computes the figures of a service from its tallies: rates over all seconds; loss, delay and delay variation over
//! available seconds only (ITU-T Y.1564 §8.2.2).

use super::availability::Availability;
use super::frames::mbps;
use super::plan::Limits;
use super::result::{Figures, Second};
use crate::trial::{Delays, StreamReport, Tally};

/// A second counts as whole if at most this much of it is missing, s.
const SECOND_TOLERANCE: f64 = 0.01;

/// Figures of a configuration-test step that lasted `seconds`; without availability.
pub(super) fn of_step(stream: &StreamReport, asked_mbps: f64, seconds: f64, limits: &Limits) -> Figures {
    let (sent, lost) = counts(&stream.total);
    let delay = stream.delay.as_ref();
    Figures {
        sent,
        lost,
        loss: ratio(lost, sent),
        delay_ms: delay.map(|delays| delays.delay.map(ms)),
        delay_variation_ms: delay.map(|delays| [0.0, delays.pdv[0], delays.pdv[1]].map(ms)),
        ..common(stream, asked_mbps, seconds, limits)
    }
}

/// Received rate, Mbit/s, over the sending or the receiving time, whichever is longer.
pub(super) fn most_mbps(stream: &StreamReport, seconds: f64) -> f64 {
    let Tally { received_bytes, received, arrived_ns: [first, last], .. } = stream.total;
    mbps(received_bytes, received, seconds.max(last.saturating_sub(first) as f64 / 1e9))
}

/// Figures of the performance test, planned for `asked_s`, and one entry per second for charts.
pub(super) fn of_performance(
    stream: &StreamReport,
    asked_mbps: f64,
    asked_s: f64,
    limits: &Limits,
) -> (Figures, Vec<Second>) {
    let tallies = whole_seconds(&stream.seconds, asked_s);
    let each: Vec<(u64, u64)> = tallies.iter().map(counts).collect();
    let availability = Availability::of(&each);
    let marked = || tallies.iter().zip(availability.available.iter().copied());
    let available: Vec<&Tally> = marked().filter(|(_, is)| *is).map(|(tally, _)| tally).collect();
    let sum = |of: &dyn Fn(&Tally) -> u64| available.iter().map(|tally| of(tally)).sum::<u64>();
    let (sent, lost) = (sum(&|tally| counts(tally).0), sum(&|tally| counts(tally).1));
    let (all_sent, all_lost) = counts(&stream.total);
    let delay_ms = joined(&available).map(|delay| delay.map(ms));
    let figures = Figures {
        sent,
        lost,
        loss: ratio(lost, sent),
        delay_ms,
        delay_variation_ms: delay_ms.map(|[min, mean, max]| [0.0, mean - min, max - min]),
        availability: availability.ratio(),
        unavailable_s: availability.unavailable_s(),
        unavailable: [all_sent.saturating_sub(sent), all_lost.saturating_sub(lost)],
        severely_errored_s: availability.severely_errored_s,
        ..common(stream, asked_mbps, asked_s, limits)
    };
    let second = |(tally, available): (&Tally, bool)| Second {
        sent: counts(tally).0,
        lost: counts(tally).1,
        delay_ms: tally.delay_ns.map(|delay| delay.map(ms)),
        available,
    };
    (figures, marked().map(second).collect())
}

/// Frames sent and lost. Frames that a dead link refused were due and did not arrive: they count as both.
fn counts(tally: &Tally) -> (u64, u64) {
    (tally.sent + tally.refused, tally.lost + tally.refused)
}

/// Figures that both tests share.
fn common(stream: &StreamReport, asked_mbps: f64, seconds: f64, limits: &Limits) -> Figures {
    let all = &stream.total;
    let delay = stream.delay.as_ref();
    Figures {
        asked_mbps,
        sent_mbps: mbps(all.sent_bytes, all.sent, seconds),
        received_mbps: received_mbps(stream, seconds),
        others_ms: delay.map(others_ms),
        duplicates: all.duplicates,
        reordered: all.reordered,
        within: delay.map_or([None; 2], |delays| within(delays, limits)),
        ..Figures::default()
    }
}

/// Whole seconds of `asked_s` in which less than half of the due frames were sent, because the sender was held up.
pub(super) fn unsent_s(stream: &StreamReport, due_pps: f64, asked_s: f64) -> u64 {
    let sent = |second: usize| stream.seconds.get(second).map_or(0, |tally| counts(tally).0);
    // A stream below two frames/s has seconds without a frame.
    let due = (due_pps / 2.0).floor();
    (0..asked_s.floor() as usize).filter(|second| (sent(*second) as f64) < due).count() as u64
}

/// From the first frame to one gap after the last, s.
pub(super) fn sending_s(tally: &Tally) -> f64 {
    let ns = tally.last_ns.saturating_sub(tally.first_ns) as f64;
    if tally.sent > 1 { ns / 1e9 * tally.sent as f64 / (tally.sent - 1) as f64 } else { 0.0 }
}

/// Received information rate, Mbit/s: minimum and maximum over whole seconds, and the mean of the trial.
fn received_mbps(stream: &StreamReport, seconds: f64) -> [f64; 3] {
    let all = &stream.total;
    let mean = mbps(all.received_bytes, all.received, seconds);
    let whole = (seconds + SECOND_TOLERANCE).floor() as usize;
    let rate =
        |tally: Option<&Tally>| tally.map_or(0.0, |tally| mbps(tally.received_bytes, tally.received, 1.0));
    // Without per-second tallies there is only the mean.
    let whole = if stream.seconds.is_empty() { 0 } else { whole };
    let rates = (0..whole).map(|second| rate(stream.seconds.get(second)));
    rates.fold([mean; 3], |[min, mean, max], rate| [min.min(rate), mean, max.max(rate)])
}

/// Adds the frames after the last requested second to that second.
fn whole_seconds(seconds: &[Tally], asked_s: f64) -> Vec<Tally> {
    let count = ((asked_s - SECOND_TOLERANCE).ceil() as usize).max(1);
    let mut whole: Vec<Tally> = seconds.iter().take(count).cloned().collect();
    // Seconds in which nothing could be sent were requested, too.
    if !whole.is_empty() {
        whole.resize(count, Tally::default());
    }
    if let Some(last) = whole.last_mut() {
        for late in seconds.iter().skip(count).filter(|tally| tally.sent > 0) {
            let delay_ns = joined(&[&*last, late]);
            *last = Tally {
                sent: last.sent + late.sent,
                refused: last.refused + late.refused,
                lost: last.lost + late.lost,
                received: last.received + late.received,
                delay_ns,
                ..last.clone()
            };
        }
    }
    whole
}

/// Minimum, mean and maximum delay over several tallies, ns.
fn joined(tallies: &[&Tally]) -> Option<[f64; 3]> {
    let parts: Vec<([f64; 3], f64)> =
        tallies.iter().filter_map(|tally| Some((tally.delay_ns?, tally.received as f64))).collect();
    let frames: f64 = parts.iter().map(|(_, frames)| frames).sum();
    let mean = parts.iter().map(|(delay, frames)| delay[1] * frames).sum::<f64>() / frames;
    let spread = |[min, max]: [f64; 2], (delay, _): &([f64; 3], f64)| [min.min(delay[0]), max.max(delay[2])];
    let [min, max] = parts.iter().fold([f64::INFINITY, 0.0], spread);
    (frames > 0.0).then_some([min, mean, max])
}

/// Returns the values in the order of [`Figures::others_ms`].
fn others_ms(delays: &Delays) -> [f64; 6] {
    let Delays { ipdv, jitter_4689, jitter_3550, .. } = delays;
    [ipdv[0], ipdv[1], jitter_4689[0], jitter_4689[1], jitter_3550[0], jitter_3550[1]].map(ms)
}

/// Shares of frames within the limits of delay and delay variation. Histogram bars that a limit cuts count as outside:
/// the shares are lower bounds.
fn within(delays: &Delays, limits: &Limits) -> [Option<f64>; 2] {
    let all: u64 = delays.histogram.iter().map(|bar| bar.1).sum();
    let share = |limit_ms: f64, from_ns: f64| {
        let limit_ns = limit_ms * 1e6 + from_ns;
        let below = delays.histogram.iter().filter(|bar| bar.0 <= limit_ns).map(|bar| bar.1).sum();
        if delays.delay[2] <= limit_ns { 1.0 } else { ratio(below, all) }
    };
    [
        limits.delay_ms.map(|limit_ms| share(limit_ms, 0.0)),
        limits.delay_variation_ms.map(|limit_ms| share(limit_ms, delays.delay[0])),
    ]
}

fn ratio(part: u64, all: u64) -> f64 {
    if all > 0 { part as f64 / all as f64 } else { 0.0 }
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::sim;
    use super::*;

    /// One second of 100 frames of 121 bytes without FCS: 0.1 Mbit/s.
    fn second(lost: u64, delay_ns: [f64; 3]) -> Tally {
        Tally {
            sent: 100,
            sent_bytes: 12_100,
            received: 100 - lost,
            received_bytes: (100 - lost) * 121,
            lost,
            delay_ns: (lost < 100).then_some(delay_ns),
            ..Tally::default()
        }
    }

    fn stream(seconds: Vec<Tally>) -> StreamReport {
        let sum = |of: fn(&Tally) -> u64| seconds.iter().map(of).sum::<u64>();
        let total = Tally {
            refused: sum(|tally| tally.refused),
            sent: sum(|tally| tally.sent),
            sent_bytes: sum(|tally| tally.sent_bytes),
            received: sum(|tally| tally.received),
            received_bytes: sum(|tally| tally.received_bytes),
            lost: sum(|tally| tally.lost),
            first_ns: 0,
            last_ns: (seconds.len() as u64 * 100 - 1) * 10_000_000,
            ..Tally::default()
        };
        StreamReport { total, seconds, ..sim::no_stream(1) }
    }

    #[test]
    fn an_outage_is_in_the_availability_and_not_in_the_loss() {
        let mut seconds = vec![second(0, [1e6, 2e6, 3e6]); 40];
        seconds[3] = second(10, [0.5e6, 1e6, 9e6]);
        seconds[10..22].fill(second(100, [0.0; 3]));
        // A late frame that arrived during the outage.
        seconds[15] = second(99, [80e6; 3]);
        let (figures, pictures) = of_performance(&stream(seconds), 0.1, 40.0, &Limits::default());
        assert_eq!((figures.unavailable_s, figures.severely_errored_s), (12, 12));
        assert!((figures.availability.expect("asked") - 0.7).abs() < 1e-12);
        assert_eq!((figures.sent, figures.lost, figures.unavailable), (2800, 10, [1200, 1199]));
        assert!((figures.loss - 10.0 / 2800.0).abs() < 1e-12);
        // 27 × 100 frames of 2 ms and 90 of 1 ms.
        let [min, mean, max] = figures.delay_ms.expect("delays");
        assert!((mean - (2700.0 * 2.0 + 90.0) / 2790.0).abs() < 1e-9, "{mean}");
        assert_eq!((min, max), (0.5, 9.0));
        let variation = figures.delay_variation_ms.expect("variation");
        assert_eq!((variation[0], variation[2]), (0.0, 8.5));
        assert!((variation[1] - (mean - 0.5)).abs() < 1e-12);
        // The rate covers all seconds.
        assert!((figures.sent_mbps - 0.1).abs() < 1e-12, "{figures:?}");
        assert_eq!(figures.received_mbps[0], 0.0);
        assert!((figures.received_mbps[2] - 0.1).abs() < 1e-12);
        assert_eq!(pictures.iter().filter(|second| !second.available).count(), 12);
    }

    #[test]
    fn a_remainder_after_the_last_second_belongs_to_it() {
        let rest = Tally { sent: 1, lost: 1, ..Tally::default() };
        let seconds = vec![second(0, [1e6; 3]), second(0, [1e6; 3]), rest];
        let (figures, pictures) = of_performance(&stream(seconds), 0.1, 2.0, &Limits::default());
        assert_eq!(pictures.len(), 2);
        assert_eq!((figures.sent, figures.lost, figures.severely_errored_s), (201, 1, 0));
        assert_eq!((pictures[1].sent, pictures[1].lost), (101, 1));
    }

    #[test]
    fn a_link_that_dies_is_seen_by_what_could_not_be_sent() {
        // Dead from the fifth second of ten on: nothing was sent, so nothing was lost.
        let stream = stream(vec![second(0, [1e6; 3]); 4]);
        let (figures, pictures) = of_performance(&stream, 0.1, 10.0, &Limits::default());
        assert_eq!((pictures.len(), figures.lost), (10, 0));
        assert!((figures.sent_mbps - 0.04).abs() < 1e-12, "{figures:?}");
        assert_eq!(unsent_s(&stream, 100.0, 10.0), 6);
        assert_eq!(unsent_s(&stream, 100.0, 4.9), 0);
        // One frame/s may miss a second.
        assert_eq!(unsent_s(&stream, 1.0, 10.0), 0);
    }

    #[test]
    fn a_link_that_takes_nothing_is_unavailable() {
        let dead = Tally { refused: 100, ..Tally::default() };
        let mut seconds = vec![second(0, [1e6; 3]); 40];
        seconds[5..17].fill(dead);
        let stream = stream(seconds);
        let (figures, _) = of_performance(&stream, 0.1, 40.0, &Limits::default());
        assert_eq!((figures.unavailable_s, figures.lost, figures.unavailable), (12, 0, [1200, 1200]));
        assert_eq!(unsent_s(&stream, 100.0, 40.0), 0);
    }

    #[test]
    fn frames_that_waited_leave_no_faster_than_they_arrived() {
        let mut stream = stream(vec![second(0, [1e6; 3])]);
        stream.total.arrived_ns = [5_000_000_000, 7_000_000_000];
        assert!((most_mbps(&stream, 1.0) - 0.05).abs() < 1e-12);
        stream.total.arrived_ns = [0; 2];
        assert!((most_mbps(&stream, 1.0) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn half_a_second_at_the_end_is_no_slow_second() {
        let half =
            Tally { sent: 50, sent_bytes: 6050, received: 50, received_bytes: 6050, ..Tally::default() };
        let mut stream = stream(vec![second(0, [1e6; 3]), second(0, [1e6; 3]), half]);
        stream.total.last_ns = 2_490_000_000;
        let (figures, _) = of_performance(&stream, 0.1, 2.5, &Limits::default());
        for rate in figures.received_mbps {
            assert!((rate - 0.1).abs() < 1e-12, "{figures:?}");
        }
    }

    #[test]
    fn shares_within_the_limits_are_those_of_the_histogram() {
        let delays = Delays {
            delay: [1e6, 3e6, 30e6],
            quantiles: Vec::new(),
            pdv: [2e6, 29e6],
            ipdv: [1e6, 2e6],
            jitter_4689: [3e6, 4e6],
            jitter_3550: [5e6, 6e6],
            histogram: vec![(1e6, 50), (5e6, 40), (12e6, 5), (30e6, 5)],
        };
        let limits =
            |delay_ms, delay_variation_ms| Limits { delay_ms, delay_variation_ms, ..Limits::default() };
        assert_eq!(within(&delays, &limits(Some(10.0), Some(11.0))), [Some(0.9), Some(0.95)]);
        assert_eq!(within(&delays, &limits(Some(30.0), None)), [Some(1.0), None]);
        assert_eq!(others_ms(&delays), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let stream = StreamReport { delay: Some(delays), ..stream(vec![second(0, [1e6; 3])]) };
        let step = of_step(&stream, 0.1, 1.0, &limits(None, None));
        assert_eq!(step.delay_variation_ms, Some([0.0, 2.0, 29.0]));
        assert_eq!((step.availability, step.within), (None, [None, None]));
    }

    #[test]
    fn nothing_that_was_sent_is_nothing() {
        let (figures, pictures) = of_performance(&sim::no_stream(1), 0.1, 10.0, &Limits::default());
        assert_eq!((figures.sent, figures.delay_ms, figures.availability), (0, None, None));
        assert!(pictures.is_empty());
        assert_eq!(figures.received_mbps, [0.0; 3]);
    }
}
