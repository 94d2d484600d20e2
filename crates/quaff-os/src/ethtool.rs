//! Settings of network interfaces by SIOCETHTOOL (linux/ethtool.h): driver, rings, channels, offloads, clocks.
//!
//! Names refer to the calling thread's network namespace. This module never judges a setting.

pub(crate) mod counters;
mod features;
mod request;
mod settings;
mod strings;

pub use features::Feature;
pub use settings::{Channels, Coalescing, RxRingSize};

use crate::Result;
use request::{ask, ask_if_known, text};
use std::collections::BTreeMap;

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_SRXCSUM: u32 = 0x15;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

/// `HWTSTAMP_FILTER_ALL` (linux/net_tstamp.h).
const HWTSTAMP_FILTER_ALL: u32 = 1;
const SPEED_UNKNOWN: u32 = u32::MAX;
/// Words of the largest `struct ethtool_link_settings`: 12, and three masks of 127.
const LINK_SETTINGS_WORDS: usize = 12 + 3 * 127;

/// The settings of an interface; `None` where its driver does not report one.
#[derive(Debug)]
pub struct Card {
    /// The driver's name, such as "ixgbe".
    pub driver: Result<Option<String>>,
    /// `None` also while the link is down.
    pub speed_mbps: Result<Option<u32>>,
    pub rx_ring: Result<Option<RxRingSize>>,
    pub channels: Result<Option<Channels>>,
    pub coalescing: Result<Option<Coalescing>>,
    /// The queue of each entry of the RSS table.
    pub rss_table: Result<Option<Vec<u32>>>,
    /// Offloads by the kernel's names, such as "rx-gro" (Documentation/networking/netdev-features.rst).
    pub features: Result<BTreeMap<String, Feature>>,
    /// The card stamps every received frame by its own clock (`HWTSTAMP_FILTER_ALL`), not only PTP.
    pub stamps_all_frames: Result<bool>,
}

/// A change of one setting. For `RxRing` and `Channels` many drivers take the link down briefly.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// Frames in the receive ring.
    RxRing(u32),
    /// Number of receive queues.
    Channels(u32),
    Coalescing {
        rx_usecs: u32,
        is_adaptive: bool,
    },
    /// The RSS table, whose length cannot change.
    RssTable(&'a [u32]),
    /// A feature by name, on or off. `EOPNOTSUPP` where the driver does not change it. A veth with "rx-gro" receives by
    /// NAPI as a network card does, and accepts frames that XDP programs redirect to it.
    Feature(&'a str, bool),
    /// Turns off the offloads by which frames on a veth differ from frames on a wire: segmentation (TSO, GSO),
    /// checksums, and merging (GRO). An offload that the driver does not have is not an error.
    OffloadsOff,
}

/// The number of receive queues in use; `None` where the driver does not report it.
pub fn receive_queues(name: &str) -> Option<usize> {
    settings::channels(name).ok().flatten().map(|channels| channels.receiving as usize)
}

impl Card {
    /// Reads the settings of interface `name`.
    pub fn read(name: &str) -> Self {
        Self {
            driver: driver(name),
            speed_mbps: speed_mbps(name),
            rx_ring: settings::rx_ring(name),
            channels: settings::channels(name),
            coalescing: settings::coalescing(name),
            rss_table: settings::rss_table(name),
            features: features::read(name),
            stamps_all_frames: stamps_all_frames(name),
        }
    }

    /// Changes a setting of interface `name`.
    pub fn change(name: &str, change: Change<'_>) -> Result<()> {
        match change {
            Change::RxRing(frames) => settings::set_rx_ring(name, frames),
            Change::Channels(count) => settings::set_channels(name, count),
            Change::Coalescing { rx_usecs, is_adaptive } => {
                settings::set_coalescing(name, rx_usecs, is_adaptive)
            }
            Change::RssTable(table) => settings::set_rss_table(name, table),
            Change::Feature(feature, on) => features::set(name, feature, on),
            Change::OffloadsOff => turn_off_offloads(name),
        }
    }
}

/// The name of the driver; `None` for an interface without one, such as `lo`.
pub(crate) fn driver(name: &str) -> Result<Option<String>> {
    let mut words = [0; 49];
    let is_known = ask_if_known(name, ETHTOOL_GDRVINFO, "read the name", &mut words)?;
    Ok(is_known.then(|| text(&words[1..9])))
}

/// Returns whether interface `name` is up and has a carrier, at this moment: `IFF_RUNNING` of a link may follow a
/// second later (net/core/link_watch.c).
pub fn has_carrier(name: &str) -> Result<bool> {
    // `struct ethtool_value`.
    let mut words = [0; 2];
    ask(name, ETHTOOL_GLINK, "read the link state", &mut words)?;
    Ok(words[1] != 0)
}

fn speed_mbps(name: &str) -> Result<Option<u32>> {
    let mut words = [0; LINK_SETTINGS_WORDS];
    // The first reply has only the length of the masks, as a negative number.
    for _ in 0..2 {
        if !ask_if_known(name, ETHTOOL_GLINKSETTINGS, "read the link speed", &mut words)? {
            return Ok(None);
        }
        let mut packed = words[3].to_ne_bytes();
        let mask_words = packed[3] as i8;
        if mask_words >= 0 {
            break;
        }
        packed[3] = mask_words.unsigned_abs();
        words[3] = u32::from_ne_bytes(packed);
    }
    Ok(Some(words[1]).filter(|&speed| speed != 0 && speed != SPEED_UNKNOWN))
}

/// From `struct ethtool_ts_info`.
fn stamps_all_frames(name: &str) -> Result<bool> {
    let mut words = [0; 11];
    ask_if_known(name, ETHTOOL_GET_TS_INFO, "read the time stamping", &mut words)?;
    Ok(words[7] & (1 << HWTSTAMP_FILTER_ALL) != 0)
}

fn turn_off_offloads(name: &str) -> Result<()> {
    for (command, what) in [
        (ETHTOOL_STSO, "turn off TSO"),
        (ETHTOOL_SGSO, "turn off GSO"),
        (ETHTOOL_STXCSUM, "turn off transmit checksum offload"),
        (ETHTOOL_SRXCSUM, "turn off receive checksum offload"),
        (ETHTOOL_SGRO, "turn off GRO"),
    ] {
        // `struct ethtool_value` with data 0.
        ask_if_known(name, command, what, &mut [0; 2])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_and_no_hardware() {
        let lo = Card::read("lo");
        assert_eq!((lo.driver.unwrap(), lo.speed_mbps.unwrap()), (None, None));
        assert_eq!((lo.rx_ring.unwrap(), lo.channels.unwrap()), (None, None));
        assert_eq!((lo.coalescing.unwrap(), lo.rss_table.unwrap()), (None, None));
        assert!(!lo.stamps_all_frames.unwrap());
        let features = lo.features.unwrap();
        assert!(!features["rx-gro"].is_fixed, "GRO is the kernel's own");
        assert_eq!(features["rx-lro"], Feature { is_on: false, is_fixed: true });
    }

    #[test]
    fn a_setting_that_cannot_be_changed_is_an_error() {
        for change in [
            Change::Feature("no-such-feature", true),
            Change::Feature("rx-lro", true),
            Change::RxRing(64),
            Change::Channels(1),
            Change::Coalescing { rx_usecs: 3, is_adaptive: false },
        ] {
            let refused = Card::change("lo", change).expect_err("refused");
            assert!(matches!(refused.raw(), libc::EOPNOTSUPP | libc::EPERM), "{refused}");
        }
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        for name in ["", "nosuch0", "much-too-long-a-name"] {
            let features = Card::read(name).features;
            assert_eq!(features.expect_err("no such interface").raw(), libc::ENODEV, "{name}");
        }
    }
}
