//! Charts of a performance test second by second: rate, loss, delay, and unavailable time. The runs of a service are
//! overlaid.

use super::view::{View, distinct, mbps, mean_and_ends};
use crate::report::chart::curves::{Curves, Gap, Line, Panel, Point};
use crate::report::chart::scale::{Scale, Unit};
use crate::report::chart::{Chart, Shape};
use crate::service::result::{Performance, Second, Way};
use quaff::format::{delay, percent, span};

/// Maximum number of points per line; in longer tests a point covers several seconds.
const POINTS: usize = 120;

/// Consecutive seconds of a service that are drawn as one point.
struct Spell {
    /// The first second, and the one after the last.
    from: usize,
    to: usize,
    /// Received Mbit/s: minimum, mean and maximum over seconds.
    received: [f64; 3],
    /// Loss ratio, 0 to 1; `None` if no frame was sent.
    loss: Option<f64>,
    /// Delay, ms; `None` if no frame arrived.
    delay: Option<[f64; 3]>,
}

/// The lines of one chart: the seconds of a run of a service, with name and style.
struct Overlay<'a> {
    title: String,
    lines: Vec<(&'a Performance, String, usize)>,
    /// True if its lines are runs.
    has_runs: bool,
}

/// One chart per service and direction with its runs overlaid; after a single run one per direction with all services.
pub(super) fn timelines(view: &View) -> Vec<Chart> {
    let runs = distinct(view.report.performance.iter().map(|line| line.run));
    let overlays: Vec<Overlay<'_>> = match runs.len() {
        0 | 1 => view.ways().into_iter().map(|way| services(view, way)).collect(),
        _ => view.services_and_ways().map(|(name, way)| runs_of(view, name, way)).collect(),
    };
    overlays.iter().filter_map(|overlay| timeline(view, overlay)).collect()
}

fn services<'a>(view: &View<'a>, way: Way) -> Overlay<'a> {
    let here = view.report.performance.iter().filter(|line| line.way == way && !line.seconds.is_empty());
    let line = |line: &'a Performance| (line, line.service.clone(), view.service_style(&line.service));
    let title = view.with_way("Second by second", way);
    Overlay { title, lines: here.map(line).collect(), has_runs: false }
}

fn runs_of<'a>(view: &View<'a>, name: &str, way: Way) -> Overlay<'a> {
    let is_here = |line: &&Performance| line.service == name && line.way == way && !line.seconds.is_empty();
    let here = view.report.performance.iter().filter(is_here);
    let line =
        |line: &'a Performance| (line, format!("run {}", line.run), line.run.saturating_sub(1) as usize);
    Overlay { title: view.with_way(name, way), lines: here.map(line).collect(), has_runs: true }
}

fn timeline(view: &View, overlay: &Overlay<'_>) -> Option<Chart> {
    let here: Vec<&Performance> = overlay.lines.iter().map(|(line, ..)| *line).collect();
    let longest = here.iter().map(|line| line.seconds.len()).max()?;
    let each = longest.div_ceil(POINTS);
    let (divide, x_label) = match longest {
        0..=600 => (1.0, "s"),
        601..=7200 => (60.0, "min"),
        _ => (3600.0, "h"),
    };
    let all: Vec<Vec<Spell>> = here.iter().map(|line| spells(line, frame_bits(view, line), each)).collect();
    let points = |value: &Value<'_>| {
        let line = |((_, name, style), spells): (&(&Performance, String, usize), &Vec<Spell>)| {
            let point = |spell: &Spell| {
                let ([low, y, high], words) = value(spell)?;
                let x = (spell.from + spell.to) as f64 / 2.0 / divide;
                let spread = (high > low).then_some([low, high]);
                Some(Point { column: spell.from / each, x, y, spread, words, ..Point::default() })
            };
            Line::new(*style, name, spells.iter().filter_map(point))
        };
        overlay.lines.iter().zip(&all).filter_map(line).collect()
    };
    let panels = panels(&all, &here, &points);
    let column = |i: usize| match each {
        1 => format!("second {}", i + 1),
        _ => format!("seconds {} to {}", i * each + 1, ((i + 1) * each).min(longest)),
    };
    let curves = Curves {
        x_label: format!(
            "time since the start of the {}, {x_label}",
            if overlay.has_runs { "run" } else { "test" }
        ),
        x: Scale::up_to(longest as f64 / divide, Unit::Number),
        columns: (0..longest.div_ceil(each)).map(column).collect(),
        panels,
        gaps: gaps(&here, divide, overlay.has_runs),
        is_dense: true,
    };
    let caption = "Lines: the mean of a second. Bands: from the smallest to the largest delay of its frames. Shaded: \
                   unavailable (Y.1563).";
    Some(Chart::new(overlay.title.clone(), caption, Shape::Curves(curves)))
}

/// Minimum, middle and maximum of a spell, and the tooltip.
type Value<'a> = dyn Fn(&Spell) -> Option<([f64; 3], String)> + 'a;
type Points<'a> = dyn Fn(&Value<'_>) -> Vec<Line> + 'a;

fn panels(all: &[Vec<Spell>], here: &[&Performance], points: &Points<'_>) -> Vec<Panel> {
    let spells = || all.iter().flatten();
    let fastest = spells().map(|spell| spell.received[2]).fold(0.0, f64::max);
    let lossiest = spells().filter_map(|spell| spell.loss).fold(0.0, f64::max);
    let delays = Scale::log(
        spells().filter_map(|spell| spell.delay).flat_map(|[low, _, high]| [low, high]),
        Unit::Delay,
    );
    let limits = distinct(here.iter().filter_map(|line| line.limits.delay_ms));
    let [least, most] = delays.ends();
    let limits = limits.into_iter().filter(|ms| (least..=most).contains(ms));
    let limits = limits.map(|ms| (ms, format!("limit of the mean: {}", delay(ms)))).collect();
    let received = points(&|spell| Some((spell.received, format!("{} Mbit/s", mbps(spell.received[1])))));
    let lost = points(&|spell| spell.loss.map(|loss| ([loss; 3], format!("{} lost", percent(loss)))));
    let late = points(&|spell| {
        let [low, mean, high] = spell.delay?;
        Some(([low, mean, high], format!("{} ({} to {})", delay(mean), delay(low), delay(high))))
    });
    vec![
        Panel::new("Received, Mbit/s", Scale::over(fastest, Unit::Number), 120.0, received),
        Panel::new("Lost of what was sent, %", Scale::over(lossiest, Unit::Loss), 70.0, lost),
        Panel { limits, ..Panel::new("One-way delay", delays, 150.0, late) },
    ]
}

/// Mean bits per frame of this service, with FCS.
fn frame_bits(view: &View, line: &Performance) -> f64 {
    let service = view.report.plan.services.iter().find(|service| service.name == line.service);
    let sizes = service.map_or(&[][..], |service| &service.sizes);
    let bytes: f64 = sizes.iter().map(|bytes| f64::from(*bytes)).sum();
    bytes * 8.0 / sizes.len().max(1) as f64
}

/// The seconds of a row in spells of `each` seconds.
fn spells(line: &Performance, frame_bits: f64, each: usize) -> Vec<Spell> {
    let spell = |(i, seconds): (usize, &[Second])| {
        let rate = |second: &Second| second.sent.saturating_sub(second.lost) as f64 * frame_bits / 1e6;
        let rates: Vec<f64> = seconds.iter().map(rate).collect();
        let [mean, low, high] = mean_and_ends(&rates).unwrap_or_default();
        let sent: u64 = seconds.iter().map(|second| second.sent).sum();
        let lost: u64 = seconds.iter().map(|second| second.lost).sum();
        Spell {
            from: i * each,
            to: i * each + seconds.len(),
            received: [low, mean, high],
            loss: (sent > 0).then(|| lost as f64 / sent as f64),
            delay: delays(seconds),
        }
    };
    line.seconds.chunks(each.max(1)).enumerate().map(spell).collect()
}

/// Minimum, mean by frames, and maximum over several seconds.
fn delays(seconds: &[Second]) -> Option<[f64; 3]> {
    let arrived = seconds.iter().filter_map(|second| {
        let frames = second.sent.saturating_sub(second.lost).max(1) as f64;
        second.delay_ms.map(|delay| (frames, delay))
    });
    let (mut frames, mut sum, mut ends) = (0.0, 0.0, None::<[f64; 2]>);
    for (count, [low, mean, high]) in arrived {
        frames += count;
        sum += count * mean;
        ends = Some(ends.map_or([low, high], |[a, b]| [a.min(low), b.max(high)]));
    }
    ends.map(|[low, high]| [low, sum / frames, high])
}

/// Distinct times in which any line was unavailable; with `has_runs` labelled with the runs.
fn gaps(here: &[&Performance], divide: f64, has_runs: bool) -> Vec<Gap> {
    let mut all: Vec<([usize; 2], Vec<String>)> = Vec::new();
    for line in here {
        let mut from = 0;
        for spell in line.seconds.chunk_by(|a, b| a.available == b.available) {
            let gap = [from, from + spell.len()];
            from = gap[1];
            if spell[0].available {
                continue;
            }
            match all.iter_mut().find(|(known, _)| *known == gap) {
                Some((_, runs)) => runs.push(line.run.to_string()),
                None => all.push((gap, vec![line.run.to_string()])),
            }
        }
    }
    let gap = |([from, to], runs): ([usize; 2], Vec<String>)| {
        let run = if has_runs { format!("run {}: ", runs.join(", ")) } else { String::new() };
        let words = format!("{run}unavailable {}", span((to - from) as f64));
        Gap { from: from as f64 / divide, to: to as f64 / divide, words }
    };
    all.into_iter().map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::plan::{Path, PathEnd};

    fn second(sent: u64, lost: u64, delay_ms: Option<[f64; 3]>) -> Second {
        Second { sent, lost, delay_ms, available: lost < sent }
    }

    #[test]
    fn seconds_are_put_together_by_their_frames() {
        let seconds = [
            second(100, 0, Some([1.0, 2.0, 3.0])),
            second(300, 0, Some([0.5, 4.0, 9.0])),
            second(10, 10, None),
        ];
        assert_eq!(delays(&seconds), Some([0.5, 3.5, 9.0]));
        assert_eq!(delays(&seconds[2..]), None);
    }

    #[test]
    fn an_outage_of_several_services_is_shaded_once() {
        let line = |lost: &[u64]| Performance {
            seconds: lost.iter().map(|lost| second(10, *lost, None)).collect(),
            ..crate::testing::sample_service_report().performance[0].clone()
        };
        let (one, other) = (line(&[0, 10, 10, 0, 0]), line(&[0, 10, 10, 0, 10]));
        let words: Vec<_> =
            gaps(&[&one, &other], 1.0, false).into_iter().map(|gap| (gap.from, gap.to, gap.words)).collect();
        assert_eq!(words, [(1.0, 3.0, "unavailable 2 s".into()), (4.0, 5.0, "unavailable 1 s".into())]);
        let other = Performance { run: 3, ..other };
        let words: Vec<_> = gaps(&[&one, &other], 1.0, true).into_iter().map(|gap| gap.words).collect();
        assert_eq!(words, ["run 1, 3: unavailable 2 s", "run 3: unavailable 1 s"]);
    }

    #[test]
    fn runs_of_a_service_are_lines_of_one_chart() {
        let mut report = crate::testing::sample_service_report();
        let names = |report: &crate::service::result::Report| -> Vec<(String, Vec<String>)> {
            let name = |chart: Chart| {
                let Shape::Curves(curves) = chart.shape else { panic!("no curves") };
                (chart.title, curves.panels[0].lines.iter().map(|line| line.name.clone()).collect())
            };
            timelines(&View::new(report)).into_iter().map(name).collect()
        };
        let all = names(&report);
        assert_eq!(all.len(), 6, "three services both ways: {all:?}");
        assert_eq!(all[1], ("voice, back".into(), ["run 1", "run 2", "run 3"].map(String::from).into()));
        report.performance.retain(|line| line.run == 1);
        let single = names(&report);
        assert_eq!(single[0].0, "Second by second, there");
        assert_eq!(single[0].1, ["voice", "video", "data"]);
        let [from, to] = ["eth1", "eth2"].map(|name| PathEnd { netns: None, interface: name.into() });
        report.plan.path = Path::Between { from, to, routed: None };
        assert_eq!(names(&report)[1].0, "Second by second, eth2 → eth1");
    }
}
