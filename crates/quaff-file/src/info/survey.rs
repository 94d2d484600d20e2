//! The survey of one file: its counters, and the descriptions of its sections and interfaces.
//!
//! It takes the items of a decoder in the order of the file. It never reads files.

use super::report::{Drops, FileInfo, InterfaceInfo, Origin};
use super::tally::{InterfaceTally, Sizes, Tally};
use crate::verify::ledger::LedgerBuilder;
use quaff_wire::decode::{Interface, Item, Section};

/// Interfaces of a file that are described; others are only counted.
const INTERFACES_MAX: usize = 1024;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 1024;

/// The survey of a file.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) tally: Tally,
    sections: u64,
    origin: Option<Origin>,
    /// The interfaces of the sections before the current one, and of the current one.
    interfaces: Vec<InterfaceInfo>,
    /// Index in `interfaces` of the first one of the current section.
    open_from: usize,
    interface_count: u64,
    sizes: Sizes,
    ledger: LedgerBuilder,
}

impl Survey {
    #[inline]
    pub(super) fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Frame(frame) => self.tally.frame(frame),
            Item::Statistics(statistics) => self.tally.statistics(*statistics),
            Item::Section(section) => self.section(section),
            Item::Interface(interface) => self.interface(interface),
            Item::Names(_) | Item::Jump(_) => {}
        }
    }

    fn section(&mut self, section: &Section<'_>) {
        self.close();
        self.sections += 1;
        self.tally.is_zero_no_time = true;
        if self.origin.is_none() {
            self.origin = Some(Origin {
                hardware: section.hardware.map(text),
                os: section.os.map(text),
                application: section.userappl.map(text),
                comment: section.comment.map(text),
            });
        }
    }

    fn interface(&mut self, interface: &Interface<'_>) {
        if interface.id == 0 && !self.tally.interfaces.is_empty() {
            // Its header was skipped as damage.
            self.close();
            self.sections += 1;
        }
        self.tally.interface(interface);
        self.interface_count += 1;
        if self.interfaces.len() < INTERFACES_MAX {
            self.interfaces.push(InterfaceInfo::new(self.sections, interface, text));
        }
    }

    /// Ends the current section.
    fn close(&mut self) {
        let tallies = std::mem::take(&mut self.tally.interfaces);
        for (info, tally) in self.interfaces[self.open_from..].iter_mut().zip(&tallies) {
            info.count(tally);
        }
        self.open_from = self.interfaces.len();
        tallies.iter().for_each(|tally| self.sizes.absorb(&tally.sizes));
        self.ledger.section(tallies.into_iter().map(|tally: InterfaceTally| tally.counters).collect());
    }

    /// Fills the part of a report that comes from the packets.
    pub(super) fn finish(mut self, info: &mut FileInfo) {
        self.close();
        let Tally { order, places, .. } = self.tally;
        info.count(&self.sizes);
        (info.untimed, info.backward, info.late_max_ns) =
            (self.sizes.packets - order.timed, order.backward, order.late_max_ns);
        if order.timed > 0 {
            info.set_times(order.earliest_ns, order.latest_ns);
        }
        info.gaps = order.gaps();
        info.drops = self.ledger.finish(0).map(|ledger| Drops::new(ledger, places));
        (info.sections, info.interface_count) = (self.sections, self.interface_count);
        (info.interfaces, info.origin) = (self.interfaces, self.origin.unwrap_or_default());
    }
}

/// A text of a file, cut where it is very long.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_BYTES_MAX)]);
    text.trim_end_matches('\0').to_owned()
}
