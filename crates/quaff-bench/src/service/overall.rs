//! Summarises all runs of the performance test in one row, as the whitepaper's table does: the minimum of the minima,
//! the mean of the means, the maximum of the maxima, the sum of the frames.

use super::result::{Check, Figures, Performance, Report, Way};
use crate::stats::mean;

/// One row per service and direction, with run number 0, in the order of the first runs.
pub(crate) fn overall(report: &Report) -> Vec<Performance> {
    let mut keys: Vec<(&str, Way)> = Vec::new();
    for row in &report.performance {
        if !keys.contains(&(row.service.as_str(), row.way)) {
            keys.push((&row.service, row.way));
        }
    }
    let of = |(service, way)| {
        let same = |row: &&Performance| row.service == service && row.way == way;
        line(&report.performance.iter().filter(same).collect::<Vec<_>>())
    };
    keys.into_iter().filter_map(of).collect()
}

fn line(runs: &[&Performance]) -> Option<Performance> {
    let first = runs.first()?;
    Some(Performance {
        run: 0,
        figures: figures(runs),
        checks: checks(runs),
        seconds: Vec::new(),
        ..(*first).clone()
    })
}

fn figures(runs: &[&Performance]) -> Figures {
    let means = |of: &dyn Fn(&Figures) -> f64| {
        mean(&runs.iter().map(|run| of(&run.figures)).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(&run.figures)).sum::<u64>();
    let triples = |of: &dyn Fn(&Figures) -> Option<[f64; 3]>| {
        triple(&runs.iter().filter_map(|run| of(&run.figures)).collect::<Vec<_>>())
    };
    let (sent, lost) = (sum(&|figures| figures.sent), sum(&|figures| figures.lost));
    let unavailable = |at: usize| sum(&|figures| figures.unavailable[at]);
    Figures {
        asked_mbps: means(&|figures| figures.asked_mbps),
        sent_mbps: means(&|figures| figures.sent_mbps),
        received_mbps: triples(&|figures| Some(figures.received_mbps)).unwrap_or_default(),
        sent,
        lost,
        loss: if sent > 0 { lost as f64 / sent as f64 } else { 0.0 },
        delay_ms: triples(&|figures| figures.delay_ms),
        delay_variation_ms: triples(&|figures| figures.delay_variation_ms),
        others_ms: others(runs),
        duplicates: sum(&|figures| figures.duplicates),
        reordered: sum(&|figures| figures.reordered),
        availability: availability(runs),
        unavailable_s: sum(&|figures| figures.unavailable_s),
        unavailable: [unavailable(0), unavailable(1)],
        severely_errored_s: sum(&|figures| figures.severely_errored_s),
        within: [0, 1].map(|at| smallest(runs, &|figures| figures.within[at])),
    }
}

/// Minimum of minima, mean of means, maximum of maxima; `None` for an empty list.
fn triple(all: &[[f64; 3]]) -> Option<[f64; 3]> {
    let middle = mean(&all.iter().map(|[_, mean, _]| *mean).collect::<Vec<_>>())?;
    let min = all.iter().map(|[min, ..]| *min).fold(f64::INFINITY, f64::min);
    let max = all.iter().map(|[.., max]| *max).fold(f64::NEG_INFINITY, f64::max);
    Some([min, middle, max])
}

/// Means of means, maxima of maxima; the final RFC 3550 jitter is averaged, too.
fn others(runs: &[&Performance]) -> Option<[f64; 6]> {
    let all: Vec<[f64; 6]> = runs.iter().filter_map(|run| run.figures.others_ms).collect();
    let column = |at: usize| all.iter().map(|row| row[at]).collect::<Vec<_>>();
    let of = |at: usize| {
        if at.is_multiple_of(2) { mean(&column(at)) } else { column(at).into_iter().reduce(f64::max) }
    };
    Some([of(0)?, of(1)?, of(2)?, of(3)?, of(4)?, of(5)?])
}

/// Availability over all seconds of all runs.
fn availability(runs: &[&Performance]) -> Option<f64> {
    let all: usize = runs.iter().map(|run| run.seconds.len()).sum();
    let available = |run: &&Performance| run.seconds.iter().filter(|second| second.available).count();
    let asked = runs.iter().any(|run| run.figures.availability.is_some());
    let available: usize = runs.iter().map(available).sum();
    (asked && all > 0).then(|| available as f64 / all as f64)
}

fn smallest(runs: &[&Performance], of: &dyn Fn(&Figures) -> Option<f64>) -> Option<f64> {
    runs.iter().filter_map(|run| of(&run.figures)).reduce(f64::min)
}

/// Each check of its worst run: the first failure, else the first run. Drops a pass that some run could not judge.
fn checks(runs: &[&Performance]) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for check in runs.iter().flat_map(|run| &run.checks) {
        match checks.iter_mut().find(|known| known.what == check.what) {
            Some(known) if known.passed && !check.passed => *known = check.clone(),
            Some(_) => (),
            None => checks.push(check.clone()),
        }
    }
    let count =
        |what: &str| runs.iter().flat_map(|run| &run.checks).filter(|check| check.what == what).count();
    checks.retain(|check| !check.passed || count(&check.what) == runs.len());
    checks
}

#[cfg(test)]
mod tests {
    use super::super::plan::Limits;
    use super::super::result::Second;
    use super::super::sim;
    use super::*;

    fn run(run: u32, rate: f64, lost: u64, unavailable: usize, passed: bool) -> Performance {
        let second = |at: usize| Second { available: at >= unavailable, ..Second::default() };
        Performance {
            run,
            service: "Voice".into(),
            way: Way::There,
            begun: format!("run {run}"),
            figures: Figures {
                received_mbps: [rate - 1.0, rate, rate + 1.0],
                sent: 1000,
                lost,
                delay_ms: (run != 2).then_some([f64::from(run), 5.0, 9.0]),
                others_ms: Some([1.0, f64::from(run), 2.0, 2.0, 3.0, 3.0]),
                availability: Some(0.0),
                within: [Some(1.0 - f64::from(run) / 10.0), None],
                ..Figures::default()
            },
            limits: Limits::default(),
            checks: vec![Check {
                what: "FLR".into(),
                limit: String::new(),
                measured: rate.to_string(),
                passed,
            }],
            seconds: (0..10).map(second).collect(),
        }
    }

    #[test]
    fn the_overall_line_is_that_of_all_runs() {
        let mut report = sim::report(&sim::sizes_plan(&[64]));
        report.performance =
            vec![run(1, 100.0, 0, 0, true), run(2, 104.0, 30, 10, false), run(3, 90.0, 0, 0, true)];
        report.performance.push(Performance { way: Way::Back, ..run(1, 7.0, 0, 0, true) });
        let lines = overall(&report);
        assert_eq!(lines.len(), 2);
        let Performance { run, figures, checks, begun, .. } = &lines[0];
        assert_eq!((*run, begun.as_str()), (0, "run 1"));
        assert_eq!(figures.received_mbps, [89.0, 98.0, 105.0]);
        assert_eq!((figures.sent, figures.lost, figures.loss), (3000, 30, 0.01));
        assert_eq!(figures.delay_ms, Some([1.0, 5.0, 9.0]));
        assert_eq!(figures.others_ms, Some([1.0, 3.0, 2.0, 2.0, 3.0, 3.0]));
        assert!((figures.availability.expect("asked") - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(figures.within, [Some(0.7), None]);
        // One run that failed is enough.
        assert_eq!((checks.len(), checks[0].passed, checks[0].measured.as_str()), (1, false, "104"));
        assert_eq!((lines[1].way, lines[1].checks[0].passed), (Way::Back, true));
    }
}
