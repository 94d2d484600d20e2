//! The checks of the two ports, and the settings under which frames pass as they came and the host is silent. It
//! changes nothing itself.

use super::redirect::{self, Forwarder};
use crate::doctor::{Change, LinkFlag, Setting};
use crate::{Error, Result};
use quaff_os::ethtool::Card;
use quaff_os::rtnl::{Link, LowerLink, Rtnl};
use quaff_os::xdp::forwards_by_xdp;
use quaff_wire::printable::{operands, quote};
use std::net::IpAddr;
use std::path::Path;

/// linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;
/// Offloads that merge received frames, by the kernel's names: what they merge is neither recorded nor forwarded as it
/// came.
const MERGING: [&str; 5] = ["rx-gro", "rx-gro-hw", "rx-lro", "rx-gro-list", "rx-udp-gro-forwarding"];
/// The offload that takes VLAN tags off received frames: XDP does not see them, and would forward frames without.
const TAGS_OFF: &str = "rx-vlan-hw-parse";
/// The redirects that the ports have already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Nothing,
    /// Those of an earlier tap of the same ports, which are replaced.
    SameTap,
}

/// Looks up both ports and refuses those that cannot be tapped.
pub(super) fn check(
    names: &[String; 2],
    forwarder: Forwarder,
    rtnl: &mut Rtnl,
) -> Result<([Link; 2], Existing)> {
    let links = [rtnl.link(&names[0])?, rtnl.link(&names[1])?];
    let [a, b] = &links;
    if a.index == b.index {
        return Err(Error::Plan(format!("{} is both ports: a tap needs two interfaces", a.name)));
    }
    if a.mtu != b.mtu {
        return Err(Error::Plan(format!(
            "the MTU of {} is {} and that of {} is {}: frames larger than the smaller one would be lost; give both the larger \
             one ('ip link set dev IF mtu N')",
            a.name, a.mtu, b.name, b.mtu
        )));
    }
    let (all, addresses) = (rtnl.links()?, rtnl.addresses()?);
    for (link, other) in [(a, b), (b, a)] {
        refuse_in_use(link, other, &all)?;
        let is_local = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let found = addresses.iter().find(|it| it.index == link.index && !is_local(it.ip));
        if let Some(address) = found {
            let (name, ip, prefix) = (&link.name, address.ip, address.prefix);
            return Err(Error::Plan(format!(
                "{name} has the address {ip}/{prefix}: the host would lose it, as all frames pass to the other port; remove it \
                 ('ip address delete {ip}/{prefix} dev {}') or choose another port",
                quote(name)
            )));
        }
    }
    let existing = [existing(a, b, forwarder, rtnl)?, existing(b, a, forwarder, rtnl)?];
    let [of_a, of_b] = existing;
    if of_a != of_b {
        return Err(Error::Plan(format!(
            "only one of {} and {} has the redirect of a tap: remove it ('quaff tap --remove {}')",
            a.name,
            b.name,
            operands(&[&a.name, &b.name])
        )));
    }
    Ok((links, of_a))
}

/// Refuses an interface that is not a plain Ethernet port.
fn refuse_in_use(link: &Link, other: &Link, all: &[Link]) -> Result<()> {
    let refused = |why: String| Err(Error::Plan(format!("{} {why}", link.name)));
    if link.arphrd != ARPHRD_ETHER {
        return refused("is not an Ethernet interface".into());
    }
    let name =
        |index| all.iter().find(|it| it.index == index).map_or("another interface", |it| it.name.as_str());
    if let Some(master) = link.master {
        let (master, name) = (name(master), quote(&link.name));
        return refused(format!(
            "is a port of {master}: take it out first ('ip link set dev {name} nomaster')"
        ));
    }
    if let Some(above) = all.iter().find(|it| it.lower == Some(LowerLink::Here(link.index))) {
        return refused(format!("carries {}, which would receive nothing: remove that first", above.name));
    }
    if link.xdp_program.is_some() && !forwards_by_xdp(link, other.index) {
        let name = quote(&link.name);
        return refused(format!(
            "has an XDP program, which takes frames before they are recorded: detach it ('ip link set dev {name} xdp off')"
        ));
    }
    Ok(())
}

/// The redirect that `from` has already, which must be of the same kind; a discipline or filter of another program is
/// refused.
fn existing(from: &Link, to: &Link, forwarder: Forwarder, rtnl: &mut Rtnl) -> Result<Existing> {
    let (has_xdp, has_ingress) = (forwards_by_xdp(from, to.index), rtnl.has_ingress(from.index)?);
    let filters = if has_ingress { rtnl.filters(from.index)? } else { Vec::new() };
    let has_tc = filters == [redirect::listed(to.index)];
    let (is_xdp, is_other) = match forwarder {
        Forwarder::Tc => (false, has_xdp),
        Forwarder::Xdp { .. } => (true, has_tc),
    };
    if is_other {
        let (by, name, other) = (if is_xdp { "tc" } else { "XDP" }, &from.name, &to.name);
        return Err(Error::Plan(format!(
            "{name} has the redirect of an earlier tap, by {by}: remove it ('quaff tap --remove {}'), or choose it \
             by `forward`",
            operands(&[name, other])
        )));
    }
    if has_tc || has_xdp && !has_ingress {
        return Ok(Existing::SameTap);
    }
    if !has_ingress {
        return Ok(Existing::Nothing);
    }
    let with = match filters.is_empty() {
        true => String::new(),
        false => format!(" with {}", filters.join(", ")),
    };
    Err(Error::Plan(format!(
        "{name} has an ingress or clsact discipline of another program{with}, which a tap would disturb: 'tc filter show dev \
         {word} ingress' shows it; remove it ('tc qdisc del dev {word} clsact') or choose another port",
        name = from.name,
        word = quote(&from.name)
    )))
}

/// The settings to change, in their order.
pub(super) fn changes(links: &[Link; 2], forwarder: Forwarder) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for link in links {
        let mut set = |setting, to: &str| changes.push(Change { setting, to: to.to_owned() });
        // Addresses of the link and what announces them; first, before the port is up.
        let ipv6 = Path::new("/proc/sys/net/ipv6/conf").join(&link.name).join("disable_ipv6");
        if ipv6.exists() {
            set(Setting::File(ipv6), "1");
        }
        set(Setting::Flag(link.name.clone(), LinkFlag::Arp), "off");
        // Packet sockets ask for it too, but only while they are open.
        set(Setting::Flag(link.name.clone(), LinkFlag::Promiscuous), "on");
        let features = Card::read(&link.name).features?;
        for (name, feature) in features.iter().filter(|(_, feature)| feature.is_on) {
            // A veth shows GRO as on while it has an XDP program, whose frames do not pass GRO.
            let is_merging = MERGING.contains(&name.as_str()) && link.xdp_program.is_none();
            // A veth has the feature always, and takes off nothing.
            let is_xdp = forwarder != Forwarder::Tc && link.kind != "veth";
            let takes_tags = is_xdp && name == TAGS_OFF;
            match feature.is_fixed {
                true if takes_tags => {
                    return Err(Error::Plan(format!(
                        "the driver of {} always takes VLAN tags off received frames, where XDP does not see them: choose \
                         `forward` kernel",
                        link.name
                    )));
                }
                true if is_merging => {
                    return Err(Error::Plan(format!(
                        "the driver of {} does not let {name} be turned off: frames would be merged and not pass as they \
                         came; choose another port",
                        link.name
                    )));
                }
                false if is_merging || takes_tags || is_segmenting(name) => {
                    set(Setting::Feature(link.name.clone(), name.clone()), "off");
                }
                _ => {}
            }
        }
    }
    let up =
        |link: &Link| Change { setting: Setting::Flag(link.name.clone(), LinkFlag::Up), to: "on".into() };
    changes.extend(links.iter().map(up));
    Ok(changes)
}

/// Returns whether an offload sends one large frame as several: none may be larger than the wire's when it leaves.
fn is_segmenting(feature: &str) -> bool {
    feature.starts_with("tx-") && feature.ends_with("-segmentation")
}
