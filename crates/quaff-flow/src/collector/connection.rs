//! One connection to a collector over TCP or TLS, with its unsent bytes and unacknowledged messages.

use super::spool::SpoolHead;
use super::tls::{TlsClient, TlsStream};
use crate::export::{Message, Session};
use quaff_os::socket::{end_when_peer_is_gone, unacknowledged_bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A collector that acknowledges nothing for this time counts as down.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Maximum bytes that wait to be written; a connection with more is too slow.
const PENDING_BYTES_MAX: usize = 256 << 10;
/// Maximum reads per call, so that a peer that sends endlessly cannot occupy the sink.
const READS_MAX: usize = 64;

/// Opens connections.
#[derive(Debug)]
pub(super) struct Connector {
    /// All addresses of the collector's name; the first that accepts is used.
    pub(super) addresses: Vec<SocketAddr>,
    /// For the connection, and again for its handshake.
    pub(super) timeout: Duration,
    pub(super) tls: Option<TlsClient>,
    /// The collector as the user wrote it, for errors.
    pub(super) name: String,
}

impl Connector {
    /// Connects, with the TLS handshake; all attempts end by `end`.
    pub(super) fn connect(&self, session: Session, end: Instant) -> Result<Connection, String> {
        let mut failures = Vec::new();
        for address in &self.addresses {
            match self.connect_to(address, end) {
                Ok((stream, tls)) => return Ok(Connection::new(stream, tls, session)),
                Err(error) => failures.push(format!("{address}: {error}")),
            }
        }
        Err(format!("cannot connect to {} ({})", self.name, failures.join("; ")))
    }

    fn connect_to(&self, address: &SocketAddr, end: Instant) -> io::Result<(TcpStream, Option<TlsStream>)> {
        let wait = || self.timeout.min(end.saturating_duration_since(Instant::now()));
        // A timeout of zero is an error; a connection on the same host needs less than 1 ms.
        let mut stream = TcpStream::connect_timeout(address, wait().max(Duration::from_millis(1)))?;
        end_when_peer_is_gone(&stream, SILENCE_MAX)?;
        // Without this number it is unknown what has arrived, and every message would count as sent.
        unacknowledged_bytes(&stream).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the kernel does not report what the peer acknowledged: {error}"),
            )
        })?;
        let tls = match &self.tls {
            None => None,
            Some(client) => Some(client.handshake(&mut stream, Instant::now() + wait())?),
        };
        stream.set_nonblocking(true)?;
        Ok((stream, tls))
    }
}

/// A queued message, with what is needed to send it again in another session.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) origin: Origin,
}

/// The origin of a message.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// Templates and options of this session; another session has its own.
    Announcement,
    /// A message of this run that is not in the spool.
    Memory,
    /// A message from the spool, with the templates it was encoded with.
    Spool(Arc<SpoolHead>),
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    tls: Option<TlsStream>,
    pub(super) session: Session,
    /// Bytes for the kernel, encrypted for TLS; those before `at` are written.
    pending: Vec<u8>,
    at: usize,
    /// Total bytes queued, and written.
    queued: u64,
    written: u64,
    /// Messages, with the position of their last byte.
    unacknowledged: VecDeque<(u64, Outgoing)>,
    /// The TLS error after which nothing can be encrypted.
    ended: Option<String>,
}

impl Connection {
    fn new(stream: TcpStream, tls: Option<TlsStream>, session: Session) -> Self {
        let (pending, unacknowledged) = (Vec::new(), VecDeque::new());
        Self { stream, tls, session, pending, at: 0, queued: 0, written: 0, unacknowledged, ended: None }
    }

    /// True while another message may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.ended.is_none() && self.pending.len() - self.at < PENDING_BYTES_MAX
    }

    /// True if the peer has acknowledged everything.
    pub(super) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.at == self.pending.len()
    }

    /// Queues a message.
    pub(super) fn send(&mut self, mut outgoing: Outgoing) {
        self.session.seal(&mut outgoing.message);
        let before = self.pending.len();
        let encrypted = match &mut self.tls {
            None => {
                self.pending.extend(&outgoing.message.bytes);
                Ok(())
            }
            Some(tls) => tls.encrypt(&outgoing.message.bytes, &mut self.pending),
        };
        self.queued += (self.pending.len() - before) as u64;
        let mut last = self.queued;
        if let Err(error) = encrypted {
            // It will never be acknowledged; the next session sends it again.
            self.ended = Some(format!("TLS: {error}"));
            last = u64::MAX;
        }
        self.unacknowledged.push_back((last, outgoing));
    }

    /// Writes as much as the kernel accepts. An error ends the connection.
    pub(super) fn write(&mut self) -> Result<(), String> {
        self.read_end()?;
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
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Reads and discards, to detect a reset; IPFIX has no messages in this direction. A collector may close its
    /// direction and continue to read; one that is gone resets the connection at the next write without acknowledging
    /// it. With TLS an end of this direction ends the connection.
    fn read_end(&mut self) -> Result<(), String> {
        let mut bytes = [0; 1024];
        for _ in 0..READS_MAX {
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

    /// Removes and returns the messages that the peer has acknowledged.
    pub(super) fn take_acknowledged(&mut self) -> Result<Vec<Outgoing>, String> {
        if self.unacknowledged.is_empty() {
            return Ok(Vec::new());
        }
        let waiting = unacknowledged_bytes(&self.stream)
            .map_err(|error| format!("it is unknown what the collector acknowledged: {error}"))?;
        let acknowledged = self.written.saturating_sub(waiting as u64);
        let messages = self.unacknowledged.partition_point(|(end, _)| *end <= acknowledged);
        Ok(self.unacknowledged.drain(..messages).map(|(_, outgoing)| outgoing).collect())
    }

    /// The messages to send again, in order.
    pub(super) fn into_unacknowledged(self) -> impl DoubleEndedIterator<Item = Outgoing> {
        let messages = self.unacknowledged.into_iter().map(|(_, outgoing)| outgoing);
        messages.filter(|outgoing| !matches!(outgoing.origin, Origin::Announcement))
    }

    /// Closes the connection gracefully.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&mut self.pending);
            let _ = self.write();
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
