//! Settings of a network card: receive ring, channels, interrupt coalescing, RSS table (linux/ethtool.h).

use super::request::{ask, ask_if_known};
use crate::{Error, Result};
use std::io;

/// The size of a card's receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxRingSize {
    pub frames: u32,
    pub frames_max: u32,
}

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

const ETHTOOL_GRINGPARAM: u32 = 0x10;
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

pub(super) fn rx_ring(name: &str) -> Result<Option<RxRingSize>> {
    let mut words = [0; RING_WORDS];
    let known = ask_if_known(name, ETHTOOL_GRINGPARAM, "read the size of the receive ring", &mut words)?;
    Ok((known && words[1] != 0).then_some(RxRingSize { frames: words[5], frames_max: words[1] }))
}

pub(super) fn set_rx_ring(name: &str, frames: u32) -> Result<()> {
    let mut words = [0; RING_WORDS];
    ask(name, ETHTOOL_GRINGPARAM, "read the size of the receive ring", &mut words)?;
    words[5] = frames;
    ask(name, ETHTOOL_SRINGPARAM, &format!("set a receive ring of {frames} frames"), &mut words)
}

pub(super) fn channels(name: &str) -> Result<Option<Channels>> {
    let mut words = [0; CHANNELS_WORDS];
    if !ask_if_known(name, ETHTOOL_GCHANNELS, "read the channels", &mut words)? {
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

pub(super) fn set_channels(name: &str, count: u32) -> Result<()> {
    let mut words = [0; CHANNELS_WORDS];
    ask(name, ETHTOOL_GCHANNELS, "read the channels", &mut words)?;
    let is_combined = words[4] > 0;
    words[if is_combined { 8 } else { 5 }] = count;
    ask(name, ETHTOOL_SCHANNELS, &format!("set {count} channels"), &mut words)
}

pub(super) fn coalescing(name: &str) -> Result<Option<Coalescing>> {
    let mut words = [0; COALESCE_WORDS];
    let known = ask_if_known(name, ETHTOOL_GCOALESCE, "read the interrupt coalescing", &mut words)?;
    let found = Coalescing { rx_usecs: words[1], rx_frames: words[2], is_adaptive: words[10] != 0 };
    Ok(known.then_some(found))
}

/// Sets the delay of interrupts, or makes the card adapt it.
pub(super) fn set_coalescing(name: &str, usecs: u32, adaptive: bool) -> Result<()> {
    let mut words = [0; COALESCE_WORDS];
    ask(name, ETHTOOL_GCOALESCE, "read the interrupt coalescing", &mut words)?;
    (words[1], words[10]) = (usecs, adaptive.into());
    ask(name, ETHTOOL_SCOALESCE, &format!("set an interrupt delay of {usecs} µs"), &mut words)
}

pub(super) fn rss_table(name: &str) -> Result<Option<Vec<u32>>> {
    let what = "read the RSS table";
    let mut size = [0; 2];
    if !ask_if_known(name, ETHTOOL_GRXFHINDIR, what, &mut size)? || size[1] == 0 {
        return Ok(None);
    }
    let entries = size[1] as usize;
    if entries > RSS_MAX {
        let errno = io::Error::from_raw_os_error(libc::E2BIG);
        return Err(Error::new(format!("{what} of {name} (ethtool)"), errno));
    }
    let mut words = vec![0; 2 + entries];
    words[1] = size[1];
    ask(name, ETHTOOL_GRXFHINDIR, what, &mut words)?;
    Ok(Some(words.split_off(2)))
}

pub(super) fn set_rss_table(name: &str, table: &[u32]) -> Result<()> {
    let mut words = vec![0, table.len() as u32];
    words.extend(table);
    ask(name, ETHTOOL_SRXFHINDIR, "set the RSS table", &mut words)
}
