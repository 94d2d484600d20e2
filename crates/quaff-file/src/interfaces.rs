//! The interfaces of a capture: those of its lanes first, then one for each tunnel session (sender and
//! session id) found while it runs.
//!
//! Numbers never change. A lane that finds a session gets the number of its interface here; the writer
//! describes the interface in the file before the first chunk that refers to it. Packets that are read from files, and
//! may not all be written, number interfaces in the output by their first packets.
//!
//! Names of addresses that files have are kept here too: each output file has those found up to its last packet.

use quaff_wire::pcapng::Interface;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of interfaces: a number fits a frame descriptor.
pub const INTERFACES_MAX: usize = 1 << 16;

/// Largest sum of the texts of all interfaces, bytes: they are in the header of each file, and may come from a file
/// that has many long ones.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Largest sum of all blocks of names, bytes, for the same reason.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// The snaplen of all interfaces for tcpdump, which takes a single one: libpcap's largest.
const ONE_SNAPLEN: u32 = 262_144;

/// The reader of an output, which matters where interfaces come with their first packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputReader {
    /// Programs that read files: an interface is there for its drops too.
    #[default]
    Later,
    /// A program at the end of a pipe, perhaps one that takes a single link type: an interface without packets is there
    /// for its drops only if it has the link type of the first one.
    AtOnce,
    /// tcpdump that prints packets: it takes a single link type and a single snaplen, and no counters.
    Tcpdump,
}

/// The interfaces of a run, shared by its lanes and its writer.
///
/// Each has a number inside the run, and one in the output, where it is declared. Both are the same unless the list was
/// made by [`Interfaces::by_first_packet`].
#[derive(Debug, Clone, Default)]
pub struct Interfaces(Arc<Mutex<Described>>);

#[derive(Debug, Default)]
struct Described {
    interfaces: Vec<Interface>,
    /// The numbers of the declared interfaces, in the order of the output.
    order: Vec<u16>,
    /// The number of each interface in the output.
    declared: Vec<Option<u16>>,
    waits_for_packets: bool,
    reader: OutputReader,
    /// The interface of each lane that has one from the start; empty where each has one of its own.
    of_lanes: Vec<u16>,
    /// The interfaces of spare lanes, by lane, and the first of those lanes.
    of_spares: BTreeMap<usize, u16>,
    first_spare: Option<usize>,
    /// For each interface that is a session of a tunnel: the interface that received it, and the session's number.
    sessions: HashMap<u16, (u16, Option<u32>)>,
    /// The link type of a format that holds a single one, once it is decided.
    only_linktype: Option<u16>,
    text_bytes: usize,
    names: Names,
}

/// Name Resolution Blocks, each once, in the order in which they were found.
#[derive(Debug, Default)]
struct Names {
    blocks: Vec<Arc<[u8]>>,
    known: HashSet<Arc<[u8]>>,
    /// For each block, the sum of its bytes and those of the blocks before it.
    ends: Vec<usize>,
    /// The number of those found before the first packet.
    first: usize,
}

impl Described {
    fn declare(&mut self, id: u16) -> Option<u16> {
        let declared = self.declared.get_mut(usize::from(id))?;
        if declared.is_none() {
            *declared = Some(self.order.len() as u16);
            self.order.push(id);
        }
        *declared
    }

    fn push(&mut self, interface: Interface) -> u16 {
        let id = self.interfaces.len() as u16;
        self.interfaces.push(interface);
        self.declared.push(None);
        if !self.waits_for_packets {
            self.declare(id);
        }
        id
    }
}

impl Interfaces {
    /// Creates the list with the interfaces of the lanes, in their order.
    pub fn new(known: Vec<Interface>) -> Self {
        Self::with(known, false)
    }

    /// As [`Interfaces::new`], but an interface gets its number in the output with its first packet
    /// ([`declare`](Self::declare)): readers refuse files with link types that no packet has.
    pub fn by_first_packet(known: Vec<Interface>) -> Self {
        Self::with(known, true)
    }

    fn with(known: Vec<Interface>, waits_for_packets: bool) -> Self {
        let text_bytes = known.iter().map(text_bytes).sum();
        let mut described = Described { waits_for_packets, text_bytes, ..Described::default() };
        for interface in known {
            described.push(interface);
        }
        Self(Arc::new(Mutex::new(described)))
    }

    /// The output is for such a reader.
    pub fn for_reader(self, reader: OutputReader) -> Self {
        self.all().reader = reader;
        self
    }

    /// The interface of each lane, by number: several lanes may have the same.
    pub fn with_lanes(self, of_lanes: Vec<u16>) -> Self {
        self.all().of_lanes = of_lanes;
        self
    }

    /// Lanes from `first` on have no interface until [`assign`](Self::assign).
    pub fn with_spare_lanes(self, first: usize) -> Self {
        self.all().first_spare = Some(first);
        self
    }

    /// Adds the interface of a spare lane and returns its number; `None` when the list is full.
    pub fn assign(&self, lane: usize, interface: Interface) -> Option<u16> {
        let number = self.add(interface)?;
        self.all().of_spares.insert(lane, number);
        Some(number)
    }

    /// Returns the first spare lane, if there are some.
    pub fn first_spare(&self) -> Option<usize> {
        self.all().first_spare
    }

    /// Returns the interface of a lane; `None` for a spare one that has none yet.
    pub fn of_lane(&self, lane: usize) -> Option<u16> {
        let all = self.all();
        match all.first_spare.is_some_and(|first| lane >= first) {
            true => all.of_spares.get(&lane).copied(),
            false if all.of_lanes.is_empty() => Some(lane as u16),
            false => all.of_lanes.get(lane).copied(),
        }
    }

    /// Adds an interface and returns its number; `None` when the list is full, of interfaces or of their texts.
    pub fn add(&self, interface: Interface) -> Option<u16> {
        let mut all = self.all();
        let text_bytes = all.text_bytes + text_bytes(&interface);
        if all.interfaces.len() >= INTERFACES_MAX || text_bytes > TEXT_BYTES_MAX {
            return None;
        }
        all.text_bytes = text_bytes;
        Some(all.push(interface))
    }

    /// Notes that interface `id` is a session of a tunnel: its packets came from interface `outer`, and the session has
    /// this number.
    pub fn note_session(&self, id: u16, outer: u16, session: Option<u32>) {
        let mut all = self.all();
        let outermost = all.sessions.get(&outer).map_or(outer, |(outermost, _)| *outermost);
        all.sessions.insert(id, (outermost, session));
    }

    /// Returns the interface that the packets of `id` came from, which is `id` unless that is a session of a tunnel,
    /// and the number of the session.
    pub fn outermost(&self, id: u16) -> (u16, Option<u32>) {
        self.all().sessions.get(&id).copied().unwrap_or((id, None))
    }

    /// Declares number `id` in the output, unless it is, and returns its number there; `None` if there is no such
    /// interface.
    pub fn declare(&self, id: u16) -> Option<u16> {
        self.all().declare(id)
    }

    /// As [`declare`](Self::declare) for drops that a file records of number `id`, which may have no packet: `None` if
    /// the reader of the output may refuse such an interface.
    pub fn declare_drops(&self, id: u16) -> Option<u16> {
        let mut all = self.all();
        let linktype = |id: &u16| all.interfaces.get(usize::from(*id)).map(|interface| interface.linktype);
        let declares = match all.reader {
            OutputReader::Later => true,
            OutputReader::AtOnce => all.order.first().is_some_and(|first| linktype(first) == linktype(&id)),
            OutputReader::Tcpdump => false,
        };
        if declares { all.declare(id) } else { all.declared.get(usize::from(id)).copied().flatten() }
    }

    /// Returns the number in the output of number `id`, if it is declared.
    pub fn declared(&self, id: u16) -> Option<u16> {
        self.all().declared.get(usize::from(id)).copied().flatten()
    }

    /// Returns the link type of a format that holds a single one: that of the first call.
    pub fn only_linktype(&self, first: u16) -> u16 {
        *self.all().only_linktype.get_or_insert(first)
    }

    /// Returns whether interfaces are declared with their first packets.
    pub fn waits_for_packets(&self) -> bool {
        self.all().waits_for_packets
    }

    /// Returns the number of declared interfaces.
    pub fn count(&self) -> usize {
        self.all().order.len()
    }

    /// Returns copies of the declared interfaces from number `first` of the output on.
    pub fn since(&self, first: usize) -> Vec<Interface> {
        let all = self.all();
        let of = |id: &u16| match (&all.interfaces[usize::from(*id)], all.reader) {
            (interface, OutputReader::Tcpdump) => Interface { snaplen: ONE_SNAPLEN, ..interface.clone() },
            (interface, _) => interface.clone(),
        };
        all.order.get(first..).unwrap_or_default().iter().map(of).collect()
    }

    /// Returns a copy of number `id`.
    pub fn get(&self, id: u16) -> Option<Interface> {
        self.all().interfaces.get(usize::from(id)).cloned()
    }

    /// Adds a block of names, unless it is known; returns whether there was room for it.
    pub fn add_names(&self, block: Vec<u8>) -> bool {
        let names = &mut self.all().names;
        let block = Arc::from(block);
        if names.known.contains(&block) {
            return true;
        }
        let end = names.ends.last().copied().unwrap_or(0) + block.len();
        if end > NAMES_BYTES_MAX {
            return false;
        }
        names.ends.push(end);
        names.known.insert(block.clone());
        names.blocks.push(block);
        true
    }

    /// Notes that the first packet follows: the blocks of names found up to here are in the header of each file.
    pub fn end_first_names(&self) {
        let names = &mut self.all().names;
        names.first = names.blocks.len();
    }

    /// Returns the number of blocks of names found before the first packet, and that of all.
    pub fn names_found(&self) -> (usize, usize) {
        let names = &self.all().names;
        (names.first, names.blocks.len())
    }

    /// Returns the blocks of names of these numbers.
    pub(crate) fn names(&self, numbers: Range<usize>) -> Vec<u8> {
        self.all().names.blocks.get(numbers).unwrap_or_default().concat()
    }

    /// Returns the length of the blocks of names of these numbers, bytes.
    pub(crate) fn names_bytes(&self, numbers: Range<usize>) -> usize {
        let ends = &self.all().names.ends;
        let end = |count: usize| ends[..count.min(ends.len())].last().copied().unwrap_or(0);
        end(numbers.end).saturating_sub(end(numbers.start))
    }

    /// Ignores poisoning: the list is consistent between any two statements.
    fn all(&self) -> MutexGuard<'_, Described> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_bytes(interface: &Interface) -> usize {
    let filter = interface.filter.as_ref().map_or(0, String::len);
    interface.name.len() + interface.description.len() + interface.os.len() + filter + interface.others.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_all_interfaces_are_limited() {
        let all = Interfaces::default();
        let long = Interface { description: "x".repeat(65_535), ..Interface::default() };
        while all.add(long.clone()).is_some() {}
        assert_eq!(all.count(), TEXT_BYTES_MAX / 65_535);
        let number = all.count() as u16;
        assert_eq!(all.add(Interface::default()), Some(number), "one without texts still fits");
    }

    #[test]
    fn names_are_kept_once_and_limited() {
        let all = Interfaces::default();
        assert!(all.add_names(b"one".to_vec()) && all.add_names(b"two".to_vec()));
        all.end_first_names();
        assert!(all.add_names(b"one".to_vec()) && all.add_names(b"three".to_vec()));
        assert_eq!((all.names_found(), &all.names(0..3)[..]), ((2, 3), &b"onetwothree"[..]));
        assert!(all.names(3..3).is_empty() && all.names(2..9).is_empty());
        let bytes = [0..3, 1..2, 2..2, 3..9].map(|numbers| all.names_bytes(numbers));
        assert_eq!((bytes, all.names_bytes(Range { start: usize::MAX, end: 3 })), ([11, 3, 0, 0], 0));
        assert!(!all.add_names(vec![1; NAMES_BYTES_MAX]) && all.add_names(b"two".to_vec()));
    }

    #[test]
    fn interfaces_without_packets_are_not_declared() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let all = Interfaces::by_first_packet(vec![named("eth0")]);
        assert_eq!((all.add(named("a")), all.add(named("b")), all.count()), (Some(1), Some(2), 0));
        assert_eq!(
            (all.declare(2), all.declare(0), all.declare(2), all.declare(9)),
            (Some(0), Some(1), Some(0), None)
        );
        let names = |from| all.since(from).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(
            (names(0), names(1), names(3).len()),
            (vec!["b".into(), "eth0".into()], vec!["eth0".into()], 0)
        );
        assert_eq!((all.declared(0), all.declared(1), all.get(1)), (Some(1), None, Some(named("a"))));
    }

    #[test]
    fn drops_alone_declare_an_interface_that_its_reader_takes() {
        let of = |linktype| Interface { linktype, snaplen: 96, ..Interface::default() };
        let declared = |reader| {
            let all = Interfaces::by_first_packet([113, 1, 1].map(of).into()).for_reader(reader);
            let before = all.declare_drops(0);
            all.declare(1);
            let after = [0, 1, 2].map(|id| all.declare_drops(id));
            (before, after, all.since(0)[0].snaplen)
        };
        assert_eq!(declared(OutputReader::Later), (Some(0), [Some(0), Some(1), Some(2)], 96));
        assert_eq!(declared(OutputReader::AtOnce), (None, [None, Some(0), Some(1)], 96));
        assert_eq!(declared(OutputReader::Tcpdump), (None, [None, Some(0), None], ONE_SNAPLEN));
    }

    #[test]
    fn a_spare_lane_has_the_next_interface_once_it_is_assigned() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let all = Interfaces::new(vec![named("eth0")]).with_spare_lanes(1);
        assert_eq!((all.of_lane(0), all.of_lane(1), all.of_lane(2)), (Some(0), None, None));
        assert_eq!((all.add(named("a session")), all.assign(2, named("veth0"))), (Some(1), Some(2)));
        assert_eq!(
            (all.assign(1, named("veth1")), all.of_lane(1), all.of_lane(2)),
            (Some(3), Some(3), Some(2))
        );
        assert_eq!(Interfaces::new(vec![]).of_lane(7), Some(7));
    }

    #[test]
    fn several_lanes_have_one_interface() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let all = Interfaces::new(vec![named("eth0"), named("eth1")]).with_lanes(vec![0, 0, 1]);
        let all = all.with_spare_lanes(3);
        assert_eq!([0, 1, 2, 3].map(|lane| all.of_lane(lane)), [Some(0), Some(0), Some(1), None]);
        assert_eq!((all.assign(3, named("veth0")), all.of_lane(3), all.of_lane(9)), (Some(2), Some(2), None));
    }

    #[test]
    fn numbers_are_unique_and_limited() {
        let named = |name: &str| Interface { name: name.into(), ..Interface::default() };
        let all = Interfaces::new(vec![named("eth0")]);
        assert_eq!(all.clone().add(named("a")), Some(1));
        assert_eq!(all.add(named("b")), Some(2));
        assert_eq!(all.since(1).iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(all.since(9).len(), 0);
        while all.add(named("more")).is_some() {}
        assert_eq!(all.count(), INTERFACES_MAX);
    }
}
