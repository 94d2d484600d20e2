//! The instructions for the 5-tuple of each frame: a counter whose digits are indices of ranges.
//!
//! Never divides: the digits count up like an odometer. Equivalent C:
//!
//! ```c
//! for (i = 0; i < STEPS; i++) {                            // unrolled
//!     u64 value = BASE[i] + state.digits[i];
//!     store_be(frame + OFFSET[i], value);
//!     *(IS_ADDRESS[i] ? addresses : ports) += value;
//! }
//! if (++state.flow >= CYCLE) {
//!     state.flow = state.digits[..] = 0;                   // all flows were sent
//! } else for (i = 0; i < STEPS; i++) {                     // unrolled
//!     if (++state.digits[i] < COUNT[i]) break;
//!     state.digits[i] = 0;                                 // and the next digit is counted up
//! }
//! ```

use super::template::Template;
use crate::bpf_live::at;
use crate::state::word;
use quaff_os::bpf::{Alu, Asm, Jmp, Reg, Size};

use Reg::{R0, R1, R2, R3, R5, R6, R7};

/// Writes addresses, ports and the checksum of the IP header. R5 = sum of the addresses that vary, R0 = sum of the
/// ports that vary. Clobbers R1 to R3.
pub(super) fn step_tuple(asm: &mut Asm, template: &Template) {
    asm.mov64(R5, 0);
    asm.mov64(R0, 0);
    if template.steps.is_empty() {
        return;
    }
    for (digit, step) in template.steps.iter().enumerate() {
        asm.ldx_mem(Size::Dw, R1, R6, at(word::DIGITS + digit));
        asm.ld_imm64(R2, u64::from(step.first));
        asm.alu64(Alu::Add, R2, R1);
        asm.alu64(Alu::Add, if step.is_address { R5 } else { R0 }, R2);
        let (size, bits) = if step.is_address { (Size::W, 32) } else { (Size::H, 16) };
        asm.to_be(R2, bits);
        asm.st_mem(size, R7, R2, step.offset);
    }
    asm.mov64(R2, i32::from(template.ip_base_sum));
    asm.alu64(Alu::Add, R2, R5);
    complement(asm);
    asm.to_be(R2, 16);
    asm.st_mem(Size::H, R7, R2, template.ip_checksum_offset());
    count_up(asm, template);
}

/// Advances the digits to the next frame.
fn count_up(asm: &mut Asm, template: &Template) {
    let (again, done) = (asm.label(), asm.label());
    asm.ldx_mem(Size::Dw, R1, R6, at(word::FLOW));
    asm.alu64(Alu::Add, R1, 1);
    asm.ld_imm64(R3, template.cycle);
    asm.jmp(Jmp::Jge, R1, R3, again);
    asm.st_mem(Size::Dw, R6, R1, at(word::FLOW));
    for (digit, step) in template.steps.iter().enumerate() {
        let carry = asm.label();
        let place = at(word::DIGITS + digit);
        asm.ldx_mem(Size::Dw, R1, R6, place);
        asm.alu64(Alu::Add, R1, 1);
        asm.ld_imm64(R3, step.count);
        asm.jmp(Jmp::Jge, R1, R3, carry);
        asm.st_mem(Size::Dw, R6, R1, place);
        asm.ja(done);
        asm.place(carry);
        asm.st_mem(Size::Dw, R6, 0, place);
    }
    asm.ja(done);
    asm.place(again);
    asm.st_mem(Size::Dw, R6, 0, at(word::FLOW));
    for digit in 0..template.steps.len() {
        asm.st_mem(Size::Dw, R6, 0, at(word::DIGITS + digit));
    }
    asm.place(done);
}

/// R2 = 16-bit complement of the sum in R2, which is below 2^35. Clobbers R3.
pub(super) fn complement(asm: &mut Asm) {
    // Three folds leave 16 bits.
    for _ in 0..3 {
        asm.mov64(R3, R2);
        asm.alu64(Alu::And, R3, 0xffff);
        asm.alu64(Alu::Rsh, R2, 16);
        asm.alu64(Alu::Add, R2, R3);
    }
    asm.alu64(Alu::Xor, R2, 0xffff);
}
