//! `quaff info --tsv`: a line of tab-separated values for each file, below their names, as `capinfos -T` prints.
//! Numbers are plain, and what a file does not have is empty.

use crate::show;
use quaff_file::info::FileInfo;

/// The name of a column, and its value for a file.
type Column = (&'static str, fn(&FileInfo) -> String);

/// The columns. Their names are those of the JSON.
const COLUMNS: [Column; 24] = [
    ("path", |file| text(&file.path)),
    ("format", |file| file.format.unwrap_or_default().to_owned()),
    ("compression", |file| file.compression.unwrap_or_default().to_owned()),
    ("file_bytes", |file| number(file.file_bytes)),
    ("data_bytes", |file| file.data_bytes.to_string()),
    ("sha256", |file| file.sha256.clone().unwrap_or_default()),
    ("packets", |file| file.packets.to_string()),
    ("captured_bytes", |file| file.captured_bytes.to_string()),
    ("wire_bytes", |file| file.wire_bytes.to_string()),
    ("packet_bytes_min", |file| number(file.packet_bytes_min.map(u64::from))),
    ("packet_bytes_max", |file| number(file.packet_bytes_max.map(u64::from))),
    ("first_ns", |file| number(file.first_ns)),
    ("last_ns", |file| number(file.last_ns)),
    ("seconds", |file| fraction(file.seconds)),
    ("pps", |file| fraction(file.pps)),
    ("bps", |file| fraction(file.bps)),
    ("cut_packets", |file| file.cut_packets.to_string()),
    ("backward", |file| file.backward.to_string()),
    ("interface_count", |file| file.interface_count.to_string()),
    ("drops", |file| number(file.drops.as_ref().map(|_| file.lost()))),
    ("hardware", |file| text(file.origin.hardware.as_deref().unwrap_or_default())),
    ("os", |file| text(file.origin.os.as_deref().unwrap_or_default())),
    ("application", |file| text(file.origin.application.as_deref().unwrap_or_default())),
    ("error", |file| text(file.error.as_deref().unwrap_or_default())),
];

/// The table of these files.
pub(super) fn table(files: &[FileInfo]) -> String {
    let heads = COLUMNS.map(|(name, _)| name.to_owned()).join("\t");
    let rows = files.iter().map(|file| COLUMNS.map(|(_, value)| value(file)).join("\t"));
    std::iter::once(heads).chain(rows).collect::<Vec<_>>().join("\n")
}

fn number(value: Option<u64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn fraction(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A text in one cell.
fn text(words: &str) -> String {
    show::name(&words.replace(['\t', '\n', '\r'], " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_a_line_with_a_cell_for_each_column() {
        let odd = FileInfo { path: "a\tb\nc".into(), packets: 7, ..FileInfo::default() };
        let table = table(&[odd, FileInfo::default()]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|cells| cells.len() == COLUMNS.len()), "{table}");
        assert_eq!((lines[1][0], lines[1][6], lines[2][3]), ("a b c", "7", ""));
    }
}
