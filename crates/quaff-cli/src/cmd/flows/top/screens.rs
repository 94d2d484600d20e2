//! Screens of 40, 80 and 200 columns.

use super::bars::Bars;
use super::draw::{Picture, draw, page};
use super::view::View;
use crate::cmd::flows::sums::Rates;
use crate::show::Part;
use quaff_flow::summary::{By, Cell, Order, Ranked, Row, Sum};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

const WIDTHS: [u16; 3] = [40, 80, 200];

fn row(name: &str, detail: &str, packets: u64, bytes: u64) -> Row {
    let sum = Sum {
        records: 3,
        flows: 12,
        packets: packets * 40,
        bytes: bytes * 40,
        sent_bytes: bytes * 30,
        received_bytes: bytes * 10,
        ..Sum::default()
    };
    let (name, detail) = (name.to_owned(), detail.to_owned());
    let cell = Cell { at: 7, packets, bytes };
    let means = Some([bytes * 8, bytes * 4, bytes]);
    Row { name, detail, sum, cell, means, ..Row::default() }
}

fn flows() -> Ranked {
    let rows = vec![
        row("tcp 192.168.100.20:50123 → 203.0.113.250:443", "tls www.example.org", 91_000, 118_000_000),
        row("udp [2001:db8::1234:5678:9abc]:40000 → [2001:db8::2]:443", "quic", 4_100, 5_300_000),
        row("icmp 10.0.0.1 → 10.0.0.2 type 8.0", "", 2, 168),
        row("tcp 10.0.0.1:1 → 10.0.0.2:80", "http \u{1b}[2J\u{202e}evil", 0, 0),
    ];
    let (bytes_max, mean_10s_max) = (118_000_000 * 40, 118_000_000 * 4);
    Ranked { matching: 1234, groups: 5000, rows, bytes_max, mean_10s_max, ..Ranked::default() }
}

fn hosts() -> Ranked {
    let rows =
        vec![row("203.0.113.250", "", 91_000, 118_000_000), row("2001:db8::1234:5678:9abc", "", 9, 900)];
    let others = Some(row("others", "", 1, 60));
    Ranked { matching: 2, groups: 2, rows, others, ..Ranked::default() }
}

fn status() -> [Part; 4] {
    [
        Part::new("eth0, eth1", "", 1),
        Part::new("944 Mb/s 95.1 kpps", "944 Mb/s", 4),
        Part::new("12,345 flows", "", 2),
        Part::new("lost 0", "", 3),
    ]
}

/// The cells of a screen as lines.
fn screen(width: u16, height: u16, view: &View, ranked: &Ranked, rates: Rates) -> String {
    let buffer = cells(width, height, view, ranked, rates);
    let line = |y: u16| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    let lines: Vec<_> = (0..height).map(|y| line(y).trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The cells of a screen.
fn cells(width: u16, height: u16, view: &View, ranked: &Ranked, rates: Rates) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
    let status = status();
    let picture = Picture { view, status: &status, ranked, rates };
    terminal.draw(|frame| draw(frame, &picture)).expect("drawn");
    terminal.backend().buffer().clone()
}

#[test]
fn screens_fit_terminals_of_40_80_and_200_columns() {
    let second = Rates::Interval(1.0);
    for width in WIDTHS {
        let view = View::new(By::Flow, Order::Rate, "");
        insta::assert_snapshot!(format!("flows-{width}"), screen(width, 10, &view, &flows(), second));
        let view = View { is_typing: true, is_reversed: true, ..View::new(By::Host, Order::Bytes, "203.") };
        insta::assert_snapshot!(
            format!("hosts-{width}"),
            screen(width, 9, &view, &hosts(), Rates::Mean(10.0))
        );
        let view = View { has_help: true, ..View::new(By::Port, Order::Name, "") };
        insta::assert_snapshot!(format!("help-{width}"), screen(width, 17, &view, &hosts(), second));
    }
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    for (width, height) in [(0, 0), (1, 1), (3, 2), (10, 4), (17, 5), (500, 3)] {
        for view in [View::new(By::Flow, Order::Rate, ""), View::new(By::Vlan, Order::Name, "x")] {
            let text = screen(width, height, &view, &flows(), Rates::Mean(0.0));
            assert_eq!(text.split('\n').count(), usize::from(height.max(1)), "{width} × {height}: {text}");
        }
    }
    assert_eq!([0, 4, 5, 24].map(|lines| page(lines, false)), [0, 0, 1, 20]);
}

/// The numbers of cells at the left of each row that a bar reverses.
fn bars(view: &View, ranked: &Ranked, rates: Rates) -> Vec<usize> {
    let buffer = cells(80, 9, view, ranked, rates);
    let is_reversed = |x: u16, y: u16| buffer[(x, y)].modifier.contains(Modifier::REVERSED);
    (3..8).map(|y| (0..80).take_while(|x| is_reversed(*x, y)).count()).collect()
}

#[test]
fn bars_are_means_of_10_s_and_of_a_file_bytes() {
    let (second, file) = (Rates::Interval(1.0), Rates::Mean(60.0));
    let of = |bars| View { bars, ..View::new(By::Flow, Order::Rate, "") };
    let [linear, log, none] = [Bars::Linear, Bars::Log, Bars::None].map(of);
    let mut ranked = flows();
    assert_eq!(bars(&linear, &ranked, second), [80, 4, 0, 0, 0]);
    assert_eq!(bars(&log, &ranked, second), [80, 62, 2, 0, 0]);
    assert_eq!(bars(&none, &ranked, second), [0; 5]);
    // A row further down in a list is as long as before.
    ranked.rows.remove(0);
    assert_eq!(bars(&linear, &ranked, second), [4, 0, 0, 0, 0]);
    ranked.rows[0].means = None;
    assert_eq!(bars(&linear, &ranked, second), [0; 5], "before the first whole second");
    assert_eq!(bars(&linear, &ranked, file), [4, 0, 0, 0, 0], "of a file by its bytes");
    let text = |view| screen(80, 9, view, &flows(), second);
    assert_eq!(text(&linear), text(&none), "without attributes the text is the same");
}

#[test]
fn a_name_is_shown_in_the_place_of_the_address_and_is_harmless() {
    let mut ranked = hosts();
    ranked.rows[0].named = "www.example.org".to_owned();
    ranked.rows[1].named = "\u{1b}[2Jevil".to_owned();
    let text = screen(80, 9, &View::new(By::Host, Order::Rate, ""), &ranked, Rates::Interval(1.0));
    assert!(text.contains("www.example.org") && !text.contains("203.0.113.250"), "{text}");
    assert!(text.contains("evil") && !text.contains('\u{1b}'), "{text}");
}

/// A page is as long as what is shown: nothing is skipped from one to the next.
#[test]
fn the_row_of_others_has_a_line_of_its_own() {
    let page = page(8, true);
    let rows = (0..page).map(|number| row(&format!("10.0.0.{number}"), "", 10, 1000)).collect();
    let ranked = Ranked { matching: 9, groups: 9, rows, ..hosts() };
    let text = screen(80, 8, &View::new(By::Host, Order::Rate, ""), &ranked, Rates::Mean(1.0));
    for words in ["10.0.0.0", "10.0.0.1", "10.0.0.2", "others", "1–3 of 9"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn text_of_others_is_harmless_on_the_screen() {
    let text = screen(200, 10, &View::new(By::Flow, Order::Rate, ""), &flows(), Rates::Mean(1.0));
    assert!(text.contains("evil") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
}
