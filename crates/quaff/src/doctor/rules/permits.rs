//! What this process may do, and which clock its packets are stamped by.

use super::super::readings::{MachineReadings, Wanted};
use super::super::words::{bytes, quote, span};
use super::super::{Diagnosis, Finding, Severity};
use std::time::Duration;

/// Clocks that are asked over a bus, and cost a microsecond and more each time.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub(super) fn judge(machine: &MachineReadings, wanted: &Wanted, found: &mut Diagnosis) {
    let give = format!(
        "setcap cap_net_raw,cap_net_admin,cap_ipc_lock,cap_sys_nice+ep {}   # and who may run it: chgrp, chmod 750",
        quote(&machine.program.display().to_string())
    );
    match &machine.packet_socket {
        Some(why) => found.find(Finding::new(
            "capability",
            Severity::Critical,
            "quaff may not read packets".into(),
            format!("without a packet socket there is no capture: {why}"),
            give.clone(),
        )),
        None => found.fine("packet socket", "it can be opened"),
    }
    memlock(machine, wanted, found);
    if machine.may_go_first {
        found.fine("priority", "it may be raised");
    } else {
        found.find(Finding::new(
            "priority",
            Severity::Note,
            "quaff may not go before other programs (CAP_SYS_NICE)".into(),
            "a lane that waits for its turn reads nothing for as long as others keep the core, some milliseconds"
                .into(),
            give,
        ));
    }
    match &machine.io_uring {
        Some(why) => found.find(Finding::new(
            "io_uring",
            Severity::Note,
            "there is no io_uring".into(),
            format!("each write of 4 MiB then takes a system call that waits for the disk: {why}"),
            "sysctl -w kernel.io_uring_disabled=0".into(),
        )),
        None => found.fine("io_uring", "it works"),
    }
}

fn memlock(machine: &MachineReadings, wanted: &Wanted, found: &mut Diagnosis) {
    let what = "memory that may be locked";
    match &machine.memlock_bytes {
        Err(why) => found.unread(what, why),
        Ok(None) => found.fine(what, "no limit"),
        Ok(Some(limit)) if *limit >= wanted.locked_bytes => found.fine(what, bytes(*limit)),
        Ok(Some(limit)) => {
            let wanted = bytes(wanted.locked_bytes);
            found.find(Finding::new(
                "memlock",
                Severity::Warning,
                format!("{} of memory may be locked, and a capture here wants {wanted}", bytes(*limit)),
                "memory that is not locked may be swapped out, and the reader then waits for a disk".into(),
                "sudo prlimit --pid $$ --memlock=unlimited:unlimited".into(),
            ));
        }
    }
}

pub(super) fn clock(machine: &MachineReadings, found: &mut Diagnosis) {
    if let Some(clock) = found.read("clock source", &machine.clock_source) {
        let fast = clock.available.iter().find(|name| !SLOW_CLOCKS.contains(&name.as_str()));
        if SLOW_CLOCKS.contains(&clock.current.as_str()) {
            let path = clock.path.display();
            let fix = match fast {
                Some(fast) => {
                    format!(
                        "echo {fast} > {path}   # unless 'dmesg | grep -i tsc' or /proc/cmdline say why not"
                    )
                }
                None => "the kernel has no better one; 'dmesg | grep -i tsc' may say why".into(),
            };
            // Mostly somebody, or the kernel, had a reason not to trust that clock: it is told, and never changed.
            found.find(Finding::new(
                "clock-source",
                Severity::Warning,
                format!("the kernel counts time by {}", clock.current),
                "it reads that clock for each packet, over a bus: 1 µs and more, against 0.02 µs for tsc; this \
                 alone limits a core to less than 1 million packets a second"
                    .into(),
                fix,
            ));
        } else {
            found.fine("clock source", clock.current.clone());
        }
    }
    if let Some(clock) = found.read("clock", &machine.discipline) {
        let error = span(clock.error_max.as_secs_f64());
        if clock.is_synchronised && clock.error_max < Duration::from_secs(1) {
            found.fine("clock", format!("synchronised, {error} off at the most"));
        } else {
            found.find(Finding::new(
                "clock-sync",
                Severity::Note,
                "nobody keeps the clock right".into(),
                format!(
                    "times in captures of this machine and of others cannot be compared: the kernel takes its own \
                     clock to be up to {error} off"
                ),
                "timedatectl set-ntp true".into(),
            ));
        }
    }
}
