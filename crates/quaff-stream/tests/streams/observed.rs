//! The crate under test, driven by operations on one direction; its events in a form that models have too.

use quaff_stream::conversation::Outcome;
use quaff_stream::policy::StreamPolicy;
use quaff_stream::{Conversation, Event, Segment, Sender, StreamLane, StreamPlan, StreamSink};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;
pub(crate) const URG: u8 = 32;

/// An operation on the bytes that A sends. Offsets count from the byte after SYN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    Data {
        offset: i64,
        bytes: Vec<u8>,
        fin: bool,
    },
    /// B acknowledges up to an offset, with the largest window.
    Ack(i64),
    /// The time moves by so many ns.
    Wait(u64),
}

/// An event; data byte by byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Byte(u64, u8),
    Urgent(u64, u8),
    Gap(u64, u64, String),
    /// Offset, the version that came first, the new one; the new one is kept.
    Differs(u64, u8, u8, bool),
    End(u64, String),
}

/// Keeps all events of one sender.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) seen: Vec<(Sender, Seen)>,
    /// Address of the first byte of each run.
    pub(crate) places: Vec<usize>,
}

impl Recorder {
    pub(crate) fn of(&self, sender: Sender) -> Vec<Seen> {
        self.seen.iter().filter(|(from, _)| *from == sender).map(|(_, seen)| seen.clone()).collect()
    }

    /// The bytes of a sender; a lost one is `?`.
    pub(crate) fn text(&self, sender: Sender) -> String {
        let mut text = String::new();
        for seen in self.of(sender) {
            match seen {
                Seen::Byte(_, byte) => text.push(byte as char),
                Seen::Gap(_, lost, _) => text.push_str(&"?".repeat(lost.min(100) as usize)),
                Seen::Urgent(_, byte) => text.push_str(&format!("!{}", byte as char)),
                _ => {}
            }
        }
        text
    }

    pub(crate) fn ends(&self) -> Vec<(Sender, u64, String)> {
        let end = |(from, seen): &(Sender, Seen)| match seen {
            Seen::End(offset, reason) => Some((*from, *offset, reason.clone())),
            _ => None,
        };
        self.seen.iter().filter_map(end).collect()
    }
}

impl StreamSink for Recorder {
    fn event(&mut self, sender: Sender, event: Event) {
        let mut add = |seen| self.seen.push((sender, seen));
        match event {
            Event::Data { offset, bytes } => {
                assert!(!bytes.is_empty(), "data without bytes");
                for (at, byte) in bytes.iter().enumerate() {
                    add(Seen::Byte(offset + at as u64, *byte));
                }
                self.places.push(bytes.as_ptr() as usize);
            }
            Event::Urgent { offset, byte } => add(Seen::Urgent(offset, byte)),
            Event::Gap { offset, lost_bytes, cause } => {
                assert!(lost_bytes > 0, "a gap without bytes");
                add(Seen::Gap(offset, lost_bytes, format!("{cause:?}")));
            }
            Event::Difference(difference) => {
                let pairs = difference.old.iter().zip(difference.new).enumerate();
                let mut differing = 0;
                for (at, (old, new)) in pairs.filter(|(_, (old, new))| old != new) {
                    add(Seen::Differs(difference.offset + at as u64, *old, *new, difference.is_new_kept));
                    differing += 1;
                }
                assert!(differing == difference.differing || difference.old.len() == 256);
            }
            Event::End { offset, reason } => add(Seen::End(offset, format!("{reason:?}"))),
        }
    }
}

/// A connection whose A sends; the observer has seen its SYN.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) conversation: Conversation,
    pub(crate) lane: StreamLane,
    pub(crate) recorder: Recorder,
    pub(crate) isn: u32,
    pub(crate) time_ns: u64,
}

impl Observed {
    pub(crate) fn new(policy: StreamPolicy, plan: StreamPlan, isn: u32) -> Self {
        let mut observed = Self {
            conversation: Conversation::new(policy, policy),
            lane: StreamLane::new(plan, None),
            recorder: Recorder::default(),
            isn,
            time_ns: 1_000_000_000,
        };
        observed.send(Sender::A, isn, None, SYN, b"");
        observed
    }

    /// The same after the answer to the SYN, from number 0.
    pub(crate) fn answered(policy: StreamPolicy, plan: StreamPlan, isn: u32) -> Self {
        let mut observed = Self::new(policy, plan, isn);
        observed.send(Sender::B, 0, Some(isn.wrapping_add(1)), SYN, b"");
        observed
    }

    /// A segment as it is, with the largest window.
    pub(crate) fn send(
        &mut self,
        from: Sender,
        sequence: u32,
        acknowledgment: Option<u32>,
        flags: u8,
        payload: &[u8],
    ) {
        let segment = Segment {
            sequence,
            acknowledgment: acknowledgment.unwrap_or(0),
            flags: flags | acknowledgment.map_or(0, |_| ACK),
            window: u16::MAX,
            payload,
            wire_bytes: payload.len() as u32,
            time_ns: self.time_ns,
            ..Segment::default()
        };
        self.give(from, &segment);
    }

    pub(crate) fn give(&mut self, from: Sender, segment: &Segment) {
        let outcome = self.conversation.segment(from, segment, &mut self.lane, &mut self.recorder);
        assert_eq!(outcome, Outcome::Taken);
        self.check();
    }

    /// The identity, and the limits.
    pub(crate) fn check(&self) {
        assert!(self.lane.tally().is_balanced(), "{:?}", self.lane.tally());
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        let sequence = |offset: i64| self.isn.wrapping_add(1).wrapping_add(offset as u32);
        match op {
            Op::Data { offset, bytes, fin } => {
                let flags = if *fin { FIN } else { 0 };
                self.send(Sender::A, sequence(*offset), Some(1), flags, bytes);
            }
            Op::Ack(offset) => self.send(Sender::B, 1, Some(sequence(*offset)), 0, b""),
            Op::Wait(ns) => {
                self.time_ns += ns;
                self.conversation.tick(self.time_ns, &mut self.lane, &mut self.recorder);
                self.check();
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        self.conversation.finish(&mut self.lane, &mut self.recorder);
        self.check();
        assert_eq!((self.lane.used_bytes(), self.lane.tally().held_bytes), (0, 0), "memory is left");
    }
}

/// Asserts that offsets of data, urgent bytes and gaps follow each other, and that there is one end, the last event.
#[track_caller]
pub(crate) fn assert_in_order(seen: &[Seen]) {
    let mut next = 0;
    let mut is_over = false;
    for event in seen {
        let (offset, bytes) = match event {
            Seen::Byte(offset, _) | Seen::Urgent(offset, _) => (*offset, 1),
            Seen::Gap(offset, lost, _) => (*offset, *lost),
            Seen::End(offset, _) => {
                assert!(!is_over && *offset == next, "end at {offset}, not {next}");
                is_over = true;
                continue;
            }
            Seen::Differs(..) => continue,
        };
        assert!(!is_over && offset == next, "{event:?} at {next}");
        next += bytes;
    }
}
