//! The transmitter of one interface, used by all frames that user space sends.
//!
//! It offers the frames of a [`TxCall`] to a backend until each is sent or skipped, and waits while the interface has
//! no room. It has no schedule: the owner of the frames completes and counts them, and decides about obstacles.

use crate::backend::{Backend, BackendReport, TxBackend};
use crate::state::{State, word};
use quaff_os::clock::{sleep_until, steady_ns};
use quaff_os::rtnl::Link;
use quaff_os::{Errno, Error, Result};
use std::fmt;
use std::ops::Range;

/// Number of offers without a pause while the interface has no room.
const EAGER_TRIES: u32 = 32;
/// Pause before each further offer, ns.
const PAUSE_NS: u64 = 20_000;

/// Frames for one interface, in the order of sending.
pub trait TxCall {
    /// Number of frames.
    fn len(&self) -> usize;

    /// Returns `true` if there are no frames.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frame `at`, from its link header on.
    fn frame(&self, at: usize) -> &[u8];

    /// Completes the frames from `from` on; called before each offer. Returns the time of the offer, in the owner's
    /// clock; `None` ends the call.
    fn prepare(&mut self, from: usize) -> Option<u64>;

    /// Counts frames that the backend accepted, with their bytes and the time of the offer.
    fn sent(&mut self, frames: Range<usize>, bytes: u64, offered_ns: u64);

    /// Decides about an obstacle at frame `at`. An error ends the run.
    fn obstacle(&mut self, at: usize, obstacle: Obstacle) -> Result<Next>;
}

/// Why the backend did not accept a frame.
#[derive(Debug)]
pub enum Obstacle {
    /// The interface has no room at the moment (ENOBUFS, EAGAIN, a full ring).
    NoRoom,
    /// The interface cannot carry the frame (EMSGSIZE, EINVAL).
    Refused(Error),
    /// The interface is down and may come back (ENETDOWN).
    Down(Error),
    /// The interface no longer exists (ENXIO, ENODEV).
    Gone(Error),
    Other(Error),
}

/// The next step after an obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Offer the same frames again at once.
    Retry,
    /// Offer them again, after a pause if this occurs repeatedly.
    Wait,
    /// Continue with the next frame.
    Skip,
    /// End the call.
    Stop,
}

/// An open interface with its backend.
pub struct Transmitter {
    pub link: Link,
    backend: Box<dyn Backend>,
    accepted: u64,
    bytes: u64,
    refused: u64,
}

/// Totals of one interface.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) interface: String,
    /// Frames sent, as far as the backend reports.
    pub(crate) sent: u64,
    /// Bytes of the frames sent, without FCS.
    pub(crate) bytes: u64,
    /// Frames that the interface cannot carry.
    pub(crate) refused: u64,
    pub(crate) backend: BackendReport,
}

impl Transmitter {
    /// Opens a backend on an interface. Nothing is sent yet.
    pub fn open(link: Link, backend: TxBackend) -> Result<Self> {
        let backend = backend.open(&link)?;
        Ok(Self::of(link, backend))
    }

    pub(crate) fn of(link: Link, backend: Box<dyn Backend>) -> Self {
        Self { link, backend, accepted: 0, bytes: 0, refused: 0 }
    }

    /// Sends the frames of a call. Returns the number of frames sent or skipped, which is less than all if the owner of
    /// the frames ended the call. Fails with the owner's errors.
    pub fn send(&mut self, call: &mut impl TxCall) -> Result<usize> {
        let (mut at, mut tries) = (0, 0);
        while at < call.len() {
            let Some(now_ns) = call.prepare(at) else { break };
            let obstacle = match self.offer(call, at) {
                Ok(0) => Obstacle::NoRoom,
                Ok(taken) => {
                    let bytes = (at..at + taken).map(|at| call.frame(at).len() as u64).sum();
                    (self.accepted, self.bytes) = (self.accepted + taken as u64, self.bytes + bytes);
                    call.sent(at..at + taken, bytes, now_ns);
                    (at, tries) = (at + taken, 0);
                    continue;
                }
                Err(error) => self.obstacle(error),
            };
            self.refused += u64::from(matches!(obstacle, Obstacle::Refused(_)));
            match call.obstacle(at, obstacle)? {
                Next::Retry => {}
                Next::Wait => {
                    tries += 1;
                    pause(tries);
                }
                Next::Skip => (at, tries) = (at + 1, 0),
                Next::Stop => break,
            }
        }
        Ok(at)
    }

    /// Offers the frames from `from` on once.
    fn offer(&mut self, call: &impl TxCall, from: usize) -> Result<usize> {
        if from + 1 == call.len() {
            return self.backend.send_one(call.frame(from));
        }
        self.backend.send(&mut (from..call.len()).map(|at| call.frame(at)))
    }

    fn obstacle(&self, error: Error) -> Obstacle {
        let name = &self.link.name;
        match Errno::from_raw(error.raw()) {
            Errno::EMSGSIZE | Errno::EINVAL => Obstacle::Refused(error),
            Errno::ENETDOWN => {
                Obstacle::Down(error.advise(format!("switch it on with: ip link set {name} up")))
            }
            Errno::ENXIO | Errno::ENODEV => Obstacle::Gone(error.advise(format!("{name} is gone"))),
            _ => Obstacle::Other(error),
        }
    }

    /// Waits until the accepted frames have left. Returns the totals.
    pub(crate) fn finish(&mut self) -> Result<Outlet> {
        self.backend.flush()?;
        let backend = self.backend.report();
        Ok(Outlet {
            interface: self.link.name.clone(),
            sent: self.accepted.saturating_sub(backend.refused + backend.pending),
            bytes: self.bytes.saturating_sub(backend.unsent_bytes),
            refused: self.refused + backend.refused,
            backend,
        })
    }
}

impl fmt::Debug for Transmitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmitter").field("link", &self.link.name).finish_non_exhaustive()
    }
}

impl Obstacle {
    /// The next step of a sender that waits for room and ends the run for any other obstacle.
    pub(crate) fn wait_or_fail(self, state: &State) -> Result<Next> {
        match self {
            Self::NoRoom => {
                state.add(word::RETRIED, 1);
                Ok(Next::Wait)
            }
            Self::Refused(error) | Self::Down(error) | Self::Gone(error) | Self::Other(error) => Err(error),
        }
    }
}

/// Pauses before the next offer, after several without room.
fn pause(tries: u32) {
    if tries < EAGER_TRIES {
        std::hint::spin_loop();
    } else {
        sleep_until(steady_ns() + PAUSE_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::fake_link;

    /// Answers offers by a script: the number of frames accepted, or an error.
    struct Script(Vec<Result<usize, Errno>>);

    impl Backend for Script {
        fn send(&mut self, frames: &mut dyn Iterator<Item = &[u8]>) -> Result<usize> {
            let answer = self.0.remove(0);
            let refused = |errno| Error::new("send", std::io::Error::from_raw_os_error(errno as i32));
            answer.map(|most| frames.take(most).count()).map_err(refused)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }

        fn report(&self) -> BackendReport {
            BackendReport::new("script")
        }
    }

    /// Five frames of one byte; records the calls.
    #[derive(Default)]
    struct Five {
        log: Vec<String>,
        stop_at: Option<usize>,
    }

    impl TxCall for Five {
        fn len(&self) -> usize {
            5
        }

        fn frame(&self, _at: usize) -> &[u8] {
            &[7]
        }

        fn prepare(&mut self, from: usize) -> Option<u64> {
            (self.stop_at != Some(from)).then_some(1)
        }

        fn sent(&mut self, frames: Range<usize>, bytes: u64, _offered_ns: u64) {
            self.log.push(format!("sent {frames:?} {bytes}"));
        }

        fn obstacle(&mut self, at: usize, obstacle: Obstacle) -> Result<Next> {
            let (name, next) = match obstacle {
                Obstacle::NoRoom => ("no room", Next::Wait),
                Obstacle::Refused(_) => ("refused", Next::Skip),
                Obstacle::Down(_) => ("down", Next::Stop),
                Obstacle::Gone(error) | Obstacle::Other(error) => return Err(error),
            };
            self.log.push(format!("{name} {at}"));
            Ok(next)
        }
    }

    fn transmitter(script: Vec<Result<usize, Errno>>) -> Transmitter {
        Transmitter::of(fake_link("if0"), Box::new(Script(script)))
    }

    #[test]
    fn frames_are_offered_until_each_is_sent_or_skipped() {
        let mut tx = transmitter(vec![Ok(2), Ok(0), Err(Errno::EMSGSIZE), Ok(1), Ok(0), Ok(9)]);
        let mut call = Five::default();
        assert_eq!(tx.send(&mut call).unwrap(), 5);
        assert_eq!(
            call.log,
            ["sent 0..2 2", "no room 2", "refused 2", "sent 3..4 1", "no room 4", "sent 4..5 1"]
        );
        let totals = tx.finish().unwrap();
        assert_eq!((totals.sent, totals.bytes, totals.refused), (4, 4, 1));
    }

    #[test]
    fn a_call_ends_where_its_owner_stops_it() {
        let mut call = Five { stop_at: Some(3), ..Five::default() };
        assert_eq!(transmitter(vec![Ok(3), Ok(1)]).send(&mut call).unwrap(), 3);
        let mut call = Five::default();
        assert_eq!(transmitter(vec![Ok(1), Err(Errno::ENETDOWN)]).send(&mut call).unwrap(), 1);
        assert_eq!(call.log, ["sent 0..1 1", "down 1"]);
        let gone = transmitter(vec![Err(Errno::ENODEV)]).send(&mut Five::default()).unwrap_err();
        assert!(gone.to_string().contains("if0 is gone"), "{gone}");
    }
}
