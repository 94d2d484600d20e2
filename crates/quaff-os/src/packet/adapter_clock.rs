//! The time stamps of an adapter (Documentation/networking/timestamping.rst): its configuration is read, extended to
//! all received packets, and restored at the end.
//!
//! Another program, such as ptp4l(8), may have configured the adapter. What is sent stays stamped as it was, and a
//! configuration that was changed meanwhile is not touched again.

use crate::{Error, Result};
use std::fmt::Debug;
use std::os::fd::{AsRawFd, OwnedFd};

/// Stamp every received packet (`HWTSTAMP_FILTER_ALL`).
const FILTER_ALL: i32 = 1;

/// `struct hwtstamp_config` (linux/net_tstamp.h).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HwtstampConfig {
    flags: i32,
    tx_type: i32,
    rx_filter: i32,
}

/// The two ioctls of an adapter. Tests have one of their own.
pub(super) trait Adapter: Debug + Send {
    /// SIOCGHWTSTAMP.
    fn get(&self) -> Result<HwtstampConfig>;
    /// SIOCSHWTSTAMP; returns what the driver made of it.
    fn set(&self, config: HwtstampConfig) -> Result<HwtstampConfig>;
}

/// The adapter stamps all received packets as long as this value exists.
#[derive(Debug)]
pub(crate) struct AdapterClock {
    adapter: Box<dyn Adapter>,
    /// The configuration before, and the present one; `None` if nothing has to be restored.
    changed: Option<(HwtstampConfig, HwtstampConfig)>,
}

impl AdapterClock {
    /// Makes the adapter of interface `name` stamp all received packets.
    pub(super) fn start(fd: &OwnedFd, name: &str) -> Result<Self> {
        let fd = fd.try_clone().map_err(|_| Error::last("duplicate a socket"))?;
        Self::of(Box::new(Interface { fd, name: name.to_owned() }))
    }

    fn of(adapter: Box<dyn Adapter>) -> Result<Self> {
        // Some drivers can set the configuration but not return it: sent packets are then taken as not stamped before.
        let before = adapter.get().ok();
        if before.is_some_and(|before| before.rx_filter == FILTER_ALL) {
            return Ok(Self { adapter, changed: None });
        }
        let wanted = HwtstampConfig { rx_filter: FILTER_ALL, ..before.unwrap_or_default() };
        let now = adapter.set(wanted)?;
        Ok(Self { adapter, changed: before.map(|before| (before, now)) })
    }
}

impl Drop for AdapterClock {
    fn drop(&mut self) {
        let Some((before, ours)) = self.changed else { return };
        if self.adapter.get().is_ok_and(|now| now == ours) {
            // If it fails, more packets than before are stamped, which does no harm.
            let _ = self.adapter.set(before);
        }
    }
}

/// The adapter of an interface, by a socket in its network namespace.
#[derive(Debug)]
struct Interface {
    fd: OwnedFd,
    name: String,
}

impl Interface {
    fn call(&self, number: libc::c_ulong, config: &mut HwtstampConfig, tried: &str) -> Result<()> {
        // SAFETY: ifreq is plain data; all zero is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = self.name.as_bytes().iter().take(libc::IFNAMSIZ - 1);
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = std::ptr::from_mut(config).cast();
        // SAFETY: the name is NUL-terminated (zeroed above, at most IFNAMSIZ - 1 bytes copied), and `config`, which
        // both ioctls read or write as a hwtstamp_config, outlives the call.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), number as _, &raw mut request) } {
            0 => Ok(()),
            _ => Err(Error::last(format!("{tried} {}", self.name))),
        }
    }
}

impl Adapter for Interface {
    fn get(&self) -> Result<HwtstampConfig> {
        let mut config = HwtstampConfig::default();
        self.call(libc::SIOCGHWTSTAMP, &mut config, "read the hardware time stamps of")?;
        Ok(config)
    }

    fn set(&self, mut config: HwtstampConfig) -> Result<HwtstampConfig> {
        self.call(libc::SIOCSHWTSTAMP, &mut config, "enable hardware time stamps on")
            .map_err(|error| error.advise("use the kernel's clock: `time-stamp-type` host"))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const TX_OFF: i32 = 0;
    const TX_ON: i32 = 1;
    const FILTER_NONE: i32 = 0;
    /// HWTSTAMP_FILTER_PTP_V2_EVENT, which ptp4l asks for.
    const FILTER_PTP: i32 = 12;

    /// A card without a kernel: its configuration, and those that were set.
    #[derive(Debug, Clone, Default)]
    struct Card {
        config: Arc<Mutex<HwtstampConfig>>,
        set: Arc<Mutex<Vec<HwtstampConfig>>>,
        /// EOPNOTSUPP for the reading ioctl.
        is_mute: bool,
        /// ERANGE for all packets: it stamps those of PTP only.
        is_ptp_only: bool,
    }

    impl Card {
        fn new(tx_type: i32, rx_filter: i32) -> Self {
            let card = Self::default();
            *card.config.lock().unwrap() = HwtstampConfig { flags: 0, tx_type, rx_filter };
            card
        }

        fn config(&self) -> (i32, i32) {
            let config = self.config.lock().unwrap();
            (config.tx_type, config.rx_filter)
        }

        fn sets(&self) -> usize {
            self.set.lock().unwrap().len()
        }
    }

    impl Adapter for Card {
        fn get(&self) -> Result<HwtstampConfig> {
            match self.is_mute {
                true => Err(Error::new("read", nix::Error::EOPNOTSUPP)),
                false => Ok(*self.config.lock().unwrap()),
            }
        }

        fn set(&self, config: HwtstampConfig) -> Result<HwtstampConfig> {
            if self.is_ptp_only && config.rx_filter == FILTER_ALL {
                return Err(Error::new("set", nix::Error::ERANGE));
            }
            self.set.lock().unwrap().push(config);
            *self.config.lock().unwrap() = config;
            Ok(config)
        }
    }

    #[test]
    fn the_configuration_of_ptp4l_is_extended_and_restored() {
        for (tx_type, rx_filter) in [(TX_ON, FILTER_PTP), (TX_OFF, FILTER_NONE)] {
            let card = Card::new(tx_type, rx_filter);
            let clock = AdapterClock::of(Box::new(card.clone())).unwrap();
            assert_eq!(card.config(), (tx_type, FILTER_ALL), "what is sent stays stamped as it was");
            drop(clock);
            assert_eq!((card.config(), card.sets()), ((tx_type, rx_filter), 2));
        }
    }

    #[test]
    fn a_card_that_stamps_all_packets_is_left_alone() {
        let card = Card::new(TX_ON, FILTER_ALL);
        drop(AdapterClock::of(Box::new(card.clone())).unwrap());
        assert_eq!((card.config(), card.sets()), ((TX_ON, FILTER_ALL), 0));
    }

    #[test]
    fn a_setting_that_another_program_has_changed_meanwhile_stays() {
        let card = Card::new(TX_OFF, FILTER_NONE);
        let clock = AdapterClock::of(Box::new(card.clone())).unwrap();
        *card.config.lock().unwrap() = HwtstampConfig { flags: 0, tx_type: TX_ON, rx_filter: FILTER_PTP };
        drop(clock);
        assert_eq!((card.config(), card.sets()), ((TX_ON, FILTER_PTP), 1));
    }

    #[test]
    fn a_card_that_refuses_is_an_error_and_unchanged() {
        let card = Card { is_ptp_only: true, ..Card::new(TX_ON, FILTER_PTP) };
        assert_eq!(AdapterClock::of(Box::new(card.clone())).unwrap_err().raw(), libc::ERANGE);
        assert_eq!((card.config(), card.sets()), ((TX_ON, FILTER_PTP), 0));
    }

    #[test]
    fn a_driver_that_returns_no_configuration_is_set_and_not_restored() {
        let card = Card { is_mute: true, ..Card::default() };
        drop(AdapterClock::of(Box::new(card.clone())).unwrap());
        assert_eq!((card.config(), card.sets()), ((TX_OFF, FILTER_ALL), 1));
    }
}
