//! Messages over TCP and TLS: reconnection, and what waits meanwhile.
//!
//! A message is kept until the peer's kernel has acknowledged its last byte. When a connection ends, those that are
//! not acknowledged are sent again in the next one, before what waits in memory, in the spool, and what is new. Each
//! connection is a session of its own: templates first, sequence from 0. A message from the spool brings the templates
//! that it was made with. A message that the collector's kernel acknowledged, but the collector never read, is lost;
//! IPFIX has no acknowledgement of its own.

use super::connection::{Connection, Connector, Origin, Outgoing};
use super::counters::Counters;
use super::pace::{Pace, RateLimit};
use super::segment::template_records;
use super::shared::Shared;
use super::spool::{Spool, SpoolHead};
use crate::export::{Message, Session, Version, withdrawal};
use quaff_os::Stop;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of messages that wait in memory for a collector that is away, without a spool.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// After the end of a run was requested, a sink waits for its collector no longer than this.
const END_WAIT: Duration = Duration::from_secs(10);
/// A meter that reads files waits for a collector that is away as long as this many attempts to connect take.
const AWAY_ATTEMPTS: u32 = 2;

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
    /// The end of the last connection, or the start.
    away_since: Instant,
    waiting: VecDeque<Outgoing>,
    waiting_bytes: usize,
    spool: Option<Spool>,
    /// The rate at which what waited leaves, and the time of the next message of it. New messages were limited before.
    pace: Pace,
    due: Instant,
    /// The templates of this run, and those that the session has.
    own: Vec<u8>,
    announced: Vec<u8>,
    pub(super) failure: Option<String>,
    shared: Arc<Shared>,
}

impl StreamLink {
    pub(super) fn new(
        connector: Connector,
        (version, domain): (Version, u32),
        (reconnect, rate): (Duration, RateLimit),
        spool: Option<Spool>,
        shared: Arc<Shared>,
    ) -> Self {
        let now = Instant::now();
        Self {
            connector,
            connection: None,
            version,
            domain,
            reconnect,
            last_attempt: None,
            has_connected: false,
            away_since: now,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            spool,
            pace: Pace::new(rate, now),
            due: now,
            own: Vec::new(),
            announced: Vec::new(),
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
    /// flag is raised or the collector is away for long; otherwise the message is lost and counted.
    pub(super) fn offer(
        &mut self,
        message: Message,
        now_ns: u64,
        announce: Announce<'_>,
        wait: Option<&Stop>,
    ) {
        self.pump(now_ns, announce);
        let has_backlog =
            !self.waiting.is_empty() || self.spool.as_ref().is_some_and(|spool| !spool.is_drained());
        let has_room = self.connection.as_ref().is_some_and(Connection::has_room);
        if has_room && !has_backlog {
            return self.dispatch(Outgoing { message, origin: Origin::Memory }, now_ns, announce);
        }
        if self.spool.is_some() {
            return self.offer_to_spool(&message, announce);
        }
        if let (Some(stop), true) = (wait, self.waiting_bytes >= WAITING_BYTES_MAX) {
            self.wait_for_room(now_ns, announce, stop);
        }
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            self.shared.counters.missed_away.add(message.carried);
            if let Some(connection) = &mut self.connection {
                connection.session.skip(&message);
            }
            return;
        }
        self.waiting_bytes += message.bytes.len();
        self.waiting.push_back(Outgoing { message, origin: Origin::Memory });
    }

    fn offer_to_spool(&mut self, message: &Message, announce: Announce<'_>) {
        let Some(spool) = &mut self.spool else { return };
        match spool.push(message, &|| templates(announce)) {
            Ok(true) => self.shared.counters.spooled.add(message.carried),
            Ok(false) => self.shared.counters.missed_spool.add(message.carried),
            Err(error) => {
                self.failure = Some(format!("cannot write the spool: {error}"));
                self.shared.counters.missed_spool.add(message.carried);
            }
        }
    }

    fn wait_for_room(&mut self, now_ns: u64, announce: Announce<'_>, stop: &Stop) {
        let mut deadline = None;
        while self.waiting_bytes >= WAITING_BYTES_MAX {
            let now = Instant::now();
            let is_over = stop.raised() && *deadline.get_or_insert_with(|| now + END_WAIT) <= now;
            let away_max = AWAY_ATTEMPTS * (self.reconnect + self.connector.timeout);
            let is_gone = self.connection.is_none() && self.away_since.elapsed() >= away_max;
            if is_over || is_gone || now >= self.shared.deadline() {
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
        while self.connection.as_ref().is_some_and(Connection::has_room) && Instant::now() >= self.due {
            let Some(mut outgoing) = self.next_waiting() else { break };
            if let Some(connection) = &self.connection {
                connection.session.delay(&mut outgoing.message, now_ns);
            }
            let now = Instant::now();
            self.due = now + self.pace.count(outgoing.message.carried.records, now);
            self.dispatch(outgoing, now_ns, announce);
        }
    }

    /// The next message that waits.
    fn next_waiting(&mut self) -> Option<Outgoing> {
        if let Some(outgoing) = self.waiting.pop_front() {
            self.waiting_bytes -= outgoing.message.bytes.len();
            return Some(outgoing);
        }
        let spool = self.spool.as_mut()?;
        let popped = spool.pop();
        report_damage(spool, &self.shared);
        match popped {
            Ok(popped) => popped.map(|(message, head)| Outgoing { message, origin: Origin::Spool(head) }),
            Err(error) => {
                self.failure = Some(format!("cannot read the spool: {error}"));
                None
            }
        }
    }

    /// Sends a message in a session that has its templates.
    fn dispatch(&mut self, outgoing: Outgoing, now_ns: u64, announce: Announce<'_>) {
        match &outgoing.origin {
            Origin::Spool(head) if head.templates != self.announced => self.announce_head(head, now_ns),
            Origin::Memory if self.own != self.announced => {
                self.withdraw(now_ns);
                self.announce(announce);
            }
            _ => {}
        }
        if let Some(connection) = &mut self.connection {
            connection.send(outgoing);
        }
        self.write();
    }

    /// Gives the session the templates of a segment of the spool.
    fn announce_head(&mut self, head: &Arc<SpoolHead>, now_ns: u64) {
        self.withdraw(now_ns);
        self.announced.clone_from(&head.templates);
        for message in &head.messages {
            self.send_announcement(message.clone(), now_ns);
        }
    }

    /// Ends the templates of the session: their numbers are to be used again (RFC 7011, 8.1).
    fn withdraw(&mut self, now_ns: u64) {
        if self.version == Version::Ipfix {
            let bytes = withdrawal(now_ns, self.domain);
            self.send_announcement(Message { bytes, ..Message::default() }, now_ns);
        }
    }

    fn announce(&mut self, announce: Announce<'_>) {
        let messages = announce();
        self.own = messages.iter().flat_map(|own| template_records(&own.bytes, self.version)).collect();
        self.announced.clone_from(&self.own);
        let Some(connection) = &mut self.connection else { return };
        for message in messages {
            Counters::add(&self.shared.counters.templates, u64::from(message.has_templates));
            connection.send(Outgoing { message, origin: Origin::Announcement });
        }
    }

    fn send_announcement(&mut self, mut message: Message, now_ns: u64) {
        let Some(connection) = &mut self.connection else { return };
        connection.session.delay(&mut message, now_ns);
        Counters::add(&self.shared.counters.templates, u64::from(message.has_templates));
        connection.send(Outgoing { message, origin: Origin::Announcement });
    }

    fn connect_if_due(&mut self, announce: Announce<'_>) {
        let is_due = self.last_attempt.is_none_or(|last| last.elapsed() >= self.reconnect);
        if self.connection.is_some() || !is_due {
            return;
        }
        self.last_attempt = Some(Instant::now());
        match self.connector.connect(Session::new(self.version), self.shared.deadline()) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.failure = None;
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
        match connection.write().and_then(|()| connection.take_acknowledged()) {
            Ok(acknowledged) => acknowledged.into_iter().for_each(|outgoing| self.arrived(&outgoing)),
            Err(error) => {
                self.failure = Some(error);
                self.disconnect();
            }
        }
    }

    /// Counts a message that the collector has.
    fn arrived(&mut self, outgoing: &Outgoing) {
        let (counters, carried) = (&self.shared.counters, outgoing.message.carried);
        counters.sent.add(carried);
        Counters::add(&counters.messages, 1);
        Counters::add(&counters.bytes, outgoing.message.bytes.len() as u64);
        let Origin::Spool(head) = &outgoing.origin else { return };
        counters.from_spool.add(carried);
        if head.is_earlier {
            counters.from_earlier.add(carried);
        }
        let Some(spool) = &mut self.spool else { return };
        let acknowledged = spool.acknowledge();
        report_damage(spool, &self.shared);
        if let Err(error) = acknowledged {
            self.failure = Some(format!("cannot remove what was sent from the spool: {error}"));
        }
    }

    /// Ends the connection. What is not acknowledged is the first to be sent again.
    fn disconnect(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        for outgoing in connection.into_unacknowledged().rev() {
            self.waiting_bytes += outgoing.message.bytes.len();
            self.waiting.push_front(outgoing);
        }
        self.away_since = Instant::now();
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
            && self.spool.as_ref().is_none_or(Spool::is_drained)
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
        self.keep_waiting(announce);
    }

    /// Puts what is still in memory into the spool. What came from it is there.
    fn keep_waiting(&mut self, announce: Announce<'_>) {
        let of_memory =
            |outgoing: Outgoing| matches!(outgoing.origin, Origin::Memory).then_some(outgoing.message);
        let unsent: Vec<Message> =
            std::mem::take(&mut self.waiting).into_iter().filter_map(of_memory).collect();
        let (kept, error) = match self.spool.take() {
            Some(spool) => spool.close(&unsent, &|| templates(announce)),
            None => (0, None),
        };
        if let Some(error) = error {
            self.failure = Some(format!("cannot complete the spool: {error}"));
        }
        let counters = &self.shared.counters;
        unsent[..kept].iter().for_each(|message| counters.spooled.add(message.carried));
        unsent[kept..].iter().for_each(|message| counters.missed_end.add(message.carried));
    }
}

/// Counts what was damaged since the last call, and notes where it is kept.
fn report_damage(spool: &mut Spool, shared: &Shared) {
    Counters::add(&shared.counters.spool_damaged_bytes, std::mem::take(&mut spool.damaged_bytes));
    Counters::add(&shared.counters.spool_open_files, std::mem::take(&mut spool.open_segments));
    let damaged = std::mem::take(&mut spool.damaged);
    if !damaged.is_empty() {
        let names = damaged.into_iter().map(|path| path.display().to_string());
        shared.damaged.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
    }
}

/// The templates of a session.
fn templates(announce: Announce<'_>) -> Vec<Message> {
    announce().into_iter().filter(|message| message.has_templates).collect()
}
