//! The conditions of dumpcap's `-a`, as words. It decides nothing about the end of a capture.

use std::str::FromStr;
use std::time::Duration;

/// The unit of dumpcap's `filesize`, bytes.
const KB: u64 = 1000;

/// A condition of `-a`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum AutoStop {
    Duration(Duration),
    Packets(u64),
    /// Bytes.
    FileSize(u64),
    Files(u64),
}

impl FromStr for AutoStop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const KNOWN: &str = "duration:SECONDS, packets:N, filesize:KB or files:N";
        let Some((what, value)) = text.split_once(':') else { return Err(format!("expected {KNOWN}")) };
        let number = || match value.trim().parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("'{value}' is no whole number above 0")),
        };
        match what.trim() {
            "duration" => {
                let seconds =
                    value.trim().parse().map_err(|_| format!("'{value}' is no number of seconds"))?;
                let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
                time.map(Self::Duration).ok_or_else(|| format!("'{value}' is no time above 0"))
            }
            "packets" => number().map(Self::Packets),
            "filesize" => Ok(Self::FileSize(number()?.checked_mul(KB).ok_or("that is too large")?)),
            "files" => number().map(Self::Files),
            other => Err(format!("unknown condition '{other}': expected {KNOWN}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::tests::texts;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_a_condition_or_has_a_reason(text in texts()) {
            match text.parse::<AutoStop>() {
                Ok(AutoStop::Duration(time)) => prop_assert!(!time.is_zero()),
                Ok(AutoStop::Packets(number) | AutoStop::FileSize(number) | AutoStop::Files(number)) => {
                    prop_assert!(number > 0);
                }
                Err(reason) => prop_assert!(!reason.is_empty()),
            }
        }
    }

    #[test]
    fn conditions_are_those_of_dumpcap() {
        let read = |text: &str| text.parse::<AutoStop>();
        assert_eq!(read("duration:2"), Ok(AutoStop::Duration(Duration::from_secs(2))));
        assert_eq!(read("duration:0.5"), Ok(AutoStop::Duration(Duration::from_millis(500))));
        assert_eq!(read("packets:7"), Ok(AutoStop::Packets(7)));
        assert_eq!(read("filesize:100"), Ok(AutoStop::FileSize(100_000)));
        assert_eq!(read("files:3"), Ok(AutoStop::Files(3)));
        for wrong in [
            "",
            "5",
            "packets",
            "packets:",
            "packets:0",
            "packets:1.5",
            "duration:0",
            "duration:-1",
            "size:3",
            "files:x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
