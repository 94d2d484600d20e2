//! Limits of the kernel's network softirq, on all cores.

use super::super::format::{bytes, cores, count, span};
use super::super::readings::{InterfaceReadings, MachineReadings, Reading, Readings};
use super::{Change, Diagnosis, Setting, Severity, known};
use quaff_os::softnet::Softnet;

/// 10 ms at 1 million frames/s.
const BACKLOG_FRAMES: u64 = 10_000;
/// Twice the kernel's default.
const BUDGET_FRAMES: u64 = 600;
/// Time limit for that budget, µs.
const BUDGET_US: u64 = 8000;

/// Drivers of virtual interfaces that pass frames up without the backlog.
const PASSING: [&str; 4] = ["bridge", "802.1Q VLAN Support", "bonding", "team"];

pub(super) fn judge(readings: &Readings, found: &mut Diagnosis) {
    let machine = &readings.machine;
    backlog(readings, found);
    dropping(machine, found);
    budget(machine, found);
    if let Some(now) = found.read("net.core.rmem_max", &machine.rmem_max_bytes) {
        // Limits programs that read without a ring, such as the original gulp.
        found.fine("net.core.rmem_max", format!("{}; does not limit quaff's ring", bytes(now)));
    }
    if let Err(why) = &machine.softnet {
        found.unread("softnet", why);
    }
}

fn sum(softnet: &Reading<Vec<Softnet>>, of: fn(&Softnet) -> u32) -> u64 {
    known(softnet).map_or(0, |cores| cores.iter().map(|core| u64::from(of(core))).sum())
}

/// Returns whether frames of the interface wait in the backlog.
fn uses_backlog(it: &InterfaceReadings) -> bool {
    let driver = known(&it.driver).unwrap_or_default();
    it.has_rps || !it.is_hardware && !PASSING.contains(&driver.as_str())
}

fn backlog(readings: &Readings, found: &mut Diagnosis) {
    let what = "net.core.netdev_max_backlog";
    let Some(frames) = found.read(what, &readings.machine.backlog_frames) else { return };
    let dropped = sum(&readings.machine.softnet, |core| core.dropped);
    let users: Vec<_> =
        readings.interfaces.iter().filter(|it| uses_backlog(it)).map(|it| it.name.as_str()).collect();
    if frames >= BACKLOG_FRAMES || (users.is_empty() && dropped == 0) {
        return found.fine(what, count(frames, "frame"));
    }
    let users = if users.is_empty() { "virtual interfaces".to_owned() } else { users.join(", ") };
    let so_far = if dropped > 0 { format!(" ({dropped} since boot)") } else { String::new() };
    let finding = found.find(
        "backlog",
        Severity::Warning,
        format!("the backlog of a core holds {} ({what})", count(frames, "frame")),
        format!(
            "frames of {users} wait there, at 1 million/s for up to {}; the kernel drops what exceeds it{so_far}, and \
             counts it in rx_dropped of the interface only",
            span(frames as f64 / 1e6)
        ),
        format!("sysctl -w {what}={BACKLOG_FRAMES}"),
    );
    finding.fixed_by(vec![sysctl("netdev_max_backlog", BACKLOG_FRAMES)]);
}

fn dropping(machine: &MachineReadings, found: &mut Diagnosis) {
    let Some(rise) = &machine.softnet_rise else { return };
    let (time, dropping) = (span(rise.time.as_secs_f64()), rise.by.iter().filter(|core| core.dropped > 0));
    let dropped: u64 = dropping.clone().map(|core| u64::from(core.dropped)).sum();
    if dropped == 0 {
        return found.fine("frames dropped by the softirq", format!("none in {time}"));
    }
    let full = cores(&dropping.map(|core| core.core).collect::<Vec<_>>());
    found.find(
        "softnet-drops",
        Severity::Critical,
        format!("the kernel drops frames now: {dropped} in {time}"),
        format!("the backlog of core {full} is full; these frames are in no capture, only in rx_dropped of their interface"),
        "quaff cores   # relieve that core: move interrupts and senders to others",
    );
}

fn budget(machine: &MachineReadings, found: &mut Diagnosis) {
    let what = "net.core.netdev_budget";
    let Some(frames) = found.read(what, &machine.budget_frames) else { return };
    let us = found.read("net.core.netdev_budget_usecs", &machine.budget_us);
    let squeezed = sum(&machine.softnet, |core| core.squeezed);
    let seconds = known(&machine.uptime).map_or(f64::MAX, |up| up.as_secs_f64());
    let rise = machine.softnet_rise.as_ref().map(|rise| {
        (rise.by.iter().map(|core| u64::from(core.squeezed)).sum::<u64>(), rise.time.as_secs_f64())
    });
    let (severity, times, time) = match rise {
        Some((times, time)) if times > 0 => (Severity::Warning, times, time),
        _ if squeezed as f64 > seconds / 60.0 => (Severity::Note, squeezed, seconds),
        _ => return found.fine(what, count(frames, "frame")),
    };
    let frequency = format!("{} in {}", count(times, "time"), span(time));
    if frames >= BUDGET_FRAMES {
        return found.fine(what, format!("{frames} frames, used up {frequency}"));
    }
    let mut changes = vec![sysctl("netdev_budget", BUDGET_FRAMES)];
    let mut fix = format!("sysctl -w {what}={BUDGET_FRAMES}");
    if us.is_some_and(|us| us < BUDGET_US) {
        changes.push(sysctl("netdev_budget_usecs", BUDGET_US));
        fix += &format!(" net.core.netdev_budget_usecs={BUDGET_US}");
    }
    let limit = us.map_or(String::new(), |us| format!(" or {}", span(us as f64 / 1e6)));
    let finding = found.find(
        "budget",
        severity,
        format!("the softirq used up its budget with frames left: {frequency}"),
        format!("it takes {frames} frames{limit} at a time; frames that arrive until its next run wait in the rings"),
        fix,
    );
    finding.fixed_by(changes);
}

fn sysctl(name: &str, to: u64) -> Change {
    Change { setting: Setting::File(format!("/proc/sys/net/core/{name}").into()), to: to.to_string() }
}
