//! nProbe's periodic lines, as version 6.7 printed them. It reads no counter itself.

use jiff::Zoned;
use std::time::{Duration, Instant};

/// Interval of nProbe's lines.
const EACH: Duration = Duration::from_secs(30);

/// The counters of a run so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Packets that were metered or ignored, and their bytes on the wire.
    pub packets: u64,
    pub bytes: u64,
    /// Flows given to the sinks, with their packets and bytes.
    pub exported: Totals,
    /// Records that sinks have sent, and missed, as each of them makes them.
    pub sent: Totals,
    pub missed: Totals,
    /// Flows in the table, and places in it.
    pub active: u64,
    pub allocated: u64,
    /// Fragments that wait for their first one.
    pub fragments: u64,
    /// Flows that had to end because the table was full.
    pub evicted: u64,
    /// Flows that wait for a sink, and the most that may.
    pub queued: u64,
    pub queue_max: u64,
    /// The most places of the table that a packet had to look at.
    pub probes_max: u64,
    /// Packets that the kernel received, and dropped.
    pub received: u64,
    pub dropped: u64,
}

/// Flows, and the packets and bytes in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub flows: u64,
    pub packets: u64,
    pub bytes: u64,
}

/// nProbe's lines, at their times and at the end.
#[derive(Debug)]
pub struct Periodic {
    lines: Lines,
    begun: Instant,
    shown: Instant,
}

impl Periodic {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { lines: Lines::default(), begun: now, shown: now }
    }

    /// Takes the counters of now. Returns the lines that are due, all at the end of the run.
    pub fn look(&mut self, counters: &Counters, is_last: bool) -> Vec<String> {
        let now = self.begun.elapsed();
        self.lines.see(now, counters);
        if self.shown.elapsed() < EACH && !is_last {
            return Vec::new();
        }
        self.shown = Instant::now();
        self.lines.report(now, counters)
    }
}

/// The lines of one run, which show what has changed since those before.
#[derive(Debug, Default)]
struct Lines {
    last: Counters,
    last_at: Duration,
    /// Time of the look before the first packet was seen.
    begun: Option<Duration>,
    seen_at: Duration,
}

impl Lines {
    /// Notes the first packet.
    fn see(&mut self, now: Duration, counters: &Counters) {
        if counters.packets > 0 {
            self.begun.get_or_insert(self.seen_at);
        }
        self.seen_at = now;
    }

    /// The lines at `now`, a time since the start of the run.
    fn report(&mut self, now: Duration, counters: &Counters) -> Vec<String> {
        self.see(now, counters);
        let (last, seconds) = (self.last, (now.saturating_sub(self.last_at)).as_secs_f64().max(1e-3));
        let all_seconds = now.saturating_sub(self.begun.unwrap_or(now)).as_secs_f64().max(1e-3);
        let traffic = |packets: u64, bytes: u64, seconds: f64| {
            format!("[{}][{}]", pps(packets as f64 / seconds), bps(bytes as f64 * 8.0 / seconds))
        };
        // Counters of a lane that failed may be smaller than those that it showed.
        let (packets, bytes) =
            (counters.packets.saturating_sub(last.packets), counters.bytes.saturating_sub(last.bytes));
        let flows = counters.exported.flows.saturating_sub(last.exported.flows);
        let fill = 100.0 * counters.queued as f64 / counters.queue_max.max(1) as f64;
        let (pkts, dropped) = (counters.received, counters.dropped);
        let (last_all, last_dropped) = (last.received + last.dropped, last.dropped);
        let share = 100.0 * dropped as f64 / (pkts + dropped).max(1) as f64;
        let lines = [
            (1557, "---------------------------------".to_owned()),
            (1558, format!("Average traffic: {}", traffic(counters.packets, counters.bytes, all_seconds))),
            (1563, format!("Current traffic: {}", traffic(packets, bytes, seconds))),
            (1568, format!("Current flow export rate: [{:.1} flows/sec]", flows as f64 / seconds)),
            (
                1571,
                format!(
                    "Flow drops: [export queue too long={}][too many flows={}]",
                    counters.missed.flows, counters.evicted
                ),
            ),
            (1575, format!("Export Queue: {}/{} [{fill:.1} %]", counters.queued, counters.queue_max)),
            (
                1582,
                format!(
                    "Flow Buckets: [active={}][allocated={}][toBeExported={}][frags={}]",
                    counters.active, counters.allocated, counters.queued, counters.fragments
                ),
            ),
            (
                1465,
                format!(
                    "Processed packets: {} (max bucket search: {})",
                    counters.packets, counters.probes_max
                ),
            ),
            (1468, format!("Flow export stats: {}", counters.sent)),
            (1477, format!("Flow drop stats:   {}", counters.missed)),
            (1482, format!("Total flow stats:  {}", counters.exported)),
            (
                235,
                format!(
                    "Packet stats (pcap): {pkts}/{dropped} pkts rcvd/dropped [{share:.1}%] [Last {}/{} pkts rcvd/dropped]",
                    (pkts + dropped).saturating_sub(last_all),
                    dropped.saturating_sub(last_dropped)
                ),
            ),
        ];
        (self.last, self.last_at) = (*counters, now);
        lines.iter().map(|(line, words)| stamped("nprobe.c", *line, words)).collect()
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} bytes][{} pkts][{} flows]", self.bytes, self.packets, self.flows)
    }
}

/// A line with nProbe's prefix: local time, file and line of its source, by which scripts find it.
pub(super) fn stamped(file: &str, line: u32, words: &str) -> String {
    format!("{} [{file}:{line}] {words}", Zoned::now().strftime("%d/%b/%Y %H:%M:%S"))
}

/// `1.870 M pps`, `569.089 K pps`, `12.0 pps`.
fn pps(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.3} M pps", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.3} K pps", rate / 1e3),
        rate => format!("{rate:.1} pps"),
    }
}

/// `6 Gb/sec`, whole and not rounded up, `9.04 Mb/sec`, `632.76 Kb/sec`.
fn bps(rate: f64) -> String {
    match rate {
        rate if rate >= 1e9 => format!("{:.0} Gb/sec", (rate / 1e9).floor()),
        rate if rate >= 1e6 => format!("{:.2} Mb/sec", rate / 1e6),
        rate => format!("{:.2} Kb/sec", rate / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines without their times.
    fn words(lines: &[String]) -> Vec<String> {
        lines.iter().map(|line| line.split_once(" [").expect("a prefix").1.to_owned()).collect()
    }

    /// The counters of the how-to, which prints the same lines of nProbe 6.7.
    #[test]
    fn lines_are_those_of_the_how_to() {
        let mut lines = Lines::default();
        let first = Counters {
            packets: 13_089_188,
            bytes: 13_089_188 * 449,
            active: 749_448,
            allocated: 749_448,
            queue_max: 512_000,
            probes_max: 162,
            received: 13_100_072,
            dropped: 234_355,
            ..Counters::default()
        };
        lines.see(Duration::from_millis(110_000), &Counters::default());
        lines.see(Duration::from_millis(110_250), &Counters { packets: 1, ..Counters::default() });
        let shown = words(&lines.report(Duration::from_millis(117_000), &first));
        assert_eq!(
            shown[..2],
            [
                "nprobe.c:1557] ---------------------------------",
                "nprobe.c:1558] Average traffic: [1.870 M pps][6 Gb/sec]"
            ]
        );
        assert_eq!(shown[3], "nprobe.c:1568] Current flow export rate: [0.0 flows/sec]");
        assert_eq!(shown[4], "nprobe.c:1571] Flow drops: [export queue too long=0][too many flows=0]");
        assert_eq!(shown[5], "nprobe.c:1575] Export Queue: 0/512000 [0.0 %]");
        assert_eq!(
            shown[6],
            "nprobe.c:1582] Flow Buckets: [active=749448][allocated=749448][toBeExported=0][frags=0]"
        );
        assert_eq!(shown[7], "nprobe.c:1465] Processed packets: 13089188 (max bucket search: 162)");
        assert_eq!(shown[8], "nprobe.c:1468] Flow export stats: [0 bytes][0 pkts][0 flows]");
        assert_eq!(shown[9], "nprobe.c:1477] Flow drop stats:   [0 bytes][0 pkts][0 flows]");
        assert_eq!(shown[10], "nprobe.c:1482] Total flow stats:  [0 bytes][0 pkts][0 flows]");
        assert_eq!(
            shown[11],
            "nprobe.c:235] Packet stats (pcap): 13100072/234355 pkts rcvd/dropped [1.8%] [Last 13334427/234355 pkts rcvd/dropped]"
        );
        let second = Counters {
            packets: 23_183_007,
            bytes: 23_183_007 * 449,
            received: 23_183_007,
            dropped: 11_039_913,
            ..first
        };
        let shown = words(&lines.report(Duration::from_millis(147_000), &second));
        assert_eq!(shown[1], "nprobe.c:1558] Average traffic: [626.568 K pps][2 Gb/sec]");
        assert_eq!(shown[2], "nprobe.c:1563] Current traffic: [336.461 K pps][1 Gb/sec]");
        assert_eq!(
            shown[11],
            "nprobe.c:235] Packet stats (pcap): 23183007/11039913 pkts rcvd/dropped [32.3%] [Last 20888493/10805558 pkts rcvd/dropped]"
        );
    }

    #[test]
    fn counters_that_go_back_and_several_collectors_have_lines_too() {
        let mut lines = Lines::default();
        let totals = |flows| Totals { flows, packets: 10 * flows, bytes: 1000 * flows };
        let before =
            Counters { packets: 10, received: 9, dropped: 3, exported: totals(5), ..Counters::default() };
        lines.report(Duration::from_secs(30), &before);
        // Two collectors, one of which missed all.
        let after = Counters {
            packets: 8,
            received: 8,
            dropped: 2,
            exported: totals(4),
            sent: totals(4),
            missed: totals(4),
            ..before
        };
        let shown = words(&lines.report(Duration::from_secs(60), &after));
        assert_eq!(shown[2], "nprobe.c:1563] Current traffic: [0.0 pps][0.00 Kb/sec]");
        assert_eq!(shown[8], "nprobe.c:1468] Flow export stats: [4000 bytes][40 pkts][4 flows]");
        assert!(shown[11].ends_with("[Last 0/0 pkts rcvd/dropped]"), "{}", shown[11]);
    }

    #[test]
    fn the_average_of_a_short_run_is_over_all_of_it() {
        let mut lines = Lines::default();
        let all = Counters { packets: 5000, bytes: 5_000_000, ..Counters::default() };
        let shown = words(&lines.report(Duration::from_millis(500), &all));
        assert_eq!(shown[1], "nprobe.c:1558] Average traffic: [10.000 K pps][80.00 Mb/sec]");
    }
}
