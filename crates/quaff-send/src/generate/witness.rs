//! Chooses the counter that confirms the frames of a run. It never reads it.

use super::plan::{Pacing, SendPlan};
use crate::confirm::{Confirm, Witness};
use quaff_os::Result;
use quaff_os::rtnl::Link;
use quaff_wire::net::{TAG_BYTES, UDP_BYTES};
use quaff_wire::probe::{MIRROR_BYTES, PAYLOAD_OFFSET, ProbeHeader};

/// Shortest interval between frames for which a tap is used, ns.
const TAP_INTERVAL_NS: u64 = 2_000;

/// Opens the counter.
pub(super) fn open(plan: &SendPlan, pacing: &Pacing, link: &Link) -> Result<Confirm> {
    if !plan.inject {
        Confirm::counter(Witness::TxPackets, link)
    } else if pacing.interval_ns() < TAP_INTERVAL_NS && is_dropped_as_foreign(plan, link) {
        Confirm::counter(Witness::RxOtherhostDropped, link)
    } else {
        Confirm::tap(link, &own_frames(plan))
    }
}

/// The (offset, word) pairs that identify the frames of the plan: MAC addresses, or the UDP ports of the stream.
fn own_frames(plan: &SendPlan) -> Vec<(u32, u32)> {
    let Some(recipe) = plan.made.as_deref() else {
        return vec![(
            ports_offset(plan) as u32,
            u32::from(plan.stream) << 16 | u32::from(ProbeHeader::LAYOUT.port),
        )];
    };
    let ends = [recipe.link.dst_mac, recipe.link.src_mac].concat();
    let (words, _) = ends.as_chunks::<4>();
    (0..).step_by(4).zip(words.iter().map(|word| u32::from_be_bytes(*word))).collect()
}

/// Returns `true` if the frames reach the IPv4 input of the stack, which drops and counts them.
fn is_dropped_as_foreign(plan: &SendPlan, link: &Link) -> bool {
    let is_multicast = plan.dst_mac[0] & 1 == 1;
    let is_tagged = !plan.tags.is_empty() && plan.mirror.is_none();
    plan.dst_mac != link.mac && !is_multicast && !is_tagged && link.master.is_none()
}

/// Offset of the UDP ports in a frame as a tap sees it: without the outermost VLAN tag, which the kernel has removed,
/// except inside mirror headers.
fn ports_offset(plan: &SendPlan) -> usize {
    let ports = PAYLOAD_OFFSET - UDP_BYTES;
    match plan.mirror {
        Some(_) => MIRROR_BYTES + ports + plan.tags.len() * TAG_BYTES,
        None => ports + plan.tags.len().saturating_sub(1) * TAG_BYTES,
    }
}
