//! Packets of one interface that follow one another in a file, counted together. It never looks at their bytes.

use super::translation::{InterfaceCounts, Translation, counts_of};
use quaff_file::verify::LedgerBuilder;
use quaff_wire::decode::Frame;

/// Packets of one interface that follow one another, until they are counted.
#[derive(Debug, Default)]
pub(super) struct InterfaceRun {
    /// Its number in the section.
    interface: u32,
    /// Its number in the output; `None` if it has none there.
    pub(super) number: Option<u16>,
    packets: u64,
}

impl InterfaceRun {
    /// Takes a packet, which may begin another run, and the drops that it records.
    #[inline]
    pub(super) fn take(
        &mut self,
        packet: &Frame<'_>,
        ledger: &mut LedgerBuilder,
        counted: &mut Vec<InterfaceCounts>,
        translation: &mut Translation,
    ) {
        if packet.interface != self.interface || self.packets == 0 {
            self.end(ledger, counted, translation);
            let number = translation.of_section.get(packet.interface as usize).copied().flatten();
            *self = Self { interface: packet.interface, number, packets: 0 };
        }
        self.packets += 1;
        if packet.dropcount > 0 {
            ledger.drops(packet.interface, packet.dropcount);
        }
    }

    /// Counts the packets, and ends the run.
    #[inline(never)]
    pub(super) fn end(
        &mut self,
        ledger: &mut LedgerBuilder,
        counted: &mut Vec<InterfaceCounts>,
        translation: &mut Translation,
    ) {
        let Self { interface, number, packets } = std::mem::take(self);
        if packets == 0 {
            return;
        }
        ledger.frames(interface, packets);
        match number {
            Some(number) => counts_of(counted, number).received += packets,
            None => translation.unsuited += packets,
        }
    }
}
