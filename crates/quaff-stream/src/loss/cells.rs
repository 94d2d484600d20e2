//! Sums along an axis (time, or the order of segments) in up to 64 cells of equal width, which doubles when all are
//! used.

/// Maximum number of cells; after a doubling of the width at least half of them are in use.
pub(super) const CELLS_MAX: usize = 64;

/// Lost packets: with the minimum for each run of bytes, and by the mean segment size.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Lost {
    pub(super) few: f64,
    pub(super) by_mean: f64,
}

/// The sums of one part of the axis.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cell {
    /// Data segments of directions whose acknowledgments were captured.
    pub(super) segments: u64,
    pub(super) lost: Lost,
    /// Losses of directions without any captured data.
    pub(super) bare: Lost,
    /// Drops that the file records in this part.
    pub(super) recorded_drops: u64,
    /// Missing numbers of packets that their senders numbered.
    pub(super) numbered_lost: u64,
}

/// Cells from position 0.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    pub(super) width: u64,
    pub(super) cells: Vec<Cell>,
    /// The cell of the last call, and its start.
    current: usize,
    from: u64,
}

impl Cells {
    /// Creates cells with this initial width.
    pub(super) fn new(width: u64) -> Self {
        Self { width, cells: vec![Cell::default()], current: 0, from: 0 }
    }

    /// The cell at a position.
    #[inline]
    pub(super) fn at(&mut self, place: u64) -> &mut Cell {
        if place.wrapping_sub(self.from) >= self.width {
            self.find(place);
        }
        &mut self.cells[self.current]
    }

    /// Adds other cells, of which cell n lies at position `place(n)` here.
    pub(super) fn add(&mut self, cells: &[Cell], place: impl Fn(u64) -> u64) {
        for (number, cell) in (0..).zip(cells) {
            let sum = self.at(place(number));
            *sum = sum.plus(cell);
        }
    }

    fn find(&mut self, place: u64) {
        while place / self.width >= CELLS_MAX as u64 {
            self.width *= 2;
            let pairs = self.cells.chunks(2).map(|pair| pair.iter().fold(Cell::default(), Cell::plus));
            self.cells = pairs.collect();
        }
        self.current = (place / self.width) as usize;
        self.from = self.current as u64 * self.width;
        if self.cells.len() <= self.current {
            self.cells.resize(self.current + 1, Cell::default());
        }
    }
}

impl Lost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { few: self.few + other.few, by_mean: self.by_mean + other.by_mean }
    }

    /// The selected one of the two counts.
    pub(super) fn packets(self, is_by_mean: bool) -> f64 {
        if is_by_mean { self.by_mean } else { self.few }
    }
}

impl Cell {
    /// Counts lost packets; `is_bare`: none of the direction's data were captured.
    pub(super) fn lose(&mut self, packets: Lost, is_bare: bool) {
        let lost = if is_bare { &mut self.bare } else { &mut self.lost };
        *lost = lost.plus(packets);
    }

    pub(super) fn plus(self, other: &Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            lost: self.lost.plus(other.lost),
            bare: self.bare.plus(other.bare),
            recorded_drops: self.recorded_drops.saturating_add(other.recorded_drops),
            numbered_lost: self.numbered_lost.saturating_add(other.numbered_lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_where_they_belong_while_cells_get_wider() {
        let mut cells = Cells::new(3);
        for place in 0..10_000 {
            cells.at(place).segments += 1;
        }
        assert_eq!(cells.width, 192);
        assert!(cells.cells.len() > CELLS_MAX / 2 && cells.cells.len() <= CELLS_MAX);
        let (last, whole) = cells.cells.split_last().unwrap();
        assert!(whole.iter().all(|cell| cell.segments == 192), "{whole:?}");
        assert_eq!(whole.len() as u64 * 192 + last.segments, 10_000);
        // Time may go backwards, and jump.
        cells.at(5).segments += 1;
        assert_eq!(cells.cells[0].segments, 193);
        cells.at(u64::MAX).lost.few += 1.0;
        assert!(cells.cells.len() <= CELLS_MAX);
        assert_eq!(cells.cells.iter().map(|cell| cell.segments).sum::<u64>(), 10_001);
    }
}
