//! Offloads by name, which the kernel calls features (Documentation/networking/netdev-features.rst).
//!
//! The names are read from the kernel; a name that it does not have is not in the result.

use super::request::ask;
use super::strings::{StringSet, names};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io;

/// One feature of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    pub is_on: bool,
    /// The driver does not permit a change.
    pub is_fixed: bool,
}

const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
/// `ETH_SS_FEATURES`, in the order of their bits; Linux 6.18 has fewer than 64.
const FEATURES: StringSet = StringSet { number: 4, what: "features", most: 1024 };

/// Reads all features of interface `name`.
pub(super) fn read(name: &str) -> Result<BTreeMap<String, Feature>> {
    let names = names(name, FEATURES)?;
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
    let names = names(name, FEATURES)?;
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
