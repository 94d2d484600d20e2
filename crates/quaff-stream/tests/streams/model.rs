//! A receiver as a map of single bytes: slow, and obviously right. Knows data, FIN, acknowledgments, time, the cut-off.

use crate::observed::{Op, Seen};
use quaff_stream::policy::StreamPolicy;
use std::collections::{BTreeMap, BTreeSet};

/// The table of overlaps: of which policies the new bytes win, by the relation of the new segment to the old one.
fn new_wins(policy: StreamPolicy, old: (u64, u64), new: (u64, u64)) -> bool {
    use StreamPolicy::*;
    let row: &[StreamPolicy] = match (new.0.cmp(&old.0) as i8, new.1.cmp(&old.1) as i8) {
        (0, -1) => &[],
        (0, 0) => &[OldLinux, Solaris, Hpux11],
        (0, _) => &[OldLinux, Solaris, Hpux11, Linux],
        (-1, -1) => &[Bsd, Hpux10, Irix, Windows, Windows2003, OldLinux, Linux, MacOs],
        (-1, _) => &[Bsd, Hpux10, Irix, Windows, Windows2003, OldLinux, Linux, MacOs, Solaris, Hpux11],
        (_, 1) => &[Solaris, Hpux11],
        _ => &[],
    };
    policy == Last || row.contains(&policy)
}

/// The fates of bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    pub(crate) seen: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicate: u64,
    pub(crate) overlapped: u64,
    pub(crate) late: u64,
    pub(crate) before_start: u64,
    pub(crate) beyond_cutoff: u64,
    pub(crate) after_end: u64,
    pub(crate) filled: u64,
}

#[derive(Debug)]
struct Byte {
    value: u8,
    origin: (u64, u64),
    time_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    policy: StreamPolicy,
    cutoff: u64,
    wait_ns: u64,
    time_ns: u64,
    next: u64,
    acked: u64,
    fin: u64,
    map: BTreeMap<u64, Byte>,
    lost: BTreeSet<u64>,
    since_ns: u64,
    end: Option<&'static str>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) fates: Fates,
}

impl Model {
    pub(crate) fn new(policy: StreamPolicy, cutoff: u64, wait_ns: u64, time_ns: u64) -> Self {
        Self {
            policy,
            cutoff,
            wait_ns,
            time_ns,
            next: 0,
            acked: 0,
            fin: u64::MAX,
            map: BTreeMap::new(),
            lost: BTreeSet::new(),
            since_ns: 0,
            end: None,
            seen: Vec::new(),
            fates: Fates::default(),
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Data { offset, bytes, fin } => {
                self.data(*offset, bytes);
                if *fin {
                    self.take_fin(*offset + bytes.len() as i64);
                }
            }
            Op::Ack(offset) if *offset >= 0 => {
                let stop = if self.end == Some("Fin") { self.next } else { self.fin };
                // The latest one counts: a receiver takes none back.
                self.acked = (*offset as u64).min(stop);
            }
            Op::Ack(_) => {}
            Op::Wait(ns) => {
                self.time_ns += ns;
                while self.above() != u64::MAX && self.since_ns + self.wait_ns <= self.time_ns {
                    self.skip(self.above(), "Time");
                    self.settle();
                    self.since_ns = self.map.values().next().map_or(self.time_ns, |byte| byte.time_ns);
                }
            }
        }
        self.settle();
    }

    fn data(&mut self, offset: i64, bytes: &[u8]) {
        self.fates.seen += bytes.len() as u64;
        let start = offset.max(self.next as i64) as u64;
        let end = (offset + bytes.len() as i64).min(self.fin.min(self.cutoff).min(i64::MAX as u64) as i64);
        let new = (start, end.max(0) as u64);
        let highest = self.map.keys().last().copied().unwrap_or(0);
        let had_above = self.above() != u64::MAX;
        let (mut is_in_order, mut is_held) = (false, false);
        for (at, value) in (offset..).zip(bytes) {
            let fates = &mut self.fates;
            match at as u64 {
                // A single byte is a keep-alive.
                _ if at < 0 => fates.before_start += u64::from(bytes.len() > 1),
                at if at < self.next && self.lost.contains(&at) => fates.late += 1,
                at if at < self.next => fates.duplicate += 1,
                _ if self.end == Some("Cutoff") => fates.beyond_cutoff += 1,
                _ if self.end.is_some() => fates.after_end += 1,
                at if at >= self.fin => fates.after_end += 1,
                at if at >= self.cutoff => fates.beyond_cutoff += 1,
                at => {
                    is_in_order |= at == self.next;
                    is_held = true;
                    fates.filled += u64::from(at < highest && !self.map.contains_key(&at));
                    self.byte(at, *value, new);
                }
            }
        }
        if is_held && (is_in_order || !had_above) {
            self.since_ns = self.time_ns;
        }
    }

    fn byte(&mut self, at: u64, value: u8, new: (u64, u64)) {
        let time_ns = self.time_ns;
        let Some(old) = self.map.get_mut(&at) else {
            self.map.insert(at, Byte { value, origin: new, time_ns });
            return;
        };
        let is_new_kept = new_wins(self.policy, old.origin, new);
        if old.value == value {
            self.fates.duplicate += 1;
        } else {
            self.fates.overlapped += 1;
            self.seen.push(Seen::Differs(at, old.value, value, is_new_kept));
        }
        if is_new_kept {
            (old.value, old.origin) = (value, new);
        }
    }

    fn take_fin(&mut self, offset: i64) {
        if self.end.is_some() || offset < self.next as i64 {
            return;
        }
        if self.above() == u64::MAX {
            self.since_ns = self.time_ns;
        }
        self.fin = self.fin.min(offset as u64);
        self.drain();
        self.fates.after_end += self.map.split_off(&self.fin).len() as u64;
        self.acked = self.acked.min(self.fin);
    }

    /// The first offset above a hole that is known to exist.
    fn above(&self) -> u64 {
        if self.end.is_some() {
            return u64::MAX;
        }
        self.map.keys().next().copied().unwrap_or(u64::MAX).min(self.fin)
    }

    fn drain(&mut self) {
        let mut is_first_of_run = true;
        while self.next < self.cutoff.min(self.fin) {
            let Some(byte) = self.map.remove(&self.next) else { break };
            self.fates.delivered += 1;
            self.seen.push(Seen::Byte(self.next, byte.value));
            self.next += 1;
            if std::mem::take(&mut is_first_of_run) {
                self.since_ns = self.time_ns;
            }
        }
    }

    fn settle(&mut self) {
        while self.end.is_none() {
            self.drain();
            if self.next == self.fin {
                self.finish("Fin");
            } else if self.next >= self.cutoff {
                self.finish("Cutoff");
            } else if self.above() <= self.acked {
                self.skip(self.above(), "Acknowledged");
            } else {
                return;
            }
        }
    }

    fn skip(&mut self, to: u64, cause: &str) {
        let to = to.min(self.cutoff);
        if self.next < to {
            self.seen.push(Seen::Gap(self.next, to - self.next, cause.to_owned()));
            self.lost.extend(self.next..to);
            self.next = to;
        }
    }

    fn finish(&mut self, reason: &'static str) {
        self.fates.after_end += self.map.len() as u64;
        self.map.clear();
        // An ended stream keeps nothing, its gaps neither.
        self.lost.clear();
        self.end = Some(reason);
        self.seen.push(Seen::End(self.next, reason.to_owned()));
    }

    pub(crate) fn end(&mut self) {
        // A cut-off of 0 ends a stream at its SYN.
        self.settle();
        while self.above() != u64::MAX {
            self.skip(self.above(), "Ended");
            self.settle();
        }
        if self.end.is_none() {
            if self.acked != self.next + 1 {
                self.skip(self.acked, "Acknowledged");
            }
            self.finish("Finished");
        }
    }
}
