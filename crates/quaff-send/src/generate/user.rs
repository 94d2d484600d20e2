//! Generation in user space: sends probe frames, several per call, and completes each right before it is offered. It
//! never chooses a backend.

use super::plan::{Pacing, SendPlan};
use crate::arena::FrameMeta;
use crate::backend::TxBackend;
use crate::error::SendError;
use crate::pacer::wait_until;
use crate::schedule::Schedule;
use crate::state::{State, word};
use crate::transmitter::{Next, Obstacle, Transmitter, TxCall};
use quaff_os::clock::{self, steady_ns};
use quaff_os::packet::BATCH_FRAMES;
use quaff_os::rtnl::Link;
use quaff_os::{Error, Result};
use quaff_wire::net;
use quaff_wire::probe::{LATE_NS_MAX, ProbeFrame, ProbeHeader};
use std::ops::Range;

/// The sender of one stream.
pub(super) struct PacketSender {
    tx: Transmitter,
    link: Link,
    pacing: Pacing,
    schedule: Schedule,
    stream: u16,
    epoch_offset_ns: u64,
    /// The frames of one call.
    frames: Vec<ProbeFrame>,
    /// Deadlines of the frames of a call, ns; empty if unpaced.
    due_ns: Vec<u64>,
}

impl PacketSender {
    /// Opens the interface, without sending.
    pub(super) fn new(plan: &SendPlan, pacing: &Pacing, link: &Link) -> Result<Self, SendError> {
        Ok(Self {
            tx: Transmitter::open(link.clone(), TxBackend::Sendmmsg)?,
            link: link.clone(),
            pacing: *pacing,
            schedule: Schedule::new(pacing.rate)?,
            stream: plan.stream,
            epoch_offset_ns: clock::epoch_offset_ns(),
            frames: vec![plan.frame(link)?; BATCH_FRAMES],
            due_ns: Vec::with_capacity(BATCH_FRAMES),
        })
    }

    /// Sends until all frames are sent.
    pub(super) fn run(mut self, state: &State) -> Result<()> {
        let first_ns = steady_ns();
        state.store(word::FIRST_NS, first_ns);
        let mut next_ns = self.next_ns(first_ns);
        while let Some(left) = state.left() {
            let most = left.min(BATCH_FRAMES as u64) as usize;
            let mut len = most;
            if self.pacing.rate.is_paced() {
                if !wait_until(next_ns, || state.left().is_none()) {
                    break;
                }
                self.due_ns.clear();
                let now_ns = steady_ns();
                while self.due_ns.len() < most && next_ns <= now_ns {
                    self.due_ns.push(next_ns);
                    next_ns = self.next_ns(first_ns);
                }
                len = self.due_ns.len();
            }
            let mut call = StampedCall {
                frames: &mut self.frames[..len],
                due_ns: &self.due_ns,
                stream: self.stream,
                count: self.pacing.count,
                epoch_offset_ns: self.epoch_offset_ns,
                link: &self.link,
                state,
            };
            self.tx.send(&mut call)?;
        }
        Ok(())
    }

    /// Deadline of the next frame, ns.
    fn next_ns(&mut self, first_ns: u64) -> u64 {
        first_ns.saturating_add(self.schedule.due(0, &FrameMeta::default()).ns)
    }
}

/// Frames that are sent together.
struct StampedCall<'a> {
    frames: &'a mut [ProbeFrame],
    due_ns: &'a [u64],
    stream: u16,
    /// Number of frames of the run, if known.
    count: Option<u64>,
    epoch_offset_ns: u64,
    link: &'a Link,
    state: &'a State,
}

impl TxCall for StampedCall<'_> {
    fn len(&self) -> usize {
        self.frames.len()
    }

    fn frame(&self, at: usize) -> &[u8] {
        &self.frames[at].bytes
    }

    fn prepare(&mut self, from: usize) -> Option<u64> {
        self.state.left()?;
        let now_ns = steady_ns();
        let places = self.frames.iter_mut().enumerate().skip(from);
        for (seq, (place, frame)) in (self.state.load(word::SENT)..).zip(places) {
            let due_ns = self.due_ns.get(place).copied().unwrap_or(now_ns);
            frame.set(&ProbeHeader {
                stream: self.stream,
                seq,
                intended_ns: due_ns.wrapping_add(self.epoch_offset_ns),
                late_ns: now_ns.saturating_sub(due_ns).min(u64::from(LATE_NS_MAX)) as u32,
                last: self.count.is_some_and(|count| seq + 1 == count),
                bounded: self.count.is_some(),
            });
        }
        Some(now_ns)
    }

    fn sent(&mut self, frames: Range<usize>, _bytes: u64, offered_ns: u64) {
        self.state.store(word::LAST_NS, offered_ns);
        for due_ns in self.due_ns.get(frames.clone()).unwrap_or_default() {
            self.state.count_lateness(offered_ns.saturating_sub(*due_ns));
        }
        self.state.add(word::SENT, frames.len() as u64);
    }

    fn obstacle(&mut self, at: usize, obstacle: Obstacle) -> Result<Next> {
        match obstacle {
            Obstacle::Refused(error) => Err(self.explain(at, error)),
            obstacle => obstacle.wait_or_fail(self.state),
        }
    }
}

impl StampedCall<'_> {
    /// Adds the MTU that the frame needs if it exceeds that of the interface.
    fn explain(&self, at: usize, error: Error) -> Error {
        let Link { name, mtu, .. } = self.link;
        let frame = self.frame(at);
        let needed = frame.len() - net::frame_bytes_max(frame, 0).min(frame.len());
        if needed <= *mtu as usize {
            return error;
        }
        error.advise(format!(
            "the MTU of {name} is {mtu}; these frames need {needed}: ip link set {name} mtu {needed}"
        ))
    }
}
