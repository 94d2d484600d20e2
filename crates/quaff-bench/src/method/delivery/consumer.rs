//! The consumer at the receiving end of a lab while a sender is measured: the kernel's stack, or an XDP program that
//! reads, counts and drops each frame. It sends nothing.
//!
//! ```c
//! frame = data; if (frame + 38 > data_end) return XDP_DROP;
//! n = state.frames++;
//! if (TIMES) { now = bpf_ktime_get_ns(); if (n == 0) state.first_ns = now; state.last_ns = now; }
//! if (FLOWS && n < FLOWS_MAX) tuples[n] = { source, destination, ports };  // as IPv4 and UDP have them
//! return XDP_DROP;
//! ```

use crate::{Error, Result};
use quaff_lab::{Lab, RX};
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Program, Reg, Size, Verdict};
use quaff_os::ethtool::{Card, Change};
use quaff_os::rtnl::{LinkChange, Rtnl};
use std::collections::HashSet;

use Reg::{R0, R1, R2, R3, R6, R7, R8};

/// Indices of the state's fields.
mod word {
    pub(super) const FRAMES: usize = 0;
    pub(super) const FIRST_NS: usize = 1;
    pub(super) const LAST_NS: usize = 2;
    pub(super) const WORDS: usize = 3;
}

/// Maximum number of frames whose addresses are stored.
const FLOWS_MAX: u64 = 6_000_000;
/// Bytes stored of each frame: two addresses and two ports, padded.
const TUPLE_BYTES: usize = 16;
/// Shortest frame with addresses and ports, bytes: Ethernet, IPv4 and two ports.
const FRAME_BYTES_MIN: i32 = 38;

/// The kind of consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerKind {
    /// The stack with a lab's settings: without GRO.
    Stack,
    /// The stack of an interface with GRO, as on a network card. A veth accepts redirected frames only with GRO or
    /// an XDP program.
    StackGro,
    /// The stack with an XDP program that passes every frame.
    StackXdp,
    /// An XDP program that counts and drops.
    Xdp,
    /// Like `Xdp`, and reads the clock for each frame.
    XdpTimes,
    /// Like `Xdp`, and stores addresses and ports of the first 6 million frames.
    XdpFlows,
}

/// A consumer at the receiving interface of a lab; dropping it restores the interface.
#[derive(Debug)]
pub(super) struct Consumer<'a> {
    lab: &'a Lab,
    kind: ConsumerKind,
    before: u64,
    state: ArrayMap,
    tuples: Option<ArrayMap>,
    program: Option<Program>,
}

impl<'a> Consumer<'a> {
    /// Attaches a consumer to the lab's receiving interface.
    ///
    /// # Errors
    /// The kernel refuses the program.
    pub(super) fn attach(lab: &'a Lab, kind: ConsumerKind) -> Result<Self> {
        let state = ArrayMap::new("quaff_consumer", word::WORDS)?;
        let tuples = match kind {
            ConsumerKind::XdpFlows => {
                Some(ArrayMap::new("quaff_tuples", FLOWS_MAX as usize * TUPLE_BYTES / 8)?)
            }
            _ => None,
        };
        let program = match kind {
            ConsumerKind::Stack | ConsumerKind::StackGro => None,
            ConsumerKind::StackXdp => Some(Program::load_xdp("quaff_pass", pass())?),
            _ => {
                let insns = assemble(&state, kind == ConsumerKind::XdpTimes, tuples.as_ref());
                Some(Program::load_xdp("quaff_consumer", insns)?)
            }
        };
        let mut consumer = Self { lab, kind, before: 0, state, tuples, program };
        consumer.apply(true)?;
        consumer.before = consumer.stack_frames()?;
        Ok(consumer)
    }

    /// Number of frames that have arrived since it was attached.
    pub(super) fn frames(&self) -> Result<u64> {
        match self.kind {
            ConsumerKind::Stack | ConsumerKind::StackGro | ConsumerKind::StackXdp => {
                Ok(self.stack_frames()? - self.before)
            }
            _ => Ok(self.state.load(word::FRAMES)),
        }
    }

    /// Time from the first frame to the last by the program's clock, s; for [`ConsumerKind::XdpTimes`].
    pub(super) fn span_seconds(&self) -> f64 {
        self.state.load(word::LAST_NS).saturating_sub(self.state.load(word::FIRST_NS)) as f64 / 1e9
    }

    /// Number of distinct flows (addresses and ports); for [`ConsumerKind::XdpFlows`].
    ///
    /// # Errors
    /// More than 6 million frames arrived.
    pub(super) fn flows(&self) -> Result<u64> {
        let frames = self.frames()?;
        let Some(tuples) = self.tuples.as_ref().filter(|_| frames <= FLOWS_MAX) else {
            let what = format!("{frames} frames arrived, but flows are counted only among {FLOWS_MAX}");
            return Err(Error::Tool { name: "the consumer".into(), what });
        };
        let words = |at: usize| [tuples.load(2 * at), tuples.load(2 * at + 1)];
        Ok((0..frames as usize).map(words).collect::<HashSet<_>>().len() as u64)
    }

    fn stack_frames(&self) -> Result<u64> {
        Ok(self.lab.stats(RX)?.rx_packets)
    }

    fn apply(&self, attached: bool) -> Result<()> {
        let (kind, program) = (self.kind, self.program.as_ref());
        Ok(self.lab.rx.run(|| {
            if kind == ConsumerKind::StackGro {
                Card::change(RX.name, Change::Feature("rx-gro", attached))?;
            }
            if let Some(program) = program {
                let mut rtnl = Rtnl::open()?;
                let index = rtnl.link(RX.name)?.index;
                rtnl.change(index, LinkChange::Xdp(attached.then_some(program)))?;
            }
            Ok::<_, quaff_os::Error>(())
        })??)
    }
}

impl Drop for Consumer<'_> {
    fn drop(&mut self) {
        // If this fails, the lab still removes the interface.
        let _ = self.apply(false);
    }
}

fn pass() -> Asm {
    let mut asm = Asm::default();
    asm.mov64(R0, Verdict::XdpPass);
    asm.exit();
    asm
}

fn assemble(state: &ArrayMap, times: bool, tuples: Option<&ArrayMap>) -> Asm {
    let mut asm = Asm::default();
    let drop = asm.label();
    // R6 = the frame, R7 = the state, R8 = the number of the frame.
    asm.ld_frame(R6, R2);
    asm.mov64(R3, R6);
    asm.alu64(Alu::Add, R3, FRAME_BYTES_MIN);
    asm.jmp(Jmp::Jgt, R3, R2, drop);
    asm.ld_map_value(R7, state, 0);
    asm.ldx_mem(Size::Dw, R8, R7, word::FRAMES * 8);
    if let Some(tuples) = tuples {
        keep_tuple(&mut asm, tuples);
    }
    if times {
        keep_times(&mut asm);
    }
    asm.alu64(Alu::Add, R8, 1);
    asm.st_mem(Size::Dw, R7, R8, word::FRAMES * 8);
    asm.place(drop);
    asm.mov64(R0, Verdict::XdpDrop);
    asm.exit();
    asm
}

/// Emits `tuples[R8] = …` while there is room.
fn keep_tuple(asm: &mut Asm, tuples: &ArrayMap) {
    /// Offsets of the IPv4 addresses, and of the ports after a header of 20 bytes.
    const ADDRESSES: [usize; 3] = [26, 30, 34];
    let full = asm.label();
    asm.jmp(Jmp::Jge, R8, FLOWS_MAX as i32, full);
    asm.mov64(R2, R8);
    asm.alu64(Alu::Lsh, R2, TUPLE_BYTES.ilog2() as i32);
    asm.ld_map_value(R1, tuples, 0);
    asm.alu64(Alu::Add, R1, R2);
    for (number, from) in ADDRESSES.into_iter().enumerate() {
        asm.ldx_mem(Size::W, R3, R6, from);
        asm.st_mem(Size::W, R1, R3, number * 4);
    }
    asm.place(full);
}

fn keep_times(asm: &mut Asm) {
    let not_first = asm.label();
    asm.call(Helper::KtimeGetNs);
    asm.jmp(Jmp::Jne, R8, 0, not_first);
    asm.st_mem(Size::Dw, R7, R0, word::FIRST_NS * 8);
    asm.place(not_first);
    asm.st_mem(Size::Dw, R7, R0, word::LAST_NS * 8);
}
