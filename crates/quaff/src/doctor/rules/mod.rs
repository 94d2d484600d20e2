//! The rules of the doctor, with their limits: turns readings into findings, by pure functions: one for each cause of
//! packet loss. Checks that pass are recorded too. Nothing here reads or changes the machine.

mod cores;
mod frames;
mod interface;
mod permits;
mod rate;
mod softnet;
mod target;
#[cfg(test)]
mod tests;

use super::readings::{InterfaceReadings, Readings};
use super::{Change, Diagnosis, Setting, Severity, known};
use rate::rate_bps;

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
    }
}
