//! The records of scripts, namely rows of lists, histogram counts and alerts, as lines of JSON and CSV.
//!
//! Rows are text in memory until the caller takes them. Memory is bounded: a row that does not fit is dropped and
//! counted.

use mlua::{Error, Result, Value};
use serde_json::{Map, Number, Value as Json};
use std::collections::HashMap;
use std::fmt::Write as _;

/// Maximum bytes of rows that are not yet taken.
const PENDING_BYTES: usize = 64 << 20;
/// Maximum bytes of histogram keys of all scripts.
const KEYS_BYTES: usize = 64 << 20;
/// Maximum number of lists and histograms of a script.
const RECORDERS_MAX: usize = 64;
/// Maximum number of columns of a list, and of fields of an alert.
pub(crate) const COLUMNS_MAX: usize = 64;
/// Limits of a table in a column: entries, and nesting.
const ENTRIES_MAX: usize = 1024;
const DEPTH_MAX: usize = 4;
/// Maximum size of a row or a key, bytes in memory. Tables and texts may occur in it many times at no cost in the
/// script's own memory.
const ROW_BYTES: usize = 1 << 20;
/// Bytes of a value without its text.
const VALUE_BYTES: usize = size_of::<Json>();

/// A list, a histogram, or the alerts of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorder {
    pub script: String,
    pub name: String,
    pub kind: RecorderKind,
    pub columns: Vec<String>,
}

/// The kind of a recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecorderKind {
    List,
    Histogram,
    /// Also the output of `print`; rows have individual fields.
    Alerts,
}

/// The formats in which rows are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Formats {
    pub json: bool,
    pub csv: bool,
    /// True if lines of JSON start with the names of script and recorder.
    pub has_names: bool,
}

/// Rows that are not yet taken: of one recorder, or of all if lines have names.
#[derive(Debug, Default)]
pub struct Rows {
    pub json: Vec<u8>,
    pub csv: Vec<u8>,
}

/// All recorders of a run.
pub(crate) struct Records {
    formats: Formats,
    recorders: Vec<Recorder>,
    pending: Vec<Rows>,
    pending_bytes: usize,
    histograms: HashMap<usize, HashMap<Vec<Scalar>, u64>>,
    keys_bytes: usize,
}

/// A component of a histogram key; ordered, equal if the text is equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scalar {
    Nil,
    Boolean(bool),
    Integer(i64),
    Text(String),
}

/// Remaining bytes of a row.
struct Room(usize);

impl Room {
    fn take(&mut self, text_bytes: usize) -> Result<()> {
        match self.0.checked_sub(VALUE_BYTES + text_bytes) {
            Some(left) => self.0 = left,
            None => return refuse(format!("a row has at most {} KiB", ROW_BYTES >> 10)),
        }
        Ok(())
    }
}

/// The fate of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Fate {
    Kept,
    /// Dropped for lack of memory.
    Dropped,
}

impl Records {
    pub(crate) fn new(formats: Formats) -> Self {
        Self {
            formats,
            recorders: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            histograms: HashMap::new(),
            keys_bytes: 0,
        }
    }

    /// The index of a recorder; the same for the same name.
    pub(crate) fn recorder(
        &mut self,
        script: &str,
        name: &str,
        kind: RecorderKind,
        columns: Vec<String>,
    ) -> Result<usize> {
        let of_script = |recorder: &&Recorder| recorder.script == script;
        let known = self.recorders.iter().position(|of| of.script == script && of.name == name);
        if let Some(number) = known {
            let Recorder { kind: known, columns: names, .. } = &self.recorders[number];
            if (*known, names) == (kind, &columns) {
                return Ok(number);
            }
            return refuse(format!("{name:?} is already another list or histogram"));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_name) {
            return refuse(format!("{name:?} is not a name: letters, digits, - and _, at most 64"));
        }
        if self.recorders.iter().filter(of_script).count() >= RECORDERS_MAX {
            return refuse(format!("a script has at most {RECORDERS_MAX} lists and histograms"));
        }
        if kind != RecorderKind::Alerts && !(1..=COLUMNS_MAX).contains(&columns.len()) {
            return refuse(format!("{name:?} needs columns: 1 to {COLUMNS_MAX}"));
        }
        self.recorders.push(Recorder { script: script.into(), name: name.into(), kind, columns });
        self.pending.push(Rows::default());
        Ok(self.recorders.len() - 1)
    }

    pub(crate) fn formats(&self) -> Formats {
        self.formats
    }

    /// Bytes that are not yet taken.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending_bytes
    }

    /// Passes all waiting rows on, and removes them.
    pub(crate) fn take(&mut self, mut take: impl FnMut(&Recorder, &mut Rows)) {
        for (recorder, rows) in self.recorders.iter().zip(&mut self.pending) {
            if !rows.json.is_empty() || !rows.csv.is_empty() {
                take(recorder, rows);
                rows.json.clear();
                rows.csv.clear();
            }
        }
        self.pending_bytes = 0;
    }

    /// Adds a row to a list: a table with values in the order of the columns, or by name.
    pub(crate) fn add(&mut self, number: usize, row: &mlua::Table) -> Result<Fate> {
        let columns = self.recorders[number].columns.clone();
        let is_ordered = !matches!(row.raw_get(1)?, Value::Nil) || row.raw_len() > 0;
        let (mut fields, mut room) = (Vec::with_capacity(columns.len()), Room(ROW_BYTES));
        for (at, column) in columns.iter().enumerate() {
            let value: Value = if is_ordered { row.raw_get(at + 1)? } else { row.raw_get(column.as_str())? };
            fields.push(json(&value, 0, &mut room)?);
        }
        if !is_ordered {
            for pair in row.pairs::<Value, Value>() {
                let (key, _) = pair?;
                let key = key.as_string().map(|key| key.to_string_lossy()).unwrap_or_default();
                if !columns.contains(&key) {
                    return refuse(format!("{:?} has no column {key:?}", self.recorders[number].name));
                }
            }
        }
        Ok(self.put(number, columns.into_iter().zip(fields).collect()))
    }

    /// Adds an alert, or a line of `print`.
    pub(crate) fn alert(
        &mut self,
        number: usize,
        time_ns: u64,
        text: &str,
        more: Option<&mlua::Table>,
    ) -> Result<Fate> {
        let (mut fields, mut room) = (Vec::<(String, Json)>::new(), Room(ROW_BYTES));
        room.take(text.len())?;
        if let Some(more) = more {
            for pair in more.pairs::<Value, Value>() {
                let (key, value) = pair?;
                let Some(key) = key.as_string() else {
                    return refuse("fields of an alert need names".into());
                };
                if fields.len() >= COLUMNS_MAX {
                    return refuse(format!("an alert has at most {COLUMNS_MAX} fields"));
                }
                room.take(key.as_bytes().len())?;
                fields.push((key.to_string_lossy(), json(&value, 0, &mut room)?));
            }
        }
        // Sorted because the order of a Lua table differs from run to run.
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        let own = [("time".to_owned(), time_ns.into()), ("text".to_owned(), text.into())];
        Ok(self.put(number, own.into_iter().chain(fields).collect()))
    }

    /// Increments the count of a histogram key.
    pub(crate) fn count(&mut self, number: usize, key: &Value, by: u64) -> Result<Fate> {
        let (columns, mut room) = (self.recorders[number].columns.len(), Room(ROW_BYTES));
        let key = match key {
            Value::Table(table) => {
                let values: Result<Vec<Value>> = (1..=columns).map(|at| table.raw_get(at)).collect();
                values?.iter().map(|value| scalar(value, &mut room)).collect::<Result<Vec<_>>>()?
            }
            value => vec![scalar(value, &mut room)?],
        };
        let counts = self.histograms.entry(number).or_default();
        if let Some(count) = counts.get_mut(&key) {
            *count = count.saturating_add(by);
            return Ok(Fate::Kept);
        }
        let text = |key: &Scalar| if let Scalar::Text(text) = key { text.len() } else { 0 };
        let bytes = 64 + key.iter().map(|key| size_of::<Scalar>() + text(key)).sum::<usize>();
        if key.len() > columns || self.keys_bytes + bytes > KEYS_BYTES {
            return Ok(Fate::Dropped);
        }
        self.keys_bytes += bytes;
        counts.insert(key, by);
        Ok(Fate::Kept)
    }

    /// Takes the counts of all histograms.
    pub(crate) fn take_counts(&mut self) -> Vec<(Recorder, HashMap<Vec<Scalar>, u64>)> {
        let mut taken: Vec<_> = self.histograms.drain().collect();
        taken.sort_unstable_by_key(|(number, _)| *number);
        taken.into_iter().map(|(number, counts)| (self.recorders[number].clone(), counts)).collect()
    }

    /// Appends the texts of a row.
    fn put(&mut self, number: usize, fields: Vec<(String, Json)>) -> Fate {
        if self.pending_bytes > PENDING_BYTES {
            return Fate::Dropped;
        }
        let rows = &mut self.pending[number];
        let before = rows.bytes();
        rows.put(&self.recorders[number], self.formats, &fields);
        self.pending_bytes += rows.bytes() - before;
        Fate::Kept
    }
}

impl Rows {
    /// Length of the texts, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len() + self.csv.len()
    }

    /// Appends the texts of a recorder's row.
    pub(crate) fn put(&mut self, recorder: &Recorder, formats: Formats, fields: &[(String, Json)]) {
        if formats.csv && recorder.kind == RecorderKind::Alerts {
            // Fields differ between rows: they are one column.
            let more: Map<String, Json> = fields[2..].iter().cloned().collect();
            let more =
                if more.is_empty() { Json::Null } else { Json::String(Json::Object(more).to_string()) };
            csv([&fields[0].1, &fields[1].1, &more], &mut self.csv);
        } else if formats.csv {
            csv(fields.iter().map(|(_, value)| value), &mut self.csv);
        }
        if formats.json {
            let kind = match recorder.kind {
                RecorderKind::List => "list",
                RecorderKind::Histogram => "histogram",
                RecorderKind::Alerts => "alerts",
            };
            let names = [("script", recorder.script.as_str()), (kind, recorder.name.as_str())];
            let names = names.iter().filter(|_| formats.has_names);
            let mut is_first = true;
            let own = names.map(|(name, value)| (*name, Json::from(*value)));
            self.json.push(b'{');
            for (name, value) in own.chain(fields.iter().map(|(name, value)| (name.as_str(), value.clone())))
            {
                let text = format!("{}{}:{value}", if is_first { "" } else { "," }, Json::from(name));
                self.json.extend_from_slice(text.as_bytes());
                is_first = false;
            }
            self.json.extend_from_slice(b"}\n");
        }
    }
}

impl Recorder {
    /// The header line of its CSV.
    pub fn csv_head(&self) -> Vec<u8> {
        let mut names: Vec<Json> = self.columns.iter().map(|name| Json::from(name.as_str())).collect();
        match self.kind {
            RecorderKind::List => {}
            RecorderKind::Histogram => names.push("count".into()),
            RecorderKind::Alerts => names = ["time", "text", "fields"].map(Json::from).to_vec(),
        }
        let mut line = Vec::new();
        csv(&names, &mut line);
        line
    }
}

impl From<Scalar> for Json {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Nil => Self::Null,
            Scalar::Boolean(value) => value.into(),
            Scalar::Integer(value) => value.into(),
            Scalar::Text(value) => value.into(),
        }
    }
}

fn refuse<T>(words: String) -> Result<T> {
    Err(Error::RuntimeError(words))
}

/// Length of a value's text, bytes.
fn text_bytes(value: &Value) -> usize {
    if let Value::String(text) = value { text.as_bytes().len() } else { 0 }
}

fn scalar(value: &Value, room: &mut Room) -> Result<Scalar> {
    room.take(text_bytes(value))?;
    Ok(match value {
        Value::Nil => Scalar::Nil,
        Value::Boolean(value) => Scalar::Boolean(*value),
        Value::Integer(value) => Scalar::Integer(*value),
        Value::Number(value) => Scalar::Text(value.to_string()),
        Value::String(value) => Scalar::Text(value.to_string_lossy()),
        other => return refuse(format!("a {} cannot be a histogram key", other.type_name())),
    })
}

/// A value as JSON: numbers that JSON cannot represent become null, invalid UTF-8 becomes U+FFFD.
fn json(value: &Value, depth: usize, room: &mut Room) -> Result<Json> {
    room.take(text_bytes(value))?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Integer(value) => (*value).into(),
        Value::Number(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::String(value) => value.to_string_lossy().into(),
        Value::Table(table) if depth < DEPTH_MAX => {
            let values = table.sequence_values::<Value>().take(ENTRIES_MAX);
            let values: Result<Vec<Json>> = values.map(|value| json(&value?, depth + 1, room)).collect();
            Json::Array(values?)
        }
        other => return refuse(format!("a {} cannot be a value of a row", other.type_name())),
    })
}

/// Appends a line of CSV (RFC 4180).
fn csv<'a>(values: impl IntoIterator<Item = &'a Json>, out: &mut Vec<u8>) {
    let mut text = String::new();
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let shown = match value {
            Json::Null => String::new(),
            Json::String(value) => value.clone(),
            other => other.to_string(),
        };
        if shown.contains([',', '"', '\n', '\r']) {
            write!(text, "\"{}\"", shown.replace('"', "\"\"")).expect("a String takes all");
        } else {
            text.push_str(&shown);
        }
    }
    text.push_str("\r\n");
    out.extend_from_slice(text.as_bytes());
}
