//! The order of the entries of a folder by their names: that in which a recorder made its files. It reads no capture.

use quaff_file::read::finished;
use quaff_file::write::{Suffix, Turns};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Digits of a number that counts files, at least: those of this program, and more than those of a year.
const COUNTER_DIGITS: usize = 6;
/// Of so many numbers at most one names a file of the folder: others are parts of a time.
const SPARSENESS_MAX: u64 = 2;

/// A piece of a name. A number that is written with more zeros comes later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Text(String),
    Number(u64, usize),
}

/// A name with numbers in it.
#[derive(Debug)]
struct Name {
    /// That of the file once it is complete.
    text: String,
    pieces: Vec<Piece>,
    path: PathBuf,
}

/// The entries of the folder `dir`, sorted: by name, where numbers count as numbers. Files whose names differ in
/// numbers only, and end with the count of a recorder, are in the order of that: times in names go back where a clock
/// does, and numbers that restart are turned to their place.
pub(crate) fn sorted(dir: &Path, entries: Vec<PathBuf>) -> Vec<PathBuf> {
    let turns = Turns::of(dir);
    let mut names: Vec<_> = entries.into_iter().map(Name::of).collect();
    names.sort_by(|a, b| (&a.pieces, &a.path).cmp(&(&b.pieces, &b.path)));
    let mut alike = BTreeMap::<String, Vec<usize>>::new();
    for (place, name) in names.iter().enumerate() {
        alike.entry(name.shape()).or_default().push(place);
    }
    let mut order: Vec<_> = (0..names.len()).collect();
    for places in alike.into_values() {
        let group: Vec<_> = places.iter().map(|place| &names[*place]).collect();
        let Some(counts) = counts(&group, turns.as_ref()) else { continue };
        // They take the places that they have together.
        let mut counted: Vec<_> = counts.into_iter().zip(places.iter().copied()).collect();
        counted.sort_unstable();
        for (place, (_, from)) in places.iter().zip(counted) {
            order[*place] = from;
        }
    }
    order.into_iter().map(|from| names[from].path.clone()).collect()
}

/// The counts of files whose names are alike; `None` if their last numbers count nothing.
fn counts(names: &[&Name], turns: Option<&Turns>) -> Option<Vec<u64>> {
    let turned = turns.and_then(|turns| names.iter().map(|name| turns.number(&name.text)).collect());
    if turned.is_some() {
        return turned;
    }
    let numbers: Vec<_> = names.iter().map(|name| name.last_number()).collect::<Option<_>>()?;
    let different: BTreeSet<_> = numbers.iter().map(|(number, _)| *number).collect();
    let span = different.first().zip(different.last()).map_or(0, |(first, last)| last - first);
    let is_dense =
        different.len() == names.len() && span < (names.len() as u64).saturating_mul(SPARSENESS_MAX);
    let is_count = is_dense
        && numbers.iter().all(|(_, digits)| *digits >= COUNTER_DIGITS)
        && !names.iter().any(|name| name.ends_with_time());
    is_count.then(|| numbers.iter().map(|(number, _)| *number).collect())
}

impl Name {
    fn of(path: PathBuf) -> Self {
        let whole = finished(&path).unwrap_or_else(|| path.clone());
        let name = whole.file_name().unwrap_or_default().to_string_lossy();
        let mut pieces = Vec::new();
        let mut rest = Suffix::plain(&name);
        while !rest.is_empty() {
            let is_number = rest.starts_with(|c: char| c.is_ascii_digit());
            let end = rest.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            // Beyond all numbers of files: its digits are a text.
            pieces.push(match piece.parse().ok().filter(|_| is_number) {
                Some(number) => Piece::Number(number, piece.len()),
                None => Piece::Text(piece.to_owned()),
            });
            rest = after;
        }
        Self { text: name.into_owned(), pieces, path }
    }

    /// The name with each number as `0`.
    fn shape(&self) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::Number(..) => "0",
            })
            .collect()
    }

    /// Returns whether the last number follows a date, as 20261130 or 2026-11-30: then it may be a time of day.
    fn ends_with_time(&self) -> bool {
        let digits = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Number(_, digits) => Some(*digits),
            Piece::Text(_) => None,
        });
        let digits: Vec<_> = digits.collect();
        matches!(digits[..], [.., 8, 6] | [.., 4, 2, 2, 6])
    }

    /// The last number of the name of a capture file, and its digits.
    fn last_number(&self) -> Option<(u64, usize)> {
        let path = finished(&self.path).unwrap_or_else(|| self.path.clone());
        Suffix::of(&path).format?;
        self.pieces.iter().rev().find_map(|piece| match piece {
            Piece::Number(number, digits) => Some((*number, *digits)),
            Piece::Text(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_order(names: &[&str]) {
        let mut mixed: Vec<_> = names.iter().map(PathBuf::from).collect();
        mixed.reverse();
        let dir = tempfile::tempdir().unwrap();
        let found: Vec<_> = sorted(dir.path(), mixed).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, names);
    }

    #[test]
    fn numbers_count_as_numbers() {
        assert_order(&["a.pcap", "t.pcap", "t.pcap1", "t.pcap2", "t.pcap10", "u9.pcap", "u10.pcap"]);
        assert_order(&["dt=2026-11-22", "dt=2026-11-23", "p-1-000002.parquet", "p-2-000001.parquet"]);
        // tcpdump -G -C: the files of a time follow each other.
        assert_order(&[
            "t-120000.pcap",
            "t-120000.pcap1",
            "t-120000.pcap2",
            "t-130000.pcap",
            "t-130000.pcap1",
        ]);
    }

    #[test]
    fn files_of_a_recorder_are_in_the_order_of_their_numbers() {
        // The hour that is repeated in autumn, a file that is being written, a seventh digit.
        assert_order(&[
            "q-20261025T023000-999997.pcapng.lz4",
            "q-20261025T024500-999998.pcapng.part",
            "q-20261025T020000-999999.pcapng",
            "q-20261025T021500-1000000.pcapng",
        ]);
        // The time of day is no number of files, as tcpdump -G names them.
        assert_order(&["t-20261129-235950.pcap", "t-20261130-000000.pcap", "t-20261130-000010.pcap"]);
        assert_order(&["t-20261128-000001.pcap", "t-20261129-000000.pcap", "t-20261130-000002.pcap"]);
        assert_order(&["t-2026-11-29-120003.pcap", "t-2026-11-30-120001.pcap"]);
    }

    #[test]
    fn numbers_of_the_recorder_that_restart_are_turned_to_their_place() {
        for (template, expected) in [
            // The files 2, 3 and 4, and others, which are not the recorder's.
            ("q%i.pcap", ["other0.pcap", "other1.pcap", "q2.pcap", "q0.pcap", "q1.pcap"]),
            (
                "q",
                ["other0.pcap", "other2.pcap.gz", "q-000002.pcap", "q-000000.pcap.zst", "q-000001.pcap.part"],
            ),
            ("other", ["other0.pcap", "other1.pcap", "q0.pcap", "q1.pcap", "q2.pcap"]),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let text = format!("next {:020} of {:020}\n{template}\n", 5, 3);
            std::fs::write(dir.path().join(".quaff-lock"), text).unwrap();
            let mut names = expected.map(PathBuf::from).to_vec();
            names.sort();
            assert_eq!(sorted(dir.path(), names), expected.map(PathBuf::from), "{template}");
        }
    }
}
