//! The table of cases with lanes: loss, CPU time, fairness, and the rule that assigns packets to lanes.

use super::cells::pivot_loss;
use super::view::{View, cpu_per_packet, has_lanes, offered_pps, size_words, whole};
use crate::bench::result::Case;
use crate::report::table::{NONE, Table, or_none};
use crate::stats::median;
use quaff::format::{rate, significant};

/// One row for each case of a plan that sets the number of lanes.
pub(super) fn table(view: &View) -> Table {
    let mut table = Table::new("Lanes");
    for case in view.report.cases.iter().filter(|case| has_lanes(case)) {
        let setting = &case.setting;
        let own = |word: &Option<String>, default: &str| word.clone().unwrap_or_else(|| default.into());
        let cpu = cpu_per_packet(std::iter::once(case));
        let row = [
            ("capturer", case.rival.clone()),
            (">lanes", or_none(setting.lanes.map(|lanes| lanes.to_string()))),
            ("spread", own(&setting.spread, NONE)),
            ("via", own(&setting.via, "packet")),
            (">frames", size_words(case)),
            ("asked", case.rate.clone()),
            ("?>offered", or_none(offered_pps(case).map(rate))),
            (">lost", pivot_loss(case)),
            (">CPU per packet", or_none(cpu.map(|ns| format!("{} ns", significant(ns))))),
            ("?>CPU, % of a core", or_none(case.cpu_median.map(|cores| significant(cores * 100.0)))),
            (">fairness", or_none(case.fairness.map(|index| format!("{index:.3}")))),
            (">smallest lane", or_none(smallest(case).map(|share| format!("{:.1} %", 100.0 * share)))),
        ];
        table.push(Some(view.style(&case.rival)), row);
    }
    table.note = "Fairness: Jain's index of the packets dealt to each lane, received or lost there: 1 if all lanes have \
                  the same, 1/lanes if one has everything. Smallest lane: its packets of those of the largest one."
        .into();
    table.without_empty()
}

/// Packets of the smallest lane as a share of the largest lane's: the median of the runs.
fn smallest(case: &Case) -> Option<f64> {
    let share = |lanes: &[u64]| {
        let (low, high) = (lanes.iter().min()?, lanes.iter().max()?);
        (lanes.len() > 1 && *high > 0).then(|| *low as f64 / *high as f64)
    };
    median(&whole(case).filter_map(|run| share(&run.lanes)).collect::<Vec<_>>())
}
