//! Checks the interface that frames leave through or arrive on, before a run.

use crate::error::{PlanError, SendError};
use quaff_os::rtnl::{self, Link};

/// `ARPHRD_ETHER`, linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;
/// `ARPHRD_LOOPBACK`; its frames also have Ethernet headers.
const ARPHRD_LOOPBACK: u16 = 772;

/// Looks up an interface; checks that it is up, carries Ethernet frames and, if `needs_carrier`, has a carrier.
pub fn usable_link(interface: &str, needs_carrier: bool) -> Result<Link, SendError> {
    let link = rtnl::link(interface)?;
    if !link.up {
        return Err(PlanError::Down { interface: link.name }.into());
    }
    if needs_carrier && !link.running {
        return Err(PlanError::NoCarrier { interface: link.name }.into());
    }
    if !matches!(link.arphrd, ARPHRD_ETHER | ARPHRD_LOOPBACK) {
        return Err(PlanError::NotEthernet { interface: link.name, arphrd: link.arphrd }.into());
    }
    Ok(link)
}

/// An interface for tests that never reach the kernel.
#[cfg(test)]
pub(crate) fn fake_link(name: &str) -> Link {
    Link {
        name: name.into(),
        index: 1,
        mac: [0; 6],
        mtu: 1500,
        arphrd: ARPHRD_ETHER,
        up: true,
        running: true,
        promiscuous: false,
        arp: true,
        kind: String::new(),
        master: None,
        lower: None,
        xdp_program: None,
    }
}
