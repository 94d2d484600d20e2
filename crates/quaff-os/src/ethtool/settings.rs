//! Settings of a network card: receive ring, channels, interrupt coalescing, RSS table (linux/ethtool.h).

use super::{ETHTOOL_GRINGPARAM, Ethtool};
use crate::{Error, Result};
use std::io;

const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_SCOALESCE: u32 = 0x0f;
const ETHTOOL_SRINGPARAM: u32 = 0x11;
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_SRXFHINDIR: u32 = 0x39;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;

/// Words of `struct ethtool_ringparam`.
const RING_WORDS: usize = 9;
/// Words of `struct ethtool_channels`.
const CHANNELS_WORDS: usize = 9;
/// Words of `struct ethtool_coalesce`.
const COALESCE_WORDS: usize = 23;
/// Limit on the entries of an RSS table.
const RSS_MAX: usize = 1 << 16;

/// The receive queues of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Receive-only and combined channels in use.
    pub receiving: u32,
    pub receiving_max: u32,
    /// The channels also send: their number is `combined` of ethtool(8).
    pub is_combined: bool,
}

/// Interrupt coalescing of received frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// Delay of the interrupt after the first frame, µs.
    pub rx_usecs: u32,
    /// Frames that trigger the interrupt; 0 if it depends on time only.
    pub rx_frames: u32,
    /// The card adapts both.
    pub is_adaptive: bool,
}

impl Ethtool {
    /// Sets the size of the receive ring. Many drivers take the link down briefly.
    pub fn set_rx_ring(&self, frames: u32) -> Result<()> {
        let mut words = [0; RING_WORDS];
        self.ask(ETHTOOL_GRINGPARAM, "read the size of the receive ring", &mut words)?;
        words[5] = frames;
        self.ask(ETHTOOL_SRINGPARAM, &format!("set a receive ring of {frames} frames"), &mut words)
    }

    /// The receive queues; `None` where the driver does not report them.
    pub fn channels(&self) -> Result<Option<Channels>> {
        let mut words = [0; CHANNELS_WORDS];
        if !self.ask_if_known(ETHTOOL_GCHANNELS, "read the channels", &mut words)? {
            return Ok(None);
        }
        let [_, rx_max, _, _, combined_max, rx, _, _, combined] = words;
        let channels = Channels {
            receiving: rx + combined,
            receiving_max: rx_max.max(combined_max),
            is_combined: combined_max > 0,
        };
        Ok((channels.receiving_max > 0).then_some(channels))
    }

    /// Sets the number of receive queues. Many drivers take the link down briefly.
    pub fn set_channels(&self, count: u32) -> Result<()> {
        let mut words = [0; CHANNELS_WORDS];
        self.ask(ETHTOOL_GCHANNELS, "read the channels", &mut words)?;
        let is_combined = words[4] > 0;
        words[if is_combined { 8 } else { 5 }] = count;
        self.ask(ETHTOOL_SCHANNELS, &format!("set {count} channels"), &mut words)
    }

    /// The interrupt coalescing; `None` where the driver does not report it.
    pub fn coalescing(&self) -> Result<Option<Coalescing>> {
        let mut words = [0; COALESCE_WORDS];
        let known = self.ask_if_known(ETHTOOL_GCOALESCE, "read the interrupt coalescing", &mut words)?;
        let found = Coalescing { rx_usecs: words[1], rx_frames: words[2], is_adaptive: words[10] != 0 };
        Ok(known.then_some(found))
    }

    /// Sets the delay of interrupts, or makes the card adapt it.
    pub fn set_coalescing(&self, usecs: u32, adaptive: bool) -> Result<()> {
        let mut words = [0; COALESCE_WORDS];
        self.ask(ETHTOOL_GCOALESCE, "read the interrupt coalescing", &mut words)?;
        (words[1], words[10]) = (usecs, adaptive.into());
        self.ask(ETHTOOL_SCOALESCE, &format!("set an interrupt delay of {usecs} µs"), &mut words)
    }

    /// The queue of each entry of the RSS table; `None` where there is no table.
    pub fn rss_table(&self) -> Result<Option<Vec<u32>>> {
        let what = "read the RSS table";
        let mut size = [0; 2];
        if !self.ask_if_known(ETHTOOL_GRXFHINDIR, what, &mut size)? || size[1] == 0 {
            return Ok(None);
        }
        let entries = size[1] as usize;
        if entries > RSS_MAX {
            let errno = io::Error::from_raw_os_error(libc::E2BIG);
            return Err(Error::new(format!("{what} of {} (ethtool)", self.name), errno));
        }
        let mut words = vec![0; 2 + entries];
        words[1] = size[1];
        self.ask(ETHTOOL_GRXFHINDIR, what, &mut words)?;
        Ok(Some(words.split_off(2)))
    }

    /// Sets the RSS table, whose length cannot change.
    pub fn set_rss_table(&self, table: &[u32]) -> Result<()> {
        let mut words = vec![0, table.len() as u32];
        words.extend(table);
        self.ask(ETHTOOL_SRXFHINDIR, "set the RSS table", &mut words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_such_settings() {
        let lo = Ethtool::open("lo").expect("a socket");
        assert_eq!(lo.channels().expect("asked"), None);
        assert_eq!(lo.coalescing().expect("asked"), None);
        assert_eq!(lo.rss_table().expect("asked"), None);
        for refused in [lo.set_rx_ring(64), lo.set_channels(1), lo.set_coalescing(3, false)] {
            let error = refused.expect_err("there is none");
            assert!(matches!(error.raw(), libc::EOPNOTSUPP | libc::EPERM), "{error}");
        }
    }
}
