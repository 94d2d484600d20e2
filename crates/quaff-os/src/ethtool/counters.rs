//! The counters of a driver, which `ethtool -S` prints.

use super::request::ask;
use super::strings::{StringSet, names};
use crate::Result;

const ETHTOOL_GSTATS: u32 = 0x1d;
/// `ETH_SS_STATS`. A card of 128 queues has about 10,000 counters.
const COUNTERS: StringSet = StringSet { number: 1, what: "counters", most: 1 << 16 };

/// Reads all counters of interface `name`, in the driver's order; a name may occur more than once (vmxnet3 has the same
/// names for each queue). None where the driver has no counters.
pub(crate) fn read(name: &str) -> Result<Vec<(String, u64)>> {
    let names = names(name, COUNTERS)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    // `struct ethtool_stats`, with room for the largest number: the kernel writes as many as it has.
    let mut words = vec![0; 2 + 2 * COUNTERS.most];
    words[1] = names.len() as u32;
    ask(name, ETHTOOL_GSTATS, "read the counters", &mut words)?;
    // If the driver has just added or removed queues, names and values do not belong together.
    if words[1] as usize != names.len() {
        return Ok(Vec::new());
    }
    let values = words[2..].chunks_exact(2).map(|pair| {
        let ([a, b, c, d], [e, f, g, h]) = (pair[0].to_ne_bytes(), pair[1].to_ne_bytes());
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    });
    Ok(names.into_iter().map(|name| name.trim().to_owned()).zip(values).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_counters() {
        assert!(read("lo").expect("lo").is_empty());
        assert_eq!(read("nosuch0").expect_err("no such interface").raw(), libc::ENODEV);
    }
}
