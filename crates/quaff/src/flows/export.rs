//! The exporter: takes the lists of all lanes, and passes them to the sinks. It never meters, and never encodes
//! records.

use crate::Result;
use crate::gauge::MeterGauges;
use crate::output::{Records, RecordsInlet};
use quaff_flow::collector::{AllEnded, SinkReport, Sinks};
use quaff_flow::record::FlowRecord;
use quaff_os::clock::wall_ns;
use quaff_os::{Reason, Stop, Wakeup};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a list.
const LOOK: Duration = Duration::from_millis(20);
/// Interval at which the command line gets the counters of the sinks, and the sinks of a live run those of the meter.
const COUNT: Duration = Duration::from_millis(250);
/// Wait for a place in the queue of a sink.
const ROOM_WAIT: Duration = Duration::from_millis(1);
/// Sinks that have taken nothing for this time after the stop are waited for no longer.
const END: Duration = Duration::from_secs(10);
/// Least time for sinks to end what is not in a queue, such as a file.
const END_LEAST: Duration = Duration::from_secs(1);

/// The counters of the sinks, which the exporter updates and others read.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCounters(Arc<Mutex<Vec<SinkReport>>>);

impl SharedCounters {
    fn set(&self, counters: Vec<SinkReport>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    pub(super) fn get(&self) -> Vec<SinkReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The results of the exporter.
#[derive(Debug, Default)]
pub(super) struct Exported {
    pub(super) sinks: Vec<SinkReport>,
}

/// Waits at the end of a run as long as sinks take something: the reader of an output may be slow.
#[derive(Debug, Default)]
struct Patience {
    /// The last state of the sinks, and the time since which it is unchanged.
    last: Option<(Taken, Instant)>,
}

impl Patience {
    /// Returns whether the sinks, which have taken `taken`, have had their time.
    fn is_over(&mut self, taken: Taken, now: Instant) -> bool {
        match &mut self.last {
            Some((last, since)) if !taken.is_more_than(last) => {
                *last = taken;
                now.saturating_duration_since(*since) >= END
            }
            last => {
                *last = Some((taken, now));
                false
            }
        }
    }

    /// Returns the rest of the time.
    fn left(&self, now: Instant) -> Duration {
        self.last.as_ref().map_or(END, |(_, since)| END.saturating_sub(now.saturating_duration_since(*since)))
    }
}

/// The progress of the sinks. A store takes records long before it has written them: until then only its queue gets
/// shorter.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Taken {
    /// A number that changes when sinks send, write or leave out something, or count something as missed.
    counted: u64,
    /// Records in the queue of each sink.
    queued: Vec<u64>,
}

impl Taken {
    fn of(sinks: &[SinkReport]) -> Self {
        let of = |sink: &SinkReport| {
            let missed = sink.missed;
            let missed_records = missed.errors.records + missed.away.records + missed.spool.records;
            sink.sent.records + sink.bytes + sink.spooled.records + sink.unsuited.records + missed_records
        };
        Self {
            counted: sinks.iter().map(of).fold(0, u64::wrapping_add),
            queued: sinks.iter().map(|sink| sink.queued).collect(),
        }
    }

    /// True if a sink took something since `last`. A longer queue is the meter's work, not a sink's.
    fn is_more_than(&self, last: &Self) -> bool {
        self.counted != last.counted || self.queued.iter().zip(&last.queued).any(|(now, last)| now < last)
    }
}

/// The exporter, which runs on its own thread.
pub(super) struct Exporter {
    inlets: Vec<RecordsInlet>,
    sinks: Sinks,
    meters: Vec<Arc<MeterGauges>>,
    wakeup: Wakeup,
    stop: Stop,
    patience: Patience,
    is_live: bool,
    /// The time of exports from files: that of the latest packet in a record, ns since 1970.
    packet_ns: u64,
    counters: SharedCounters,
    /// Lists that sinks still read, with the lanes to which they return.
    lent: VecDeque<(usize, Arc<Records>)>,
    counted: Instant,
}

impl Exporter {
    /// `wakeup` is signalled by the lanes.
    pub(super) fn new(
        inlets: Vec<RecordsInlet>,
        sinks: Sinks,
        meters: Vec<Arc<MeterGauges>>,
        wakeup: Wakeup,
        stop: Stop,
        is_live: bool,
    ) -> Self {
        let (counters, lent, counted) = (SharedCounters::default(), VecDeque::new(), Instant::now());
        let (patience, packet_ns) = (Patience::default(), 0);
        Self { inlets, sinks, meters, wakeup, stop, patience, is_live, packet_ns, counters, lent, counted }
    }

    pub(super) fn counters(&self) -> SharedCounters {
        self.counters.clone()
    }

    /// Runs until all lanes have ended and the sinks have taken what they will take.
    pub(super) fn run(mut self) -> Result<Exported> {
        loop {
            let passed = self.pass_on();
            self.recycle();
            if self.counted.elapsed() >= COUNT {
                self.count();
            }
            if passed {
                continue;
            }
            if self.inlets.iter().all(RecordsInlet::has_ended) {
                break;
            }
            self.wakeup.wait(LOOK)?;
        }
        self.count();
        self.pass_ledger();
        self.wait_while(|sink| sink.queued > 0);
        let left = self.patience.left(Instant::now()).max(END_LEAST);
        Ok(Exported { sinks: self.sinks.stop(left) })
    }

    /// Passes on a list of each lane; returns whether there was one.
    fn pass_on(&mut self) -> bool {
        let mut passed = false;
        for lane in 0..self.inlets.len() {
            let Ok(list) = self.inlets[lane].inbound.pop() else { continue };
            let latest_ns = list.iter().map(FlowRecord::last_ns).max().unwrap_or(0);
            self.packet_ns = self.packet_ns.max(latest_ns);
            let (list, now_ns) = (Arc::new(list), self.now_ns());
            self.wait_for_room(list.len() as u64);
            let begun = Instant::now();
            self.sinks.send(&list, now_ns);
            self.note_refusal(begun);
            self.lent.push_back((lane, list));
            passed = true;
        }
        passed
    }

    /// Notes that sinks refused a list after the stop, for which the send, which began then, has waited already.
    fn note_refusal(&mut self, begun: Instant) {
        if self.is_live || !self.stop.raised() || self.patience.last.is_some() {
            return;
        }
        let sinks = self.sinks.counters();
        if sinks.iter().any(|sink| sink.missed.queue_full.records > 0) {
            self.patience.last = Some((Taken::of(&sinks), begun));
        }
    }

    /// Waits for room in the queues of the sinks after the stop: that can no longer cost a packet, and the lanes end
    /// all their flows at once.
    fn wait_for_room(&mut self, records: u64) {
        let is_full = |sink: &SinkReport| sink.queued > 0 && sink.queued + records > sink.queue_max;
        if self.stop.raised() && !self.wait_while(is_full) {
            // The queues are not waited for a second time.
            self.sinks.end_waiting();
        }
    }

    /// Waits while a sink is busy, as long as sinks take something; returns whether none is any more.
    fn wait_while(&mut self, is_busy: impl Fn(&SinkReport) -> bool) -> bool {
        loop {
            let sinks = self.sinks.counters();
            if !sinks.iter().any(&is_busy) {
                return true;
            }
            if self.patience.is_over(Taken::of(&sinks), Instant::now()) {
                return false;
            }
            self.counters.set(sinks);
            std::thread::sleep(ROOM_WAIT);
        }
    }

    /// Returns the lists that no sink reads any longer. A sink that blocks keeps only those in its queue.
    fn recycle(&mut self) {
        for _ in 0..self.lent.len() {
            let Some((lane, list)) = self.lent.pop_front() else { return };
            match Arc::try_unwrap(list) {
                Ok(mut list) => {
                    list.clear();
                    // The lane keeps only a few lists; others are freed.
                    drop(self.inlets[lane].free.push(list));
                }
                Err(list) => self.lent.push_back((lane, list)),
            }
        }
    }

    /// Publishes the counters, and ends a run whose sums are wrong, or whose sinks have all ended.
    fn count(&mut self) {
        self.counted = Instant::now();
        match self.sinks.all_ended() {
            None => {}
            Some(AllEnded::Closed) => self.stop.raise(Reason::OutputClosed),
            Some(AllEnded::Failed(error)) => self.stop.raise(Reason::WriteError(error)),
        }
        for meter in &self.meters {
            if let Err(words) = meter.ledger().check() {
                self.stop.raise(Reason::Failed(format!("a defect of quaff: {words}")));
            }
        }
        // From files, the same packets give the same exports: counters are exported at the end only.
        if self.is_live {
            self.pass_ledger();
        }
        self.counters.set(self.sinks.counters());
    }

    fn pass_ledger(&mut self) {
        let ledger = self.meters.iter().map(|meter| meter.ledger()).sum();
        let now_ns = self.now_ns();
        self.sinks.ledger(&ledger, now_ns);
    }

    /// The time of an export, ns since 1970.
    fn now_ns(&self) -> u64 {
        if self.is_live { wall_ns() } else { self.packet_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::record;
    use quaff_flow::collector::{
        FileKind, FlowSum, InputStart, OpenSinks, Pressure, SinkPlan, SinksPlan, Target,
    };
    use quaff_flow::export::Scene;
    use rtrb::RingBuffer;
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, channel};

    /// A sink that blocks until its sender is dropped.
    struct Blocked(Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn file(name: &str, out: Box<dyn Write + Send>) -> SinkPlan {
        let (target, scene) = (Target::Writer(name.to_owned(), out), Scene::default());
        SinkPlan::File { target, kind: FileKind::Zeek, scene }
    }

    #[test]
    fn a_sink_that_stands_still_keeps_only_what_its_queue_holds() {
        let (release, blocked) = channel();
        let sinks = vec![file("blocked", Box::new(Blocked(blocked))), file("other", Box::new(io::sink()))];
        let plan = SinksPlan {
            pressure: Pressure::Drop,
            is_round_robin: false,
            queue_records: 2 * LIST,
            is_prompt: true,
        };
        let sinks =
            OpenSinks::open(sinks, plan).and_then(|sinks| sinks.start(InputStart::default())).expect("sinks");
        let (mut lane, inbound) = RingBuffer::new(4);
        let (free, mut empty) = RingBuffer::new(2);
        let inlets = vec![RecordsInlet { inbound, free }];
        let (wakeup, stop) = (Wakeup::new().expect("a wakeup"), Stop::default());
        let mut exporter = Exporter::new(inlets, sinks, Vec::new(), wakeup, stop, true);
        for _ in 0..20 {
            lane.push(vec![record(1); LIST]).expect("room");
            assert!(exporter.pass_on());
            // The other sink reads its lists; three at most are those of the first, in its hands and in its queue.
            let read = Instant::now();
            while exporter.lent.len() > 4 {
                assert!(read.elapsed() < Duration::from_secs(60), "{} lists are kept", exporter.lent.len());
                exporter.recycle();
                std::thread::yield_now();
            }
        }
        assert!(empty.pop().is_ok_and(|list| list.is_empty() && list.capacity() >= LIST));
        drop(release);
    }

    #[test]
    fn sinks_that_take_something_are_waited_for() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(patience.left(start), END);
        // A list each nine seconds, and then none.
        for step in 0..20 {
            assert!(!patience.is_over(counted(step), at(9 * step)), "{step}");
        }
        // A list that still had room.
        let longer = Taken { queued: vec![5], ..counted(19) };
        assert!(!patience.is_over(longer.clone(), at(180)));
        assert_eq!(patience.left(at(180)), Duration::from_secs(1));
        assert!(patience.is_over(longer, at(181)) && patience.left(at(200)).is_zero());
        assert!(!patience.is_over(Taken { queued: vec![4], ..counted(19) }, at(201)), "one was taken");
    }

    fn counted(counted: u64) -> Taken {
        Taken { counted, queued: vec![0] }
    }

    /// A store that works on a segment has neither sent nor missed anything yet.
    #[test]
    fn a_sink_that_empties_its_queue_takes_something() {
        let full = SinkReport { queued: 500, ..SinkReport::default() };
        let sent = SinkReport { queued: 400, sent: flows(100), ..SinkReport::default() };
        let unsuited = SinkReport { unsuited: flows(1), ..full.clone() };
        let before = Taken::of(std::slice::from_ref(&full));
        for other in [SinkReport { queued: 400, ..full.clone() }, sent, unsuited] {
            assert!(Taken::of(&[other]).is_more_than(&before));
        }
        for other in [SinkReport { queued: 600, ..full.clone() }, full] {
            assert!(!Taken::of(&[other]).is_more_than(&before));
        }
    }

    fn flows(records: u64) -> FlowSum {
        FlowSum { records, ..FlowSum::default() }
    }

    /// With input from files, a reader that blocks costs one wait for room, and no second one for the queue.
    #[test]
    fn an_end_waits_once_for_a_reader_that_stands_still() {
        let (release, blocked) = channel();
        let sinks = vec![file("blocked", Box::new(Blocked(blocked)))];
        let stop = Stop::default();
        let plan = SinksPlan {
            pressure: Pressure::Wait(stop.clone()),
            is_round_robin: false,
            queue_records: LIST,
            is_prompt: true,
        };
        let mut sinks =
            OpenSinks::open(sinks, plan).and_then(|sinks| sinks.start(InputStart::default())).expect("sinks");
        stop.raise(Reason::Signal);
        let begun = Instant::now();
        sinks.end_waiting();
        // The sink has one, its queue another.
        for _ in 0..4 {
            sinks.send(&Arc::new(vec![record(1); LIST]), 1);
        }
        assert!(sinks.counters()[0].missed.queue_full.records >= LIST as u64);
        assert!(begun.elapsed() < END / 2, "{:?}", begun.elapsed());
        drop(release);
    }

    /// Number of records of a list with which the text of one list is written at once.
    const LIST: usize = 4096;
}
