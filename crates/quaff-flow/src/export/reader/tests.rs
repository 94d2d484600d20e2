//! Files of the encoder come back, and any other bytes are an error with a place.

use super::super::samples::{START_NS, any_record, biflow, record};
use super::super::{
    DEFAULT_FILE, EncoderPlan, FileEncoder, Scene, Statistics, Template, Version, withdrawal,
};
use super::*;
use crate::ledger::{Count, FlowLedger, Ignored};
use crate::record::{Application, Direction, Extras, FlowRecord};
use crate::summary::By;
use proptest::prelude::*;

/// A file of records, and the ledger of their meter at its end.
fn file_of(template: &str, records: &[FlowRecord]) -> Vec<u8> {
    let template = Template::parse(template).unwrap();
    let plan = EncoderPlan { template, boot_ns: START_NS, ..EncoderPlan::new(Version::Ipfix) };
    let mut encoder = FileEncoder::new(plan, Scene::default()).unwrap();
    let mut bytes = Vec::new();
    encoder.begin(START_NS, &mut bytes);
    for (at, record) in records.iter().enumerate() {
        encoder.push(record, START_NS, &mut bytes);
        if at % 7 == 6 {
            encoder.flush(START_NS, &mut bytes);
        }
    }
    let ignored = Ignored { not_ip: Count { packets: 5, bytes: 300 }, ..Ignored::default() };
    let ledger = FlowLedger { ignored, ..FlowLedger::default() };
    encoder.finish(Statistics { ledger, ..Statistics::default() }, START_NS, &mut bytes);
    bytes
}

/// The results of a file: its batches, its mistakes, its counters.
fn read_file(bytes: &[u8]) -> (Vec<IpfixBatch>, Vec<IpfixError>, IpfixTotals) {
    let (mut reader, mut rest) = (IpfixReader::default(), bytes);
    let (mut batches, mut errors) = (Vec::new(), Vec::new());
    while let Some(header) = rest.first_chunk::<IPFIX_HEADER_BYTES>() {
        let length = match reader.message_bytes(header) {
            Ok(length) => length,
            Err(error) => {
                errors.push(error);
                break;
            }
        };
        let Some((message, after)) = rest.split_at_checked(length) else { break };
        rest = after;
        match reader.read(message) {
            Ok(found) => batches.extend(found),
            Err(error) => errors.push(error),
        }
        assert_eq!(reader.position(), (bytes.len() - rest.len()) as u64);
    }
    (batches, errors, reader.finish())
}

fn records_of(batches: &[IpfixBatch]) -> Vec<FlowRecord> {
    batches.iter().flat_map(|batch| batch.records.clone()).collect()
}

/// The part of a record that the fields of a file have.
fn kept(record: &FlowRecord) -> FlowRecord {
    let mut kept = FlowRecord { extras: None, ..record.clone() };
    let (first_ns, last_ns) = (record.first_ns(), record.last_ns());
    let tos = if record.forward.packets > 0 { record.forward.tos } else { record.key.tos };
    for direction in [&mut kept.forward, &mut kept.reverse] {
        let Direction { packets, bytes, tcp_flags, .. } = *direction;
        let times = if packets > 0 { (first_ns, last_ns) } else { (0, 0) };
        *direction = Direction {
            packets,
            bytes,
            tcp_flags,
            first_ns: times.0,
            last_ns: times.1,
            ..Direction::default()
        };
    }
    (kept.key.tos, kept.forward.tos) = (tos, tos);
    if matches!(record.key.protocol, 1 | 58) {
        (kept.key.source_port, kept.key.destination_port) = (0, 0);
    }
    kept
}

fn sorted(records: Vec<FlowRecord>) -> Vec<String> {
    let mut words: Vec<_> = records.iter().map(|record| format!("{record:?}")).collect();
    words.sort();
    words
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn records_of_a_file_come_back(records in proptest::collection::vec(any_record(), 0..60)) {
        let (batches, errors, totals) = read_file(&file_of(DEFAULT_FILE, &records));
        prop_assert_eq!(errors, []);
        let expected = records.iter().map(kept).collect();
        prop_assert_eq!(sorted(records_of(&batches)), sorted(expected));
        let none: &[By] = &[By::Application, By::Server, By::Alpn];
        prop_assert!(batches.iter().all(|batch| *batch.lacking == *none));
        prop_assert_eq!(totals.found.records, records.len() as u64);
        prop_assert_eq!((totals.missing_records, totals.missing_packets, totals.open_runs), (0, 0, 0));
        prop_assert_eq!(totals.ledger.ignored.not_ip, Count { packets: 5, bytes: 300 });
        prop_assert!(totals.has_biflows);
    }

    /// Bytes that were changed, removed or inserted are records or mistakes, whose places are in the file.
    #[test]
    fn damage_is_an_error_with_a_place(
        records in proptest::collection::vec(any_record(), 1..20),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let template = format!("{DEFAULT_FILE} %applicationName %quaffServerName");
        let mut bytes = file_of(&template, &records);
        for (place, byte, kind) in changes {
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let (batches, errors, totals) = read_file(&bytes);
        prop_assert!(errors.iter().all(|error| error.at <= bytes.len() as u64 && !error.what.is_empty()));
        prop_assert_eq!(totals.found.records, records_of(&batches).len() as u64);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut message = vec![0, 10, 0, 0];
        message.extend(&bytes);
        message.resize(message.len().max(20), 0);
        let length = message.len() as u16;
        message[2..4].copy_from_slice(&length.to_be_bytes());
        let _ = read_file(&message);
        let _ = (read_file(&bytes), is_ipfix(&bytes));
    }
}

/// The records before a cut are there, and the run has no end.
#[test]
fn a_file_that_is_cut_is_a_shorter_one() {
    let records: Vec<_> = (0..30).map(biflow).collect();
    let bytes = file_of(DEFAULT_FILE, &records);
    assert!(is_ipfix(&bytes));
    let mut last = 0;
    for length in (0..bytes.len()).step_by(5) {
        let (batches, errors, totals) = read_file(&bytes[..length]);
        let found = records_of(&batches).len();
        assert!(errors.is_empty() && found >= last, "{length}: {errors:?}");
        assert!(totals.open_runs == 1 || found == records.len() || totals.found.records == 0, "{length}");
        last = found;
    }
    assert_eq!(last, records.len());
}

/// Begin and length of each message.
fn messages(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        found.push(at..at + length);
        at += length;
    }
    found
}

/// The records of a message that is not there, and of one with a mistake, are counted by the sequence of the others.
#[test]
fn records_that_a_file_lacks_are_counted() {
    let records: Vec<_> = (0..30).map(biflow).collect();
    let whole = file_of(DEFAULT_FILE, &records);
    let places = messages(&whole);
    let place = places[places.len() - 4].clone();
    let mut removed = whole.clone();
    removed.drain(place.clone());
    let (batches, errors, totals) = read_file(&removed);
    assert_eq!((records_of(&batches).len(), errors, totals.missing_records), (23, vec![], 7));
    let mut damaged = whole.clone();
    // The length of its first set.
    damaged[place.start + 18..place.start + 20].copy_from_slice(&[255, 255]);
    let (batches, errors, totals) = read_file(&damaged);
    assert_eq!((records_of(&batches).len(), totals.missing_records), (23, 7));
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].at, place.start as u64 + 20);
    assert!(errors[0].to_string().contains("a set has 65531 bytes"), "{errors:?}");
    // Files one after the other are a file of two runs.
    let (batches, errors, totals) = read_file(&[&whole[..], &whole].concat());
    assert_eq!((records_of(&batches).len(), errors), (60, vec![]));
    assert_eq!((totals.missing_records, totals.open_runs, totals.ledger.ignored.not_ip.packets), (0, 0, 10));
}

/// A message of one set.
fn message(set: u16, words: &[u16]) -> Vec<u8> {
    let length = 20 + 2 * words.len() as u16;
    let header = [10, length, 0, 0, 0, 0, 0, 0, set, length - 16];
    header.iter().chain(words).flat_map(|word| word.to_be_bytes()).collect()
}

#[test]
fn mistakes_are_named_with_their_place() {
    let template = message(2, &[256, 4, 1, 4, 2, 4, 153, 8, 96, 65535]);
    let before = template.len() as u64;
    let many: Vec<u16> = [300, 2000].into_iter().chain((0..2000).flat_map(|_| [4, 1])).collect();
    for (bytes, at, words) in [
        (message(2, &[256, 1, 8, 5]), 24, "sourceIPv4Address with a length of 5"),
        (message(2, &[256, 2, 4, 1]), 28, "an element has 2 bytes, and 0 are left"),
        (message(2, &[255, 1, 4, 1]), 20, "a template of number 255"),
        (message(2, &[256, 1, 4, 0]), 24, "a field with a length of 0"),
        (message(2, &many), 24, "a template of 2000 fields"),
        (message(7, &[0, 0]), 16, "sets of number 7 do not exist"),
        (message(256, &[0, 0]), 20, "records of template 256, which is not there before them"),
        (
            [template.clone(), message(256, &[0x0901; 9])].concat(),
            before + 37,
            "a field has 9 bytes, and 1 are left",
        ),
        (
            [message(2, &[256, 1, 4, 1]), message(256, &[1])].concat(),
            28 + 20,
            "without packetDeltaCount, octetDeltaCount",
        ),
        (vec![0, 9, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0, "its version is 9"),
        (vec![0, 10, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0, "has no room for a set"),
    ] {
        let (batches, errors, _) = read_file(&bytes);
        let error = errors.first().unwrap_or_else(|| panic!("{words}: {batches:?}"));
        assert!(error.at == at && error.what.contains(words), "{words}: {error}");
    }
    // A template of another exporter: short integers, ms, padding, and an element that is skipped.
    let template = message(2, &[256, 6, 1, 4, 2, 2, 153, 8, 9999, 2, 4, 1, 210, 1]);
    let data = message(256, &[0, 500, 3, 0, 0, 0, 1500, 77, 0x0600, 0]);
    let (batches, errors, _) = read_file(&[template, data].concat());
    assert_eq!(errors, []);
    let record = &records_of(&batches)[0];
    assert_eq!(
        (record.packets(), record.bytes(), record.last_ns(), record.key.protocol),
        (3, 500, 1_500_000_000, 6)
    );
    assert!(batches[0].lacking.contains(&By::Source) && !batches[0].lacking.contains(&By::Protocol));
}

/// A withdrawn template is gone, and templates have a limit.
#[test]
fn templates_have_a_limit() {
    let template = |id: u16| message(2, &[id, 3, 1, 4, 2, 4, 153, 8]);
    let data = message(256, &[0, 100, 0, 2, 0, 0, 0, 0]);
    let read = |files: &[Vec<u8>]| read_file(&files.concat()).1;
    assert_eq!(read(&[template(256), data.clone(), template(256), data.clone()]), []);
    assert_eq!(read(&[template(256), withdrawal(0, 0), data.clone()]).len(), 1);
    assert_eq!(read(&[template(256), message(2, &[256, 0]), data.clone()]).len(), 1);
    assert_eq!(read(&[template(256), message(3, &[3, 0]), data]).len(), 0);
    let all: Vec<_> = (256..256 + 4096).map(template).collect();
    assert_eq!(read(&all), []);
    assert_eq!(read(&[all, vec![template(9000)]].concat()).len(), 1);
}

/// Names of applications, and the times and counts of one direction in a record.
#[test]
fn names_and_records_of_one_direction_come_back() {
    let server_name = Some("flows.example".to_owned());
    let application = Application { protocol: "tls", name: "tls", server_name, alpn: Some("h2".into()) };
    let mut named = record(1);
    named.key.protocol = 6;
    named.extras = Some(Box::new(Extras { application: Some(application), ..Extras::default() }));
    let records = [named, record(2)];
    let template = format!("{DEFAULT_FILE} %applicationName %quaffServerName %quaffApplicationProtocols");
    let (batches, errors, _) = read_file(&file_of(&template, &records));
    let found = records_of(&batches);
    assert!(errors.is_empty() && batches.iter().all(|batch| batch.lacking.is_empty()), "{errors:?}");
    assert_eq!(
        found.iter().map(|record| record.extras.clone()).collect::<Vec<_>>(),
        [records[0].extras.clone(), None]
    );
    // Without a field of the other direction each direction is a record.
    let plan = "%IPV4_SRC_ADDR %IPV4_DST_ADDR %L4_SRC_PORT %L4_DST_PORT %PROTOCOL %IN_PKTS %IN_BYTES %FIRST_SWITCHED \
        %LAST_SWITCHED";
    let (batches, errors, totals) = read_file(&file_of(plan, &[biflow(1)]));
    let found = records_of(&batches);
    assert!(errors.is_empty() && !totals.has_biflows && found.len() == 2, "{errors:?}");
    assert_eq!((found[0].packets(), found[1].packets(), found[1].key.destination_port), (3, 5, 40_001));
    let ms = |ns: u64| ns / 1_000_000;
    assert_eq!(
        found.iter().map(|record| ms(record.first_ns())).collect::<Vec<_>>(),
        [1, 2].map(|n| ms(START_NS) + n)
    );
    assert!(batches[0].lacking.contains(&By::Vlan) && !batches[0].lacking.contains(&By::Flow));
}
