//! The output folder: its file system, its free space and its write rate, compared with the rate of the links.

use super::super::format::{bits, byte_rate, bytes, span};
use super::super::readings::{Readings, TargetReadings};
use super::rate::rate_bps;
use super::{Diagnosis, Severity, known};
use quaff_wire::printable::quote_path;

/// Free space below which a file system is full: a few chunks.
const FULL_BYTES: u64 = 64 << 20;
/// Wanted free space where the rate is unknown.
const LITTLE_BYTES: u64 = 1 << 30;
/// Wanted free space, in s of capture.
const ROOM_SECONDS: f64 = 60.0;

pub(super) fn judge(it: &TargetReadings, readings: &Readings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    if let Some(why) = &it.refused {
        return refused(it, why, found);
    }
    let what = format!("file system of {shown}");
    if let Some(mount) = found.read(&what, &it.mount) {
        found
            .fine(what, format!("{} on {}, at {}", mount.fs_type, mount.device, mount.mount_point.display()));
    }
    if it.is_memory {
        found.find(
            "memory-fs",
            Severity::Warning,
            format!("{shown} is in memory"),
            "its files take memory from the buffers and do not survive a reboot; it was measured to take 0.4 GB/s, a \
             disk with direct writes 2.2 GB/s",
            "quaff doctor --dir DIR   # a folder on a disk",
        );
    } else {
        direct(it, found);
    }
    let rate = readings.wanted.rate_bps.or_else(|| total_rate(readings));
    space(it, rate, found);
    speed(it, rate, readings, found);
}

/// The highest rate of all interfaces together, b/s.
fn total_rate(readings: &Readings) -> Option<f64> {
    let top = readings.interfaces.iter().filter(|it| !it.is_below);
    let sum: f64 = top.filter_map(|it| rate_bps(it, readings)).sum();
    (sum > 0.0).then_some(sum)
}

fn refused(it: &TargetReadings, why: &str, found: &mut Diagnosis) {
    let shown = quote_path(&it.dir.display().to_string());
    let (id, what, fix) = match known(&it.mount).filter(|mount| mount.is_read_only) {
        Some(mount) => (
            "read-only",
            format!("{shown} is read-only"),
            format!("mount -o remount,rw {}", quote_path(&mount.mount_point.display().to_string())),
        ),
        None if !it.dir.is_dir() => {
            ("dir", format!("the folder {shown} does not exist"), format!("mkdir -p {shown}"))
        }
        None => (
            "dir",
            format!("no file can be created in {shown}"),
            format!("ls -ld {shown}; id   # shows permissions"),
        ),
    };
    found.find(id, Severity::Critical, what, format!("a capture needs a folder to write to: {why}"), fix);
}

fn direct(it: &TargetReadings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("direct writes to {shown}");
    match &it.direct_align {
        Err(why) => found.unread(what, why),
        Ok(Some(align)) => found.fine(what, format!("aligned to {}", bytes(*align as u64))),
        Ok(None) => {
            found.find(
                "direct",
                Severity::Warning,
                format!("the file system of {shown} does not support O_DIRECT"),
                "all writes use the page cache: measured, 0.4 GB/s with a whole core, instead of 2.2 GB/s with 7 % of one",
                "quaff doctor --dir DIR   # a folder on ext4, xfs or btrfs",
            );
        }
    }
}

fn space(it: &TargetReadings, rate: Option<f64>, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("free space of {shown}");
    let Some(free) = found.read(&what, &it.free_bytes) else { return };
    let lasts = rate.map(|rate| (free as f64 / (rate / 8.0), rate));
    let is_little = lasts.map_or(free < LITTLE_BYTES, |(seconds, _)| seconds < ROOM_SECONDS);
    if free >= FULL_BYTES && !is_little {
        return found.fine(what, bytes(free));
    }
    found.find(
        "space",
        if free < FULL_BYTES { Severity::Critical } else { Severity::Warning },
        format!("{} are free in {shown}", bytes(free)),
        match lasts {
            Some((seconds, rate)) => format!("at {} it is full after {}", bits(rate), span(seconds)),
            None => "a capture ends when the disk is full".to_owned(),
        },
        format!(
            "du -xh {} | sort -h | tail   # or let quaff keep space free: --keep-free 10",
            quote_path(&shown.to_string())
        ),
    );
}

fn speed(it: &TargetReadings, rate: Option<f64>, readings: &Readings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("write rate of {shown}");
    let Some(written) = found.read(&what, &it.written) else { return };
    let got = written.bytes_per_second();
    let value = format!("{} ({} in {})", byte_rate(got), bytes(written.bytes), span(written.seconds));
    let Some(needed) = rate.map(|rate| rate / 8.0).filter(|needed| *needed > got) else {
        return found.fine(what, value);
    };
    let buffer_bytes = readings.wanted.buffer_bytes;
    let is_stated = readings.wanted.rate_bps.is_some();
    found.find(
        "write-rate",
        if is_stated { Severity::Critical } else { Severity::Warning },
        format!("{shown} takes {value}"),
        format!(
            "{} are {}: a buffer of {} is full after {}, and packets are lost from then on",
            bits(needed * 8.0),
            byte_rate(needed),
            bytes(buffer_bytes),
            span(buffer_bytes as f64 / (needed - got))
        ),
        "quaff capture --dir DIR -s 128 …   # a faster disk, less of each packet, or a filter (-f)",
    );
}
