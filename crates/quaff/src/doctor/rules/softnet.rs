//! What the kernel's network softirq has room and time for, on all cores.

use super::super::readings::{InterfaceReadings, MachineReadings, Readings};
use super::super::words::{bytes, count, span};
use super::super::{Change, Diagnosis, Finding, Knob, Severity};
use std::time::Duration;

/// 10 ms at 1 million frames a second.
const BACKLOG_FRAMES: u64 = 10_000;
/// Twice what the kernel begins with.
const BUDGET_FRAMES: u64 = 600;
/// What a budget of that many frames may take, µs.
const BUDGET_US: u64 = 8000;

/// Drivers of virtual interfaces that hand frames up at once, without the backlog.
const PASSING: [&str; 4] = ["bridge", "802.1Q VLAN Support", "bonding", "team"];

pub(super) fn judge(readings: &Readings, found: &mut Diagnosis) {
    let machine = &readings.machine;
    let dropped = sum(&machine.softnet, |core| core.dropped);
    backlog(readings, dropped, found);
    dropping(machine, found);
    budget(machine, found);
    rmem(machine, found);
    if let Err(why) = &machine.softnet {
        found.unread("softnet", why);
    }
}

fn sum(
    softnet: &super::super::readings::Reading<Vec<quaff_os::machine::Softnet>>,
    of: fn(&quaff_os::machine::Softnet) -> u32,
) -> u64 {
    let cores = softnet.as_ref().ok().and_then(Option::as_ref);
    cores.map_or(0, |cores| cores.iter().map(|core| u64::from(of(core))).sum())
}

/// Whether frames of it wait in the backlog for the softirq.
fn uses_backlog(it: &InterfaceReadings) -> bool {
    let driver = it.driver.as_ref().ok().and_then(Option::as_deref).unwrap_or("");
    it.has_rps || !it.is_hardware && !PASSING.contains(&driver)
}

fn backlog(readings: &Readings, dropped: u64, found: &mut Diagnosis) {
    let Some(frames) = found.read("net.core.netdev_max_backlog", &readings.machine.backlog_frames) else {
        return;
    };
    let frames = *frames;
    let users: Vec<_> =
        readings.interfaces.iter().filter(|it| uses_backlog(it)).map(|it| it.name.as_str()).collect();
    if frames >= BACKLOG_FRAMES || (users.is_empty() && dropped == 0) {
        found.fine("net.core.netdev_max_backlog", count(frames, "frame"));
        return;
    }
    let who = match users.is_empty() {
        true => "frames of virtual interfaces".to_owned(),
        false => format!("frames of {}", users.join(", ")),
    };
    let so_far =
        if dropped > 0 { format!(" ({dropped} since the machine was started)") } else { String::new() };
    let finding = Finding::new(
        "backlog",
        Severity::Warning,
        format!("the backlog of a core holds {} (net.core.netdev_max_backlog)", count(frames, "frame")),
        format!(
            "{who} wait there, at 1 million a second for {}; what comes beyond is dropped, and no interface counts \
             it{so_far}",
            span(frames as f64 / 1e6)
        ),
        format!("sysctl -w net.core.netdev_max_backlog={BACKLOG_FRAMES}"),
    );
    found.find(finding.mended_by(vec![sysctl("netdev_max_backlog", BACKLOG_FRAMES)]));
}

fn dropping(machine: &MachineReadings, found: &mut Diagnosis) {
    let Some(watched) = &machine.softnet_watched else { return };
    let cores: Vec<_> = watched.more.iter().filter(|core| core.dropped > 0).map(|core| core.core).collect();
    let dropped: u64 = watched.more.iter().map(|core| u64::from(core.dropped)).sum();
    if dropped == 0 {
        found
            .fine("frames that the softirq dropped", format!("none in {}", span(watched.time.as_secs_f64())));
        return;
    }
    found.find(Finding::new(
        "softnet-drops",
        Severity::Critical,
        format!("the kernel drops frames now: {dropped} in {}", span(watched.time.as_secs_f64())),
        format!(
            "the backlog of core {} is full; no capture sees these frames, and no interface counts them",
            super::super::words::cores(&cores)
        ),
        "quaff cores   # give that core less to do: move interrupts and senders to others".into(),
    ));
}

fn budget(machine: &MachineReadings, found: &mut Diagnosis) {
    let Some(frames) = found.read("net.core.netdev_budget", &machine.budget_frames).copied() else { return };
    let us = found.read("net.core.netdev_budget_usecs", &machine.budget_us).copied();
    let squeezed = sum(&machine.softnet, |core| core.squeezed);
    let watched = machine.softnet_watched.as_ref().map(|watched| {
        let times: u64 = watched.more.iter().map(|core| u64::from(core.squeezed)).sum();
        (times, watched.time)
    });
    let minutes =
        machine.uptime.as_ref().ok().copied().flatten().map_or(f64::MAX, |up| up.as_secs_f64() / 60.0);
    let (severity, how_often) = match watched {
        Some((times, time)) if times > 0 => (Severity::Warning, often(times, time)),
        _ if squeezed as f64 > minutes => {
            (Severity::Note, format!("{squeezed} times in {}", span(minutes * 60.0)))
        }
        _ => {
            found.fine("net.core.netdev_budget", count(frames, "frame"));
            return;
        }
    };
    if frames >= BUDGET_FRAMES {
        found.fine("net.core.netdev_budget", format!("{frames} frames, used up {how_often}"));
        return;
    }
    let mut changes = vec![sysctl("netdev_budget", BUDGET_FRAMES)];
    let mut fix = format!("sysctl -w net.core.netdev_budget={BUDGET_FRAMES}");
    if us.is_some_and(|us| us < BUDGET_US) {
        changes.push(sysctl("netdev_budget_usecs", BUDGET_US));
        fix += &format!(" net.core.netdev_budget_usecs={BUDGET_US}");
    }
    let finding = Finding::new(
        "budget",
        severity,
        format!("the softirq had to stop with frames left: {how_often}"),
        format!(
            "it goes on for {frames} frames{} at a time, and what arrives until its next turn waits in the rings",
            us.map_or(String::new(), |us| format!(" or {}", span(us as f64 / 1e6)))
        ),
        fix,
    );
    found.find(finding.mended_by(changes));
}

fn often(times: u64, time: Duration) -> String {
    format!("{} in {}", count(times, "time"), span(time.as_secs_f64()))
}

/// What sockets may buffer bounds programs that read without a ring, as old Gulp does. It is no finding.
fn rmem(machine: &MachineReadings, found: &mut Diagnosis) {
    if let Some(now) = found.read("net.core.rmem_max", &machine.rmem_max_bytes) {
        let now = bytes(*now);
        found.fine(
            "net.core.rmem_max",
            format!("{now}; quaff's ring is memory of its own, and not bound by it"),
        );
    }
}

fn sysctl(name: &str, to: u64) -> Change {
    Change { knob: Knob::File(format!("/proc/sys/net/core/{name}").into()), to: to.to_string() }
}
