//! A receiver of fragments as a map of single bytes, and the crate under test, whose events it compares.

use quaff_stream::fragment::{
    DatagramKey, Defragmenter, DropReason, FragmentEvent, FragmentPacket, FragmentPlan, FragmentSink,
};
use quaff_stream::policy::FragmentPolicy;
use quaff_wire::net::DatagramId;
use std::collections::BTreeMap;

/// A fragment: offset, payload, more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) more: bool,
}

/// An event of a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Got {
    Whole(Vec<u8>),
    Differs(u64, u8, u8, bool),
    Dropped(DropReason, u64),
    Tiny(u16),
}

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) got: Vec<(u32, Got)>,
}

impl FragmentSink for Receiver {
    fn event(&mut self, key: &DatagramKey, event: FragmentEvent) {
        let id = key.datagram.id;
        match event {
            FragmentEvent::Whole { payload, protocol, header, .. } => {
                assert_eq!((protocol, header), (17, &b"header"[..]));
                self.got.push((id, Got::Whole(payload.to_vec())));
            }
            FragmentEvent::Difference(difference) => {
                let pairs = difference.old.iter().zip(difference.new).enumerate();
                for (at, (old, new)) in pairs.filter(|(_, (old, new))| old != new) {
                    let at = difference.offset + at as u64;
                    self.got.push((id, Got::Differs(at, *old, *new, difference.is_new_kept)));
                }
            }
            FragmentEvent::Dropped { reason, bytes } => self.got.push((id, Got::Dropped(reason, bytes))),
            FragmentEvent::Tiny { offset, .. } => self.got.push((id, Got::Tiny(offset))),
        }
    }
}

/// The datagram with this id.
pub(crate) fn key(id: u32) -> DatagramKey {
    let addresses = [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
    DatagramKey { datagram: DatagramId { addresses, id, protocol: 17 }, vlan: 0, tunnel: 0 }
}

pub(crate) fn packet(part: &Part, time_ns: u64) -> FragmentPacket<'_> {
    FragmentPacket {
        offset: part.offset,
        more: part.more,
        protocol: 17,
        header: b"header",
        payload: &part.bytes,
        wire_bytes: part.bytes.len() as u32,
        time_ns,
    }
}

/// The state of one datagram.
#[derive(Debug, Default)]
pub(crate) struct Model {
    map: BTreeMap<u64, (u8, (u64, u64))>,
    total: Option<u64>,
    is_dead: bool,
    pub(crate) got: Vec<Got>,
    pub(crate) duplicate: u64,
    pub(crate) overlapped: u64,
    pub(crate) refused: u64,
    pub(crate) killed: u64,
    pub(crate) whole: u64,
}

fn new_wins(policy: FragmentPolicy, old: (u64, u64), new: (u64, u64)) -> bool {
    match policy {
        FragmentPolicy::First => false,
        FragmentPolicy::Last => true,
        // The old one wins if it begins at the same place or before.
        FragmentPolicy::Bsd => old.0 > new.0,
        FragmentPolicy::BsdRight => old.0 <= new.0,
        // The old one wins only if it begins before.
        FragmentPolicy::OldLinux => old.0 >= new.0,
        // Only what is covered on both sides is replaced.
        FragmentPolicy::Windows => new.0 < old.0 && old.1 < new.1,
        FragmentPolicy::Solaris => new.0 < old.0 && old.1 <= new.1,
        FragmentPolicy::Linux => false,
    }
}

impl Model {
    pub(crate) fn take(&mut self, policy: FragmentPolicy, part: &Part) {
        let new = (u64::from(part.offset), u64::from(part.offset) + part.bytes.len() as u64);
        let len = part.bytes.len() as u64;
        if self.is_dead {
            self.killed += len;
            return;
        }
        let last_held = self.map.keys().last().map_or(0, |at| at + 1);
        let is_contradiction = match (self.total, part.more) {
            (Some(total), true) => new.1 > total,
            (Some(total), false) => new.1 != total,
            (None, true) => false,
            (None, false) => last_held > new.1,
        };
        let is_linux = policy == FragmentPolicy::Linux;
        if is_contradiction && !is_linux {
            self.refused += len;
            return;
        }
        let covered = (new.0..new.1).filter(|at| self.map.contains_key(at)).count() as u64;
        let is_killed = is_linux && (is_contradiction || covered > 0 && covered < len);
        for (at, value) in (new.0..).zip(&part.bytes).filter(|_| !is_contradiction) {
            if let Some((old, origin)) = self.map.get(&at).copied() {
                let is_new_kept = new_wins(policy, origin, new);
                if old != *value {
                    self.got.push(Got::Differs(at, old, *value, is_new_kept));
                    self.overlapped += u64::from(!is_killed);
                } else {
                    self.duplicate += u64::from(!is_killed);
                }
                if is_new_kept {
                    self.map.insert(at, (*value, new));
                }
            } else if !is_killed {
                self.map.insert(at, (*value, new));
            }
        }
        if is_killed {
            self.got.push(Got::Dropped(DropReason::Overlap, self.map.len() as u64));
            self.killed += self.map.len() as u64 + len;
            self.map.clear();
            self.is_dead = true;
            return;
        }
        if !part.more {
            self.total = Some(new.1);
        }
        if self.total == Some(self.map.len() as u64) {
            self.whole += self.map.len() as u64;
            self.got.push(Got::Whole(self.map.values().map(|(value, _)| *value).collect()));
            // Later fragments begin another datagram.
            (self.map, self.total) = (BTreeMap::new(), None);
        }
    }
}

/// Runs fragments of one datagram on crate and model, and compares events and counters.
#[track_caller]
pub(crate) fn compare(policy: FragmentPolicy, parts: &[Part]) -> u64 {
    let mut defragmenter = Defragmenter::new(FragmentPlan::default());
    let (mut receiver, mut model) = (Receiver::default(), Model::default());
    for part in parts {
        defragmenter.take(key(7), policy, &packet(part, 5), &mut receiver);
        model.take(policy, part);
        assert!(defragmenter.tally().is_balanced(), "{policy:?}: {parts:?}: {:?}", defragmenter.tally());
    }
    let got: Vec<Got> =
        receiver.got.drain(..).map(|(_, got)| got).filter(|got| !matches!(got, Got::Tiny(_))).collect();
    assert_eq!(got, model.got, "{policy:?}: {parts:?}");
    let tally = *defragmenter.tally();
    let ours = [
        tally.duplicate_bytes,
        tally.overlapped_bytes,
        tally.refused_bytes,
        tally.killed_bytes,
        tally.whole_bytes,
        tally.held_bytes,
    ];
    let held = model.map.len() as u64;
    let theirs = [model.duplicate, model.overlapped, model.refused, model.killed, model.whole, held];
    assert_eq!(ours, theirs, "{policy:?}: {parts:?}");
    defragmenter.finish(&mut receiver);
    assert_eq!((defragmenter.used_bytes(), defragmenter.tally().held_bytes), (0, 0), "memory is left");
    assert!(defragmenter.tally().is_balanced());
    tally.wholes
}
