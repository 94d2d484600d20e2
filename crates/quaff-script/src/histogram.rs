//! The histogram counts at the end of a run: one row per key, with the sum over all lanes.
//!
//! Converts counts to text in pieces. No I/O, and independent of Lua.

use crate::record::{Formats, Recorder, Rows, Scalar};
use std::collections::HashMap;

/// Bytes of rows that are passed on at once.
const PIECE_BYTES: usize = 64 << 10;

/// The histograms of all scripts.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    formats: Formats,
    all: Vec<(Recorder, HashMap<Vec<Scalar>, u64>)>,
}

impl Histograms {
    pub(crate) fn new(formats: Formats, all: Vec<(Recorder, HashMap<Vec<Scalar>, u64>)>) -> Self {
        Self { formats, all }
    }

    /// Adds the counts of another lane, key by key.
    pub fn add(&mut self, other: Self) {
        self.formats = other.formats;
        for (recorder, counts) in other.all {
            match self.all.iter_mut().find(|(known, _)| *known == recorder) {
                Some((_, sums)) => counts.into_iter().for_each(|(key, count)| {
                    let sum = sums.entry(key).or_default();
                    *sum = sum.saturating_add(count);
                }),
                None => self.all.push((recorder, counts)),
            }
        }
    }

    /// Passes all counts on as rows, the highest counts of each histogram first.
    pub fn rows(self, mut take: impl FnMut(&Recorder, Rows)) {
        for (recorder, counts) in self.all {
            let mut counts: Vec<_> = counts.into_iter().collect();
            counts.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
            let mut rows = Rows::default();
            for (key, count) in counts {
                let names = recorder.columns.iter().cloned();
                let mut fields: Vec<_> = names.zip(key.into_iter().map(Into::into)).collect();
                fields.push(("count".to_owned(), count.into()));
                rows.put(&recorder, self.formats, &fields);
                if rows.bytes() >= PIECE_BYTES {
                    take(&recorder, std::mem::take(&mut rows));
                }
            }
            if rows.bytes() > 0 {
                take(&recorder, rows);
            }
        }
    }
}
