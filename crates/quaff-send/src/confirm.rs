//! Confirms the number of sent frames with a kernel counter. It never counts frames itself.
//!
//! Injected frames bypass the device, so `rx_packets` does not count them. Two other counters do. A counting tap sees
//! the same frames as every capture on the interface and counts only the stream; it costs about 80 ns per frame.
//! `rx_otherhost_dropped` is free: the stack counts each IPv4 packet for another host's MAC there, right after the
//! taps. The tap is used if the rate allows it, or if frames may not reach the stack.
//!
//! Missing frames may be in a drop counter on their way: of the queueing discipline, the driver, or a backlog.

use quaff_os::Result;
use quaff_os::link_counters::{LinkCounters, Tap};
use quaff_os::packet::{CountingTap, Insn};
use quaff_os::rtnl::LinkStats;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::softnet::SoftnetMeter;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Longest wait for late counters: drivers update them at intervals, and another core may still be processing.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2500);
/// Polling interval of late counters.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// The counter that confirmed the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// A counting tap, which counts only the frames of the run.
    Tap,
    /// The interface's counter of packets to other hosts; includes packets from other senders.
    RxOtherhostDropped,
    /// The interface's counter of sent packets; includes packets from other senders.
    TxPackets,
    /// Frames that the stack received on all cores and interfaces (`/proc/net/softnet_stat`).
    Softnet,
}

/// Drops on the way to the counter. They include frames from other senders and retransmitted frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SendDrops {
    /// Frames dropped by the queueing discipline of the interface, or by a tc(8) filter; 0 if no frame is missing.
    pub qdisc_dropped: u64,
    /// Frames that the driver dropped (`tx_dropped`).
    pub tx_dropped: u64,
    /// Injected frames dropped before the stack by a core's backlog (RPS, `net.core.netdev_max_backlog`) or by the
    /// driver.
    pub backlog_dropped: u64,
}

/// The number of confirmed frames, and the drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub(crate) frames: u64,
    pub(crate) drops: SendDrops,
}

/// The counters of an interface, and their values before the run.
pub(crate) struct Confirm {
    counter: Counter,
    /// `None` if they cannot be read.
    drops: Option<DropCounters>,
}

/// A counter and its value before the run.
enum Counter {
    Tap(CountingTap),
    Link { rtnl: Rtnl, index: u32, witness: Witness, before: u64 },
    Softnet(SoftnetMeter),
}

/// The drop counters of an interface.
struct DropCounters {
    rtnl: Rtnl,
    link: LinkCounters,
    softnet: SoftnetMeter,
    /// True if frames are injected, not sent.
    is_injected: bool,
}

impl DropCounters {
    fn open(link: &Link, is_injected: bool) -> Option<Self> {
        let mut rtnl = Rtnl::open().ok()?;
        let link = LinkCounters::open(link, &mut rtnl).ok()?;
        Some(Self { rtnl, link, softnet: SoftnetMeter::open().ok()?, is_injected })
    }

    /// Reads all counters; if frames are missing, that may take seconds.
    fn read(mut self, is_missing: bool) -> Result<SendDrops> {
        match is_missing {
            true => self.link.settle(&mut self.rtnl),
            false => self.link.read(&mut self.rtnl)?,
        }
        let drops = self.link.drops();
        if !self.is_injected {
            let (qdisc_dropped, tx_dropped) = (drops.qdisc_dropped, drops.tx_dropped);
            return Ok(SendDrops { qdisc_dropped, tx_dropped, ..SendDrops::default() });
        }
        let mut backlog = self.softnet.read()?.of(drops.cores.as_ref()).dropped;
        // The rest of rx_dropped are frames that the stack dropped after the taps.
        let tap = Tap { link: &drops, other_protocols: drops.rx_dropped, hidden: 0 };
        let backlog_dropped = tap.before_tap(&mut backlog).dropped;
        Ok(SendDrops { backlog_dropped, ..SendDrops::default() })
    }
}

impl Confirm {
    /// Opens a counter of the interface.
    pub(crate) fn counter(witness: Witness, link: &Link) -> Result<Self> {
        let mut rtnl = Rtnl::open()?;
        let before = counter(witness, &rtnl.stats(link.index)?);
        let drops = DropCounters::open(link, witness != Witness::TxPackets);
        Ok(Self { counter: Counter::Link { rtnl, index: link.index, witness, before }, drops })
    }

    /// Opens a tap for incoming frames with these (offset, 32-bit word) pairs.
    pub(crate) fn tap(link: &Link, words: &[(u32, u32)]) -> Result<Self> {
        let tap = CountingTap::open(link.index, &link.name, Some(&accept_incoming(words)))?;
        Ok(Self { counter: Counter::Tap(tap), drops: DropCounters::open(link, true) })
    }

    /// Opens the counters of packets that the stack receives, for frames injected into `link`.
    pub(crate) fn softnet(link: &Link) -> Result<Self> {
        Ok(Self { counter: Counter::Softnet(SoftnetMeter::open()?), drops: DropCounters::open(link, true) })
    }

    pub(crate) fn witness(&self) -> Witness {
        match &self.counter {
            Counter::Tap(_) => Witness::Tap,
            Counter::Link { witness, .. } => *witness,
            Counter::Softnet(_) => Witness::Softnet,
        }
    }

    /// Reads 32-bit counters before they wrap; must be called every second.
    pub(crate) fn poll(&mut self) -> Result<()> {
        match &mut self.counter {
            Counter::Tap(tap) => tap.read().map(|_| ()),
            Counter::Softnet(softnet) => softnet.read().map(|_| ()),
            Counter::Link { .. } => Ok(()),
        }
    }

    /// Returns the total. Waits for late counters, up to `patience` and while `pause`, which waits briefly, returns
    /// `true`.
    pub(crate) fn finish(
        mut self,
        sent: u64,
        patience: Duration,
        mut pause: impl FnMut() -> bool,
    ) -> Result<Confirmed> {
        let begun = Instant::now();
        loop {
            let frames = match &mut self.counter {
                Counter::Tap(tap) => tap.read()?,
                Counter::Link { rtnl, index, witness, before } => {
                    counter(*witness, &rtnl.stats(*index)?).saturating_sub(*before)
                }
                Counter::Softnet(softnet) => softnet.read()?.of(None).processed,
            };
            if frames >= sent || begun.elapsed() > patience || !pause() {
                let drops = self.drops.and_then(|drops| drops.read(frames < sent).ok()).unwrap_or_default();
                return Ok(Confirmed { frames, drops });
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
