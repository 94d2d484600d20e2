//! Writes segments and reads them again: at their limits, and with a failing disk.

use crate::schema::COLUMNS;
use crate::{Error, ParquetPlan, SegmentReader, SegmentStore, segments};
use parquet::basic::BoundaryOrder;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::serialized_reader::ReadOptionsBuilder;
use parquet::file::statistics::Statistics;
use proptest::prelude::*;
use quaff_flow::collector::{FlowSum, RecordStore, StoreOutcome};
use quaff_flow::export::{Names, Scene};
use quaff_flow::ledger::FlowLedger;
use quaff_flow::plan::ExtrasPlan;
use quaff_flow::record::{Application, Direction, EndReason, Extras, FlowRecord, InitiatorRule, RecordKey};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// 2026-11-23 08:14:05 UTC, ns since 1970.
const START_NS: u64 = 1_795_421_645_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;
const BOOT_US: u64 = 1_795_421_000_000_000;

fn record(number: u32) -> FlowRecord {
    let first_ns = START_NS + u64::from(number) * 1_000_000;
    let forward = Direction {
        packets: 3,
        bytes: 300 + u64::from(number % 7),
        first_ns,
        last_ns: first_ns + 5_000_000,
        tcp_flags: 0x1b,
        tos: 0,
        ttl_min: 64,
        ttl_max: 64,
    };
    FlowRecord {
        key: RecordKey {
            source: IpAddr::from([10, 0, (number >> 8) as u8, number as u8]),
            destination: "2001:db8::1".parse().expect("an address"),
            source_port: number as u16,
            destination_port: 443,
            protocol: 6,
            icmp_type_code: 0,
            vlan: 7,
            inner_vlan: 0,
            mpls_label: 0,
            interface: 0,
            tos: 0,
            tunnel: 0,
        },
        forward,
        reverse: Direction { packets: 2, bytes: 99, ..forward },
        initiator: InitiatorRule::Syn,
        end_reason: EndReason::EndOfFlow,
        is_continued: false,
        extras: None,
    }
}

fn records(count: u32) -> Vec<FlowRecord> {
    (0..count).map(record).collect()
}

fn plan(dir: &TempDir) -> ParquetPlan {
    ParquetPlan::new(dir.path().join("flows"), "probe 7".into(), BOOT_US)
}

fn opened(plan: ParquetPlan) -> SegmentStore {
    let mut store = SegmentStore::new(plan);
    store.open(Scene::default()).expect("a folder");
    store
}

fn read(path: &Path) -> Vec<FlowRecord> {
    let mut found = Vec::new();
    let segment = SegmentReader::open(path).expect("a segment");
    segment.verify().expect("the digest");
    segment.read(&mut found).expect("records");
    assert_eq!(found.len() as u64, segment.ledger().kept.records);
    found
}

fn all(dir: &TempDir) -> Vec<PathBuf> {
    segments(&dir.path().join("flows")).expect("a folder")
}

fn added(outcomes: &[StoreOutcome]) -> (u64, u64, u64) {
    outcomes.iter().fold((0, 0, 0), |(kept, missed, files), outcome| {
        (kept + outcome.kept.records, missed + outcome.missed.records, files + outcome.files)
    })
}

/// The part of a record that the columns keep.
fn kept(record: &FlowRecord, plan: ExtrasPlan) -> FlowRecord {
    let mut kept = record.clone();
    let us = |ns: u64| ns / 1000 * 1000;
    let (first_ns, last_ns) = (us(record.first_ns()), us(record.last_ns()));
    let tos = if record.forward.packets > 0 { record.forward.tos } else { record.key.tos };
    for direction in [&mut kept.forward, &mut kept.reverse] {
        let times = if direction.packets > 0 { (first_ns, last_ns) } else { (0, 0) };
        *direction = Direction {
            packets: direction.packets,
            bytes: direction.bytes,
            tcp_flags: direction.tcp_flags,
            first_ns: times.0,
            last_ns: times.1,
            ..Direction::default()
        };
    }
    (kept.key.tos, kept.forward.tos) = (tos, tos);
    kept.extras = record.extras.as_deref().and_then(|extras| {
        let mut kept = Extras { application: extras.application.clone(), ..Extras::default() };
        let is_tcp = plan.tcp && record.key.protocol == 6;
        if is_tcp {
            for (kept, of) in [(&mut kept.forward, &extras.forward), (&mut kept.reverse, &extras.reverse)] {
                kept.lost_bytes = of.lost_bytes;
                kept.retransmitted_packets = of.retransmitted_packets;
            }
            if let (Some(server), Some(client)) = (extras.server_rtt_ns, extras.client_rtt_ns) {
                (kept.server_rtt_ns, kept.client_rtt_ns) = (Some(us(server + client)), Some(0));
            }
        }
        (is_tcp || kept.application.is_some()).then(|| Box::new(kept))
    });
    kept
}

fn direction() -> impl Strategy<Value = Direction> {
    let numbers = (0..1_u64 << 50, 0..HOUR_NS, 0..HOUR_NS, any::<[u8; 2]>());
    (0..1_u64 << 50, numbers).prop_map(|(packets, (bytes, first, length, [tcp_flags, tos]))| {
        let times = if packets > 0 { (START_NS + first, START_NS + first + length) } else { (0, 0) };
        Direction {
            packets,
            bytes,
            first_ns: times.0,
            last_ns: times.1,
            tcp_flags,
            tos,
            ttl_min: 1,
            ttl_max: 2,
        }
    })
}

fn any_extras() -> impl Strategy<Value = Option<Box<Extras>>> {
    let application = (proptest::sample::select(vec!["tls", "dns", "ssh"]), any::<Option<String>>());
    let numbers = (0..1_u64 << 40, 0..1_u32 << 31, any::<[bool; 2]>(), 0..1_800_000_000_000_u64);
    let made = (proptest::option::of(application), numbers).prop_map(|(application, of)| {
        let (lost, packets, has_rtt, rtt_ns) = of;
        let mut extras = Extras::default();
        (extras.forward.lost_bytes, extras.reverse.lost_bytes) = (lost, lost / 3);
        (extras.forward.retransmitted_packets, extras.reverse.retransmitted_packets) = (packets, packets / 2);
        extras.server_rtt_ns = has_rtt[0].then_some(rtt_ns);
        extras.client_rtt_ns = has_rtt[1].then_some(rtt_ns / 7);
        extras.application = application.map(|(name, server_name)| Application {
            protocol: name,
            name,
            alpn: server_name.clone().filter(|text| text.len() % 2 == 0),
            server_name,
        });
        Box::new(extras)
    });
    proptest::option::of(made)
}

fn any_record() -> impl Strategy<Value = FlowRecord> {
    let ends = prop_oneof![
        any::<[[u8; 4]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
        any::<[[u8; 16]; 2]>().prop_map(|ends| ends.map(IpAddr::from)),
    ];
    let key = (ends, any::<[u16; 5]>(), prop_oneof![Just(6), any::<u8>()], any::<[u32; 2]>());
    let rest = (0..6_usize, 0..5_usize, any::<bool>(), any_extras());
    (key, direction(), direction(), rest).prop_map(|(key, forward, reverse, rest)| {
        let (
            ends,
            [source_port, destination_port, icmp_type_code, vlan, interface],
            protocol,
            [label, tunnel],
        ) = key;
        let (rule, reason, is_continued, extras) = rest;
        use EndReason::{Active, EndOfFlow, Forced, Idle, LackOfResources};
        use InitiatorRule::{First, Icmp, Ports, Sender, Syn, SynAck};
        FlowRecord {
            key: RecordKey {
                source: ends[0],
                destination: ends[1],
                source_port,
                destination_port,
                protocol,
                icmp_type_code,
                vlan,
                inner_vlan: vlan >> 3,
                mpls_label: label >> 12,
                interface,
                tos: label as u8,
                tunnel,
            },
            forward,
            reverse,
            initiator: [Sender, Syn, SynAck, Icmp, Ports, First][rule],
            end_reason: [Idle, Active, EndOfFlow, Forced, LackOfResources][reason],
            is_continued,
            extras,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_read_as_they_were_written(
        records in proptest::collection::vec(any_record(), 0..300),
        names in proptest::sample::select(vec![Names::Ipfix, Names::Nprobe, Names::Zeek, Names::Ecs]),
        tcp in any::<bool>(),
        rows_max in 30..200_u64,
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let extras = ExtrasPlan { tcp, application: true, ..ExtrasPlan::default() };
        let mut store = opened(ParquetPlan { names, extras, rows_max, ..plan(&dir) });
        let outcomes = [store.take(&records, START_NS), store.finish()];
        let found: Vec<_> = all(&dir).iter().flat_map(|path| read(path)).collect();
        let expected: Vec<_> = records.iter().map(|record| kept(record, extras)).collect();
        prop_assert_eq!(found, expected);
        let (kept, missed, files) = added(&outcomes);
        prop_assert_eq!((kept, missed), (records.len() as u64, 0));
        prop_assert_eq!(files, (records.len() as u64).div_ceil(rows_max).max(1));
    }
}

/// A row group fills up in the middle of a batch, and the file has several.
#[test]
fn several_row_groups_are_one_segment() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = opened(plan(&dir));
    let part = records(90_001);
    let mut outcomes: Vec<_> = (0..6).map(|_| store.take(&part, START_NS)).collect();
    outcomes.push(store.finish());
    assert_eq!(added(&outcomes), (6 * 90_001, 0, 1));
    let path = &all(&dir)[0];
    let file = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
    assert_eq!(file.num_row_groups(), 3);
    let expected: Vec<_> = part.iter().map(|record| kept(record, ExtrasPlan::default())).collect();
    assert!(read(path).chunks(part.len()).all(|chunk| chunk == expected));
    let ledger = SegmentReader::open(path).expect("a segment").ledger().clone();
    assert_eq!(ledger.kept.packets, 6 * 90_001 * 5);
    assert_eq!(ledger.first_packet_us, START_NS / 1000);
    assert_eq!(ledger.last_packet_us, (START_NS + 90_000 * 1_000_000 + 5_000_000) / 1000);
}

#[test]
fn segments_end_by_rows_hour_time_and_size_and_their_numbers_have_no_gap() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = opened(ParquetPlan { rows_max: 10, ..plan(&dir) });
    store.take(&records(25), START_NS);
    store.take(&records(3), START_NS + HOUR_NS);
    store.finish();
    let names: Vec<_> = all(&dir).iter().map(|path| relative(&dir, path)).collect();
    let expected = [(8, 1), (8, 2), (8, 3), (9, 4)];
    let expected = expected.map(|(hour, number)| {
        format!("flows/dt=2026-11-23/hour={hour:02}/probe_7-{BOOT_US}-{number:06}.parquet")
    });
    assert_eq!(names, expected);
    let rows: Vec<_> = all(&dir).iter().map(|path| read(path).len()).collect();
    assert_eq!(rows, [10, 10, 5, 3]);

    let by_time = tempfile::tempdir().expect("a folder");
    let mut store = opened(ParquetPlan { every: Duration::ZERO, ..plan(&by_time) });
    assert_eq!(added(&[store.take(&records(2), START_NS), store.tick()]), (2, 0, 1));
    assert_eq!(added(&[store.tick(), store.finish()]), (0, 0, 0));

    let by_size = tempfile::tempdir().expect("a folder");
    let mut store = opened(ParquetPlan { bytes_max: 1, ..plan(&by_size) });
    let outcome = store.take(&records(crate::schema::GROUP_ROWS as u32 + 5), START_NS);
    assert_eq!(added(&[outcome, store.finish()]), (crate::schema::GROUP_ROWS as u64 + 5, 0, 2));
}

fn relative(dir: &TempDir, path: &Path) -> String {
    path.strip_prefix(dir.path()).expect("in the folder").display().to_string()
}

/// The counters of all segments add up to those of the meter and the sink, also if no rows are left for the last
/// one.
#[test]
fn ledgers_have_what_was_missed_and_ignored() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = opened(ParquetPlan { rows_max: 4, ..plan(&dir) });
    let mut meter = FlowLedger::default();
    (meter.ignored.not_ip.packets, meter.seen.packets) = (5, 5);
    store.ledger(&meter);
    store.missed(FlowSum { records: 2, packets: 20, bytes: 200 });
    store.take(&records(4), START_NS);
    (meter.ignored.not_ip.packets, meter.ignored.truncated.bytes) = (6, 40);
    store.ledger(&meter);
    store.missed(FlowSum { records: 3, packets: 21, bytes: 201 });
    store.finish();
    let ledgers =
        all(&dir).into_iter().map(|path| SegmentReader::open(&path).expect("a segment").ledger().clone());
    let ledgers: Vec<_> = ledgers.collect();
    let found: Vec<_> = ledgers
        .iter()
        .map(|ledger| {
            let ignored = ledger.ignored;
            let numbers = [ledger.sequence, ledger.kept.records, ledger.missed.records, ledger.missed.bytes];
            (numbers, ignored.not_ip.packets, ignored.truncated.bytes, ledger.is_conserved)
        })
        .collect();
    assert_eq!(found, [([1, 4, 2, 200], 5, 0, true), ([2, 0, 1, 1], 1, 40, false)]);
    assert_eq!((ledgers[1].first_packet_us, ledgers[1].last_packet_us), (0, 0));
    assert_eq!((ledgers[0].probe.as_str(), ledgers[0].boot), ("probe 7", BOOT_US));
}

/// A lost segment leaves a gap in the numbers, its records are counted, and writing is retried.
#[test]
fn a_file_is_never_replaced_and_the_loss_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let hour = Duration::from_secs(3600);
    let mut store = opened(ParquetPlan { rows_max: 2, retry: hour, ..plan(&dir) });
    let folder = dir.path().join("flows/dt=2026-11-23/hour=08");
    std::fs::create_dir_all(&folder).expect("a folder");
    let taken = folder.join(format!("probe_7-{BOOT_US}-000001.parquet"));
    std::fs::write(&taken, "another file").expect("written");
    let first = store.take(&records(3), START_NS);
    assert_eq!((first.missed.records, first.kept.records, first.errors), (3, 0, 1));
    let failure = first.failure.expect("a failure");
    assert!(failure.contains("rename") && failure.contains("File exists"), "{failure}");
    assert_eq!(std::fs::read_to_string(&taken).expect("the file"), "another file");
    // During the wait records are lost without an attempt.
    assert_eq!(added(&[store.take(&records(1), START_NS)]), (0, 1, 0));
    // Without a wait the next segment is attempted at once.
    let mut store = opened(ParquetPlan { rows_max: 2, retry: Duration::ZERO, ..plan(&dir) });
    assert_eq!(added(&[store.take(&records(3), START_NS)]), (0, 3, 0));
    store.missed(FlowSum { records: 4, packets: 20, bytes: 1 });
    assert_eq!(added(&[store.take(&records(2), START_NS)]), (2, 0, 1));
    std::fs::remove_file(&taken).expect("removed");
    let ledger = SegmentReader::open(&all(&dir)[0]).expect("a segment").ledger().clone();
    assert_eq!((ledger.sequence, ledger.missed.records), (2, 4));
    let left: Vec<_> = std::fs::read_dir(&folder).expect("the folder").flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A file left by a crash does not look like a segment, and the probe's next run removes it unless it is being
/// written.
#[test]
fn the_rest_of_a_crash_is_no_segment_and_is_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut crashed = opened(plan(&dir));
    crashed.take(&records(5), START_NS);
    let folder = dir.path().join("flows/dt=2026-11-23/hour=08");
    let part = folder.join(format!(".probe_7-{BOOT_US}-000001.parquet.part"));
    assert!(part.is_file() && all(&dir).is_empty());
    let age = |path: &Path| {
        let file = File::options().write(true).open(path).expect("the file");
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(100)).expect("a time");
    };
    age(&part);
    drop(opened(ParquetPlan { boot_us: BOOT_US + 1, ..plan(&dir) }));
    assert!(part.is_file(), "it is still written");
    drop(crashed);
    assert!(part.is_file());
    age(&part);
    drop(opened(ParquetPlan { probe: "another".into(), ..plan(&dir) }));
    assert!(part.is_file(), "of another probe");
    drop(opened(ParquetPlan { boot_us: BOOT_US + 1, ..plan(&dir) }));
    assert!(!part.is_file());
}

/// Values that no meter produces neither overflow nor pass.
#[test]
fn numbers_outside_the_range_of_their_field_are_wrong() {
    use crate::schema::{COLUMNS, Row, Values};
    let mut signed = 0;
    for column in &COLUMNS {
        let name = column.name(Names::Ipfix);
        for number in [-1, i64::MIN, i64::MAX] {
            let mut row = Row::new();
            match &column.values {
                Values::Time(_, set) => set(&mut row, number),
                Values::MaybeLong(_, set) if name.contains("ostOctets") => set(&mut row, number.min(-1)),
                Values::MaybeInt(_, set) if name.contains("etransmitted") || name.starts_with("rtt") => {
                    set(&mut row, (number as i32).min(-1));
                }
                _ => continue,
            }
            signed += 1;
            assert!(row.is_wrong, "{number} as {name}");
        }
    }
    assert_eq!(signed, 3 * 7);
}

#[test]
fn files_of_others_and_damaged_ones_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = |path: &Path| match SegmentReader::open(path).map(|_| ()) {
        Err(Error::Foreign { words, .. }) => words,
        other => panic!("{other:?}"),
    };
    let mut store = opened(plan(&dir));
    store.take(&records(5), START_NS);
    store.finish();
    let path = all(&dir).remove(0);
    let ours = std::fs::read(&path).expect("the file");

    let changed = |from: &str, to: &str| {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let changed = dir.path().join("changed.parquet");
        let mut bytes = ours.clone();
        for at in 0..bytes.len() - from.len() {
            if &bytes[at..at + from.len()] == from {
                bytes[at..at + from.len()].copy_from_slice(to);
            }
        }
        std::fs::write(&changed, bytes).expect("written");
        changed
    };
    let found = words(&changed("quaff.schema", "other.schema"));
    assert!(
        found.contains("key quaff.schema is missing") && found.contains("written by quaff version"),
        "{found}"
    );
    let found = words(&changed("flowEndReason", "flowEndSeason"));
    assert!(found.contains("column 8 is flowEndSeason (INT32), not flowEndReason (INT32)"), "{found}");
    let found = words(&changed("\u{c}quaff.schema\u{18}\u{1}1", "\u{c}quaff.schema\u{18}\u{1}2"));
    assert!(found.contains("version is 2; this quaff reads version 1"), "{found}");

    let short = dir.path().join("short.parquet");
    std::fs::write(&short, &ours[..ours.len() - 9]).expect("written");
    let error = SegmentReader::open(&short).map(|_| ()).expect_err("it is cut").to_string();
    assert!(error.starts_with("cannot read ") && error.contains("short.parquet"), "{error}");
    let mut damaged = ours.clone();
    damaged[60] ^= 1;
    std::fs::write(&short, damaged).expect("written");
    let error = SegmentReader::open(&short).and_then(|segment| segment.verify()).expect_err("damage");
    assert!(error.to_string().contains("SHA-256 differs"), "{error}");
}

/// If any byte of a segment changes, it is refused or its records are unchanged; nothing panics.
#[test]
fn a_changed_byte_is_refused_or_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = opened(plan(&dir));
    store.take(&records(40), START_NS);
    store.finish();
    let path = all(&dir).remove(0);
    let (ours, expected) = (std::fs::read(&path).expect("the file"), read(&path));
    let changed = dir.path().join("changed.parquet");
    let mut refused = 0;
    for at in 0..ours.len() {
        let mut bytes = ours.clone();
        bytes[at] ^= [0xff, 1, 0x80][at % 3];
        std::fs::write(&changed, bytes).expect("written");
        let mut found = Vec::new();
        let done = SegmentReader::open(&changed).and_then(|segment| {
            segment.verify()?;
            segment.read(&mut found)
        });
        refused += usize::from(done.is_err());
        assert!(done.is_err() || found == expected, "byte {at}");
    }
    assert!(refused > ours.len() / 2, "{refused} of {}", ours.len());
}

/// The index of a column.
fn place(name: &str) -> usize {
    COLUMNS.iter().position(|column| column.name(Names::Ipfix) == name).expect("a column")
}

/// Two pages of rows: smallest and largest value are known for each page, and the bloom filter rejects most absent
/// addresses.
#[test]
fn dictionaries_have_statistics_indexes_and_bloom_filters() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut rows = records(70_000);
    for (number, row) in (0_u16..).zip(rows.iter_mut().skip(65_536)) {
        (row.key.vlan, row.key.destination_port) = (8, number % 3);
    }
    let mut store = opened(plan(&dir));
    store.take(&rows, START_NS);
    store.finish();
    let path = &all(&dir)[0];
    assert_eq!(read(path), rows.iter().map(|row| kept(row, ExtrasPlan::default())).collect::<Vec<_>>());
    let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
    let options = ReadOptionsBuilder::new().with_page_index().with_reader_properties(properties).build();
    let file = File::open(path).expect("a file");
    let file = SerializedFileReader::new_with_options(file, options).expect("Parquet");
    let (metadata, group) = (file.metadata(), file.get_row_group(0).expect("a group"));
    let statistics = |name: &str| metadata.row_group(0).column(place(name)).statistics().expect(name).clone();
    let ints = |name: &str| match statistics(name) {
        Statistics::Int32(found) => {
            (found.min_opt().copied(), found.max_opt().copied(), found.null_count_opt())
        }
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(ints("vlanId"), (Some(7), Some(8), Some(0)));
    assert_eq!(ints("destinationTransportPort"), (Some(0), Some(443), Some(0)));
    let Statistics::ByteArray(texts) = statistics("sourceAddress") else { panic!("no texts") };
    let ends = [texts.min_opt(), texts.max_opt()]
        .map(|end| end.expect("an end").as_utf8().expect("text").to_owned());
    assert_eq!(ends, ["10.0.0.0", "10.0.99.99"]);
    let Statistics::Int64(boots) = statistics("segmentBoot") else { panic!("no numbers") };
    assert_eq!((boots.min_opt(), boots.max_opt()), (Some(&(BOOT_US as i64)), Some(&(BOOT_US as i64))));

    let indexes = metadata.page_index_for_row_group(0);
    let pages = |name: &str| match indexes.column_index(place(name)) {
        Some(ColumnIndexMetaData::INT32(index)) => (index.min_values().to_vec(), index.max_values().to_vec()),
        other => panic!("{name}: {other:?}"),
    };
    let order =
        |name: &str| indexes.column_index(place(name)).and_then(ColumnIndexMetaData::get_boundary_order);
    assert_eq!(pages("vlanId"), (vec![7, 8], vec![7, 8]));
    assert_eq!(pages("destinationTransportPort"), (vec![443, 0], vec![443, 2]));
    assert_eq!(order("vlanId"), Some(BoundaryOrder::ASCENDING));
    assert_eq!(order("destinationTransportPort"), Some(BoundaryOrder::DESCENDING));
    for column in 0..COLUMNS.len() {
        let first_rows =
            indexes.page_locations(column).map(|all| all.iter().map(|page| page.first_row_index).collect());
        assert_eq!(first_rows, Some(vec![0, 65_536]), "{column}");
    }
    let source = group.get_column_bloom_filter(place("sourceAddress")).expect("a filter");
    assert!(rows.iter().all(|row| source.check(&row.key.source.to_string().as_str())));
    let absent = (0..10_000).filter(|number| source.check(&format!("192.0.2.{number}").as_str())).count();
    assert!(absent < 300, "{absent} of 10,000 absent addresses pass");
    assert!(group.get_column_bloom_filter(place("destinationAddress")).is_some());
    assert!(group.get_column_bloom_filter(place("probe")).is_none());
}
