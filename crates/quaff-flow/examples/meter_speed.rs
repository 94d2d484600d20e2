//! Prints the packets per second that one core meters, from memory: `meter_speed [SECONDS [CASE]]`, cases from 0.
//! Seconds are CPU time where the kernel counts it, so that other processes take nothing from the result but caches.
//!
//! Frames of 64 bytes in both directions, in uniformly random order over the flows: no packet finds its flow in a
//! cache that is smaller than the table. In the last case a tenth of ten million flows is new each second of packet
//! time at 4 Mpps, and as many end. The time to make the frames is measured alone, and reported beside.

use quaff_flow::Meter;
use quaff_flow::packet::Packet;
use quaff_flow::plan::MeterPlan;
use quaff_flow::record::{FlowRecord, FlowSink};
use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Packets of a call, as of a batch of the engine.
const BATCH: usize = 512;

/// One case.
struct Case {
    /// Flows from which packets are drawn.
    flows: u32,
    /// Packet time between two packets, ns.
    step_ns: u64,
    /// Packets for each new flow; 0: none is new.
    packets_per_new: u64,
    idle_ns: u64,
    /// Flows in the table, by the arithmetic.
    expected: u64,
}

/// Counts records, as a sink that costs nothing.
#[derive(Default)]
struct Counter(u64);

impl FlowSink for Counter {
    fn take(&mut self, records: &[FlowRecord]) {
        self.0 += records.len() as u64;
    }
}

/// Frames whose addresses and ports are set anew for each batch.
struct Frames {
    bytes: Vec<[u8; 64]>,
    random: u64,
    packets: u64,
}

impl Frames {
    fn new() -> Self {
        let mut frame = [0; 64];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17]);
        frame[38..40].copy_from_slice(&26u16.to_be_bytes());
        Self { bytes: vec![frame; BATCH], random: 0x9e37_79b9_7f4a_7c15, packets: 0 }
    }

    /// Xorshift: fast, and random enough for an order.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn fill(&mut self, case: &Case, all_first: bool) {
        for at in 0..BATCH {
            let random = self.next();
            self.packets += 1;
            let oldest = self.packets.checked_div(case.packets_per_new).unwrap_or(0) as u32;
            let place = match all_first {
                true => self.packets as u32 % case.flows,
                false => (((random >> 32) * u64::from(case.flows)) >> 32) as u32,
            };
            let flow = oldest.wrapping_add(place);
            let (ends, ports) = ([flow.to_be_bytes(), [10, 0, 0, 1]], [(flow as u16).to_be_bytes(), [0, 53]]);
            let [a, b] = if random & 1 == 0 { [0, 1] } else { [1, 0] };
            let frame = &mut self.bytes[at];
            frame[26..30].copy_from_slice(&ends[a]);
            frame[30..34].copy_from_slice(&ends[b]);
            frame[34..36].copy_from_slice(&ports[a]);
            frame[36..38].copy_from_slice(&ports[b]);
        }
    }

    fn packets<'a>(&'a self, packets: &mut Vec<Packet<'a>>, now_ns: &mut u64, step_ns: u64) {
        packets.extend(self.bytes.iter().map(|bytes| {
            *now_ns += step_ns;
            Packet { bytes, time_ns: *now_ns, wire_bytes: 64, linktype: 1, ..Packet::default() }
        }));
    }
}

/// CPU time of the thread, or the time since the first call.
fn cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    ns.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Mpps of `work` for so long.
fn rate(limit: Duration, mut work: impl FnMut()) -> f64 {
    let (start, mut packets) = (cpu_time(), 0u64);
    loop {
        (0..64).for_each(|_| work());
        packets += 64 * BATCH as u64;
        let spent = cpu_time() - start;
        if spent >= limit {
            return packets as f64 / spent.as_secs_f64() / 1e6;
        }
    }
}

#[allow(clippy::print_stdout, reason = "an example is a command")]
fn run(name: &str, case: &Case, limit: Duration) {
    let plan =
        MeterPlan { idle_ns: case.idle_ns, flows_max: 64 << 20, bytes_max: 16 << 30, ..MeterPlan::default() };
    let (mut meter, mut sink, mut frames) = (Meter::new(plan, [1, 2]), Counter::default(), Frames::new());
    let mut now_ns = 1_700_000_000_000_000_000;
    let mut batch = |frames: &mut Frames, meter: &mut Meter, all_first| {
        frames.fill(case, all_first);
        let mut packets = Vec::with_capacity(BATCH);
        frames.packets(&mut packets, &mut now_ns, case.step_ns);
        meter.take(&packets, &mut sink);
    };
    let started = cpu_time();
    if case.packets_per_new == 0 {
        (0..case.flows as usize / BATCH + 1).for_each(|_| batch(&mut frames, &mut meter, true));
    } else {
        while frames.packets < 2 * case.expected * case.packets_per_new {
            batch(&mut frames, &mut meter, false);
        }
    }
    let filled_s = (cpu_time() - started).as_secs_f64();
    let mpps = rate(limit, || batch(&mut frames, &mut meter, false));
    let made = rate(limit / 4, || {
        frames.fill(case, false);
        let mut packets = Vec::with_capacity(BATCH);
        frames.packets(&mut packets, &mut 0, 1);
        black_box(packets);
    });
    let ledger = meter.ledger();
    ledger.check().expect("conservation");
    let net = 1.0 / (1.0 / mpps - 1.0 / made);
    println!(
        "{name}: {mpps:.2} Mpps, {net:.2} without making frames ({made:.0} Mpps); {} flows, {} MB, {} records, filled in {filled_s:.1} s, probes {}",
        ledger.flows_live,
        ledger.memory_bytes >> 20,
        ledger.flows_exported(),
        ledger.probes_max
    );
}

fn main() {
    let argument = |at| std::env::args().nth(at).and_then(|word| word.parse::<u64>().ok());
    let limit = Duration::from_secs(argument(1).unwrap_or(5));
    let idle_ns = 30_000_000_000;
    let steady = |flows| Case { flows, step_ns: 100, packets_per_new: 0, idle_ns, expected: flows.into() };
    // Packets are drawn from the latest five million, and as many wait for their idle timeout.
    let churn = Case {
        flows: 5_000_000,
        step_ns: 250,
        packets_per_new: 4,
        idle_ns: 5_000_000_000,
        expected: 10_000_000,
    };
    let cases = [
        ("100 k flows", steady(100_000)),
        ("1 M flows", steady(1_000_000)),
        ("10 M flows", steady(10_000_000)),
        ("10 M flows, a tenth new each second", churn),
    ];
    let is_asked = |number: usize| argument(2).is_none_or(|asked| asked == number as u64);
    let asked = cases.iter().enumerate().filter(|(number, _)| is_asked(*number));
    asked.for_each(|(_, (name, case))| run(name, case, limit));
}
