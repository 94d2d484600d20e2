//! Prints the rows per second that one core writes, and the bytes of a row: `parquet_speed [FOLDER [MILLIONS]]`.
//!
//! Conversations as a meter exports them: 55 % web over TCP, 27 % DNS, 10 % scans without an answer, the rest of
//! other ports. 20,000 clients and 60,000 servers by Zipf's law, 200,000 scanners, ten minutes in the order of their
//! ends. The time to make the records is not counted. Then all are read again.

use quaff_flow::collector::RecordStore;
use quaff_flow::export::Scene;
use quaff_flow::record::{Direction, EndReason, FlowRecord, FlowSink, InitiatorRule, RecordKey};
use quaff_parquet::{ParquetPlan, SegmentReader, SegmentStore, segments};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BATCH: usize = 1024;
const START_NS: u64 = 1_795_421_645_000_000_000;
const SPAN_NS: u64 = 600_000_000_000;

/// Xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A rank below `limit` by Zipf's law: the chance of rank N is about 1/N.
    fn rank(&mut self, limit: u64) -> u64 {
        ((limit as f64).powf(self.unit()) as u64).min(limit) - 1
    }

    /// Bytes or packets around `median`, with a long tail.
    fn size(&mut self, median: f64, spread: f64) -> u64 {
        let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (median * (normal * spread).exp()).max(1.0) as u64
    }

    fn record(&mut self, number: u64, count: u64) -> FlowRecord {
        let end_ns = START_NS + number * (SPAN_NS / count) + self.below(1_000_000);
        let client = |rank: u64| IpAddr::from([10, (rank >> 16) as u8, (rank >> 8) as u8, rank as u8]);
        let server = |rank: u64| {
            let mixed = (rank as u32).wrapping_mul(0x9e37_79b1);
            IpAddr::from((mixed | 0x4000_0000).to_be_bytes())
        };
        let share = self.below(100);
        let (source, destination) = match share {
            82..92 => (server(60_000 + self.below(200_000)), client(self.below(65_536))),
            _ => (client(self.rank(20_000)), server(self.rank(60_000))),
        };
        let (protocol, port, packets, answered, length_ns) = match share {
            0..55 => (6, 443, self.size(12.0, 0.9), true, self.size(2e9, 1.5)),
            55..82 => (17, 53, 1, true, self.size(2e7, 1.0)),
            82..92 => (6, self.below(1024) as u16, 1, false, 0),
            _ => (
                17,
                1024 + self.rank(50_000) as u16,
                self.size(6.0, 1.0),
                self.below(2) == 0,
                self.size(1e9, 1.5),
            ),
        };
        let bytes = packets * (60 + self.size(120.0, 0.7).min(1400));
        let forward = Direction {
            packets,
            bytes,
            first_ns: end_ns - length_ns.min(120_000_000_000),
            last_ns: end_ns,
            tcp_flags: if protocol == 6 { if answered { 0x1b } else { 2 } } else { 0 },
            tos: 0,
            ttl_min: 64,
            ttl_max: 64,
        };
        let reverse_packets = if protocol == 6 { packets + packets / 3 } else { 1 };
        let reverse = Direction {
            packets: reverse_packets,
            bytes: reverse_packets * (60 + self.size(500.0, 0.8).min(1440)),
            ..forward
        };
        FlowRecord {
            key: RecordKey {
                source,
                destination,
                source_port: 32_768 + self.below(28_232) as u16,
                destination_port: port,
                protocol,
                icmp_type_code: 0,
                vlan: self.below(4) as u16,
                inner_vlan: 0,
                mpls_label: 0,
                interface: 0,
                tos: 0,
                tunnel: 0,
            },
            forward,
            reverse: if answered { reverse } else { Direction::default() },
            initiator: if protocol == 6 { InitiatorRule::Syn } else { InitiatorRule::First },
            end_reason: if protocol == 6 && answered { EndReason::EndOfFlow } else { EndReason::Idle },
            is_continued: false,
            extras: None,
        }
    }
}

/// Counts records.
#[derive(Default)]
struct Counter(u64);

impl FlowSink for Counter {
    fn take(&mut self, records: &[FlowRecord]) {
        self.0 += records.len() as u64;
    }
}

#[allow(clippy::print_stdout, reason = "an example is a command")]
fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(|| std::env::temp_dir().join("quaff-parquet-speed"), PathBuf::from);
    let count = args.next().and_then(|word| word.parse().ok()).unwrap_or(3) * 1_000_000;
    let mut store = SegmentStore::new(ParquetPlan::new(folder.clone(), "speed".into(), START_NS / 1000));
    store.open(Scene::default()).expect("a new folder");
    let (mut random, mut spent) = (Random(0x9e37_79b9_7f4a_7c15), Duration::ZERO);
    let mut outcomes = Vec::new();
    for batch in 0..count / BATCH as u64 {
        let numbers = batch * BATCH as u64..(batch + 1) * BATCH as u64;
        let records: Vec<_> = numbers.map(|number| random.record(number, count)).collect();
        let begun = Instant::now();
        outcomes.push(store.take(&records, START_NS));
        spent += begun.elapsed();
    }
    let begun = Instant::now();
    outcomes.push(store.finish());
    spent += begun.elapsed();
    let rows: u64 = outcomes.iter().map(|outcome| outcome.kept.records).sum();
    let bytes: u64 = outcomes.iter().map(|outcome| outcome.bytes).sum();
    let seconds = spent.as_secs_f64();
    println!(
        "written: {rows} rows in {seconds:.2} s, {:.2} M rows/s, {:.2} bytes a row, {:.0} MB",
        rows as f64 / seconds / 1e6,
        bytes as f64 / rows as f64,
        bytes as f64 / 1e6
    );
    let (begun, mut counter) = (Instant::now(), Counter::default());
    for path in segments(&folder).expect("the folder") {
        SegmentReader::open(&path).and_then(|segment| segment.read(&mut counter)).expect("a segment");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("read: {} rows in {seconds:.2} s, {:.2} M rows/s", counter.0, counter.0 as f64 / seconds / 1e6);
    std::fs::remove_dir_all(&folder).expect("removed");
}
