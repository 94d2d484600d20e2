//! The sessions of a lane: each (sender, session) of a tunnel is an interface of the file.

use super::clock::Clock;
use super::sequence::Sequence;
use crate::tally::SessionTally;
use quaff_file::Interfaces;
use quaff_wire::pcapng::Interface;
use quaff_wire::tunnel::{Marker, Session, TunnelKind};
use std::collections::HashMap;

/// Further sessions share one interface for each link type, and their sequence numbers are ignored.
pub(super) const SESSIONS_MAX: usize = 1024;

/// The key of an interface: session, link type, outer interface.
type Key = (Session, u16, u16);

/// All sessions of a lane.
#[derive(Debug)]
pub(super) struct Sessions {
    interfaces: Interfaces,
    index: HashMap<Key, usize>,
    /// The last result: packets of a session come in bursts.
    last: Option<(Key, usize)>,
    entries: Vec<Entry>,
    /// The first entry of a session, whatever its link type.
    first: HashMap<(Session, u16), usize>,
    /// The shared entries beyond the limit.
    rest: HashMap<(u16, u16), usize>,
}

/// One session.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) interface: u16,
    pub(super) name: String,
    pub(super) received: u64,
    pub(super) sequence: Sequence,
    pub(super) clock: Clock,
    /// The entry with its sequence and clock: a session with several link types has an interface for each, but
    /// counts once. `None` for the shared entries.
    first: Option<usize>,
}

impl Sessions {
    pub(super) fn new(interfaces: Interfaces) -> Self {
        Self {
            interfaces,
            index: HashMap::new(),
            last: None,
            entries: Vec::new(),
            first: HashMap::new(),
            rest: HashMap::new(),
        }
    }

    /// The index of a session with frames of `linktype` on interface `outer` of the lane; a new session gets an
    /// interface. `None` when the file cannot have more interfaces.
    #[inline]
    pub(super) fn find(&mut self, session: Session, linktype: u16, outer: u16) -> Option<usize> {
        let key = (session, linktype, outer);
        if let Some((last, at)) = self.last
            && last == key
        {
            return Some(at);
        }
        let at = self.look_up(key)?;
        self.last = Some((key, at));
        Some(at)
    }

    /// Counts a packet of a session and its number. Returns the interface of the session.
    #[inline]
    pub(super) fn note(&mut self, at: usize, number: Option<u32>) -> u16 {
        let entry = &mut self.entries[at];
        entry.received += 1;
        let (interface, first) = (entry.interface, entry.first);
        if let (Some(number), Some(first)) = (number, first) {
            self.entries[first].sequence.note(number);
        }
        interface
    }

    /// The clock of a session's sender.
    pub(super) fn clock(&mut self, at: usize) -> &mut Clock {
        let first = self.entries[at].first.unwrap_or(at);
        &mut self.entries[first].clock
    }

    fn look_up(&mut self, key: Key) -> Option<usize> {
        if let Some(at) = self.index.get(&key) {
            return Some(*at);
        }
        let (session, linktype, outer) = key;
        if self.index.len() < SESSIONS_MAX {
            let at = self.add((outer, session.id), linktype, &session.to_string())?;
            let first = *self.first.entry((session, outer)).or_insert(at);
            self.entries[at].first = Some(first);
            self.index.insert(key, at);
            return Some(at);
        }
        if let Some(at) = self.rest.get(&(linktype, outer)) {
            return Some(*at);
        }
        let at = self.add((outer, None), linktype, "further sessions")?;
        self.rest.insert((linktype, outer), at);
        Some(at)
    }

    fn add(&mut self, (number, id): (u16, Option<u32>), linktype: u16, words: &str) -> Option<usize> {
        let outer = self.interfaces.get(number)?;
        // The interface of a file may have no name.
        let name = format!("{} {words}", outer.name).trim_start().to_owned();
        let interface = self.interfaces.add(Interface {
            linktype,
            snaplen: outer.snaplen,
            name: name.clone(),
            os: outer.os,
            ..Interface::default()
        })?;
        self.interfaces.note_session(interface, number, id);
        let (sequence, clock) = (Sequence::default(), Clock::default());
        self.entries.push(Entry { interface, name, received: 0, sequence, clock, first: None });
        Some(self.entries.len() - 1)
    }

    /// Sets the clocks of the sessions of a marker packet.
    pub(super) fn set_clocks(&mut self, marker: &Marker) {
        let Some(tick_ns) = marker.tick_ns else { return };
        let time_ns = u64::from(marker.utc_s) * 1_000_000_000 + u64::from(marker.utc_us) * 1000;
        for ((session, ..), at) in &self.index {
            let is_meant = session.kind == TunnelKind::Erspan
                && session.source == Some(marker.source)
                && session.id.is_some_and(|id| id as u8 == marker.session);
            if is_meant && let Some(entry) = self.entries.get_mut(*at) {
                entry.clock.set(marker.timestamp as u32, tick_ns, time_ns);
            }
        }
    }

    pub(super) fn all(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    pub(super) fn tally(&self) -> SessionTally {
        SessionTally {
            name: self.name.clone(),
            received: self.received,
            missing: self.sequence.missing,
            late: self.sequence.late,
            restarts: self.sequence.restarts,
        }
    }
}
