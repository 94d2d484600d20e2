//! Separates loss on the path from the limits of the tester: frames that were never sent, and frames that arrived
//! and were dropped by the meter, are not lost by the path.

use crate::trial::{DirectionReport, StreamReport, Tally};

/// Smallest ratio of offered to intended load; a lower one is a different rate (RFC 2285 §3.5.2).
pub(super) const OFFERED_MIN: f64 = 0.98;
pub(super) const OFFERED_TOLERANCE: f64 = 1.0 - OFFERED_MIN;

/// The cause of a loss or of a low rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// All frames were sent and arrived.
    Nothing,
    /// The path lost frames.
    Path,
    /// Frames could not be sent at the intended rate.
    Generator,
    /// Frames arrived, and the meter dropped them.
    Meter,
}

/// A sender that is later than this catches up in a burst, ns.
const LATE_NS: u64 = 50_000;
/// Longest lateness that it catches up on, ns.
const CATCH_UP_NS: u64 = 100_000;

/// The outcome of one stream at one rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seen {
    /// Intended load, frames/s (RFC 2285 §3.5.1).
    pub(super) wanted_pps: f64,
    /// Offered load, frames/s (RFC 2285 §3.5.2).
    pub(super) offered_pps: f64,
    /// Frames sent.
    pub(super) sent: u64,
    /// Frames that the path certainly lost.
    pub(super) lost: u64,
    /// `lost` of `sent`, 0 to 1.
    pub(super) loss: f64,
    /// Loss ratio for a search, 0 to 1: also counts frames not sent in time or lost by the meter, since they prove
    /// nothing about this rate (RFC 9971, "Measurer").
    pub(super) unproven: f64,
    pub(super) limit: Limit,
    /// The offered load is below the intended load.
    pub(super) is_slow: bool,
    /// The sender was held up, and the loss is no larger than the burst with which it caught up.
    pub(super) is_doubtful: bool,
}

/// Evaluates a stream sent at one rate. `seconds` is its planned duration; without it the rate follows from the
/// frames' own timestamps. A relative shortfall of the rate up to `tolerance` is ignored.
pub(super) fn look(
    direction: &DirectionReport,
    stream: &StreamReport,
    wanted_pps: f64,
    seconds: Option<f64>,
    tolerance: f64,
) -> Seen {
    // Frames that a dead link refused were due, and did not arrive.
    let Tally { refused, .. } = stream.total;
    let (sent, missing) = (stream.total.sent + refused, stream.total.lost + refused);
    let offered_pps = seconds.map_or_else(|| pace(&stream.total, wanted_pps), |s| sent as f64 / s);
    let lost = path_lost(direction, missing);
    let ratio = |frames: u64| if sent > 0 { frames as f64 / sent as f64 } else { 0.0 };
    // A duration that is not a whole number of frames holds one frame less.
    let is_rounded = seconds.is_some_and(|s| sent as f64 + 1.0 > wanted_pps * s);
    let is_slow = offered_pps < wanted_pps * (1.0 - tolerance) && !is_rounded;
    let unsent = if is_slow { 1.0 - offered_pps / wanted_pps } else { 0.0 };
    let limit = match (lost > 0, missing > 0) {
        (true, _) => Limit::Path,
        (false, true) => Limit::Meter,
        (false, false) if is_slow => Limit::Generator,
        (false, false) => Limit::Nothing,
    };
    let unproven = ratio(missing).max(unsent);
    let is_doubtful = lost > 0 && lost <= caught_up(direction, offered_pps);
    Seen { wanted_pps, offered_pps, sent, lost, loss: ratio(lost), unproven, limit, is_slow, is_doubtful }
}

/// Largest number of frames that a delayed sender may have sent in a burst to catch up.
pub(super) fn caught_up(direction: &DirectionReport, pps: f64) -> u64 {
    let late_ns = direction.late_max_ns.min(CATCH_UP_NS);
    if late_ns > LATE_NS { (late_ns as f64 / 1e9 * pps).ceil() as u64 } else { 0 }
}

/// Missing frames that the meter cannot have lost.
pub(super) fn path_lost(direction: &DirectionReport, missing: u64) -> u64 {
    missing.saturating_sub(meter_lost(direction))
}

/// Frames that arrived, but were dropped by the meter or by its interface.
pub(super) fn meter_lost(direction: &DirectionReport) -> u64 {
    direction.meter_dropped.saturating_add(direction.nic_dropped)
}

/// Frames/s from the first frame to the last; the requested rate for a single frame.
pub(super) fn pace(tally: &Tally, wanted_pps: f64) -> f64 {
    let ns = tally.last_ns.saturating_sub(tally.first_ns);
    if tally.sent > 1 && ns > 0 { (tally.sent - 1) as f64 * 1e9 / ns as f64 } else { wanted_pps }
}

#[cfg(test)]
mod tests {
    use super::super::sim;
    use super::*;

    fn seen(sent: u64, lost: u64, meter_dropped: u64) -> Seen {
        let total = Tally { sent, lost, received: sent - lost, ..Tally::default() };
        let stream = StreamReport { total, ..sim::no_stream(1) };
        let direction = DirectionReport { meter_dropped, ..sim::direction(vec![stream.clone()]) };
        look(&direction, &stream, 1000.0, Some(1.0), OFFERED_TOLERANCE)
    }

    #[test]
    fn losses_of_the_meter_are_not_the_paths() {
        let both = seen(1000, 30, 10);
        assert_eq!((both.lost, both.limit), (20, Limit::Path));
        assert!((both.loss - 0.02).abs() < 1e-12 && (both.unproven - 0.03).abs() < 1e-12);
        let meter = seen(1000, 10, 10);
        assert_eq!((meter.lost, meter.loss, meter.limit), (0, 0.0, Limit::Meter));
        // It proves nothing about the rate either.
        assert!(meter.unproven > 0.0);
    }

    #[test]
    fn frames_that_a_dead_link_refused_are_lost_by_the_path() {
        let total = Tally { sent: 600, received: 600, refused: 400, ..Tally::default() };
        let stream = StreamReport { total, ..sim::no_stream(1) };
        let seen = look(&sim::direction(Vec::new()), &stream, 1000.0, Some(1.0), OFFERED_TOLERANCE);
        assert_eq!((seen.limit, seen.is_slow, seen.lost), (Limit::Path, false, 400));
    }

    #[test]
    fn a_rate_that_was_not_sent_is_not_proven() {
        let slow = seen(900, 0, 0);
        assert_eq!((slow.offered_pps, slow.limit, slow.loss), (900.0, Limit::Generator, 0.0));
        assert!((slow.unproven - 0.1).abs() < 1e-12);
        assert_eq!(seen(985, 0, 0).unproven, 0.0);
        assert_eq!(seen(1000, 0, 0).limit, Limit::Nothing);
        assert_eq!(seen(0, 0, 0).unproven, 1.0);
        // 2.5 Mb/s of 1518 B in 150 ms are 30.9 frames, of which 30 are sent: 3 % less by rounding.
        let total = Tally { sent: 30, received: 30, ..Tally::default() };
        let stream = StreamReport { total, ..sim::no_stream(1) };
        let look = |pps| look(&sim::direction(Vec::new()), &stream, pps, Some(0.15), OFFERED_TOLERANCE);
        assert_eq!((look(206.0).limit, look(206.0).unproven), (Limit::Nothing, 0.0));
        assert_eq!(look(210.0).limit, Limit::Generator);
    }

    #[test]
    fn losses_that_a_burst_of_the_sender_may_explain_are_in_doubt() {
        let seen = |lost: u64, late_max_ns: u64| {
            let total = Tally { sent: 1000, lost, received: 1000 - lost, ..Tally::default() };
            let stream = StreamReport { total, ..sim::no_stream(1) };
            let direction = DirectionReport { late_max_ns, ..sim::direction(Vec::new()) };
            look(&direction, &stream, 100_000.0, Some(0.01), OFFERED_TOLERANCE).is_doubtful
        };
        // 60 µs at 100 kpps are six frames; at most 100 µs are caught up on.
        assert!(seen(6, 60_000) && !seen(7, 60_000) && !seen(0, 60_000));
        assert!(seen(10, 50_000_000) && !seen(11, 50_000_000));
        assert!(!seen(1, 40_000));
    }

    #[test]
    fn the_pace_is_that_of_the_gaps() {
        let tally = Tally { sent: 11, first_ns: 5, last_ns: 1_000_000_005, ..Tally::default() };
        assert_eq!(pace(&tally, 7.0), 10.0);
        assert_eq!(pace(&Tally { sent: 1, ..tally }, 7.0), 7.0);
    }
}
