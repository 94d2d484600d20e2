//! Settings of network interfaces by SIOCETHTOOL (linux/ethtool.h): driver, rings, channels, offloads, clocks.
//!
//! An [`Ethtool`] refers to the network namespace in which it was opened.

pub mod features;
mod settings;

pub use settings::{Channels, Coalescing};

use crate::rtnl::NAME_BYTES_MAX;
use crate::{Error, Result, Try};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_SRXCSUM: u32 = 0x15;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_STXCSUM: u32 = 0x17;
const ETHTOOL_STSO: u32 = 0x1f;
const ETHTOOL_SGSO: u32 = 0x24;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `ETH_FLAG_LRO`, in the result of `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;
/// `HWTSTAMP_FILTER_ALL` (linux/net_tstamp.h).
const HWTSTAMP_FILTER_ALL: u32 = 1;
/// `SPEED_UNKNOWN`.
const SPEED_UNKNOWN: u32 = u32::MAX;
/// Words of the largest `struct ethtool_link_settings`: 12, and three masks of 127.
const LINK_SETTINGS_WORDS: usize = 12 + 3 * 127;

/// An interface, and a socket for requests about it.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    name: String,
}

/// The size of a card's receive ring, frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxRingSize {
    pub frames: u32,
    pub frames_max: u32,
}

/// The clocks that can stamp received frames (`struct ethtool_ts_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamping {
    /// The card stamps received frames by its own clock.
    pub hardware_rx: bool,
    /// The card can stamp every frame (`HWTSTAMP_FILTER_ALL`), not only PTP.
    pub hardware_rx_all: bool,
    /// The kernel stamps received frames.
    pub software_rx: bool,
    /// N of `/dev/ptpN`, the card's clock.
    pub phc_index: Option<u32>,
}

impl Ethtool {
    /// Opens a socket for interface `name` of the calling thread's network namespace. The interface need not exist.
    pub fn open(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::new(
                format!("open ethtool for the interface {name:?}"),
                io::Error::from_raw_os_error(libc::ENODEV),
            ));
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .trying(|| "open a socket for ethtool requests")?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// The driver's name, such as "ixgbe"; `None` where there is none, as for `lo`.
    pub fn driver(&self) -> Result<Option<String>> {
        let mut words = [0; 49];
        if !self.ask_if_known(ETHTOOL_GDRVINFO, "read the name", &mut words)? {
            return Ok(None);
        }
        let bytes: Vec<u8> =
            words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Returns whether the kernel merges received frames into larger ones (GRO).
    pub fn gro(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GGRO, "read GRO")?.unwrap_or(0) != 0)
    }

    /// Returns whether the card merges received frames into larger ones (LRO).
    pub fn lro(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GFLAGS, "read LRO")?.unwrap_or(0) & ETH_FLAG_LRO != 0)
    }

    /// Returns whether the card computes the checksums of sent frames; on a virtual link such frames arrive with
    /// wrong checksums.
    pub fn tx_checksum_offload(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GTXCSUM, "read transmit checksum offload")?.unwrap_or(0) != 0)
    }

    /// The link speed, Mb/s; `None` where the driver reports none or the link is down.
    pub fn speed_mbps(&self) -> Result<Option<u32>> {
        let mut words = [0; LINK_SETTINGS_WORDS];
        // The first reply has only the length of the masks, as a negative number.
        let tried = "read the link speed";
        for _ in 0..2 {
            if !self.ask_if_known(ETHTOOL_GLINKSETTINGS, tried, &mut words)? {
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

    /// The size of the receive ring; `None` where the driver does not report one.
    pub fn rx_ring(&self) -> Result<Option<RxRingSize>> {
        let mut words = [0; 9];
        let known = self.ask_if_known(ETHTOOL_GRINGPARAM, "read the size of the receive ring", &mut words)?;
        Ok((known && words[1] != 0).then_some(RxRingSize { frames: words[5], frames_max: words[1] }))
    }

    /// The clocks that can stamp received frames.
    pub fn timestamping(&self) -> Result<Timestamping> {
        let mut words = [0; 11];
        self.ask_if_known(ETHTOOL_GET_TS_INFO, "read the time stamping", &mut words)?;
        let so_timestamping = words[1];
        let hardware = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        Ok(Timestamping {
            hardware_rx: so_timestamping & hardware == hardware,
            hardware_rx_all: words[7] & (1 << HWTSTAMP_FILTER_ALL) != 0,
            software_rx: so_timestamping & libc::SOF_TIMESTAMPING_RX_SOFTWARE != 0,
            phc_index: u32::try_from(words[2] as i32).ok().filter(|_| so_timestamping != 0),
        })
    }

    /// Turns off the offloads by which frames on a veth differ from frames on a wire: segmentation (TSO, GSO),
    /// checksums, and merging (GRO). An offload that the driver does not have is not an error.
    pub fn turn_off_offloads(&self) -> Result<()> {
        for (command, what) in [
            (ETHTOOL_STSO, "turn off TSO"),
            (ETHTOOL_SGSO, "turn off GSO"),
            (ETHTOOL_STXCSUM, "turn off transmit checksum offload"),
            (ETHTOOL_SRXCSUM, "turn off receive checksum offload"),
            (ETHTOOL_SGRO, "turn off GRO"),
        ] {
            self.value(command, what)?;
        }
        Ok(())
    }

    /// Turns GRO on or off. A veth with GRO receives by NAPI as a network card does, and accepts frames that XDP
    /// programs redirect to it.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        self.ask(ETHTOOL_SGRO, if on { "turn on GRO" } else { "turn off GRO" }, &mut [0, on.into()])
    }

    /// Executes a command on `struct ethtool_value` with data 0; `None` where it is not supported.
    fn value(&self, command: u32, what: &str) -> Result<Option<u32>> {
        let mut words = [0; 2];
        Ok(self.ask_if_known(command, what, &mut words)?.then_some(words[1]))
    }

    fn ask_if_known(&self, command: u32, what: &str, words: &mut [u32]) -> Result<bool> {
        match self.ask(command, what, words) {
            Ok(()) => Ok(true),
            Err(error) if error.raw() == libc::EOPNOTSUPP => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Executes `command`. `words` is the whole structure of the command; this function sets its first word.
    fn ask(&self, command: u32, what: &str, words: &mut [u32]) -> Result<()> {
        words[0] = command;
        // SAFETY: ifreq is plain data; all zero is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: each caller in this module passes the whole structure of its command, so the kernel writes
        // within `words`, which outlives the call. The name is NUL-terminated: `open` limits its length.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
        if result < 0 {
            return Err(Error::last(format!("{what} of {} (ethtool)", self.name)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_software_time_stamps_only() {
        let lo = Ethtool::open("lo").expect("a socket");
        assert_eq!(lo.speed_mbps().expect("asked"), None);
        assert_eq!(lo.rx_ring().expect("asked"), None);
        lo.gro().expect("asked");
        assert!(!lo.lro().expect("asked"));
        let stamping = lo.timestamping().expect("asked");
        assert!(
            stamping.software_rx && !stamping.hardware_rx && stamping.phc_index.is_none(),
            "{stamping:?}"
        );
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        for name in ["", "nosuch0", "much-too-long-a-name"] {
            let asked = Ethtool::open(name).and_then(|it| it.gro());
            assert_eq!(asked.expect_err("no such interface").raw(), libc::ENODEV, "{name}");
        }
    }
}
