//! Interfaces of a plan before they are opened: their kinds of links, their descriptions in the output, and the
//! settings that change frames. It opens no packet socket.

use crate::plan::{InputPlan, InterfacePlan};
use crate::{Error, Result};
use nix::libc;
use quaff_os::ethtool::Card;
use quaff_os::rtnl::{self, Link};
use quaff_wire::linktype;
use quaff_wire::pcapng::Interface;
use quaff_wire::printable::quote;

pub(super) fn find_link(interface: &InterfacePlan) -> Result<Link> {
    let link = rtnl::link(&interface.name)?;
    match linktype::of_arphrd(link.arphrd) {
        Some(_) => Ok(link),
        None => Err(Error::Plan(format!(
            "{}: quaff does not know its kind of link (ARPHRD {}); it knows Ethernet, loopback, IP tunnels and radiotap",
            link.name, link.arphrd
        ))),
    }
}

pub(super) fn kind_of(link: &Link) -> linktype::LinkType {
    linktype::of_arphrd(link.arphrd).unwrap_or(linktype::ETHERNET)
}

pub(super) fn describe(plan: &InputPlan, link: &Link) -> Interface {
    Interface {
        linktype: kind_of(link).linktype,
        snaplen: plan.snaplen,
        name: link.name.clone(),
        description: String::new(),
        filter: plan.filter.clone(),
        mac: (link.mac != [0; 6]).then_some(link.mac),
        speed_bps: speed_bps(&link.name),
        os: os_name(),
        fcs_len: None,
        others: Vec::new(),
    }
}

/// `Linux` and its release.
pub(crate) fn os_name() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

fn speed_bps(name: &str) -> Option<u64> {
    let mbps = Card::read(name).speed_mbps.ok()??;
    Some(u64::from(mbps) * 1_000_000)
}

/// The note on offloads that merge frames. Of a loopback there is none: its packets are long because their senders make
/// them so.
pub(super) fn offload_notes(link: &Link) -> Option<String> {
    if link.arphrd == libc::ARPHRD_LOOPBACK {
        return None;
    }
    let features = Card::read(&link.name).features.unwrap_or_default();
    let is_on = |name: &str| features.get(name).is_some_and(|feature| feature.is_on);
    let (gro, lro) = (is_on("rx-gro"), is_on("rx-lro"));
    let (what, feature) = match (gro, lro) {
        (false, false) => return None,
        (true, false) => ("GRO is", "gro off"),
        (false, true) => ("LRO is", "lro off"),
        (true, true) => ("GRO and LRO are", "gro off lro off"),
    };
    Some(format!(
        "{what} on at {}: frames may be captured larger than they were on the wire; 'ethtool -K {} {feature}' fixes it",
        link.name,
        quote(&link.name)
    ))
}
