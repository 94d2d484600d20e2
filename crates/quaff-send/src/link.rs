//! The interface that frames leave by or arrive on.

use crate::error::{PlanError, SendError};
use quaff_os::rtnl::{self, Link};

/// `ARPHRD_ETHER`, linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;
/// `ARPHRD_LOOPBACK`, whose frames have Ethernet headers too.
const ARPHRD_LOOPBACK: u16 = 772;

/// An interface that is up and carries Ethernet frames; with a carrier, where that is needed.
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
