//! Messages over TCP and TLS: reconnection, and what waits meanwhile.
//!
//! A message is kept until the peer's kernel has acknowledged its last byte. When a connection ends, those that are
//! not acknowledged are sent again in the next one: those of memory, then those of the spool, then what is new. Each
//! connection is a session of its own: templates first, sequence from 0. Messages of the spool follow the templates of
//! their segment, which may be those of an earlier run. A message that the collector's kernel
//! acknowledged, but the collector never read, is lost; IPFIX has no acknowledgement of its own.

use super::connection::{Connection, Connector, Origin};
use super::counters::Counters;
use super::sink::Shared;
use super::spool::Spool;
use crate::export::{Message, Session, Version, withdrawal};
use quaff_os::Stop;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes that may wait in memory: of a connection that is slow, and without a spool of a collector that is away.
const PENDING_BYTES_MAX: usize = 256 << 10;
const WAITING_BYTES_MAX: usize = 16 << 20;
/// After the end of a run was requested, a sink waits for its collector no longer than this.
const END_WAIT: Duration = Duration::from_secs(10);

/// Makes the messages that a session begins with, at a time.
pub(super) type Announce<'a> = &'a dyn Fn() -> Vec<Message>;

/// A collector over TCP or TLS.
#[derive(Debug)]
pub(super) struct StreamLink {
    connector: Connector,
    connection: Option<Connection>,
    version: Version,
    domain: u32,
    /// The time between two attempts to connect.
    reconnect: Duration,
    last_attempt: Option<Instant>,
    has_connected: bool,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    spool: Option<Spool>,
    /// The templates of the session are those of an earlier run, whose spool is being delivered.
    is_foreign: bool,
    pub(super) failure: Option<String>,
    shared: Arc<Shared>,
}

impl StreamLink {
    pub(super) fn new(
        connector: Connector,
        (version, domain): (Version, u32),
        reconnect: Duration,
        spool: Option<Spool>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            connector,
            connection: None,
            version,
            domain,
            reconnect,
            last_attempt: None,
            has_connected: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            spool,
            is_foreign: false,
            failure: None,
            shared,
        }
    }

    /// Counts records that never became a message.
    pub(super) fn lose(&mut self, records: u64) {
        if let Some(connection) = &mut self.connection {
            connection.session.lose(records);
        }
    }

    /// Takes a message: it is sent, or it waits. With `wait` the call blocks while there is room for neither, until the
    /// flag is raised; otherwise the message is lost and counted.
    pub(super) fn offer(
        &mut self,
        message: Message,
        now_ns: u64,
        announce: Announce<'_>,
        wait: Option<&Stop>,
    ) {
        self.pump(now_ns, announce);
        let has_backlog =
            !self.waiting.is_empty() || self.spool.as_ref().is_some_and(|spool| !spool.is_empty());
        if let Some(connection) =
            self.connection.as_mut().filter(|connection| !has_backlog && connection.has_room())
        {
            connection.send(message, Origin::Encoder);
            return self.write();
        }
        if let Some(spool) = &mut self.spool {
            match spool.push(&message, &|| templates(announce)) {
                Ok(true) => self.shared.counters.spooled.add(message.carried),
                Ok(false) => self.shared.counters.missed_spool.add(message.carried),
                Err(error) => {
                    self.failure = Some(format!("cannot write the spool: {error}"));
                    self.shared.counters.missed_spool.add(message.carried);
                }
            }
            return;
        }
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            match wait {
                Some(stop) => self.wait_for_room(now_ns, announce, stop),
                None => {
                    self.shared.counters.missed_away.add(message.carried);
                    if let Some(connection) = &mut self.connection {
                        connection.session.skip(&message);
                    }
                    return;
                }
            }
        }
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            return self.shared.counters.missed_away.add(message.carried);
        }
        self.waiting_bytes += message.bytes.len();
        self.waiting.push_back(message);
    }

    fn wait_for_room(&mut self, now_ns: u64, announce: Announce<'_>, stop: &Stop) {
        let mut deadline = None;
        while self.waiting_bytes >= WAITING_BYTES_MAX {
            let now = Instant::now();
            let is_over = stop.raised() && *deadline.get_or_insert_with(|| now + END_WAIT) <= now;
            if is_over || now >= self.shared.deadline() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
            self.pump(now_ns, announce);
        }
    }

    /// Connects if that is due, and moves what waits towards the collector as far as it takes it.
    pub(super) fn pump(&mut self, now_ns: u64, announce: Announce<'_>) {
        self.connect_if_due(announce);
        self.write();
        while self.connection.as_ref().is_some_and(Connection::has_room) {
            let Some((mut message, origin, is_first)) = self.next_waiting() else { break };
            if is_first {
                self.begin_segment(&message, now_ns, announce);
            }
            let Some(connection) = &mut self.connection else { break };
            if origin == Origin::Spool && message.has_templates {
                if self.is_foreign {
                    connection.send(message, Origin::Announcement);
                }
                continue;
            }
            connection.session.delay(&mut message, now_ns);
            connection.send(message, origin);
            self.write();
        }
        let is_drained = self.spool.as_ref().is_none_or(Spool::is_empty) && self.waiting.is_empty();
        if self.is_foreign && is_drained && self.connection.is_some() {
            self.withdraw(now_ns);
            self.announce(announce);
            self.write();
        }
    }

    /// The next message that waits, its origin, and whether it begins a segment of the spool.
    fn next_waiting(&mut self) -> Option<(Message, Origin, bool)> {
        if let Some(message) = self.waiting.pop_front() {
            self.waiting_bytes -= message.bytes.len();
            return Some((message, Origin::Encoder, false));
        }
        let spool = self.spool.as_mut()?;
        let popped = spool.pop();
        let damaged = std::mem::take(&mut spool.damaged_bytes);
        Counters::add(&self.shared.counters.spool_damaged_bytes, damaged);
        match popped {
            Ok(taken) => taken.map(|taken| (taken.message, Origin::Spool, taken.is_first)),
            Err(error) => {
                self.failure = Some(format!("cannot read the spool: {error}"));
                None
            }
        }
    }

    /// Prepares the session for a segment of the spool by its first message. Templates of this run are known to the
    /// collector; others replace them until the spool is empty (RFC 7011, 8.1: withdrawn before their numbers are used
    /// again).
    fn begin_segment(&mut self, message: &Message, now_ns: u64, announce: Announce<'_>) {
        let body = |message: &Message| message.bytes.get(16..).map(<[u8]>::to_vec);
        let is_own = !message.has_templates
            || announce().iter().any(|own| own.has_templates && body(own) == body(message));
        let was_foreign = self.is_foreign;
        if !is_own || was_foreign {
            self.withdraw(now_ns);
        }
        self.is_foreign = !is_own;
        if is_own && was_foreign {
            self.announce(announce);
        }
    }

    fn withdraw(&mut self, now_ns: u64) {
        self.is_foreign = false;
        if self.version == Version::Ipfix
            && let Some(connection) = &mut self.connection
        {
            let bytes = withdrawal(now_ns, self.domain);
            let message = Message { bytes, has_templates: true, ..Message::default() };
            connection.send(message, Origin::Announcement);
        }
    }

    fn announce(&mut self, announce: Announce<'_>) {
        if let Some(connection) = &mut self.connection {
            for message in announce() {
                Counters::add(&self.shared.counters.templates, u64::from(message.has_templates));
                connection.send(message, Origin::Announcement);
            }
        }
    }

    fn connect_if_due(&mut self, announce: Announce<'_>) {
        let is_due = self.last_attempt.is_none_or(|last| last.elapsed() >= self.reconnect);
        if self.connection.is_some() || !is_due {
            return;
        }
        self.last_attempt = Some(Instant::now());
        match self.connector.connect(Session::new(self.version)) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.failure = None;
                self.is_foreign = false;
                Counters::add(&self.shared.counters.reconnects, u64::from(self.has_connected));
                self.has_connected = true;
                self.announce(announce);
            }
            Err(error) => self.failure = Some(error),
        }
        self.report_state();
    }

    /// Writes what the connection has, and counts what the peer acknowledged.
    fn write(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        match connection.write() {
            Ok(()) => {
                let messages = connection.take_acknowledged(&self.shared.counters);
                if let Some(Err(error)) = self.spool.as_mut().map(|spool| spool.acknowledged(messages)) {
                    self.failure = Some(format!("cannot remove what was delivered from the spool: {error}"));
                }
            }
            Err(error) => {
                self.failure = Some(error);
                self.disconnect();
            }
        }
    }

    /// Ends the connection. What is not acknowledged is the first to be sent again.
    fn disconnect(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        for message in connection.into_unacknowledged().rev() {
            self.waiting_bytes += message.bytes.len();
            self.waiting.push_front(message);
        }
        if let Some(spool) = &mut self.spool {
            spool.rewind();
        }
        self.report_state();
    }

    fn report_state(&self) {
        // Relaxed: the sink's thread writes it, reports read it, and nothing follows from it.
        let is_up = u64::from(self.connection.is_some());
        self.shared.counters.is_up.store(is_up, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns `true` when all was acknowledged.
    fn is_done(&self) -> bool {
        self.waiting.is_empty()
            && self.spool.as_ref().is_none_or(Spool::is_empty)
            && self.connection.as_ref().is_none_or(Connection::is_idle)
    }

    /// Sends what waits until `deadline`. The rest stays in the spool, or is lost and counted.
    pub(super) fn finish(&mut self, now_ns: u64, announce: Announce<'_>, deadline: Instant) {
        loop {
            self.pump(now_ns, announce);
            let is_away = self.connection.is_none() && self.spool.is_some();
            if self.is_done() || is_away || Instant::now() >= deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.is_idle()) {
            connection.close();
        }
        self.disconnect();
        for message in std::mem::take(&mut self.waiting) {
            let kept = self.spool.as_mut().map(|spool| spool.push(&message, &|| templates(announce)));
            match kept {
                Some(Ok(true)) => self.shared.counters.spooled.add(message.carried),
                _ => self.shared.counters.missed_end.add(message.carried),
            }
        }
        if let Some(Err(error)) = self.spool.take().map(Spool::close) {
            self.failure = Some(format!("cannot complete the spool: {error}"));
        }
    }
}

/// The templates of a session.
fn templates(announce: Announce<'_>) -> Vec<Message> {
    announce().into_iter().filter(|message| message.has_templates).collect()
}

/// Returns `true` while a connection with so many bytes to write takes another message.
pub(super) fn has_room(pending_bytes: usize) -> bool {
    pending_bytes < PENDING_BYTES_MAX
}
