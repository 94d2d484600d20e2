//! Offloads by name, which the kernel calls features (Documentation/networking/netdev-features.rst).
//!
//! The names are read from the kernel; a name that it does not have is not in the result.

use super::{Feature, ask, text};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`: the string set of feature names.
const ETH_SS_FEATURES: u32 = 4;
/// `ETH_GSTRING_LEN` bytes, in words.
const NAME_WORDS: usize = 8;
/// Limit on the number of features; Linux 6.18 has fewer than 64.
const FEATURES_MAX: usize = 1024;

/// Reads all features of interface `name`.
pub(super) fn read(name: &str) -> Result<BTreeMap<String, Feature>> {
    let names = names(name)?;
    let mut words = vec![0; 2 + 4 * names.len().div_ceil(32)];
    words[1] = names.len().div_ceil(32) as u32;
    ask(name, ETHTOOL_GFEATURES, "read the features", &mut words)?;
    let feature = |at: usize| {
        // `struct ethtool_get_features_block`: available, requested, active, never changed.
        let block = &words[2 + at / 32 * 4..][..4];
        let has = |word: u32| word >> (at % 32) & 1 == 1;
        Feature { is_on: has(block[2]), is_fixed: !has(block[0]) || has(block[3]) }
    };
    Ok(names.into_iter().enumerate().map(|(at, name)| (name, feature(at))).collect())
}

/// Turns a feature on or off.
pub(super) fn set(name: &str, feature: &str, on: bool) -> Result<()> {
    let names = names(name)?;
    let what = format!("turn {} {feature}", if on { "on" } else { "off" });
    let refused = || {
        let errno = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        Error::new(format!("{what} of {name} (ethtool)"), errno)
    };
    let at = names.iter().position(|found| found == feature).ok_or_else(refused)?;
    let blocks = names.len().div_ceil(32);
    // `struct ethtool_sfeatures`: for each block a mask of valid bits, and their values.
    let mut words = vec![0; 2 + 2 * blocks];
    words[1] = blocks as u32;
    words[2 + at / 32 * 2] = 1 << (at % 32);
    words[3 + at / 32 * 2] = u32::from(on) << (at % 32);
    ask(name, ETHTOOL_SFEATURES, &what, &mut words)?;
    // The kernel reports success even if it changed only a part.
    let is_done = read(name)?.get(feature).is_some_and(|feature| feature.is_on == on);
    if is_done { Ok(()) } else { Err(refused()) }
}

/// The names of all features, in the order of their bits.
fn names(name: &str) -> Result<Vec<String>> {
    let mask = (1u64 << ETH_SS_FEATURES).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut words = [0, 0, half(0), half(4), 0];
    ask(name, ETHTOOL_GSSET_INFO, "read the number of features", &mut words)?;
    // The kernel writes as many names as it has, however large the structure is.
    let count = words[4] as usize;
    if count > FEATURES_MAX {
        let tried = format!("read {count} names of features of {name} (ethtool)");
        return Err(Error::new(tried, io::Error::from_raw_os_error(libc::E2BIG)));
    }
    // `struct ethtool_gstrings`, with room for the largest number of names.
    let mut words = vec![0; 3 + NAME_WORDS * FEATURES_MAX];
    words[1] = ETH_SS_FEATURES;
    ask(name, ETHTOOL_GSTRINGS, "read the names of the features", &mut words)?;
    Ok(words[3..].chunks_exact(NAME_WORDS).take(count).map(text).collect())
}
