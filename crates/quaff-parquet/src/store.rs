//! The sink: starts and ends segments, and counts what is lost with a failed segment. Never meters.

use crate::columns::Columns;
use crate::error::Result;
use crate::ledger::{SegmentLedger, ignored_since, missed_since};
use crate::schema::{Facts, GROUP_ROWS};
use crate::segment::{Segment, make_folder, remove_abandoned};
use quaff_flow::collector::{FlowSum, RecordStore, StoreOutcome};
use quaff_flow::export::{Names, Scene, date_utc};
use quaff_flow::ledger::FlowLedger;
use quaff_flow::plan::ExtrasPlan;
use quaff_flow::record::FlowRecord;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const HOUR_NS: u64 = 3_600_000_000_000;
/// Configuration of a folder of segments.
#[derive(Debug, Clone)]
pub struct ParquetPlan {
    pub folder: PathBuf,
    /// Name of the probe; file names begin with it.
    pub probe: String,
    /// Start of the run, µs since 1970; with probe and number it identifies a segment for ever.
    pub boot_us: u64,
    /// The probe's location in the network (observationPointId).
    pub observation_point: u32,
    pub names: Names,
    /// The extras that the meter computes.
    pub extras: ExtrasPlan,
    /// A segment ends at this number of rows or bytes, or after this time.
    pub rows_max: u64,
    pub bytes_max: u64,
    pub every: Duration,
    /// After an error nothing is written for this time; the records are lost.
    pub retry: Duration,
}

impl ParquetPlan {
    /// A plan with default limits.
    pub fn new(folder: PathBuf, probe: String, boot_us: u64) -> Self {
        Self {
            folder,
            probe,
            boot_us,
            observation_point: 0,
            names: Names::Ipfix,
            extras: ExtrasPlan::default(),
            rows_max: 3_000_000,
            bytes_max: 64 << 20,
            every: Duration::from_secs(60),
            retry: Duration::from_secs(1),
        }
    }

    /// The probe's name for file names: other characters become underscores.
    fn probe_in_names(&self) -> String {
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-".contains(*letter);
        self.probe.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect()
    }
}

/// Stores records as segments in a folder.
#[derive(Debug)]
pub struct SegmentStore {
    plan: ParquetPlan,
    facts: Facts,
    columns: Columns,
    open: Option<Open>,
    /// Number of segments that were started.
    sequence: u64,
    /// Counters of the meter and losses of this sink, now and when the last complete segment was closed.
    meter: FlowLedger,
    meter_closed: FlowLedger,
    missed: FlowSum,
    missed_closed: FlowSum,
    retry: Option<Instant>,
    outcome: StoreOutcome,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    segment: Segment,
    since: Instant,
    /// Hours since 1970, by the records' clock.
    hour: u64,
    kept: FlowSum,
    first_us: u64,
    last_us: u64,
}

impl SegmentStore {
    /// Creates a store without touching the folder.
    pub fn new(plan: ParquetPlan) -> Self {
        let facts = Facts {
            extras: plan.extras,
            observation_point: plan.observation_point,
            boot: plan.boot_us as i64,
            ..Facts::default()
        };
        Self {
            plan,
            facts,
            columns: Columns::new(),
            open: None,
            sequence: 0,
            meter: FlowLedger::default(),
            meter_closed: FlowLedger::default(),
            missed: FlowSum::default(),
            missed_closed: FlowSum::default(),
            retry: None,
            outcome: StoreOutcome::default(),
        }
    }

    /// The path of segment `sequence` in an hour.
    fn path(&self, hour: u64) -> PathBuf {
        let (year, month, day) = date_utc(hour * HOUR_NS);
        let folder = format!("dt={year:04}-{month:02}-{day:02}/hour={:02}", hour % 24);
        let (probe, boot) = (self.plan.probe_in_names(), self.plan.boot_us);
        self.plan.folder.join(folder).join(format!("{probe}-{boot}-{:06}.parquet", self.sequence))
    }

    /// Starts a segment. Its number is never used again: a lost segment leaves a gap.
    fn begin(&mut self, hour: u64) -> Result<()> {
        self.sequence += 1;
        self.facts.sequence = self.sequence as i64;
        let segment = Segment::create(self.path(hour), self.plan.names)?;
        let (kept, first_us, last_us) = (FlowSum::default(), u64::MAX, 0);
        self.open = Some(Open { segment, since: Instant::now(), hour, kept, first_us, last_us });
        Ok(())
    }

    /// Adds records to the segment of their hour; ends segments that are full.
    fn add(&mut self, mut records: &[FlowRecord], hour: u64) -> Result<(), (FlowSum, String)> {
        if self.open.as_ref().is_some_and(|open| open.hour != hour) {
            self.close().map_err(|error| (sum(records), error))?;
        }
        while !records.is_empty() {
            if self.open.is_none() {
                self.begin(hour).map_err(|error| (sum(records), error.to_string()))?;
            }
            let Some(open) = &mut self.open else { return Ok(()) };
            let room = (self.plan.rows_max.max(1) - open.kept.records).min(GROUP_ROWS as u64) as usize;
            let room = room.min(GROUP_ROWS - self.columns.rows());
            let (now, rest) = records.split_at(room.min(records.len()));
            records = rest;
            self.columns.push(now, &self.facts, self.plan.probe.as_bytes());
            open.count(now);
            if self.columns.rows() == GROUP_ROWS {
                let written = open.segment.write(&mut self.columns);
                written.map_err(|error| (sum(records), error.to_string()))?;
            }
            if open.kept.records >= self.plan.rows_max || open.segment.bytes() >= self.plan.bytes_max {
                self.close().map_err(|error| (sum(records), error))?;
            }
        }
        Ok(())
    }

    /// Ends the open segment, if any.
    fn close(&mut self) -> Result<(), String> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if self.columns.rows() > 0
            && let Err(error) = open.segment.write(&mut self.columns)
        {
            self.open = Some(open);
            return Err(error.to_string());
        }
        let mut ledger = SegmentLedger {
            names: self.plan.names,
            probe: self.plan.probe.clone(),
            boot: self.plan.boot_us,
            sequence: self.sequence,
            kept: open.kept,
            first_packet_us: if open.last_us > 0 { open.first_us } else { 0 },
            last_packet_us: open.last_us,
            missed: missed_since(self.missed, self.missed_closed),
            ignored: ignored_since(self.meter.ignored, self.meter_closed.ignored),
            is_conserved: self.meter.check().is_ok(),
            has_applications: self.plan.extras.application,
            ..SegmentLedger::default()
        };
        match open.segment.commit(&mut ledger) {
            Ok(bytes) => {
                add_to(&mut self.outcome.kept, open.kept);
                self.outcome.files += 1;
                self.outcome.bytes += bytes;
                (self.meter_closed, self.missed_closed) = (self.meter, self.missed);
                Ok(())
            }
            Err(error) => {
                add_to(&mut self.outcome.missed, open.kept);
                Err(error.to_string())
            }
        }
    }

    /// Counts a failure: the rows of the open segment and of `rest` are lost.
    fn fail(&mut self, rest: FlowSum, failure: String) {
        if let Some(open) = self.open.take() {
            add_to(&mut self.outcome.missed, open.kept);
            open.segment.abandon();
        }
        self.columns.clear();
        add_to(&mut self.outcome.missed, rest);
        self.outcome.errors += 1;
        self.outcome.failure = Some(failure);
        self.retry = Some(Instant::now() + self.plan.retry);
    }

    fn done(&mut self, result: Result<(), (FlowSum, String)>) -> StoreOutcome {
        if let Err((rest, failure)) = result {
            self.fail(rest, failure);
        }
        std::mem::take(&mut self.outcome)
    }
}

impl RecordStore for SegmentStore {
    fn kind(&self) -> &'static str {
        "parquet"
    }

    fn folder(&self) -> PathBuf {
        self.plan.folder.clone()
    }

    fn open(&mut self, scene: Scene) -> quaff_os::Result<()> {
        self.facts.scene = scene;
        let made = make_folder(&self.plan.folder)
            .and_then(|()| remove_abandoned(&self.plan.folder, &self.plan.probe_in_names()));
        made.map_err(|error| match error {
            crate::Error::Os(error) => error,
            other => quaff_os::Error::new("open the folder of segments", io::Error::other(other.to_string())),
        })?;
        quaff_os::disk::check_writable(&self.plan.folder)
    }

    fn take(&mut self, records: &[FlowRecord], now_ns: u64) -> StoreOutcome {
        if self.retry.is_some_and(|at| Instant::now() < at) {
            return StoreOutcome { missed: sum(records), ..StoreOutcome::default() };
        }
        self.retry = None;
        let added = self.add(records, now_ns / HOUR_NS);
        self.done(added)
    }

    fn tick(&mut self) -> StoreOutcome {
        let is_due = self.open.as_ref().is_some_and(|open| open.since.elapsed() >= self.plan.every);
        let closed = if is_due { self.close() } else { Ok(()) };
        self.done(closed.map_err(|failure| (FlowSum::default(), failure)))
    }

    fn ledger(&mut self, ledger: &FlowLedger) {
        self.meter = *ledger;
    }

    fn missed(&mut self, missed: FlowSum) {
        self.missed = missed;
    }

    /// Ends with a segment even without rows: its metadata have what was lost and ignored.
    fn finish(&mut self) -> StoreOutcome {
        let is_counted = self.sequence > 0
            && self.meter.ignored == self.meter_closed.ignored
            && self.missed == self.missed_closed;
        let mut ended = Ok(());
        if self.open.is_none() && !is_counted {
            let hour = self.hour();
            ended = self.begin(hour).map_err(|error| error.to_string());
        }
        let ended = ended.and_then(|()| self.close());
        self.done(ended.map_err(|failure| (FlowSum::default(), failure)))
    }
}

impl SegmentStore {
    /// The hour of a segment without rows: the hour of the start.
    fn hour(&self) -> u64 {
        self.plan.boot_us / (HOUR_NS / 1000)
    }
}

impl Open {
    fn count(&mut self, records: &[FlowRecord]) {
        add_to(&mut self.kept, sum(records));
        for record in records {
            self.first_us = self.first_us.min(record.first_ns() / 1000);
            self.last_us = self.last_us.max(record.last_ns() / 1000);
        }
    }
}

/// Number of records, packets and bytes.
fn sum(records: &[FlowRecord]) -> FlowSum {
    records.iter().fold(FlowSum::default(), |sum, record| FlowSum {
        records: sum.records + 1,
        packets: sum.packets + record.packets(),
        bytes: sum.bytes + record.bytes(),
    })
}

fn add_to(sum: &mut FlowSum, more: FlowSum) {
    sum.records += more.records;
    sum.packets += more.packets;
    sum.bytes += more.bytes;
}
