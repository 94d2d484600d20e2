//! Confirmation of what was sent, by a counter of the kernel.
//!
//! Frames that are injected do not pass the device, so `rx_packets` knows nothing of them. Two
//! others do. A counting tap sees what every capture on the interface is offered, and counts just
//! our stream; that costs some 80 ns a frame. `rx_otherhost_dropped` costs nothing: the stack counts
//! there each IPv4 packet that came in for another machine's MAC, right after the taps. So the tap
//! counts where there is time for it, or where frames may not get as far as the stack, and the
//! counter where every ns is wanted.

use quaff_os::Result;
use quaff_os::machine::SoftnetMeter;
use quaff_os::packet::{CountingTap, Insn};
use quaff_os::rtnl::LinkStats;
use quaff_os::rtnl::{Link, Rtnl};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Drivers may bring their counters up to date only so often, and another core may have to
/// finish its part first.
const PATIENCE: Duration = Duration::from_millis(2500);
/// Interval at which late counters are read again.
pub(crate) const LOOK: Duration = Duration::from_millis(10);
/// The counter that confirmed the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// A counting tap, which counts our stream and nothing else.
    Tap,
    /// The interface's counter of packets for other machines, others' among them.
    RxOtherhostDropped,
    /// The interface's counter of packets sent, others' among them.
    TxPackets,
    /// Frames that the stack has taken in on all cores, of all interfaces (`/proc/net/softnet_stat`).
    Softnet,
}

/// A counter and its value before the run.
pub(crate) enum Confirm {
    Tap(CountingTap),
    Counter { rtnl: Rtnl, index: u32, witness: Witness, before: u64 },
    Softnet(SoftnetMeter),
}

impl Confirm {
    /// A counter of the interface.
    pub(crate) fn counter(witness: Witness, link: &Link) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let before = counter(witness, &rtnl.stats(link.index)?);
        Ok(Self::Counter { rtnl, index: link.index, witness, before })
    }

    /// A tap for the frames that arrive on the interface and have these 32-bit words at these offsets.
    pub(crate) fn tap(link: &Link, words: &[(u32, u32)]) -> Result<Self> {
        Ok(Self::Tap(CountingTap::open(link.index, &link.name, Some(&accept_incoming(words)))?))
    }

    /// The counter of packets that the stack receives.
    pub(crate) fn softnet() -> Result<Self> {
        SoftnetMeter::open().map(Self::Softnet)
    }

    /// Which counter it is.
    pub(crate) fn witness(&self) -> Witness {
        match self {
            Self::Tap(_) => Witness::Tap,
            Self::Counter { witness, .. } => *witness,
            Self::Softnet(_) => Witness::Softnet,
        }
    }

    /// To be called each second: counters of 32 bits are among them.
    pub(crate) fn poll(&mut self) -> Result<()> {
        match self {
            Self::Tap(tap) => tap.read().map(|_| ()),
            Self::Softnet(softnet) => softnet.read().map(|_| ()),
            Self::Counter { .. } => Ok(()),
        }
    }

    /// The total, after a short wait for late counts.
    pub(crate) fn finish(self, sent: u64) -> Result<u64> {
        self.finish_within(sent, PATIENCE, || {
            std::thread::sleep(LOOK);
            true
        })
    }

    /// As [`Confirm::finish`], but waits at most `patience`, and only while `pause`, which waits briefly, returns `true`.
    pub(crate) fn finish_within(
        mut self,
        sent: u64,
        patience: Duration,
        mut pause: impl FnMut() -> bool,
    ) -> Result<u64> {
        let begun = Instant::now();
        loop {
            let counted = match &mut self {
                Self::Tap(tap) => tap.read()?,
                Self::Counter { rtnl, index, witness, before } => {
                    counter(*witness, &rtnl.stats(*index)?).saturating_sub(*before)
                }
                Self::Softnet(softnet) => softnet.read()?.processed,
            };
            if counted >= sent || begun.elapsed() > patience || !pause() {
                return Ok(counted);
            }
        }
    }
}

fn counter(witness: Witness, stats: &LinkStats) -> u64 {
    match witness {
        Witness::TxPackets => stats.tx_packets,
        Witness::RxOtherhostDropped => stats.rx_otherhost,
        Witness::Tap | Witness::Softnet => 0,
    }
}

/// `SKF_AD_OFF + SKF_AD_PKTTYPE` and `PACKET_OUTGOING` (linux/filter.h, linux/if_packet.h).
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const OUTGOING: u32 = 4;
const LDB_ABS: u16 = 0x30;
const LDW_ABS: u16 = 0x20;
const JEQ: u16 = 0x15;
const RET: u16 = 0x06;

const fn insn(code: u16, jt: u8, jf: u8, k: u32) -> Insn {
    Insn { code, jt, jf, k }
}

/// 1 for frames that come in and have these words at these places.
fn accept_incoming(words: &[(u32, u32)]) -> Vec<Insn> {
    let end = 2 * words.len() as u8 + 1;
    let mut program = vec![insn(LDB_ABS, 0, 0, PACKET_TYPE), insn(JEQ, end, 0, OUTGOING)];
    for (at, (offset, word)) in (0u8..).zip(words) {
        program.push(insn(LDW_ABS, 0, 0, *offset));
        program.push(insn(JEQ, 0, end - 2 * at - 2, *word));
    }
    program.extend([insn(RET, 0, 0, 1), insn(RET, 0, 0, 0)]);
    program
}
