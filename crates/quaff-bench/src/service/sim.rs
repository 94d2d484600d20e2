//! A simulated path with a forwarding rate, a queue, a delay, losses and outages, and a tester with limits of its own.
//! Each frame is simulated individually.

use super::events::{Events, Line, Now};
use super::plan::{Limits, Path, Plan, Service, Test, Ways};
use super::prober::{Ask, Over, Prober};
use super::result::Report;
use crate::Result;
use crate::experiment::{self, Machine};
use crate::trial::Progress;
use crate::trial::{Delays, DirectionReport, StreamReport, Tally, TrialReport};
use crate::trial::{Length, StreamPlan};

/// Start of the first trial, ns.
const BEGINNING_NS: u64 = 1_000_000_000_000;
/// Capacity of the meter's queue, frames.
const METER_FRAMES: f64 = 10.0;

/// The path and the tester.
#[derive(Debug, Clone)]
pub(super) struct Sim {
    /// Highest rates of the generator and of the meter, frames/s.
    pub(super) generator_pps: f64,
    pub(super) meter_pps: f64,
    /// Forwarding rates, frames/s: forward, reverse. `queue` is in frames.
    pub(super) forwards_pps: [f64; 2],
    pub(super) queue: f64,
    pub(super) delay_ns: f64,
    pub(super) null_delay_ns: f64,
    /// Drops every n-th frame.
    pub(super) loses_every: Option<u64>,
    /// Drops all frames from … to …, s from the first frame of a trial.
    pub(super) outage_s: Option<[f64; 2]>,
    /// The link refuses frames from … to …, s from the first frame of a trial.
    pub(super) refuses_s: Option<[f64; 2]>,
    /// Information rate, Mbit/s, and burst size, bytes: frames above them are dropped.
    pub(super) policer: Option<(f64, f64)>,
    /// Drops everything in the reverse direction.
    pub(super) is_one_way: bool,
    pub(super) has_null: bool,
    pub(super) link_mbps: Option<f64>,
    /// Numbers of trials, from 0, in which the generator reaches half of its rate.
    pub(super) slow_in: Vec<usize>,
    /// Duplicates and reorders frames.
    pub(super) is_untidy: bool,
    /// Number of the trial, from 0, that fails with an error.
    pub(super) fails_at: Option<usize>,
    /// The trials so far.
    pub(super) asked: Vec<Ask>,
}

impl Default for Sim {
    fn default() -> Self {
        Self {
            generator_pps: 50_000.0,
            meter_pps: f64::INFINITY,
            forwards_pps: [f64::INFINITY; 2],
            queue: 10.0,
            delay_ns: 100_000.0,
            null_delay_ns: 20_000.0,
            loses_every: None,
            outage_s: None,
            refuses_s: None,
            policer: None,
            is_one_way: false,
            has_null: true,
            link_mbps: None,
            slow_in: Vec::new(),
            is_untidy: false,
            fails_at: None,
            asked: Vec::new(),
        }
    }
}

/// A frame in flight.
struct Frame {
    at_s: f64,
    stream: usize,
    phase: usize,
    bytes: u32,
}

#[derive(Default)]
struct State {
    last_s: f64,
    waiting: f64,
    tokens: f64,
    metered: f64,
    count: u64,
}

impl Prober for Sim {
    fn trial(&mut self, ask: &Ask, watch: &mut dyn FnMut(&Progress) -> bool) -> Result<TrialReport> {
        assert!(ask.over == Over::Path || self.has_null, "there is no bare link");
        let number = self.asked.len();
        self.asked.push(ask.clone());
        if self.fails_at == Some(number) {
            return Err(crate::Error::Service("the interface is gone".into()));
        }
        let continues = watch(&Progress { elapsed_s: 0.1, sent: 1, received: 1 });
        // An interrupted trial stops halfway.
        let share = if continues { 1.0 } else { 0.5 };
        let ways = [(&ask.there, 0), (&ask.back, 1)];
        let directions = ways
            .into_iter()
            .filter(|(streams, _)| !streams.is_empty())
            .map(|(streams, way)| self.direction(streams, way, ask, share))
            .collect();
        Ok(TrialReport { directions, interrupted: !continues })
    }

    fn has_null(&self) -> bool {
        self.has_null
    }

    fn link_mbps(&self) -> Option<f64> {
        self.link_mbps
    }

    fn machine(&self) -> Machine {
        Machine::default()
    }

    fn notes(&self) -> Vec<String> {
        vec!["A path in numbers.".into()]
    }
}

impl Sim {
    fn direction(&self, streams: &[StreamPlan], way: usize, ask: &Ask, share: f64) -> DirectionReport {
        let mut frames: Vec<Frame> =
            streams.iter().enumerate().flat_map(|(stream, plan)| self.frames(stream, plan)).collect();
        frames.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
        let end_s = frames.last().map_or(0.0, |frame| frame.at_s) * share;
        let reports = streams.iter().map(|plan| StreamReport {
            phases: vec![Tally::default(); plan.phases.len()],
            ..no_stream(plan.id)
        });
        let mut report = direction(reports.collect());
        let mut delays: Vec<Vec<f64>> = vec![Vec::new(); streams.len()];
        let tokens = self.policer.map_or(0.0, |(_, burst)| burst);
        let mut state = State { tokens, metered: METER_FRAMES, ..State::default() };
        for frame in frames.iter().filter(|frame| frame.at_s <= end_s) {
            let is_refused = self.refuses_s.is_some_and(|[from, to]| (from..to).contains(&frame.at_s));
            if is_refused && ask.over == Over::Path {
                refuse(&mut report.streams[frame.stream], frame, ask.is_by_second);
                continue;
            }
            let arrived = match ask.over {
                Over::Null => Some(self.null_delay_ns),
                Over::Path => self.through(frame, way, &mut state),
            };
            let got = arrived.filter(|_| {
                let is_metered = self.is_metered(frame, &mut state);
                report.meter_dropped += u64::from(!is_metered);
                is_metered
            });
            state.last_s = frame.at_s;
            delays[frame.stream].extend(got);
            note(&mut report.streams[frame.stream], frame, got, ask.is_by_second);
        }
        for (stream, delays) in report.streams.iter_mut().zip(delays) {
            stream.delay = self::delays(delays);
            stream.total.duplicates = u64::from(self.is_untidy);
            stream.total.reordered = u64::from(self.is_untidy);
        }
        report
    }

    /// The frames of a stream with their send times.
    fn frames(&self, stream: usize, plan: &StreamPlan) -> Vec<Frame> {
        let (mut begun_s, mut frames) = (0.0, Vec::<Frame>::new());
        for (phase, this) in plan.phases.iter().enumerate() {
            let pps = this.pps.unwrap_or(f64::INFINITY).min(self.generator_pps);
            let is_slow = self.slow_in.contains(&(self.asked.len() - 1));
            let pps = if is_slow { pps / 2.0 } else { pps };
            let count = match this.length {
                Length::Seconds(seconds) => (seconds * pps + 1e-6).floor() as u64,
                Length::Frames(count) => count,
            };
            let frame = |at: u64| {
                let bytes = plan.sizes[(frames.len() + at as usize) % plan.sizes.len()];
                Frame { at_s: begun_s + at as f64 / pps, stream, phase, bytes }
            };
            let new: Vec<Frame> = (0..count).map(frame).collect();
            frames.extend(new);
            begun_s += match this.length {
                Length::Seconds(seconds) => seconds,
                Length::Frames(count) => count as f64 / pps,
            };
        }
        frames
    }

    /// Delay of the frame, ns; `None` if the path drops it.
    fn through(&self, frame: &Frame, way: usize, state: &mut State) -> Option<f64> {
        let passed_s = frame.at_s - state.last_s;
        state.count += 1;
        let forwards_pps = self.forwards_pps[way];
        state.waiting = (state.waiting - passed_s * forwards_pps).max(0.0);
        if let Some((mbps, burst)) = self.policer {
            let needed = f64::from(frame.bytes + 4);
            state.tokens = (state.tokens + passed_s * mbps * 1e6 / 8.0).min(burst);
            if state.tokens + 1e-6 < needed {
                return None;
            }
            state.tokens -= needed;
        }
        let is_out = self.outage_s.is_some_and(|[from, to]| (from..to).contains(&frame.at_s));
        let is_lost = self.loses_every.is_some_and(|every| state.count.is_multiple_of(every));
        if is_out || is_lost || self.is_one_way && way == 1 || state.waiting + 1.0 > self.queue + 1.0 {
            return None;
        }
        state.waiting += if forwards_pps.is_finite() { 1.0 } else { 0.0 };
        let wait_ns = if forwards_pps.is_finite() { state.waiting / forwards_pps * 1e9 } else { 0.0 };
        Some(self.delay_ns + wait_ns)
    }

    fn is_metered(&self, frame: &Frame, state: &mut State) -> bool {
        if self.meter_pps.is_infinite() {
            return true;
        }
        let passed_s = frame.at_s - state.last_s;
        state.metered = (state.metered + passed_s * self.meter_pps).min(METER_FRAMES);
        let is_metered = state.metered >= 1.0;
        state.metered -= if is_metered { 1.0 } else { 0.0 };
        is_metered
    }
}

/// Adds a frame to the tallies of its stream.
fn note(stream: &mut StreamReport, frame: &Frame, delay_ns: Option<f64>, is_by_second: bool) {
    for tally in tallies(stream, frame, is_by_second) {
        count(tally, frame, delay_ns);
    }
}

fn refuse(stream: &mut StreamReport, frame: &Frame, is_by_second: bool) {
    for tally in tallies(stream, frame, is_by_second) {
        tally.refused += 1;
    }
}

/// The tallies that count a frame: total, phase and, if kept, second.
fn tallies<'s>(
    stream: &'s mut StreamReport,
    frame: &Frame,
    is_by_second: bool,
) -> impl Iterator<Item = &'s mut Tally> {
    let second = frame.at_s as usize;
    if is_by_second && stream.seconds.len() <= second {
        stream.seconds.resize(second + 1, Tally::default());
    }
    let by_second = stream.seconds.get_mut(second);
    [&mut stream.total, &mut stream.phases[frame.phase]].into_iter().chain(by_second)
}

fn count(tally: &mut Tally, frame: &Frame, delay_ns: Option<f64>) {
    let at_ns = BEGINNING_NS + (frame.at_s * 1e9) as u64;
    if tally.sent == 0 {
        tally.first_ns = at_ns;
    }
    tally.last_ns = at_ns;
    tally.sent += 1;
    tally.sent_bytes += u64::from(frame.bytes);
    match delay_ns {
        Some(delay) => {
            let [min, mean, max] = tally.delay_ns.unwrap_or([delay; 3]);
            let mean = mean + (delay - mean) / (tally.received + 1) as f64;
            tally.delay_ns = Some([min.min(delay), mean, max.max(delay)]);
            tally.received += 1;
            tally.received_bytes += u64::from(frame.bytes);
        }
        None => {
            if tally.lost == 0 {
                tally.first_lost_ns = at_ns;
            }
            tally.lost += 1;
            tally.last_lost_ns = at_ns;
        }
    }
}

fn delays(mut all: Vec<f64>) -> Option<Delays> {
    let count = all.len() as f64;
    all.sort_by(f64::total_cmp);
    let (min, max) = (*all.first()?, *all.last()?);
    let mean = all.iter().sum::<f64>() / count;
    let quantile = |at: f64| (at, all[((count * at) as usize).min(all.len() - 1)]);
    Some(Delays {
        delay: [min, mean, max],
        quantiles: [0.5, 0.9, 0.99, 0.999, 0.9999].map(quantile).to_vec(),
        pdv: [mean - min, max - min],
        ipdv: [0.0; 2],
        jitter_4689: [0.0; 2],
        jitter_3550: [0.0; 2],
        histogram: vec![(max, all.len() as u64)],
    })
}

/// A stream of which nothing was sent.
pub(super) fn no_stream(id: u16) -> StreamReport {
    StreamReport {
        id,
        total: Tally::default(),
        phases: Vec::new(),
        seconds: Vec::new(),
        delay: None,
        loss_periods: 0,
        loss_period_max: 0,
    }
}

pub(super) fn direction(streams: Vec<StreamReport>) -> DirectionReport {
    DirectionReport {
        streams,
        tx_clock: "user space, before the call".into(),
        rx_clock: "kernel".into(),
        foreign: 0,
        corrupt: 0,
        meter_dropped: 0,
        nic_dropped: 0,
        late_max_ns: 0,
    }
}

/// A plan with one throughput test of these sizes at 10 Mbit/s.
pub(super) fn sizes_plan(sizes: &[u32]) -> Plan {
    let sizes = sizes.to_vec();
    plan(Vec::new(), vec![Test::Throughput { sizes, method: Default::default(), seconds: 2.0, width: 0.01 }])
}

pub(super) fn services_plan(services: Vec<Service>, tests: Vec<Test>) -> Plan {
    plan(services, tests)
}

pub(super) fn plan(services: Vec<Service>, tests: Vec<Test>) -> Plan {
    Plan {
        name: "test".into(),
        title: "A test".into(),
        source: None,
        path: Path::Bridge,
        hardware_time: false,
        ways: Ways::There,
        link_mbps: Some(10.0),
        services,
        tests,
        runs: 1,
        pause_s: 0.0,
        notes: Vec::new(),
    }
}

/// A service of 1000 B frames.
pub(super) fn service(name: &str, cir_mbps: f64) -> Service {
    Service {
        name: name.into(),
        sizes: vec![1000],
        cir_mbps,
        eir_mbps: 0.0,
        cbs_bytes: 0,
        ebs_bytes: 0,
        is_policed: true,
        vlan: None,
        dscp: 0,
        limits: Limits {
            delay_ms: Some(10.0),
            delay_variation_ms: Some(5.0),
            loss_ratio: Some(0.001),
            availability: Some(0.99),
        },
    }
}

pub(super) fn report(plan: &Plan) -> Report {
    Report::new(plan, &[])
}

/// Records all events, and interrupts the trial with the number `ends_in`, from 1.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) ends_in: Option<usize>,
    pub(super) began_s: Option<f64>,
    pub(super) stages: Vec<String>,
    pub(super) lines: Vec<Line>,
    pub(super) left_s: Vec<f64>,
    pub(super) shown: usize,
}

pub(super) fn quiet() -> Watcher {
    Watcher::default()
}

impl experiment::Events<Report> for Watcher {
    fn stage(&mut self, what: &str) {
        self.stages.push(what.into());
    }

    fn so_far(&mut self, _report: &Report) {
        self.shown += 1;
    }

    fn continues(&mut self) -> bool {
        self.ends_in.is_none_or(|trial| self.left_s.len() < trial)
    }
}

impl Events for Watcher {
    fn begins(&mut self, seconds: f64) {
        self.began_s = Some(seconds);
    }

    fn progress(&mut self, now: &Now) {
        self.left_s.push(now.left_s);
    }

    fn line(&mut self, line: &Line) {
        self.lines.push(line.clone());
    }
}
