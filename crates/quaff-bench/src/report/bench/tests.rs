//! Tables and sentences of hand-computed cases.

use super::cells::pivot_loss;
use super::view::View;
use super::{charts, points, tables, text};
use crate::bench::plan::{SourceRow, Topology};
use crate::bench::result::{Case, GoalRow, LimitedBy, Report, Search};
use crate::bench::summary::summarise;
use crate::method::Run;
use crate::report::Table;
use crate::report::chart::strips::Mark;
use crate::report::chart::{Section, Shape};
use crate::testing::sample_report;
use quaff_lab::topology::LineCounts;
use std::collections::BTreeMap;

/// A report with one case, whose runs were offered 1000 frames each.
fn report_of(rival: &str, runs: &[(Option<u64>, Option<u64>)]) -> Report {
    let mut report = sample_report();
    let mut case = Case { rival: rival.into(), series: String::new(), mix: None, ..report.cases[0].clone() };
    case.runs = runs
        .iter()
        .zip(1..)
        .map(|((captured, tool_drops), round)| run(round, *captured, *tool_drops))
        .collect();
    case.limited_by = LimitedBy::Rival;
    summarise(&mut case);
    report.cases = vec![case];
    (report.searches, report.bursts, report.plan.source) = (vec![], vec![], None);
    report
}

fn run(round: u32, captured: Option<u64>, tool_drops: Option<u64>) -> Run {
    Run {
        round,
        offered: 1000,
        captured,
        tool_drops,
        loss: captured.map(|captured| (1000 - captured) as f64 / 1000.0),
        seconds: 2.0,
        cpu_user_s: 0.2,
        cpu_system_s: 0.3,
        counted_by: "file".into(),
        failed: captured.is_none().then(|| "it crashed".into()),
        ..Run::default()
    }
}

fn sections(report: &Report) -> Vec<Section> {
    crate::report::chart::sections(charts::charts(&View::new(report)))
}

/// The cell of the only row below `head`.
fn cell(table: &Table, head: &str) -> String {
    assert_eq!(table.rows.len(), 1);
    let at = table.columns.iter().position(|column| column.heading() == head);
    at.map_or(String::new(), |at| table.rows[0].cells[at].clone())
}

#[test]
fn a_liar_is_shown() {
    let runs = [(Some(900), Some(0)); 5];
    let report = report_of("liar", &runs);
    let summary = tables::summary(&View::new(&report));
    assert_eq!(cell(&summary, "none lost in"), "0 of 1");
    assert_eq!(
        (cell(&summary, "most lost mean"), cell(&summary, "most lost worst run")),
        ("10 %".into(), "10 %".into())
    );
    assert_eq!(cell(&summary, "its own drop counter"), "0 of 500 lost");
    assert_eq!(cell(&tables::cases(&View::new(&report)), "its own counter"), "0 of 500 lost");
}

#[test]
fn the_mean_is_without_best_and_worst_and_all_values_stand_beside_it() {
    let runs = [1000, 990, 980, 970, 500].map(|captured| (Some(captured), None));
    let report = report_of("one", &runs);
    let cases = tables::cases(&View::new(&report));
    assert_eq!(cell(&cases, "lost mean"), "2 %");
    assert_eq!(cell(&cases, "lost runs in it"), "1–3 %");
    assert_eq!(cell(&cases, "lost median"), "2 %");
    assert_eq!(
        (cell(&cases, "lost best run"), cell(&cases, "lost worst run")),
        ("0 %".into(), "50 %".into())
    );
    let summary = tables::summary(&View::new(&report));
    assert_eq!(
        (cell(&summary, "most lost mean"), cell(&summary, "most lost worst run")),
        ("2 %".into(), "50 %".into())
    );
    let words = super::view::loss_words(&report.cases[0]);
    assert!(words.starts_with("2 % (mean of 3 of 5 runs, 1–3 %; all: 0–50 %)"), "{words}");
    assert_eq!(cell(&cases, "CPU, % of a core"), "25");
    assert_eq!(cell(&tables::summary(&View::new(&report)), "its own drop counter"), "none");
    // 2.5 s of CPU time for 4440 packets.
    assert_eq!(cell(&tables::summary(&View::new(&report)), "CPU per packet"), "563063 ns");
    assert_eq!(tables::runs(&View::new(&report)).rows.len(), 5);
}

#[test]
fn a_loss_in_one_run_of_five_is_not_none() {
    let runs = [1000, 1000, 1000, 1000, 999].map(|captured| (Some(captured), Some(0)));
    let report = report_of("one", &runs);
    assert_eq!(cell(&tables::cases(&View::new(&report)), "lost mean"), "0 %", "trimmed");
    assert_eq!(cell(&tables::cases(&View::new(&report)), "lost worst run"), "0.1 %");
    assert_eq!(cell(&tables::summary(&View::new(&report)), "none lost in"), "0 of 1");
    assert!(text::findings(&View::new(&report))[0].contains("one in 0 of 1"));
}

#[test]
fn a_count_that_only_the_tool_made_is_marked() {
    let mut report = report_of("one", &[(Some(900), Some(100)); 5]);
    let said = |report: &Report| text::method(report)[2].clone();
    assert!(
        said(&report).starts_with("In every case captured packets are counted by us"),
        "{}",
        said(&report)
    );
    for run in &mut report.cases[0].runs {
        run.counted_by = "tool".into();
    }
    assert!(said(&report).starts_with("Nothing was kept"), "{}", said(&report));
    assert_eq!(cell(&tables::cases(&View::new(&report)), "counted by"), "tool");
    assert_eq!(cell(&tables::summary(&View::new(&report)), "its own drop counter"), "none");
    let captions: Vec<String> =
        sections(&report).into_iter().flat_map(|section| section.charts).map(|chart| chart.caption).collect();
    assert!(captions[0].contains("own count"), "{captions:?}");
}

#[test]
fn the_headline_says_what_quaff_and_the_others_lost() {
    let said = |cases: &[(&str, &[Option<u64>], u32)]| {
        let mut report = sample_report();
        report.plan.rivals.clear();
        report.rivals.clear();
        report.cases = cases
            .iter()
            .map(|(rival, captured, size)| {
                let runs: Vec<_> = captured.iter().map(|captured| (*captured, None)).collect();
                let mut case = report_of(rival, &runs).cases.remove(0);
                case.size = *size;
                case
            })
            .collect();
        text::headline(&View::new(&report))
    };
    let (all, some) = (Some(1000), Some(390));
    let words = said(&[("tcpdump", &[all], 64), ("quaff", &[all], 64), ("tcpdump", &[some], 1500)]);
    assert_eq!(words.as_deref(), Some("quaff lost nothing; tcpdump 61 % at 1500 B"));
    let words =
        said(&[("quaff", &[some], 64), ("a", &[all], 64), ("b", &[Some(0)], 64), ("c", &[all, None], 64)]);
    let expected = "quaff lost 61 % at 64 B; b 100 % at 64 B, c nothing, but failed at 64 B, a nothing";
    assert_eq!(words.as_deref(), Some(expected));
    let lossy = [some];
    let five = ["a", "b", "c", "d", "e"].map(|name| (name, &lossy[..], 64));
    assert_eq!(
        said(&five).as_deref(),
        Some("a lost 61 % at 64 B; b 61 % at 64 B, c 61 % at 64 B, d 61 % at 64 B, and 1 more")
    );
    assert_eq!(
        said(&[("quaff", &[all], 64), ("a", &[all], 9)]).as_deref(),
        Some("None of quaff, a lost a frame")
    );
    assert_eq!(said(&[("quaff", &[all], 64)]).as_deref(), Some("quaff lost nothing"));
    assert_eq!(
        said(&[("a", &[all, all, all, Some(999)], 64)]).as_deref(),
        Some("a lost frames in one run at 64 B")
    );
    assert_eq!(said(&[]), None);
}

#[test]
fn buffers_and_offered_rates_are_beside_losses() {
    let mut report = report_of("one", &[(Some(900), None)]);
    let summary = tables::summary(&View::new(&report));
    assert_eq!(
        (cell(&summary, "buffer"), cell(&summary, "offered there")),
        ("its own".into(), "500 pps".into())
    );
    let other = Case { rival: "two".into(), ..report.cases[0].clone() };
    report.cases.push(other);
    let pivot =
        |report: &Report| tables::pivot("Lost", &report.cases.iter().collect::<Vec<_>>(), &pivot_loss);
    assert_eq!(cell(&pivot(&report), "offered"), "500 pps");
    assert_eq!(pivot(&report).note, "buffer: each capturer's own");
    report.cases.iter_mut().for_each(|case| case.setting.buffer_mib = Some(256));
    assert_eq!(pivot(&report).note, "buffer: 256 MiB each");
    report.cases[1].runs[0].offered = 1500;
    report.cases[1].setting.buffer_mib = None;
    assert_eq!(cell(&pivot(&report), "offered"), "500 pps to 750 pps");
    assert_eq!(pivot(&report).note, "buffer: one 256 MiB, two its own");
}

#[test]
fn a_crash_among_clean_runs_is_no_case_without_loss() {
    let report = report_of("one", &[(Some(1000), Some(0)), (None, None)]);
    assert_eq!(cell(&tables::summary(&View::new(&report)), "none lost in"), "0 of 1");
}

#[test]
fn several_capturers_share_their_cpu_time() {
    let mut report = report_of("one", &[(Some(1000), None)]);
    report.cases[0].setting.capturers = 4;
    // 0.5 s for 4 × 1000 packets.
    assert_eq!(cell(&tables::summary(&View::new(&report)), "CPU per packet"), "125000 ns");
}

#[test]
fn frames_that_came_slower_than_asked_are_marked_though_some_were_lost() {
    let mut report = report_of("one", &[(Some(1000), Some(0))]);
    assert_eq!(super::view::offered_pps(&report.cases[0]), Some(500.0));
    (report.cases[0].pps, report.cases[0].limited_by) = (Some(1000), LimitedBy::Rival);
    assert!(super::view::fell_short(&report.cases[0]));
    assert_eq!(
        cell(&tables::summary(&View::new(&report)), "none lost in"),
        "1 of 1 (1 at the generator's limit)"
    );
    report.cases[0].pps = Some(500);
    assert!(!super::view::fell_short(&report.cases[0]));
}

#[test]
fn a_bar_of_zero_at_the_limit_of_the_generator_is_hollow_and_names_the_limit() {
    let mut report = report_of("one", &[(Some(1000), Some(0)); 5]);
    let bar = |report: &Report| {
        let sections = sections(report);
        let Shape::Strips(strips) = &sections[0].charts[0].shape else { panic!("no bars") };
        let row = &strips.panels[0].rows[0];
        let Mark::Bar(bar) = &row.mark else { panic!("no bar") };
        (bar.clone(), row.words.clone())
    };
    (report.cases[0].pps, report.cases[0].limited_by) = (Some(1000), LimitedBy::Generator);
    let (limited, words) = bar(&report);
    assert!(limited.hollow && limited.parts == [0.0], "{limited:?}");
    assert_eq!(words, "0 %, generator's limit 500 pps");
    (report.cases[0].pps, report.cases[0].limited_by) = (Some(500), LimitedBy::Nothing);
    let (reached, words) = bar(&report);
    assert!(!reached.hollow, "{reached:?}");
    assert_eq!(words, "0 %");
    assert_eq!(reached.kept, Some([0.0, 0.0]));
}

#[test]
fn a_case_that_failed_is_named_and_no_figure_is_made_of_it() {
    let report = report_of("crasher", &[(None, None), (None, None)]);
    assert_eq!(cell(&tables::cases(&View::new(&report)), "lost mean"), "failed");
    assert_eq!(cell(&tables::cases(&View::new(&report)), "runs"), "0 of 2");
    let warnings = text::warnings(&View::new(&report)).0;
    assert!(warnings.iter().any(|line| line.contains("2 of 2 runs failed: it crashed.")), "{warnings:?}");
}

#[test]
fn a_rate_that_the_generator_limited_is_no_maximum() {
    let mut report = report_of("one", &[(Some(1000), None)]);
    let search = |rival: &str, pps, limited_by| Search {
        rival: rival.into(),
        size: 60,
        mix: None,
        setting: Default::default(),
        method: "rfc2544".into(),
        lower_pps: Some(pps),
        upper_pps: None,
        max_pps: 1.6e6,
        width: 0.01,
        limited_by,
        trials: vec![],
        again: None,
        trials_again: vec![],
        regular: limited_by == LimitedBy::Rival,
        warm_up: None,
        goal: None,
        throughput_pps: None,
        notes: vec![],
    };
    report.searches = vec![search("one", 1.6e6, LimitedBy::Generator)];
    assert_eq!(cell(&tables::searches(&View::new(&report)), "highest without loss"), "irregular: ≥ 1.6 Mpps");
    let goal = GoalRow {
        final_seconds: 60.0,
        duration_sum_s: 120.0,
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        initial_seconds: 1.0,
    };
    report.searches[0].goal = Some(goal);
    let expected =
        "0 % lost; trials of 1 s to 1 min 0 s, 2 min 0 s decide, 50 % of that may lose more; width 1 %";
    assert_eq!(cell(&tables::searches(&View::new(&report)), "goal"), expected);
    report.searches.push(search("other", 8e5, LimitedBy::Rival));
    let said = text::findings(&View::new(&report));
    let expected = "Highest rate without loss at 60 B: one at the generator's limit, 1.6 Mpps, at least 2 × that of \
                    other (800 kpps).";
    assert_eq!(said[1], expected);
}

#[test]
fn a_line_has_a_table_of_all_its_points() {
    let mut report = report_of("one", &[(Some(1000), None)]);
    report.plan.bed = Topology::Line { mirror_mbps: 1000 };
    let at = |point: &str, rival: &str, captured: u64, line| {
        let one = run(1, Some(captured), Some(10));
        let mut case = Case {
            rival: rival.into(),
            interface: Some(point.into()),
            runs: vec![Run { line: Some(line), ..one }],
            ..report.cases[0].clone()
        };
        summarise(&mut case);
        case
    };
    let line = |delivered, mirror_dropped| LineCounts { delivered, mirror_dropped };
    report.cases = vec![
        at("port", "one", 1000, line(1000, None)),
        at("SPAN", "one", 700, line(1000, Some(290))),
        at("tap", "own tap", 1000, line(990, None)),
    ];
    let view = View::new(&report);
    let table = points::table(&view);
    let cells = ["port one", "SPAN one", "SPAN mirror port", "tap own tap", "line lost"]
        .map(|head| cell(&table, head));
    assert_eq!(cells, ["0 %", "30 %", "29 %", "0 %", "1 %"]);
    let pivots: Vec<_> = tables::pivots(&view).into_iter().map(|table| table.title).collect();
    assert!(pivots.iter().all(|title| title.starts_with("CPU")), "{pivots:?}");
    let headline = text::headline(&view).expect("cases");
    assert!(
        headline.starts_with("Most lost at the port: one nothing; at the SPAN: one 30 % at "),
        "{headline}"
    );
    assert!(headline.ends_with("; at the tap: own tap nothing"), "{headline}");
    let at_span = [&report.cases[1]].into_iter();
    let counter = super::view::drop_counter(at_span.flat_map(|case| &case.runs)).expect("judged");
    assert_eq!((counter.right, counter.lost), (1, 10), "290 were the mirror port's");
    report.plan.bed = Topology::Direct;
    assert!(points::table(&View::new(&report)).rows.is_empty());
}

#[test]
fn a_sources_row_stands_beside_the_same_frames_at_the_same_rate() {
    let case = &report_of("one", &[(Some(1000), None)]).cases[0];
    let case = Case { size: 508, pps: Some(117_481), rate: "50 % of 1 Gbit/s".into(), ..case.clone() };
    let row = |size, rate: &str| SourceRow {
        rival: "tshark".into(),
        size: Some(size),
        rate: rate.into(),
        interface: None,
        loss: Some(0.1),
        figures: BTreeMap::new(),
    };
    for same in ["50 % of 1 Gbit/s", "117,489 pps", "117.5 kpps", "50 %"] {
        assert!(tables::is_same_workload(&row(512, same), &case, false), "{same}");
    }
    for other in ["35 % of 1 Gbit/s", "82,224 pps", "fast"] {
        assert!(!tables::is_same_workload(&row(512, other), &case, false), "{other}");
    }
    let at = |point: &str| SourceRow { interface: Some(point.into()), ..row(512, "50 %") };
    let case_at_span = Case { interface: Some("SPAN".into()), ..case.clone() };
    assert!(tables::is_same_workload(&at("SPAN"), &case_at_span, false));
    assert!(!tables::is_same_workload(&at("tap"), &case_at_span, false));
    // A row without a size is about a mix, or about the only frame size.
    let row_of_bits = SourceRow { size: None, ..row(0, "477.45 Mbps") };
    assert!(tables::is_same_workload(&row_of_bits, &case, true));
    assert!(!tables::is_same_workload(&row_of_bits, &case, false));
    let received =
        SourceRow { loss: None, figures: [("received %".into(), 97.5)].into(), ..row(512, "50 %") };
    assert!((tables::source_loss(&received).unwrap() - 0.025).abs() < 1e-9);
    assert!(!tables::is_same_workload(&row(256, "117,489 pps"), &case, false));
}

#[test]
fn a_sources_numbers_stand_beside_own_buffers_where_there_are_both() {
    let mut report = report_of("one", &[(Some(1000), None)]);
    report.plan.source = sample_report().plan.source;
    let case =
        Case { size: 60, pps: Some(553_571), rate: "37.2 % of 1 Gbit/s".into(), ..report.cases[0].clone() };
    let mut equal = Case { series: "256 MiB of buffer each".into(), ..case.clone() };
    (equal.setting.buffer_mib, equal.loss_trimmed) = (Some(256), Some(0.5));
    let here = |cases: &[&Case]| {
        let mut report = Report { ..report_of("one", &[]) };
        report.plan.source.clone_from(&sample_report().plan.source);
        report.cases = cases.iter().map(|case| (*case).clone()).collect();
        let table = tables::source(&View::new(&report));
        let at = table.columns.iter().position(|column| column.head == "one here").unwrap();
        table.rows[0].cells[at].clone()
    };
    assert_eq!(here(&[&equal, &case]), "0 %");
    assert_eq!(here(&[&equal]), "50 %");
}

#[test]
fn a_capturer_that_keeps_its_own_buffer_stays_in_the_chart_of_the_others() {
    let mut report = report_of("quaff", &[(Some(1000), None)]);
    report.cases[0].setting.buffer_mib = Some(256);
    let mut own = report_of("mine", &[(Some(1000), None)]).cases.remove(0);
    own.setting.buffer_mib = None;
    report.cases.push(own);
    let sections = sections(&report);
    let Shape::Strips(bars) = &sections[0].charts[0].shape else { panic!("no bars") };
    assert_eq!((bars.panels.len(), bars.panels[0].rows.len()), (1, 2), "{:?}", bars.panels);
}

#[test]
fn a_swept_rate_is_a_curve_and_few_rates_are_bars() {
    let titles =
        |report: &Report| -> Vec<&str> { sections(report).iter().map(|section| section.title).collect() };
    let mut report = sample_report();
    (report.searches, report.bursts) = (vec![], vec![]);
    report.cases.retain(|case| case.series == "pairs");
    assert_eq!(titles(&report), ["Loss", "CPU of the capturer"]);
    let mut report = sample_report();
    (report.searches, report.bursts) = (vec![], vec![]);
    report.cases.retain(|case| case.series == "1 core");
    assert_eq!(titles(&report), ["Loss and CPU against rate"]);
    let mut report = sample_report();
    (report.searches, report.bursts) = (vec![], vec![]);
    report.cases.retain(|case| case.series == "sizes");
    assert_eq!(titles(&report), ["Loss over size and rate", "Loss and CPU against rate"]);
}

#[test]
fn cases_of_one_series_with_two_settings_are_distinguished() {
    let mut report = report_of("one", &[(Some(1000), None)]);
    let mut other = report.cases[0].clone();
    other.setting.buffer_mib = Some(1);
    report.cases.push(other);
    let sections = sections(&report);
    let Shape::Strips(bars) = &sections[0].charts[0].shape else { panic!("no bars") };
    assert_eq!(bars.panels.len(), 2, "{:?}", bars.panels);
}

/// A case with one run of this loss and spread.
fn measured(rival: &str, size: u32, loss: Option<f64>, loss_spread: Option<[f64; 2]>) -> Case {
    Case {
        rival: rival.into(),
        size,
        pps: Some(1),
        rate: "400 kpps".into(),
        runs: vec![Run::default()],
        loss_trimmed: loss,
        loss_spread,
        limited_by: LimitedBy::Nothing,
        ..Case::default()
    }
}

#[test]
fn loads_are_rows_and_capturers_are_columns() {
    let mut limited = measured("quaff", 64, Some(0.0), Some([0.0, 0.0]));
    limited.limited_by = LimitedBy::Generator;
    let mut failed = measured("tcpdump", 1500, None, None);
    failed.runs[0].failed = Some("it crashed".into());
    let quaff = measured("quaff", 1500, Some(0.0), None);
    let tcpdump = measured("tcpdump", 64, Some(0.125), Some([0.1, 0.25]));
    let pivot = tables::pivot("Lost", &[&limited, &tcpdump, &quaff, &failed], &pivot_loss);
    let heads: Vec<&str> = pivot.columns.iter().map(|column| column.head.as_str()).collect();
    assert_eq!(heads, ["frames", "asked", "offered", "quaff", "tcpdump"]);
    let without_offered = |row: usize| {
        let mut cells = pivot.rows[row].cells.clone();
        cells.remove(2);
        cells
    };
    assert_eq!(without_offered(0)[..3], ["64 B", "400 kpps", "0 % *"]);
    assert!(pivot.rows[0].cells[4].starts_with("12.5 % (10"), "{pivot:?}");
    assert_eq!(without_offered(1), ["1500 B", "400 kpps", "0 %", "failed"]);
    assert!(pivot.note.contains("says nothing"), "{pivot:?}");
}

#[test]
fn a_capturer_without_the_case_has_a_dash() {
    let (quaff, tcpdump) =
        (measured("quaff", 64, Some(0.0), None), measured("tcpdump", 512, Some(0.0), None));
    let pivot = tables::pivot("Lost", &[&quaff, &tcpdump], &pivot_loss);
    assert_eq!((pivot.rows[0].cells[4].as_str(), pivot.rows[1].cells[3].as_str()), ("–", "–"));
    assert!(pivot.note.starts_with("buffer: "), "{pivot:?}");
}
