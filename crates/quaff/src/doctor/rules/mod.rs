//! The rules of the doctor, with their limits: turns readings into findings, by pure functions: one for each cause of
//! packet loss. Checks that pass are recorded too. Nothing here reads or changes the machine.

mod cores;
mod frames;
mod interface;
mod permits;
mod softnet;
mod target;
#[cfg(test)]
mod tests;

use super::format::quote;
use super::readings::{InterfaceReadings, Readings};
use super::{Change, Diagnosis, Setting, Severity, known};

/// Bits of the smallest frame on an Ethernet link: 64 bytes, preamble, gap (IEEE 802.3).
const FRAME_BITS_MIN: f64 = 84.0 * 8.0;

/// Derives the findings from the readings, the most severe first.
pub fn judge(readings: &Readings) -> Diagnosis {
    let mut found = Diagnosis::default();
    permits::judge(&readings.machine, &readings.wanted, &mut found);
    for it in &readings.interfaces {
        judge_interface(it, readings, &mut found);
    }
    softnet::judge(readings, &mut found);
    cores::power(readings, &mut found);
    permits::clock(&readings.machine, &mut found);
    if let Some(it) = &readings.target {
        target::judge(it, readings, &mut found);
    }
    found.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

/// Adds the findings about one interface.
pub(super) fn judge_interface(it: &InterfaceReadings, readings: &Readings, found: &mut Diagnosis) {
    let rate = rate_bps(it, readings);
    let before = found.findings.len();
    let cores = known(&readings.machine.topology).map_or(1, |topology| topology.allowed().len());
    interface::judge(it, rate, cores, found);
    frames::judge(it, found);
    cores::interrupts(it, &readings.machine, found);
    for finding in &mut found.findings[before..] {
        finding.interface = Some(it.name.clone());
        // The name of an interface may contain shell metacharacters.
        finding.fix = finding.fix.replace(&it.name, &quote(&it.name));
    }
}

/// The highest rate of an interface, b/s.
fn rate_bps(it: &InterfaceReadings, readings: &Readings) -> Option<f64> {
    readings.wanted.rate_bps.or(known(&it.speed_mbps).map(|mbps| f64::from(mbps) * 1e6))
}

/// The smallest frames per second at a rate.
fn frames_per_second(rate_bps: f64) -> f64 {
    rate_bps / FRAME_BITS_MIN
}
