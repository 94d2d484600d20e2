//! The transmitter of one interface: all frames that leave from user space pass here.
//!
//! It offers the frames of a [`TxCall`] to a backend until each is sent or skipped, and waits where the interface has
//! no room. The owner of the frames writes their times and numbers, counts them, and decides about obstacles.

use crate::backend::{Backend, BackendReport, TxBackend};
use quaff_os::clock::{sleep_until, steady_ns};
use quaff_os::rtnl::Link;
use quaff_os::{Errno, Error, Result};
use std::fmt;
use std::ops::Range;

/// Offers that are repeated at once while there is no room; each later one follows a pause.
const EAGER_TRIES: u32 = 32;
/// Pause before a later offer, ns.
const PAUSE_NS: u64 = 20_000;

/// Frames for one interface, in the order in which they leave.
pub trait TxCall {
    /// Number of frames.
    fn len(&self) -> usize;

    /// Whether there is no frame.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One frame, link header first.
    fn frame(&self, at: usize) -> &[u8];

    /// Called before each offer: completes the frames from `from` on. Returns the time of the offer, in the owner's
    /// clock; `None` ends the call.
    fn prepare(&mut self, from: usize) -> Option<u64>;

    /// Counts frames that the backend took, with their bytes and the time of the offer.
    fn sent(&mut self, frames: Range<usize>, bytes: u64, offered_ns: u64);

    /// Decides about an obstacle that frame `at` met.
    ///
    /// # Errors
    /// An obstacle that ends the run.
    fn obstacle(&mut self, at: usize, obstacle: Obstacle) -> Result<Next>;
}

/// A reason why the backend did not take a frame.
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
    /// Any other error.
    Other(Error),
}

/// The next step after an obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Offer the same frames again at once.
    Retry,
    /// Offer them again, after a pause if this has happened repeatedly.
    Wait,
    /// Continue with the next frame.
    Skip,
    /// End the call.
    Stop,
}

/// An open interface with its backend.
pub struct Transmitter {
    link: Link,
    backend: Box<dyn Backend>,
    taken: u64,
    bytes: u64,
    refused: u64,
}

/// Totals of one interface.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) interface: String,
    /// Frames sent, as far as the backend knows.
    pub(crate) sent: u64,
    /// Bytes of these, without FCS.
    pub(crate) bytes: u64,
    /// Frames that the interface could not carry.
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
        Self { link, backend, taken: 0, bytes: 0, refused: 0 }
    }

    /// The interface.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sends the frames of a call. Returns the number of frames that are done: sent or skipped. It is less than all
    /// when the call was ended.
    ///
    /// # Errors
    /// Those that the owner of the frames returns.
    pub fn send(&mut self, call: &mut impl TxCall) -> Result<usize> {
        let (mut at, mut tries) = (0, 0);
        while at < call.len() {
            let Some(now_ns) = call.prepare(at) else { break };
            let obstacle = match self.offer(call, at) {
                Ok(0) => Obstacle::NoRoom,
                Ok(taken) => {
                    let bytes = (at..at + taken).map(|at| call.frame(at).len() as u64).sum();
                    (self.taken, self.bytes) = (self.taken + taken as u64, self.bytes + bytes);
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

    /// Waits until the frames taken have left, and returns the totals.
    pub(crate) fn finish(&mut self) -> Result<Outlet> {
        self.backend.flush()?;
        let backend = self.backend.report();
        Ok(Outlet {
            interface: self.link.name.clone(),
            sent: self.taken.saturating_sub(backend.refused + backend.pending),
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
    /// The obstacle as an error, with advice; `None` where the interface only has no room.
    pub fn into_error(self) -> Option<Error> {
        match self {
            Self::NoRoom => None,
            Self::Refused(error) | Self::Down(error) | Self::Gone(error) | Self::Other(error) => Some(error),
        }
    }
}

/// Leaves an interface without room alone, after several offers.
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

    /// Answers offers by a script: the number of frames taken, or an error.
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

    /// Five frames of one byte; records all that happens.
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
        let link = Link {
            index: 1,
            name: "if0".into(),
            mac: [0; 6],
            mtu: 1500,
            arphrd: 1,
            up: true,
            running: true,
            master: None,
        };
        Transmitter::of(link, Box::new(Script(script)))
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
