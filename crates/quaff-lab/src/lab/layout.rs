//! The namespaces and links of a lab: a plain pair, or two ends with a device between them, which may copy the traffic
//! to a third end, the capturer.
//!
//! ```text
//!    NAME-tx      NAME-mid                       NAME-far
//!    tx0 ──────── a0 ═══ bridge or wire ═══ b0 ──────── tx1
//!                        │ copies
//!                        m0 ──────── rx0  NAME-rx
//! ```
//!
//! A BPF program at the tc(8) hooks makes the copies: like the mirror of a switch port, of frames that enter or leave
//! through that port; like a tap, of frames that enter on either side. A plain bridge makes none. For
//! [`Layout::Apart`] the caller forwards between the ports.

use super::plan::{FAR, LabEnd, LabPlan, Layout, MIDDLE_IFS, MIRROR_IF, PREFIX_BITS, ROUTED, RX, TX};
use super::rooms::{Rooms, netns_name, silence, wait_until_running};
use crate::{Error, Result};
use quaff_os::bpf::{Asm, Helper, Program, Reg, Verdict};
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{LinkChange, Rtnl, VethEnd, VethPlan};
use quaff_os::{Netns, Try};
use std::fs;
use std::os::fd::AsFd;

/// The ports of the middle namespace: towards the two ends, and towards the capturer.
const PORTS: [&str; 3] = [MIDDLE_IFS[0], MIDDLE_IFS[1], MIRROR_IF];
const BRIDGE: &str = "br0";
/// Applies to the network namespace of the writing thread.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// Creates the namespaces of a layout, with their links.
pub(super) fn build(name: &str, plan: &LabPlan) -> Result<Rooms> {
    let create = |which| {
        let netns = Netns::create(&netns_name(name, which))?;
        netns.run(silence)??;
        Ok::<_, Error>(netns)
    };
    let is_between = plan.layout != Layout::Pair;
    let (tx, rx) = (create("tx")?, create("rx")?);
    let far = is_between.then(|| create("far")).transpose()?;
    let mid = is_between.then(|| create("mid")).transpose()?;
    let mut rtnl = Rtnl::open()?;
    let mut link = |ends, queues| rtnl.create_veth(&VethPlan { ends, mtu: plan.mtu, queues });
    let end = |netns, LabEnd { name, mac, .. }| VethEnd { name, netns, mac };
    if let (Some(far), Some(mid)) = (&far, &mid) {
        for ((netns, of), (number, port)) in
            [(&tx, TX), (far, FAR), (&rx, RX)].into_iter().zip((0x11..).zip(PORTS))
        {
            // The flow hash selects the transmit queue, as a network card does.
            let queues = if of == RX { plan.queues } else { 1 };
            link([end(netns.as_fd(), of), end(mid.as_fd(), LabEnd::new(port, number))], queues)?;
        }
        tx.run(|| up(TX.name, Some((TX, FAR))))??;
        far.run(|| up(FAR.name, Some((FAR, TX))))??;
        rx.run(|| up(RX.name, None))??;
        mid.run(|| join(plan.layout))??;
        far.run(|| wait_until_running(FAR.name))??;
    } else {
        link([end(tx.as_fd(), TX), end(rx.as_fd(), RX)], plan.queues)?;
        tx.run(|| up(TX.name, Some((TX, RX))))??;
        rx.run(|| up(RX.name, Some((RX, TX))))??;
    }
    tx.run(|| wait_until_running(TX.name))??;
    rx.run(|| wait_until_running(RX.name))??;
    Ok(Rooms { tx, far, mid, rx })
}

/// Sets an interface up without offloads; an end also gets its address and its peer.
fn up(name: &str, ends: Option<(LabEnd, LabEnd)>) -> Result<()> {
    let mut rtnl = Rtnl::open()?;
    let link = rtnl.link(name)?;
    Card::change(name, Change::OffloadsOff)?;
    rtnl.change(link.index, LinkChange::Up(true))?;
    if let Some((own, peer)) = ends {
        rtnl.change(link.index, LinkChange::Address(own.ip, own.prefix_bits))?;
        rtnl.change(link.index, LinkChange::Neighbour(peer.ip, peer.mac))?;
    }
    Ok(())
}

/// Connects the ports in the middle namespace.
fn join(layout: Layout) -> Result<()> {
    PORTS.iter().try_for_each(|port| up(port, None))?;
    let mut rtnl = Rtnl::open()?;
    let mut index = |name| rtnl.link(name).map(|link| link.index);
    let [a, b, mirror] = [index(PORTS[0])?, index(PORTS[1])?, index(PORTS[2])?];
    match layout {
        Layout::Tap => {
            // Frames of each side leave through the other port; a copy goes to the capturer.
            for (from, to) in [(a, b), (b, a)] {
                rtnl.change(from, LinkChange::Clsact)?;
                rtnl.change(from, LinkChange::OnIngress(&copy(mirror, Some(to))?))?;
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
                rtnl.change(a, LinkChange::OnIngress(&program))?;
                rtnl.change(a, LinkChange::OnEgress(&program))?;
            }
        }
        Layout::Router => {
            for (port, (address, _)) in [a, b].into_iter().zip(ROUTED) {
                rtnl.change(port, LinkChange::Address(address, PREFIX_BITS))?;
            }
            fs::write(FORWARDING, "1").trying(|| format!("set {FORWARDING} to 1"))?;
        }
        Layout::Pair | Layout::Apart => {}
    }
    PORTS.iter().try_for_each(|port| wait_until_running(port))
}

/// Copies each frame to `mirror`; the frame itself continues, or is redirected to `to`.
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
