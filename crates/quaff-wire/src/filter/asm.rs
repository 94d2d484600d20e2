//! Assembles instructions: labels, and jumps that exceed the eight bits of a test.

use super::insn::{Insn, code};

/// A jump target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

enum Item {
    Plain(Insn),
    Branch { code: u16, k: u32, yes: Label, no: Label },
    Jump(Label),
}

/// A program under construction. All jumps go forward.
#[derive(Default)]
pub(super) struct Asm {
    items: Vec<Item>,
    /// The item that each label precedes.
    labels: Vec<Option<usize>>,
}

impl Asm {
    /// Creates a label, to be placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.items.len());
    }

    /// Appends an instruction that does not jump.
    pub(super) fn put(&mut self, code: u16, k: u32) {
        self.items.push(Item::Plain(Insn { code, jt: 0, jf: 0, k }));
    }

    /// Appends a test, `code` with its operand, that continues at `yes` or `no`.
    pub(super) fn branch(&mut self, code: u16, k: impl Into<u32>, yes: Label, no: Label) {
        self.items.push(Item::Branch { code: code | code::JMP, k: k.into(), yes, no });
    }

    /// Continues after this instruction if the test of A against `k` holds, otherwise at `no`.
    pub(super) fn expect(&mut self, test: u16, k: impl Into<u32>, no: Label) {
        let next = self.label();
        self.branch(test | code::K, k, next, no);
        self.place(next);
    }

    /// Continues after this instruction if the test of A against `k` does not hold, otherwise at `yes`.
    pub(super) fn refuse(&mut self, test: u16, k: impl Into<u32>, yes: Label) {
        let next = self.label();
        self.branch(test | code::K, k, yes, next);
        self.place(next);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.items.push(Item::Jump(label));
    }

    /// Returns the program. A test with a distant target becomes a test and two jumps.
    pub(super) fn finish(&self) -> Vec<Insn> {
        let mut sizes = vec![1usize; self.items.len()];
        loop {
            let starts = starts(&sizes);
            let is_far =
                |at: usize, label: Label| self.distance(&starts, at, 1, label) > usize::from(u8::MAX);
            let grown: Vec<_> = (0..sizes.len())
                .filter(|at| sizes[*at] == 1)
                .filter(|at| matches!(self.items[*at], Item::Branch { yes, no, .. } if is_far(*at, yes) || is_far(*at, no)))
                .collect();
            if grown.is_empty() {
                return self.emit(&sizes, &starts);
            }
            grown.into_iter().for_each(|at| sizes[at] = 3);
        }
    }

    fn emit(&self, sizes: &[usize], starts: &[usize]) -> Vec<Insn> {
        let mut insns = Vec::with_capacity(starts.last().copied().unwrap_or(0));
        for (at, item) in self.items.iter().enumerate() {
            let far = |offset, label| self.distance(starts, at, offset, label) as u32;
            let ja = |k| Insn { code: code::JMP | code::JA, jt: 0, jf: 0, k };
            match *item {
                Item::Plain(insn) => insns.push(insn),
                Item::Jump(label) => insns.push(ja(far(1, label))),
                Item::Branch { code, k, yes, no } if sizes[at] == 1 => {
                    insns.push(Insn { code, jt: far(1, yes) as u8, jf: far(1, no) as u8, k });
                }
                Item::Branch { code, k, yes, no } => {
                    insns.extend([Insn { code, jt: 0, jf: 1, k }, ja(far(2, yes)), ja(far(3, no))]);
                }
            }
        }
        insns
    }

    /// Number of instructions between `offset` after the start of item `at`, and a label.
    fn distance(&self, starts: &[usize], at: usize, offset: usize, label: Label) -> usize {
        let target = self.labels[label.0].expect("every label that is used has been placed");
        let from = starts[at] + offset;
        starts[target].checked_sub(from).expect("jumps go forward")
    }
}

/// Start of each item, and the end of the last one.
fn starts(sizes: &[usize]) -> Vec<usize> {
    let mut at = 0;
    let mut starts = vec![0];
    starts.extend(sizes.iter().map(|size| {
        at += size;
        at
    }));
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Program, Subject};

    #[test]
    fn a_jump_reaches_any_distance() {
        for padding in [0, 3, 253, 254, 255, 256, 1000] {
            let mut asm = Asm::default();
            let (yes, no) = (asm.label(), asm.label());
            asm.put(code::LD | code::LEN, 0);
            asm.branch(code::JEQ, 7u32, yes, no);
            (0..padding).for_each(|_| asm.put(code::RET, 1));
            asm.place(yes);
            asm.put(code::RET, 2);
            (0..padding).for_each(|_| asm.put(code::RET, 3));
            asm.place(no);
            asm.put(code::RET, 4);
            let insns = asm.finish();
            let program = Program::new(&insns).expect("a program");
            let of = |wire_len| program.run(&Subject { wire_len, ..Subject::default() });
            assert_eq!((of(7), of(8)), (2, 4), "{padding}");
            assert_eq!(insns.len(), 4 + 2 * padding + if 2 * padding >= 255 { 2 } else { 0 });
        }
    }
}
