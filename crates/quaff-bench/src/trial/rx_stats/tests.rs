//! Statistics of streams with known losses.

use super::super::plan::{Length, Phase};
use super::super::tally::SECOND_NS;
use super::super::tally::Tally;
use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

const BEGUN_NS: u64 = 1_800_000_000_000_000_000;
const MS: u64 = 1_000_000;

struct Path {
    plan: StreamPlan,
    log: TxLog,
    by: Seconds,
    sent: SentStream,
    times: Vec<u64>,
}

impl Path {
    /// A path for `frames` frames, if known.
    fn new(phases: usize, frames: Option<u64>) -> Self {
        let phase = Phase { length: Length::Seconds(1.0), pps: None };
        Self {
            plan: StreamPlan {
                id: 7,
                sizes: vec![60, 100],
                phases: vec![phase; phases],
                vlan: None,
                dscp: 0,
            },
            log: TxLog::new(phases, frames),
            by: Seconds::new(BEGUN_NS, 60.0),
            sent: SentStream { phases: vec![Tally::default(); phases], seconds: vec![] },
            times: vec![],
        }
    }

    /// Sends frames at these times after the start.
    fn send(&mut self, phase: usize, at_ns: impl IntoIterator<Item = u64>) {
        self.log.begin(phase, self.times.len() as u64);
        for after_ns in at_ns {
            let (seq, sent_ns) = (self.times.len() as u64, BEGUN_NS + after_ns);
            let bytes = self.plan.sizes[seq as usize % 2];
            self.log.note(seq, sent_ns);
            self.sent.phases[phase].send(bytes, sent_ns);
            at(&mut self.sent.seconds, self.by.of(sent_ns)).send(bytes, sent_ns);
            self.times.push(sent_ns);
        }
    }

    /// The report after frames arrive in this order with these delays.
    fn receive(&self, frames: impl IntoIterator<Item = (u64, u64)>) -> StreamReport {
        let mut stats = RxStats::new(&self.plan, &self.log, BEGUN_NS, Some(self.by));
        for (seq, delay_ns) in frames {
            let sent_ns = self.times[seq as usize];
            assert!(stats.take(&TrialHeader { stream: 7, seq, sent_ns }, sent_ns + delay_ns));
        }
        stats.finish(&self.sent).unwrap()
    }
}

fn lost(tally: &Tally) -> (u64, u64, u64) {
    let after = |time_ns: u64| time_ns.saturating_sub(BEGUN_NS);
    (tally.lost, after(tally.first_lost_ns), after(tally.last_lost_ns))
}

#[test]
fn a_stream_through_a_bad_path() {
    let mut path = Path::new(2, Some(20));
    path.send(0, (0..10).map(|at| at * 100 * MS));
    path.send(1, (0..10).map(|at| 1000 * MS + at * 50 * MS));
    // 2 and 3 are lost, 9, 10 and 11 (across the change of phase), and the last one; 5 arrives after 6, 7 twice.
    let order = [0, 1, 4, 6, 5, 7, 7, 8, 12, 13, 14, 15, 16, 17, 18];
    let report = path.receive(order.map(|seq| (seq, 5000 + seq)));
    let total = &report.total;
    assert_eq!((total.sent, total.received, total.lost), (20, 14, 6));
    assert_eq!((total.duplicates, total.reordered), (1, 1));
    assert_eq!((total.sent_bytes, total.received_bytes), (1600, 8 * 60 + 6 * 100));
    assert_eq!((report.loss_periods, report.loss_period_max), (3, 3));
    assert_eq!(lost(total), (6, 200 * MS, 1450 * MS));
    assert_eq!([total.first_ns, total.last_ns], [BEGUN_NS, BEGUN_NS + 1450 * MS]);
    assert_eq!(total.arrived_ns, [BEGUN_NS + 5000, BEGUN_NS + 1400 * MS + 5018]);
    assert_eq!(
        report.phases.iter().map(lost).collect::<Vec<_>>(),
        [(3, 200 * MS, 900 * MS), (3, 1000 * MS, 1450 * MS)]
    );
    assert_eq!(
        report.seconds.iter().map(lost).collect::<Vec<_>>(),
        [(3, 200 * MS, 900 * MS), (3, 1000 * MS, 1450 * MS)]
    );
    assert_eq!(report.phases[0].delay_ns.unwrap()[0], 5000.0);
    assert_eq!(report.seconds[1].delay_ns.unwrap()[2], 5018.0);
    assert_eq!((report.phases[0].duplicates, report.phases[0].reordered), (1, 1));
    assert_eq!(report.delay.unwrap().delay[2], 5018.0);
}

#[test]
fn an_outage_is_right_to_the_second() {
    let mut path = Path::new(1, None);
    // 1000 frames/s for 20 s; frames sent from 3.5 to 15.5 s are lost.
    path.send(0, (0..20_000).map(|at| at * MS));
    let report = path.receive((0..3500).chain(15_500..20_000).map(|seq| (seq, 10_000)));
    let lost_by_second: Vec<_> = report.seconds.iter().map(|second| second.lost).collect();
    let mut expected = vec![0; 20];
    expected[3] = 500;
    expected[4..15].fill(1000);
    expected[15] = 500;
    assert_eq!(lost_by_second, expected);
    assert_eq!(lost(&report.seconds[3]), (500, 3500 * MS, 3999 * MS));
    assert_eq!(lost(&report.seconds[9]), (1000, 9000 * MS, 9999 * MS));
    assert_eq!(lost(&report.seconds[15]), (500, 15_000 * MS, 15_499 * MS));
    assert_eq!((report.loss_periods, report.loss_period_max), (1, 12_000));
}

#[test]
fn a_gap_outside_the_log_is_timed_by_its_ends() {
    let mut path = Path::new(1, None);
    let frames = 7 << 20;
    path.send(0, (0..frames).map(|at| at * 1000));
    let report = path.receive((0..10).chain([frames - 1]).map(|seq| (seq, 10_000)));
    let (count, first_ns, last_ns) = lost(&report.total);
    assert_eq!((count, report.loss_periods, report.loss_period_max), (frames - 11, 1, frames - 11));
    assert!(first_ns.abs_diff(10_000) <= 1, "{first_ns}");
    assert_eq!(last_ns, (frames - 2) * 1000);
}

#[test]
fn nothing_of_all_arrives() {
    let mut path = Path::new(1, None);
    path.send(0, (0..2500).map(|at| at * MS));
    let report = path.receive([]);
    assert_eq!(lost(&report.total), (2500, 0, 2499 * MS));
    assert_eq!((report.total.delay_ns, report.total.arrived_ns), (None, [0, 0]));
    assert!(report.delay.is_none());
    assert_eq!(report.seconds.iter().map(|second| second.lost).collect::<Vec<_>>(), [1000, 1000, 500]);
    assert_eq!((report.loss_periods, report.loss_period_max), (1, 2500));
}

#[test]
fn nothing_is_sent() {
    let report = Path::new(2, None).receive([]);
    assert_eq!((report.total, report.loss_periods), (Tally::default(), 0));
}

#[test]
fn frames_that_were_not_sent_are_foreign() {
    let mut path = Path::new(1, None);
    path.send(0, [0, MS]);
    let mut stats = RxStats::new(&path.plan, &path.log, BEGUN_NS, None);
    assert!(!stats.take(&TrialHeader { stream: 7, seq: 2, sent_ns: BEGUN_NS }, BEGUN_NS));
    assert_eq!(stats.received, 0);
    // With tallies per second a frame with a send time in another second is noticed.
    let mut stats = RxStats::new(&path.plan, &path.log, BEGUN_NS, Some(path.by));
    assert!(stats.take(&TrialHeader { stream: 7, seq: 1, sent_ns: BEGUN_NS + 9 * SECOND_NS }, BEGUN_NS));
    assert!(stats.finish(&path.sent).unwrap_err().contains("stream 7"));
}

/// A frame of a random stream: ms since the previous frame, number of arrivals, delay.
type Fate = (u64, u8, u64);

/// Lost frames as (count, first and last send time).
fn lost_of(times: impl Iterator<Item = u64>) -> (u64, u64, u64) {
    times.fold((0, 0, 0), |(count, first, _), time_ns| {
        (count + 1, if count == 0 { time_ns } else { first }, time_ns)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn same_as_a_naive_list(
        fates in prop::collection::vec((1u64..400, 0u8..4, 1u64..1500), 0..150),
        cuts in prop::collection::vec(0usize..150, 2),
    ) {
        let fates: Vec<Fate> = fates;
        let (first, second) = (cuts[0].min(cuts[1]).min(fates.len()), cuts[0].max(cuts[1]).min(fates.len()));
        let phase_of = |seq: usize| usize::from(seq >= first) + usize::from(seq >= second);
        let times: Vec<_> = fates.iter().scan(0, |at, fate| { *at += fate.0 * MS; Some(*at) }).collect();
        let mut path = Path::new(3, Some(fates.len() as u64));
        path.send(0, times[..first].iter().copied());
        path.send(1, times[first..second].iter().copied());
        path.send(2, times[second..].iter().copied());
        // 3 times of 4 a frame arrives at least once.
        let mut arrivals: Vec<_> = (0usize..).zip(&fates).flat_map(|(seq, &(_, copies, delay_ms))| {
            let sent = times[seq];
            (0..u64::from(copies)).map(move |copy| (sent + (delay_ms + copy) * MS, seq as u64, delay_ms + copy))
        }).collect();
        arrivals.sort_unstable();
        let report = path.receive(arrivals.iter().map(|&(_, seq, delay_ms)| (seq, delay_ms * MS)));

        let (mut seen, mut next) = (HashSet::new(), 0);
        let (mut duplicates, mut reordered) = (vec![0; 3], vec![0; 3]);
        for &(_, seq, _) in &arrivals {
            let phase = phase_of(seq as usize);
            let is_new = seen.insert(seq);
            duplicates[phase] += u64::from(!is_new);
            reordered[phase] += u64::from(is_new && seq < next);
            next = next.max(seq + 1);
        }
        let missing: Vec<_> = (0..fates.len()).filter(|seq| !seen.contains(&(*seq as u64))).collect();
        for (phase, tally) in report.phases.iter().enumerate() {
            let mine = missing.iter().filter(|seq| phase_of(**seq) == phase).map(|seq| times[*seq]);
            prop_assert_eq!(lost(tally), lost_of(mine));
            prop_assert_eq!((tally.duplicates, tally.reordered), (duplicates[phase], reordered[phase]));
        }
        for (second, tally) in report.seconds.iter().enumerate() {
            let mine = missing.iter().map(|seq| times[*seq]).filter(|time| time / SECOND_NS == second as u64);
            // Within a loss period a second starts with its first frame.
            prop_assert_eq!(lost(tally), lost_of(mine), "second {}", second);
        }
        prop_assert_eq!(lost(&report.total), lost_of(missing.iter().map(|seq| times[*seq])));
        let is_new_run = |at: &usize| *at == 0 || missing[*at] != missing[*at - 1] + 1;
        prop_assert_eq!(report.loss_periods, (0..missing.len()).filter(is_new_run).count() as u64);
    }
}
