//! Offloads by name, which the kernel calls features (Documentation/networking/netdev-features.rst).
//!
//! The names are read from the kernel; a name that it does not have is `None`.

use super::Ethtool;
use crate::{Error, Result};
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

/// The kernel merges received frames (GRO).
pub const GRO: &str = "rx-gro";
/// The card merges received frames as GRO does (GRO_HW).
pub const GRO_HW: &str = "rx-gro-hw";
/// The card merges received frames irreversibly (LRO).
pub const LRO: &str = "rx-lro";
/// The card removes VLAN tags from received frames and passes them as metadata.
pub const VLAN_RX: &str = "rx-vlan-hw-parse";
/// The card drops frames of unknown VLANs unless it is promiscuous.
pub const VLAN_FILTER: &str = "rx-vlan-filter";

/// One feature of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    pub is_on: bool,
    /// The driver does not permit a change.
    pub is_fixed: bool,
}

/// All features of an interface at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    names: Vec<String>,
    /// `struct ethtool_get_features_block`: available, requested, active, never changed.
    blocks: Vec<[u32; 4]>,
}

impl Features {
    /// Given features, for tests of the callers.
    pub fn of(features: &[(&str, Feature)]) -> Self {
        let mut blocks = vec![[0; 4]; features.len().div_ceil(32)];
        for (at, (_, feature)) in features.iter().enumerate() {
            let bit = |is_set: bool| u32::from(is_set) << (at % 32);
            let block = &mut blocks[at / 32];
            block[0] |= bit(true);
            block[2] |= bit(feature.is_on);
            block[3] |= bit(feature.is_fixed);
        }
        Self { names: features.iter().map(|(name, _)| (*name).to_owned()).collect(), blocks }
    }

    /// The feature of that name; `None` where the kernel does not have it.
    pub fn get(&self, name: &str) -> Option<Feature> {
        let (block, bit) = self.place(name)?;
        let [available, _, active, never_changed] = *self.blocks.get(block)?;
        Some(Feature { is_on: active & bit != 0, is_fixed: available & bit == 0 || never_changed & bit != 0 })
    }

    fn place(&self, name: &str) -> Option<(usize, u32)> {
        let at = self.names.iter().position(|found| found == name)?;
        Some((at / 32, 1 << (at % 32)))
    }
}

impl Ethtool {
    /// Reads all features.
    pub fn features(&self) -> Result<Features> {
        let names = self.feature_names()?;
        let mut words = vec![0; 2 + 4 * names.len().div_ceil(32)];
        words[1] = names.len().div_ceil(32) as u32;
        self.ask(ETHTOOL_GFEATURES, "read the features", &mut words)?;
        let blocks = words[2..].chunks_exact(4).map(|block| [block[0], block[1], block[2], block[3]]);
        Ok(Features { names, blocks: blocks.collect() })
    }

    /// Turns a feature on or off.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for an unknown name, and where the driver does not change it.
    pub fn set_feature(&self, name: &str, on: bool) -> Result<()> {
        let features = self.features()?;
        let what = format!("turn {} {name}", if on { "on" } else { "off" });
        let refused = || {
            let errno = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            Error::new(format!("{what} of {} (ethtool)", self.name), errno)
        };
        let (block, bit) = features.place(name).ok_or_else(refused)?;
        // `struct ethtool_sfeatures`: for each block a mask of valid bits, and their values.
        let mut words = vec![0; 2 + 2 * features.blocks.len()];
        words[1] = features.blocks.len() as u32;
        words[2 + 2 * block] = bit;
        words[3 + 2 * block] = if on { bit } else { 0 };
        self.ask(ETHTOOL_SFEATURES, &what, &mut words)?;
        // The kernel reports success even if it changed only a part.
        let is_done = self.features()?.get(name).is_some_and(|feature| feature.is_on == on);
        if is_done { Ok(()) } else { Err(refused()) }
    }

    fn feature_names(&self) -> Result<Vec<String>> {
        let mask = (1u64 << ETH_SS_FEATURES).to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
        let mut words = [0, 0, half(0), half(4), 0];
        self.ask(ETHTOOL_GSSET_INFO, "read the number of features", &mut words)?;
        // The kernel writes as many names as it has, however large the structure is.
        let count = words[4] as usize;
        if count > FEATURES_MAX {
            let tried = format!("read {count} names of features of {} (ethtool)", self.name);
            return Err(Error::new(tried, io::Error::from_raw_os_error(libc::E2BIG)));
        }
        // `struct ethtool_gstrings`, with room for the largest number of names.
        let mut words = vec![0; 3 + NAME_WORDS * FEATURES_MAX];
        words[1] = ETH_SS_FEATURES;
        self.ask(ETHTOOL_GSTRINGS, "read the names of the features", &mut words)?;
        let name = |words: &[u32]| {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0);
            String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
        };
        Ok(words[3..].chunks_exact(NAME_WORDS).take(count).map(name).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_agree_with_the_older_commands() {
        let lo = Ethtool::open("lo").expect("a socket");
        let features = lo.features().expect("asked");
        let gro = features.get(GRO).expect("every kernel has it");
        assert_eq!(gro.is_on, lo.gro().expect("asked"));
        assert!(!gro.is_fixed, "GRO is the kernel's own");
        let lro = features.get(LRO).expect("every kernel has it");
        assert_eq!((lro.is_on, lro.is_fixed), (lo.lro().expect("asked"), true));
        assert_eq!(features.get("no-such-feature"), None);
    }

    #[test]
    fn a_feature_that_cannot_be_changed_is_an_error() {
        let lo = Ethtool::open("lo").expect("a socket");
        for name in ["no-such-feature", LRO] {
            let refused = lo.set_feature(name, true).expect_err("refused");
            assert!(matches!(refused.raw(), libc::EOPNOTSUPP | libc::EPERM), "{refused}");
        }
    }
}
