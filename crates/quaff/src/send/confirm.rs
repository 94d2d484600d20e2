//! The second opinion on what was sent: the interface's, not ours.
//!
//! Frames that are injected do not pass the device, so its counters know nothing of them; there a
//! counting tap, which sees what every capture on the interface is offered, counts our stream.

use super::plan::{SendPlan, Via};
use quaff_os::Result;
use quaff_os::packet::{CountingTap, Insn};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_wire::stamp::{MAGIC, PORT, STAMP_OFFSET};
use quaff_wire::udp::{TAG_BYTES, UDP_BYTES};
use std::time::{Duration, Instant};

/// Drivers may bring their counters up to date only so often.
const PATIENCE: Duration = Duration::from_millis(2500);

/// Where the count comes from.
pub(super) enum Confirm {
    Tap(CountingTap),
    Counters { rtnl: Rtnl, index: u32, before: u64 },
}

impl Confirm {
    /// Counts from now on.
    pub(super) fn open(plan: &SendPlan, link: &Link) -> Result<Self> {
        Ok(match plan.via {
            Via::Inject => {
                let filter = stream_filter(plan.stream, plan.tags.len());
                Self::Tap(CountingTap::open(link.index, &link.name, Some(&filter))?)
            }
            Via::Send => {
                let mut rtnl = Rtnl::open()?;
                let before = rtnl.stats(link.index)?.tx_packets;
                Self::Counters { rtnl, index: link.index, before }
            }
        })
    }

    /// To be called each second: the tap's counter has 32 bits.
    pub(super) fn poll(&mut self) -> Result<()> {
        match self {
            Self::Tap(tap) => tap.read().map(|_| ()),
            Self::Counters { .. } => Ok(()),
        }
    }

    /// What was counted in all; waits a little for counters that come late.
    pub(super) fn finish(mut self, sent: u64) -> Result<u64> {
        let begun = Instant::now();
        loop {
            let counted = match &mut self {
                Self::Tap(tap) => tap.read()?,
                Self::Counters { rtnl, index, before } => {
                    rtnl.stats(*index)?.tx_packets.saturating_sub(*before)
                }
            };
            if counted >= sent || begun.elapsed() > PATIENCE || matches!(self, Self::Tap(_)) {
                return Ok(counted);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Classic BPF: 1 for frames of this stream that come in, 0 for all else.
fn stream_filter(stream: u16, tags: usize) -> Vec<Insn> {
    /// `SKF_AD_OFF + SKF_AD_PKTTYPE` and `PACKET_OUTGOING` (linux/filter.h, linux/if_packet.h).
    const PACKET_TYPE: u32 = 0xffff_f000 + 4;
    const OUTGOING: u32 = 4;
    const LDB_ABS: u16 = 0x30;
    const LDH_ABS: u16 = 0x28;
    const JEQ: u16 = 0x15;
    const RET: u16 = 0x06;
    // The kernel has taken the outer tag out of the frame by then.
    let stamp = (STAMP_OFFSET + tags.saturating_sub(1) * TAG_BYTES) as u32;
    let udp = stamp - UDP_BYTES as u32;
    let insn = |code, jt, jf, k| Insn { code, jt, jf, k };
    vec![
        insn(LDB_ABS, 0, 0, PACKET_TYPE),
        insn(JEQ, 7, 0, OUTGOING),
        insn(LDH_ABS, 0, 0, udp),
        insn(JEQ, 0, 5, u32::from(stream)),
        insn(LDH_ABS, 0, 0, udp + 2),
        insn(JEQ, 0, 3, u32::from(PORT)),
        insn(LDH_ABS, 0, 0, stamp),
        insn(JEQ, 0, 1, u32::from(MAGIC)),
        insn(RET, 0, 0, 1),
        insn(RET, 0, 0, 0),
    ]
}
