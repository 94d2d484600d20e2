//! Stores different versions of the same bytes, within a limit.
//!
//! The first ones are kept: a flood of later ones cannot displace them.

use crate::held::Difference;

/// Memory of a record in addition to its versions, bytes.
const RECORD_BYTES: usize = 128;

/// Two versions of the same bytes: see [`Difference`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence<K> {
    /// The stream or the datagram that it concerns.
    pub subject: K,
    pub offset: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    pub differing: u32,
    pub is_new_kept: bool,
    /// Timestamp, ns since 1970.
    pub time_ns: u64,
}

/// The evidence of a lane. `K` identifies a stream or a datagram.
#[derive(Debug, Clone)]
pub struct EvidenceLog<K> {
    limit_bytes: usize,
    used_bytes: usize,
    kept: Vec<Evidence<K>>,
    dropped: u64,
}

impl<K> EvidenceLog<K> {
    /// Creates a log with a limit in bytes.
    pub fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: 0, kept: Vec::new(), dropped: 0 }
    }

    /// Stores a difference if there is room.
    pub fn keep(&mut self, subject: K, difference: &Difference, time_ns: u64) {
        let Difference { offset, old, new, differing, is_new_kept } = *difference;
        let bytes = RECORD_BYTES + size_of::<Evidence<K>>() + old.len() + new.len();
        if self.used_bytes + bytes > self.limit_bytes {
            self.dropped += 1;
            return;
        }
        self.used_bytes += bytes;
        let (old, new) = (old.to_vec(), new.to_vec());
        self.kept.push(Evidence { subject, offset, old, new, differing, is_new_kept, time_ns });
    }

    /// All stored differences, oldest first.
    pub fn kept(&self) -> &[Evidence<K>] {
        &self.kept
    }

    /// Number of differences that did not fit.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_differences_are_kept_within_the_limit() {
        let mut log = EvidenceLog::new(10_000);
        for number in 0..100u32 {
            let version = [number as u8; 200];
            let difference =
                Difference { offset: 7, old: &version, new: &version, differing: 200, is_new_kept: true };
            log.keep(number, &difference, 5);
        }
        let kept = log.kept().len();
        assert!((10..50).contains(&kept) && log.dropped() == 100 - kept as u64);
        assert!(log.kept().iter().enumerate().all(|(at, evidence)| evidence.subject == at as u32));
        assert!(log.kept().iter().map(|one| one.old.len() + one.new.len()).sum::<usize>() <= 10_000);
    }
}
