//! The thread of one sink: takes batches from its queue, encodes, and sends. A slow one delays no other.

use super::counters::carried_by;
use super::pace::Pace;
use super::queue::Popped;
use super::shared::{ExportClock, Shared};
use super::stream::StreamLink;
use super::udp::UdpLink;
use crate::export::{Encoder, Message, Statistics};
use crate::ledger::FlowLedger;
use crate::record::FlowRecord;
use quaff_os::Stop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The repetition of templates over UDP (RFC 7011, 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateRefresh {
    /// Repeat after this time.
    pub every: Duration,
    /// Repeat after this number of messages; 0: never.
    pub messages: u32,
    /// Announcements before the first record.
    pub copies: u32,
}

impl Default for TemplateRefresh {
    fn default() -> Self {
        Self { every: Duration::from_secs(60), messages: 100, copies: 2 }
    }
}

/// The settings of a collector's thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    pub(super) refresh: TemplateRefresh,
    /// A partly filled message is sent after this time.
    pub(super) linger: Duration,
    /// Interval of the options with counters.
    pub(super) statistics: Duration,
    /// Records are sent within one second: the input is live, or a file that grows.
    pub(super) is_prompt: bool,
}

/// The transport to a collector.
#[derive(Debug)]
pub(super) enum Link {
    Udp(UdpLink),
    Stream(Box<StreamLink>),
}

/// The state of a collector's thread.
#[derive(Debug)]
pub(super) struct CollectorSink {
    pub(super) encoder: Encoder,
    pub(super) link: Link,
    pub(super) shared: Arc<Shared>,
    pub(super) pulse: Pulse,
    pub(super) clock: ExportClock,
    /// Waiting for room is allowed until this is set; `None`: never.
    pub(super) wait: Option<Stop>,
    pub(super) pace: Pace,
    pub(super) announced: Option<Instant>,
    pub(super) since_announced: u32,
    pub(super) flushed: Instant,
    pub(super) ledger: Option<FlowLedger>,
    pub(super) statistics_sent: Instant,
}

impl CollectorSink {
    /// The loop of the thread.
    pub(super) fn run(mut self) {
        self.tick();
        loop {
            match self.shared.queue.clone().pop(Instant::now() + self.idle_wait()) {
                Popped::Item(batch) => {
                    self.clock.set(batch.now_ns);
                    self.take(&batch.records);
                }
                Popped::TimedOut => {}
                Popped::Closed => break,
            }
            self.tick();
        }
        self.finish();
    }

    /// Maximum wait for a batch; shorter if a connection has bytes to write.
    fn idle_wait(&self) -> Duration {
        match &self.link {
            Link::Udp(_) => Duration::from_millis(100),
            Link::Stream(_) => Duration::from_millis(10),
        }
    }

    fn take(&mut self, records: &[FlowRecord]) {
        for (at, part) in records.chunks(64).enumerate() {
            if Instant::now() > self.shared.deadline() {
                return self
                    .shared
                    .counters
                    .missed_end
                    .add(carried_by(&records[at * 64..], self.shared.is_biflow));
            }
            self.fit_path();
            for record in part {
                self.encoder.push(record, self.clock.now_ns());
                self.deliver();
            }
        }
        self.flush_link();
    }

    /// Sends the messages that the link has collected.
    fn flush_link(&mut self) {
        if let Link::Udp(link) = &mut self.link {
            link.flush(&self.shared.counters);
        }
    }

    /// Limits the messages that are encoded from now on to the MTU of the path, which may have changed.
    fn fit_path(&mut self) {
        if let Link::Udp(link) = &self.link {
            self.encoder.limit(link.message_bytes_max());
        }
    }

    /// Sends the complete messages.
    fn deliver(&mut self) {
        while let Some(message) = self.encoder.pop() {
            let now = Instant::now();
            let pause = self.pace.count(message.carried.records, now);
            if !pause.is_zero() {
                self.flush_link();
                self.sleep_until(now + pause);
            }
            self.send(message);
        }
    }

    /// Sleeps until `end`, in short parts, because the run may end before.
    fn sleep_until(&self, end: Instant) {
        loop {
            let left = end.min(self.shared.deadline()).saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    fn send(&mut self, message: Message) {
        let now_ns = self.clock.now_ns();
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        match &mut self.link {
            Link::Stream(link) => {
                link.lose(lost);
                link.offer(message, now_ns, &|| self.encoder.announce(now_ns), self.wait.as_ref());
            }
            Link::Udp(link) => {
                link.lose(lost);
                self.announce_if_due();
                self.since_announced += 1;
                self.send_udp(message);
            }
        }
    }

    fn send_udp(&mut self, message: Message) {
        if let Link::Udp(link) = &mut self.link {
            link.send(message, &self.shared.counters);
        }
    }

    /// Sends the templates over UDP if that is due; before the first record, several copies.
    fn announce_if_due(&mut self) {
        let refresh = self.pulse.refresh;
        let copies = match self.announced {
            None => refresh.copies.max(1),
            Some(at) if at.elapsed() >= refresh.every => 1,
            Some(_) if refresh.messages > 0 && self.since_announced >= refresh.messages => 1,
            Some(_) => return,
        };
        self.announced = Some(Instant::now());
        self.since_announced = 0;
        self.fit_path();
        for _ in 0..copies {
            for message in self.encoder.announce(self.clock.now_ns()) {
                self.send_udp(message);
            }
        }
    }

    /// Does what is due by time: sends partly filled messages, templates and statistics, and reconnects.
    fn tick(&mut self) {
        self.take_ledger();
        let now_ns = self.clock.now_ns();
        if self.pulse.is_prompt && self.flushed.elapsed() >= self.pulse.linger {
            self.flushed = Instant::now();
            self.encoder.flush(now_ns);
            self.deliver();
        }
        if self.statistics_sent.elapsed() >= self.pulse.statistics {
            self.send_statistics();
        }
        match &mut self.link {
            Link::Stream(link) => {
                link.pump(now_ns, &|| self.encoder.announce(now_ns));
                self.shared.fail(link.failure.clone());
            }
            Link::Udp(_) => {
                self.announce_if_due();
                self.flush_link();
            }
        }
        self.report_unencoded();
    }

    fn take_ledger(&mut self) {
        if let Some((ledger, now_ns)) = self.shared.take_ledger() {
            self.clock.set(now_ns);
            self.ledger = Some(ledger);
        }
    }

    fn send_statistics(&mut self) {
        self.statistics_sent = Instant::now();
        let Some(ledger) = self.ledger else { return };
        let report = self.shared.counters.report("", "");
        let not_sent = report.missed.total().into();
        let statistics = Statistics {
            ledger,
            messages: report.messages,
            records: report.sent.records,
            bytes: report.bytes,
            not_sent,
        };
        self.encoder.statistics(&statistics, self.clock.now_ns());
        self.deliver();
    }

    fn report_unencoded(&self) {
        let unencoded = self.encoder.unencoded();
        let mut unsuited = unencoded.unsuited;
        unsuited += unencoded.by_policy;
        self.shared.counters.unsuited.set(unsuited);
    }

    fn finish(&mut self) {
        self.take_ledger();
        self.encoder.flush(self.clock.now_ns());
        self.deliver();
        self.send_statistics();
        self.flush_link();
        let (now_ns, deadline) = (self.clock.now_ns(), self.shared.deadline());
        if let Link::Stream(link) = &mut self.link {
            link.finish(now_ns, &|| self.encoder.announce(now_ns), deadline);
            self.shared.fail(link.failure.clone());
        }
        self.report_unencoded();
        self.shared.counters.missed_errors.add(self.encoder.unencoded().too_long);
    }
}
