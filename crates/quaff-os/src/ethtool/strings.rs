//! Sets of names: features, counters (`ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`, linux/ethtool.h).

use super::request::{ask, text};
use crate::{Error, Result};
use std::io;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
/// `ETH_GSTRING_LEN` bytes, in words.
const NAME_WORDS: usize = 8;

/// A set of names.
#[derive(Debug, Clone, Copy)]
pub(super) struct StringSet {
    /// `ETH_SS_*`.
    pub(super) number: u32,
    /// Its content in a message: "features".
    pub(super) what: &'static str,
    /// Limit on the number of names.
    pub(super) most: usize,
}

/// Reads the names of a set, in the kernel's order; none where the driver does not have the set.
///
/// # Errors
/// `E2BIG` for more names than the limit of the set.
pub(super) fn names(name: &str, set: StringSet) -> Result<Vec<String>> {
    let StringSet { number, what, most } = set;
    let mask = (1u64 << number).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut words = [0, 0, half(0), half(4), 0];
    ask(name, ETHTOOL_GSSET_INFO, &format!("read the number of {what}"), &mut words)?;
    let count = words[4] as usize;
    if count > most {
        let tried = format!("read {count} names of {what} of {name} (ethtool)");
        return Err(Error::new(tried, io::Error::from_raw_os_error(libc::E2BIG)));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    // `struct ethtool_gstrings`. The kernel writes as many names as it has, however large the structure is: there is
    // room for the largest number.
    let mut words = vec![0; 3 + NAME_WORDS * most];
    (words[1], words[2]) = (number, count as u32);
    ask(name, ETHTOOL_GSTRINGS, &format!("read the names of the {what}"), &mut words)?;
    Ok(words[3..].chunks_exact(NAME_WORDS).take(count).map(text).collect())
}
