//! Whether the folder takes what the link brings.

use super::super::readings::{Readings, TargetReadings};
use super::super::words::{bits, byte_rate, bytes, quote, span};
use super::super::{Diagnosis, Finding, Severity};
use super::rate_bps;

/// With less than this a file system is full, bytes: a few chunks.
const FULL_BYTES: u64 = 64 << 20;
/// Less than this is little, where the rate is not known, bytes.
const LITTLE_BYTES: u64 = 1 << 30;
/// A capture should have room for so long, s.
const ROOM_SECONDS: f64 = 60.0;

pub(super) fn judge(it: &TargetReadings, readings: &Readings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    if let Some(why) = &it.refused {
        found.find(refused(it, why));
        return;
    }
    if let Some(mount) = found.read(&format!("file system of {shown}"), &it.mount) {
        found.fine(
            format!("file system of {shown}"),
            format!("{} on {}, at {}", mount.fs_type, mount.device, mount.mount_point.display()),
        );
    }
    if it.is_memory {
        found.find(Finding::new(
            "memory-fs",
            Severity::Warning,
            format!("{shown} lies in memory"),
            "each byte that is written there is missing from the buffers, and goes when the machine does; measured, \
             it takes 0.4 GB/s, against 2.2 GB/s of a disk that is written directly"
                .into(),
            "quaff doctor --dir DIR   # a folder on a disk".into(),
        ));
    } else {
        direct(it, found);
    }
    let rate = readings.wanted.rate_bps.or_else(|| fastest(readings));
    space(it, rate, found);
    speed(it, rate, readings, found);
}

/// What all interfaces together can bring, b/s.
fn fastest(readings: &Readings) -> Option<f64> {
    let apart = readings.interfaces.iter().filter(|it| !it.is_below);
    let rates = apart.filter_map(|it| rate_bps(it, readings));
    let sum: f64 = rates.sum();
    (sum > 0.0).then_some(sum)
}

fn refused(it: &TargetReadings, why: &str) -> Finding {
    let shown = quote(&it.dir.display().to_string());
    let read_only = it.mount.as_ref().ok().and_then(Option::as_ref).filter(|mount| mount.is_read_only);
    let (id, what, fix) = match read_only {
        Some(mount) => (
            "read-only",
            format!("{shown} is read-only"),
            format!("mount -o remount,rw {}", quote(&mount.mount_point.display().to_string())),
        ),
        None if !it.dir.is_dir() => {
            ("dir", format!("there is no folder {shown}"), format!("mkdir -p {shown}"))
        }
        None => {
            ("dir", format!("nothing can be written to {shown}"), format!("ls -ld {shown}; id   # may you?"))
        }
    };
    Finding::new(id, Severity::Critical, what, format!("a capture needs a place to write to: {why}"), fix)
}

fn direct(it: &TargetReadings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("direct writes to {shown}");
    match &it.direct_align {
        Err(why) => found.unread(what, why),
        Ok(Some(align)) => found.fine(what, format!("aligned to {}", bytes(*align as u64))),
        Ok(None) => found.find(Finding::new(
            "direct",
            Severity::Warning,
            format!("the file system of {shown} has no direct writes (O_DIRECT)"),
            "what is written goes through the page cache: measured, 0.4 GB/s for a whole core, against 2.2 GB/s for \
             7 % of one"
                .into(),
            "quaff doctor --dir DIR   # a folder on ext4, xfs or btrfs".into(),
        )),
    }
}

fn space(it: &TargetReadings, rate: Option<f64>, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("free space of {shown}");
    let Some(free) = found.read(&what, &it.free_bytes).copied() else { return };
    let lasts = rate.map(|rate| (free as f64 / (rate / 8.0), rate));
    let is_little = match lasts {
        Some((seconds, _)) => seconds < ROOM_SECONDS,
        None => free < LITTLE_BYTES,
    };
    let why = match lasts {
        Some((seconds, rate)) => format!("at {} that is full after {}", bits(rate), span(seconds)),
        None => "a capture ends when there is no room left".to_owned(),
    };
    if free < FULL_BYTES || is_little {
        let is_full = free < FULL_BYTES;
        found.find(Finding::new(
            "space",
            if is_full { Severity::Critical } else { Severity::Warning },
            format!("{} are free in {shown}", bytes(free)),
            why,
            format!(
                "du -xh {} | sort -h | tail   # or let quaff keep it free: --keep-free 10",
                quote(&shown.to_string())
            ),
        ));
    } else {
        found.fine(what, bytes(free));
    }
}

fn speed(it: &TargetReadings, rate: Option<f64>, readings: &Readings, found: &mut Diagnosis) {
    let shown = it.dir.display();
    let what = format!("write rate of {shown}");
    let Some(written) = found.read(&what, &it.written) else { return };
    let got = written.bytes_per_second();
    let words = format!("{} ({} in {})", byte_rate(got), bytes(written.bytes), span(written.seconds));
    let Some(needed) = rate.map(|rate| rate / 8.0).filter(|needed| *needed > got) else {
        found.fine(what, words);
        return;
    };
    let lasts = readings.wanted.buffer_bytes as f64 / (needed - got);
    let is_asked = readings.wanted.rate_bps.is_some();
    found.find(Finding::new(
        "write-rate",
        if is_asked { Severity::Critical } else { Severity::Warning },
        format!("{shown} takes {words}"),
        format!(
            "{} bring {}: a buffer of {} is full after {}, and packets are lost from then on",
            bits(needed * 8.0),
            byte_rate(needed),
            bytes(readings.wanted.buffer_bytes),
            span(lasts)
        ),
        "quaff capture --dir DIR -s 128 …   # a faster disk, less of each packet, or a filter (-f)".into(),
    ));
}
