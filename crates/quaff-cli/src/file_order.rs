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
    pieces: Vec<Piece>,
    path: PathBuf,
}

/// The entries of the folder `dir`, sorted: by name, where numbers count as numbers. Files whose names differ in
/// numbers only, and end with the count of a recorder, are in the order of that: times in names go back where a clock
/// does, and numbers that restart are turned to their place.
pub(crate) fn sorted(dir: &Path, entries: Vec<PathBuf>) -> Vec<PathBuf> {
    let turns = Turns::of(dir);
    let mut alike = BTreeMap::<String, Vec<Name>>::new();
    for path in entries {
        let name = Name::of(path);
        alike.entry(name.shape()).or_default().push(name);
    }
    let mut sorted = Vec::new();
    for mut names in alike.into_values() {
        let is_counted = turns.is_some() || are_counted(&names);
        let place = |name: &Name| match (&turns, name.last_number()) {
            (Some(turns), Some((number, _))) => turns.number(number),
            (None, Some((number, _))) if is_counted => number,
            _ => 0,
        };
        names.sort_by(|a, b| (place(a), &a.pieces, &a.path).cmp(&(place(b), &b.pieces, &b.path)));
        sorted.extend(names.into_iter().map(|name| name.path));
    }
    sorted
}

/// Returns whether the last numbers of names that are alike count files.
fn are_counted(names: &[Name]) -> bool {
    let numbers: Option<Vec<_>> = names.iter().map(Name::last_number).collect();
    let Some(numbers) = numbers.filter(|numbers| numbers.iter().all(|of| of.1 >= COUNTER_DIGITS)) else {
        return false;
    };
    let different: BTreeSet<_> = numbers.iter().map(|(number, _)| *number).collect();
    let span = different.first().zip(different.last()).map_or(0, |(first, last)| last - first);
    let count = names.len() as u64;
    different.len() == names.len() && span < count.saturating_mul(SPARSENESS_MAX)
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
        Self { pieces, path }
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
    }

    #[test]
    fn numbers_that_restart_are_turned_to_their_place() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join(".quaff-lock"),
            "next 00000000000000000005 of 00000000000000000003\nq%i\n",
        )
        .unwrap();
        // The files 2, 3 and 4.
        let names = ["q0.pcap", "q1.pcap", "q2.pcap"].map(PathBuf::from);
        let expected = ["q2.pcap", "q0.pcap", "q1.pcap"].map(PathBuf::from);
        assert_eq!(sorted(dir.path(), names.to_vec()), expected);
    }
}
