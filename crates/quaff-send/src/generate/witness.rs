//! The counter that confirms the frames of one run.

use super::plan::{Pacing, SendPlan, Via};
use crate::confirm::{Confirm, Witness};
use quaff_os::Result;
use quaff_os::rtnl::Link;
use quaff_wire::net::{TAG_BYTES, UDP_BYTES};
use quaff_wire::probe::{MIRROR_BYTES, PAYLOAD_OFFSET, ProbeHeader};

/// A tap has time to count frames that are so far apart, ns.
const TAP_INTERVAL_NS: u64 = 2_000;

/// Starts to count.
pub(super) fn open(plan: &SendPlan, pacing: &Pacing, link: &Link) -> Result<Confirm> {
    match plan.via {
        Via::Send => Confirm::counter(Witness::TxPackets, link),
        Via::Inject if pacing.interval_ns() < TAP_INTERVAL_NS && is_dropped_as_foreign(plan, link) => {
            Confirm::counter(Witness::RxOtherhostDropped, link)
        }
        Via::Inject => Confirm::tap(link, &own_frames(plan)),
    }
}

/// The words by which the frames of the plan are known: their MAC addresses, or the UDP ports of the stream.
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

/// Frames reach the stack's IPv4 input, and are dropped and counted there.
fn is_dropped_as_foreign(plan: &SendPlan, link: &Link) -> bool {
    let is_multicast = plan.dst_mac[0] & 1 == 1;
    let is_tagged = !plan.tags.is_empty() && plan.mirror.is_none();
    plan.dst_mac != link.mac && !is_multicast && !is_tagged && link.master.is_none()
}

/// Offset of the UDP ports when a tap sees the frame: the kernel has removed the outer tag by then, but not one that is inside a mirror's headers.
fn ports_offset(plan: &SendPlan) -> usize {
    let ports = PAYLOAD_OFFSET - UDP_BYTES;
    match plan.mirror {
        Some(_) => MIRROR_BYTES + ports + plan.tags.len() * TAG_BYTES,
        None => ports + plan.tags.len().saturating_sub(1) * TAG_BYTES,
    }
}
