//! What the kernel dropped in front of its stack (`net.core.netdev_max_backlog`), of all interfaces of the machine: a
//! frame that arrived and that no meter ever saw.

const PATH: &str = "/proc/net/softnet_stat";

/// The second number of each core's line; where the kernel does not say, none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Softnet(Vec<u32>);

impl Softnet {
    /// As it is now.
    pub(super) fn read() -> Self {
        Self::of(&std::fs::read_to_string(PATH).unwrap_or_default())
    }

    /// The kernel prints 32 bits of each number, in hex; the second is `dropped` (softnet_seq_show, net/core).
    fn of(text: &str) -> Self {
        let dropped = |line: &str| u32::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
        Self(text.lines().filter_map(dropped).collect())
    }

    /// Packets since then.
    pub(super) fn dropped_since(&self, before: &Self) -> u64 {
        self.0.iter().zip(&before.0).map(|(now, before)| u64::from(now.wrapping_sub(*before))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_cores_are_counted_across_the_wrap() {
        let before = Softnet::of("0000000a fffffffe 00000000\n0000000b 00000007 00000000\n");
        let after = Softnet::of("0000100a 00000003 00000000\n0000100b 0000000a 00000000\n");
        assert_eq!(after.dropped_since(&before), 5 + 3);
        assert_eq!(Softnet::of("nothing\n").dropped_since(&before), 0);
        assert!(!Softnet::read().0.is_empty(), "this kernel says it");
    }
}
