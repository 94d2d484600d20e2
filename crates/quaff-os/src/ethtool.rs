//! What a network card says of itself (linux/ethtool.h, by the ioctl SIOCETHTOOL), and the few
//! offloads that make frames on a veth pair differ from those on a wire.
//!
//! An [`Ethtool`] speaks for the network namespace in which it was opened.

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
/// `ETH_FLAG_LRO`, in the answer to `ETHTOOL_GFLAGS`.
const ETH_FLAG_LRO: u32 = 1 << 15;
/// `HWTSTAMP_FILTER_ALL` (linux/net_tstamp.h).
const HWTSTAMP_FILTER_ALL: u32 = 1;
/// `SPEED_UNKNOWN`.
const SPEED_UNKNOWN: u32 = u32::MAX;
/// Room for the largest `struct ethtool_link_settings`: 12 words, and three masks of 127.
const LINK_SETTINGS_WORDS: usize = 12 + 3 * 127;

/// An interface, and a socket to ask about it.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    name: String,
}

/// The frames that a card's receive ring holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxRing {
    /// Now.
    pub frames: u32,
    /// At most.
    pub frames_max: u32,
}

/// Which clocks can stamp received frames (`struct ethtool_ts_info`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamping {
    /// The card can stamp what it receives, by its own clock.
    pub hardware_rx: bool,
    /// It can do so for every frame (`HWTSTAMP_FILTER_ALL`), not only for PTP.
    pub hardware_rx_all: bool,
    /// The kernel stamps what it receives.
    pub software_rx: bool,
    /// N of `/dev/ptpN`, the card's clock.
    pub phc_index: Option<u32>,
}

impl Ethtool {
    /// Will ask about interface `name` of the calling thread's network namespace.
    pub fn open(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::new(
                format!("ask the driver of {name:?}"),
                io::Error::from_raw_os_error(libc::ENODEV),
            ));
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
            .trying(|| "open a socket for ethtool")?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// The driver's name: "veth", "ixgbe"; `None` where there is none, as for `lo`.
    pub fn driver(&self) -> Result<Option<String>> {
        let mut words = [0; 49];
        if !self.ask_if_known(ETHTOOL_GDRVINFO, "the driver's name", &mut words)? {
            return Ok(None);
        }
        let bytes: Vec<u8> =
            words[1..9].iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Whether received frames are put together into larger ones by the kernel (GRO).
    pub fn gro(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GGRO, "whether GRO is on")?.unwrap_or(0) != 0)
    }

    /// Whether received frames are put together into larger ones by the card (LRO).
    pub fn lro(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GFLAGS, "whether LRO is on")?.unwrap_or(0) & ETH_FLAG_LRO != 0)
    }

    /// Whether the checksums of sent frames are left to the card; on a virtual link, where there is
    /// none, such frames arrive with wrong checksums.
    pub fn tx_checksum_offload(&self) -> Result<bool> {
        Ok(self.value(ETHTOOL_GTXCSUM, "whether it makes checksums")?.unwrap_or(0) != 0)
    }

    /// The link's speed in Mb/s; `None` where the driver knows none, or the link is down.
    pub fn speed_mbps(&self) -> Result<Option<u32>> {
        let mut words = [0; LINK_SETTINGS_WORDS];
        // The first answer only tells, as a negative number, how long the masks are.
        let tried = "the link's speed";
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

    /// The size of the receive ring; `None` where the driver has none to tell of.
    pub fn rx_ring(&self) -> Result<Option<RxRing>> {
        let mut words = [0; 9];
        let known = self.ask_if_known(ETHTOOL_GRINGPARAM, "the size of the receive ring", &mut words)?;
        Ok((known && words[1] != 0).then_some(RxRing { frames: words[5], frames_max: words[1] }))
    }

    /// Which clocks can stamp received frames.
    pub fn timestamping(&self) -> Result<Timestamping> {
        let mut words = [0; 11];
        self.ask_if_known(ETHTOOL_GET_TS_INFO, "its time stamping", &mut words)?;
        let so_timestamping = words[1];
        let hardware = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        Ok(Timestamping {
            hardware_rx: so_timestamping & hardware == hardware,
            hardware_rx_all: words[7] & (1 << HWTSTAMP_FILTER_ALL) != 0,
            software_rx: so_timestamping & libc::SOF_TIMESTAMPING_RX_SOFTWARE != 0,
            phc_index: u32::try_from(words[2] as i32).ok().filter(|_| so_timestamping != 0),
        })
    }

    /// Turns off what makes frames of a virtual link unlike those of a wire: segmentation left to
    /// the receiver (TSO, GSO), checksums left to it, and frames put together (GRO).
    ///
    /// What the driver does not have is not an error.
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

    /// Turns on, or off, that received frames are put together (GRO). A veth with GRO on receives as a
    /// network card does, by NAPI, and takes frames that XDP programs redirect to it.
    pub fn set_gro(&self, on: bool) -> Result<()> {
        self.ask(ETHTOOL_SGRO, if on { "turn on GRO" } else { "turn off GRO" }, &mut [0, on.into()])
    }

    /// A command with one word, `struct ethtool_value`, that goes in as zero.
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

    /// `words` is the command's structure, all of it; its first word is set here.
    fn ask(&self, command: u32, what: &str, words: &mut [u32]) -> Result<()> {
        words[0] = command;
        // SAFETY: `ifreq` is plain data for which zeros are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: each caller in this file gives the whole structure of its command, so the kernel
        // writes within `words`, which is alive and ours during the call.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &mut request) };
        if result < 0 {
            return Err(Error::last(format!("ask the driver of {} ({what})", self.name)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_name_and_software_stamps() {
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
