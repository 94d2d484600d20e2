//! The mirror port of a switch: an egress program drops and counts frames that exceed its rate and buffer. It only
//! models the queue; frames that fit leave at once.

use crate::Result;
use quaff_os::bpf::{Alu, ArrayMap, Asm, Helper, Jmp, Program, Reg, Size, Verdict};
use quaff_os::rtnl::{LinkChange, Rtnl};

/// FCS, preamble, start-of-frame delimiter and inter-packet gap; and the smallest frame with them, bytes (IEEE 802.3).
const LINK_BYTES: i32 = 24;
const LINK_FRAME_BYTES_MIN: i32 = 84;
/// Typical buffer of a switch per port, bytes.
const ROOM_BYTES: u64 = 256 << 10;
/// Times are in 1/256 ns, so that the time of a byte is a whole number: 2048 at 1 Gbit/s.
const UNITS_BITS: i32 = 8;
/// Time of a byte at 1 Mbit/s.
const BYTE_UNITS: u64 = 8000 << UNITS_BITS;
/// Map indices: the time at which the queue becomes empty, and the number of dropped frames.
const EMPTY_AT: usize = 0;
const DROPPED: usize = 1;

/// A port with a limited rate.
#[derive(Debug)]
pub(super) struct MirrorPort {
    account: ArrayMap,
}

impl MirrorPort {
    /// Limits the interface `name` in the thread's namespace to `mbps` Mbit/s at layer 1.
    pub(super) fn limit(name: &str, mbps: u32) -> Result<Self> {
        let account = ArrayMap::new("quaff_mirror", DROPPED + 1)?;
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.link(name)?.index;
        rtnl.change(index, LinkChange::Clsact)?;
        rtnl.change(index, LinkChange::OnEgress(&Program::load_tc("quaff_mirror", police(&account, mbps))?))?;
        Ok(Self { account })
    }

    /// Number of frames that it has dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.account.load(DROPPED)
    }
}

/// Drops frames that do not fit in the queue (the generic cell rate algorithm, ITU-T I.371 annex A). If two cores send
/// at the same time, one of the two frames may not be counted.
fn police(account: &ArrayMap, mbps: u32) -> Asm {
    let byte_units = BYTE_UNITS / u64::from(mbps.max(1));
    let mut asm = Asm::default();
    let [is_long, is_waiting, is_full] = [(); 3].map(|()| asm.label());
    // R6: the time that the frame takes.
    asm.ld_skb_len(Reg::R6, Reg::R1);
    asm.alu64(Alu::Add, Reg::R6, LINK_BYTES);
    asm.jmp(Jmp::Jge, Reg::R6, LINK_FRAME_BYTES_MIN, is_long);
    asm.mov64(Reg::R6, LINK_FRAME_BYTES_MIN);
    asm.place(is_long);
    asm.ld_imm64(Reg::R1, byte_units);
    asm.alu64(Alu::Mul, Reg::R6, Reg::R1);
    // R8: now. R7: the time at which the queue becomes empty.
    asm.call(Helper::KtimeGetNs);
    asm.mov64(Reg::R8, Reg::R0);
    asm.alu64(Alu::Lsh, Reg::R8, UNITS_BITS);
    asm.ld_map_value(Reg::R9, account, 0);
    asm.ldx_mem(Size::Dw, Reg::R7, Reg::R9, EMPTY_AT * 8);
    asm.jmp(Jmp::Jge, Reg::R7, Reg::R8, is_waiting);
    asm.mov64(Reg::R7, Reg::R8);
    asm.place(is_waiting);
    asm.alu64(Alu::Add, Reg::R7, Reg::R6);
    // The latest time by which the last byte may leave.
    asm.ld_imm64(Reg::R1, ROOM_BYTES * byte_units);
    asm.alu64(Alu::Add, Reg::R8, Reg::R1);
    asm.jmp(Jmp::Jgt, Reg::R7, Reg::R8, is_full);
    asm.st_mem(Size::Dw, Reg::R9, Reg::R7, EMPTY_AT * 8);
    asm.mov64(Reg::R0, Verdict::TcOk);
    asm.exit();
    asm.place(is_full);
    asm.mov64(Reg::R1, 1);
    asm.atomic_fetch_add64(Reg::R9, DROPPED * 8, Reg::R1);
    asm.mov64(Reg::R0, Verdict::TcShot);
    asm.exit();
    asm
}
