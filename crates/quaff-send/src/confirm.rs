//! Confirmation of the frames sent, by a counter of the kernel. It never counts frames itself.
//!
//! Injected frames bypass the device, so `rx_packets` does not count them. Two other counters do. A counting tap sees
//! the same frames as every capture on the interface and counts only the stream; it costs about 80 ns a frame.
//! `rx_otherhost_dropped` costs nothing: the stack counts there each IPv4 packet for another host's MAC, right after
//! the taps. The tap is used if there is time for it, or if frames may not reach the stack.

use quaff_os::Result;
use quaff_os::packet::{CountingTap, Insn};
use quaff_os::rtnl::LinkStats;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::softnet::SoftnetMeter;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Longest wait for late counts: drivers refresh their counters at intervals, and another core may still be working.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2500);
/// Interval at which late counters are read again.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// The counter that confirmed the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// A counting tap, which counts only the frames of the run.
    Tap,
    /// The counter of the interface for packets to other hosts; includes packets of other senders.
    RxOtherhostDropped,
    /// The counter of the interface for packets sent; includes packets of other senders.
    TxPackets,
    /// Frames that the stack received on all cores and interfaces (`/proc/net/softnet_stat`).
    Softnet,
}

/// A counter and its value before the run.
pub(crate) enum Confirm {
    Tap(CountingTap),
    Counter { rtnl: Rtnl, index: u32, witness: Witness, before: u64 },
    Softnet(SoftnetMeter),
}

impl Confirm {
    /// Opens a counter of the interface.
    pub(crate) fn counter(witness: Witness, link: &Link) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let before = counter(witness, &rtnl.stats(link.index)?);
        Ok(Self::Counter { rtnl, index: link.index, witness, before })
    }

    /// Opens a tap for incoming frames with these (offset, 32-bit word) pairs.
    pub(crate) fn tap(link: &Link, words: &[(u32, u32)]) -> Result<Self> {
        Ok(Self::Tap(CountingTap::open(link.index, &link.name, Some(&accept_incoming(words)))?))
    }

    /// Opens the counters of packets that the stack receives.
    pub(crate) fn softnet() -> Result<Self> {
        SoftnetMeter::open().map(Self::Softnet)
    }

    pub(crate) fn witness(&self) -> Witness {
        match self {
            Self::Tap(_) => Witness::Tap,
            Self::Counter { witness, .. } => *witness,
            Self::Softnet(_) => Witness::Softnet,
        }
    }

    /// Reads counters of 32 bits before they wrap; to be called every second.
    pub(crate) fn poll(&mut self) -> Result<()> {
        match self {
            Self::Tap(tap) => tap.read().map(|_| ()),
            Self::Softnet(softnet) => softnet.read().map(|_| ()),
            Self::Counter { .. } => Ok(()),
        }
    }

    /// Returns the total. Waits for late counts, at most `patience` and while `pause`, which waits briefly, returns
    /// `true`.
    pub(crate) fn finish(
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

/// The filter that accepts incoming frames with these (offset, word) pairs.
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
