//! The rates that rules compare with.

use crate::doctor::known;
use crate::doctor::readings::{InterfaceReadings, Readings};

/// Bits of the smallest frame on an Ethernet link: 64 bytes, preamble, gap (IEEE 802.3).
const FRAME_BITS_MIN: f64 = 84.0 * 8.0;

/// The highest rate of an interface, b/s.
pub(super) fn rate_bps(it: &InterfaceReadings, readings: &Readings) -> Option<f64> {
    readings.wanted.rate_bps.or(known(&it.speed_mbps).map(|mbps| f64::from(mbps) * 1e6))
}

/// The smallest frames per second at a rate.
pub(super) fn frames_per_second(rate_bps: f64) -> f64 {
    rate_bps / FRAME_BITS_MIN
}
