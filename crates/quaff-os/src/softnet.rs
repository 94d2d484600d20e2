//! The work of the network softirq on each core (`softnet_seq_show`, net/core/net-procfs.c).

use crate::{Result, Try};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// One core's counters since boot; they wrap at 2^32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    pub core: usize,
    pub processed: u32,
    /// Frames dropped because the backlog (`netdev_max_backlog`) was full.
    pub dropped: u32,
    /// Times that it stopped with frames left, at the end of its budget (`netdev_budget`).
    pub squeezed: u32,
}

/// Reads the counters of all online cores below `root`.
pub fn read(root: &Path) -> Result<Vec<Softnet>> {
    let path = root.join("proc/net/softnet_stat");
    let text = fs::read_to_string(&path).trying(|| format!("read {}", path.display()))?;
    Ok(text.lines().enumerate().filter_map(|(at, line)| core(at, line)).collect())
}

/// The increase of the counters of each core of `after`, less than 2^32. A core that was offline before counts from 0.
pub fn rises(before: &[Softnet], after: &[Softnet]) -> Vec<Softnet> {
    let rise = |after: &Softnet| {
        let before = before.iter().find(|before| before.core == after.core).copied().unwrap_or_default();
        Softnet {
            core: after.core,
            processed: after.processed.wrapping_sub(before.processed),
            dropped: after.dropped.wrapping_sub(before.dropped),
            squeezed: after.squeezed.wrapping_sub(before.squeezed),
        }
    };
    after.iter().map(rise).collect()
}

/// The increase of counters since a given time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SoftnetRise {
    pub processed: u64,
    pub dropped: u64,
    pub squeezed: u64,
}

/// The increase of the counters of each core since a given time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoftnetRises(BTreeMap<usize, SoftnetRise>);

impl SoftnetRises {
    /// The sum of some cores, or of all.
    pub fn of(&self, cores: Option<&BTreeSet<usize>>) -> SoftnetRise {
        let wanted = self.0.iter().filter(|(core, _)| cores.is_none_or(|cores| cores.contains(core)));
        wanted.fold(SoftnetRise::default(), |sum, (_, rise)| SoftnetRise {
            processed: sum.processed + rise.processed,
            dropped: sum.dropped + rise.dropped,
            squeezed: sum.squeezed + rise.squeezed,
        })
    }
}

impl FromIterator<(usize, SoftnetRise)> for SoftnetRises {
    fn from_iter<T: IntoIterator<Item = (usize, SoftnetRise)>>(rises: T) -> Self {
        Self(rises.into_iter().collect())
    }
}

/// Adds up the work of the network softirq on each core, from [`SoftnetMeter::open`] on.
#[derive(Debug)]
pub struct SoftnetMeter {
    last: Vec<Softnet>,
    rises: SoftnetRises,
}

impl SoftnetMeter {
    /// Starts at the current counters.
    ///
    /// # Errors
    /// `/proc/net/softnet_stat` cannot be read.
    pub fn open() -> Result<Self> {
        Ok(Self { last: read(Path::new("/"))?, rises: SoftnetRises::default() })
    }

    /// The increase since the start. A counter has 32 bits: read it before `processed` can wrap twice (minutes).
    ///
    /// # Errors
    /// `/proc/net/softnet_stat` cannot be read.
    pub fn read(&mut self) -> Result<&SoftnetRises> {
        let now = read(Path::new("/"))?;
        self.add(now);
        Ok(&self.rises)
    }

    fn add(&mut self, now: Vec<Softnet>) {
        for core in rises(&self.last, &now) {
            let rise = self.rises.0.entry(core.core).or_default();
            rise.processed += u64::from(core.processed);
            rise.dropped += u64::from(core.dropped);
            rise.squeezed += u64::from(core.squeezed);
        }
        // A core that is offline meanwhile keeps its counters.
        self.last.retain(|last| now.iter().all(|core| core.core != last.core));
        self.last.extend(now);
    }
}

fn core(at: usize, line: &str) -> Option<Softnet> {
    let words: Vec<_> =
        line.split_whitespace().map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
    let [processed, dropped, squeezed, ..] = words[..] else { return None };
    // Since Linux 5.10 a line has the core's number; before, there was one line for each core.
    let core = words.get(12).map_or(at, |core| *core as usize);
    Some(Softnet { core, processed, dropped, squeezed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_summed_across_the_wrap() {
        let core = |core, processed, dropped| Softnet { core, processed, dropped, squeezed: dropped };
        let last = vec![core(0, 10, u32::MAX - 1), core(1, 11, 7)];
        let mut meter = SoftnetMeter { last, rises: SoftnetRises::default() };
        meter.add(vec![core(0, 110, 3), core(1, 11, 10)]);
        assert_eq!(meter.rises.of(None), SoftnetRise { processed: 100, dropped: 5 + 3, squeezed: 5 + 3 });
        meter.add(vec![core(1, 12, 10), core(2, 5, 1)]);
        assert_eq!(meter.rises.of(None), SoftnetRise { processed: 106, dropped: 9, squeezed: 9 });
        // Core 0 was offline.
        meter.add(vec![core(0, 111, 3)]);
        assert_eq!(meter.rises.of(None).processed, 107);
        // Core 1 alone.
        let one = SoftnetRise { processed: 1, dropped: 3, squeezed: 3 };
        assert_eq!(meter.rises.of(Some(&[1].into())), one);
        assert!(!read(Path::new("/")).expect("every Linux has it").is_empty());
        SoftnetMeter::open().expect("every Linux has it").read().expect("every Linux has it");
    }

    #[test]
    fn lines_old_and_new_are_read() {
        let new = "0dac8aeb 00000007 0000001a 0 0 0 0 0 0 0 0 0 00000003 00000000 00000000";
        let expected = Softnet { core: 3, processed: 0x0dac_8aeb, dropped: 7, squeezed: 26 };
        assert_eq!(core(0, new), Some(expected));
        let old = "0dac8aeb 00000007 0000001a 0 0 0 0 0 0 0";
        assert_eq!(core(1, old).map(|core| core.core), Some(1));
        assert_eq!(core(0, "0dac8aeb xyz"), None);
    }
}
