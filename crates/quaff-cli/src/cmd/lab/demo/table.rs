//! The table of the demo: printed row by row as the runs end, so its widths are fixed beforehand.

use crate::show;
use quaff_bench::method::Run;

/// The columns after the first: heading and width.
const COLUMNS: [(&str, usize); 6] =
    [("buffer", 10), ("sent", 12), ("arrived at", 12), ("in its file", 13), ("lost", 9), ("CPU s", 7)];
/// Wide enough for the longest name of a capturer.
const NAME_WIDTH: usize = 16;
/// The index of `lost` in [`COLUMNS`].
const LOST: usize = 4;
/// Columns of a line.
pub(super) const WIDTH: usize = 79;

/// A run of a capturer.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) rival: String,
    pub(super) run: Run,
}

/// Style of rows: coloured on a terminal, plain elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) colours: bool,
}

impl Style {
    pub(super) fn heading(self) -> String {
        let mut line = " ".repeat(NAME_WIDTH);
        for (heading, width) in COLUMNS {
            line += &format!("{heading:>width$}");
        }
        format!("{line}\n{}", self.dim(&"─".repeat(WIDTH)))
    }

    /// One run: `name`, bytes of its buffer, and bytes/s that arrived for its file.
    pub(super) fn row(self, name: &str, buffer_bytes: u64, rate: f64, outcome: &Outcome) -> String {
        let run = &outcome.run;
        let cells = [
            show::bytes(buffer_bytes),
            show::count(run.offered),
            show::byte_rate(rate),
            show::count(run.captured.unwrap_or(0)),
            lost(run),
            format!("{:.2}", run.cpu_user_s + run.cpu_system_s + run.cpu_startup_s),
        ];
        let name = format!("  {name:width$}", width = NAME_WIDTH - 2);
        let mut line = if outcome.rival == "quaff" { self.paint("1", &name) } else { name };
        for (at, (cell, (_, width))) in cells.iter().zip(COLUMNS).enumerate() {
            let cell = format!("{cell:>width$}");
            line += &match (at, run.lost()) {
                (LOST, 0) => self.good(&cell),
                (LOST, _) => self.bad(&cell),
                _ => cell,
            };
        }
        line
    }

    /// A capturer that could not be measured.
    pub(super) fn failure(self, rival: &str, why: &str) -> String {
        format!(
            "  {rival:width$}  {}",
            self.bad(&format!("could not be measured: {why}")),
            width = NAME_WIDTH - 2
        )
    }

    pub(super) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(super) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// ECMA-48 SGR, and back to plain.
    fn paint(self, sgr: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{sgr}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// "none" only when it is none: a percentage is never rounded down to nothing, nor up to all.
pub(super) fn lost(run: &Run) -> String {
    match (run.lost(), 100.0 * run.lost() as f64 / run.offered.max(1) as f64) {
        (0, _) => "none".into(),
        (_, percent) if percent < 0.01 => "<0.01 %".into(),
        (lost, percent) if percent > 99.9 && lost < run.offered => ">99.9 %".into(),
        (_, percent) if percent < 1.0 => format!("{percent:.2} %"),
        (_, percent) => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
pub(super) fn outcome(rival: &str, offered: u64, in_file: u64, own_drops: Option<u64>) -> Outcome {
    let run = Run {
        offered,
        captured: Some(in_file),
        seconds: offered as f64 / 400_000.0,
        tool_drops: own_drops,
        cpu_user_s: 0.25,
        cpu_system_s: 1.0,
        ..Run::default()
    };
    Outcome { rival: rival.into(), run }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(style: Style, name: &str, outcome: &Outcome) -> String {
        style.row(name, 256 << 20, outcome.run.offered_pps() * 1544.0, outcome)
    }

    #[test]
    fn rows_stand_under_their_headings() {
        let style = Style { colours: false };
        let table = [
            style.heading(),
            row(style, "quaff", &outcome("quaff", 2_000_000, 2_000_000, Some(0))),
            row(style, "tcpdump", &outcome("tcpdump", 2_000_000, 1_408_941, Some(591_059))),
            row(style, "quaff, default", &outcome("quaff", 2_000_000, 1_999_999, None)),
            style.failure("dumpcap", "it said nothing"),
        ];
        insta::assert_snapshot!(table.join("\n"));
    }

    #[test]
    fn the_width_is_that_of_all_columns() {
        assert_eq!(NAME_WIDTH + COLUMNS.map(|(_, width)| width).iter().sum::<usize>(), WIDTH);
    }

    #[test]
    fn colours_change_no_width() {
        let outcome = outcome("quaff", 1000, 500, Some(500));
        let plain = row(Style { colours: false }, "quaff", &outcome);
        let coloured = row(Style { colours: true }, "quaff", &outcome);
        assert_ne!(plain, coloured);
        let mut bare = coloured;
        for sgr in ["\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[0m"] {
            bare = bare.replace(sgr, "");
        }
        assert_eq!(plain, bare);
    }

    #[test]
    fn a_loss_is_never_rounded_away() {
        for (offered, in_file, words) in [
            (1_000_000, 1_000_000, "none"),
            (1_000_000, 999_999, "<0.01 %"),
            (1_000_000, 995_000, "0.50 %"),
            (1_000_000, 718_000, "28.2 %"),
            (1_000_000, 1, ">99.9 %"),
            (1_000_000, 0, "100.0 %"),
        ] {
            assert_eq!(lost(&outcome("quaff", offered, in_file, None).run), words);
        }
    }
}
