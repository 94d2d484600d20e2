//! Rows that wait for their row group, column by column. It never opens a file.

use crate::schema::{COLUMNS, Facts, Values};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use quaff_flow::record::FlowRecord;
use std::collections::HashMap;
use std::io::Write;
use std::net::IpAddr;

/// Addresses whose text is remembered: those of a row group, and more.
const ADDRESSES_MAX: usize = 1 << 18;

/// The rows of a row group.
#[derive(Debug)]
pub(crate) struct Columns {
    buffers: Vec<Buffer>,
    rows: usize,
    addresses: Addresses,
}

/// The values of a column. Of an optional one, `levels` is 1 for each row with a value and 0 for the others.
#[derive(Debug)]
enum Buffer {
    Int { values: Vec<i32>, levels: Vec<i16> },
    Long { values: Vec<i64>, levels: Vec<i16> },
    Text { values: Vec<ByteArray>, levels: Vec<i16> },
}

/// The texts of addresses: each is made once, not once a row. The hash has a key of this process, so that addresses
/// chosen to collide do not.
#[derive(Debug, Default)]
struct Addresses(HashMap<IpAddr, ByteArray>);

impl Addresses {
    fn text(&mut self, address: IpAddr) -> ByteArray {
        if self.0.len() >= ADDRESSES_MAX {
            self.0.clear();
        }
        self.0.entry(address).or_insert_with(|| ByteArray::from(address.to_string().into_bytes())).clone()
    }
}

impl Columns {
    pub(crate) fn new() -> Self {
        let buffers = COLUMNS.iter().map(|column| Buffer::new(&column.values)).collect();
        Self { buffers, rows: 0, addresses: Addresses::default() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows: a column after the other, so that each loop is short.
    pub(crate) fn push(&mut self, records: &[FlowRecord], facts: &Facts, probe: &ByteArray) {
        self.rows += records.len();
        for (column, buffer) in COLUMNS.iter().zip(&mut self.buffers) {
            buffer.push(&column.values, records, facts, probe, &mut self.addresses);
        }
    }

    /// Writes the rows as a row group, and forgets them.
    pub(crate) fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        for buffer in &self.buffers {
            if let Some(mut column) = group.next_column()? {
                buffer.write(&mut column)?;
                column.close()?;
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

/// Adds the values that are there, and the level of each row.
fn push_some<T>(values: &mut Vec<T>, levels: &mut Vec<i16>, found: impl Iterator<Item = Option<T>>) {
    for value in found {
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
}

/// A required column has no levels.
fn given(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}

impl Buffer {
    fn new(of: &Values) -> Self {
        let levels = Vec::new();
        match of {
            Values::Int(..) | Values::MaybeInt(..) => Self::Int { values: Vec::new(), levels },
            Values::Time(..) | Values::Long(..) | Values::MaybeLong(..) => {
                Self::Long { values: Vec::new(), levels }
            }
            Values::Address(..) | Values::Probe | Values::MaybeText(..) => {
                Self::Text { values: Vec::new(), levels }
            }
        }
    }

    fn push(
        &mut self,
        of: &Values,
        records: &[FlowRecord],
        facts: &Facts,
        probe: &ByteArray,
        addresses: &mut Addresses,
    ) {
        let us = |ns: u64| (ns / 1000) as i64;
        match (self, of) {
            (Self::Int { values, .. }, Values::Int(read, _)) => {
                values.extend(records.iter().map(|record| read(record, facts)));
            }
            (Self::Int { values, levels }, Values::MaybeInt(read, _)) => {
                push_some(values, levels, records.iter().map(|record| read(record, facts)));
            }
            (Self::Long { values, .. }, Values::Time(read, _)) => {
                values.extend(records.iter().map(|record| us(read(record))));
            }
            (Self::Long { values, .. }, Values::Long(read, _)) => {
                values.extend(records.iter().map(|record| read(record, facts)));
            }
            (Self::Long { values, levels }, Values::MaybeLong(read, _)) => {
                push_some(values, levels, records.iter().map(|record| read(record, facts)));
            }
            (Self::Text { values, .. }, Values::Address(read, _)) => {
                values.extend(records.iter().map(|record| addresses.text(read(record))));
            }
            (Self::Text { values, .. }, Values::Probe) => {
                values.extend(records.iter().map(|_| probe.clone()));
            }
            (Self::Text { values, levels }, Values::MaybeText(read, _)) => {
                push_some(values, levels, records.iter().map(|record| read(record).map(ByteArray::from)));
            }
            // `new` made each buffer for its values.
            _ => unreachable!("a buffer of another type"),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        match self {
            Self::Int { values, levels } => {
                column.typed::<Int32Type>().write_batch(values, given(levels), None)?
            }
            Self::Long { values, levels } => {
                column.typed::<Int64Type>().write_batch(values, given(levels), None)?
            }
            Self::Text { values, levels } => {
                column.typed::<ByteArrayType>().write_batch(values, given(levels), None)?
            }
        };
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            Self::Int { values, levels } => (values.clear(), levels.clear()),
            Self::Long { values, levels } => (values.clear(), levels.clear()),
            Self::Text { values, levels } => (values.clear(), levels.clear()),
        };
    }
}
