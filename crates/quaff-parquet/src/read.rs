//! Reads segments of this program back into records. Refuses files with another schema.

use crate::error::{Error, Result, TryParquet};
use crate::ledger::SegmentLedger;
use crate::schema::{APPLICATION, COLUMNS, Column, Row, Values, schema};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as FormatResult};
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use quaff_flow::export::Names;
use quaff_flow::record::{Direction, EndReason, FlowRecord, FlowSink, InitiatorRule, RecordKey};
use quaff_os::Try;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 4096;

/// A segment, opened for reading.
///
/// A record from a segment has only what the columns have: both directions have the times of the whole flow, and it has
/// extras only where a column has a value.
pub struct SegmentReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    ledger: SegmentLedger,
}

/// The segments below a folder, sorted by path, which is the order of time for each probe. Skips names that begin with
/// a dot.
pub fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        let entries =
            std::fs::read_dir(&folder).trying(|| format!("read the folder {}", folder.display()))?;
        for entry in entries {
            let entry = entry.trying(|| format!("read the folder {}", folder.display()))?;
            let path = entry.path();
            let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
            match () {
                () if is_hidden => {}
                // Symbolic links to folders are not followed: they may form a loop.
                () if entry.file_type().is_ok_and(|kind| kind.is_dir()) => open.push(path),
                () if path.extension().is_some_and(|end| end == "parquet") => found.push(path),
                () => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

impl SegmentReader {
    /// Opens a segment. Refuses files of other schemas and versions.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).trying(|| format!("open {}", path.display()))?;
        let tried = || format!("read {}", path.display());
        let file = guarded(path, || SerializedFileReader::new(file).trying_parquet(tried))?;
        let metadata = file.metadata().file_metadata();
        let entries = metadata.key_value_metadata().map_or(&[][..], Vec::as_slice);
        let ledger = SegmentLedger::parse(entries).map_err(|words| {
            let by = metadata.created_by().unwrap_or("an unknown program");
            Error::foreign(path, format!("{words}; it was written by {by}"))
        })?;
        check(metadata, &ledger).map_err(|words| Error::foreign(path, words))?;
        Ok(Self { path: path.to_owned(), file, ledger })
    }

    /// The counters of the segment.
    pub fn ledger(&self) -> &SegmentLedger {
        &self.ledger
    }

    /// Returns whether the meter recorded applications and names of servers: by the ledger, or because a row has one.
    pub fn has_applications(&self) -> bool {
        let is_filled = |number: usize, column: usize| {
            let group = self.file.metadata().row_group(number);
            let found = group.columns().get(column).and_then(|chunk| chunk.statistics());
            let nulls = found.and_then(|found| found.null_count_opt());
            nulls.is_some_and(|nulls| i64::try_from(nulls).is_ok_and(|nulls| nulls < group.num_rows()))
        };
        let column = COLUMNS.iter().position(|column| column.name(Names::Ipfix) == APPLICATION);
        let mut groups = 0..self.file.num_row_groups();
        self.ledger.has_applications
            || column.is_some_and(|column| groups.any(|number| is_filled(number, column)))
    }

    /// Passes all records to a sink, in order.
    pub fn read(&self, sink: &mut dyn FlowSink) -> Result<()> {
        for number in 0..self.file.num_row_groups() {
            self.read_group(number, sink)?;
        }
        Ok(())
    }

    fn read_group(&self, number: usize, sink: &mut dyn FlowSink) -> Result<()> {
        let tried = || format!("read {}", self.path.display());
        let open = || {
            let group = self.file.get_row_group(number)?;
            let columns = (0..COLUMNS.len()).map(|column| group.get_column_reader(column));
            Ok((columns.collect::<FormatResult<Vec<_>>>()?, group.metadata().num_rows()))
        };
        let (mut columns, rows) = guarded(&self.path, || open().trying_parquet(tried))?;
        let mut left = rows.try_into().unwrap_or(0);
        while left > 0 {
            let mut rows = vec![Row::new(); BATCH_ROWS.min(left)];
            left -= rows.len();
            guarded(&self.path, || {
                let mut all = COLUMNS.iter().zip(&mut columns);
                all.try_for_each(|(column, reader)| column.read(reader, &mut rows)).trying_parquet(tried)
            })?;
            if rows.iter().any(|row| row.is_wrong) {
                return Err(Error::foreign(&self.path, "a value is outside the range of its column"));
            }
            let records: Vec<_> = rows.into_iter().map(Row::into_record).collect();
            sink.take(&records);
        }
        Ok(())
    }

    /// Compares the row groups with the digest in the metadata.
    pub fn verify(&self) -> Result<()> {
        let tried = || format!("read {}", self.path.display());
        let mut file = File::open(&self.path).trying(tried)?.take(self.ledger.hashed_bytes);
        let (mut digest, mut buffer) = (Context::new(&SHA256), vec![0; 1 << 20]);
        loop {
            match file.read(&mut buffer).trying(tried)? {
                0 => break,
                bytes => digest.update(&buffer[..bytes]),
            }
        }
        let found: String = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        if found == self.ledger.sha256 {
            return Ok(());
        }
        Err(Error::foreign(&self.path, "the row groups were changed: the SHA-256 differs"))
    }
}

/// Compares the columns of a file with the schema.
fn check(metadata: &FileMetaData, ledger: &SegmentLedger) -> Result<(), String> {
    let expected = schema(ledger.names).map_err(|error| error.to_string())?;
    let expected = SchemaDescriptor::new(expected);
    let found = metadata.schema_descr();
    for (number, expected) in expected.columns().iter().enumerate() {
        let Some(found) = found.columns().get(number) else {
            return Err(format!("the column {} is missing", words(expected)));
        };
        let is_same = found.name() == expected.name()
            && found.physical_type() == expected.physical_type()
            && found.max_def_level() == expected.max_def_level()
            && found.max_rep_level() == expected.max_rep_level()
            && found.logical_type_ref() == expected.logical_type_ref();
        if !is_same {
            return Err(format!("column {} is {}, not {}", number + 1, words(found), words(expected)));
        }
    }
    if found.columns().len() > expected.columns().len() {
        return Err(format!("there are {} columns, not {}", found.columns().len(), expected.columns().len()));
    }
    Ok(())
}

/// Calls the parquet crate, which panics at some damaged metadata; metadata are not covered by a digest.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that it changed is used after a panic.
    let ended = catch_unwind(AssertUnwindSafe(read));
    ended.unwrap_or_else(|_| Err(Error::foreign(path, "the metadata are damaged")))
}

/// Describes a column for a message.
fn words(column: &ColumnDescriptor) -> String {
    let optional = if column.max_def_level() > 0 { "optional " } else { "" };
    let logical = column.logical_type_ref().map_or(String::new(), |logical| format!(" ({logical:?})"));
    format!("{} ({optional}{}{logical})", column.name(), column.physical_type())
}

/// Reads the values of the next rows, and the definition level of each row if the column is optional.
fn next<T: DataType>(reader: &mut ColumnReaderImpl<T>, rows: usize) -> FormatResult<(Vec<T::T>, Vec<i16>)> {
    let (mut values, mut levels) = (Vec::with_capacity(rows), Vec::new());
    let (read, ..) = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    if read != rows {
        return Err(ParquetError::General(format!("a column has {read} values where {rows} rows are left")));
    }
    Ok((values, levels))
}

/// Sets a field of each row that has a value.
fn put<T>(rows: &mut [Row], values: (Vec<T>, Vec<i16>), set: impl Fn(&mut Row, T)) {
    let (values, levels) = values;
    if levels.is_empty() {
        return rows.iter_mut().zip(values).for_each(|(row, value)| set(row, value));
    }
    let filled = rows.iter_mut().zip(levels).filter(|(_, level)| *level > 0);
    filled.zip(values).for_each(|((row, _), value)| set(row, value));
}

/// Sets a text field of a row.
fn put_text(row: &mut Row, text: &ByteArray, set: impl Fn(&mut Row, &str)) {
    match text.as_utf8() {
        Ok(text) => set(row, text),
        Err(_) => row.is_wrong = true,
    }
}

impl Column {
    fn read(&self, reader: &mut ColumnReader, rows: &mut [Row]) -> FormatResult<()> {
        let count = rows.len();
        match (reader, &self.values) {
            (ColumnReader::Int32ColumnReader(reader), Values::Int(_, set) | Values::MaybeInt(_, set)) => {
                put(rows, next(reader, count)?, set);
            }
            (
                ColumnReader::Int64ColumnReader(reader),
                Values::Time(_, set) | Values::Long(_, set) | Values::MaybeLong(_, set),
            ) => put(rows, next(reader, count)?, set),
            (ColumnReader::ByteArrayColumnReader(reader), Values::Address(_, set)) => {
                put(rows, next(reader, count)?, |row, text| {
                    put_text(row, &text, |row, text| match text.parse() {
                        Ok(address) => set(row, address),
                        Err(_) => row.is_wrong = true,
                    });
                });
            }
            (ColumnReader::ByteArrayColumnReader(reader), Values::MaybeText(_, set)) => {
                put(rows, next(reader, count)?, |row, text| put_text(row, &text, set));
            }
            // The probe is in the metadata.
            (_, Values::Probe) => {}
            _ => return Err(ParquetError::General("a column has the wrong type".into())),
        }
        Ok(())
    }
}

impl Row {
    pub(crate) fn new() -> Self {
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let key = RecordKey {
            source: unknown,
            destination: unknown,
            source_port: 0,
            destination_port: 0,
            protocol: 0,
            icmp_type_code: 0,
            vlan: 0,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 0,
            tunnel: 0,
        };
        let record = FlowRecord {
            key,
            forward: Direction::default(),
            reverse: Direction::default(),
            initiator: InitiatorRule::Sender,
            end_reason: EndReason::Idle,
            is_continued: false,
            extras: None,
        };
        Self { record, start_ns: 0, end_ns: 0, is_wrong: false }
    }

    fn into_record(self) -> FlowRecord {
        let mut record = self.record;
        let (first_ns, last_ns) = (self.start_ns, self.end_ns);
        for direction in [&mut record.forward, &mut record.reverse] {
            if direction.packets > 0 {
                (direction.first_ns, direction.last_ns) = (first_ns, last_ns);
            }
        }
        record.forward.tos = record.key.tos;
        record
    }
}
