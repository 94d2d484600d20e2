//! One connection to a collector over TCP or TLS: bytes to write, and the messages that the peer has not acknowledged.

use super::counters::Counters;
use super::stream::has_room;
use super::tls::{TlsClient, TlsStream};
use crate::export::{Message, Session};
use quaff_os::socket::{end_when_peer_is_gone, unacknowledged_bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A peer that acknowledges nothing for this time is gone.
const GONE: Duration = Duration::from_secs(30);
/// Reads at a time of what a collector should not send.
const READS: usize = 64;

/// Opens connections.
#[derive(Debug)]
pub(super) struct Connector {
    /// All addresses of the collector's name; the first that answers is used.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) timeout: Duration,
    pub(super) tls: Option<TlsClient>,
    /// The collector as the user wrote it, for errors.
    pub(super) name: String,
}

impl Connector {
    /// Connects, with the handshake of TLS.
    pub(super) fn connect(&self, session: Session) -> Result<Connection, String> {
        let mut failures = Vec::new();
        for address in &self.addresses {
            match self.connect_to(address) {
                Ok((stream, tls)) => return Ok(Connection::new(stream, tls, session)),
                Err(error) => failures.push(format!("{address}: {error}")),
            }
        }
        Err(format!("cannot connect to {} ({})", self.name, failures.join("; ")))
    }

    fn connect_to(&self, address: &SocketAddr) -> io::Result<(TcpStream, Option<TlsStream>)> {
        let mut stream = TcpStream::connect_timeout(address, self.timeout)?;
        end_when_peer_is_gone(&stream, GONE)?;
        let tls = match &self.tls {
            None => None,
            Some(client) => Some(client.handshake(&mut stream, Instant::now() + self.timeout)?),
        };
        stream.set_nonblocking(true)?;
        Ok((stream, tls))
    }
}

/// The place that a message comes from, and returns to if the connection ends before it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// It is not sent again: a new session has its own announcements.
    Announcement,
    Encoder,
    Spool,
}

/// A connection that is up.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    tls: Option<TlsStream>,
    pub(super) session: Session,
    /// Bytes to write, as they go to the kernel; those before `at` are written.
    pending: Vec<u8>,
    at: usize,
    /// Bytes that were ever queued, and written.
    queued: u64,
    written: u64,
    /// Messages by the last of their bytes.
    unacknowledged: VecDeque<(u64, Message, Origin)>,
    /// TLS has refused bytes.
    is_broken: bool,
}

impl Connection {
    fn new(stream: TcpStream, tls: Option<TlsStream>, session: Session) -> Self {
        let (pending, unacknowledged) = (Vec::new(), VecDeque::new());
        let is_broken = false;
        Self { stream, tls, session, pending, at: 0, queued: 0, written: 0, unacknowledged, is_broken }
    }

    /// Returns `true` while another message may be queued.
    pub(super) fn has_room(&self) -> bool {
        has_room(self.pending.len() - self.at)
    }

    /// Returns `true` when the peer has acknowledged all.
    pub(super) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.at == self.pending.len()
    }

    /// Queues a message. What TLS refuses never counts as sent: the next write ends the connection.
    pub(super) fn send(&mut self, mut message: Message, origin: Origin) {
        self.session.seal(&mut message);
        let before = self.pending.len();
        match &mut self.tls {
            None => self.pending.extend(&message.bytes),
            Some(tls) => self.is_broken |= tls.encrypt(&message.bytes, &mut self.pending).is_err(),
        }
        if self.is_broken {
            return self.unacknowledged.push_back((u64::MAX, message, origin));
        }
        self.queued += (self.pending.len() - before) as u64;
        self.unacknowledged.push_back((self.queued, message, origin));
    }

    /// Writes as much as the kernel takes. An error ends the connection.
    pub(super) fn write(&mut self) -> Result<(), String> {
        self.read_end()?;
        if self.is_broken {
            return Err("TLS: the session takes no more data".to_owned());
        }
        while self.at < self.pending.len() {
            match self.stream.write(&self.pending[self.at..]) {
                Ok(0) => return Err("the collector takes no more bytes".to_owned()),
                Ok(bytes) => {
                    self.at += bytes;
                    self.written += bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot write to the collector: {error}")),
            }
        }
        if self.at == self.pending.len() {
            self.pending.clear();
            self.at = 0;
        } else if self.at > 64 << 10 {
            self.pending.drain(..self.at);
            self.at = 0;
        }
        Ok(())
    }

    /// Reads what a collector should not send, to see a reset. IPFIX has no messages in this direction. A collector may
    /// end its own direction and continue to read; one that is gone resets the connection at the next write, and
    /// acknowledges nothing of that. TLS has an end of its own.
    fn read_end(&mut self) -> Result<(), String> {
        let mut bytes = [0; 1024];
        for _ in 0..READS {
            match self.stream.read(&mut bytes) {
                Ok(0) if self.tls.is_some() => return Err("the collector closed the connection".to_owned()),
                Ok(0) => return Ok(()),
                Ok(length) => {
                    if let Some(tls) = &mut self.tls {
                        tls.take(&bytes[..length]).map_err(|error| format!("TLS: {error}"))?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("the connection to the collector failed: {error}")),
            }
        }
        Ok(())
    }

    /// Counts the messages that the peer has acknowledged, and drops them. Returns the number of those of the spool.
    pub(super) fn take_acknowledged(&mut self, counters: &Counters) -> u64 {
        if self.unacknowledged.is_empty() {
            return 0;
        }
        // Without the kernel's word nothing counts as acknowledged.
        let Ok(waiting) = unacknowledged_bytes(&self.stream) else { return 0 };
        let mut of_spool = 0;
        let acknowledged = self.written.saturating_sub(waiting as u64);
        while self.unacknowledged.front().is_some_and(|(end, ..)| *end <= acknowledged) {
            if let Some((_, message, origin)) = self.unacknowledged.pop_front() {
                if origin == Origin::Spool {
                    of_spool += 1;
                    counters.from_spool.add(message.carried);
                }
                counters.sent.add(message.carried);
                Counters::add(&counters.messages, 1);
                Counters::add(&counters.bytes, message.bytes.len() as u64);
            }
        }
        of_spool
    }

    /// The messages of the encoder to send again, in their order.
    pub(super) fn into_unacknowledged(self) -> impl DoubleEndedIterator<Item = Message> {
        let of_encoder = |(_, message, origin)| (origin == Origin::Encoder).then_some(message);
        self.unacknowledged.into_iter().filter_map(of_encoder)
    }

    /// Ends the connection in order.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.pending);
            let _ = self.write();
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
