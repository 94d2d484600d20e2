//! Sizes that a network card can be told: its receive ring, its channels, how long it waits before it
//! interrupts, and which of its queues gets what (linux/ethtool.h).

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

/// Words of `struct ethtool_ringparam`, with the command.
const RING_WORDS: usize = 9;
/// Words of `struct ethtool_channels`, with the command.
const CHANNELS_WORDS: usize = 9;
/// Words of `struct ethtool_coalesce`, with the command.
const COALESCE_WORDS: usize = 23;
/// A larger table than any card has.
const RSS_MAX: usize = 1 << 16;

/// How many queues a card receives with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channels {
    /// Now: those that only receive, and those that also send.
    pub receiving: u32,
    /// At most.
    pub receiving_max: u32,
    /// They also send, so that their number is that of `combined`.
    pub is_combined: bool,
}

/// When a card interrupts for what it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalescing {
    /// So long after the first frame, µs.
    pub rx_usecs: u32,
    /// After so many frames; 0 where it does not count them.
    pub rx_frames: u32,
    /// It chooses both by itself.
    pub is_adaptive: bool,
}

impl Ethtool {
    /// Has the receive ring hold `frames`. Many drivers take the link down for a moment.
    pub fn set_rx_ring(&self, frames: u32) -> Result<()> {
        let mut words = [0; RING_WORDS];
        self.ask(ETHTOOL_GRINGPARAM, "the size of the receive ring", &mut words)?;
        words[5] = frames;
        self.ask(ETHTOOL_SRINGPARAM, &format!("receive into a ring of {frames} frames"), &mut words)
    }

    /// How many queues it receives with; `None` where the driver has none to tell of.
    pub fn channels(&self) -> Result<Option<Channels>> {
        let mut words = [0; CHANNELS_WORDS];
        if !self.ask_if_known(ETHTOOL_GCHANNELS, "its channels", &mut words)? {
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

    /// Has it receive with `count` queues. Many drivers take the link down for a moment.
    pub fn set_channels(&self, count: u32) -> Result<()> {
        let mut words = [0; CHANNELS_WORDS];
        self.ask(ETHTOOL_GCHANNELS, "its channels", &mut words)?;
        let is_combined = words[4] > 0;
        words[if is_combined { 8 } else { 5 }] = count;
        self.ask(ETHTOOL_SCHANNELS, &format!("receive with {count} channels"), &mut words)
    }

    /// When it interrupts; `None` where the driver does not say.
    pub fn coalescing(&self) -> Result<Option<Coalescing>> {
        let mut words = [0; COALESCE_WORDS];
        let known = self.ask_if_known(ETHTOOL_GCOALESCE, "when it interrupts", &mut words)?;
        let found = Coalescing { rx_usecs: words[1], rx_frames: words[2], is_adaptive: words[10] != 0 };
        Ok(known.then_some(found))
    }

    /// Has it interrupt `usecs` µs after the first frame, or choose by itself.
    pub fn set_coalescing(&self, usecs: u32, adaptive: bool) -> Result<()> {
        let mut words = [0; COALESCE_WORDS];
        self.ask(ETHTOOL_GCOALESCE, "when it interrupts", &mut words)?;
        (words[1], words[10]) = (usecs, adaptive.into());
        self.ask(ETHTOOL_SCOALESCE, &format!("interrupt after {usecs} µs"), &mut words)
    }

    /// Which queue each entry of the RSS table leads to; `None` where there is no table.
    pub fn rss_table(&self) -> Result<Option<Vec<u32>>> {
        let what = "its RSS table";
        let mut size = [0; 2];
        if !self.ask_if_known(ETHTOOL_GRXFHINDIR, what, &mut size)? || size[1] == 0 {
            return Ok(None);
        }
        let entries = size[1] as usize;
        if entries > RSS_MAX {
            let errno = io::Error::from_raw_os_error(libc::E2BIG);
            return Err(Error::new(format!("ask the driver of {} ({what})", self.name), errno));
        }
        let mut words = vec![0; 2 + entries];
        words[1] = size[1];
        self.ask(ETHTOOL_GRXFHINDIR, what, &mut words)?;
        Ok(Some(words.split_off(2)))
    }

    /// Sets the RSS table, which has to be as long as it is.
    pub fn set_rss_table(&self, table: &[u32]) -> Result<()> {
        let mut words = vec![0, table.len() as u32];
        words.extend(table);
        self.ask(ETHTOOL_SRXFHINDIR, "set its RSS table", &mut words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_none_of_it() {
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
