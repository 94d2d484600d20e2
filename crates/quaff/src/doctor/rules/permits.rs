//! Permissions and limits of this process, and the clock of its time stamps.

use super::super::format::{bytes, quote, span};
use super::super::readings::{MachineReadings, Wanted};
use super::{Diagnosis, Severity};
use quaff_os::privilege::FILE_CAPABILITIES;
use std::time::Duration;

/// Clocks that are read over a bus, in 1 µs or more.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

pub(super) fn judge(machine: &MachineReadings, wanted: &Wanted, found: &mut Diagnosis) {
    let grant = format!(
        "setcap {FILE_CAPABILITIES}=p {}   # after chgrp and chmod 750: without them any user may sniff and inject",
        quote(&machine.program.display().to_string())
    );
    if let Some(why) = &machine.packet_socket {
        let why = format!("a capture needs a packet socket: {why}");
        found.find("capability", Severity::Critical, "quaff may not open packet sockets", why, grant.clone());
    } else {
        found.fine("packet socket", "can be opened");
    }
    memlock(machine, wanted, found);
    if machine.has_nice {
        found.fine("priority", "can be raised");
    } else {
        let why = "while other programs occupy its core, for some milliseconds, a lane does not read";
        found.find("priority", Severity::Note, "quaff may not raise its priority (CAP_SYS_NICE)", why, grant);
    }
    if let Some(why) = &machine.io_uring {
        let why = format!("each write of 4 MiB is then a system call that waits for the disk: {why}");
        let fix = "sysctl -w kernel.io_uring_disabled=0";
        found.find("io_uring", Severity::Note, "io_uring cannot be used", why, fix);
    } else {
        found.fine("io_uring", "can be used");
    }
}

fn memlock(machine: &MachineReadings, wanted: &Wanted, found: &mut Diagnosis) {
    let what = "memory that may be locked";
    match &machine.memlock_bytes {
        Err(why) => found.unread(what, why),
        Ok(None) => found.fine(what, "no limit"),
        Ok(Some(limit)) if *limit >= wanted.locked_bytes => found.fine(what, bytes(*limit)),
        Ok(Some(limit)) => {
            let (limit, wanted) = (bytes(*limit), bytes(wanted.locked_bytes));
            found.find(
                "memlock",
                Severity::Warning,
                format!("only {limit} of memory may be locked, and a capture here needs {wanted}"),
                "memory that is not locked may be swapped out, and the reader then waits for a disk",
                "sudo prlimit --pid $$ --memlock=unlimited:unlimited",
            );
        }
    }
}

pub(super) fn clock(machine: &MachineReadings, found: &mut Diagnosis) {
    let is_slow = |name: &String| SLOW_CLOCKS.contains(&name.as_str());
    match found.read("clock source", &machine.clock_source) {
        Some(clock) if is_slow(&clock.current) => {
            let fix = match clock.available.iter().find(|name| !is_slow(name)) {
                Some(fast) => format!(
                    "echo {fast} > {}   # unless 'dmesg | grep -i tsc' or /proc/cmdline gives a reason against it",
                    clock.path.display()
                ),
                None => "the kernel has no better one; 'dmesg | grep -i tsc' may give the reason".into(),
            };
            // Never changed: the user or the kernel has usually had a reason not to trust the fast clock.
            found.find(
                "clock-source",
                Severity::Warning,
                format!("the clock source of the kernel is {}", clock.current),
                "reading it for each packet takes 1 µs or more, over a bus, instead of 0.02 µs with tsc; that limits a \
                 core to less than 1 million packets/s",
                fix,
            );
        }
        Some(clock) => found.fine("clock source", clock.current),
        None => {}
    }
    let Some(clock) = found.read("clock", &machine.discipline) else { return };
    let error = span(clock.error_max.as_secs_f64());
    if clock.is_synchronised && clock.error_max < Duration::from_secs(1) {
        return found.fine("clock", format!("synchronised, at most {error} off"));
    }
    let why = format!(
        "time stamps cannot be compared with those of other machines: the kernel estimates an error of up to {error}"
    );
    found.find(
        "clock-sync",
        Severity::Note,
        "the clock is not synchronised",
        why,
        "timedatectl set-ntp true",
    );
}
