//! Frames out of an interface, as fast as it takes them. Chunks hold pcap records; what is around the
//! frames stays here.
//!
//! An interface that goes down, or whose other end does, is away: what comes for it is lost, and is
//! counted. It is looked at a few times a second, and may come back.

use crate::stage::split::Presence;
use nix::libc;
use quaff_file::Result;
use quaff_file::tally::{Counts, WriterTally};
use quaff_file::write::Sink;
use quaff_file::write::WriterGauges;
use quaff_file::write::chunk::Chunk;
use quaff_os::clock::steady_ns;
use quaff_os::mem::Buffer;
use quaff_os::packet::{BATCH_FRAMES, Qdisc, TxSocket};
use quaff_os::rtnl::{Link, Rtnl};
use quaff_wire::pcap::RECORD_HEADER_BYTES;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How often we look whether the interface is there.
const LOOK_NS: u64 = 100_000_000;
/// How long a driver without room is left alone.
const ROOM_WAIT: Duration = Duration::from_micros(20);

/// An interface that frames go out of.
#[derive(Debug)]
pub struct Transmit {
    socket: TxSocket,
    link: Link,
    rtnl: Rtnl,
    presence: Presence,
    looked_ns: u64,
    home: VecDeque<(usize, Buffer)>,
    tally: WriterTally,
    gauges: Arc<WriterGauges>,
}

impl Transmit {
    /// Opens the interface. `presence` hears whether it is there.
    pub fn open(link: Link, presence: Presence, gauges: Arc<WriterGauges>) -> Result<Self> {
        let socket = TxSocket::open(link.index, &link.name, Qdisc::Bypass)?;
        presence.set_away(!(link.up && link.running));
        Ok(Self {
            socket,
            link,
            rtnl: Rtnl::open()?,
            presence,
            looked_ns: steady_ns(),
            home: VecDeque::new(),
            tally: WriterTally::default(),
            gauges,
        })
    }

    /// Looks whether the interface is there, when that is due.
    fn look(&mut self) {
        let now_ns = steady_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            let link = self.rtnl.link(&self.link.name);
            let is_here = link.is_ok_and(|link| link.index == self.link.index && link.up && link.running);
            self.presence.set_away(!is_here);
        }
    }

    /// Sends the frames of a chunk, as far as they can be sent.
    fn send(&mut self, mut records: &[u8]) {
        while !records.is_empty() && self.presence.is_here() {
            match self.socket.send(Records(records).take(BATCH_FRAMES)) {
                Ok(sent) => {
                    for frame in Records(records).take(sent) {
                        self.tally.written += 1;
                        self.tally.bytes += frame.len() as u64;
                    }
                    records = behind(records, sent);
                }
                Err(error) => match error.raw() {
                    libc::EINTR => {}
                    libc::ENOBUFS | libc::EAGAIN => std::thread::sleep(ROOM_WAIT),
                    libc::ENETDOWN | libc::ENXIO | libc::ENODEV => self.presence.set_away(true),
                    // It is the frame: larger than the MTU, or too short to be one.
                    _ => {
                        self.tally.unsendable += 1;
                        records = behind(records, 1);
                    }
                },
            }
            self.look();
        }
        self.tally.lost += Records(records).count() as u64;
    }
}

/// The frames of pcap records in the byte order of this machine.
#[derive(Debug, Clone)]
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let captured = u32::from_ne_bytes(*self.0.get(8..)?.first_chunk()?) as usize;
        let frame = self.0.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + captured)?;
        self.0 = &self.0[RECORD_HEADER_BYTES + captured..];
        Some(frame)
    }
}

/// What is behind so many records.
fn behind(records: &[u8], count: usize) -> &[u8] {
    let mut left = Records(records);
    left.by_ref().take(count).for_each(drop);
    left.0
}

impl Sink for Transmit {
    fn push(&mut self, lane: usize, chunk: Chunk) -> Result<()> {
        self.send(&chunk.buffer[..chunk.len]);
        self.gauges.written.set(self.tally.written);
        self.gauges.bytes.set(self.tally.bytes);
        self.gauges.lost.set(self.tally.lost);
        self.home.push_back((lane, chunk.buffer));
        Ok(())
    }

    fn note(&mut self, _lane: usize, _counts: Counts) {}

    fn turn(&mut self, _slot: u64) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        self.look();
        Ok(())
    }

    fn reap(&mut self) -> Result<Option<(usize, Buffer)>> {
        Ok(self.home.pop_front())
    }

    fn pending(&self) -> usize {
        self.home.len()
    }

    fn patience(&self) -> Duration {
        Duration::from_nanos(LOOK_NS)
    }

    fn finish(&mut self) -> Result<WriterTally> {
        Ok(self.tally.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaff_wire::pcap::encode::{Resolution, record, record_bytes};
    use quaff_wire::record::Record;

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
        assert_eq!(Records(behind(&bytes, 2)).count(), 1);
        assert!(behind(&bytes, 3).is_empty() && behind(&bytes, 9).is_empty());
        assert_eq!(Records(&bytes[..bytes.len() - 1]).count(), 2);
    }
}
