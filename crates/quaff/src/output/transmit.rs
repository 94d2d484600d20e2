//! Sends frames from an interface, as fast as it accepts them. Chunks hold pcap records.
//!
//! Without a link the interface is away: frames for it are counted as lost. Its state is read several times a second,
//! and it may return.

use crate::stage::Presence;
use quaff_file::Result;
use quaff_file::tally::{Counts, WriterTally};
use quaff_file::write::{Chunk, Sink, WriterGauges};
use quaff_os::clock::steady_ns;
use quaff_os::packet::BATCH_FRAMES;
use quaff_os::rtnl::{Link, Rtnl};
use quaff_os::{Buffer, Stop};
use quaff_send::{Next, Obstacle, Transmitter, TxBackend, TxCall};
use quaff_wire::pcap::record_bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the state of the interface is read.
const LOOK_NS: u64 = 100_000_000;
/// After the end of the run, time after which an interface that accepts nothing is not waited for any longer.
const STUCK_NS: u64 = 2_000_000_000;

/// The sink that sends frames from one interface.
#[derive(Debug)]
pub(crate) struct Transmit {
    tx: Transmitter,
    monitor: LinkMonitor,
    free_buffers: VecDeque<(usize, Buffer)>,
    tally: WriterTally,
    gauges: Arc<WriterGauges>,
}

/// Checks a few times a second whether the interface can send.
#[derive(Debug)]
struct LinkMonitor {
    link: Link,
    rtnl: Rtnl,
    presence: Presence,
    looked_ns: u64,
    /// Raised at the end of the run.
    run: Stop,
    /// Steady time at which the interface last accepted a frame.
    accepted_ns: u64,
}

impl Transmit {
    /// Opens the interface. `presence` receives its state; `run` is raised at the end of the run.
    pub(crate) fn open(link: Link, presence: Presence, run: Stop, gauges: Arc<WriterGauges>) -> Result<Self> {
        let tx = Transmitter::open(link.clone(), TxBackend::Sendmmsg)?;
        presence.set_away(!(link.up && link.running));
        Ok(Self {
            tx,
            monitor: LinkMonitor {
                link,
                rtnl: Rtnl::open()?,
                presence,
                looked_ns: steady_ns(),
                run,
                accepted_ns: steady_ns(),
            },
            free_buffers: VecDeque::new(),
            tally: WriterTally::default(),
            gauges,
        })
    }

    /// Sends the frames of a chunk while the interface can send; counts the rest as lost.
    fn send(&mut self, records: &[u8]) -> Result<()> {
        let mut records = Records(records);
        let mut frames = [&[][..]; BATCH_FRAMES];
        loop {
            let count = frames.iter_mut().zip(&mut records).map(|(place, frame)| *place = frame).count();
            if count == 0 {
                return Ok(());
            }
            let mut call =
                RecordCall { frames: &frames[..count], monitor: &mut self.monitor, tally: &mut self.tally };
            let done = self.tx.send(&mut call)?;
            self.tally.lost += (count - done) as u64;
        }
    }
}

impl LinkMonitor {
    /// Checks the interface if that is due.
    fn look(&mut self) {
        let now_ns = steady_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            let link = self.rtnl.link(&self.link.name);
            let is_here = link.is_ok_and(|link| link.index == self.link.index && link.up && link.running);
            self.presence.set_away(!is_here);
        }
    }

    /// Returns true if the run has ended and the interface accepts nothing.
    fn is_stuck(&self) -> bool {
        self.run.raised() && steady_ns() - self.accepted_ns > STUCK_NS
    }
}

/// Frames of a chunk that are sent together.
struct RecordCall<'a> {
    frames: &'a [&'a [u8]],
    monitor: &'a mut LinkMonitor,
    tally: &'a mut WriterTally,
}

impl TxCall for RecordCall<'_> {
    fn len(&self) -> usize {
        self.frames.len()
    }

    fn frame(&self, at: usize) -> &[u8] {
        self.frames[at]
    }

    fn prepare(&mut self, _from: usize) -> Option<u64> {
        self.monitor.look();
        self.monitor.presence.is_here().then_some(0)
    }

    fn sent(&mut self, frames: Range<usize>, bytes: u64, _offered_ns: u64) {
        self.monitor.accepted_ns = steady_ns();
        self.tally.written += frames.len() as u64;
        self.tally.bytes += bytes;
    }

    fn obstacle(&mut self, _at: usize, obstacle: Obstacle) -> quaff_os::Result<Next> {
        match obstacle {
            Obstacle::NoRoom if self.monitor.is_stuck() => {}
            Obstacle::NoRoom => return Ok(Next::Wait),
            Obstacle::Down(_) | Obstacle::Gone(_) => self.monitor.presence.set_away(true),
            // The frame: larger than the MTU, or too short.
            Obstacle::Refused(_) | Obstacle::Other(_) => {
                self.tally.unsendable += 1;
                return Ok(Next::Skip);
            }
        }
        Ok(Next::Stop)
    }
}

/// The frames of pcap records in the byte order of this machine.
#[derive(Debug, Clone)]
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let captured = u32::from_ne_bytes(*self.0.get(8..)?.first_chunk()?) as usize;
        let frame = self.0.get(record_bytes(0)..record_bytes(captured))?;
        self.0 = &self.0[record_bytes(captured)..];
        Some(frame)
    }
}

impl Sink for Transmit {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.send(&chunk.buffer[..chunk.len])?;
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
        self.gauges.lost.set(self.tally.lost);
        self.free_buffers.push_back((lane, chunk.buffer));
        Ok(())
    }

    fn note(&mut self, _lane: usize, _counts: Counts) {}

    fn begin_slot(&mut self, _slot: u64) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        self.monitor.look();
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        Ok(self.free_buffers.pop_front())
    }

    fn pending(&self) -> usize {
        self.free_buffers.len()
    }

    fn max_wait(&self) -> Duration {
        Duration::from_nanos(LOOK_NS)
    }

    fn finish(&mut self) -> Result<WriterTally> {
        Ok(self.tally.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::Record;
    use quaff_wire::pcap::{Resolution, record};

    #[test]
    fn records_are_walked_and_a_torn_one_is_the_end() {
        let mut bytes = Vec::new();
        for len in [60, 61, 1500] {
            let frame = vec![len as u8; len];
            let at = bytes.len();
            bytes.resize(at + record_bytes(len), 0);
            let packet = Record { bytes: &frame, len: len as u32, ..Record::default() };
            record(&mut bytes[at..], Resolution::Nanoseconds, &packet);
        }
        assert_eq!(Records(&bytes).map(<[u8]>::len).collect::<Vec<_>>(), [60, 61, 1500]);
        assert_eq!(Records(&bytes[..bytes.len() - 1]).count(), 2);
    }

    #[test]
    fn an_interface_without_room_is_waited_for_until_the_end_of_the_run() {
        let run = Stop::default();
        let mut monitor = LinkMonitor {
            link: quaff_os::rtnl::link("lo").unwrap(),
            rtnl: Rtnl::open().unwrap(),
            presence: Presence::default(),
            looked_ns: steady_ns(),
            run: run.clone(),
            accepted_ns: steady_ns() - 2 * STUCK_NS,
        };
        let mut tally = WriterTally::default();
        let mut call = RecordCall { frames: &[&[0; 60][..]], monitor: &mut monitor, tally: &mut tally };
        assert_eq!(call.obstacle(0, Obstacle::NoRoom).unwrap(), Next::Wait);
        run.raise(quaff_os::Reason::Signal);
        assert_eq!(call.obstacle(0, Obstacle::NoRoom).unwrap(), Next::Stop);
        call.sent(0..1, 60, 0);
        assert_eq!(call.obstacle(0, Obstacle::NoRoom).unwrap(), Next::Wait);
    }
}
