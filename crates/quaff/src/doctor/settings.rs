//! Settings that can be changed and restored. The value of each is text: what is read can be set again.

use super::machine::{self, text};
use crate::cores::Nic;
use crate::{Error, Result};
use quaff_os::Try;
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{self, LinkChange, Rtnl};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A value of the machine or of an interface that the doctor can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Contents of a file in /proc or /sys.
    File(PathBuf),
    /// Cores of an interrupt, given by number and name: "0-3".
    Irq(usize, String),
    /// Frames in the receive ring of an interface: "4096".
    Ring(String),
    /// Receive queues of an interface: "4".
    Channels(String),
    /// Interrupt coalescing of an interface: "adaptive", or µs: "50".
    Coalescing(String),
    /// RSS table of an interface: "0,1,2,3".
    Rss(String),
    /// An offload of an interface, by the kernel's name: "on" or "off".
    Feature(String, String),
    /// A flag of an interface: "on" or "off".
    Flag(String, LinkFlag),
}

/// A flag of an interface (netdevice(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkFlag {
    /// Administratively up (`IFF_UP`).
    Up,
    /// `IFF_PROMISC`.
    Promiscuous,
    /// Without `IFF_NOARP`.
    Arp,
}

impl Setting {
    /// The interface of the setting.
    pub(super) fn interface(&self) -> Option<&str> {
        match self {
            Self::File(_) | Self::Irq(..) => None,
            Self::Ring(name)
            | Self::Channels(name)
            | Self::Coalescing(name)
            | Self::Rss(name)
            | Self::Feature(name, _)
            | Self::Flag(name, _) => Some(name),
        }
    }

    /// Returns whether each network namespace has its own.
    pub(super) fn is_of_netns(&self) -> bool {
        match self {
            Self::File(path) => path.starts_with("/proc/sys/net"),
            Self::Irq(..) => false,
            _ => true,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Irq(number, name) => write!(f, "the cores of interrupt {number} ({name})"),
            Self::Ring(name) => write!(f, "the receive ring of {name}"),
            Self::Channels(name) => write!(f, "the channels of {name}"),
            Self::Coalescing(name) => write!(f, "the coalescing of {name}"),
            Self::Rss(name) => write!(f, "the RSS table of {name}"),
            Self::Feature(name, feature) => write!(f, "{feature} of {name}"),
            Self::Flag(name, LinkFlag::Up) => write!(f, "the state (up) of {name}"),
            Self::Flag(name, LinkFlag::Promiscuous) => write!(f, "promiscuous mode of {name}"),
            Self::Flag(name, LinkFlag::Arp) => write!(f, "ARP of {name}"),
        }
    }
}

/// Reads and changes settings.
pub(super) trait Backend {
    /// The value of a setting.
    fn get(&self, setting: &Setting) -> Result<String>;
    /// Changes a setting. [`get`](Self::get) returns the resulting value, which a driver may have rounded.
    fn set(&self, setting: &Setting, value: &str) -> Result<()>;
    /// Settings that a driver may reset with this one.
    fn related(&self, setting: &Setting) -> Vec<Setting>;
    /// The index of an interface, which changes when it is created again.
    fn index(&self, interface: &str) -> Result<u32>;
    /// The network namespace in which settings are changed.
    fn netns(&self) -> Result<u64>;
    /// Returns whether a network namespace exists.
    fn has_netns(&self, netns: u64) -> bool;
    /// The boot ID.
    fn boot(&self) -> Result<String>;
}

/// This machine, and the network namespace of the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Machine;

impl Backend for Machine {
    fn get(&self, setting: &Setting) -> Result<String> {
        let card = |name: &String| Card::read(name);
        let known = |value: Option<String>| value.ok_or_else(|| missing(setting));
        Ok(match setting {
            Setting::File(path) => text(path)?,
            Setting::Irq(number, name) => text(&irq(*number, name)?)?,
            Setting::Ring(name) => known(card(name).rx_ring?.map(|ring| ring.frames.to_string()))?,
            Setting::Channels(name) => {
                known(card(name).channels?.map(|channels| channels.receiving.to_string()))?
            }
            Setting::Coalescing(name) => known(card(name).coalescing?.map(|it| match it.is_adaptive {
                true => ADAPTIVE.to_owned(),
                false => it.rx_usecs.to_string(),
            }))?,
            Setting::Rss(name) => known(card(name).rss_table?.map(|table| join(&table)))?,
            Setting::Feature(name, feature) => {
                let features = card(name).features?;
                known(features.get(feature).map(|it| on_or_off(it.is_on)))?
            }
            Setting::Flag(name, flag) => {
                let link = rtnl::link(name)?;
                on_or_off(match flag {
                    LinkFlag::Up => link.up,
                    LinkFlag::Promiscuous => link.promiscuous,
                    LinkFlag::Arp => link.arp,
                })
            }
        })
    }

    fn set(&self, setting: &Setting, value: &str) -> Result<()> {
        let number = || value.parse().map_err(|_| unknown(setting, value));
        match setting {
            Setting::File(path) => write(path, value)?,
            Setting::Irq(number, name) => write(&irq(*number, name)?, value)?,
            Setting::Ring(name) => Card::change(name, Change::RxRing(number()?))?,
            Setting::Channels(name) => Card::change(name, Change::Channels(number()?))?,
            Setting::Coalescing(name) => {
                let is_adaptive = value == ADAPTIVE;
                let now = || Ok::<_, Error>(Card::read(name).coalescing?.map_or(0, |now| now.rx_usecs));
                let rx_usecs = if is_adaptive { now()? } else { number()? };
                Card::change(name, Change::Coalescing { rx_usecs, is_adaptive })?;
            }
            Setting::Rss(name) => {
                let table: std::result::Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
                Card::change(name, Change::RssTable(&table.map_err(|_| unknown(setting, value))?))?;
            }
            Setting::Feature(name, feature) => match value {
                "on" | "off" => Card::change(name, Change::Feature(feature, value == "on"))?,
                _ => return Err(unknown(setting, value)),
            },
            Setting::Flag(name, flag) => {
                let on = match value {
                    "on" | "off" => value == "on",
                    _ => return Err(unknown(setting, value)),
                };
                let change = match flag {
                    LinkFlag::Up => LinkChange::Up(on),
                    LinkFlag::Promiscuous => LinkChange::Promiscuous(on),
                    LinkFlag::Arp => LinkChange::Arp(on),
                };
                let mut rtnl = Rtnl::open()?;
                let index = rtnl.link(name)?.index;
                rtnl.change(index, change)?;
            }
        }
        Ok(())
    }

    /// Drivers request their interrupts again, which resets the cores of the interrupts.
    fn related(&self, setting: &Setting) -> Vec<Setting> {
        let Setting::Ring(name) = setting else { return Vec::new() };
        let irqs = Nic::read(Path::new("/"), name).irqs.into_iter();
        let mut related = vec![Setting::Rss(name.clone())];
        related.extend(irqs.map(|irq| Setting::Irq(irq.number, irq.name)));
        let queues = fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
        let masks = queues.flat_map(|queue| ["rps_cpus", "xps_cpus"].map(|mask| queue.path().join(mask)));
        related.extend(masks.filter(|path| path.exists()).map(Setting::File));
        related
    }

    fn index(&self, interface: &str) -> Result<u32> {
        Ok(rtnl::link(interface)?.index)
    }

    fn netns(&self) -> Result<u64> {
        Ok(machine::netns_inode()?)
    }

    fn has_netns(&self, netns: u64) -> bool {
        machine::has_netns(netns)
    }

    fn boot(&self) -> Result<String> {
        Ok(machine::boot_id(Path::new("/"))?)
    }
}

/// Value of adaptive coalescing.
const ADAPTIVE: &str = "adaptive";

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn join(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn write(path: &Path, value: &str) -> Result<()> {
    Ok(fs::write(path, value).trying(|| format!("write {value} to {}", path.display()))?)
}

/// The file with the cores of an interrupt. The name decides, because a number that a driver has released may belong
/// to another device.
fn irq(number: usize, name: &str) -> Result<PathBuf> {
    let all = Path::new("/proc/irq");
    let first = all.join(number.to_string());
    if first.join(name).is_dir() {
        return Ok(first.join("smp_affinity_list"));
    }
    let dirs = fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path());
    let found: Vec<_> = dirs.filter(|dir| dir.join(name).is_dir()).collect();
    match &found[..] {
        [one] => Ok(one.join("smp_affinity_list")),
        _ => Err(missing(&Setting::Irq(number, name.to_owned()))),
    }
}

fn missing(setting: &Setting) -> Error {
    Error::Os(quaff_os::Error::new(
        format!("read {setting}"),
        std::io::Error::from(std::io::ErrorKind::NotFound),
    ))
}

fn unknown(setting: &Setting, value: &str) -> Error {
    Error::Plan(format!("{value:?} is not a value of {setting}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_and_no_ring() {
        let gro = Setting::Feature("lo".into(), "rx-gro".into());
        assert!(["on", "off"].contains(&Machine.get(&gro).unwrap().as_str()));
        assert!(Machine.set(&gro, "maybe").is_err());
        assert!(
            Machine.get(&Setting::Ring("lo".into())).unwrap_err().to_string().contains("receive ring of lo")
        );
        assert!(Machine.set(&Setting::Ring("lo".into()), "many").is_err());
        assert_eq!(Machine.index("lo").unwrap(), 1);
    }

    #[test]
    fn a_file_is_read_without_its_newline_and_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("netdev_max_backlog");
        let setting = Setting::File(path.clone());
        assert!(Machine.get(&setting).is_err());
        fs::write(&path, "1000\n").unwrap();
        assert_eq!(Machine.get(&setting).unwrap(), "1000");
        Machine.set(&setting, "2000").unwrap();
        assert_eq!(Machine.get(&setting).unwrap(), "2000");
        assert!(!setting.is_of_netns() && Setting::File("/proc/sys/net/core/rmem_max".into()).is_of_netns());
    }
}
