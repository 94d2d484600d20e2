//! Labs of two ends with a device between them, which may copy the traffic to a third end, the capturer.
//!
//! ```text
//!    NAME-tx      NAME-mid                       NAME-far
//!    tx0 ──────── a0 ═══ bridge or wire ═══ b0 ──────── tx1
//!                        │ copies
//!                        m0 ──────── rx0  NAME-rx
//! ```
//!
//! A BPF program at the hooks of tc(8) makes the copies: like the mirror of a switch port, frames that enter and
//! leave by that port; like a tap, frames that enter from either side. A plain bridge makes none. For
//! [`Layout::Apart`] the caller forwards between the ports.

use super::{
    FAR_IF, LabPlan, Layout, MIDDLE_IFS, PREFIX_BITS, ROUTER_IPS, RX_IF, RX_MAC, Rooms, TX_IF, TX_IP, TX_MAC,
    far_name, mid_name, rx_name, silence, tx_name, wait_until_running,
};
use crate::Result;
use quaff_os::bpf::{Asm, Helper, Program, Reg, Verdict};
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{Hook, LinkChange, Rtnl, VethEnd, VethPlan};
use quaff_os::{Netns, Try};
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

/// The ports in the middle: towards the two ends, and towards the capturer.
const PORTS: [&str; 3] = [MIDDLE_IFS[0], MIDDLE_IFS[1], "m0"];
const BRIDGE: &str = "br0";
/// Refers to the network namespace of the writing thread.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";
/// The address of [`FAR_IF`].
const FAR_IP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);
const FAR_MAC: [u8; 6] = [0x02, 0x71, 0x75, 0x00, 0x00, 0x03];

/// Creates all four namespaces.
pub(super) fn build(name: &str, plan: &LabPlan) -> Result<Rooms> {
    let LabPlan { mtu, queues, layout, .. } = *plan;
    let tx = Netns::create(&tx_name(name))?;
    let far = Netns::create(&far_name(name))?;
    let mid = Netns::create(&mid_name(name))?;
    let rx = Netns::create(&rx_name(name))?;
    for netns in [&tx, &far, &mid, &rx] {
        netns.run(silence)??;
    }
    let ends = [(&tx, TX_IF, TX_MAC), (&far, FAR_IF, FAR_MAC), (&rx, RX_IF, RX_MAC)];
    let mut rtnl = Rtnl::open()?;
    for ((netns, end, mac), (number, port)) in ends.into_iter().zip((0x11..).zip(PORTS)) {
        let port = VethEnd { name: port, netns: mid.as_fd(), mac: [0x02, 0x71, 0x75, 0, 0, number] };
        rtnl.create_veth(&VethPlan {
            ends: [VethEnd { name: end, netns: netns.as_fd(), mac }, port],
            mtu,
            queues,
        })?;
    }
    tx.run(|| up(TX_IF, Some((TX_IP, FAR_IP, FAR_MAC))))??;
    far.run(|| up(FAR_IF, Some((FAR_IP, TX_IP, TX_MAC))))??;
    rx.run(|| up(RX_IF, None))??;
    mid.run(|| join(layout))??;
    for (netns, end, _) in ends {
        netns.run(|| wait_until_running(end))??;
    }
    Ok(Rooms { tx, far: Some(far), mid: Some(mid), rx })
}

/// Sets an interface up without offloads; an end also gets its address and its peer.
fn up(name: &str, addresses: Option<(Ipv4Addr, Ipv4Addr, [u8; 6])>) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let link = rtnl.link(name)?;
    Card::change(name, Change::OffloadsOff)?;
    rtnl.change(link.index, LinkChange::Up(true))?;
    if let Some((address, peer, peer_mac)) = addresses {
        rtnl.change(link.index, LinkChange::Address(address, PREFIX_BITS))?;
        rtnl.change(link.index, LinkChange::Neighbour(peer, peer_mac))?;
    }
    Ok(())
}

/// Joins the ports, in the namespace in the middle.
fn join(layout: Layout) -> Result<()> {
    PORTS.iter().try_for_each(|port| up(port, None))?;
    let mut rtnl = Rtnl::open()?;
    let mut index = |name| rtnl.link(name).map(|link| link.index);
    let [a, b, mirror] = [index(PORTS[0])?, index(PORTS[1])?, index(PORTS[2])?];
    match layout {
        Layout::Tap => {
            // The frames of each side leave by the other; a copy goes to the capturer.
            for (from, to) in [(a, b), (b, a)] {
                rtnl.change(from, LinkChange::Clsact)?;
                rtnl.change(from, LinkChange::Program(Hook::Ingress, &copy(mirror, Some(to))?))?;
            }
        }
        Layout::Span | Layout::Bridge => {
            rtnl.create_bridge(BRIDGE)?;
            let bridge = rtnl.link(BRIDGE)?.index;
            for port in [a, b] {
                rtnl.change(port, LinkChange::Bridge(bridge))?;
            }
            rtnl.change(bridge, LinkChange::Up(true))?;
            if layout == Layout::Span {
                rtnl.change(a, LinkChange::Clsact)?;
                let program = copy(mirror, None)?;
                rtnl.change(a, LinkChange::Program(Hook::Ingress, &program))?;
                rtnl.change(a, LinkChange::Program(Hook::Egress, &program))?;
            }
        }
        Layout::Router => {
            for (port, address) in [a, b].into_iter().zip(ROUTER_IPS) {
                rtnl.change(port, LinkChange::Address(address, PREFIX_BITS))?;
            }
            fs::write(FORWARDING, "1").trying(|| format!("set {FORWARDING} to 1"))?;
        }
        Layout::Pair | Layout::Apart => {}
    }
    PORTS.iter().try_for_each(|port| wait_until_running(port))
}

/// Sends a copy of each frame by `mirror`; the frame itself continues, or leaves by `to`.
fn copy(mirror: u32, to: Option<u32>) -> Result<Program> {
    let mut asm = Asm::default();
    asm.mov64(Reg::R2, mirror as i32);
    asm.mov64(Reg::R3, 0);
    asm.call(Helper::CloneRedirect);
    match to {
        Some(to) => {
            asm.mov64(Reg::R1, to as i32);
            asm.mov64(Reg::R2, 0);
            asm.call(Helper::Redirect);
        }
        None => asm.mov64(Reg::R0, Verdict::TcOk),
    }
    asm.exit();
    Ok(Program::load_tc("quaff_copy", asm)?)
}
