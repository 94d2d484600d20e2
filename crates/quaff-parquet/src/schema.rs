//! Schema v1 of `--parquet`: names, types and encodings of the columns of a segment, and how each value comes from a
//! record. One table serves writing and reading. Never touches a file.

use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, TimestampType, Type, ZstdLevel,
};
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type as SchemaType};
use quaff_flow::export::{Names, Scene};
use quaff_flow::plan::ExtrasPlan;
use quaff_flow::record::{Application, EndReason, Extras, FlowRecord, InitiatorRule};
use std::net::IpAddr;
use std::sync::Arc;

/// The schema version in the metadata of a segment.
pub(crate) const SCHEMA_VERSION: u32 = 1;
/// Rows of a row group. All its columns stay in memory until it is written: 25 MB, at most 75 MB, plus texts.
pub(crate) const GROUP_ROWS: usize = 1 << 18;
/// Rows of a page, the smallest unit that a reader can skip.
pub(crate) const PAGE_ROWS: usize = 1 << 16;
/// Maximum size of the dictionary of an optional text column; required columns always have a dictionary.
const DICTIONARY_BYTES: usize = 8 << 20;
/// False positive rate of a bloom filter.
pub(crate) const BLOOM_FALSE: f64 = 0.01;
/// Compression level of zstd. Level 3 is slower and not smaller for these columns.
pub(crate) const ZSTD_LEVEL: i32 = 1;
const TCP: u8 = 6;
/// The column of the application.
pub(crate) const APPLICATION: &str = "applicationName";

/// The values that all rows of a segment share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) scene: Scene,
    /// The extras that the meter computes; columns of other extras stay empty.
    pub(crate) extras: ExtrasPlan,
    pub(crate) observation_point: u32,
    /// Start of the run, µs since 1970, and number of the segment in the run.
    pub(crate) boot: i64,
    pub(crate) sequence: i64,
}

/// A row that becomes a record again.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) record: FlowRecord,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// A value is out of range for its field.
    pub(crate) is_wrong: bool,
}

/// Appends one column's values of records to a list. A separate loop per column, so that the compiler inlines the
/// access.
type Fill<T> = fn(&[FlowRecord], &Facts, &mut Vec<T>);

/// The functions that read the values of a column from records, and set one in a row.
pub(crate) enum Values {
    /// INT64, µs since 1970 UTC.
    Time(Fill<i64>, fn(&mut Row, i64)),
    Address(Fill<IpAddr>, fn(&mut Row, IpAddr)),
    /// The probe's name, the same for the whole segment.
    Probe,
    MaybeText(fn(&FlowRecord) -> Option<&str>, fn(&mut Row, &str)),
    Int(Fill<i32>, fn(&mut Row, i32)),
    MaybeInt(Fill<Option<i32>>, fn(&mut Row, i32)),
    Long(Fill<i64>, fn(&mut Row, i64)),
    MaybeLong(Fill<Option<i64>>, fn(&mut Row, i64)),
}

fn fill<T>(
    records: &[FlowRecord],
    facts: &Facts,
    values: &mut Vec<T>,
    read: impl Fn(&FlowRecord, &Facts) -> T,
) {
    values.extend(records.iter().map(|record| read(record, facts)));
}

/// Values of one kind, from a getter for records and a setter for rows.
macro_rules! each {
    ($kind:ident, $read:expr, $set:expr) => {
        $kind(|records, facts, values| fill(records, facts, values, $read), $set)
    };
}

/// The encoding of a column before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Delta,
    Dictionary,
    Plain,
}

/// A column, with its names in IPFIX, nProbe, Zeek and ECS; an empty name means that the scheme has none.
pub(crate) struct Column {
    names: [&'static str; 4],
    coding: Coding,
    pub(crate) values: Values,
}

impl Column {
    const fn new(names: [&'static str; 4], coding: Coding, values: Values) -> Self {
        Self { names, coding, values }
    }

    pub(crate) fn name(&self, names: Names) -> &'static str {
        let name = match names {
            Names::Ipfix => self.names[0],
            Names::Nprobe => self.names[1],
            Names::Zeek => self.names[2],
            Names::Ecs => self.names[3],
        };
        if name.is_empty() { self.names[0] } else { name }
    }

    fn physical(&self) -> Type {
        match self.values {
            Values::Time(..) | Values::Long(..) | Values::MaybeLong(..) => Type::INT64,
            Values::Int(..) | Values::MaybeInt(..) => Type::INT32,
            Values::Address(..) | Values::Probe | Values::MaybeText(..) => Type::BYTE_ARRAY,
        }
    }

    /// True if every row has a value and distinct values are stored once; [`crate::chunk`] writes such columns.
    pub(crate) fn is_dictionary(&self) -> bool {
        self.coding == Coding::Dictionary && !self.is_optional()
    }

    pub(crate) fn is_optional(&self) -> bool {
        matches!(self.values, Values::MaybeText(..) | Values::MaybeInt(..) | Values::MaybeLong(..))
    }

    fn logical(&self) -> Option<LogicalType> {
        match self.values {
            Values::Time(..) => {
                let time = TimestampType { is_adjusted_to_u_t_c: true, unit: TimeUnit::MICROS };
                Some(LogicalType::Timestamp(time))
            }
            Values::Address(..) | Values::Probe | Values::MaybeText(..) => Some(LogicalType::String),
            _ => None,
        }
    }

    fn schema(&self, names: Names) -> Result<SchemaType> {
        let repetition = if self.is_optional() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        SchemaType::primitive_type_builder(self.name(names), self.physical())
            .with_repetition(repetition)
            .with_logical_type(self.logical())
            .build()
    }
}

/// The schema of a file.
pub(crate) fn schema(names: Names) -> Result<Arc<SchemaType>> {
    let fields = COLUMNS.iter().map(|column| column.schema(names).map(Arc::new)).collect::<Result<_>>()?;
    SchemaType::group_type_builder("flow").with_fields(fields).build().map(Arc::new)
}

/// The compression of all pages.
pub(crate) fn compression() -> Result<Compression> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
}

/// The writer properties: encodings of the columns that [`crate::chunk`] does not write.
pub(crate) fn properties(names: Names) -> Result<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("quaff version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(compression()?)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for column in &COLUMNS {
        // The dots in ECS names do not separate path elements here.
        let path = || ColumnPath::new(vec![column.name(names).to_owned()]);
        let has_dictionary = column.coding == Coding::Dictionary;
        properties = properties.set_column_dictionary_enabled(path(), has_dictionary);
        if column.coding == Coding::Delta {
            properties = properties.set_column_encoding(path(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// A count for a signed column.
fn signed(count: u64) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// Converts a column's number to the type of its field.
fn narrow<T: Default>(row: &mut Row, number: impl TryInto<T>) -> T {
    number.try_into().unwrap_or_else(|_| {
        row.is_wrong = true;
        T::default()
    })
}

/// Converts a column's time to ns.
fn time_ns(row: &mut Row, us: i64) -> u64 {
    let us: u64 = narrow(row, us);
    us.checked_mul(1000).unwrap_or_else(|| {
        row.is_wrong = true;
        0
    })
}

/// The extras of a TCP flow, if the meter follows segments.
fn tcp<'a>(record: &'a FlowRecord, facts: &Facts) -> Option<&'a Extras> {
    record.extras.as_deref().filter(|_| facts.extras.tcp && record.key.protocol == TCP)
}

fn application(record: &FlowRecord) -> Option<&Application> {
    record.extras.as_deref()?.application.as_ref()
}

fn extras(row: &mut Row) -> &mut Extras {
    row.record.extras.get_or_insert_default()
}

/// Round-trip time in µs, from the SYN to the ACK of the SYN-ACK.
fn round_trip_us(record: &FlowRecord, facts: &Facts) -> Option<i32> {
    let extras = tcp(record, facts)?;
    Some(int((extras.server_rtt_ns? + extras.client_rtt_ns?) / 1000))
}

fn class_of_service(record: &FlowRecord) -> u8 {
    if record.forward.packets > 0 { record.forward.tos } else { record.key.tos }
}

fn autonomous_system(address: IpAddr, facts: &Facts) -> Option<i64> {
    let number = facts.scene.routes.as_ref()?.route(address).autonomous_system;
    (number > 0).then_some(number.into())
}

fn prefix_bits(address: IpAddr, facts: &Facts) -> Option<i32> {
    let bits = facts.scene.routes.as_ref()?.route(address).prefix_bits;
    (bits > 0).then_some(bits.into())
}

fn set_end_reason(row: &mut Row, number: i32) {
    match u64::try_from(number).ok().and_then(EndReason::numbered) {
        Some(reason) => row.record.end_reason = reason,
        None => row.is_wrong = true,
    }
}

fn set_initiator(row: &mut Row, number: i32) {
    match u64::try_from(number).ok().and_then(InitiatorRule::numbered) {
        Some(rule) => row.record.initiator = rule,
        None => row.is_wrong = true,
    }
}

fn set_application(row: &mut Row, name: &str) {
    let known = Application::of_name(name, row.record.key.protocol);
    let Some(Application { protocol, name, .. }) = known else { return row.is_wrong = true };
    let application = extras(row).application.get_or_insert_default();
    (application.protocol, application.name) = (protocol, name);
}

/// The value follows from other columns, or belongs to the segment.
fn ignore<T>(_: &mut Row, _: T) {}

use Coding::{Delta, Dictionary, Plain};
use Values::{Address, Int, Long, MaybeInt, MaybeLong, MaybeText, Probe, Time};

/// Converts a record's time to µs for a column.
fn us(ns: u64) -> i64 {
    (ns / 1000) as i64
}

/// The columns of schema v1, in this order. Later versions may append columns.
#[rustfmt::skip]
pub(crate) static COLUMNS: [Column; 41] = [
    Column::new(["flowStart", "FLOW_START_MICROSECONDS", "ts", "event.start"], Delta,
        each!(Time, |record, _| us(record.first_ns()), |row, us| row.start_ns = time_ns(row, us))),
    Column::new(["flowEnd", "FLOW_END_MICROSECONDS", "", "event.end"], Delta,
        each!(Time, |record, _| us(record.last_ns()), |row, us| row.end_ns = time_ns(row, us))),
    Column::new(["sourceAddress", "IPV4_SRC_ADDR", "id.orig_h", "source.ip"], Dictionary,
        each!(Address, |record, _| record.key.source, |row, address| row.record.key.source = address)),
    Column::new(["destinationAddress", "IPV4_DST_ADDR", "id.resp_h", "destination.ip"], Dictionary,
        each!(Address, |record, _| record.key.destination, |row, address| row.record.key.destination = address)),
    Column::new(["sourceTransportPort", "L4_SRC_PORT", "id.orig_p", "source.port"], Plain,
        each!(Int, |record, _| record.key.source_port.into(), |row, port| row.record.key.source_port = narrow(row, port))),
    Column::new(["destinationTransportPort", "L4_DST_PORT", "id.resp_p", "destination.port"], Dictionary,
        each!(Int, |record, _| record.key.destination_port.into(), |row, port| row.record.key.destination_port = narrow(row, port))),
    Column::new(["protocolIdentifier", "PROTOCOL", "ip_proto", ""], Dictionary,
        each!(Int, |record, _| record.key.protocol.into(), |row, number| row.record.key.protocol = narrow(row, number))),
    Column::new(["flowEndReason", "FLOW_END_REASON", "", ""], Dictionary,
        each!(Int, |record, _| record.end_reason as i32, set_end_reason)),
    Column::new(["ipVersion", "IP_PROTOCOL_VERSION", "", ""], Dictionary,
        each!(Int, |record, _| record.key.ip_version().into(), ignore)),
    Column::new(["octetDeltaCount", "IN_BYTES", "orig_ip_bytes", "source.bytes"], Plain,
        each!(Long, |record, _| signed(record.forward.bytes), |row, bytes| row.record.forward.bytes = narrow(row, bytes))),
    Column::new(["packetDeltaCount", "IN_PKTS", "orig_pkts", "source.packets"], Plain,
        each!(Long, |record, _| signed(record.forward.packets), |row, packets| row.record.forward.packets = narrow(row, packets))),
    Column::new(["reverseOctetDeltaCount", "OUT_BYTES", "resp_ip_bytes", "destination.bytes"], Plain,
        each!(Long, |record, _| signed(record.reverse.bytes), |row, bytes| row.record.reverse.bytes = narrow(row, bytes))),
    Column::new(["reversePacketDeltaCount", "OUT_PKTS", "resp_pkts", "destination.packets"], Plain,
        each!(Long, |record, _| signed(record.reverse.packets), |row, packets| row.record.reverse.packets = narrow(row, packets))),
    Column::new(["tcpControlBits", "CLIENT_TCP_FLAGS", "", ""], Dictionary,
        each!(Int, |record, _| record.forward.tcp_flags.into(), |row, flags| row.record.forward.tcp_flags = narrow(row, flags))),
    Column::new(["reverseTcpControlBits", "SERVER_TCP_FLAGS", "", ""], Dictionary,
        each!(Int, |record, _| record.reverse.tcp_flags.into(), |row, flags| row.record.reverse.tcp_flags = narrow(row, flags))),
    Column::new(["ipClassOfService", "SRC_TOS", "", ""], Dictionary,
        each!(Int, |record, _| class_of_service(record).into(), |row, tos| row.record.key.tos = narrow(row, tos))),
    Column::new(["icmpTypeCode", "ICMP_TYPE", "", ""], Dictionary,
        each!(Int, |record, _| record.key.icmp_type_code.into(), |row, code| row.record.key.icmp_type_code = narrow(row, code))),
    Column::new(["vlanId", "SRC_VLAN", "vlan", ""], Dictionary,
        each!(Int, |record, _| record.key.vlan.into(), |row, vlan| row.record.key.vlan = narrow(row, vlan))),
    Column::new(["ingressInterface", "INPUT_SNMP", "", ""], Dictionary,
        each!(Int, |record, facts| int(facts.scene.input_index(record.key.interface)),
            |row, index| row.record.key.interface = narrow(row, index))),
    Column::new(["observationPointId", "", "", ""], Dictionary,
        each!(Int, |_, facts| int(facts.observation_point), ignore)),
    Column::new(["biflowDirection", "BIFLOW_DIRECTION", "", ""], Dictionary,
        each!(Int, |record, _| i32::from(record.initiator != InitiatorRule::Sender), ignore)),
    Column::new(["directionRule", "", "", ""], Dictionary,
        each!(Int, |record, _| record.initiator as i32, set_initiator)),
    Column::new(["lostOctets", "", "", ""], Plain,
        each!(MaybeLong, |record, facts| tcp(record, facts).map(|extras| signed(extras.forward.lost_bytes)),
            |row, bytes| extras(row).forward.lost_bytes = narrow(row, bytes))),
    Column::new(["reverseLostOctets", "", "", ""], Plain,
        each!(MaybeLong, |record, facts| tcp(record, facts).map(|extras| signed(extras.reverse.lost_bytes)),
            |row, bytes| extras(row).reverse.lost_bytes = narrow(row, bytes))),
    Column::new(["rttMicroseconds", "", "", ""], Plain,
        each!(MaybeInt, round_trip_us, |row, us| {
            let rtt_ns = time_ns(row, us.into());
            (extras(row).server_rtt_ns, extras(row).client_rtt_ns) = (Some(rtt_ns), Some(0));
        })),
    Column::new(["retransmittedPackets", "RETRANSMITTED_IN_PKTS", "", ""], Plain,
        each!(MaybeInt, |record, facts| tcp(record, facts).map(|extras| int(extras.forward.retransmitted_packets)),
            |row, packets| extras(row).forward.retransmitted_packets = narrow(row, packets))),
    Column::new(["reverseRetransmittedPackets", "RETRANSMITTED_OUT_PKTS", "", ""], Plain,
        each!(MaybeInt, |record, facts| tcp(record, facts).map(|extras| int(extras.reverse.retransmitted_packets)),
            |row, packets| extras(row).reverse.retransmitted_packets = narrow(row, packets))),
    Column::new([APPLICATION, "APPLICATION_NAME", "service", "network.protocol"], Dictionary,
        MaybeText(|record| application(record).map(|application| application.name), set_application)),
    Column::new(["serverName", "", "", ""], Dictionary,
        MaybeText(|record| application(record).and_then(|application| application.server_name.as_deref()),
            |row, name| extras(row).application.get_or_insert_default().server_name = Some(name.to_owned()))),
    // An unsigned 32-bit number does not fit into INT32.
    Column::new(["sourceAS", "SRC_AS", "", "source.as.number"], Dictionary,
        each!(MaybeLong, |record, facts| autonomous_system(record.key.source, facts), ignore)),
    Column::new(["destinationAS", "DST_AS", "", "destination.as.number"], Dictionary,
        each!(MaybeLong, |record, facts| autonomous_system(record.key.destination, facts), ignore)),
    Column::new(["sourcePrefixLength", "IPV4_SRC_MASK", "", ""], Dictionary,
        each!(MaybeInt, |record, facts| prefix_bits(record.key.source, facts), ignore)),
    Column::new(["destinationPrefixLength", "IPV4_DST_MASK", "", ""], Dictionary,
        each!(MaybeInt, |record, facts| prefix_bits(record.key.destination, facts), ignore)),
    Column::new(["mplsTopLabel", "", "", ""], Dictionary,
        each!(Int, |record, _| int(record.key.mpls_label), |row, label| row.record.key.mpls_label = narrow(row, label))),
    Column::new(["tunnelId", "UPSTREAM_TUNNEL_ID", "", ""], Dictionary,
        each!(Long, |record, _| record.key.tunnel.into(), |row, number| row.record.key.tunnel = narrow(row, number))),
    Column::new(["isContinued", "", "", ""], Dictionary,
        each!(Int, |record, _| record.is_continued.into(), |row, is| row.record.is_continued = is != 0)),
    Column::new(["probe", "", "", ""], Dictionary, Probe),
    Column::new(["segmentBoot", "", "", ""], Dictionary, each!(Long, |_, facts| facts.boot, ignore)),
    Column::new(["segmentSequence", "", "", ""], Dictionary, each!(Long, |_, facts| facts.sequence, ignore)),
    Column::new(["dot1qCustomerVlanId", "", "inner_vlan", ""], Dictionary,
        each!(Int, |record, _| record.key.inner_vlan.into(), |row, vlan| row.record.key.inner_vlan = narrow(row, vlan))),
    Column::new(["applicationProtocols", "", "", ""], Dictionary,
        MaybeText(|record| application(record).and_then(|application| application.alpn.as_deref()),
            |row, ids| extras(row).application.get_or_insert_default().alpn = Some(ids.to_owned()))),
];
