//! The clock source that stamps packets, and its synchronisation.

use super::text;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The clock source of the kernel (Documentation/timers/timekeeping.rst).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockSource {
    /// The clock source in use, such as "tsc".
    pub current: String,
    /// All usable ones, best first.
    pub available: Vec<String>,
    /// The file that selects it.
    pub path: PathBuf,
}

/// The synchronisation of the system clock (adjtimex(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discipline {
    /// A daemon such as chronyd synchronises it.
    pub is_synchronised: bool,
    /// The maximum error (`maxerror`).
    pub error_max: Duration,
}

/// Reads the clock source below `root`.
pub fn clock_source(root: &Path) -> Result<ClockSource> {
    let dir = root.join("sys/devices/system/clocksource/clocksource0");
    let path = dir.join("current_clocksource");
    let available = text(&dir.join("available_clocksource"))?;
    Ok(ClockSource {
        current: text(&path)?,
        available: available.split_whitespace().map(str::to_owned).collect(),
        path,
    })
}

/// Reads the synchronisation of the system clock. Needs no privilege.
pub fn discipline() -> Result<Discipline> {
    // SAFETY: timex is plain data; all zero is a valid value, and `modes` 0 changes nothing.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel reads and writes one `struct timex`, which is local.
    let state = unsafe { libc::adjtimex(&mut timex) };
    if state < 0 {
        return Err(Error::last("read the synchronisation of the clock"));
    }
    Ok(Discipline {
        is_synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
        error_max: Duration::from_micros(u64::try_from(timex.maxerror).unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_clock_is_read_below_a_root() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(clock_source(root.path()).unwrap_err().raw(), libc::ENOENT);
        let dir = root.path().join("sys/devices/system/clocksource/clocksource0");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("current_clocksource"), "hpet\n").unwrap();
        fs::write(dir.join("available_clocksource"), "tsc hpet acpi_pm \n").unwrap();
        let clock = clock_source(root.path()).unwrap();
        assert_eq!((clock.current.as_str(), clock.available.len()), ("hpet", 3));
    }
}
