//! What the network softirq has done on each core (`softnet_seq_show`, net/core/net-procfs.c).

use super::text;
use crate::Result;
use std::path::Path;

/// One core's counters since the machine was started; they wrap at 2^32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// The core.
    pub core: usize,
    /// Frames that went through.
    pub processed: u32,
    /// Frames for which its backlog (`netdev_max_backlog`) had no room.
    pub dropped: u32,
    /// How often it had to stop with frames left, for want of time (`netdev_budget`).
    pub squeezed: u32,
}

/// All cores on line, by number, as `root` shows them.
pub fn softnet(root: &Path) -> Result<Vec<Softnet>> {
    let text = text(&root.join("proc/net/softnet_stat"))?;
    Ok(text.lines().enumerate().filter_map(|(at, line)| core(at, line)).collect())
}

fn core(at: usize, line: &str) -> Option<Softnet> {
    let words: Vec<_> =
        line.split_whitespace().map_while(|word| u32::from_str_radix(word, 16).ok()).collect();
    let [processed, dropped, squeezed, ..] = words[..] else { return None };
    // Lines are numbered since Linux 5.10; before it there was one for each core.
    let core = words.get(12).map_or(at, |core| *core as usize);
    Some(Softnet { core, processed, dropped, squeezed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_old_and_new_are_read() {
        let new = "0dac8aeb 00000007 0000001a 0 0 0 0 0 0 0 0 0 00000003 00000000 00000000";
        let told = Softnet { core: 3, processed: 0x0dac_8aeb, dropped: 7, squeezed: 26 };
        assert_eq!(core(0, new), Some(told));
        let old = "0dac8aeb 00000007 0000001a 0 0 0 0 0 0 0";
        assert_eq!(core(1, old).map(|core| core.core), Some(1));
        assert_eq!(core(0, "0dac8aeb xyz"), None);
    }
}
