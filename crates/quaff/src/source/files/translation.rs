//! The interfaces of files and their numbers in the output, and the packets of each. It reads nothing.

use quaff_file::Interfaces;
use quaff_wire::decode::{self, Item};
use quaff_wire::pcapng::{self, Interface, interface_options};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The packets of an interface.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::source) struct InterfaceCounts {
    pub(in crate::source) received: u64,
    /// Recorded drops that stand with no packet: by the interface, and by the operating system.
    pub(in crate::source) ifdrop: u64,
    pub(in crate::source) osdrop: u64,
}

/// The interfaces of a file by those of the output.
#[derive(Debug)]
pub(super) struct Translation {
    pub(super) interfaces: Interfaces,
    pub(super) numbers: Numbers,
    /// Interfaces of sections with different origins stay apart; otherwise `origin` stays empty.
    pub(super) knows_origin: bool,
    pub(super) origin: Origin,
    /// Equal ones in the current section.
    pub(super) equal: HashMap<Interface, u32>,
    /// By number in the current section; `None` where the output cannot hold its packets.
    pub(super) of_section: Vec<Option<u16>>,
    /// A pcap file is of one link type.
    pub(super) is_pcap: bool,
    pub(super) unsuited: u64,
    /// Names had no room in the output.
    pub(super) lacks_names: bool,
}

pub(in crate::source) fn counts_of(counted: &mut Vec<InterfaceCounts>, number: u16) -> &mut InterfaceCounts {
    let number = usize::from(number);
    if number >= counted.len() {
        counted.resize(number + 1, InterfaceCounts::default());
    }
    &mut counted[number]
}

impl Translation {
    pub(super) fn begin_section(&mut self) {
        self.of_section.clear();
        self.equal.clear();
    }

    pub(super) fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Interface(interface) => self.add(interface),
            Item::Section(section) if self.knows_origin => {
                let texts = [section.hardware, section.os, section.userappl];
                self.origin = texts.map(|text| text.unwrap_or_default().to_vec());
            }
            Item::Section(_) | Item::Frame(_) | Item::Statistics(_) | Item::Names(_) | Item::Jump(_) => {}
        }
    }

    /// Takes a block of names; returns the number of them all.
    pub(super) fn add_names(&mut self, found: decode::RawNames<'_>) -> usize {
        let block = pcapng::names(found);
        self.lacks_names |= !block.is_empty() && !self.interfaces.add_names(block);
        self.interfaces.names_found().1
    }

    /// Sets its number in the output: that of an equal interface, or a new one.
    fn add(&mut self, interface: &decode::Interface<'_>) {
        let found = owned(interface);
        let first = self.interfaces.get(0);
        let is_suited = !self.is_pcap || first.is_none_or(|first| first.linktype == found.linktype);
        let equal = self.equal.entry(found.clone()).or_default();
        *equal += 1;
        let equal = *equal - 1;
        let number = || self.numbers.of(&self.origin, found, equal, &self.interfaces);
        let number = if is_suited { number() } else { None };
        self.of_section.push(number);
    }
}

/// The texts of the machine and the program that captured a section. Interfaces of different ones differ.
pub(super) type Origin = [Vec<u8>; 3];
/// An interface of a section, and its number among equal ones.
type InterfaceKey = (Origin, Interface, u32);

/// The interfaces that files have described so far, and their numbers in the output: by the section's origin, and by
/// their numbers among equal ones of a section. A file may have thousands, and describe them again in each section.
/// Files that are read side by side share them.
#[derive(Debug, Clone, Default)]
pub(in crate::source) struct Numbers(Arc<Mutex<HashMap<InterfaceKey, u16>>>);

impl Numbers {
    /// The number of `found` in `interfaces`, which a new one gets; `None` when the output cannot have more.
    fn of(&self, origin: &Origin, found: Interface, equal: u32, interfaces: &Interfaces) -> Option<u16> {
        // The map is consistent between any two statements.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (origin.clone(), found, equal);
        if let Some(number) = known.get(&key) {
            return Some(*number);
        }
        let number = interfaces.add(key.1.clone())?;
        known.insert(key, number);
        Some(number)
    }
}

fn owned(interface: &decode::Interface<'_>) -> Interface {
    let text = |text: Option<&[u8]>| String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
    Interface {
        linktype: interface.linktype_to_write(),
        snaplen: interface.snaplen,
        name: text(interface.name),
        description: text(interface.description),
        filter: interface.filter.map(|filter| text(Some(filter))),
        mac: interface.mac,
        speed_bps: interface.speed_bps,
        os: text(interface.os),
        fcs_len: interface.fcs_len,
        others: interface_options(interface.options),
    }
}
