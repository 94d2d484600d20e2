//! The sessions of a lane: each (sender, session) of a tunnel is an interface of the file.

use super::clock::Clock;
use super::sequence::Sequence;
use crate::interfaces::Interfaces;
use crate::tally::SessionTally;
use quaff_wire::pcapng::encode::Interface;
use quaff_wire::tunnel::{Marker, Session};
use std::collections::HashMap;

/// Sessions beyond this share one interface for each link type, and their numbers are not followed.
pub(super) const SESSIONS_MAX: usize = 1024;

/// What makes a session one of its own.
type Key = (Session, u16, u16);

/// All sessions of a lane.
#[derive(Debug)]
pub(super) struct Sessions {
    interfaces: Interfaces,
    index: HashMap<Key, usize>,
    /// The one that was asked for last: packets of a session come in rows.
    last: Option<(Key, usize)>,
    entries: Vec<Entry>,
    /// Where those beyond the limit are.
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
    /// It stands for all beyond the limit.
    pub(super) is_rest: bool,
}

impl Sessions {
    pub(super) fn new(interfaces: Interfaces) -> Self {
        Self { interfaces, index: HashMap::new(), last: None, entries: Vec::new(), rest: HashMap::new() }
    }

    /// The session, whose frames are of `linktype`, on interface `outer` of the lane; a new one is
    /// given an interface. `None` when there are no more interfaces to be had.
    #[inline]
    pub(super) fn entry(&mut self, session: Session, linktype: u16, outer: u16) -> Option<&mut Entry> {
        let key = (session, linktype, outer);
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => self.find(key)?,
        };
        self.last = Some((key, at));
        self.entries.get_mut(at)
    }

    fn find(&mut self, key: Key) -> Option<usize> {
        if let Some(at) = self.index.get(&key) {
            return Some(*at);
        }
        let (session, linktype, outer) = key;
        if self.index.len() < SESSIONS_MAX {
            let at = self.add(outer, linktype, &session.to_string(), false)?;
            self.index.insert(key, at);
            return Some(at);
        }
        if let Some(at) = self.rest.get(&(linktype, outer)) {
            return Some(*at);
        }
        let at = self.add(outer, linktype, "further sessions", true)?;
        self.rest.insert((linktype, outer), at);
        Some(at)
    }

    fn add(&mut self, outer: u16, linktype: u16, words: &str, is_rest: bool) -> Option<usize> {
        let outer = self.interfaces.get(outer)?;
        // A file's interface may have no name.
        let name = format!("{} {words}", outer.name).trim_start().to_owned();
        let interface = self.interfaces.add(Interface {
            linktype,
            snaplen: outer.snaplen,
            name: name.clone(),
            os: outer.os,
            ..Interface::default()
        })?;
        let (sequence, clock) = (Sequence::default(), Clock::default());
        self.entries.push(Entry { interface, name, received: 0, sequence, clock, is_rest });
        Some(self.entries.len() - 1)
    }

    /// Sets the clocks of the sessions that a marker packet speaks of.
    pub(super) fn set_clocks(&mut self, marker: &Marker) {
        let Some(tick_ns) = marker.granularity.tick_ns() else { return };
        let time_ns = u64::from(marker.utc_s) * 1_000_000_000 + u64::from(marker.utc_us) * 1000;
        for ((session, ..), at) in &self.index {
            let is_meant = session.source == Some(marker.source)
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
