//! Settings that can be changed and put back, each with one value that is text: what is read is what can be
//! set again.

use crate::{Error, Result};
use quaff_os::ethtool::{Card, Change};
use quaff_os::topology::Nic;
use quaff_os::{Try, machine, rtnl};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// What a file of /proc or /sys says.
    File(PathBuf),
    /// The cores that an interrupt may go to, by its number and its name: "0-3".
    Irq(usize, String),
    /// The frames in the receive ring of an interface: "4096".
    Ring(String),
    /// The queues that an interface receives with: "4".
    Channels(String),
    /// When an interface interrupts: "adaptive", or µs: "50".
    Coalescing(String),
    /// Its RSS table: "0,1,2,3".
    Rss(String),
    /// One of its features, by the kernel's name: "on" or "off".
    Feature(String, String),
}

impl Knob {
    /// The interface that it belongs to.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::File(_) | Self::Irq(..) => None,
            Self::Ring(name)
            | Self::Channels(name)
            | Self::Coalescing(name)
            | Self::Rss(name)
            | Self::Feature(name, _) => Some(name),
        }
    }

    /// Whether another network namespace has one of its own.
    pub fn is_of_netns(&self) -> bool {
        match self {
            Self::File(path) => path.starts_with("/proc/sys/net"),
            Self::Irq(..) => false,
            _ => true,
        }
    }
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Irq(number, name) => write!(f, "the cores of interrupt {number} ({name})"),
            Self::Ring(name) => write!(f, "the receive ring of {name}"),
            Self::Channels(name) => write!(f, "the channels of {name}"),
            Self::Coalescing(name) => write!(f, "the coalescing of {name}"),
            Self::Rss(name) => write!(f, "the RSS table of {name}"),
            Self::Feature(name, feature) => write!(f, "{feature} of {name}"),
        }
    }
}

/// What reads and changes settings.
pub trait Hands {
    /// The value of a setting.
    fn get(&self, knob: &Knob) -> Result<String>;
    /// Changes it. What it came to is what [`get`](Self::get) says next.
    fn set(&self, knob: &Knob, value: &str) -> Result<()>;
    /// What a driver may set up anew when this is changed.
    fn beside(&self, knob: &Knob) -> Vec<Knob>;
    /// The number of an interface, which one that is made anew has not got again.
    fn index(&self, interface: &str) -> Result<u32>;
    /// The network namespace in which settings are changed.
    fn netns(&self) -> Result<u64>;
    /// Whether there is a network namespace of that number.
    fn has_netns(&self, netns: u64) -> bool;
    /// What is different at each start of the machine.
    fn boot(&self) -> Result<String>;
}

/// This machine, and the network namespace of the calling thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl Hands for Machine {
    fn get(&self, knob: &Knob) -> Result<String> {
        let card = |name: &String| Card::read(name);
        let there = |value: Option<String>| value.ok_or_else(|| gone(knob));
        Ok(match knob {
            Knob::File(path) => text(path)?,
            Knob::Irq(number, name) => text(&irq(*number, name)?)?,
            Knob::Ring(name) => there(card(name).rx_ring?.map(|ring| ring.frames.to_string()))?,
            Knob::Channels(name) => {
                there(card(name).channels?.map(|channels| channels.receiving.to_string()))?
            }
            Knob::Coalescing(name) => there(card(name).coalescing?.map(|it| match it.is_adaptive {
                true => ADAPTIVE.to_owned(),
                false => it.rx_usecs.to_string(),
            }))?,
            Knob::Rss(name) => there(card(name).rss_table?.map(|table| join(&table)))?,
            Knob::Feature(name, feature) => {
                let features = card(name).features?;
                there(features.get(feature).map(|it| if it.is_on { "on" } else { "off" }.to_owned()))?
            }
        })
    }

    fn set(&self, knob: &Knob, value: &str) -> Result<()> {
        let number = || value.parse().map_err(|_| unknown(knob, value));
        match knob {
            Knob::File(path) => {
                fs::write(path, value).trying(|| format!("write {value} to {}", path.display()))?;
            }
            Knob::Irq(number, name) => {
                let path = irq(*number, name)?;
                fs::write(&path, value).trying(|| format!("write {value} to {}", path.display()))?;
            }
            Knob::Ring(name) => Card::change(name, Change::RxRing(number()?))?,
            Knob::Channels(name) => Card::change(name, Change::Channels(number()?))?,
            Knob::Coalescing(name) => {
                let is_adaptive = value == ADAPTIVE;
                let now = || Ok::<_, Error>(Card::read(name).coalescing?.map_or(0, |now| now.rx_usecs));
                let rx_usecs = if is_adaptive { now()? } else { number()? };
                Card::change(name, Change::Coalescing { rx_usecs, is_adaptive })?;
            }
            Knob::Rss(name) => {
                let table: std::result::Result<Vec<u32>, _> = value.split(',').map(str::parse).collect();
                Card::change(name, Change::RssTable(&table.map_err(|_| unknown(knob, value))?))?;
            }
            Knob::Feature(name, feature) => match value {
                "on" | "off" => Card::change(name, Change::Feature(feature, value == "on"))?,
                _ => return Err(unknown(knob, value)),
            },
        }
        Ok(())
    }

    /// Drivers ask for their interrupts anew, and forget where these went.
    fn beside(&self, knob: &Knob) -> Vec<Knob> {
        let Knob::Ring(name) = knob else { return Vec::new() };
        let irqs = Nic::read(Path::new("/"), name).irqs.into_iter();
        let mut beside = vec![Knob::Rss(name.clone())];
        beside.extend(irqs.map(|irq| Knob::Irq(irq.number, irq.name)));
        let queues = fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
        let masks = queues.flat_map(|queue| ["rps_cpus", "xps_cpus"].map(|mask| queue.path().join(mask)));
        beside.extend(masks.filter(|path| path.exists()).map(Knob::File));
        beside
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

/// What a card that chooses by itself is said to be.
const ADAPTIVE: &str = "adaptive";

fn join(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn text(path: &Path) -> Result<String> {
    Ok(fs::read_to_string(path).trying(|| format!("read {}", path.display()))?.trim().to_owned())
}

/// Where an interrupt's cores are set. Drivers give numbers back, and other devices get them: its name counts, and
/// the number only says where to look first.
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
        _ => Err(gone(&Knob::Irq(number, name.to_owned()))),
    }
}

fn gone(knob: &Knob) -> Error {
    Error::Os(quaff_os::Error::new(
        format!("read {knob}"),
        std::io::Error::from(std::io::ErrorKind::NotFound),
    ))
}

fn unknown(knob: &Knob, value: &str) -> Error {
    Error::Plan(format!("{value:?} is no value for {knob}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_features_and_no_ring() {
        let gro = Knob::Feature("lo".into(), "rx-gro".into());
        assert!(["on", "off"].contains(&Machine.get(&gro).unwrap().as_str()));
        assert!(Machine.set(&gro, "maybe").is_err());
        assert!(
            Machine.get(&Knob::Ring("lo".into())).unwrap_err().to_string().contains("receive ring of lo")
        );
        assert!(Machine.set(&Knob::Ring("lo".into()), "many").is_err());
        assert_eq!(Machine.index("lo").unwrap(), 1);
    }

    #[test]
    fn a_file_is_read_without_its_end_of_line_and_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("netdev_max_backlog");
        let knob = Knob::File(path.clone());
        assert!(Machine.get(&knob).is_err());
        fs::write(&path, "1000\n").unwrap();
        assert_eq!(Machine.get(&knob).unwrap(), "1000");
        Machine.set(&knob, "2000").unwrap();
        assert_eq!(Machine.get(&knob).unwrap(), "2000");
        assert!(!knob.is_of_netns() && Knob::File("/proc/sys/net/core/rmem_max".into()).is_of_netns());
    }
}
