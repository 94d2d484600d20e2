//! Frames that leave from an interface: a packet socket, many frames a call, paced in user space.

use super::plan::Schedule;
use crate::histogram::bucket;
use crate::pacer::{self, Pacer};
use crate::state::{State, word};
use quaff_os::clock::{self, steady_ns};
use quaff_os::packet::{BATCH_FRAMES, Qdisc, TxSocket};
use quaff_os::rtnl::Link;
use quaff_os::{Errno, Error, Result};
use quaff_wire::net::{ETHERNET_BYTES, TAG_BYTES};
use quaff_wire::probe::ProbeFrame;
use quaff_wire::probe::{LATE_NS_MAX, ProbeHeader};
use std::ops::Range;

/// A socket, and a frame for each place in a call.
pub(super) struct PacketSender {
    socket: TxSocket,
    link: Link,
    schedule: Schedule,
    stream: u16,
    epoch_offset_ns: u64,
    frames: Vec<ProbeFrame>,
    due_ns: Vec<u64>,
}

impl PacketSender {
    /// Opens the socket; nothing is sent yet.
    pub(super) fn new(stream: u16, schedule: &Schedule, link: &Link, frame: &ProbeFrame) -> Result<Self> {
        Ok(Self {
            socket: TxSocket::open(link.index, &link.name, Qdisc::Bypass)?,
            link: link.clone(),
            schedule: *schedule,
            stream,
            epoch_offset_ns: clock::epoch_offset_ns(),
            frames: vec![frame.clone(); BATCH_FRAMES],
            due_ns: vec![0; BATCH_FRAMES],
        })
    }

    /// Sends until nothing is left to send.
    pub(super) fn run(mut self, state: &State) -> Result<()> {
        let first_ns = steady_ns();
        state.store(word::FIRST_NS, first_ns);
        let mut pacer = Pacer::new(self.schedule.interval, first_ns);
        while let Some(left) = state.left() {
            if self.schedule.interval > 0 && !pacer::wait_until(state, pacer.due_ns()) {
                break;
            }
            let count = self.take_due(&mut pacer, left);
            self.send(count, state)?;
        }
        Ok(())
    }

    /// Fills `due_ns` with the deadlines that have passed; says how many.
    fn take_due(&mut self, pacer: &mut Pacer, left: u64) -> usize {
        let now_ns = steady_ns();
        let most = left.min(BATCH_FRAMES as u64) as usize;
        if self.schedule.interval == 0 {
            self.due_ns.fill(now_ns);
            return most;
        }
        let mut count = 0;
        while count < most && pacer.due_ns() <= now_ns {
            self.due_ns[count] = pacer.due_ns();
            pacer.advance();
            count += 1;
        }
        count
    }

    /// Sends the first `count` frames, again and again until all are taken.
    fn send(&mut self, count: usize, state: &State) -> Result<()> {
        let mut at = 0;
        while at < count && state.left().is_some() {
            let now_ns = self.stamp(at..count, state.load(word::SENT));
            match self.socket.send(self.frames[at..count].iter().map(ProbeFrame::bytes)) {
                Ok(taken) => {
                    self.record(at..at + taken, now_ns, state);
                    at += taken;
                }
                Err(error) if error.raw() == Errno::ENOBUFS as i32 => state.add(word::RETRIED, 1),
                Err(error) if error.raw() == Errno::EINTR as i32 => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(())
    }

    /// Stamps frames with what time it is now, and says what time that was.
    fn stamp(&mut self, range: Range<usize>, first_seq: u64) -> u64 {
        let now_ns = steady_ns();
        let count = self.schedule.count;
        for (seq, (frame, due_ns)) in
            (first_seq..).zip(self.frames[range.clone()].iter_mut().zip(&mut self.due_ns[range]))
        {
            if self.schedule.interval == 0 {
                *due_ns = now_ns;
            }
            frame.set(&ProbeHeader {
                stream: self.stream,
                seq,
                intended_ns: due_ns.wrapping_add(self.epoch_offset_ns),
                late_ns: now_ns.saturating_sub(*due_ns).min(u64::from(LATE_NS_MAX)) as u32,
                last: count.is_some_and(|count| seq + 1 == count),
                bounded: count.is_some(),
            });
        }
        now_ns
    }

    fn record(&self, range: Range<usize>, now_ns: u64, state: &State) {
        state.store(word::LAST_NS, now_ns);
        let sent = range.len() as u64;
        if self.schedule.interval > 0 {
            for due_ns in &self.due_ns[range] {
                let late_ns = now_ns - due_ns;
                state.add(word::HISTOGRAM + bucket(late_ns), 1);
                state.add(word::LATE_SUM_NS, late_ns);
                state.store(word::LATE_MAX_NS, state.load(word::LATE_MAX_NS).max(late_ns));
            }
        }
        state.add(word::SENT, sent);
    }

    fn explain(&self, error: Error) -> Error {
        let Link { name, mtu, .. } = &self.link;
        match Errno::from_raw(error.raw()) {
            Errno::EMSGSIZE => {
                let needed = self.needed_mtu();
                error.advise(format!(
                    "the MTU of {name} is {mtu}; these frames need {needed}: ip link set {name} mtu {needed}"
                ))
            }
            Errno::ENETDOWN => error.advise(format!("switch it on with: ip link set {name} up")),
            _ => error,
        }
    }

    /// An MTU counts neither the Ethernet header nor one VLAN tag.
    fn needed_mtu(&self) -> usize {
        let frame = &self.frames[0];
        let tag = if frame.tags() > 0 { TAG_BYTES } else { 0 };
        frame.bytes().len() - ETHERNET_BYTES - tag
    }
}
