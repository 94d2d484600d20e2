//! Values over time: packets and bytes per interval; the intervals get longer if there would be too many.

use crate::record::Direction;

/// The packets and bytes of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cell {
    /// Number of the interval: its begin since 1970, in units of its length.
    pub at: u64,
    pub packets: u64,
    pub bytes: u64,
}

/// The cells of a group that have packets, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cells(Vec<Cell>);

/// Lengths of intervals that are easy to read, ns; each divides the next one.
const LENGTHS_NS: [u64; 17] = {
    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;
    const H: u64 = 3600 * S;
    [
        MS,
        5 * MS,
        10 * MS,
        50 * MS,
        100 * MS,
        500 * MS,
        S,
        5 * S,
        10 * S,
        30 * S,
        60 * S,
        300 * S,
        600 * S,
        1800 * S,
        H,
        6 * H,
        24 * H,
    ]
};

/// The next longer length, a multiple of this one.
pub(super) fn longer_ns(cell_ns: u64) -> u64 {
    let is_multiple = |length: &&u64| **length > cell_ns && length.is_multiple_of(cell_ns);
    LENGTHS_NS.iter().find(is_multiple).copied().unwrap_or(cell_ns.saturating_mul(2))
}

impl Cells {
    /// Adds to a cell; returns true if the cell is new.
    pub(super) fn add(&mut self, cell: Cell) -> bool {
        let place = match self.0.last() {
            Some(last) if last.at == cell.at => Ok(self.0.len() - 1),
            Some(last) if last.at > cell.at => self.0.binary_search_by_key(&cell.at, |known| known.at),
            _ => Err(self.0.len()),
        };
        match place {
            Ok(at) => {
                let known = &mut self.0[at];
                known.packets = known.packets.saturating_add(cell.packets);
                known.bytes = known.bytes.saturating_add(cell.bytes);
            }
            Err(at) => self.0.insert(at, cell),
        }
        place.is_err()
    }

    /// Joins each `factor` intervals into one.
    pub(super) fn lengthen(&mut self, factor: u64) {
        let cells = std::mem::take(&mut self.0);
        for cell in cells {
            self.add(Cell { at: cell.at / factor, ..cell });
        }
        self.0.shrink_to_fit();
    }

    /// Removes the intervals before `at`, except `kept`.
    pub(super) fn forget_before(&mut self, at: u64, kept: Option<u64>) {
        self.0.retain(|cell| cell.at >= at || Some(cell.at) == kept);
    }

    /// The cell of an interval, which may be empty.
    pub(super) fn at(&self, at: u64) -> Cell {
        let found = self.0.binary_search_by_key(&at, |cell| cell.at);
        found.map_or(Cell { at, ..Cell::default() }, |place| self.0[place])
    }

    pub(super) fn all(&self) -> &[Cell] {
        &self.0
    }
}

/// Spreads the packets of a direction evenly over the time from its first to its last packet. The sum of the cells is
/// exact.
pub(super) fn spread(direction: &Direction, cell_ns: u64) -> impl Iterator<Item = Cell> + use<> {
    spread_end(direction, cell_ns, u64::MAX)
}

/// As [`spread`], but only the last `count` intervals: at least one.
pub(super) fn spread_end(
    direction: &Direction,
    cell_ns: u64,
    count: u64,
) -> impl Iterator<Item = Cell> + use<> {
    let Direction { packets, bytes, first_ns, last_ns, .. } = *direction;
    let last_ns = last_ns.max(first_ns);
    let (first, last) = (first_ns / cell_ns, last_ns / cell_ns);
    let span_ns = u128::from((last_ns - first_ns).max(1));
    let until = move |at: u64, whole: u64| {
        let past_ns = (at + 1).saturating_mul(cell_ns).saturating_sub(first_ns);
        let share = u128::from(whole) * u128::from(past_ns) / span_ns;
        if at >= last { whole } else { share as u64 }
    };
    let begin = first.max(last.saturating_sub(count.max(1) - 1));
    let mut before = match begin.checked_sub(1).filter(|at| *at >= first) {
        Some(at) => [until(at, packets), until(at, bytes)],
        None => [0; 2],
    };
    let cells = (begin..=last).map(move |at| {
        let now = [until(at, packets), until(at, bytes)];
        let cell = Cell { at, packets: now[0] - before[0], bytes: now[1] - before[1] };
        before = now;
        cell
    });
    cells.filter(|cell| cell.packets > 0 || cell.bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_length_divides_the_next_one() {
        let mut at = LENGTHS_NS[0];
        for length in &LENGTHS_NS[1..] {
            assert_eq!((longer_ns(at), length % at), (*length, 0));
            at = *length;
        }
        assert_eq!(longer_ns(7_000_000_000), 14_000_000_000);
        assert_eq!(longer_ns(2_000_000_000), 10_000_000_000);
        assert_eq!(longer_ns(at), 2 * at);
    }

    proptest! {
        #[test]
        fn cells_have_all_packets_at_any_length(
            pieces in prop::collection::vec((0u64..5_000, 0u64..3_000, 1u64..50, 0u64..9_000), 1..20),
            cell_ns in 1u64..700,
            factor in 1u64..9,
        ) {
            let mut cells = Cells::default();
            let (mut count, mut sums) = (0, [0; 2]);
            for (first_ns, length_ns, packets, bytes) in pieces {
                let direction =
                    Direction { packets, bytes, first_ns, last_ns: first_ns + length_ns, ..Direction::default() };
                for cell in spread(&direction, cell_ns) {
                    prop_assert!((first_ns / cell_ns..=(first_ns + length_ns) / cell_ns).contains(&cell.at));
                    count += usize::from(cells.add(cell));
                }
                sums = [sums[0] + packets, sums[1] + bytes];
            }
            prop_assert_eq!(count, cells.all().len());
            let total = |cells: &Cells| cells.all().iter().fold([0; 2], |sum, cell| [sum[0] + cell.packets, sum[1] + cell.bytes]);
            prop_assert_eq!(total(&cells), sums);
            cells.lengthen(factor);
            prop_assert_eq!(total(&cells), sums);
            prop_assert!(cells.all().windows(2).all(|pair| pair[0].at < pair[1].at));
            let first = cells.all()[0];
            prop_assert_eq!(cells.at(first.at), first);
            cells.forget_before(u64::MAX, Some(first.at));
            prop_assert_eq!(cells.all(), [first]);
            cells.forget_before(first.at + 1, None);
            prop_assert_eq!(cells.at(first.at).packets, 0);
        }
    }

    #[test]
    fn a_piece_is_spread_evenly() {
        let direction =
            Direction { packets: 10, bytes: 1000, first_ns: 50, last_ns: 250, ..Direction::default() };
        let bytes: Vec<_> = spread(&direction, 100).map(|cell| (cell.at, cell.bytes)).collect();
        assert_eq!(bytes, [(0, 250), (1, 500), (2, 250)]);
        assert_eq!(spread(&Direction::default(), 100).count(), 0);
        let end: Vec<_> = spread_end(&direction, 100, 2).map(|cell| (cell.at, cell.bytes)).collect();
        assert_eq!(end, bytes[1..]);
        let long = Direction { packets: 1 << 40, last_ns: u64::MAX - 9, ..direction };
        assert_eq!(spread_end(&long, 1, 3).count(), 1, "a long time costs no more");
    }
}
