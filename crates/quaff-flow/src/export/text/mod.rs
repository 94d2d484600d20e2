//! Formats records as text: JSON lines, CSV and Zeek's conn.log, with field names of IPFIX, nProbe, Zeek or ECS.

mod cell;
mod community;
mod ecs;
mod zeek;

use super::element::{self, DataType, Element, Value, capital};
use super::template::{Named, Template};
use super::value::{Datum, EndRoutes, FlowSide, Scene, View, read};
use crate::record::FlowRecord;
use cell::Cell;
use std::borrow::Cow;

/// The formats with one line per record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// One object per line.
    Json,
    /// A line of names, then one line per record.
    Csv { separator: u8 },
    /// conn.log with its header and Zeek's columns.
    Zeek,
}

/// The names of columns; Zeek and ECS also define the columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    #[default]
    Ipfix,
    Nprobe,
    Zeek,
    Ecs,
}

impl std::str::FromStr for Names {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "ipfix" => Ok(Self::Ipfix),
            "nprobe" => Ok(Self::Nprobe),
            "zeek" => Ok(Self::Zeek),
            "ecs" => Ok(Self::Ecs),
            _ => Err(format!("unknown names {word:?}: choose ipfix, nprobe, zeek or ecs")),
        }
    }
}

impl Names {
    /// The name on a command line and in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ipfix => "ipfix",
            Self::Nprobe => "nprobe",
            Self::Zeek => "zeek",
            Self::Ecs => "ecs",
        }
    }
}

/// The UTC date of a time, ns since 1970: year, month, day.
pub fn date_utc(ns: u64) -> (i64, u64, u64) {
    cell::civil((ns / 86_400_000_000_000) as i64)
}

/// Encodes records as text.
#[derive(Debug)]
pub struct TextEncoder {
    format: TextFormat,
    columns: Vec<Column>,
    /// A conversation is one line; otherwise each of its directions is.
    is_biflow: bool,
    icmp_in_port: bool,
}

/// A column: its name, also as a JSON key, for IPv4 and IPv6.
#[derive(Debug, Clone)]
struct Column {
    names: [String; 2],
    keys: [Vec<u8>; 2],
    value: ColumnSource,
}

#[derive(Debug, Clone, Copy)]
enum ColumnSource {
    Field(&'static Element, FlowSide),
    Zeek(&'static str),
    Ecs(&'static str),
}

impl Column {
    fn new(names: [String; 2], value: ColumnSource) -> Self {
        let keys = names.clone().map(|name| {
            let mut key = Vec::new();
            Cell::Text(name.into()).write_json(&mut key);
            key.push(b':');
            key
        });
        Self { names, keys, value }
    }
}

impl TextEncoder {
    /// An encoder of the fields of `template`, which Zeek and ECS ignore.
    pub fn new(format: TextFormat, names: Names, template: &Template) -> Self {
        let is_zeek = format == TextFormat::Zeek || names == Names::Zeek;
        let fixed = |name: &'static str, value| Column::new([name.to_owned(), name.to_owned()], value);
        let columns = if is_zeek {
            zeek::COLUMNS.iter().map(|(name, _)| fixed(name, ColumnSource::Zeek(name))).collect()
        } else if names == Names::Ecs {
            ecs::COLUMNS.iter().map(|name| fixed(name, ColumnSource::Ecs(name))).collect()
        } else {
            template.fields().iter().map(|field| field_column(template, field, names)).collect()
        };
        let icmp = |field: &Named| matches!(field.element.value, Value::IcmpTypeCode | Value::IcmpType);
        let icmp_in_port = !template.fields().iter().any(icmp);
        let is_biflow = is_zeek || names == Names::Ecs || template.is_biflow();
        Self { format, columns, is_biflow, icmp_in_port }
    }

    /// True if a conversation is one line.
    pub(crate) fn is_biflow(&self) -> bool {
        self.is_biflow
    }

    /// Appends the first lines of a file, opened at `now_ns`.
    pub fn begin(&self, now_ns: u64, out: &mut Vec<u8>) {
        match self.format {
            TextFormat::Json => {}
            TextFormat::Zeek => {
                let mut opened = Vec::new();
                Cell::Iso(now_ns, 0).write_plain(&mut opened);
                let opened = String::from_utf8_lossy(&opened).replace(['T', ':'], "-").replace('Z', "");
                out.extend(zeek::header(&opened).as_bytes());
            }
            TextFormat::Csv { separator } => {
                for (at, column) in self.columns.iter().enumerate() {
                    if at > 0 {
                        out.push(separator);
                    }
                    Cell::Text(Cow::Borrowed(&column.names[0])).write_csv(separator, out);
                }
                out.push(b'\n');
            }
        }
    }

    /// Appends the lines of a record; returns their number.
    pub fn push(&self, record: &FlowRecord, scene: &Scene, out: &mut Vec<u8>) -> u64 {
        if self.is_biflow {
            self.append(View::whole(record), scene, out);
            return 1;
        }
        let lines = View::directions(record).inspect(|view| self.append(*view, scene, out));
        lines.count() as u64
    }

    fn append(&self, view: View<'_>, scene: &Scene, out: &mut Vec<u8>) {
        let family = usize::from(view.source().is_ipv6());
        if self.format == TextFormat::Json {
            out.push(b'{');
        }
        let (start, routes) = (out.len(), EndRoutes::default());
        for (at, column) in self.columns.iter().enumerate() {
            let cell = self.cell(column, view, scene, &routes);
            match self.format {
                TextFormat::Json if cell == Cell::Null => {}
                TextFormat::Json => {
                    if out.len() > start {
                        out.push(b',');
                    }
                    out.extend(&column.keys[family]);
                    cell.write_json(out);
                }
                TextFormat::Csv { separator } => {
                    if at > 0 {
                        out.push(separator);
                    }
                    cell.write_csv(separator, out);
                }
                TextFormat::Zeek => {
                    if at > 0 {
                        out.push(b'\t');
                    }
                    cell.write_zeek(out);
                }
            }
        }
        if self.format == TextFormat::Json {
            out.push(b'}');
        }
        out.push(b'\n');
    }

    fn cell<'a>(&self, column: &Column, view: View<'a>, scene: &'a Scene, routes: &EndRoutes) -> Cell<'a> {
        match column.value {
            ColumnSource::Zeek(name) => zeek::cell(name, view.record, scene),
            ColumnSource::Ecs(name) => ecs::cell(name, view.record, scene),
            ColumnSource::Field(element, side) => {
                field_cell(element, read(element.value, side, view, scene, routes, self.icmp_in_port))
            }
        }
    }
}

/// The column of a template's field.
fn field_column(template: &Template, field: &Named, names: Names) -> Column {
    let is_reverse = field.is_reverse || field.element.of_reverse;
    let side = template.side_of_text(field);
    let name = |element: &Element| match (names, field.is_reverse) {
        (Names::Nprobe, true) if element.twin.is_some() => {
            element.twin.map_or_else(String::new, |twin| twin.label.to_owned())
        }
        (Names::Nprobe, false) if !element.label.is_empty() => element.label.to_owned(),
        (_, true) => format!("reverse{}", capital(element.name)),
        (_, false) => element.name.to_owned(),
    };
    let names = [name(field.element), name(element::for_ipv6(field.element))];
    let side = if is_reverse { FlowSide::Reverse } else { side };
    Column::new(names, ColumnSource::Field(field.element, side))
}

/// Formats a value by the type of its element (RFC 7373): times as dates, counts as numbers.
fn field_cell<'a>(element: &Element, datum: Datum<'a>) -> Cell<'a> {
    match datum {
        Datum::Absent => Cell::Null,
        Datum::Number(ns) if element.value == Value::Duration => {
            let divisor = if element.unit == element::Unit::Milli { 1_000_000 } else { 1_000 };
            Cell::Number(ns / divisor)
        }
        Datum::Number(number) if element.kind == DataType::Boolean => Cell::Bool(number != 0),
        Datum::Number(number) => Cell::Number(number),
        Datum::Time(ns) => Cell::Iso(
            ns,
            match element.kind {
                DataType::Seconds => 0,
                DataType::Micros => 6,
                DataType::Nanos => 9,
                _ => 3,
            },
        ),
        Datum::Ip(ip) => Cell::Ip(ip),
        Datum::Mac(mac) => Cell::Mac(mac),
        Datum::Bytes(bytes) => Cell::Hex(bytes),
        Datum::Text(text) => Cell::Text(Cow::Borrowed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::samples::{biflow, record};

    fn text(format: TextFormat, names: Names, template: &str, record: &FlowRecord) -> String {
        let encoder = TextEncoder::new(format, names, &Template::parse(template).unwrap());
        let mut out = Vec::new();
        encoder.begin(0, &mut out);
        encoder.push(record, &Scene::default(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_has_the_names_that_were_asked_for() {
        let template = "%IPV4_SRC_ADDR %IN_PKTS %OUT_PKTS %FLOW_START_MILLISECONDS";
        let line = text(TextFormat::Json, Names::Ipfix, template, &biflow(2));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["sourceIPv4Address"], "10.0.0.2");
        assert_eq!(object["packetDeltaCount"], 3);
        assert_eq!(object["reversePacketDeltaCount"], 5);
        assert_eq!(object["flowStartMilliseconds"], "2026-11-23T08:14:05.002Z");
        let line = text(TextFormat::Json, Names::Nprobe, template, &biflow(2));
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&object["IPV4_SRC_ADDR"], &object["OUT_PKTS"]), (&"10.0.0.2".into(), &5.into()));
    }

    #[test]
    fn without_a_reverse_field_each_direction_is_a_line() {
        let lines = text(TextFormat::Json, Names::Ipfix, "%IPV4_SRC_ADDR %IN_PKTS", &biflow(2));
        let sum: u64 = lines
            .lines()
            .map(|line| line.rsplit(':').next().unwrap().trim_end_matches('}').parse::<u64>().unwrap())
            .sum();
        assert_eq!((lines.lines().count(), sum), (2, 8));
    }

    #[test]
    fn csv_has_a_line_of_names() {
        let csv = text(TextFormat::Csv { separator: b'|' }, Names::Nprobe, "%PROTOCOL %IN_PKTS", &record(1));
        assert_eq!(csv, "PROTOCOL|IN_PKTS\n17|3\n");
    }

    #[test]
    fn the_default_text_of_each_kind_is_whole() {
        for names in [Names::Ipfix, Names::Nprobe, Names::Zeek, Names::Ecs] {
            let encoder = TextEncoder::new(TextFormat::Json, names, &Template::default_text());
            let mut out = Vec::new();
            encoder.push(&biflow(3), &Scene::default(), &mut out);
            let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert!(object.as_object().unwrap().len() > 12, "{names:?}: {object}");
        }
    }

    /// ECS: category and type are arrays, a MAC address has hyphens and capitals, the version of the schema is a field.
    #[test]
    fn ecs_has_the_forms_of_its_schema() {
        let mut record = biflow(3);
        let mut extras = crate::record::Extras::default();
        extras.forward.macs = [[0, 0, 0x5e, 0, 0x53, 0x23], [2, 0, 0, 0, 0xab, 1]];
        record.extras = Some(Box::new(extras));
        let line = text(TextFormat::Json, Names::Ecs, "%IN_PKTS", &record);
        let object: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(object["event.category"], serde_json::json!(["network"]));
        assert_eq!(object["event.type"], serde_json::json!(["connection"]));
        assert_eq!(object["source.mac"], "00-00-5E-00-53-23");
        assert_eq!(object["destination.mac"], "02-00-00-00-AB-01");
        assert!(object["ecs.version"].is_string());
    }

    #[test]
    fn a_zeek_log_has_as_many_fields_as_columns() {
        let log = text(TextFormat::Zeek, Names::Ipfix, "%PROTOCOL", &biflow(1));
        let fields = log.lines().last().unwrap().split('\t').count();
        assert_eq!(fields, zeek::COLUMNS.len());
        assert!(log.contains("#open\t1970-01-01-00-00-00\n"), "{log}");
    }
}
