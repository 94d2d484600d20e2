//! Numbers and shell words in the text of findings.

pub(super) use crate::format::number_of as count;
use crate::format::{BIT_RATES, BYTE_RATES, BYTES, TIMES, short};
pub(super) use quaff_wire::printable::quote;

/// A bit rate: "10 Gb/s".
pub(super) fn bits(bps: f64) -> String {
    short(bps, 1000.0, BIT_RATES)
}

/// A byte rate: "1.25 GB/s".
pub(super) fn byte_rate(rate: f64) -> String {
    short(rate, 1000.0, BYTE_RATES)
}

/// Bytes: "64 MiB".
pub(super) fn bytes(bytes: u64) -> String {
    short(bytes as f64, 1024.0, BYTES)
}

/// A duration: "34 µs".
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 172_800.0 => format!("{:.0} days", s / 86400.0),
        s if s >= 7200.0 => format!("{:.0} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.0} min", s / 60.0),
        s => short(s * 1e9, 1000.0, TIMES),
    }
}

/// A list of cores in the kernel's notation: "0-3,8".
pub(super) fn cores(cores: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => runs.push((*core, *core)),
        }
    }
    let run = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(bits(1e10), "10 Gb/s");
        assert_eq!(byte_rate(1.25e9), "1.25 GB/s");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(span(34.4e-6), "34.4 µs");
        assert_eq!(span(90.0), "90 s");
        assert_eq!(span(7300.0), "2 h");
        assert_eq!(cores(&[0, 1, 2, 5]), "0-2,5");
        assert_eq!(count(1, "frame"), "1 frame");
        assert_eq!((quote("/data"), quote("my disk")), ("/data".into(), "'my disk'".into()));
    }
}
