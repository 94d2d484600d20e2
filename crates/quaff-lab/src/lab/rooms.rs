//! The network namespaces of a lab: their names, their silence, and the wait for their links.

use crate::Result;
use quaff_os::rtnl::{LinkChange, Rtnl};
use quaff_os::{Netns, Try};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Time limit for both ends to have a carrier.
const LINK_WAIT: Duration = Duration::from_secs(2);
/// sysctls that keep a namespace silent. New interfaces inherit those of `default`.
const SILENCE: [(&str, &str); 9] = [
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/autoconf", "0"),
    // One ICMP error per 23 days, ms: frames to a closed port are not answered.
    ("ipv4/icmp_ratelimit", "2000000000"),
    // A bridge bypasses the firewall.
    ("bridge/bridge-nf-call-arptables", "0"),
    ("bridge/bridge-nf-call-iptables", "0"),
    ("bridge/bridge-nf-call-ip6tables", "0"),
];
/// sysctl trees that a kernel may lack.
const OPTIONAL: [&str; 2] = ["ipv6", "bridge"];

/// The open namespaces of a lab; [`super::Layout::Pair`] has neither `far` nor `mid`.
#[derive(Debug)]
pub(super) struct Rooms {
    pub(super) tx: Netns,
    pub(super) far: Option<Netns>,
    pub(super) mid: Option<Netns>,
    pub(super) rx: Netns,
}

impl Rooms {
    pub(super) fn open(name: &str) -> Result<Self> {
        Ok(Self {
            tx: Netns::open(&netns_name(name, "tx"))?,
            far: Netns::open(&netns_name(name, "far")).ok(),
            mid: Netns::open(&netns_name(name, "mid")).ok(),
            rx: Netns::open(&netns_name(name, "rx"))?,
        })
    }
}

/// Disables background traffic in the calling thread's namespace, before it has a link.
pub(super) fn silence() -> Result<()> {
    for (key, value) in SILENCE {
        match fs::write(format!("/proc/sys/net/{key}"), value) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && OPTIONAL.iter().any(|part| key.starts_with(part)) => {}
            written => written.trying(|| format!("set /proc/sys/net/{key} to {value}"))?,
        }
    }
    let mut rtnl = Rtnl::open()?;
    let lo = rtnl.link("lo")?;
    rtnl.change(lo.index, LinkChange::Up(true))?;
    Ok(())
}

/// The kernel activates the second end slightly later than the first; frames sent before that are lost.
pub(super) fn wait_until_running(name: &str) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let begun = Instant::now();
    while !rtnl.link(name)?.running {
        if begun.elapsed() > LINK_WAIT {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            return Err(quaff_os::Error::new(format!("bring {name} up"), late).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The name of a namespace of a lab.
pub(super) fn netns_name(name: &str, which: &str) -> String {
    format!("{name}-{which}")
}
