//! Buffers rows for the next row group, column by column. Never opens a file.

use crate::chunk::Chunks;
use crate::dictionary::{Entries, Numbers, Texts};
use crate::schema::{BLOOM_FALSE, COLUMNS, Column, Facts, Values};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use quaff_flow::record::FlowRecord;
use std::io::Write;
use std::net::IpAddr;

/// Records that are split into columns at a time; they fit into the first-level cache.
const PART_ROWS: usize = 128;

/// The rows of a row group.
#[derive(Debug)]
pub(crate) struct Columns {
    buffers: Vec<Buffer>,
    rows: usize,
    lists: Lists,
    chunks: Chunks,
    /// Definition levels of a column without values.
    nulls: Vec<i16>,
}

/// The buffered values of a column.
#[derive(Debug)]
enum Buffer {
    Int { values: Vec<i32>, levels: Levels },
    Long { values: Vec<i64>, levels: Levels },
    Text { values: Vec<ByteArray>, levels: Levels },
    Numbers(Numbers),
    Addresses(Texts),
    Probe(Texts),
}

/// Definition levels of an optional column: 1 for a row with a value, otherwise 0. Only a count while no row has a
/// value.
#[derive(Debug, Default)]
struct Levels {
    rows: usize,
    all: Vec<i16>,
}

/// Reused buffers for the values of one part of the rows.
#[derive(Debug, Default)]
struct Lists {
    ints: Vec<i32>,
    longs: Vec<i64>,
    addresses: Vec<IpAddr>,
    maybe_ints: Vec<Option<i32>>,
    maybe_longs: Vec<Option<i64>>,
}

impl Columns {
    pub(crate) fn new() -> Self {
        let buffers = COLUMNS.iter().map(Buffer::new).collect();
        Self { buffers, rows: 0, lists: Lists::default(), chunks: Chunks::new(), nulls: Vec::new() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows one column after the other, so that each loop is short.
    pub(crate) fn push(&mut self, records: &[FlowRecord], facts: &Facts, probe: &[u8]) {
        self.rows += records.len();
        for part in records.chunks(PART_ROWS) {
            for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
                buffer.push(&column.values, part, facts, &mut self.lists);
            }
        }
        for buffer in &mut self.buffers {
            if let Buffer::Probe(texts) = buffer {
                texts.push_only(probe, records.len());
            }
        }
    }

    /// Writes the rows as a row group and clears the buffers.
    pub(crate) fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let columns = file.schema_descr().columns().to_vec();
        let mut group = file.next_row_group()?;
        self.nulls.resize(self.rows, 0);
        for (buffer, column) in self.buffers.iter().zip(&columns) {
            match buffer {
                Buffer::Numbers(numbers) => {
                    let of: (&dyn Entries, _) = (numbers, numbers.places());
                    self.chunks.write(&mut group, column, of, None)?;
                }
                Buffer::Addresses(texts) => {
                    let bloom = bloom_filter(texts)?;
                    self.chunks.write(&mut group, column, (texts, texts.places()), Some(bloom))?;
                }
                Buffer::Probe(texts) => {
                    self.chunks.write(&mut group, column, (texts, texts.places()), None)?;
                }
                _ => {
                    if let Some(mut column) = group.next_column()? {
                        buffer.write(&mut column, &self.nulls)?;
                        column.close()?;
                    }
                }
            }
        }
        group.close()?;
        self.clear();
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.buffers.iter_mut().for_each(Buffer::clear);
    }
}

/// A bloom filter of all texts, sized by their number.
fn bloom_filter(texts: &Texts) -> Result<Sbbf> {
    let mut filter = Sbbf::new_with_ndv_fpp(texts.len() as u64, BLOOM_FALSE)?;
    texts.all().for_each(|text| filter.insert(text));
    Ok(filter)
}

impl Levels {
    /// Adds the values that exist, and the level of each row.
    fn push<T, V>(&mut self, found: &[Option<T>], values: &mut Vec<V>)
    where
        T: Copy + Into<V>,
    {
        if self.all.is_empty() && found.iter().all(Option::is_none) {
            self.rows += found.len();
            return;
        }
        self.all.resize(self.rows, 0);
        self.rows += found.len();
        for value in found {
            self.all.push(i16::from(value.is_some()));
            values.extend(value.map(Into::into));
        }
    }

    /// The levels for the writer; `None` for a required column.
    fn given<'a>(&'a self, nulls: &'a [i16]) -> Option<&'a [i16]> {
        match (self.rows, self.all.is_empty()) {
            (0, _) => None,
            (rows, true) => nulls.get(..rows),
            (_, false) => Some(&self.all),
        }
    }

    fn clear(&mut self) {
        self.rows = 0;
        self.all.clear();
    }
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let levels = Levels::default();
        match column.values {
            Values::Address(..) => Self::Addresses(Texts::default()),
            Values::Probe => Self::Probe(Texts::default()),
            Values::Int(..) if column.is_dictionary() => Self::Numbers(Numbers::new(false)),
            Values::Long(..) if column.is_dictionary() => Self::Numbers(Numbers::new(true)),
            Values::Int(..) | Values::MaybeInt(..) => Self::Int { values: Vec::new(), levels },
            Values::Time(..) | Values::Long(..) | Values::MaybeLong(..) => {
                Self::Long { values: Vec::new(), levels }
            }
            Values::MaybeText(..) => Self::Text { values: Vec::new(), levels },
        }
    }

    fn push(&mut self, of: &Values, records: &[FlowRecord], facts: &Facts, lists: &mut Lists) {
        lists.clear();
        match (self, of) {
            (Self::Numbers(numbers), Values::Int(fill, _)) => {
                fill(records, facts, &mut lists.ints);
                numbers.push(&lists.ints);
            }
            (Self::Numbers(numbers), Values::Long(fill, _)) => {
                fill(records, facts, &mut lists.longs);
                numbers.push(&lists.longs);
            }
            (Self::Addresses(texts), Values::Address(fill, _)) => {
                fill(records, facts, &mut lists.addresses);
                texts.push(&lists.addresses);
            }
            (Self::Int { values, .. }, Values::Int(fill, _)) => fill(records, facts, values),
            (Self::Long { values, .. }, Values::Time(fill, _) | Values::Long(fill, _)) => {
                fill(records, facts, values);
            }
            (Self::Int { values, levels }, Values::MaybeInt(fill, _)) => {
                fill(records, facts, &mut lists.maybe_ints);
                levels.push(&lists.maybe_ints, values);
            }
            (Self::Long { values, levels }, Values::MaybeLong(fill, _)) => {
                fill(records, facts, &mut lists.maybe_longs);
                levels.push(&lists.maybe_longs, values);
            }
            (Self::Text { values, levels }, Values::MaybeText(read, _)) => {
                let found: Vec<_> = records.iter().map(read).collect();
                levels.push(&found, values);
            }
            // Written for all rows at once.
            (Self::Probe(_), Values::Probe) => {}
            // `new` created each buffer for its type of values.
            _ => unreachable!("buffer and values differ in type"),
        }
    }

    /// Writes a column that the parquet crate encodes.
    fn write(&self, column: &mut SerializedColumnWriter<'_>, nulls: &[i16]) -> Result<()> {
        match self {
            Self::Int { values, levels } => {
                column.typed::<Int32Type>().write_batch(values, levels.given(nulls), None)?
            }
            Self::Long { values, levels } => {
                column.typed::<Int64Type>().write_batch(values, levels.given(nulls), None)?
            }
            Self::Text { values, levels } => {
                column.typed::<ByteArrayType>().write_batch(values, levels.given(nulls), None)?
            }
            Self::Numbers(_) | Self::Addresses(_) | Self::Probe(_) => 0,
        };
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            Self::Int { values, levels } => (values.clear(), levels.clear()),
            Self::Long { values, levels } => (values.clear(), levels.clear()),
            Self::Text { values, levels } => (values.clear(), levels.clear()),
            Self::Numbers(numbers) => (numbers.clear(), ()),
            Self::Addresses(texts) | Self::Probe(texts) => (texts.clear(), ()),
        };
    }
}

impl Lists {
    fn clear(&mut self) {
        self.ints.clear();
        self.longs.clear();
        self.addresses.clear();
        self.maybe_ints.clear();
        self.maybe_longs.clear();
    }
}
