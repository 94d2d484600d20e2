//! Writes a dictionary column chunk: pages, statistics, bloom filter and indexes. Every row has a value.
//!
//! The parquet crate's writer looks up and counts each value; here whole runs of rows share one value. Formats,
//! headers and metadata come from the crate.

use crate::dictionary::{Entries, Places};
use crate::hybrid;
use crate::schema::{PAGE_ROWS, ZSTD_LEVEL, compression};
use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Encoding, PageType, Type};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use std::cmp::Ordering;
use std::io::Write;
use zstd::bulk::Compressor;

/// Writes chunks one after the other.
pub(crate) struct Chunks {
    /// `None` before the first chunk.
    compressor: Option<Compressor<'static>>,
}

/// The pages of a chunk that is being written.
struct Pages<'a> {
    compressor: &'a mut Compressor<'static>,
    writer: SerializedPageWriter<'a, Vec<u8>>,
    compressed_bytes: u64,
    uncompressed_bytes: u64,
}

/// Indexes of the smallest and the largest value, for the statistics.
type Ends = [u32; 2];

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").finish_non_exhaustive()
    }
}

impl Chunks {
    pub(crate) fn new() -> Self {
        Self { compressor: None }
    }

    /// Writes the next column of a row group with at least one row.
    pub(crate) fn write<W: Write + Send>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        column: &ColumnDescPtr,
        (entries, places): (&dyn Entries, &Places),
        bloom_filter: Option<Sbbf>,
    ) -> Result<()> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(ZSTD_LEVEL)?),
        };
        let mut sink = TrackedWrite::new(Vec::new());
        let writer = SerializedPageWriter::new(&mut sink);
        let mut pages = Pages { compressor, writer, compressed_bytes: 0, uncompressed_bytes: 0 };
        let dictionary = pages.write_dictionary(entries)?;
        let (mut offsets, mut data_offset, mut ends) = (OffsetIndexBuilder::new(), None, Vec::new());
        for begin in (0..places.rows()).step_by(PAGE_ROWS) {
            let rows = begin..places.rows().min(begin + PAGE_ROWS);
            let part = places.part(rows.clone());
            let spec = pages.write_places(part, rows.len(), entries.len())?;
            data_offset.get_or_insert(spec.offset);
            offsets.append_row_count(rows.len() as i64);
            offsets.append_offset_and_size(spec.offset as i64, spec.compressed_size as i32);
            ends.push(part.map_or([0, 0], |part| ends_of(entries, part)));
        }
        let Pages { compressed_bytes, uncompressed_bytes, .. } = pages;
        let kind = column.physical_type();
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let data_pages = stats(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, ends.len() as i32);
        let metadata = ColumnChunkMetaData::builder(column.clone())
            .set_compression(compression()?)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1), data_pages])
            .set_total_compressed_size(compressed_bytes as i64)
            .set_total_uncompressed_size(uncompressed_bytes as i64)
            .set_num_values(places.rows() as i64)
            .set_dictionary_page_offset(Some(dictionary.offset as i64))
            .set_data_page_offset(data_offset.unwrap_or(0) as i64)
            .set_statistics(statistics(kind, entries, all_ends(entries, &ends))?)
            .build()?;
        let closed = ColumnCloseResult {
            bytes_written: compressed_bytes,
            rows_written: places.rows() as u64,
            metadata,
            bloom_filter,
            column_index: Some(index(kind, entries, &ends).build()?),
            offset_index: Some(offsets.build()),
        };
        group.append_column(&Bytes::from(sink.into_inner()?), closed)
    }
}

impl Pages<'_> {
    fn write_dictionary(&mut self, entries: &dyn Entries) -> Result<PageWriteSpec> {
        let num_values = entries.len() as u32;
        self.write(&entries.page(), |buf| Page::DictionaryPage {
            buf,
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })
    }

    /// Writes the dictionary indexes of `rows` rows, in as few bits as the dictionary allows.
    fn write_places(&mut self, part: Option<&[u32]>, rows: usize, entries: usize) -> Result<PageWriteSpec> {
        let width = hybrid::width(entries);
        let mut plain = vec![width as u8];
        match part {
            Some(part) => hybrid::encode(part, width, &mut plain),
            None => hybrid::repeat(0, rows, width, &mut plain),
        }
        self.write(&plain, |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding: Encoding::RLE_DICTIONARY,
            // There are no levels; readers expect this encoding.
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    fn write(&mut self, plain: &[u8], page: impl FnOnce(Bytes) -> Page) -> Result<PageWriteSpec> {
        let packed = self.compressor.compress(plain)?;
        let spec = self.writer.write_page(CompressedPage::new(page(packed.into()), plain.len()))?;
        self.compressed_bytes += spec.compressed_size as u64;
        self.uncompressed_bytes += spec.uncompressed_size as u64;
        Ok(spec)
    }
}

/// Smallest and largest value of a page's rows; compares each distinct value once.
fn ends_of(entries: &dyn Entries, part: &[u32]) -> Ends {
    let mut is_used = vec![false; entries.len()];
    part.iter().for_each(|place| is_used[*place as usize] = true);
    let used = (0..).zip(is_used).filter(|(_, is_used)| *is_used).map(|(place, _)| [place; 2]);
    used.reduce(|all, one| wider(entries, all, one)).unwrap_or_default()
}

fn all_ends(entries: &dyn Entries, ends: &[Ends]) -> Ends {
    ends.iter().copied().reduce(|all, one| wider(entries, all, one)).unwrap_or_default()
}

fn wider(entries: &dyn Entries, all: Ends, one: Ends) -> Ends {
    let least = if entries.compare(one[0], all[0]) == Ordering::Less { one[0] } else { all[0] };
    let most = if entries.compare(one[1], all[1]) == Ordering::Greater { one[1] } else { all[1] };
    [least, most]
}

/// The column index: smallest and largest value of each page.
fn index(kind: Type, entries: &dyn Entries, ends: &[Ends]) -> ColumnIndexBuilder {
    let mut index = ColumnIndexBuilder::new(kind);
    for [least, most] in ends {
        index.append(false, entries.bytes(*least), entries.bytes(*most), 0, None);
    }
    let has_order = |wrong: Ordering| {
        ends.windows(2).all(|pair| (0..2).all(|end| entries.compare(pair[0][end], pair[1][end]) != wrong))
    };
    index.set_boundary_order(match () {
        () if has_order(Ordering::Greater) => BoundaryOrder::ASCENDING,
        () if has_order(Ordering::Less) => BoundaryOrder::DESCENDING,
        () => BoundaryOrder::UNORDERED,
    });
    index
}

/// The statistics of the chunk. Numbers fill the deprecated fields, too.
fn statistics(kind: Type, entries: &dyn Entries, ends: Ends) -> Result<Statistics> {
    let ends = ends.map(|place| entries.bytes(place));
    Ok(match kind {
        Type::INT32 => {
            let [least, most] = ends.map(|end| end.first_chunk().map(|bytes| i32::from_le_bytes(*bytes)));
            let found = ValueStatistics::new(least, most, None, Some(0), false);
            found.with_backwards_compatible_min_max(true).into()
        }
        Type::INT64 => {
            let [least, most] = ends.map(|end| end.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)));
            let found = ValueStatistics::new(least, most, None, Some(0), false);
            found.with_backwards_compatible_min_max(true).into()
        }
        Type::BYTE_ARRAY => {
            let [least, most] = ends.map(|end| Some(ByteArray::from(end)));
            ValueStatistics::new(least, most, None, Some(0), false).into()
        }
        _ => return Err(ParquetError::General(format!("columns of {kind} have no dictionary"))),
    })
}
