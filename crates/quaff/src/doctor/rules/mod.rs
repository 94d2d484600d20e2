//! From readings to findings: pure functions, one for each thing that loses packets. Each says what it looked
//! at, also where all is well. Nothing here reads or changes anything.

mod cores;
mod frames;
mod interface;
mod permits;
mod softnet;
mod target;
#[cfg(test)]
mod tests;

use super::readings::{InterfaceReadings, Readings};
use super::words::quote;
use super::{Change, Diagnosis, Finding, Severity};

/// What the smallest frame takes on an Ethernet link, bits: 64 bytes, preamble, gap (IEEE 802.3).
const FRAME_BITS_MIN: f64 = 84.0 * 8.0;

/// Concludes, the worst first.
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

/// What there is to say of one interface.
pub(super) fn judge_interface(it: &InterfaceReadings, readings: &Readings, found: &mut Diagnosis) {
    let rate = rate_bps(it, readings);
    let before = found.findings.len();
    interface::judge(it, rate, usable_cores(readings), found);
    frames::judge(it, found);
    cores::interrupts(it, &readings.machine, found);
    for finding in &mut found.findings[before..] {
        finding.interface = Some(it.name.clone());
        // Names of interfaces may have what a shell obeys.
        finding.fix = finding.fix.replace(&it.name, &quote(&it.name));
    }
}

/// The rate that an interface can bring, b/s.
fn rate_bps(it: &InterfaceReadings, readings: &Readings) -> Option<f64> {
    let speed = it.speed_mbps.as_ref().ok().copied().flatten();
    readings.wanted.rate_bps.or(speed.map(|mbps| f64::from(mbps) * 1e6))
}

fn usable_cores(readings: &Readings) -> usize {
    let topology = readings.machine.topology.as_ref().ok().and_then(Option::as_ref);
    topology.map_or(1, |topology| topology.allowed().len())
}

/// The smallest frames that a rate brings in a second.
fn frames_per_second(rate_bps: f64) -> f64 {
    rate_bps / FRAME_BITS_MIN
}

impl Finding {
    fn new(id: &'static str, severity: Severity, what: String, why: String, fix: String) -> Self {
        Self { id, what, why, fix, severity, interface: None, fixable: false, changes: Vec::new() }
    }

    /// That can be put back.
    fn mended_by(mut self, changes: Vec<Change>) -> Self {
        self.fixable = !changes.is_empty();
        self.changes = changes;
        self
    }
}
