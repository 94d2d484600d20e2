//! One connection to a collector over TCP or TLS: bytes to write, and the messages that the peer has not acknowledged.

use super::spool::SpoolHead;
use super::tls::{TlsClient, TlsStream};
use crate::export::{Message, Session};
use quaff_os::socket::{end_when_peer_is_gone, unacknowledged_bytes};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A collector that acknowledges nothing for so long is away.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Bytes that may wait to be written: a connection that has more is slow.
const PENDING_BYTES_MAX: usize = 256 << 10;
/// Reads of one call: a peer that sends without an end gets no more of the sink's time.
const READS_MAX: usize = 64;

/// Opens connections.
#[derive(Debug)]
pub(super) struct Connector {
    /// All addresses of the collector's name; the first that answers is used.
    pub(super) addresses: Vec<SocketAddr>,
    /// Of a connection, and again of its handshake.
    pub(super) timeout: Duration,
    pub(super) tls: Option<TlsClient>,
    /// The collector as the user wrote it, for errors.
    pub(super) name: String,
}

impl Connector {
    /// Connects, with the handshake of TLS; at `end` at the latest all attempts are over.
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
        // No time at all is an error of its own; a connection on the same host needs less than this.
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

/// A message on its way, with what is needed to send it again in another session.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Message,
    pub(super) origin: Origin,
}

/// The origin of a message.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// Templates and options of a session: another session has its own.
    Announcement,
    /// Of this run, and in no spool.
    Memory,
    /// The spool, with the templates that it was made with.
    Spool(Arc<SpoolHead>),
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
    unacknowledged: VecDeque<(u64, Outgoing)>,
    /// The error after which no message can be encrypted.
    ended: Option<String>,
}

impl Connection {
    fn new(stream: TcpStream, tls: Option<TlsStream>, session: Session) -> Self {
        let (pending, unacknowledged) = (Vec::new(), VecDeque::new());
        Self { stream, tls, session, pending, at: 0, queued: 0, written: 0, unacknowledged, ended: None }
    }

    /// Returns `true` while another message may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.ended.is_none() && self.pending.len() - self.at < PENDING_BYTES_MAX
    }

    /// Returns `true` when the peer has acknowledged all.
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
            // No byte of it will ever be acknowledged; the next session sends it again.
            self.ended = Some(format!("TLS: {error}"));
            last = u64::MAX;
        }
        self.unacknowledged.push_back((last, outgoing));
    }

    /// Writes as much as the kernel takes. An error ends the connection.
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

    /// Reads what a collector should not send, to see a reset. IPFIX has no messages in this direction. A collector may
    /// end its own direction and continue to read; one that is gone resets the connection at the next write, and
    /// acknowledges nothing of that. TLS has an end of its own.
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

    /// Returns the messages that the peer has acknowledged since the last call, and keeps them no longer.
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

    /// The messages to send again, in their order.
    pub(super) fn into_unacknowledged(self) -> impl DoubleEndedIterator<Item = Outgoing> {
        let messages = self.unacknowledged.into_iter().map(|(_, outgoing)| outgoing);
        messages.filter(|outgoing| !matches!(outgoing.origin, Origin::Announcement))
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
